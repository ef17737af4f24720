#!/usr/bin/python3
"""The load behind test/t/faults_stress.pl.

Many processes use one queue in every way there is, while backends are
terminated, clients are killed and the table is rewritten.  At the end the
queue is drained and what happened is compared with what must have happened.
The result is one JSON object on standard output; the caller judges it.

Three kinds of evidence:

produced, results, cancelled
    Tables written in the transaction that enqueued, acknowledged or cancelled
    the task.  None has a unique index: a double must show, not be prevented.

intervals
    Every client writes down, in a file of its own, since when and until when
    it was certain to hold a lease: from the answer of the claim to the moment
    before it gave the lease up, or to the deadline.  Two such intervals of
    one task never overlap.  Times of client and server come from one clock,
    so both must run on one machine.

violations
    Whatever a client sees at once: more tasks than asked for, a task of
    another group or bucket, an error nobody announced.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import traceback

import psycopg

QUEUE = "stress"
TABLE = 'fairq."q_stress"'
GROUPS = ["g%d" % i for i in range(40)]
LEASE_SECONDS = 2
LEASE = "%d s" % LEASE_SECONDS
BUCKETS = 4

# For crashes that there have not been when the time is over.
MORE_SECONDS = 60

# A client that was terminated, or finds the connection gone, goes on with a
# new connection.  Every other error is a finding.
EXPECTED_SQLSTATES = {"57P01"}
# With --crash-every the server goes down under it as well.
CRASH_SQLSTATES = {"57P02", "57P03"}


class Log:
    """The file of one process: written without a buffer, as it may be killed."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words):
        os.write(self.fd, (" ".join(str(w) for w in words) + "\n").encode())

    def violation(self, text):
        self.write("V", text.replace("\n", " / "))


class Rollback(Exception):
    """Leaves a transaction the other way."""


class Client:
    def __init__(self, args, number, incarnation):
        self.args = args
        self.random = random.Random("%s.%s.%s" % (args.seed, number, incarnation))
        self.log = Log(os.path.join(args.directory, "client.%d.%d" % (number, incarnation)))
        self.held = {}      # receipt -> (task, deadline, payload)
        self.stale = {}     # receipt -> (task, n, whether an ack may be true)
        self.settling = []  # receipts whose fate an error leaves open
        self.in_doubt = set()   # receipts that were refused
        self.seen = []      # ids of tasks
        self.cancellable = []
        self.counter = 0
        self.tag = "%d.%d" % (number, incarnation)
        self.conn = None

    # -- connection and transactions ------------------------------------

    def connect(self):
        while True:
            try:
                self.conn = psycopg.connect(
                    self.args.conninfo, autocommit=True,
                    application_name="stress client")
                return
            except psycopg.OperationalError:
                time.sleep(0.02)

    def run(self, sql, *params):
        return self.conn.execute(sql, params)

    def all(self, sql, *params):
        return self.run(sql, *params).fetchall()

    def chance(self, p):
        return self.random.random() < p

    def maybe_roll_back(self, p):
        if self.chance(p):
            raise Rollback()

    def transaction(self, body):
        """True if the transaction committed, False if it rolled back."""
        self.run("BEGIN")
        try:
            body()
        except Rollback:
            self.run("ROLLBACK")
            return False
        self.run("COMMIT")
        return True

    # -- leases -----------------------------------------------------------

    def check_claimed(self, tasks, limit, buckets=None, groups=None):
        ids = [t[0] for t in tasks]
        if len(tasks) > limit:
            self.log.violation("asked for %d, got %d" % (limit, len(tasks)))
        if len(set(ids)) != len(ids):
            self.log.violation("one claim gave a task twice: %s" % ids)
        for task, receipt, group, payload, attempt, lease_until, bucket in tasks:
            if groups is not None and group not in groups:
                self.log.violation("group %s is none of %s" % (group, groups))
            if buckets is not None and bucket not in buckets:
                self.log.violation("bucket %s is none of %s" % (bucket, buckets))
            if payload["g"] != group:
                self.log.violation("task %s of group %s has the payload of %s" % (task, group, payload["g"]))
            if attempt < 1:
                self.log.violation("attempt %s" % attempt)

    CLAIM_COLUMNS = "id, receipt, group_key, payload, attempt, lease_until, fairq.bucket(address)"

    def claim(self, limit):
        buckets = groups = None
        if self.chance(0.15):
            buckets = self.random.sample(range(BUCKETS), self.random.randint(1, BUCKETS))
        if self.chance(0.1):
            groups = self.random.sample(GROUPS, self.random.randint(1, 10))
        tasks = self.all(
            "SELECT " + self.CLAIM_COLUMNS + " FROM fairq.claim(%s, %s, lease => %s::interval,"
            " buckets => %s::int[], group_keys => %s::text[])",
            QUEUE, limit, LEASE, buckets, groups)
        self.check_claimed(tasks, limit, buckets, groups)
        return tasks

    def holds(self, tasks):
        """These leases are committed: they are mine until their deadline."""
        now = time.time()
        for task, receipt, group, payload, attempt, lease_until, bucket in tasks:
            until = lease_until.timestamp()
            self.held[receipt] = (task, until, payload)
            self.log.write("B", task, receipt, repr(now), repr(until))
            self.seen.append(task)
        del self.seen[:-200]

    def gives_up(self, receipts):
        """From now on they may belong to somebody else."""
        now = time.time()
        for receipt in receipts:
            self.log.write("E", receipt, repr(now))

    def holds_again(self, receipts):
        """The transaction that gave them up was rolled back."""
        now = time.time()
        for receipt in receipts:
            if receipt in self.held:
                task, until, payload = self.held[receipt]
                if until > now:
                    self.log.write("B", task, receipt, repr(now), repr(until))

    # A lease has ended for certain when this client ended it. One that was refused may
    # be in force again: the answer is false as well while somebody else is about to end
    # it, a cancel or the pass that puts back what has run out, and that may be rolled
    # back. Then an ack is true, until the task is somebody else's.

    def is_over(self, receipt, task, n, may_ack=False):
        self.stale[receipt] = (task, n, may_ack)
        if len(self.stale) > 200:
            del self.stale[next(iter(self.stale))]

    def forget(self, receipts, may_ack=False):
        for receipt in receipts:
            if receipt in self.held:
                task, until, payload = self.held.pop(receipt)
                self.is_over(receipt, task, payload["n"], may_ack or receipt in self.in_doubt)
        self.in_doubt -= set(receipts)

    def are_over(self, tasks):
        for t in tasks:
            self.is_over(t[1], t[0], t[3]["n"])

    def refused(self, what, receipts):
        """These answered false. A lease that has not run out by now was lost
        too early, unless somebody cancels the task or the server crashed."""
        self.in_doubt |= set(receipts)
        if self.args.crash_every:
            return
        now = time.time()
        for receipt in receipts:
            task, until, payload = self.held[receipt]
            if until > now and "c" not in payload:
                self.log.violation("%s of task %s, receipt %s: refused %.3f s before the deadline"
                                   % (what, task, receipt, until - now))

    def pick(self, limit):
        receipts = list(self.held)
        self.random.shuffle(receipts)
        return receipts[:limit]

    def record(self, receipts, how):
        """The results of the tasks acknowledged, in the same transaction."""
        held = [(self.held[receipt], receipt) for receipt in receipts]
        if held:
            self.run("INSERT INTO results (task, receipt, n, how)"
                     " SELECT i, r, n, %s FROM unnest(%s::bigint[], %s::uuid[], %s::text[]) u(i, r, n)",
                     how, [h[0] for h, _ in held], [r for _, r in held], [h[2]["n"] for h, _ in held])

    def payload(self, group, **more):
        self.counter += 1
        return json.dumps({"n": "%s.%d" % (self.tag, self.counter), "g": group, **more})

    # -- what a client does -----------------------------------------------

    def enqueue_one(self):
        group = self.random.choice(GROUPS)
        payload = self.payload(group, c=1) if self.chance(0.2) else self.payload(group)
        task = []

        def body():
            task.append(self.all(
                "INSERT INTO produced SELECT fairq.enqueue(%s, %s::jsonb, group_key => %s,"
                " priority => %s, cost => %s::real), %s::jsonb->>'n' RETURNING task",
                QUEUE, payload, group, self.random.choice([0, 0, 0, 1, 9]),
                self.random.choice([1, 1, 0.25, 7]), payload)[0][0])
            self.maybe_roll_back(0.1)

        if self.transaction(body) and '"c"' in payload:
            self.cancellable.append(task[0])
            del self.cancellable[:-20]

    def insert_many(self, number):
        groups = [self.random.choice(GROUPS) for _ in range(number)]
        payloads = [self.payload(g) for g in groups]
        self.run("INSERT INTO produced SELECT i, p->>'n' FROM"
                 " unnest(fairq.enqueue_many(%s, %s::text[]::jsonb[], group_keys => %s),"
                 " %s::text[]::jsonb[]) AS u(i, p)",
                 QUEUE, payloads, groups, payloads)

    def enqueue_many(self):
        def body():
            self.insert_many(self.random.choice([2, 10, 50, 200]))
            self.maybe_roll_back(0.15)

        self.transaction(body)

    def enqueue_slowly(self):
        """A transaction that commits when the others are far ahead."""
        def body():
            self.insert_many(20)
            time.sleep(self.random.uniform(0.2, 2))
            self.insert_many(5)
            self.maybe_roll_back(0.2)

        self.transaction(body)

    def claim_and_hold(self):
        self.holds(self.claim(self.random.choice([1, 1, 3, 10, 50])))

    def claim_in_transaction(self):
        tasks = []

        def body():
            tasks.extend(self.claim(self.random.choice([1, 5, 30])))
            begin = time.time()
            if self.chance(0.3):
                time.sleep(self.random.uniform(0, 0.3))
            # That the backend still answers proves that it held them until
            # the question was sent.
            asked = time.time()
            self.run("SELECT 1")
            for t in tasks:
                self.log.write("I", t[0], t[1], repr(begin), repr(min(asked, t[5].timestamp())))
            self.maybe_roll_back(0.5)

        if self.transaction(body):
            self.holds(tasks)
        else:
            self.are_over(tasks)

    def settle(self, function):
        """Run function(receipts), which answers those settled, in a
        transaction that may be rolled back."""
        receipts = self.pick(self.random.choice([1, 1, 5, 50]))
        if not receipts:
            return
        self.gives_up(receipts)
        self.settling = receipts

        def body():
            function(receipts)
            if self.chance(0.03):
                time.sleep(self.random.uniform(0, 2.5))
            self.maybe_roll_back(0.2)

        if self.transaction(body):
            self.forget(receipts)
        else:
            self.holds_again(receipts)

    def single(self, what, sql, receipt):
        """One receipt; true if it was settled."""
        if self.all(sql, receipt)[0][0]:
            return True
        self.refused(what, [receipt])
        return False

    def plural(self, what, sql, receipts):
        """Many receipts; those that were settled."""
        if not receipts:
            return []
        done = [r[0] for r in self.all(sql, receipts)]
        if not set(done) <= set(receipts) or len(done) != len(set(done)):
            self.log.violation("%s of %s answered %s" % (what, receipts, done))
        self.refused(what, set(receipts) - set(done))
        return done

    def ack(self, receipts):
        for receipt in receipts:
            if self.single("ack", "SELECT fairq.ack(%s)", receipt):
                self.record([receipt], "ack")

    def ack_many(self, receipts):
        self.record(self.plural("ack_many", "SELECT * FROM fairq.ack_many(%s)", receipts), "ack_many")

    def nack(self, receipts):
        self.single("nack", "SELECT fairq.nack(%s, 'once more', '0')", receipts[0])
        self.plural("nack_many", "SELECT * FROM fairq.nack_many(%s, delay => '0')", receipts[1:])

    def release(self, receipts):
        self.single("release", "SELECT fairq.release(%s)", receipts[0])
        self.plural("release_many", "SELECT * FROM fairq.release_many(%s)", receipts[1:])

    def settle_ack(self):
        self.settle(self.ack)

    def settle_ack_many(self):
        self.settle(self.ack_many)

    def settle_nack(self):
        self.settle(self.nack)

    def settle_release(self):
        self.settle(self.release)

    def ack_and_claim(self):
        """It does not say which receipts were good. In one snapshot the rows
        that disappear are those this transaction deleted."""
        receipts = self.pick(self.random.choice([0, 1, 10]))
        limit = self.random.choice([1, 10])
        tasks = []
        self.gives_up(receipts)
        self.settling = receipts

        def present():
            return {r[0] for r in self.all("SELECT id FROM " + TABLE + " WHERE id = ANY (%s)",
                                           [self.held[r][0] for r in receipts])}

        def body():
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = present()
            tasks.extend(self.all(
                "SELECT " + self.CLAIM_COLUMNS + " FROM fairq.ack_and_claim(%s, %s::uuid[], %s,"
                " lease => %s::interval)", QUEUE, receipts, limit, LEASE))
            acked = before - present()
            self.check_claimed(tasks, limit)
            # Of a task whose lease ran out this client may hold two receipts.
            self.record({self.held[r][0]: r for r in receipts if self.held[r][0] in acked}.values(),
                        "ack_and_claim")
            self.refused("ack_and_claim", [r for r in receipts if self.held[r][0] not in acked])
            self.maybe_roll_back(0.2)

        if self.transaction(body):
            self.forget(receipts)
            self.holds(tasks)
        else:
            self.holds_again(receipts)
            self.are_over(tasks)

    def pop(self):
        def body():
            limit = self.random.choice([1, 5, 20, 100])
            tasks = self.all("SELECT id, receipt, group_key, payload, attempt, lease_until,"
                             " fairq.bucket(address) FROM fairq.pop(%s, %s)", QUEUE, limit)
            if len(tasks) > limit:
                self.log.violation("pop of %d gave %d" % (limit, len(tasks)))
            self.run("INSERT INTO results (task, n, how) SELECT i, n, 'pop' FROM unnest(%s::bigint[], %s::text[]) u(i, n)",
                     [t[0] for t in tasks], [t[3]["n"] for t in tasks])
            if self.chance(0.1):
                time.sleep(self.random.uniform(0, 0.5))
            self.maybe_roll_back(0.3)

        self.transaction(body)

    def extend(self):
        receipts = self.pick(5)
        if not receipts:
            return
        until = self.all("SELECT fairq.extend(%s, %s::interval)", receipts[0], LEASE)[0][0]
        if until is None:
            self.refused("extend", receipts[:1])
            self.forget(receipts[:1])
        else:
            task, _, payload = self.held[receipts[0]]
            self.held[receipts[0]] = (task, until.timestamp(), payload)
            self.log.write("B", task, receipts[0], repr(time.time()), repr(until.timestamp()))
        good = self.plural("extend_many", "SELECT * FROM fairq.extend_many(%%s, '%s'::interval)" % LEASE, receipts[1:])
        self.forget(set(receipts[1:]) - set(good))

    def cancel(self):
        if not self.cancellable:
            return
        # Mostly the newest, which is likely to be there still; some of them twice.
        task = self.cancellable.pop() if self.chance(0.7) else self.random.choice(self.cancellable)

        def body():
            if self.all("SELECT fairq.cancel(%s, %s)", QUEUE, task)[0][0]:
                self.run("INSERT INTO cancelled VALUES (%s)", task)
            self.maybe_roll_back(0.3)

        self.transaction(body)

    def savepoints(self):
        kept = []

        def ack(t):
            if self.all("SELECT fairq.ack(%s)", t[1])[0][0]:
                return True
            if t[5].timestamp() > time.time() and "c" not in t[3]:
                self.log.violation("ack in the transaction of the claim: false")
            return False

        def body():
            self.run("SAVEPOINT a")
            self.insert_many(3)
            lost = self.claim(3)
            self.run("ROLLBACK TO a")
            self.are_over(lost)
            self.insert_many(3)
            self.run("SAVEPOINT b")
            tasks = self.claim(4)
            self.run("SAVEPOINT c")
            for t in tasks:
                ack(t)
            self.run("ROLLBACK TO c")
            for t in tasks[:2]:
                if ack(t):
                    self.run("INSERT INTO results (task, receipt, n, how) VALUES (%s, %s, %s, 'savepoint')",
                             t[0], t[1], t[3]["n"])
            self.run("RELEASE b")
            kept.extend(tasks[2:])
            self.maybe_roll_back(0.3)

        if self.transaction(body):
            self.holds(kept)
        else:
            self.are_over(kept)

    def walk_away(self):
        """As a worker that hangs: the leases run out."""
        self.forget(self.pick(20), may_ack=True)

    def try_stale(self):
        """A receipt of a lease that has ended settles nothing, unless the
        lease has run out and nobody took the task over."""
        if not self.stale:
            return
        receipt = self.random.choice(list(self.stale))
        task, n, may_ack = self.stale[receipt]
        acked = []

        def body():
            acked.extend(self.all("SELECT fairq.ack(%s)", receipt)[0])
            if acked[0]:
                self.run("INSERT INTO results (task, receipt, n, how) VALUES (%s, %s, %s, 'late')",
                         task, receipt, n)
                if not may_ack:
                    self.log.violation("ack of task %s, receipt %s whose lease has ended: true" % (task, receipt))

        self.transaction(body)
        self.is_over(receipt, task, n, may_ack and not acked[0])

    def share(self):
        """Let anybody acknowledge what this client has claimed."""
        tasks = self.claim(self.random.choice([1, 10]))
        if tasks:
            self.run("INSERT INTO shared SELECT * FROM unnest(%s::bigint[], %s::uuid[], %s::text[])",
                     [t[0] for t in tasks], [t[1] for t in tasks], [t[3]["n"] for t in tasks])
            self.holds(tasks)
            for t in tasks:
                del self.held[t[1]]

    def ack_shared(self):
        """Several clients may try the same receipt at the same time."""
        rows = self.all("SELECT task, receipt, n FROM shared ORDER BY task DESC LIMIT 3")
        if not rows:
            return
        task, receipt, n = self.random.choice(rows)

        def body():
            if self.all("SELECT fairq.ack(%s)", receipt)[0][0]:
                self.run("INSERT INTO results (task, receipt, n, how) VALUES (%s, %s, %s, 'shared')",
                         task, receipt, n)
                time.sleep(self.random.uniform(0, 0.02))
            self.maybe_roll_back(0.3)
            self.run("DELETE FROM shared WHERE receipt = %s", receipt)

        self.transaction(body)

    def look(self):
        """Look at things, which must disturb nobody."""
        self.run("SELECT count(*) FROM fairq.peek(%s, 10)", QUEUE)
        self.run("SELECT * FROM fairq.queue_stats")
        self.run("SELECT count(*) FROM fairq.leases")
        if self.seen:
            self.run("SELECT * FROM fairq.get_task(%s, %s)", QUEUE, self.random.choice(self.seen))

    ACTIONS = [
        ("enqueue_one", 12), ("enqueue_many", 7), ("enqueue_slowly", 1),
        ("claim_and_hold", 14), ("claim_in_transaction", 6),
        ("settle_ack", 12), ("settle_ack_many", 8), ("ack_and_claim", 8),
        ("settle_nack", 4), ("settle_release", 4), ("pop", 6), ("extend", 4),
        ("cancel", 3), ("savepoints", 4), ("walk_away", 1), ("try_stale", 3), ("share", 3), ("ack_shared", 6),
        ("look", 1),
    ]

    def weights(self, left):
        """In turn: more comes than goes, more goes than comes, and only a
        few come, so that the queue is deep, gets empty and stays so."""
        phase = int(left / 5) % 3
        result = []
        for name, weight in self.ACTIONS:
            if phase != 0 and name == "enqueue_many":
                weight = 0
            elif phase == 1 and name == "enqueue_one":
                weight /= 4
            elif phase == 1 and name in ("settle_ack_many", "claim_and_hold", "pop"):
                weight *= 3
            result.append(weight)
        return result

    def work(self, deadline):
        names = [name for name, _ in self.ACTIONS]
        self.connect()
        while time.time() < deadline.value:
            name = self.random.choices(names, self.weights(deadline.value - time.time()))[0]
            self.settling = []
            try:
                getattr(self, name)()
                self.log.write("D", name)
            except (psycopg.OperationalError, psycopg.InterfaceError) as e:
                state = getattr(e, "sqlstate", None)
                expected = state is None or state in EXPECTED_SQLSTATES or (
                    self.args.crash_every and state in CRASH_SQLSTATES)
                if not expected:
                    self.log.violation("%s: %s %s" % (name, state, e))
                try:
                    self.conn.close()
                except psycopg.Error:
                    pass
                self.log.write("R", name)
                self.forget(self.settling, may_ack=True)
                self.connect()
            except Exception as e:
                self.log.violation("%s: %s %s" % (
                    name, getattr(e, "sqlstate", ""), traceback.format_exc(limit=-3)))
                self.conn.close()
                self.connect()
        self.conn.close()


def client_process(args, number, incarnation, deadline):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Client(args, number, incarnation).work(deadline)


# -- the disturbances ---------------------------------------------------------

class Agitator:
    """Terminates backends, kills clients and replaces them."""

    def __init__(self, args, deadline):
        self.args = args
        self.deadline = deadline
        self.random = random.Random("%s.agitator" % args.seed)
        self.clients = []
        self.terminated = 0
        self.killed = 0
        self.crashes = 0
        self.broken = []

    def start(self, number, incarnation):
        p = multiprocessing.Process(target=client_process,
                                    args=(self.args, number, incarnation, self.deadline))
        p.start()
        return p

    def work(self):
        for number in range(self.args.clients):
            self.clients.append((0, self.start(number, 0)))
        next_kill = time.time() + 2
        next_crash = time.time() + (self.args.crash_every or self.args.seconds + 1)
        most = time.time() + MORE_SECONDS
        while time.time() < self.deadline.value - 0.5:
            # Until there have been as many crashes as there are to be, on a busy machine.
            if self.crashes < self.args.crashes and time.time() < most:
                self.deadline.value = max(self.deadline.value, time.time() + 3)
            time.sleep(0.3)
            crash = time.time() >= next_crash
            pid = self.disturb_backend(crash)
            if crash and pid:
                next_crash = time.time() + self.args.crash_every
                self.crashes += 1
            elif pid:
                self.terminated += 1
            if time.time() >= next_kill:
                next_kill = time.time() + 2
                number = self.random.randrange(self.args.clients)
                incarnation, process = self.clients[number]
                process.kill()
                process.join()
                self.killed += 1
                self.clients[number] = (incarnation + 1, self.start(number, incarnation + 1))
        for number, (incarnation, process) in enumerate(self.clients):
            process.join(60)
            if process.exitcode != 0:
                self.broken.append("client %d.%d ended with %s" % (number, incarnation, process.exitcode))
                process.kill()

    def disturb_backend(self, crash):
        """Terminate one, or kill it with signal 9, and all others with it."""
        try:
            with psycopg.connect(self.args.conninfo, autocommit=True) as conn:
                row = conn.execute(
                    "SELECT pid, CASE WHEN NOT %s THEN pg_terminate_backend(pid) END FROM pg_stat_activity"
                    " WHERE application_name = 'stress client' ORDER BY random() LIMIT 1", (crash,)).fetchone()
                if row and crash:
                    try:
                        os.kill(row[0], signal.SIGKILL)
                    except ProcessLookupError:  # it has just ended: another one, next time
                        return None
                return row and row[0]
        except psycopg.OperationalError:
            if not self.args.crash_every:
                raise


class Maintenance(threading.Thread):
    """What a database administrator does to the table meanwhile."""

    def __init__(self, args, begin, deadline):
        super().__init__()
        self.args = args
        self.begin = begin
        self.deadline = deadline
        self.done = {}
        self.errors = []

    def run(self):
        total = self.deadline - self.begin
        if self.args.crash_every:
            return
        plan = [(0.2, "VACUUM FULL " + TABLE), (0.4, "CLUSTER " + TABLE + " USING " + self.args.cluster_index),
                (0.6, "REINDEX TABLE CONCURRENTLY " + TABLE)]
        try:
            with psycopg.connect(self.args.conninfo, autocommit=True) as conn:
                while plan or time.time() < self.deadline - 1:
                    if plan and time.time() >= self.begin + plan[0][0] * total:
                        command = plan.pop(0)[1]
                    else:
                        command = random.choice(["VACUUM ", "ANALYZE "]) + TABLE
                    conn.execute(command)
                    word = command.split(" fairq")[0]
                    self.done[word] = self.done.get(word, 0) + 1
                    time.sleep(0.5)
        except psycopg.Error:
            self.errors.append(traceback.format_exc(limit=-2))


# -- the reckoning ------------------------------------------------------------

def read_logs(directory):
    """Intervals of certain possession per task, violations, counts."""
    intervals = {}
    violations = []
    actions = {}
    reconnects = 0
    last_deadline = 0.0

    def close(task, receipt, begin, end):
        if end > begin:
            intervals.setdefault(task, []).append((begin, end, receipt))

    for name in sorted(os.listdir(directory)):
        if not name.startswith("client."):
            continue
        held = {}
        with open(os.path.join(directory, name), encoding="utf-8") as f:
            for line in f:
                words = line.split(" ")
                if words[0] == "B":
                    task, receipt, begin, until = int(words[1]), words[2], float(words[3]), float(words[4])
                    last_deadline = max(last_deadline, until)
                    if receipt in held:     # extended
                        begin = held[receipt][1]
                    held[receipt] = (task, begin, until)
                elif words[0] == "E":
                    receipt, end = words[1], float(words[2])
                    if receipt in held:
                        task, begin, until = held.pop(receipt)
                        close(task, receipt, begin, min(end, until))
                elif words[0] == "I":
                    close(int(words[1]), words[2], float(words[3]), float(words[4]))
                elif words[0] == "V":
                    violations.append(line[2:].strip())
                elif words[0] == "D":
                    actions[words[1].strip()] = actions.get(words[1].strip(), 0) + 1
                elif words[0] == "R":
                    reconnects += 1
        for receipt, (task, begin, until) in held.items():
            close(task, receipt, begin, until)

    overlaps = []
    count = 0
    for task, list_of in intervals.items():
        list_of.sort()
        count += len(list_of)
        for (b1, e1, r1), (b2, e2, r2) in zip(list_of, list_of[1:]):
            # A crash forgets leases, and its tasks are delivered again at once:
            # the receipts of one run of the server have their middle in common.
            if b2 < e1 and r1 != r2 and r1[9:18] == r2[9:18]:
                overlaps.append("task %d: %s until %.6f, %s from %.6f" % (task, r1, e1, r2, b2))
    return {"overlaps": overlaps, "intervals": count, "violations": violations,
            "actions": actions, "reconnects": reconnects}, last_deadline


def drain(conn, last_deadline):
    """Claim until nothing is left. Rows of which no claim gives any for half a
    minute, after the last lease has run out, are lost; nothing finds them later.
    Suspects come a few at a time (suspects.c)."""
    drained = 0
    last = last_deadline
    while True:
        asked = time.time()
        with conn.transaction():
            tasks = conn.execute(
                "SELECT id, receipt, payload->>'n' FROM fairq.claim(%s, 1000)", (QUEUE,)).fetchall()
            acked = {r[0] for r in conn.execute(
                "SELECT * FROM fairq.ack_many(%s)", ([t[1] for t in tasks],))}
            conn.cursor().executemany(
                "INSERT INTO results (task, receipt, n, how) VALUES (%s, %s, %s, 'drain')",
                [t for t in tasks if t[1] in acked])
        drained += len(tasks)
        if tasks:
            last = max(last, asked)
        else:
            empty = one(conn, "SELECT count(*) FROM " + TABLE) == 0
            if asked > last + (1 if empty else 30):
                return drained
            time.sleep(0.05)


def one(conn, sql, *params):
    return conn.execute(sql, params).fetchone()[0]


def reckon(conn):
    result = {}
    result["left"] = one(conn, "SELECT count(*) FROM " + TABLE)
    result["left_rows"] = [str(r) for r in conn.execute(
        "SELECT id, address, state, group_key, attempts, ctid, xmin, xmax FROM " + TABLE + " LIMIT 10")]
    result["leases"] = one(conn, "SELECT count(*) FROM fairq.leases")
    for table in ("produced", "results", "cancelled"):
        result[table] = one(conn, "SELECT count(*) FROM " + table)
    result["produced_twice"] = one(
        conn, "SELECT count(*) FROM (SELECT task FROM produced GROUP BY task HAVING count(*) > 1) x")
    result["acked_twice"] = [str(r) for r in conn.execute(
        "SELECT task, array_agg(how ORDER BY how) FROM results GROUP BY task HAVING count(*) > 1 LIMIT 10")]
    result["cancelled_twice"] = one(
        conn, "SELECT count(*) FROM (SELECT task FROM cancelled GROUP BY task HAVING count(*) > 1) x")
    result["acked_and_cancelled"] = [str(r) for r in conn.execute(
        "SELECT task, how FROM results JOIN cancelled USING (task) LIMIT 10")]
    result["lost"] = [str(r) for r in conn.execute(
        "SELECT p.task, p.n FROM produced p WHERE NOT EXISTS (SELECT FROM results r WHERE r.task = p.task)"
        " AND NOT EXISTS (SELECT FROM cancelled c WHERE c.task = p.task)"
        " AND NOT EXISTS (SELECT FROM " + TABLE + " q WHERE q.id = p.task) LIMIT 10")]
    result["lost_count"] = one(
        conn, "SELECT count(*) FROM produced p WHERE NOT EXISTS (SELECT FROM results r WHERE r.task = p.task)"
        " AND NOT EXISTS (SELECT FROM cancelled c WHERE c.task = p.task)")
    result["from_nowhere"] = [str(r) for r in conn.execute(
        "SELECT r.task, r.how FROM results r WHERE NOT EXISTS (SELECT FROM produced p WHERE p.task = r.task)"
        " LIMIT 10")]
    result["other_payload"] = [str(r) for r in conn.execute(
        "SELECT r.task, r.how, r.n, p.n FROM results r JOIN produced p USING (task) WHERE r.n IS DISTINCT FROM p.n LIMIT 10")]
    result["receipts_again"] = one(
        conn, "SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM results WHERE receipt IS NOT NULL))")
    columns = "ready leased dead enqueued claimed acked nacked released expired cancelled".split()
    stats = conn.execute("SELECT " + ", ".join(columns) + " FROM fairq.queue_stats WHERE queue = %s", (QUEUE,)).fetchone()
    result["stats"] = dict(zip(columns, [None if s is None else int(s) for s in stats]))
    result["how"] = dict(conn.execute("SELECT how, count(*) FROM results GROUP BY how").fetchall())
    return result


def connect_patiently(conninfo):
    """The server may be on its way up."""
    for _ in range(600):
        try:
            return psycopg.connect(conninfo, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    return psycopg.connect(conninfo, autocommit=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--directory", required=True, help="for the clients' logs")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--crash-every", type=float, default=0,
                        help="seconds between two crashes of the server (must be local, and of the same user)")
    parser.add_argument("--crashes", type=int, default=0, help="at least so many, though it take longer")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--cluster-index", default=None)
    args = parser.parse_args()

    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        conn.execute("SELECT fairq.create_queue(%s, buckets => %s, lease => %s::interval, max_attempts => 0, max_lost => 0, backoff_base => '0')",
                     (QUEUE, BUCKETS, LEASE))
        conn.execute("CREATE TABLE produced (task bigint, n text)")
        conn.execute("CREATE TABLE results (task bigint, receipt uuid, n text, how text)")
        conn.execute("CREATE TABLE cancelled (task bigint)")
        conn.execute("CREATE TABLE shared (task bigint, receipt uuid, n text)")
        if args.cluster_index is None:
            args.cluster_index = conn.execute(
                "SELECT quote_ident(relname) FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
                " WHERE indrelid = %s::regclass AND indisprimary", (TABLE,)).fetchone()[0]

    begin = time.time()
    maintenance = Maintenance(args, begin, begin + args.seconds)
    agitator = Agitator(args, multiprocessing.RawValue("d", begin + args.seconds))
    maintenance.start()
    agitator.work()
    maintenance.join()

    report, last_deadline = read_logs(args.directory)
    report["seed"] = args.seed
    report["terminated"] = agitator.terminated
    report["killed"] = agitator.killed
    report["crashes"] = agitator.crashes
    report["broken"] = agitator.broken
    report["maintenance"] = maintenance.done
    report["maintenance_errors"] = maintenance.errors
    with connect_patiently(args.conninfo) as conn:
        # The backends of killed clients end when they notice.
        while one(conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stress client'"):
            time.sleep(0.05)
        before = time.time()
        # A claim whose answer was lost with its connection holds a lease too.
        report["drained"] = drain(conn, max(last_deadline, before + LEASE_SECONDS))
        report["drain_seconds"] = round(time.time() - before, 2)
        report.update(reckon(conn))
    for key in ("overlaps", "violations"):
        report[key + "_count"] = len(report[key])
        report[key] = report[key][:10]
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
