#!/usr/bin/python3
"""Random schedules against a model of start-time fair queueing, for
test/t/engine_shares.pl: one claimer, and the order must be the same, over however many
buckets it is spread.

The model: a task of cost c in group g of weight w is given S = max(v, F[g]), and
F[g] becomes S + c / w, in units of 2^-32. The lowest S is claimed first; of equal
ones that of the lower slot, which the row says. v is the largest S claimed so
far, or the largest S + c / w claimed when a claim finds no more.

Printed: the number of claims that were compared, or the first difference.
"""

import argparse
import random
import struct
import sys

import psycopg

WEIGHTS = [1, 1, 2, 5, 0.001, 1000, 0.1, 0.3, 3.7, 7]
COSTS = [1, 1, 1, 0.5, 2, 10, 0.001, 1000000, 3.3, 0.1]
MOST = 1000000      # a task is charged at most; enqueue refuses more


def real(x):
    return struct.unpack("f", struct.pack("f", x))[0]


class Model:
    def __init__(self):
        self.v = self.served = 0
        self.finish, self.weight, self.tasks, self.ready = {}, {}, {}, set()

    def charge(self, group, cost):
        quotient = min(real(cost) / real(self.weight.get(group, 1)), MOST)
        whole = int(quotient)
        return max(1, (whole << 32) + round((quotient - whole) * 2 ** 32))

    def place(self, task, group, cost):
        start = max(self.v, self.finish.get(group, 0))
        self.finish[group] = start + self.charge(group, cost)
        self.tasks[task] = [start, None, group, cost]
        self.ready.add(task)

    def undo(self, group, cost):
        """A task that was enqueued, and was not."""
        self.finish[group] = max(self.v, self.finish.get(group, 0))

    def claim(self, n):
        order = sorted(self.ready, key=lambda t: self.tasks[t][:2])[:n]
        for task in order:
            start, _, group, cost = self.tasks[task]
            self.ready.remove(task)
            self.v = max(self.v, start)
            self.served = max(self.served, start + self.charge(group, cost))
        if len(order) < n:
            self.v = max(self.v, self.served)
        return order

    def cancel(self, task):
        start, _, group, cost = self.tasks[task]
        self.ready.discard(task)
        if self.finish[group] == start + self.charge(group, cost):
            self.finish[group] = start


def slot(conn, task):
    return conn.execute("SELECT fairq.slot(address) FROM fairq.q_model WHERE id = %s", (task,)).fetchone()[0]


def schedule(conn, rng, steps):
    model, held, compared, log = Model(), [], 0, []
    groups = ["g%d" % i for i in range(rng.choice([2, 5, 20]))]
    conn.execute("SELECT fairq.drop_queue('model')")
    conn.execute("SELECT fairq.create_queue('model', buckets => %s, lease => '1 h', max_attempts => 0)",
                 (rng.choice([1, 3, 16]),))
    for group in groups:
        if rng.random() < 0.7:
            model.weight[group] = rng.choice(WEIGHTS)
            conn.execute("SELECT fairq.set_group('model', %s, weight => %s::real)", (group, model.weight[group]))
    busy = rng.choice([0.45, 0.6])
    for _ in range(steps):
        step = rng.random()
        if step < busy:
            group, cost = rng.choice(groups[:rng.randint(1, len(groups))]), rng.choice(COSTS)
            cost = min(cost, real(model.weight.get(group, 1)) * MOST * 0.999)
            undo = rng.random() < 0.1
            with conn.transaction(force_rollback=undo):
                task = conn.execute("SELECT fairq.enqueue('model', '{}', group_key => %s, cost => %s::real)",
                                    (group, cost)).fetchone()[0]
            log.append("%s %s of %s, cost %s" % ("not enqueued" if undo else "enqueued", task, group, cost))
            if undo:
                model.undo(group, cost)
            else:
                model.place(task, group, cost)
                model.tasks[task][1] = slot(conn, task)
        elif step < 0.8:
            # Not as many as there are: whether the queue notices that nothing is left
            # depends on what remains of rows that were removed.
            n = rng.choice([1, 1, 1, 2, 5])
            n += (n == len(model.ready))
            got = conn.execute("SELECT id, receipt FROM fairq.claim('model', %s)", (n,)).fetchall()
            expected = model.claim(n)
            compared += len(got)
            log.append("claimed %s of %d" % ([g[0] for g in got], n))
            if [g[0] for g in got] != expected:
                return compared, "%s\ngot      %s\nexpected %s\n%s" % (
                    "\n".join(log[-30:]), [g[0] for g in got], expected,
                    {t: model.tasks[t] for t in set(expected) | {g[0] for g in got}})
            held.extend(got)
        elif step < 0.95 and held:
            task, receipt = held.pop(rng.randrange(len(held)))
            way = rng.choice(["ack", "ack", "nack", "release"])
            log.append("%s of %s" % (way, task))
            conn.execute("SELECT fairq.nack(%s, delay => '0')" if way == "nack" else
                         "SELECT fairq.%s(%%s)" % way, (receipt,))
            if way == "nack":
                model.place(task, *model.tasks[task][2:])
                model.tasks[task][1] = slot(conn, task)
            elif way == "release":
                model.ready.add(task)
        elif step < 0.98 and model.ready:
            task = rng.choice(sorted(model.ready))
            log.append("cancel of %s" % task)
            conn.execute("SELECT fairq.cancel('model', %s)", (task,))
            model.cancel(task)
        elif step >= 0.98:
            group = rng.choice(groups)
            model.weight[group] = rng.choice(WEIGHTS)
            log.append("weight of %s: %s" % (group, model.weight[group]))
            conn.execute("SELECT fairq.set_group('model', %s, weight => %s::real)", (group, model.weight[group]))
    return compared, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--schedules", type=int, default=40)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total = 0
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        for i in range(args.schedules):
            compared, difference = schedule(conn, random.Random(args.seed * 1000003 + i), args.steps)
            total += compared
            if difference:
                sys.exit("schedule %d of seed %d: %s" % (i, args.seed, difference))
    print(total)


if __name__ == "__main__":
    main()
