#!/usr/bin/python3
"""Random schedules of all functions, against the real queues and against the
model of them (model.py) at once. Every difference is an error.

Three connections take turns, with transactions, savepoints and roll-backs, on
two queues. A step is the name of a method below and a seed, and all that it
chooses comes from that seed, so a schedule is repeatable; and when one fails,
steps are left out for as long as it fails still, and what is left is printed.

The connections take turns in one thread, so each answer is known. A call that
would have to wait for another connection's transaction is not made, and one that
waits nevertheless is an error, too (lock_timeout).

There is no background worker: what it does is done by fairq.maintain(), and by
claims that find nothing.

Usage: model_run.py CONNINFO [--seed N] [--schedules N] [--steps N]
           [--pg-ctl PATH --data DIRECTORY --log FILE]     (to restart the server now and then)
"""

import argparse
import json
import random
import re
import subprocess
import sys
import time
from contextlib import contextmanager

import psycopg
from psycopg import sql

from model import Difference, Lease, Model, Queue, Row, Session, Transaction

GROUPS = ["a", "b", "c", "", "ü"]
CLASSES = [0, 1, 2]
KEYS = ["k1", "k2", "k3"]
TOPICS = ["a", "a.b", "a.b.c", "b"]
PATTERNS = ["a", "a.*", "a.#", "#", "*.b", "b"]
FAR = "2100-01-01"
COLUMNS = "id, receipt, group_key, payload, attempt"


class Connection:
    def __init__(self, name):
        self.name = name
        self.db = None
        self.tx = None

    def connect(self, conninfo):
        self.db = psycopg.connect(conninfo, autocommit=True,
                                  options="-c lock_timeout=2s -c statement_timeout=30s")


class Run:
    def __init__(self, options, seed):
        self.options = options
        self.name = "model %d" % seed
        self.connections = [Connection(n) for n in "ABC"]
        self.counts = {}
        self.log = []
        self.model = Model()
        r = random.Random(seed)
        steps = [n for n, weight in self.STEPS.items() for _ in range(weight)]
        self.settings = [self.random_settings(r) for _ in range(2)]
        self.schedule = [(r.choice(steps), r.randrange(2 ** 32)) for _ in range(options.steps)]
        if options.pg_ctl and seed % 5 == 0:
            for _ in range(2):
                self.schedule.insert(r.randrange(options.steps), ("restart", r.randrange(2 ** 32)))

    @staticmethod
    def random_settings(r):
        return dict(buckets=r.choice([1, 2, 4, 16]), durable=r.random() < 0.25,
                    room=r.choice([None, None, (3, 8), (1, 3), (4, 100)]))

    # --- talking to the server --------------------------------------------

    def call(self, c, text, *args):
        entry = [c.name, text, args, None]
        self.log.append(entry)
        cursor = c.db.execute(text, args)
        entry[3] = cursor.fetchall() if cursor.description else []
        return entry[3]

    def value(self, c, text, *args):
        return self.call(c, text, *args)[0][0]

    def expect(self, what, is_, should):
        if is_ != should:
            raise Difference("%s: is %r, should be %r" % (what, is_, should))

    def refused(self, c, state, text, *args):
        """It is refused, and nothing else happens."""
        if c.tx:
            self.call(c, "SAVEPOINT refused")
        try:
            self.call(c, text, *args)
        except psycopg.Error as e:
            self.expect("SQLSTATE", e.sqlstate, state)
        else:
            raise Difference("it is not refused")
        if c.tx:
            self.call(c, "ROLLBACK TO SAVEPOINT refused")

    @contextmanager
    def within(self, c):
        """The transaction that a statement is in: the open one, or its own."""
        tx = c.tx or Transaction(c)
        yield tx
        self.resolve(c)
        if c.tx is None:
            self.model.commit(tx)
            self.resolve(c)     # what was held may run

    def resolve(self, c):
        """Whether there was room for tasks that got their places, the queue says."""
        for queue in self.model.queues.values():
            placed = [t for t in queue.tasks.values() if t.row and t.row.state == "placed"]
            if not placed:
                continue
            states = dict(self.call(c, "SELECT id, state FROM fairq.tasks(%s)", queue.name))
            for task in placed:
                state = "ready" if states.get(task.id) == "leased" else states.get(task.id)
                queue.placed(task, state)

    def some(self, tasks, n=1):
        tasks = list(tasks)
        return self.r.sample(tasks, min(n, len(tasks)))

    def connection(self):
        return self.r.choice(self.connections)

    def idle(self):
        """One without a transaction, or None."""
        return next(iter(self.some(c for c in self.connections if c.tx is None)), None)

    def queue(self):
        queues = list(self.model.queues.values())
        return queues[0] if self.r.random() < 0.7 else queues[1]

    # --- producing --------------------------------------------------------

    def new_row(self):
        r = self.r
        return Row("ready", r.choice(GROUPS), r.choice(CLASSES), r.randrange(10 ** 6),
                   max_attempts=r.choice([None, None, 1, 2]), later=r.random() < 0.1,
                   key=r.choice(KEYS) if r.random() < 0.3 else None)

    def can_enqueue(self, tx, queue, key):
        return key is None or not queue.key_is_busy(key, tx)

    ENQUEUE = ("%s::jsonb, group_key => %s, priority => %s, run_at => %s::timestamptz, max_attempts => %s, "
               "unique_key => %s, on_duplicate => %s)")

    def arguments(self, row, replaces):
        return (json.dumps(row.payload), row.group, row.klass, FAR if row.later else None, row.max_attempts,
                row.key, "replace" if replaces else "keep")

    def enqueue(self):
        c, queue, row, replaces = self.connection(), self.queue(), self.new_row(), self.r.random() < 0.5
        with self.within(c) as tx:
            if self.can_enqueue(tx, queue, row.key):
                id = self.value(c, "SELECT fairq.enqueue(%s, " + self.ENQUEUE, queue.name, *self.arguments(row, replaces))
                self.model.enqueue(tx, queue, id, row, replaces)

    def enqueue_many(self):
        c, queue, r = self.connection(), self.queue(), self.r
        group, klass, later = r.choice(GROUPS), r.choice(CLASSES), r.random() < 0.1
        payloads = [r.randrange(10 ** 6) for _ in range(r.choice([2, 5, 12]))]
        keys = [None] * len(payloads)
        if r.random() < 0.3:
            keys[:2] = r.sample(KEYS, 2)
        with self.within(c) as tx:
            if not all(self.can_enqueue(tx, queue, key) for key in keys):
                return
            ids = self.value(c, "SELECT fairq.enqueue_many(%s, %s::jsonb[], %s::text[], %s::bigint[], "
                             "run_ats => %s::timestamptz[], unique_keys => %s::text[])",
                             queue.name, [json.dumps(p) for p in payloads], [group], [klass],
                             [FAR if later else None], keys)
            for id, payload, key in zip(ids, payloads, keys):
                self.model.enqueue(tx, queue, id, Row("ready", group, klass, payload, later=later, key=key))

    def publish(self):
        c, topic, row, replaces = self.connection(), self.r.choice(TOPICS), self.new_row(), self.r.random() < 0.5
        queues = [self.model.queues[name] for name in sorted(self.model.subscribed(topic))]
        with self.within(c) as tx:
            if not all(self.can_enqueue(tx, queue, row.key) for queue in queues):
                return
            n = self.value(c, "SELECT fairq.publish(%s, " + self.ENQUEUE, self.name + "." + topic,
                           *self.arguments(row, replaces))
            self.expect("publish", n, len(queues))
            for queue in queues:
                ids = {x[0] for x in self.call(c, "SELECT id FROM fairq.tasks(%s)", queue.name)} - set(queue.tasks)
                if len(ids) > 1:
                    raise Difference("published more than once")
                self.model.enqueue(tx, queue, ids.pop() if ids else None, row, replaces)

    def subscribe(self):
        c, pattern, queue = self.idle(), self.r.choice(PATTERNS), self.queue()
        if c is None:
            return
        subscription, there = (pattern, queue.name), (pattern, queue.name) in self.model.subscriptions
        text = self.name + "." + pattern
        if self.r.random() < 0.6:
            if self.admin(c, "SELECT fairq.subscribe(%s, %s)", text, queue.name):
                self.model.subscriptions.add(subscription)
        elif self.admin(c, "SELECT fairq.unsubscribe(%s, %s)", text, queue.name, should=there):
            self.model.subscriptions.discard(subscription)

    # --- consuming --------------------------------------------------------

    def take(self, tx, queue, rows, n, chosen=None, leased=True, session=None):
        """Check what a claim or pop gave, and note it."""
        queue.room_is_exact &= chosen is None
        lines = queue.lines(chosen)
        left = {g: queue.room(g) for g in GROUPS}
        want = 0
        room = dict(left)
        for (_, group), line in sorted(lines.items()):
            take = min(len(line), room[group])
            room[group] -= take
            want += take
        self.expect("number of tasks", len(rows), min(n, want))
        klass_before = -1
        for id, receipt, group, payload, attempt in rows:
            task = queue.tasks.get(id)
            line = lines.get((task.row.klass, task.row.group), []) if task and task.row else []
            if task not in line:
                raise Difference("task %d should not come: %r" % (id, task))
            row = task.row
            self.expect("group, payload, attempt", (group, payload, attempt), (row.group, row.payload, row.attempts + 1))
            if row.klass < klass_before:
                raise Difference("class %d after %d" % (row.klass, klass_before))
            klass_before = row.klass
            for (klass, other), others in lines.items():
                if klass < row.klass and others and left[other] > 0:
                    raise Difference("class %d while %r has class %d" % (row.klass, other, klass))
            if left[group] <= 0:
                raise Difference("group %r above its limit" % group)
            left[group] -= 1
            if queue.in_order(task):
                self.expect("first of %r" % group, id, next(t.id for t in line if queue.in_order(t)))
            line.remove(task)
            self.model.claim(tx, task, receipt, session)
            if not leased:
                self.model.remove(tx, task)
        if not rows:
            self.catch_up(c=tx.connection, tx=tx, queue=queue)

    def claim(self):
        r, c, queue = self.r, self.connection(), self.queue()
        n = r.choice([1, 1, 2, 5, 20])
        groups = r.sample(GROUPS, 2) if r.random() < 0.3 else None
        session = self.session() if r.random() < 0.3 else None
        peeked = None
        with self.within(c) as tx:
            if groups is None and not queue.ever_limited and r.random() < 0.3:
                peeked = [x[0] for x in self.call(c, "SELECT id FROM fairq.peek(%s, %s)", queue.name, n)]
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, %s, lease => '1 day', session => %s, "
                             "wait => %s, group_keys => %s::text[])", queue.name, n, session and session.uuid,
                             r.choice(["0", "0", "0", "10 ms"]), groups)
            self.take(tx, queue, rows, n, groups and (lambda t: t.row.group in groups), session=session)
            if peeked is not None:
                self.expect("peek", peeked, [x[0] for x in rows])

    def claim_any(self):
        """From the first of two queues what a claim of it would get, the rest from the other."""
        c, n = self.connection(), self.r.choice([1, 3, 20])
        queues = list(self.model.queues.values())
        self.r.shuffle(queues)
        with self.within(c) as tx:
            rows = self.call(c, "SELECT queue, " + COLUMNS + " FROM fairq.claim_any(%s, %s, lease => '1 day', wait => %s)",
                             [q.name for q in queues + queues[:1]], n, self.r.choice(["0", "0", "10 ms"]))
            self.expect("queues in the order given", [r[0] for r in rows],
                        [q.name for q in queues for r in rows if r[0] == q.name])
            for queue in queues:
                if n > 0:
                    own = [r[1:] for r in rows if r[0] == queue.name]
                    self.take(tx, queue, own, n)
                    n -= len(own)

    def pop(self):
        c, queue, n = self.connection(), self.queue(), self.r.choice([1, 3])
        groups = self.r.sample(GROUPS, 1) if self.r.random() < 0.3 else None
        with self.within(c) as tx:
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.pop(%s, %s, group_keys => %s::text[])",
                             queue.name, n, groups)
            self.take(tx, queue, rows, n, groups and (lambda t: t.row.group in groups), leased=False)

    def leases(self, tx, n):
        """Some that tx may settle."""
        return self.some((t for t in self.model.tasks() if t.lease and t.lease.good_for(tx)
                          and t.writer in (None, tx)), n)

    def receipts(self, tasks):
        return [t.lease.receipt for t in tasks]

    def ack(self):
        c = self.connection()
        with self.within(c) as tx:
            tasks = self.leases(tx, self.r.choice([1, 1, 3]))
            receipts = self.receipts(tasks)
            if len(tasks) == 1:
                self.expect("ack", self.value(c, "SELECT fairq.ack(%s)", receipts[0]), True)
            elif tasks:
                done = self.call(c, "SELECT fairq.ack_many(%s)", receipts + self.model.old_receipts[-1:])
                self.expect("ack_many", sorted(x[0] for x in done), sorted(receipts))
            for task in tasks:
                self.model.remove(tx, task)

    def ack_and_claim(self):
        c, queue, n = self.connection(), self.queue(), self.r.choice([1, 4])
        with self.within(c) as tx:
            tasks = self.leases(tx, 2)
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.ack_and_claim(%s, %s::uuid[], %s, lease => '1 day')",
                             queue.name, self.receipts(tasks), n)
            # The leases end when the transaction does: until then they count.
            for task in tasks:
                self.model.remove(tx, task)
            self.take(tx, queue, rows, n)

    def nack(self):
        c = self.connection()
        with self.within(c) as tx:
            for task in self.leases(tx, 1):
                delay = self.r.choice(["0", "1 year", None])
                done = self.value(c, "SELECT fairq.nack(%s, %s, %s::interval)", task.lease.receipt, "no", delay)
                self.expect("nack", done, True)
                self.model.failed(tx, task, delay == "1 year")

    def nack_many(self):
        c = self.connection()
        with self.within(c) as tx:
            tasks = self.leases(tx, 3)
            done = self.call(c, "SELECT fairq.nack_many(%s::uuid[], delay => '0')", self.receipts(tasks))
            self.expect("nack_many", sorted(x[0] for x in done), sorted(self.receipts(tasks)))
            for task in tasks:
                self.model.failed(tx, task)

    def release(self):
        c = self.connection()
        with self.within(c) as tx:
            for task in self.leases(tx, 1):
                self.expect("release", self.value(c, "SELECT fairq.release(%s)", task.lease.receipt), True)
                self.model.settle(tx, task)

    def release_many(self):
        c = self.connection()
        with self.within(c) as tx:
            tasks = self.leases(tx, 3)
            done = self.call(c, "SELECT fairq.release_many(%s::uuid[])", self.receipts(tasks))
            self.expect("release_many", sorted(x[0] for x in done), sorted(self.receipts(tasks)))
            for task in tasks:
                self.model.settle(tx, task)

    def extend(self):
        c = self.connection()
        with self.within(c) as tx:
            for task in self.leases(tx, 1):
                self.expect("extend", self.value(c, "SELECT fairq.extend(%s, '2 days') > now() + interval '1 day'",
                                                 task.lease.receipt), True)
                self.model.extend(tx, task)

    def expire(self):
        """What has run out is put back by whoever does the worker's work next."""
        c = self.idle()
        for task in self.leases(None, 1) if c else []:
            self.call(c, "SELECT fairq.extend(%s, '1 microsecond')", task.lease.receipt)
            task.lease.expired = True
            self.call(c, "SELECT pg_sleep(0.11)")       # two ticks of the wheel
            self.maintain_queue(c, task.queue)

    def not_mine(self, c, receipt, what):
        for function in ["ack", "nack", "release"]:
            self.expect(what + function, self.value(c, "SELECT fairq." + function + "(%s)", receipt), False)
        self.expect(what + "extend", self.value(c, "SELECT fairq.extend(%s, '1 day')", receipt), None)

    def old_receipt(self):
        for receipt in self.some(self.model.old_receipts):
            self.not_mine(self.connection(), receipt, "old receipt: ")

    def contested(self):
        """What another transaction is just settling."""
        c = self.connection()
        for task in self.some(t for t in self.model.tasks() if t.lease and t.lease.settler not in (None, c.tx)):
            self.not_mine(c, task.lease.receipt, "receipt that is being settled: ")

    # --- sessions ---------------------------------------------------------

    def session(self):
        return next(iter(self.some(s for s in self.model.sessions if not s.over)), None)

    def open_session(self):
        c, bound = self.connection(), self.r.random() < 0.3
        if sum(not s.over for s in self.model.sessions) < 4:
            uuid = self.value(c, "SELECT fairq.open_session(%s, '1 day', %s)", "s", bound)
            self.model.sessions.append(Session(uuid, c if bound else None))

    def heartbeat(self):
        for session in self.some(self.model.sessions):
            self.expect("heartbeat", self.value(self.connection(), "SELECT fairq.heartbeat(%s)", session.uuid),
                        not session.over)

    def close_session(self):
        c, session = self.connection(), self.session()
        if session is None:
            return
        with self.within(c) as tx:
            tasks = [t for t in self.model.tasks() if t.lease and t.lease.session is session]
            if any(t.lease.claimer not in (None, tx) or t.lease.extender not in (None, tx) for t in tasks):
                return
            tasks = [t for t in tasks if t.lease.settler is None]
            self.expect("close_session", self.value(c, "SELECT fairq.close_session(%s)", session.uuid), len(tasks))
            for task in tasks:
                self.model.settle(tx, task)
            tx.owes(lambda: setattr(session, "over", True))

    def short_session(self):
        """One that misses its ttl, with what was claimed under it."""
        c, queue = self.idle(), self.queue()
        if c is None:
            return
        session = Session(self.value(c, "SELECT fairq.open_session(ttl => '60 ms')"), None)
        self.model.sessions.append(session)
        try:
            with self.within(c) as tx:
                rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, 2, session => %s)",
                                 queue.name, session.uuid)
                self.take(tx, queue, rows, 2, session=session)
        except psycopg.Error as e:
            self.expect("SQLSTATE", e.sqlstate, "55000")        # we were too slow
        self.call(c, "SELECT pg_sleep(0.07)")
        session.over = True
        for task in self.some(t for t in queue.tasks.values() if t.lease and t.lease.session is session):
            self.not_mine(c, task.lease.receipt, "session is over: ")

    def buckets(self):
        """Sessions that ask for buckets have them dealt out between them."""
        c, queue, session = self.connection(), self.queue(), self.session()
        if session is None:
            return
        session.members.add(queue)
        shares = {}
        for _ in range(2):      # the first time others have to make room
            for member in self.model.sessions:
                if not member.over and queue in member.members:
                    shares[member] = self.value(c, "SELECT fairq.my_buckets(%s, %s)", queue.name, member.uuid)
        self.expect("all buckets", sorted(b for share in shares.values() for b in share), list(range(queue.buckets)))
        sizes = [len(share) for share in shares.values()]
        if max(sizes) - min(sizes) > 1:
            raise Difference("shares of %r buckets" % sizes)

        n, mine, lost = self.r.choice([1, 3, 20]), shares[session], set(range(queue.buckets)) - set(shares[session])
        if lost:
            self.refused(c, "55000", "SELECT fairq.claim(%s, 1, session => %s, buckets => %s)",
                         queue.name, session.uuid, mine + [max(lost)])
        of = dict(self.call(c, "SELECT id, fairq.bucket(address) FROM fairq.tasks(%s) WHERE address IS NOT NULL", queue.name))
        with self.within(c) as tx:
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, %s, session => %s, buckets => %s::int[])",
                             queue.name, n, session.uuid, mine)
            self.take(tx, queue, rows, n, lambda t: of[t.id] % queue.buckets in mine, session=session)

    # --- looking, and the rest --------------------------------------------

    def look(self):
        c, queue = self.connection(), self.queue()
        tx = c.tx or Transaction(c)
        for task in self.some(queue.tasks.values()):
            row = task.seen(tx)
            state = None if row is None else task.shown(tx)
            self.expect("get_task", self.call(c, "SELECT state, payload, unique_key FROM fairq.get_task(%s, %s)",
                                              queue.name, task.id), [(state, row.payload, row.key)] if row else [])
            is_, ahead, exact = self.call(c, "SELECT state, ahead, exact FROM fairq.get_task_position(%s, %s)",
                                          queue.name, task.id)[0]
            self.expect("position: state", is_, state)
            if state == "leased":
                self.expect("ahead of a leased task", ahead, 0)
            elif state != "ready":
                self.expect("ahead of a task that is not ready", ahead, None)
            elif exact and all(c.tx is None for c in self.connections):
                self.check_position(queue, task, ahead)

    def check_position(self, queue, task, ahead):
        """As far as the order is known."""
        before = after = 0
        me = task.row
        for other in queue.tasks.values():
            row = other.row
            if other is task or row.state != "ready" or other.lease:
                continue
            ordered = row.klass == me.klass and row.group == me.group and queue.in_order(task) and queue.in_order(other)
            # What was set aside, of other groups at their limits, is not counted.
            before += (row.group == me.group or row.group not in queue.ever_limited) and (
                row.klass < me.klass or (ordered and row.turn < me.turn))
            after += row.klass > me.klass or (ordered and row.turn > me.turn)
        ready = sum(t.row.state == "ready" and t.lease is None for t in queue.tasks.values())
        if not before <= ahead <= ready - 1 - after:
            self.compare(self.connections[0])
            raise Difference("ahead of %d: %d, should be from %d to %d" % (task.id, ahead, before, ready - 1 - after))

    def cancel(self):
        c, queue = self.connection(), self.queue()
        with self.within(c) as tx:
            if self.r.random() < 0.1:
                self.expect("cancel", self.value(c, "SELECT fairq.cancel(%s, 999999999)", queue.name), False)
                return
            for task in self.some(t for t in queue.tasks.values() if t.free(tx)):
                there = task.row is not None
                self.expect("cancel", self.value(c, "SELECT fairq.cancel(%s, %s)", queue.name, task.id), there)
                if there:
                    self.model.remove(tx, task)

    def purge(self):
        c, queue = self.connection(), self.queue()
        group = self.r.choice(GROUPS + [None])
        if self.r.random() < 0.3:
            with self.within(c) as tx:
                n = self.value(c, "SELECT fairq.purge(%s, %s)", queue.name, group)
                self.expect("purge", n, self.model.purge(tx, queue, group))

    def revive(self):
        c, queue = self.connection(), self.queue()
        with self.within(c) as tx:
            dead = [t for t in queue.tasks.values() if t.writer in (None, tx) and t.row and t.row.state == "dead"]
            for task in self.some(dead):
                if self.can_enqueue(tx, queue, task.row.key):
                    n = self.value(c, "SELECT fairq.revive(%s, %s)", queue.name, task.id)
                    self.expect("revive", n, int(self.model.revive(tx, task)))
            # All of them in one call would come in any order.
            if not dead:
                self.expect("revive", self.value(c, "SELECT fairq.revive(%s)", queue.name), 0)

    def hasten(self):
        """With SQL: a scheduled task is due."""
        c, queue = self.connection(), self.queue()
        table = sql.Identifier("q_" + queue.name).as_string(c.db)
        with self.within(c) as tx:
            for task in self.some(t for t in queue.tasks.values() if t.free(tx) and t.row and t.row.state == "scheduled"):
                self.call(c, "UPDATE fairq." + table + " SET run_at = now() - interval '1 s' WHERE id = %s", task.id)
                self.model.change(tx, task, later=False)

    def admin(self, c, text, *args, should=None):
        """Settings change by themselves; or not, if they are rolled back. Returns
        whether they have."""
        rolled_back = self.r.random() < 0.2
        if rolled_back:
            self.call(c, "BEGIN")
        is_ = self.value(c, text, *args)
        if should is not None:
            self.expect(text, is_, should)
        if rolled_back:
            self.call(c, "ROLLBACK")
        return not rolled_back

    def pause(self):
        c, queue, group = self.idle(), self.queue(), self.r.choice(GROUPS + [None] * 4)
        if c is None:
            return
        paused = queue.paused if group is None else group in queue.paused_groups
        if self.admin(c, "SELECT fairq." + ("resume" if paused else "pause") + "(%s, %s)", queue.name, group):
            if group is None:
                queue.paused = not paused
            else:
                queue.paused_groups ^= {group}
        if group is not None:
            queue.ever_limited.add(group)

    def set_group(self):
        c, queue, group, limit = self.idle(), self.queue(), self.r.choice(GROUPS), self.r.choice([0, 0, 1, 2, 5])
        if c and self.admin(c, "SELECT fairq.set_group(%s, %s, max_leased => %s, weight => %s::real)", queue.name, group,
                            limit, self.r.choice([None, 1, 0.5, 7])):
            queue.limits[group] = limit
            if limit:
                queue.ever_limited.add(group)

    def alter(self):
        c, queue, r = self.idle(), self.queue(), self.r
        values = {"buckets": r.choice([1, 2, 5, 16]), "max_attempts": r.choice([1, 2, 3, 5])}
        if queue.max_ready is not None:
            values["max_ready_per_group"] = r.choice([1, 2, 4, 50])
            values["max_ready"] = r.choice([2, 5, 20, 50])
        values["durable"] = r.random() < 0.3
        name, value = r.choice(sorted(values.items()))
        if c and self.admin(c, "SELECT fairq.alter_queue(%s, {} => %s)".format(
                "durable_leases" if name == "durable" else name), queue.name, value):
            setattr(queue, name, value)

    def maintain(self):
        self.maintain_queue(self.connection(), self.queue())

    def maintain_queue(self, c, queue):
        with self.within(c) as tx:
            n = self.value(c, "SELECT fairq.maintain(%s)", queue.name)
            self.expect("maintain did something", n > 0, self.catch_up(c, tx, queue))

    def vacuum(self):
        if self.r.random() < 0.2 and all(c.tx is None for c in self.connections):
            c = self.connection()
            self.call(c, "VACUUM FULL fairq." + sql.Identifier("q_" + self.queue().name).as_string(c.db))

    # --- transactions, connections, the server ----------------------------

    def transaction(self):
        r, c = self.r, self.connection()
        if c.tx is None:
            if r.random() < 0.5:
                self.call(c, "BEGIN")
                c.tx = Transaction(c)
        elif r.random() < 0.3 and len(c.tx.savepoints) < 3:
            self.call(c, "SAVEPOINT s%d" % len(c.tx.savepoints))
            c.tx.savepoints.append(len(c.tx.owed))
        elif c.tx.savepoints and r.random() < 0.5:
            mark = c.tx.savepoints.pop()
            if r.random() < 0.5:
                self.call(c, "ROLLBACK TO SAVEPOINT s%d" % len(c.tx.savepoints))
                c.tx.roll_back_to(mark)
            else:
                self.call(c, "RELEASE SAVEPOINT s%d" % len(c.tx.savepoints))
        elif r.random() < 0.5:
            self.call(c, "ROLLBACK")
            self.lose_transaction(c)
        else:
            self.commit(c)

    def lose_transaction(self, c):
        if c.tx:
            self.model.roll_back(c.tx)
        c.tx = None

    def commit(self, c):
        if c.tx:
            self.call(c, "COMMIT")
            self.model.commit(c.tx)
            c.tx = None
            self.resolve(c)

    def reconnect(self):
        """A connection is lost, with its transaction and its bound sessions."""
        c = self.connection()
        pid = c.db.info.backend_pid
        self.log.append([c.name, "-- is lost", (), None])
        c.db.close()
        self.lose_transaction(c)
        for session in self.model.sessions:
            session.over |= session.opener is c
        c.connect(self.options.conninfo)
        while c.db.execute("SELECT true FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall():
            time.sleep(0.002)

    def restart(self):
        mode, o = self.r.choice(["fast", "immediate"]), self.options
        self.log.append(["", "-- restart, " + mode, (), None])
        subprocess.run([o.pg_ctl, "-D", o.data, "-l", o.log, "-m", mode, "-w", "-s", "restart"],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for c in self.connections:
            self.lose_transaction(c)
            c.db.close()
            c.connect(o.conninfo)
        self.model.restart(crash=mode == "immediate")

    # --- comparing --------------------------------------------------------

    def catch_up(self, c, tx, queue, passes=True):
        """What tasks there are. passes: a pass of maintain may have moved some.
        Returns whether it has."""
        rows = self.call(c, "SELECT id, state, group_key, payload, attempts, unique_key, priority, max_attempts "
                         "FROM fairq.tasks(%s) ORDER BY lease_until IS NULL, address IS NULL, "
                         "fairq.block(address), fairq.slot(address), id", queue.name)
        should = {t.id: t for t in queue.tasks.values() if t.seen(tx) is not None}
        moved = []
        fed = []
        # What is held may run because the one before it has died.
        rows.sort(key=lambda row: row[0] not in queue.tasks or queue.tasks[row[0]].lease is None)
        for id, state, *rest in rows:
            task = should.pop(id, None)
            if task is None:
                raise Difference("task %d is there" % id)
            if passes and (task.shown(tx), task.seen(tx).attempts) != (state, rest[2]):
                moved.append(task)
                if task.seen(tx).state == "overflow":
                    fed.append(task)
                self.model.passes(tx, task, state, rest[2])
            row = task.seen(tx)
            self.expect("task %d" % id, (state, *rest),
                        (state if task in moved else task.shown(tx), row.group, row.payload, row.attempts, row.key, row.klass,
                         queue.attempts_of(row)))
        if should:
            raise Difference("there is no task %r" % list(should))
        for place in {(t.row.group, t.row.klass) for t in fed}:
            ids = [t.id for t in fed if (t.row.group, t.row.klass) == place]
            self.expect("order in which %r and %d leave the overflow" % place, ids, sorted(ids))
        return bool(moved)

    def compare(self, c):
        for queue in self.model.queues.values():
            self.catch_up(c, c.tx or Transaction(c), queue, passes=False)

    def compare_depths(self):
        """With no transaction open: what has to be moved is, and what is counted."""
        c = self.connections[0]
        for queue in self.model.queues.values():
            deadline = time.time() + 20      # a machine that is busy may make it late
            self.maintain_queue(c, queue)
            while self.model.must_pass(queue):
                if time.time() > deadline:
                    raise Difference("maintain leaves %r" % self.model.must_pass(queue))
                self.maintain_queue(c, queue)
                time.sleep(0.02)
        self.compare_counts()

    def compare_counts(self):
        """With no transaction open: what the views count. Nothing has to come by first."""
        c = self.connections[0]
        for queue in self.model.queues.values():
            states = ["ready", "leased", "scheduled", "overflow", "held", "dead"]
            shown = [(t.row.group, t.shown(None)) for t in queue.tasks.values()]
            is_ = self.call(c, "SELECT " + ", ".join(states) + ", swept FROM fairq.queue_stats WHERE queue = %s", queue.name)
            self.expect("depths, and 0 swept", is_, [(*([s for _, s in shown].count(s) for s in states), 0)])
            states = ["ready", "leased", "overflow"]
            is_ = self.call(c, "SELECT group_key, " + ", ".join(states) + " FROM fairq.group_stats WHERE queue = %s", queue.name)
            groups = {g for g, state in shown if state in states}
            self.expect("counts of groups", sorted(is_), sorted((g, *(shown.count((g, s)) for s in states)) for g in groups))
        self.counts["counts"] = self.counts.get("counts", 0) + 1

    # --- the whole --------------------------------------------------------

    STEPS = {"enqueue": 20, "enqueue_many": 4, "publish": 3, "subscribe": 2, "claim": 16, "claim_any": 4, "pop": 4, "ack": 10,
             "ack_and_claim": 3, "nack": 6, "nack_many": 2, "release": 4, "release_many": 1, "extend": 2, "expire": 1,
             "old_receipt": 2, "contested": 2, "open_session": 2, "heartbeat": 1, "close_session": 1,
             "short_session": 1, "buckets": 3, "look": 4, "cancel": 3, "purge": 1, "revive": 3, "hasten": 2, "pause": 2,
             "set_group": 2, "alter": 2, "maintain": 2, "vacuum": 1, "transaction": 20, "reconnect": 1}

    def begin(self):
        c = self.connections[0]
        for number, settings in enumerate(self.settings):
            name = self.name + ["", " b"][number]
            per_group, in_all = settings["room"] or (None, None)
            self.call(c, "SELECT fairq.create_queue(%s, buckets => %s, max_attempts => 3, backoff_base => '0', "
                      "durable_leases => %s, max_ready_per_group => %s, max_ready => %s)",
                      name, settings["buckets"], settings["durable"], per_group, in_all)
            self.model.queues[name] = Queue(name, buckets=settings["buckets"], durable=settings["durable"],
                                            max_ready=in_all, max_ready_per_group=per_group)

    def end(self):
        """All of it can be had in the end."""
        c = self.connections[0]
        for other in self.connections:
            self.commit(other)
        for queue in self.model.queues.values():
            queue.paused, queue.paused_groups, queue.limits = False, set(), {}
            self.call(c, "SELECT fairq.resume(%s)", queue.name)
            for group in GROUPS:
                self.call(c, "SELECT fairq.resume(%s, %s), fairq.set_group(%s, %s, max_leased => 0)",
                          queue.name, group, queue.name, group)
        self.compare_depths()
        for queue in self.model.queues.values():
            while queue.lines():
                with self.within(c) as tx:
                    rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.pop(%s, 10)", queue.name)
                    self.take(tx, queue, rows, 10, leased=False)
                self.compare_depths()
        for queue in self.model.queues.values():
            if any(t.row.state == "overflow" for t in queue.tasks.values()):
                raise Difference("what is in the overflow stays there")

    def go(self, schedule):
        """Returns what is wrong, or None."""
        self.model, self.log = Model(), []
        for c in self.connections:
            c.connect(self.options.conninfo)
            c.tx = None
        try:
            self.begin()
            for number, (name, seed) in enumerate(schedule):
                self.r = random.Random(seed)
                getattr(self, name)()
                self.counts[name] = self.counts.get(name, 0) + 1
                if number % 7 == 0:
                    self.compare(self.connection())
                if all(c.tx is None for c in self.connections):
                    self.compare_depths() if number % 20 == 0 else self.compare_counts()
            self.end()
        except (Difference, psycopg.Error) as e:
            return "%s: %s" % (type(e).__name__, str(e).strip())
        finally:
            for c in self.connections:
                c.db.close()
            self.clean_up()
        return None

    def clean_up(self):
        with psycopg.connect(self.options.conninfo, autocommit=True) as db:
            db.execute("SET lock_timeout = '10s'")
            for name in self.model.queues:
                db.execute("SELECT fairq.drop_queue(%s)", [name])
            for session in self.model.sessions:
                db.execute("SELECT fairq.close_session(%s)", [session.uuid])

    def shrink(self, schedule, wrong, seconds):
        """Leave out what the difference does not need."""
        def kind(text):
            return re.split(r"[\d:]", text or "", maxsplit=2)[:2]
        deadline = time.time() + seconds
        size = max(len(schedule) // 2, 1)
        while True:
            at, smaller = 0, False
            while at < len(schedule) and time.time() < deadline:
                candidate = schedule[:at] + schedule[at + size:]
                if kind(self.go(candidate)) == kind(wrong):
                    schedule, smaller = candidate, True
                else:
                    at += size
            if time.time() >= deadline or (size == 1 and not smaller):
                return schedule
            size = max(size // 2, 1)

    def show(self):
        for name, text, args, result in self.log:
            with psycopg.connect(self.options.conninfo) as db:
                line = psycopg.ClientCursor(db).mogrify(text, args) if args else text
            print("%s: %s%s" % (name, line, "" if not result else "\n        " + repr(result)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("conninfo")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=1)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--shrink", type=float, default=60, help="for how many seconds at most")
    parser.add_argument("--pg-ctl")
    parser.add_argument("--data")
    parser.add_argument("--log")
    options = parser.parse_args()
    total = {}
    for seed in range(options.seed, options.seed + options.schedules):
        run = Run(options, seed)
        wrong = run.go(run.schedule)
        if wrong:
            print("seed %d: %s" % (seed, wrong))
            schedule = run.shrink(run.schedule, wrong, options.shrink)
            print("with %d of %d steps: %s" % (len(schedule), len(run.schedule), run.go(schedule)))
            run.show()
            return 1
        for name, n in run.counts.items():
            total[name] = total.get(name, 0) + n
    print(json.dumps(total, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
