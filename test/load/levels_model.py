#!/usr/bin/python3
"""Random schedules (schedules.py) against a model of start-time fair queueing at two
levels, for test/t/subgroups_order.pl: one claimer, and the order must be the same, over
however many buckets it is spread.

The model: a group has T, the tag of its next turn, and each of its subgroups S, the
tag of its own next one. The group of least T is next, and in it the subgroup of least
S, with its first task: T goes on by c / W, S by c / w. Who gets a task and had none
begins at virtual time: v of the queue, v_t of the group. What was leased and is
given back with its claim keeps its tag, and comes before all else of its group. Who may not have a task
stands nowhere; who may again begins at virtual time. In units of 2^-32; of equal tags
that of the lower slot is next, and slots are given in the order in which groups come; of tasks
that keep one tag the lower id.

Printed: the number of claims that were compared, or the first difference.
"""

import copy
import sys

from hypothesis import strategies as st

import order_model
import schedules
from order_model import COSTS, MOST, WEIGHTS, charge, real
from schedules import PICK, percent, pick


class Level:
    """What a group and a subgroup have alike."""

    def __init__(self, slot):
        self.slot = slot
        self.next, self.resumed = 0, -1
        self.weight, self.paused, self.most, self.leased, self.blocked = 1, False, 0, 0, False

    def tag(self):
        return max(self.next, self.resumed)

    def charge(self, cost):
        return charge(cost, self.weight)

    def room(self):
        if self.paused:
            return 0
        return max(self.most - self.leased, 0) if self.most else 1000000


class Subgroup(Level):
    def __init__(self, slot):
        super().__init__(slot)
        self.line = {}          # id: [tag that it keeps or None, cost]

    def stands(self):
        return bool(self.line) and not self.blocked

    def first(self):
        """Those that keep a tag are first."""
        return min(self.line, key=lambda task: (self.line[task][0] is None, task))

    def kept(self):
        return self.line[self.first()][0]


class Group(Level):
    def __init__(self, slot):
        super().__init__(slot)
        self.time = self.last = 0
        self.subgroups = []

    def standing(self):
        return [s for s in self.subgroups if s.stands()]

    def following(self):
        """The subgroup that is next; None: none stands."""
        return min(self.standing(), default=None, key=lambda s: (
            (0, s.kept(), s.first()) if s.kept() is not None else (1, s.tag(), s.slot)))

    def turn(self):
        kept = self.following().kept()
        return self.tag() if kept is None else max(kept, self.resumed)


class Model:
    def __init__(self, shape):
        self.v = self.served = 0
        self.groups, self.tasks = [], {}
        slot = 0
        for n in shape:
            group = Group(slot)
            self.groups.append(group)
            for i in range(n):
                group.subgroups.append(Subgroup(slot + 1 + i))
            slot += 1 + n

    @staticmethod
    def time(group):
        """Of a group of which none stands: where none owes another anything."""
        if not group.standing():
            group.time = group.last
        return group.time

    def lower(self, task):
        """A task is in the overflow."""
        group, subgroup, cost = self.tasks[task]
        if not subgroup.line:
            subgroup.next = max(subgroup.next, self.time(group))
        if not group.standing():
            group.next = max(group.next, self.v)
        subgroup.line[task] = [None, cost]

    def enqueue(self, task, g, s, cost):
        group = self.groups[g]
        self.tasks[task] = (group, group.subgroups[s % len(group.subgroups)], cost)
        self.lower(task)

    def take(self):
        """The task that is next, and its tag; None: there is none."""
        while True:
            group = min((g for g in self.groups if g.standing() and not g.blocked), default=None,
                        key=lambda g: (g.turn(), g.slot))
            if group is None:
                return None
            subgroup = group.following()
            levels = [subgroup, group]
            if min(level.room() for level in levels) > 0:
                break
            for level in levels:
                level.blocked |= level.room() <= 0
        task = subgroup.first()
        kept, cost = subgroup.line[task]
        tag = group.turn()
        more = len(subgroup.line) > 1
        for level, others in (subgroup, more), (group, more or len(group.standing()) > 1):
            level.blocked |= level.room() <= 1 and others
        if kept is None:
            start = subgroup.tag()
            subgroup.next = start + subgroup.charge(cost)
            group.time, group.last = max(group.time, start), max(group.last, subgroup.next)
            group.next = group.tag() + group.charge(cost)
        del subgroup.line[task]
        for level in levels:
            level.leased += 1
        return task, tag, tag + group.charge(cost)

    def claim(self, n):
        got = []
        v = self.v
        while len(got) < n:
            taken = self.take()
            if taken is None:
                break
            got.append(taken[:2])
            v, self.served = max(v, taken[1]), max(self.served, taken[2])
        self.v = v if len(got) == n else max(v, self.served)
        # What one claim gets is in order, too.
        return sorted(got, key=lambda one: (one[1], self.tasks[one[0]][0].slot, one[0]))

    def resume(self, level, group):
        """A level may have room again."""
        if not level.blocked or level.room() <= 0:
            return
        if level is group:
            level.resumed = max(level.resumed, self.v)
        else:
            if not group.standing():
                group.resumed = max(group.resumed, self.v)
            level.resumed = max(level.resumed, self.time(group))
            for entry in level.line.values():
                if entry[0] is not None:
                    entry[0] = max(entry[0], self.v)
        level.blocked = False

    def lease_ends(self, task):
        group, subgroup, _ = self.tasks[task]
        subgroup.leased -= 1
        group.leased -= 1
        self.resume(subgroup, group)
        self.resume(group, group)

    def give_back(self, task, tag):
        _, subgroup, cost = self.tasks[task]
        subgroup.line[task] = [tag, cost]


class Run(order_model.Run):
    def begin(self, shape, busy, buckets):
        self.value("SELECT fairq.drop_queue('model')")
        self.value("SELECT fairq.create_queue('model', buckets => %s, lease => '1 h', max_attempts => 0,"
                   " subgroups => true)", buckets)
        self.model, self.held = Model(shape), []
        # All there are, in the order of their slots, and none is forgotten.
        for g, group in enumerate(self.model.groups):
            for s in range(len(group.subgroups)):
                self.enqueue(g, s, 1, False)

    def enqueue(self, group, subgroup, cost, undo):
        g = self.model.groups[group % len(self.model.groups)]
        s = subgroup % len(g.subgroups)
        cost = min(cost, real(g.weight) * MOST * 0.999, real(g.subgroups[s].weight) * MOST * 0.999)
        with self.db.transaction(force_rollback=undo):
            task = self.value("SELECT fairq.enqueue('model', '{}', group_key => %s, subgroup_key => %s, cost => %s::real)",
                              "g%d" % (group % len(self.model.groups)), "s%d" % s, cost)
        if not undo:
            self.model.enqueue(task, group % len(self.model.groups), s, cost)

    def claim(self, n, undo):
        # Not as many as may be had: see order_model.py.
        n += (n == len(copy.deepcopy(self.model).claim(MOST)))
        with self.db.transaction(force_rollback=undo):
            got = self.db.execute("SELECT id, receipt FROM fairq.claim('model', %s)", (n,)).fetchall()
        expected = self.model.claim(n)
        self.compared += len(got)
        if [task for task, _ in got] != [task for task, _ in expected]:
            names = {t: [(g.slot, s.slot) for g in self.model.groups for s in g.subgroups if s is self.model.tasks[t][1]]
                     for t in {t for t, _ in got} | {t for t, _ in expected}}
            raise AssertionError("got %s, expected %s: %s" % ([t for t, _ in got], expected, names))
        if not undo:
            self.held.extend(got)
        for task, tag in reversed(expected) if undo else ():
            self.model.lease_ends(task)
            self.model.give_back(task, tag)

    def settle(self, held, way):
        for task, receipt in pick(self.held, held):
            self.held.remove((task, receipt))
            self.value("SELECT fairq.nack(%s, delay => '0')" if way == "nack" else "SELECT fairq.%s(%%s)" % way, receipt)
            if way == "nack":
                self.model.lower(task)
            self.model.lease_ends(task)

    def change(self, group, subgroup, what):
        """Of a group (subgroup None), or of a subgroup: a setting."""
        g = group % len(self.model.groups)
        of = self.model.groups[g]
        level = of if subgroup is None else of.subgroups[subgroup % len(of.subgroups)]
        which = "group" if subgroup is None else "subgroup"
        keys = ["g%d" % g] + ([] if subgroup is None else ["s%d" % (subgroup % len(of.subgroups))])
        places = ", ".join(["%s"] * len(keys))
        name, value = what
        if name == "paused":
            self.value("SELECT fairq.%s_%s('model', %s)" % ("pause" if value else "resume", which, places), *keys)
        else:
            self.value("SELECT fairq.set_%s('model', %s, %s => %%s)" % (which, places, name), *keys, value)
        setattr(level, {"max_leased": "most"}.get(name, name), value)
        self.model.resume(level, of)


BEGIN = schedules.step("begin", shape=st.sampled_from([[1, 1], [1, 9], [2, 3], [3, 1, 5], [4] * 6, [20, 1]]),
                       busy=st.sampled_from([45, 60]), buckets=st.sampled_from([1, 3, 16]))
CHANGES = [("weight", weight) for weight in WEIGHTS] + [("paused", True), ("paused", False), ("paused", False)] + \
    [("max_leased", most) for most in (0, 1, 2, 5)]


def others(begin):
    """Of 100 steps busy ones enqueue, and more to the first groups than to the last."""
    groups, busy = range(len(begin.values["shape"])), begin.values["busy"]
    some = [a * b // len(groups) for a in groups for b in groups]
    # Of several buckets a claim takes more than it needs, and gives it back: what keeps a
    # tag is then in order by where it would come now, not by that tag.
    undo = percent(40) if begin.values["buckets"] == 1 else [False]
    return schedules.steps({
        "enqueue": (busy, {"group": some, "subgroup": range(20), "cost": COSTS, "undo": percent(10)}),
        "claim": (78 - busy, {"n": [1, 1, 1, 2, 5], "undo": undo}),
        "settle": (17, {"held": PICK, "way": ["ack", "ack", "nack"]}),
        "change": (5, {"group": groups, "subgroup": [None, *range(5)], "what": CHANGES})})


if __name__ == "__main__":
    sys.exit(order_model.main(Run, BEGIN, others, {"begin", "enqueue", "claim", "settle", "change"}))
