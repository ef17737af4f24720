#!/usr/bin/python3
"""Random schedules of all functions, against the real queues and against the
model of them (model.py) at once. Every difference is an error (model_compare.py).

Three connections take turns, with transactions, savepoints and roll-backs, on
two queues. A step is a method below, with what it chooses as its values; hypothesis
makes the schedules, and shortens one that fails (schedules.py). What is left is
printed, and then as SQL, with the answers.

The connections take turns in one thread, so each answer is known. A call that
would have to wait for another connection's transaction is not made, and one that
waits nevertheless is an error, too (lock_timeout).

There is no background worker: what it does is done by fairq.maintain(), and by
claims that find nothing.

Usage: model_run.py CONNINFO [--seed N] [--schedules N] [--steps N] [--replay FILE]
           [--pg-ctl PATH --data DIRECTORY --log FILE]     (to restart the server now and then)
"""

import argparse
import functools
import itertools
import json
import subprocess
import sys
import time

import psycopg
from hypothesis import strategies as st
from psycopg import sql

import schedules
from model import Difference, Model, Queue, Row, Session, Transaction
from model_compare import COLUMNS, ENDS, GROUPS, SUBGROUPS, ends
from model_steps import C, OF_GROUP, PAST, PICKS, QUEUE, STEPS, Steps, step
from schedules import PICK, percent, pick

CLASSES = [0, 1, 2, None]
KEYS = ["k1", "k2", "k3"]
TOPICS = ["a", "a.b", "a.b.c", "b"]
NAMES = [None, None, "mail", "ü" * 50]
PATTERNS = ["a", "a.*", "a.#", "#", "*.b", "b"]
ON_DEAD = ["hold", "cancel", "run"]
FAR = "2100-01-01"
DELAYS = ["0", "1 year"]
NAME = "model"

SETTINGS = [dict(zip(["buckets", "durable", "room", "archives", "priority", "subgroups"], values)) for values in itertools.product(
    [1, 2, 4, 16], percent(25), [None, None, (3, 8), (1, 3), (4, 100)], percent(50), [4, 0, 1], percent(50))]
BEGIN = "begin", {"first": SETTINGS, "second": SETTINGS}
ROW = {"group": GROUPS, "subgroup": [None] + SUBGROUPS, "klass": CLASSES, "max_attempts": [None, None, 1, 2], "max_lost": [None, None, 0, 1, 3], "later": percent(10),
       "name": NAMES, "key": [None] * 7 + KEYS, "expired": percent(5), "remembers": percent(25)}
ALTERED = [(name, value) for name, values in {
    "buckets": [1, 2, 5, 16], "max_attempts": [1, 2, 3, 5], "max_lost": [0, 1, 3, 5], "max_ready_per_group": [1, 2, 4, 50],
    "max_ready": [2, 5, 20, 50], "durable": [False, False, True], "archives": [False, True],
    "default_priority": [0, 1, 2, 4]}.items() for value in values]


class Run(Steps):
    def __init__(self, options):
        super().__init__()
        self.options = options

    def take_step(self, name, values):
        known = {"c": self.connections, "queue": list(self.model.queues.values())}
        getattr(self, name)(**{key: known[key][value] if key in known else value for key, value in values.items()})
        self.counts[name] += 1

    def idle(self, c):
        """c, or another one without a transaction, or None."""
        return next((other for other in [c, *self.connections] if other.tx is None), None)

    # --- producing --------------------------------------------------------

    def new_row(self, values, *queues):
        if values.get("later"):
            values["expired"] = False
        # An empty key is none. One is refused where groups are not divided.
        values["subgroup"] = values.get("subgroup") or None
        if not all(queue.subgroups for queue in queues):
            values["subgroup"] = None
        return Row("ready", payload=next(self.payloads), **values)

    def can_enqueue(self, tx, queue, key):
        return key is None or not queue.key_is_busy(key, tx)

    ENQUEUE = ("%s::jsonb, group_key => %s, priority => %s, run_at => %s::timestamptz, max_attempts => %s, max_lost => %s, "
               "name => %s, unique_key => %s, on_duplicate => %s, expires_at => %s::timestamptz, unique_for => %s::interval, subgroup_key => %s)")

    def arguments(self, row, replaces, remembers, run_at=FAR):
        return (json.dumps(row.payload), row.group, row.klass, run_at if row.later else None, row.max_attempts, row.max_lost,
                row.name, row.key, "replace" if replaces else "keep",
                PAST if row.expired else FAR if row.payload % 2 and not row.later else None,
                "1 year" if remembers and row.key is not None else None, row.subgroup)

    @step(60, c=C, queue=QUEUE, **ROW, replaces=percent(50), delays=percent(50))
    def enqueue(self, c, queue, replaces, remembers, delays, **row):
        if row["subgroup"] == "x" and not queue.subgroups:
            self.refused(c, "22023", "SELECT fairq.enqueue(%s, '1', subgroup_key => 'x')", queue.name)
        row = self.new_row(row, queue)
        text = self.ENQUEUE.replace("run_at => %s::timestamptz", "delay => %s::interval") if delays else self.ENQUEUE
        with self.within(c) as tx:
            if self.can_enqueue(tx, queue, row.key):
                id = self.value(c, "SELECT fairq.enqueue(%s, " + text, queue.name,
                                *self.arguments(row, replaces, remembers, "1 year" if delays else FAR))
                self.model.enqueue(tx, queue, id, row, replaces, remembers)

    @step(24, c=C, queue=QUEUE, group=GROUPS, subgroup=[None] + SUBGROUPS, klass=CLASSES, max_attempts=[None, None, 1], later=percent(10),
          ended=percent(10), dead=percent(10), picks=PICKS, on_dead=ON_DEAD)
    def enqueue_after(self, c, queue, ended, dead, picks, on_dead, **row):
        """After tasks in whatever state, also in the hands of others. ended: and one of all
        that ever were; dead: and a dead one."""
        row = self.new_row(row, queue)
        with self.within(c) as tx:
            there = pick(reversed(queue.tasks.values()), *picks)
            there += pick([t for t in queue.tasks.values() if t.row and t.row.state == "dead"], *picks[:1]) if dead else []
            ids = [t.id for t in there] + (pick(queue.ids, *picks[:1]) if ended else [])
            if not ids:
                return
            id = self.value(c, "SELECT fairq.enqueue(%s, %s::jsonb, %s, %s, run_at => %s::timestamptz, "
                            "max_attempts => %s, after => %s::bigint[], on_dead => %s, subgroup_key => %s)",
                            queue.name, json.dumps(row.payload), row.group, row.klass, FAR if row.later else None,
                            row.max_attempts, ids, on_dead, row.subgroup)
            self.model.enqueue_after(tx, queue, id, row, {queue.tasks[id] for id in ids if id in queue.tasks}, on_dead)

    @step(12, c=C, queue=QUEUE, group=GROUPS, subgroups=[(None,), ("x",), ("y", "", "x")], klass=CLASSES, name=NAMES, later=percent(10), n=[2, 5, 12],
          keys=[()] * 14 + list(itertools.permutations(KEYS, 2)), remembers=percent(25))
    def enqueue_many(self, c, queue, group, subgroups, klass, name, later, n, keys, remembers):
        rows = [self.new_row({"group": group, "klass": klass, "name": name, "later": later, "key": key, "subgroup": subgroup}, queue)
                for key, subgroup in zip([*keys, *[None] * n][:n], itertools.cycle(subgroups))]
        with self.within(c) as tx:
            if not all(self.can_enqueue(tx, queue, row.key) for row in rows):
                return
            ids = self.value(c, "SELECT fairq.enqueue_many(%s, %s::jsonb[], %s::text[], %s::bigint[], "
                             "run_ats => %s::timestamptz[], unique_keys => %s::text[], unique_for => %s::interval, names => %s::text[], "
                             "subgroup_keys => %s::text[])",
                             queue.name, [json.dumps(row.payload) for row in rows], [group], [klass],
                             [FAR if later else None], [row.key for row in rows], "1 year" if keys and remembers else None, [name],
                             [row.subgroup for row in rows])
            for id, row in zip(ids, rows):
                self.model.enqueue(tx, queue, id, row, remembers=remembers)

    @step(9, c=C, topic=TOPICS, **ROW, replaces=percent(50))
    def publish(self, c, topic, replaces, remembers, **row):
        queues = [self.model.queues[name] for name in sorted(self.model.subscribed(topic))]
        row = self.new_row(row, *queues)
        with self.within(c) as tx:
            if not all(self.can_enqueue(tx, queue, row.key) for queue in queues):
                return
            n = self.value(c, "SELECT fairq.publish(%s, " + self.ENQUEUE, NAME + "." + topic,
                           *self.arguments(row, replaces, remembers))
            self.expect("publish", n, len(queues))
            for queue in queues:
                ids = {x[0] for x in self.call(c, "SELECT id FROM fairq.tasks(%s)", queue.name)} - set(queue.tasks)
                if len(ids) > 1:
                    raise Difference("published more than once")
                self.model.enqueue(tx, queue, ids.pop() if ids else None, row, replaces, remembers)

    @step(6, c=C, pattern=PATTERNS, queue=QUEUE, adds=percent(60), rolled_back=percent(20))
    def subscribe(self, c, pattern, queue, adds, rolled_back):
        c = self.idle(c)
        if c is None:
            return
        subscription, there = (pattern, queue.name), (pattern, queue.name) in self.model.subscriptions
        text = NAME + "." + pattern
        if adds:
            if self.admin(c, rolled_back, "SELECT fairq.subscribe(%s, %s)", text, queue.name):
                self.model.subscriptions.add(subscription)
        elif self.admin(c, rolled_back, "SELECT fairq.unsubscribe(%s, %s)", text, queue.name, should=there):
            self.model.subscriptions.discard(subscription)

    # --- consuming --------------------------------------------------------

    @step(48, c=C, queue=QUEUE, n=[1, 1, 2, 5, 20], wait=["0", "0", "0", "10 ms"],
          groups=[None] * 23 + list(itertools.combinations(GROUPS, 2)),
          session=[None] * 3 + [0, 1, 2], lease=["1 day", None], peeks=percent(30))
    def claim(self, c, queue, n, wait, groups, session, lease, peeks):
        session = None if session is None else self.session(session)
        peeked = None
        with self.within(c) as tx:
            if groups is None and not queue.ever_limited() and peeks and not queue.suspects() and not any(t.in_doubt for t in queue.tasks.values()):
                peeked = [x[0] for x in self.call(c, "SELECT id FROM fairq.peek(%s, %s)", queue.name, n)]
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, %s, lease => %s, session => %s, "
                             "wait => %s, group_keys => %s::text[])", queue.name, n, lease, session and session.uuid,
                             wait, groups and list(groups))
            self.take(tx, queue, rows, n, groups and (lambda t: t.row.group in groups), session=session)
            if peeked is not None:
                self.expect("peek", peeked, [x[0] for x in rows])

    @step(12, c=C, queue=QUEUE, n=[1, 3, 20], wait=["0", "0", "10 ms"])
    def claim_any(self, c, queue, n, wait):
        """From the first of two queues what a claim of it would get, the rest from the other."""
        queues = [queue] + [q for q in self.model.queues.values() if q is not queue]
        with self.within(c) as tx:
            rows = self.call(c, "SELECT queue, " + COLUMNS + " FROM fairq.claim_any(%s, %s, lease => '1 day', wait => %s)",
                             [q.name for q in queues + queues[:1]], n, wait)
            self.expect("queues in the order given", [r[0] for r in rows],
                        [q.name for q in queues for r in rows if r[0] == q.name])
            for queue in queues:
                if n > 0:
                    own = [r[1:] for r in rows if r[0] == queue.name]
                    alone = self.is_alone(queue, own)
                    if alone:
                        self.expect("tasks beside a suspect", len(rows) - 1, 0)
                    beside = len(own) < len(rows)
                    self.take(tx, queue, own, n, beside=beside)
                    n = 0 if alone else n - len(own)

    @step(12, c=C, queue=QUEUE, n=[1, 3], group=[None] * 12 + GROUPS)
    def pop(self, c, queue, n, group):
        with self.within(c) as tx:
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.pop(%s, %s, group_keys => %s::text[])",
                             queue.name, n, None if group is None else [group])
            self.take(tx, queue, rows, n, None if group is None else (lambda t: t.row.group == group), leased=False)

    def receipts(self, tasks):
        return [t.lease.receipt for t in tasks]

    @step(30, c=C, leases=PICKS)
    def ack(self, c, leases):
        with self.within(c) as tx:
            tasks = self.leases(tx, *leases)
            receipts = self.receipts(tasks)
            if len(tasks) == 1:
                self.expect("ack", self.value(c, "SELECT fairq.ack(%s)", receipts[0]), True)
            elif tasks:
                done = self.call(c, "SELECT fairq.ack_many(%s)", receipts + self.model.old_receipts[-1:])
                self.expect("ack_many", sorted(x[0] for x in done), sorted(receipts))
            for task in tasks:
                self.model.remove(tx, task, "acked")

    @step(9, c=C, queue=QUEUE, n=[1, 4], leases=PICKS)
    def ack_and_claim(self, c, queue, n, leases):
        with self.within(c) as tx:
            tasks = self.leases(tx, *leases)
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.ack_and_claim(%s, %s::uuid[], %s, lease => '1 day')",
                             queue.name, self.receipts(tasks), n)
            # The leases end when the transaction does: until then they count.
            for task in tasks:
                self.model.remove(tx, task, "acked")
            self.take(tx, queue, rows, n)

    @step(18, c=C, lease=PICK, delay=["0", "1 year", None], final=percent(10))
    def nack(self, c, lease, delay, final):
        with self.within(c) as tx:
            for task in self.leases(tx, lease):
                done = self.value(c, "SELECT fairq.nack(%s, %s, %s::interval, final => %s)", task.lease.receipt, "no", None if final else delay, final)
                self.expect("nack", done, True)
                self.model.failed(tx, task, not final and delay == "1 year", error="no", final=final)

    @step(6, c=C, leases=PICKS, error=[None, "many"], final=percent(25))
    def nack_many(self, c, leases, error, final):
        with self.within(c) as tx:
            tasks = self.leases(tx, *leases)
            done = self.call(c, "SELECT fairq.nack_many(%s::uuid[], %s::text[], %s::interval, final => %s)", self.receipts(tasks),
                             [error] * len(tasks), None if final else "0", final)
            self.expect("nack_many", sorted(x[0] for x in done), sorted(self.receipts(tasks)))
            for task in tasks:
                self.model.failed(tx, task, error=error, final=final)

    @step(16, c=C, lease=PICK, delay=DELAYS)
    def release(self, c, lease, delay):
        with self.within(c) as tx:
            for task in self.leases(tx, lease):
                self.expect("release", self.value(c, "SELECT fairq.release(%s, %s)", task.lease.receipt, delay), True)
                self.model.release(tx, task, delay == "1 year")

    @step(6, c=C, leases=PICKS, delay=DELAYS)
    def release_many(self, c, leases, delay):
        with self.within(c) as tx:
            tasks = self.leases(tx, *leases)
            done = self.call(c, "SELECT fairq.release_many(%s::uuid[], %s)", self.receipts(tasks), delay)
            self.expect("release_many", sorted(x[0] for x in done), sorted(self.receipts(tasks)))
            for task in tasks:
                self.model.release(tx, task, delay == "1 year")

    @step(6, c=C, lease=PICK)
    def extend(self, c, lease):
        with self.within(c) as tx:
            for task in self.leases(tx, lease):
                # Under a session it ends when that does, a day after its last heartbeat.
                self.expect("extend", self.value(c, "SELECT fairq.extend(%s, '2 days') > clock_timestamp() + interval '1 day'",
                                                 task.lease.receipt), task.lease.session is None)
                self.model.extend(tx, task)

    @step(12, c=C, leases=PICKS)
    def expire(self, c, leases):
        """What has run out is put back by whoever does the worker's work next."""
        c = self.idle(c)
        tasks = self.leases(None, *leases) if c else []
        for task in tasks:
            self.call(c, "SELECT fairq.extend(%s, '1 microsecond')", task.lease.receipt)
            self.model.extend(None, task)
            task.lease.expired = task.lease.kept_expired = True
        if tasks:
            self.call(c, "SELECT pg_sleep(0.11)")       # two ticks of the wheel
            self.maintain_queue(c, tasks[0].queue)

    @step(6, c=C, receipt=PICK)
    def old_receipt(self, c, receipt):
        for old in pick(self.model.old_receipts, receipt):
            self.not_mine(c, old, "old receipt: ")

    @step(6, c=C, lease=PICK)
    def contested(self, c, lease):
        """What another transaction is just settling."""
        for task in pick((t for t in self.model.tasks() if t.lease and t.lease.settler not in (None, c.tx)), lease):
            self.not_mine(c, task.lease.receipt, "receipt that is being settled: ")

    # --- sessions ---------------------------------------------------------

    def session(self, number):
        return next(iter(pick((s for s in self.model.sessions if not s.over), number)), None)

    @step(9, c=C, bound=percent(60))
    def open_session(self, c, bound):
        if sum(not s.over for s in self.model.sessions) < 4:
            uuid = self.value(c, "SELECT fairq.open_session(%s, '1 day', %s)", "s", bound)
            self.model.sessions.append(Session(uuid, "s", c.pid, c if bound else None))

    @step(4, c=C, session=PICK)
    def heartbeat(self, c, session):
        for session in pick(self.model.sessions, session):
            self.expect("heartbeat", self.value(c, "SELECT fairq.heartbeat(%s)", session.uuid), not session.over)
            session.unseen &= session.over

    @step(4, c=C, session=PICK)
    def close_session(self, c, session):
        session = self.session(session)
        if session is None:
            return
        with self.within(c) as tx:
            tasks = [t for t in self.model.tasks() if t.lease and t.lease.session is session]
            if any(t.lease.claimer not in (None, tx) or t.lease.extender not in (None, tx) for t in tasks):
                return
            tasks = [t for t in tasks if t.lease.settler is None]
            # It would wait for who changes the row of one with SQL.
            if any(t.writer not in (None, tx) for t in tasks):
                return
            self.expect("close_session", self.value(c, "SELECT fairq.close_session(%s)", session.uuid), len(tasks))
            for task in tasks:
                self.model.release(tx, task)
            tx.owes(lambda: (setattr(session, "over", True), setattr(session, "excused", True)))

    @step(6, c=C, queue=QUEUE, lease=PICK)
    def short_session(self, c, queue, lease):
        """One that misses its ttl, with what was claimed under it."""
        c = self.idle(c)
        if c is None:
            return
        session = Session(self.value(c, "SELECT fairq.open_session(ttl => '60 ms')"), "", c.pid)
        self.model.sessions.append(session)
        try:
            with self.within(c) as tx:
                rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, 2, session => %s)",
                                 queue.name, session.uuid)
                self.take(tx, queue, rows, 2, session=session)
                session.over = True     # for a pass of this call, perhaps
        except psycopg.Error as e:
            self.expect("SQLSTATE", e.sqlstate, "55000")        # we were too slow
        self.call(c, "SELECT pg_sleep(0.07)")
        session.over = True
        for task in pick((t for t in queue.tasks.values() if t.lease and t.lease.session is session), lease):
            self.not_mine(c, task.lease.receipt, "session is over: ")

    @step(6, c=C, queue=QUEUE, session=PICK, n=[1, 3, 20])
    def buckets(self, c, queue, session, n):
        """Sessions that ask for buckets have them dealt out between them."""
        session = self.session(session)
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

        mine, lost = shares[session], set(range(queue.buckets)) - set(shares[session])
        if lost:
            self.refused(c, "55000", "SELECT fairq.claim(%s, 1, session => %s, buckets => %s)",
                         queue.name, session.uuid, mine + [max(lost)])
        of = dict(self.call(c, "SELECT id, fairq.bucket(address) FROM fairq.tasks(%s) WHERE address IS NOT NULL", queue.name))
        with self.within(c) as tx:
            rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, %s, session => %s, buckets => %s::int[])",
                             queue.name, n, session.uuid, mine)
            # The overflow of a group is in one bucket, and SQL does not show in which.
            came = {(t.row.group, t.row.klass) for t in (queue.tasks[row[0]] for row in rows) if t.id not in of}
            self.take(tx, queue, rows, n, lambda t: of[t.id] % queue.buckets in mine if t.id in of
                      else (t.row.group, t.row.klass) in came, session=session)

    # --- looking, and the rest --------------------------------------------

    @step(12, c=C, queue=QUEUE, task=PICK)
    def look(self, c, queue, task):
        tx = c.tx or Transaction(c)
        for task in pick(queue.tasks.values(), task):
            row = task.seen(tx)
            state = None if row is None else task.shown(tx)
            is_ = self.call(c, "SELECT state, payload, unique_key, name, " + ENDS + " FROM fairq.get_task(%s, %s)", queue.name, task.id)
            self.expect("get_task", [(*one[:-4], ends(*one[-4:])) for one in is_],
                        [(state, row.payload, row.key, row.name, row.ends())] if row else [])
            is_, ahead, exact = self.call(c, "SELECT state, ahead, exact FROM fairq.get_task_position(%s, %s)",
                                          queue.name, task.id)[0]
            self.expect("position: state", is_, state)
            if state == "leased":
                self.expect("ahead of a leased task", ahead, 0)
            elif state not in ("ready", "overflow"):
                self.expect("ahead of a task that is not ready", ahead, None)
            elif exact and ahead is not None and all(c.tx is None for c in self.connections):
                self.check_position(queue, task, ahead)

    @step(9, c=C, queue=QUEUE, task=PICK, unknown=percent(10))
    def cancel(self, c, queue, task, unknown):
        with self.within(c) as tx:
            if unknown:
                self.expect("cancel", self.value(c, "SELECT fairq.cancel(%s, 999999999)", queue.name), False)
                return
            for task in pick((t for t in queue.tasks.values() if t.removable(tx)), task):
                there = task.row is not None
                self.expect("cancel", self.value(c, "SELECT fairq.cancel(%s, %s)", queue.name, task.id), there)
                if there:
                    self.model.remove(tx, task, "dead" if task.row.state == "dead" else "cancelled")

    @step(4, c=C, queue=QUEUE, group=GROUPS + [None], does=percent(30))
    def purge(self, c, queue, group, does):
        if does:
            with self.within(c) as tx:
                if not all(t.removable(tx) for t in self.model.purged(tx, queue, group)):
                    return
                n = (self.value(c, "SELECT fairq.purge(%s)", queue.name) if group is None else
                     self.value(c, "SELECT fairq.purge_group(%s, %s)", queue.name, group))
                self.expect("purge", n, self.model.purge(tx, queue, group))

    @step(9, c=C, queue=QUEUE, task=PICK)
    def revive(self, c, queue, task):
        with self.within(c) as tx:
            dead = [t for t in queue.tasks.values() if t.writer in (None, tx) and t.row and t.row.state == "dead"]
            for task in pick(dead, task):
                if self.can_enqueue(tx, queue, task.row.key):
                    n = self.value(c, "SELECT fairq.revive(%s, %s)", queue.name, task.id)
                    self.expect("revive", n, int(self.model.revive(tx, task)))
            # All of them in one call would come in any order.
            if not dead:
                self.expect("revive", self.value(c, "SELECT fairq.revive_all(%s)", queue.name), 0)

    @step(9, c=C, queue=QUEUE, task=PICK)
    def revive_group(self, c, queue, task):
        """One in which at most one is dead, for the same reason."""
        with self.within(c) as tx:
            dead = [t for t in queue.tasks.values() if "dead" in [row.state for row in (t.row, t.committed) if row]]
            for task in pick(dead, task):
                group = task.row.group if task.row else task.committed.group
                if sum(t.row is None or t.row.group == group for t in dead) > 1 or task.writer not in (None, tx):
                    continue
                if task.row is None or task.row.state != "dead" or self.can_enqueue(tx, queue, task.row.key):
                    dies = task.row is not None and task.row.state == "dead"
                    n = self.value(c, "SELECT fairq.revive_group(%s, %s)", queue.name, group)
                    self.expect("revive_group", n, int(dies and self.model.revive(tx, task)))

    @step(9, c=C, queue=QUEUE, task=PICK, leased=percent(50))
    def overdue(self, c, queue, task, leased):
        """With SQL: a task expires, in whatever state; leased: in flight, if any is."""
        table = sql.Identifier("q_" + queue.name).as_string(c.db)
        with self.within(c) as tx:
            # One that is to be cancelled would end as either.
            tasks = [t for t in queue.tasks.values() if t.removable(tx) and t.row and t.row.state != "dead"
                     and not (t.row.state == "held" and t.waits and t.on_dead == "cancel")]
            for task in pick([t for t in tasks if t.lease and leased] or tasks, task):
                self.call(c, "UPDATE fairq." + table + " SET expires_at = '" + PAST + "' WHERE id = %s", task.id)
                self.model.change(tx, task, expired=True)

    @step(6, c=C, queue=QUEUE, task=PICK)
    def hasten(self, c, queue, task):
        """With SQL: a scheduled task is due."""
        table = sql.Identifier("q_" + queue.name).as_string(c.db)
        with self.within(c) as tx:
            for task in pick((t for t in queue.tasks.values() if t.free(tx) and t.row and t.row.state == "scheduled"), task):
                self.call(c, "UPDATE fairq." + table + " SET run_at = now() - interval '1 s' WHERE id = %s", task.id)
                self.model.change(tx, task, later=False)

    @step(9, c=C, queue=QUEUE, task=PICK, leased=percent(50), n=[8, 9, 10], lost=[0, 1, 2, 2])
    def age(self, c, queue, task, leased, n, lost):
        """With SQL: a task has a long history, as if it had failed so often, and was lost."""
        table = sql.Identifier("q_" + queue.name).as_string(c.db)
        with self.within(c) as tx:
            tasks = [t for t in queue.tasks.values() if t.removable(tx) and t.row]
            for task in pick([t for t in tasks if t.lease and leased] or tasks, task):
                self.call(c, "UPDATE fairq." + table + " SET lost = %s, history = (SELECT jsonb_agg(jsonb_build_object("
                          "'at', now(), 'attempt', n, 'end', 'failed', 'worker', 'w', 'seconds', 1)) FROM generate_series(1, %s) n) WHERE id = %s", lost, n, task.id)
                self.model.change(tx, task, lost=lost, history=tuple((i, "failed", "w", None) for i in range(1, n + 1)))

    @step(9, c=C, queue=QUEUE, group=GROUPS + [None] * 4, subgroup=OF_GROUP, rolled_back=percent(20))
    def pause(self, c, queue, group, subgroup, rolled_back):
        c, whose = self.idle(c), (group, subgroup)
        if c is None:
            return
        verb = "resume" if queue.paused and group is None or whose in queue.stopped else "pause"
        if group is None:
            if self.admin(c, rolled_back, "SELECT fairq." + verb + "(%s)", queue.name):
                queue.paused = not queue.paused
        elif self.of_level(c, queue, whose, rolled_back, verb + "_%s(%%s, %%s%s)"):
            queue.pause_or_resume(whose)
        if group is not None:
            queue.ever_stopped.add(whose)

    @step(6, c=C, queue=QUEUE, setting=ALTERED, rolled_back=percent(20))
    def alter(self, c, queue, setting, rolled_back):
        c, (name, value) = self.idle(c), setting
        if queue.max_ready is None and name.startswith("max_ready"):
            name, value = "durable", value < 5
        called = {"durable": "durable_leases", "archives": "keep_done"}.get(name, name)
        given = ("1 year" if value else "0") if name == "archives" else value
        if c and self.admin(c, rolled_back, "SELECT fairq.alter_queue(%s, {} => %s)".format(called), queue.name, given):
            setattr(queue, name, value)

    @step(6, c=C, queue=QUEUE)
    def maintain(self, c, queue):
        self.maintain_queue(c, queue)

    @step(3, c=C, queue=QUEUE, does=percent(20))
    def vacuum(self, c, queue, does):
        if does and all(c.tx is None for c in self.connections):
            self.call(c, "VACUUM FULL fairq." + sql.Identifier("q_" + queue.name).as_string(c.db))

    # --- transactions, connections, the server ----------------------------

    @step(60, c=C, wish=["keep"] * 3 + ["undo"] * 3 + ["open"] * 4, whole=percent(50))
    def transaction(self, c, wish, whole):
        """Open, keep or undo one, or part of one."""
        savepoints = c.tx.savepoints if c.tx else []
        if wish == "open" and c.tx is None:
            self.call(c, "BEGIN")
            c.tx = Transaction(c)
        elif wish == "open" and len(savepoints) < 3:
            self.call(c, "SAVEPOINT s%d" % len(savepoints))
            savepoints.append(len(c.tx.owed))
        elif savepoints and not whole:
            mark = savepoints.pop()
            if wish == "undo":
                self.call(c, "ROLLBACK TO SAVEPOINT s%d" % len(savepoints))
                c.tx.roll_back_to(mark)
            else:
                self.call(c, "RELEASE SAVEPOINT s%d" % len(savepoints))
        elif wish == "undo" and c.tx:
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

    @step(6, c=C, terminated=percent(50), works=percent(50), queue=QUEUE)
    def reconnect(self, c, terminated, works, queue):
        """A connection is lost, with its transaction and its bound sessions; or the server ends it.
        works: it has tasks under one."""
        if works:
            session = Session(self.value(c, "SELECT fairq.open_session(bound => true, ttl => '1 day')"), "", c.pid, c)
            self.model.sessions.append(session)
            with self.within(c) as tx:
                rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, 2, session => %s)", queue.name, session.uuid)
                self.take(tx, queue, rows, 2, session=session)
        lost, pid = c.db, c.pid
        self.log.append([c.name, "-- is terminated" if terminated else "-- is lost", (), None])
        if not terminated:
            lost.close()
        c.connect(self.options.conninfo)
        if terminated:
            c.db.execute("SELECT pg_terminate_backend(%s)", [pid])
        while c.db.execute("SELECT true FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall():
            time.sleep(0.002)
        lost.close()
        self.lose_transaction(c)
        for session in [s for s in self.model.sessions if s.opener is c and not s.over]:
            session.over, session.excused = True, terminated

    def leave_behind(self, c, queue):
        """Some leases that nobody extends, with a session that gets no heartbeat and without one."""
        session = Session(self.value(c, "SELECT fairq.open_session(ttl => '300 ms')"), "", c.pid)
        self.model.sessions.append(session)
        left = []
        try:
            for under in None, session:
                with self.within(c) as tx:
                    rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.claim(%s, 2, lease => %s, session => %s)", queue.name,
                                     None if under else "300 ms", under and under.uuid)
                    self.take(tx, queue, rows, 2, session=under)
                    left += [] if under else [queue.tasks[row[0]].lease for row in rows]
                    # A pass of this call, or of the next, may find on a busy machine that they have run out.
                    for lease in left:
                        lease.expired = lease.kept_expired = True
                    session.over = under is session
        except psycopg.Error as e:
            self.expect("SQLSTATE", e.sqlstate, "55000")        # we were too slow
        return session, left

    @step(3, c=C, queue=QUEUE, mode=["fast", "immediate"])
    def restart(self, c, queue, mode):
        o = self.options
        if not o.pg_ctl:
            return
        c = self.idle(c)
        session, left = self.leave_behind(c, queue) if c else (None, [])
        self.log.append(["", "-- restart, " + mode, (), None])
        subprocess.run([o.pg_ctl, "-D", o.data, "-l", o.log, "-m", mode, "-w", "-s", "restart"],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for c in self.connections:
            self.lose_transaction(c)
            c.db.close()
            c.connect(o.conninfo)
        for lease in left:
            lease.expired = lease.kept_expired = True
        self.model.restart(crash=mode == "immediate")
        if session:
            self.call(self.connections[0], "SELECT pg_sleep(0.5)")
            session.over = True
            self.maintain_queue(self.connections[0], queue)

    # --- the whole --------------------------------------------------------

    def begin(self, first, second):
        c = self.connections[0]
        for name, settings in (NAME, first), (NAME + " b", second):
            per_group, in_all = settings["room"] or (None, None)
            self.call(c, "SELECT fairq.create_queue(%s, buckets => %s, max_attempts => 3, lease => '1 day', backoff_base => '0', "
                      "durable_leases => %s, max_ready_per_group => %s, max_ready => %s, keep_done => %s, default_priority => %s, subgroups => %s)",
                      name, settings["buckets"], settings["durable"], per_group, in_all,
                      "1 year" if settings["archives"] else None, settings["priority"], settings["subgroups"])
            self.model.queues[name] = Queue(name, buckets=settings["buckets"], durable=settings["durable"],
                                            max_ready=in_all, max_ready_per_group=per_group,
                                            archives=settings["archives"], default_priority=settings["priority"],
                                            subgroups=settings["subgroups"])

    def end(self):
        """All of it can be had in the end."""
        c = self.connections[0]
        for other in self.connections:
            self.commit(other)
        for queue in self.model.queues.values():
            queue.paused = False
            self.call(c, "SELECT fairq.resume(%s)", queue.name)
            for whose in [whose for whose in {*queue.given, *queue.stopped} if whose[1] is None or queue.subgroups]:
                self.take_away(c, queue, whose)
            for subgroups in [False, True][:1 + queue.subgroups]:
                self.set_defaults(c, queue, subgroups, 0, None, False)
        self.compare_depths()
        for queue in self.model.queues.values():
            while queue.lines():
                with self.within(c) as tx:
                    rows = self.call(c, "SELECT " + COLUMNS + " FROM fairq.pop(%s, 10)", queue.name)
                    self.take(tx, queue, rows, 10, leased=False)
                self.compare_depths()

    def go(self, schedule, shortening):
        """An error says what is wrong."""
        self.model, self.log, self.payloads = Model(self.counts), [], itertools.count()
        self.passed = []        # queues with a pass that is not looked at yet
        self.patience = 2 if shortening else 20
        for c in self.connections:
            c.connect(self.options.conninfo)
            c.tx = None
        try:
            for number, step in enumerate(schedule, -1):
                self.take_step(*step)
                if number % 7 == 0:
                    self.compare(self.connections[number // 7 % 3])
                if all(c.tx is None for c in self.connections):
                    self.compare_depths() if number % 20 == 0 else self.compare_counts()
            self.end()
        finally:
            for c in self.connections:
                c.db.close()
            self.clean_up()

    def clean_up(self):
        with psycopg.connect(self.options.conninfo, autocommit=True) as db:
            db.execute("SET lock_timeout = '10s'")
            for name in self.model.queues:
                db.execute("SELECT fairq.drop_queue(%s)", [name])
            for session in self.model.sessions:
                db.execute("SELECT fairq.close_session(%s)", [session.uuid])

    def called(self):
        return functools.partial(self.show, self.log)

    def show(self, log):
        with psycopg.connect(self.options.conninfo) as db:
            for name, text, args, result in log:
                line = psycopg.ClientCursor(db).mogrify(text, args) if args else text
                print("%s: %s%s" % (name, line, "" if not result else "\n        " + repr(result)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("conninfo")
    schedules.add_options(parser, 1, 150)
    parser.add_argument("--pg-ctl")
    parser.add_argument("--data")
    parser.add_argument("--log")
    run = Run(parser.parse_args())
    others = schedules.steps(STEPS)
    begin = schedules.step(BEGIN[0], **{name: st.sampled_from(values) for name, values in BEGIN[1].items()})
    if not (schedules.run_long(run.options, BEGIN, STEPS, run.go, run.called) if run.options.steps > schedules.LONGEST else
            schedules.run(run.options, begin, lambda begin: others, run.go, {"begin", *STEPS}, run.called)):
        return 1
    print(json.dumps(dict(run.counts, counts=run.compared), sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
