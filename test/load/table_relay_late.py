#!/usr/bin/env python3
"""Rows of an outbox that become visible after later ones; step by step, by a model.

    table_relay_late.py ORIGIN TARGET SEED STEPS

Ten sessions write rows, commit and roll back at random, while a relay in this process makes
its steps in between. It never reads everything again (no sweep), so each row has to be
found by what it knows of open transactions. After each step: no row that is not committed
has an id that the relay takes for settled. At the end: each committed row is one task,
those of a transaction in their order, and those of one after those that were committed
before it had begun. Prints what is wrong, and how much came late.
"""

import argparse
import json
import os
import random
import sys
import time

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../clients/relay"))
import outbox_lines  # noqa: E402
import table_relay  # noqa: E402

outbox_lines.SWEEP = float("inf")
GROUPS = 3


class Writer:
    def __init__(self, conninfo):
        self.connection = psycopg.connect(conninfo)
        self.rows = []          # (id, n, group) of the open transaction
        self.began = None

    def write(self, model):
        if not self.rows:
            self.began = model.clock
        for _ in range(model.random.randint(1, 3)):
            model.n += 1
            group = model.random.randrange(GROUPS)
            row, = self.connection.execute("INSERT INTO fairq_relay.outbox (queue, payload, group_key) VALUES ('letters', %s::text::jsonb, %s) RETURNING id",
                                           (model.n, "g%d" % group)).fetchone()
            self.rows.append((row, model.n, group))

    def end(self, model):
        if model.random.random() < 0.2:
            self.connection.rollback()
        else:
            self.connection.commit()
            model.clock += 1
            model.committed += [(self.began, model.clock, *row) for row in self.rows]
            model.late += any(row < model.highest for row, _, _ in self.rows)
            model.highest = max([model.highest] + [row for row, _, _ in self.rows])
        self.rows = []


class Model:
    def __init__(self, origin, target, seed):
        self.random = random.Random(seed)
        self.origin, self.target = origin, target
        self.writers = [Writer(origin) for _ in range(10)]
        self.n = self.clock = self.highest = self.late = 0
        self.committed = []     # (clock when its transaction began, when it was committed, id, n, group)
        self.wrong = []
        self.relay = table_relay.TableRelay(argparse.Namespace(
            source=origin, to=target, batch=self.random.choice((1, 7, 100)), remember="1 day", poll=1.0, timeout=30.0, once=False))

    def check_settled(self):
        open_ids = [row for writer in self.writers for row, _, _ in writer.rows]
        if open_ids and self.relay.reading.settled >= min(open_ids):
            self.wrong.append("%d is taken for settled, and %d is not committed" % (self.relay.reading.settled, min(open_ids)))

    def step(self):
        action = self.random.random()
        writer = self.random.choice(self.writers)
        if action < 0.4:
            writer.write(self)
        elif action < 0.6 and writer.rows:
            writer.end(self)
        else:
            self.relay.step()
        self.check_settled()

    def left(self):
        with psycopg.connect(self.origin) as connection:
            return connection.execute("SELECT count(*) FROM fairq_relay.outbox").fetchone()[0]

    def compare(self):
        with psycopg.connect(self.target) as connection:
            tasks = [n for n, in connection.execute("SELECT payload::text::int FROM fairq.tasks('letters') ORDER BY id")]
        place = {n: i for i, n in enumerate(tasks)}
        if sorted(tasks) != sorted(n for _, _, _, n, _ in self.committed):
            self.wrong.append("%d tasks of %d rows" % (len(tasks), len(self.committed)))
            return
        for began, committed, row, n, group in self.committed:
            for _, ended, other_row, other, other_group in self.committed:
                # Of a transaction that was committed before, or of the same one.
                before = ended <= began or (ended == committed and other_row < row)
                if group == other_group and before and place[other] > place[n]:
                    self.wrong.append("%d was written before %d, and comes after it" % (other, n))

    def run(self, steps):
        for _ in range(steps):
            self.step()
        for writer in self.writers:
            writer.end(self)
        until = time.monotonic() + 60
        while self.left() and time.monotonic() < until:
            self.relay.step()
        if self.left():
            self.wrong.append("%d rows are not found" % self.left())
        self.relay.close("both")
        self.compare()
        print(json.dumps({"rows": len(self.committed), "late transactions": self.late, "wrong": self.wrong[:10]}))


def main():
    origin, target, seed, steps = sys.argv[1:]
    Model(origin, target, int(seed)).run(int(steps))


if __name__ == "__main__":
    main()
