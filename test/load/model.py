#!/usr/bin/python3
"""A model of a queue, driven with random schedules beside the real one.

The model says which tasks there are, in which state, whose a lease is, and
what each function may answer; every difference is an error. What it knows of
order: lower classes first, and first in, first out within a group and class
(of groups that were never at a limit, whose tasks may change places then).
(The order between groups is that of 005_fair_order.pl.) What is scheduled or
runs out is made so by the schedule itself, with times far away or past, so
that no clock decides. There is no background worker: fairq.maintain() is one
of the functions.

Within a transaction the engine promises that what it changes is claimable by
others, and by itself, when it has committed, and as before if it is rolled
back, whole or to a savepoint.

Usage: model.py CONNINFO SEED SCHEDULES STEPS, for that many schedules from SEED on.
Prints how often each function was called, and exits with 1 at a
difference, after the last steps.
"""

import copy
import json
import random
import sys

import psycopg
from psycopg import sql

GROUPS = ["a", "b", "c", "", "ü"]
CLASSES = [0, 1, 2]


class Difference(Exception):
    pass


class Task:
    def __init__(self, payload, group, klass, max_attempts):
        self.payload = payload
        self.group = group
        self.klass = klass
        self.max_attempts = max_attempts
        self.attempts = 0
        self.state = "ready"
        self.turn = 0           # FIFO within group and class
        self.fresh = False      # not claimable before this transaction ends
        self.receipt = None
        self.loose = False      # out of the order: leased when its group was purged
        self.settling = False   # its lease ends with this transaction

    def shown(self):
        return "leased" if self.settling and self.state == "ready" else self.state


class Model:
    """All that a queue should be."""

    def __init__(self):
        self.tasks = {}
        self.turn = 0
        self.queue_paused = False
        self.paused = set()
        self.limits = {}
        self.old_receipts = []
        self.ever_limited = set()   # their tasks come about in order only
        self.settling = {}      # leases, by group, that end with this transaction

    def next_turn(self):
        self.turn += 1
        return self.turn

    def leased(self, group):
        return self.settling.get(group, 0) + \
            sum(t.state == "leased" and t.group == group for t in self.tasks.values())

    def room(self, group):
        if group in self.paused:
            return 0
        limit = self.limits.get(group, 0)
        return max(limit - self.leased(group), 0) if limit else 10 ** 9

    def claimable(self, groups=None):
        """By class and group, in order."""
        result = {}
        if self.queue_paused:
            return result
        for id, t in self.tasks.items():
            if t.state == "ready" and not t.fresh and (groups is None or t.group in groups):
                result.setdefault((t.klass, t.group), []).append((t.turn, id))
        for key in result:
            result[key].sort()
        return result


class Run:
    def __init__(self, conninfo, seed, steps):
        self.random = random.Random(seed)
        self.conn = psycopg.connect(conninfo, autocommit=True)
        self.steps = steps
        self.log = []
        self.model = Model()
        self.saved = []             # the model at BEGIN and at each savepoint
        self.queue = "model %d" % seed
        self.counts = {}

    def call(self, text, *args):
        self.log.append("%s %r" % (text, args))
        return self.conn.execute(text, args).fetchall()

    def expect(self, what, is_, should):
        if is_ != should:
            raise Difference("%s: is %r, should be %r" % (what, is_, should))

    # --- functions -------------------------------------------------------

    def enqueue(self):
        r = self.random
        n = r.choice([1, 1, 1, 5])
        group, klass = r.choice(GROUPS), r.choice(CLASSES)
        later = r.random() < 0.1
        max_attempts = r.choice([None, None, 1, 2])
        payloads = [r.randrange(10 ** 6) for _ in range(n)]
        if n == 1:
            ids = [self.call("SELECT fairq.enqueue(%s, %s::jsonb, %s, %s, run_at => %s::timestamptz, max_attempts => %s)",
                             self.queue, json.dumps(payloads[0]), group, klass,
                             "2100-01-01" if later else None, max_attempts)[0][0]]
        else:
            max_attempts = None
            ids = self.call("SELECT fairq.enqueue_many(%s, %s::jsonb[], %s::text[], %s::bigint[], run_ats => %s::timestamptz[])",
                            self.queue, [json.dumps(p) for p in payloads], [group], [klass],
                            ["2100-01-01" if later else None])[0][0]
        for id, payload in zip(ids, payloads):
            if id in self.model.tasks:
                raise Difference("id %d is there twice" % id)
            t = Task(payload, group, klass, 3 if max_attempts is None else max_attempts)
            t.state = "scheduled" if later else "ready"
            t.turn = self.model.next_turn()
            t.fresh = bool(self.saved)
            self.model.tasks[id] = t

    def take(self, rows, n, groups, leased):
        """Check what a claim or pop gave, and note it."""
        m = self.model
        available = m.claimable(groups)
        room = {g: m.room(g) for g in GROUPS}
        heads = {key: list(tasks) for key, tasks in available.items()}
        want = 0
        left = dict(room)
        for (klass, group), tasks in sorted(available.items()):
            take = min(len(tasks), left[group])
            left[group] -= take
            want += take
        self.expect("number of tasks", len(rows), min(n, want))
        klass_before = -1
        left = dict(room)
        for row in rows:
            id, receipt, group, payload, attempt = row
            t = m.tasks.get(id)
            if t is None or t.state != "ready" or t.fresh:
                raise Difference("task %d should not come: %r" % (id, t and vars(t)))
            self.expect("group", group, t.group)
            self.expect("payload", payload, t.payload)
            self.expect("attempt", attempt, t.attempts + 1)
            if t.klass < klass_before:
                raise Difference("class %d after %d" % (t.klass, klass_before))
            for (klass, other), tasks in heads.items():
                if klass < t.klass and tasks and left[other] > 0:
                    raise Difference("class %d while %r has class %d" % (t.klass, other, klass))
            klass_before = t.klass
            if left[group] <= 0:
                raise Difference("group %r above its limit" % group)
            left[group] -= 1
            line = heads[(t.klass, group)]
            if not t.loose and group not in m.ever_limited:
                self.expect("first of %r" % group, id, [i for _, i in line if i in m.tasks and not m.tasks[i].loose][0])
            line.remove((t.turn, id))
            if leased:
                t.state, t.receipt = "leased", receipt
            else:
                self.settles(group)
                del m.tasks[id]

    def settles(self, group):
        if self.saved:
            self.model.settling[group] = self.model.settling.get(group, 0) + 1

    COLUMNS = "id, receipt, group_key, payload, attempt"

    def claim(self):
        r = self.random
        n = r.choice([1, 1, 2, 5, 20])
        groups = r.sample(GROUPS, 2) if r.random() < 0.3 else None
        rows = self.call("SELECT " + self.COLUMNS + " FROM fairq.claim(%s, %s, lease => '1 day', group_keys => %s::text[])",
                         self.queue, n, groups)
        self.take(rows, n, groups, True)

    def pop(self):
        n = self.random.choice([1, 3])
        groups = self.random.sample(GROUPS, 1) if self.random.random() < 0.3 else None
        rows = self.call("SELECT " + self.COLUMNS + " FROM fairq.pop(%s, %s, group_keys => %s::text[])",
                         self.queue, n, groups)
        self.take(rows, n, groups, False)

    def some_leases(self, n):
        leased = [id for id, t in self.model.tasks.items() if t.state == "leased"]
        return self.random.sample(leased, min(n, len(leased)))

    def end(self, id):
        t = self.model.tasks[id]
        self.settles(t.group)
        t.settling = bool(self.saved)
        self.model.old_receipts.append(t.receipt)
        t.receipt = None
        return t

    def failed(self, t, delay):
        t.attempts += 1
        t.turn, t.loose = self.model.next_turn(), False
        t.fresh = bool(self.saved)
        if t.max_attempts and t.attempts >= t.max_attempts:
            t.state = "dead"
        else:
            t.state = "scheduled" if delay else "ready"

    def ack(self):
        ids = self.some_leases(self.random.choice([1, 1, 3]))
        if len(ids) == 1:
            self.expect("ack", self.call("SELECT fairq.ack(%s)", self.model.tasks[ids[0]].receipt), [(True,)])
        elif ids:
            receipts = [self.model.tasks[i].receipt for i in ids]
            done = self.call("SELECT fairq.ack_many(%s)", receipts + self.model.old_receipts[-1:])
            self.expect("ack_many", sorted(x[0] for x in done), sorted(receipts))
        for id in ids:
            self.end(id)
            del self.model.tasks[id]

    def ack_and_claim(self):
        ids = self.some_leases(2)
        receipts = [self.model.tasks[i].receipt for i in ids]
        n = self.random.choice([1, 4])
        rows = self.call("SELECT " + self.COLUMNS + " FROM fairq.ack_and_claim(%s, %s::uuid[], %s, lease => '1 day')",
                         self.queue, receipts, n)
        # The leases end when the transaction does: until then they count.
        self.take(rows, n, None, True)
        for id in ids:
            self.end(id)
            del self.model.tasks[id]

    def nack(self):
        for id in self.some_leases(1):
            t = self.model.tasks[id]
            delay = self.random.choice(["0", "1 year", None])
            self.expect("nack", self.call("SELECT fairq.nack(%s, %s, %s::interval)", t.receipt, "no", delay), [(True,)])
            self.end(id)
            self.failed(t, delay == "1 year")

    def nack_many(self):
        ids = self.some_leases(3)
        if not ids:
            return
        receipts = [self.model.tasks[i].receipt for i in ids]
        done = self.call("SELECT fairq.nack_many(%s, delay => '0')", receipts)
        self.expect("nack_many", sorted(x[0] for x in done), sorted(receipts))
        for id in ids:
            self.failed(self.end(id), False)

    def release(self):
        for id in self.some_leases(1):
            t = self.model.tasks[id]
            self.expect("release", self.call("SELECT fairq.release(%s)", t.receipt), [(True,)])
            self.end(id)
            t.state = "ready"
            t.fresh = bool(self.saved)

    def extend(self):
        for id in self.some_leases(1):
            t = self.model.tasks[id]
            self.expect("extend", self.call("SELECT fairq.extend(%s, '2 days') > now() + interval '1 day'", t.receipt), [(True,)])

    def expire(self):
        """Not in a transaction: extend holds at once."""
        if self.saved:
            return
        for id in self.some_leases(1):
            t = self.model.tasks[id]
            self.call("SELECT fairq.extend(%s, '1 microsecond')", t.receipt)
            self.call("SELECT pg_sleep(0.11)")      # two ticks of the wheel
            self.call("SELECT fairq.maintain(%s)", self.queue)
            self.end(id)
            self.failed(t, False)

    def old_receipt(self):
        if not self.model.old_receipts or self.saved:
            return
        receipt = self.random.choice(self.model.old_receipts)
        for function in ["ack", "nack", "release"]:
            self.expect("old receipt: " + function, self.call("SELECT fairq." + function + "(%s)", receipt), [(False,)])
        self.expect("old receipt: extend", self.call("SELECT fairq.extend(%s, '1 day')", receipt), [(None,)])

    def cancel(self):
        ids = list(self.model.tasks) + [999999999]
        id = self.random.choice(ids)
        self.expect("cancel", self.call("SELECT fairq.cancel(%s, %s)", self.queue, id), [(id in self.model.tasks,)])
        if id in self.model.tasks:
            if self.model.tasks[id].state == "leased":
                self.end(id)
            del self.model.tasks[id]

    def purge(self):
        if self.random.random() < 0.8:
            return
        group = self.random.choice(GROUPS)
        gone = [id for id, t in self.model.tasks.items() if t.group == group and t.state != "leased" and not t.settling]
        self.expect("purge", self.call("SELECT fairq.purge(%s, %s)", self.queue, group), [(len(gone),)])
        for id in gone:
            del self.model.tasks[id]
        # What is left is in flight, and its group begins anew.
        for t in self.model.tasks.values():
            t.loose = t.loose or t.group == group

    def revive(self):
        dead = [id for id, t in self.model.tasks.items() if t.state == "dead"]
        some = self.random.sample(dead, min(1, len(dead)))
        # In the order of the table all of them would come in any order.
        for id in some:
            self.expect("revive", self.call("SELECT fairq.revive(%s, %s)", self.queue, id), [(1,)])
            t = self.model.tasks[id]
            t.state, t.attempts, t.turn, t.fresh = "ready", 0, self.model.next_turn(), bool(self.saved)
        if not dead:
            self.expect("revive", self.call("SELECT fairq.revive(%s)", self.queue), [(0,)])

    def pause(self):
        if self.saved:
            return
        if self.random.random() < 0.5:
            self.model.queue_paused = not self.model.queue_paused
            self.call("SELECT fairq." + ("pause" if self.model.queue_paused else "resume") + "(%s)", self.queue)
        else:
            group = self.random.choice(GROUPS)
            self.model.paused ^= {group}
            self.model.ever_limited.add(group)
            self.call("SELECT fairq." + ("pause" if group in self.model.paused else "resume") + "(%s, %s)", self.queue, group)

    def set_group(self):
        if self.saved:
            return
        group = self.random.choice(GROUPS)
        limit = self.random.choice([0, 0, 1, 2, 5])
        self.model.limits[group] = limit
        if limit:
            self.model.ever_limited.add(group)
        self.call("SELECT fairq.set_group(%s, %s, max_leased => %s, weight => %s::real)", self.queue, group, limit,
                  self.random.choice([None, 1, 0.5, 7]))

    def buckets(self):
        if self.saved or self.random.random() < 0.7:
            return
        self.call("SELECT fairq.alter_queue(%s, buckets => %s)", self.queue, self.random.choice([1, 2, 5, 16]))

    def maintain(self):
        self.call("SELECT fairq.maintain(%s)", self.queue)

    def vacuum(self):
        if self.saved or self.random.random() < 0.9:
            return
        name = sql.SQL("VACUUM FULL fairq.{}").format(sql.Identifier("q_" + self.queue)).as_string(self.conn)
        self.log.append(name)
        self.conn.execute(name)

    # --- transactions ----------------------------------------------------

    def transaction(self):
        r = self.random
        if not self.saved:
            if r.random() < 0.5:
                return
            self.log.append("BEGIN")
            self.conn.execute("BEGIN")
            self.saved.append(copy.deepcopy(self.model))
        elif r.random() < 0.3 and len(self.saved) < 4:
            self.log.append("SAVEPOINT")
            self.conn.execute("SAVEPOINT s%d" % len(self.saved))
            self.saved.append(copy.deepcopy(self.model))
        elif len(self.saved) > 1 and r.random() < 0.5:
            kept = self.saved.pop()
            if r.random() < 0.5:
                self.log.append("ROLLBACK TO")
                self.conn.execute("ROLLBACK TO SAVEPOINT s%d" % len(self.saved))
                self.roll_back(kept)
            else:
                self.log.append("RELEASE")
                self.conn.execute("RELEASE SAVEPOINT s%d" % len(self.saved))
        elif r.random() < 0.5:
            self.log.append("ROLLBACK")
            self.conn.execute("ROLLBACK")
            kept = self.saved[0]
            self.saved = []
            self.roll_back(kept)
        else:
            self.commit()

    def roll_back(self, kept):
        """Receipts of leases that never were are old, like the others."""
        old = {t.receipt for t in self.model.tasks.values() if t.receipt} - \
            {t.receipt for t in kept.tasks.values() if t.receipt}
        kept.old_receipts.extend(old)
        live = {t.receipt for t in kept.tasks.values() if t.receipt}
        kept.old_receipts = [r for r in kept.old_receipts if r not in live]
        kept.turn = max(kept.turn, self.model.turn)
        self.model = kept

    def commit(self):
        if self.saved:
            self.log.append("COMMIT")
            self.conn.execute("COMMIT")
            self.saved = []
        self.model.settling = {}
        for t in self.model.tasks.values():
            t.fresh = t.settling = False

    # --- the whole -------------------------------------------------------

    def compare(self):
        rows = self.call("SELECT id, state, group_key, payload, attempts FROM fairq.tasks(%s)", self.queue)
        is_ = {r[0]: (r[1], r[2], r[3], r[4]) for r in rows}
        should = {id: (t.shown(), t.group, t.payload, t.attempts) for id, t in self.model.tasks.items()}
        for id in sorted(set(is_) | set(should)):
            if is_.get(id) != should.get(id):
                raise Difference("task %d is %r, should be %r" % (id, is_.get(id), should.get(id)))

    def compare_depths(self):
        """What is counted, when no transaction is open."""
        row = self.call("SELECT ready, leased, scheduled, dead FROM fairq.queue_stats WHERE queue = %s", self.queue)[0]
        states = [t.state for t in self.model.tasks.values()]
        self.expect("depths", tuple(row), tuple(states.count(s) for s in ["ready", "leased", "scheduled", "dead"]))

    def run(self):
        r = self.random
        self.call("SELECT fairq.create_queue(%s, buckets => %s, max_attempts => 3, backoff_base => '0')",
                  self.queue, r.choice([1, 2, 4, 16]))
        functions = [(self.enqueue, 22), (self.claim, 18), (self.pop, 4), (self.ack, 10), (self.ack_and_claim, 3),
                     (self.nack, 6), (self.nack_many, 2), (self.release, 4), (self.extend, 2), (self.expire, 1),
                     (self.old_receipt, 2), (self.cancel, 3), (self.purge, 1), (self.revive, 3), (self.pause, 2),
                     (self.set_group, 3), (self.buckets, 1), (self.maintain, 1), (self.vacuum, 1), (self.transaction, 14)]
        names = [f for f, _ in functions]
        weights = [w for _, w in functions]
        for step in range(self.steps):
            f = r.choices(names, weights)[0]
            f()
            self.counts[f.__name__] = self.counts.get(f.__name__, 0) + 1
            if step % 7 == 0:
                self.compare()
            if step % 20 == 0 and not self.saved:
                self.compare_depths()
        self.commit()
        self.compare()
        # All of it can be had in the end.
        self.model.queue_paused, self.model.paused, self.model.limits = False, set(), {}
        self.call("SELECT fairq.resume(%s)", self.queue)
        for group in GROUPS:
            self.call("SELECT fairq.resume(%s, %s)", self.queue, group)
            self.call("SELECT fairq.set_group(%s, %s, max_leased => 0)", self.queue, group)
        while any(t.state == "ready" for t in self.model.tasks.values()):
            self.pop()
        self.compare()
        self.call("SELECT fairq.drop_queue(%s)", self.queue)


def main():
    conninfo, first, schedules, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    total = {}
    for seed in range(first, first + schedules):
        run = Run(conninfo, seed, steps)
        try:
            run.run()
        except (Difference, psycopg.Error) as e:
            print("seed %d, after %d calls: %s: %s" % (seed, len(run.log), type(e).__name__, e))
            for line in run.log[-int(sys.argv[5]) if len(sys.argv) > 5 else -25:]:
                print("  " + line)
            return 1
        for name, n in run.counts.items():
            total[name] = total.get(name, 0) + n
        run.conn.close()
    print(json.dumps(total, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
