#!/usr/bin/env python3
"""An application, and its workers, on the two sides of a relay, with a journal; for faults.

    table_relay_load.py ORIGIN TARGET

Threads write rows to the outbox, work on the tasks, and take results out of the inbox,
each again after whatever error. What is about to be committed and what came of it is
written down outside of both databases. Numbers of rows go up in each group. A task whose
number ends with 0 dies, the others are acknowledged with twice their number.

SIGTERM ends the writing; when all that is there has been worked on and taken, the journal
is compared with what the target and the application have, and the findings are printed
as JSON. "wrong" must be empty.
"""

import collections
import json
import random
import signal
import sys
import threading
import time

import psycopg

GROUPS = 7
MOST = 300      # rows in the outbox, so that it is empty soon after the end
SETUP_TARGET = "CREATE TABLE IF NOT EXISTS work (task bigint PRIMARY KEY, n int NOT NULL)"
SETUP_ORIGIN = "CREATE TABLE IF NOT EXISTS applied (id bigint, n int, state text, result jsonb)"


class Side:
    """A connection that is made anew after an error."""

    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.connection = None

    def run(self, action):
        """Returns whether it went well, and what it returned; (None, None): that is not known."""
        try:
            if self.connection is None or self.connection.closed:
                self.connection = psycopg.connect(self.conninfo, connect_timeout=10)
        except psycopg.Error:
            time.sleep(0.05)
            return False, None
        try:
            result = action(self.connection)
        except psycopg.Error:
            self.connection.close()
            return False, None
        try:
            self.connection.commit()
        except psycopg.Error:
            self.connection.close()
            return None, None
        return True, result


class Load:
    def __init__(self, origin, target):
        self.origin, self.target = origin, target
        self.writing, self.running = True, True
        self.outcome = {}       # of each number: True, False, None (unknown)
        self.random = random.Random(26)
        self.unknown = 0

    # -- threads ---------------------------------------------------------------

    def write(self):
        side, number = Side(self.origin), 0
        while self.writing:
            numbers = list(range(number + 1, number + 1 + self.random.randint(1, 20)))
            number = numbers[-1]
            rolls_back = self.random.random() < 0.1

            def insert(connection, numbers=numbers, rolls_back=rolls_back):
                if connection.execute("SELECT count(*) FROM fairq_relay.outbox").fetchone()[0] > MOST:
                    return "full"
                connection.execute("INSERT INTO fairq_relay.outbox (queue, payload, group_key, wants_result)"
                                   " SELECT 'letters', to_jsonb(n), 'g' || n %% %s, true FROM unnest(%s::int[]) n", (GROUPS, numbers))
                if rolls_back:
                    connection.rollback()
                return None

            done, full = side.run(insert)
            for n in numbers:
                self.outcome[n] = done and not rolls_back and not full if done is not None else None
            time.sleep(0.01)

    def work(self):
        side = Side(self.target)

        def tasks(connection):
            claimed = connection.execute("SELECT id, receipt::text, payload FROM fairq.claim('letters', 20)").fetchall()
            for task, receipt, n in claimed:
                if n % 10 == 0:
                    connection.execute("SELECT fairq.nack(%s, 'it ends with 0', final => true)", (receipt,))
                else:
                    connection.execute("INSERT INTO work VALUES (%s, %s)", (task, n))
                    connection.execute("SELECT fairq.ack(%s, result => %s::jsonb)", (receipt, json.dumps(2 * n)))
            return len(claimed)

        while self.running:
            if not side.run(tasks)[1]:
                time.sleep(0.02)

    def take(self):
        side = Side(self.origin)

        def results(connection):
            return connection.execute("WITH gone AS (DELETE FROM fairq_relay.inbox RETURNING id, result, state)"
                                      " INSERT INTO applied SELECT id, (result::text::int) / 2, state, result FROM gone").rowcount

        while self.running:
            if not side.run(results)[1]:
                time.sleep(0.02)

    # -- the end ---------------------------------------------------------------

    def drained(self):
        ok, left = Side(self.origin).run(lambda c: c.execute(
            "SELECT (SELECT count(*) FROM fairq_relay.outbox) + (SELECT count(*) FROM fairq_relay.awaited)"
            " + (SELECT count(*) FROM fairq_relay.inbox)").fetchone()[0])
        return ok and left == 0

    def compare(self):
        with psycopg.connect(self.target) as target, psycopg.connect(self.origin) as origin:
            work = target.execute("SELECT task, n FROM work ORDER BY task").fetchall()
            dead = target.execute("SELECT id, payload::text::int FROM fairq.tasks('letters', 'dead') ORDER BY id").fetchall()
            left = target.execute("SELECT count(*) FROM fairq.tasks('letters') WHERE state <> 'dead'").fetchone()[0]
            applied = origin.execute("SELECT n, state FROM applied").fetchall()
        wrong = []
        tasks = collections.Counter(n for _, n in work + dead)
        results = collections.Counter(n for n, state in applied if state == "acked")
        deaths = sum(state == "dead" for _, state in applied)
        for n, done in self.outcome.items():
            times = tasks.pop(n, 0)
            if times > 1 or (done is True and times == 0) or (done is False and times):
                wrong.append("%d, which was %s, is %d tasks" % (n, {True: "committed", False: "not", None: "unknown"}[done], times))
            if results[n] != (times if n % 10 else 0):
                wrong.append("%d: %d tasks, and %d results" % (n, times, results[n]))
        wrong += ["%d is a task, and was never written" % n for n in tasks]
        if deaths != len(dead):
            wrong.append("%d are dead, and %d are told" % (len(dead), deaths))
        if left:
            wrong.append("%d tasks are left" % left)
        highest = collections.Counter()
        for task, n in sorted(work + dead):
            if n < highest[n % GROUPS]:
                wrong.append("task %d, number %d, comes after %d" % (task, n, highest[n % GROUPS]))
            highest[n % GROUPS] = n
        return {"committed": sum(done is True for done in self.outcome.values()),
                "unknown": sum(done is None for done in self.outcome.values()),
                "tasks": len(work) + len(dead), "results": len(applied), "dead": len(dead), "wrong": wrong[:20]}

    def run(self):
        for conninfo, setup in ((self.origin, SETUP_ORIGIN), (self.target, SETUP_TARGET)):
            with psycopg.connect(conninfo) as connection:
                connection.execute(setup)
        threads = [threading.Thread(target=what, daemon=True) for what in (self.write, self.work, self.take)]
        for thread in threads:
            thread.start()
        print("started", flush=True)
        while self.writing:
            time.sleep(0.05)
        threads[0].join()
        while not self.drained():
            time.sleep(0.1)
        self.running = False
        for thread in threads[1:]:
            thread.join()
        print(json.dumps(self.compare()), flush=True)

    def end(self, *_):
        self.writing = False


def main():
    load = Load(*sys.argv[1:])
    signal.signal(signal.SIGTERM, load.end)
    load.run()


if __name__ == "__main__":
    main()
