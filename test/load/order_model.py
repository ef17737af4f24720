#!/usr/bin/python3
"""Random schedules (schedules.py) against a model of start-time fair queueing, for
test/t/engine_shares.pl: one claimer, and the order must be the same, over however many
buckets it is spread.

The model: a task of cost c in group g of weight w is given S = max(v, F[g]), and
F[g] becomes S + c / w, in units of 2^-32. The lowest S is claimed first; of equal
ones that of the lower slot, which the row says. v is the largest S claimed so
far, or the largest S + c / w claimed when a claim finds no more.

Printed: the number of claims that were compared, or the first difference.
"""

import argparse
import struct
import sys

import psycopg
from hypothesis import strategies as st

import schedules
from schedules import PICK, percent, pick

WEIGHTS = [1, 1, 2, 5, 0.001, 1000, 0.1, 0.3, 3.7, 7]
COSTS = [1, 1, 1, 0.5, 2, 10, 0.001, 1000000, 3.3, 0.1]
MOST = 1000000      # a task is charged at most; enqueue refuses more


def real(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def charge(cost, weight):
    """What a task takes up of virtual time."""
    quotient = min(real(cost) / real(weight), MOST)
    whole = int(quotient)
    return max(1, (whole << 32) + round((quotient - whole) * 2 ** 32))


class Model:
    def __init__(self):
        self.v = self.served = 0
        self.finish, self.weight, self.tasks, self.ready = {}, {}, {}, set()

    def charge(self, group, cost):
        return charge(cost, self.weight.get(group, 1))

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


class Run:
    def __init__(self, conninfo):
        self.db = psycopg.connect(conninfo, autocommit=True)
        self.compared = 0       # tasks that were claimed

    def value(self, text, *args):
        return self.db.execute(text, args).fetchone()[0]

    def go(self, schedule, shortening):
        """An error says what is wrong."""
        for name, values in schedule:
            getattr(self, name)(**values)

    def place(self, task, group, cost):
        self.model.place(task, group, cost)
        self.model.tasks[task][1] = self.value("SELECT fairq.slot(address) FROM fairq.q_model WHERE id = %s", task)

    def begin(self, weights, busy, buckets):
        self.value("SELECT fairq.drop_queue('model')")
        self.value("SELECT fairq.create_queue('model', buckets => %s, lease => '1 h', max_attempts => 0)", buckets)
        self.model, self.held = Model(), []
        for group, weight in enumerate(weights):
            if weight is not None:
                self.weigh(group, weight)

    def enqueue(self, group, cost, undo):
        group = "g%d" % group
        cost = min(cost, real(self.model.weight.get(group, 1)) * MOST * 0.999)
        with self.db.transaction(force_rollback=undo):
            task = self.value("SELECT fairq.enqueue('model', '{}', group_key => %s, cost => %s::real)", group, cost)
        if undo:
            self.model.undo(group, cost)
        else:
            self.place(task, group, cost)

    def claim(self, n):
        # Not as many as there are: whether the queue notices that nothing is left
        # depends on what remains of rows that were removed.
        n += (n == len(self.model.ready))
        got = self.db.execute("SELECT id, receipt FROM fairq.claim('model', %s)", (n,)).fetchall()
        ids, expected = [id for id, _ in got], self.model.claim(n)
        self.compared += len(got)
        if ids != expected:
            raise AssertionError("got %s, expected %s: %s" % (
                ids, expected, {t: self.model.tasks.get(t) for t in sorted({*ids, *expected})}))
        self.held.extend(got)

    def settle(self, held, way):
        for task, receipt in pick(self.held, held):
            self.held.remove((task, receipt))
            self.value("SELECT fairq.nack(%s, delay => '0')" if way == "nack" else "SELECT fairq.%s(%%s)" % way, receipt)
            if way == "nack":
                self.place(task, *self.model.tasks[task][2:])
            elif way == "release":
                self.model.ready.add(task)

    def cancel(self, task):
        for task in pick(sorted(self.model.ready), task):
            self.value("SELECT fairq.cancel('model', %s)", task)
            self.model.cancel(task)

    def weigh(self, group, weight):
        group = "g%d" % group
        self.model.weight[group] = weight
        self.value("SELECT fairq.set_group('model', %s, weight => %s::real)", group, weight)


WEIGHT = st.sampled_from([None] * 4 + WEIGHTS)
BEGIN = schedules.step("begin", weights=st.sampled_from([2, 5, 20]).flatmap(
    lambda groups: st.lists(WEIGHT, min_size=groups, max_size=groups)),
    busy=st.sampled_from([45, 60]), buckets=st.sampled_from([1, 3, 16]))


def others(begin):
    """Of 100 steps busy ones enqueue, and more to the first groups than to the last."""
    groups, busy = range(len(begin.values["weights"])), begin.values["busy"]
    some = [a * b // len(groups) for a in groups for b in groups]
    return schedules.steps({
        "enqueue": (busy, {"group": some, "cost": COSTS, "undo": percent(10)}),
        "claim": (80 - busy, {"n": [1, 1, 1, 2, 5]}),
        "settle": (15, {"held": PICK, "way": ["ack", "ack", "nack", "release"]}),
        "cancel": (3, {"task": PICK}),
        "weigh": (2, {"group": groups, "weight": WEIGHTS})})


def main(of, begin, then, names):
    """of: the class of what takes the steps, which have these names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    schedules.add_options(parser, 40, 200)
    options = parser.parse_args()
    run = of(options.conninfo)
    if not schedules.run(options, begin, then, run.go, names):
        return 1
    print(run.compared)
    return 0


if __name__ == "__main__":
    sys.exit(main(Run, BEGIN, others, {"begin", "enqueue", "claim", "settle", "cancel", "weigh"}))
