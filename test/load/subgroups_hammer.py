#!/usr/bin/python3
"""Clients that do everything to a queue with subgroups at random, for
test/t/subgroups_rest.pl: enqueue, claim, acknowledge, fail, release, walk away, roll back
(savepoints, too), cancel, purge a group, pause, resume, and set limits and weights, while
the table is rewritten. Then all is drained.

Each client notes what it has committed. Of all that was enqueued each task is
acknowledged once, or was cancelled or purged, or comes when the queue is drained.

Printed as JSON: what was done, what was wrong, and the errors that came.
"""

import argparse
import collections
import json
import os
import random
import sys
import threading
import time

import psycopg

GROUPS, SUBGROUPS = ["a", "b", "c"], ["w", "x", "y", "z"]


class Client(threading.Thread):
    def __init__(self, options, number, until):
        super().__init__()
        self.random = random.Random(options.seed * 1000 + number)
        self.queue, self.until = options.queue, until
        self.db = psycopg.connect(options.conninfo, autocommit=True)
        self.enqueued, self.acked, self.cancelled, self.purged = [], [], [], 0
        self.errors, self.did = collections.Counter(), collections.Counter()

    def rows(self, text, *args):
        return self.db.execute(text, args).fetchall()

    def run(self):
        steps = ([self.enqueue] * 30 + [self.work] * 40 + [self.pop] * 5 + [self.claim_in_vain] * 8 +
                 [self.cancel] * 8 + [self.pause] * 4 + [self.change] * 4 + [self.purge] + [self.move] * 2)
        while time.time() < self.until:
            step = self.random.choice(steps)
            self.did[step.__name__] += 1
            try:
                step()
            except psycopg.Error as error:
                self.errors["%s %s: %s" % (step.__name__, error.sqlstate, str(error).split("\n", 1)[0])] += 1

    def some_group(self):
        return self.random.choice(GROUPS)

    def some_subgroup(self):
        return self.random.choice(SUBGROUPS)

    def enqueue_some(self):
        n = self.random.randint(1, 5)
        keys = [(self.some_group(), self.some_subgroup()) for _ in range(n)]
        return self.rows("SELECT fairq.enqueue_many(%s, array_fill('1'::jsonb, ARRAY[%s]), %s, subgroup_keys => %s,"
                         " priorities => %s, costs => %s)", self.queue, n, [g for g, _ in keys], [s for _, s in keys],
                         [self.random.choice([4, 4, 4, 5])], [self.random.choice([0.5, 1.0, 3.0])])[0][0]

    def enqueue(self):
        ids = []
        with self.db.transaction(force_rollback=self.random.random() < 0.1) as whole:
            ids += self.enqueue_some()
            if self.random.random() < 0.3:
                undo = self.random.random() < 0.5
                with self.db.transaction(force_rollback=undo):
                    more = self.enqueue_some()
                    # What it has enqueued itself it may remove, too.
                    if self.random.random() < 0.3:
                        self.rows("SELECT fairq.cancel(%s, %s)", self.queue, more.pop())
                ids += [] if undo else more
        if not whole.force_rollback:
            self.enqueued += ids

    def claim(self):
        keys = [self.some_group()] if self.random.random() < 0.2 else None
        buckets = [self.random.randrange(2)] if self.random.random() < 0.1 else None
        lease = self.random.choice(["300 ms", "1 h", "1 h"])
        return self.rows("SELECT id, receipt FROM fairq.claim(%s, %s, lease => %s, group_keys => %s, buckets => %s)",
                         self.queue, self.random.choice([1, 1, 2, 5]), lease, keys, buckets), lease

    def work(self):
        got, lease = self.claim()
        for task, receipt in got:
            way = self.random.choice(["ack", "ack", "ack", "nack", "later", "release", "snooze", "rollback", "leave"])
            if way == "leave" and lease != "1 h":
                continue
            text = {"nack": "SELECT fairq.nack(%s, delay => '0')", "later": "SELECT fairq.nack(%s)",
                    "release": "SELECT fairq.release(%s)", "snooze": "SELECT fairq.release(%s, '10 ms')"}.get(way)
            if way == "rollback":
                other = self.random.choice(["ack", "release", "nack"])
                with self.db.transaction(force_rollback=True):
                    self.rows("SELECT fairq." + other + "(%s)", receipt)
            if text is None:
                if self.rows("SELECT fairq.ack(%s)", receipt)[0][0]:
                    self.acked.append(task)
            else:
                self.rows(text, receipt)

    def pop(self):
        with self.db.transaction(force_rollback=self.random.random() < 0.3) as whole:
            got = [task for task, in self.rows("SELECT id FROM fairq.pop(%s, 2)", self.queue)]
        if not whole.force_rollback:
            self.acked += got

    def claim_in_vain(self):
        """Claims that are rolled back, in any order."""
        kept = []
        with self.db.transaction(force_rollback=self.random.random() < 0.5) as whole:
            for _ in range(self.random.randint(1, 3)):
                undo = self.random.random() < 0.5
                with self.db.transaction(force_rollback=undo):
                    got, _ = self.claim()
                kept += [] if undo else got
        if not whole.force_rollback:
            for task, receipt in kept:
                if self.rows("SELECT fairq.ack(%s)", receipt)[0][0]:
                    self.acked.append(task)

    def cancel(self):
        if not self.enqueued:
            return
        task = self.random.choice(self.enqueued[-50:])
        with self.db.transaction(force_rollback=self.random.random() < 0.2) as whole:
            done = self.rows("SELECT fairq.cancel(%s, %s)", self.queue, task)[0][0]
        if done and not whole.force_rollback:
            self.cancelled.append(task)

    def purge(self):
        with self.db.transaction(force_rollback=self.random.random() < 0.5) as whole:
            n = self.rows("SELECT fairq.purge_group(%s, %s)", self.queue, self.some_group())[0][0]
        if not whole.force_rollback:
            self.purged += n

    def pause(self):
        group, verb = self.some_group(), self.random.choice(["pause", "resume", "resume"])
        with self.db.transaction(force_rollback=self.random.random() < 0.2):
            if self.random.random() < 0.3:
                self.rows("SELECT fairq." + verb + "_group(%s, %s)", self.queue, group)
            else:
                self.rows("SELECT fairq." + verb + "_subgroup(%s, %s, %s)", self.queue, group, self.some_subgroup())

    def change(self):
        what = self.random.choice(["max_leased => 0", "max_leased => 1", "max_leased => 3", "weight => 5", "weight => 0.5",
                                   "rate => 200", "rate => 0"])
        if self.random.random() < 0.3:
            self.rows("SELECT fairq.set_group(%s, %s, " + what + ")", self.queue, self.some_group())
        else:
            self.rows("SELECT fairq.set_subgroup(%s, %s, %s, " + what + ")", self.queue, self.some_group(), self.some_subgroup())

    def move(self):
        """With SQL of one's own: another subgroup, another group."""
        if not self.enqueued:
            return
        with self.db.transaction(force_rollback=self.random.random() < 0.3):
            self.rows("WITH u AS (UPDATE fairq.q_" + self.queue + " SET subgroup_key = %s, group_key = %s WHERE id = %s"
                      " AND state = 'o' RETURNING 1) SELECT count(*) FROM u",
                      self.some_subgroup(), self.some_group(), self.random.choice(self.enqueued[-50:]))


def drain(db, queue, left):
    """All that is there, each once; for a minute at most."""
    came = []
    until = time.time() + 60
    while time.time() < until:
        got = db.execute("SELECT id FROM fairq.pop(%s, 100)", (queue,)).fetchall()
        came += [task for task, in got]
        if not got:
            if left() == 0:
                break
            time.sleep(0.05)
    return came


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    db = psycopg.connect(options.conninfo, autocommit=True)
    until = time.time() + options.seconds
    clients = [Client(options, i, until) for i in range(options.clients)]
    for client in clients:
        client.start()
    while time.time() < until:
        db.execute("VACUUM FULL fairq.q_" + options.queue)
        time.sleep(1.5)
    for client in clients:
        client.join(60)
    wrong = ["a client hangs" for client in clients if client.is_alive()]
    if wrong:
        print(json.dumps({"wrong": wrong}), flush=True)
        os._exit(1)

    for group in GROUPS:
        db.execute("SELECT fairq.reset_group(%s, %s)", (options.queue, group))
        for subgroup in SUBGROUPS:
            db.execute("SELECT fairq.reset_subgroup(%s, %s, %s)", (options.queue, group, subgroup))
    # What somebody has left leased for an hour is given back.
    db.execute("SELECT fairq.release(receipt) FROM fairq.leases WHERE queue = %s", (options.queue,))
    came = drain(db, options.queue, lambda: db.execute("SELECT count(*) FROM fairq.q_" + options.queue).fetchone()[0])

    enqueued, acked, cancelled = (collections.Counter(task for c in clients for task in getattr(c, what))
                                  for what in ("enqueued", "acked", "cancelled"))
    ended = acked + cancelled + collections.Counter(came)
    wrong += ["%d ended %d times" % (task, n) for task, n in ended.items() if n > 1]
    wrong += ["%d was never enqueued" % task for task in ended if task not in enqueued]
    purged = sum(c.purged for c in clients)
    if len(enqueued) - len(ended) != purged:
        wrong.append("%d are missing, and %d were purged" % (len(enqueued) - len(ended), purged))
    stats = db.execute("SELECT ready, leased, overflow, scheduled, held, swept FROM fairq.queue_stats WHERE queue = %s", (options.queue,)).fetchone()
    if any(stats):
        wrong.append("at the end there are %s" % (stats,))
    errors, did = (sum((getattr(c, what) for c in clients), collections.Counter()) for what in ("errors", "did"))
    print(json.dumps({"enqueued": len(enqueued), "acked": len(acked), "cancelled": len(cancelled), "purged": purged,
                      "drained": len(came), "wrong": wrong[:20], "errors": dict(errors), "did": dict(did)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
