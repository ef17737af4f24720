#!/usr/bin/python3
"""The load behind the tests of faults: faults_kills, faults_failover, engine_exactly_once.

Producers and claimers of every kind, each a process of its own, use one queue
while the test does them and the server harm.  What they knew for certain they
wrote down, in a file for each process, so that it is known also of those that
were killed; at the end it is compared with what is in the database.

It takes commands from standard input, and answers each with one line:

kill KIND           kill -9 a client of that kind while it has tasks in hand; another
                    one takes its place
pause KIND SECONDS NUMBER
                    so many of them are stopped with SIGSTOP, and go on with SIGCONT later
backend             the process id of the backend of some client
down                the server is about to go down ...
up                  ... and is to be waited for: it takes commands again
progress N          wait until N more tasks have been acknowledged
finish              stop producing, wait until the queue is empty, and judge:
                    a JSON object

The tables:

produced, results
    Written in the transaction that enqueues or acknowledges.  Neither has a
    unique index: a double must show, not be prevented.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback

import psycopg
from psycopg import sql

GROUPS = ["g%d" % i for i in range(12)]
LEASE = 1.0         # seconds, of those who claim without a session
TTL = 1.0           # seconds, of sessions that need a heartbeat

# More than these ready tasks and producers pause: a task that is put back goes to
# the end of its group's queue, and must not wait there for a backlog.
ENOUGH = 40

# What a client may be told when its server goes down, or is a standby.
LOST = {None, "57P01", "57P02", "57P03", "08006", "08001", "08003"}


class Rollback(Exception):
    """Leaves a transaction the other way."""


class Client:
    def __init__(self, shared, args, number, incarnation, kind):
        self.shared = shared
        self.args = args
        self.number = number
        self.kind = kind
        self.random = random.Random("%s.%d.%d" % (args.seed, number, incarnation))
        self.tag = "%s.%d.%d" % (kind, number, incarnation)
        self.fd = os.open(os.path.join(args.directory, self.tag), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.parent = os.getppid()
        self.counter = 0
        self.conn = None
        self.session = None
        self.alive_at = 0
        self.held = {}      # receipt -> (task, n, attempt)
        self.late = {}      # the same, of a lease that is certainly lost

    # What is known for certain. Written without a buffer, as it may be killed.
    def log(self, what, *words):
        os.write(self.fd, (" ".join([what, repr(time.time())] + [str(w) for w in words]) + "\n").encode())

    def violation(self, text):
        self.log("V", text.replace("\n", " / "))

    def connect(self):
        while not self.shared.stop.value:
            try:
                self.conn = psycopg.connect(self.args.conninfo, autocommit=True, connect_timeout=10,
                                            application_name="faults " + self.kind)
                return
            except psycopg.OperationalError:
                time.sleep(0.02)

    def rows(self, query, *params):
        return self.conn.execute(query, params).fetchall()

    def one(self, query, *params):
        return self.rows(query, *params)[0][0]

    def chance(self, p):
        return self.random.random() < p

    def transaction(self, body):
        """True if it committed, and this is known."""
        self.conn.execute("BEGIN")
        try:
            body()
        except Rollback:
            self.conn.execute("ROLLBACK")
            return False
        self.conn.execute("COMMIT")
        return True

    def work(self):
        """What takes time when a task is worked on."""
        time.sleep(self.random.uniform(0.002, 0.04))

    def holds(self, number):
        self.shared.held[self.number] = number

    # -- the two kinds of work ---------------------------------------------

    def produce(self):
        if self.one(
                "SELECT count(*) FROM fairq.peek(%s, %s)", self.args.queue, ENOUGH) >= ENOUGH:
            time.sleep(0.02)
            return
        names = []

        def payloads(number):
            for _ in range(number):
                self.counter += 1
                names.append("%s.%d" % (self.tag, self.counter))
            return names[len(names) - number:]

        def body():
            for number in self.random.choice([(1,), (1,), (8,), (1, 4)]):
                some = payloads(number)
                self.conn.execute(
                    "INSERT INTO produced SELECT i, n FROM unnest(fairq.enqueue_many(%s,"
                    " ARRAY(SELECT to_jsonb(n) FROM unnest(%s::text[]) n), group_keys => %s,"
                    " run_ats => ARRAY[clock_timestamp() + %s * interval '1 s']), %s::text[]) u(i, n)",
                    (self.args.queue, some, self.random.choices(GROUPS, k=number),
                     self.random.uniform(0.05, 0.3) if self.chance(0.1) else None, some))
            if self.chance(0.03):
                time.sleep(0.2)     # commits when others are ahead
            self.holds(1)
            if self.chance(0.1):
                raise Rollback()

        if self.transaction(body):
            self.log("P", *names)
        self.holds(0)

    def claim(self, limit):
        """Leases that are certain from here on."""
        asked = time.time()
        if self.session:
            tasks = self.rows("SELECT id, receipt, attempt, payload #>> '{}', NULL FROM fairq.claim(%s, %s,"
                              " session => %s)", self.args.queue, limit, self.session)
        else:
            tasks = self.rows("SELECT id, receipt, attempt, payload #>> '{}', extract(epoch FROM lease_until)::float8"
                              " FROM fairq.claim(%s, %s, lease => %s * interval '1 s')", self.args.queue, limit, LEASE)
        if len(tasks) > limit:
            self.violation("asked for %d, got %d" % (limit, len(tasks)))
        for task, receipt, attempt, n, until in tasks:
            if until is not None and until < asked + LEASE - 0.001:
                self.violation("a lease of less than %s s" % LEASE)
        return tasks

    def keep_alive(self):
        """False: the session is over, and what it had is lost."""
        if self.session:
            sent = time.time()
            if sent < self.alive_at + 0.25 * TTL or self.kind == "bound":
                return True
            if self.one("SELECT fairq.heartbeat(%s)", self.session):
                self.alive_at = time.time()
                self.log("H", self.session, repr(sent))
                return True
            self.log("O", self.session)
            self.session = None
            return False
        if self.kind in ("session", "bound"):
            sent = time.time()
            bound = self.kind == "bound"
            self.session = self.one("SELECT fairq.open_session(%s, %s * interval '1 s', %s)", self.tag,
                                    3600 if bound else TTL, bound)
            self.alive_at = time.time()
            if not bound:
                self.log("H", self.session, repr(sent))
        return True

    def consume(self):
        if not self.keep_alive():
            self.lose(self.held)
            return      # to claim with a session of its own, not without
        if not self.held:
            try:
                tasks = self.claim(self.random.choice([1, 2, 5]))
            except psycopg.errors.ObjectNotInPrerequisiteState:     # the session ended meanwhile
                tasks = []
            for task, receipt, attempt, n, until in tasks:
                self.held[receipt] = (task, n, attempt)
                self.log("B", task, receipt, attempt, self.session or "-", "inf" if until is None else repr(until))
            if not tasks:
                time.sleep(0.01)
                return
        self.holds(len(self.held))
        self.work()
        # It is worked on for too long.
        if self.kind == "lease" and self.chance(0.01):
            time.sleep(LEASE + 0.2)
        self.settle(next(iter(self.held)))
        self.holds(len(self.held))

    def settle(self, receipt):
        task, n, attempt = self.held[receipt]
        way = self.random.random()
        done = []

        def ack():
            """In a transaction; it ends here if the task is somebody else's."""
            good = self.one("SELECT fairq.ack(%s)", receipt)
            if not good:
                self.log("F", receipt)
                done.append("lost")
            if good or self.args.careless:
                self.conn.execute("INSERT INTO results VALUES (%s, %s, %s, %s, clock_timestamp())",
                                  (task, n, receipt, attempt))
            else:
                raise Rollback()

        def body():
            if way < 0.1:
                self.conn.execute("SAVEPOINT a")
                ack()
                self.conn.execute("ROLLBACK TO a")
                ack()
            elif way < 0.15:
                ack()
                raise Rollback()
            elif way < 0.2:
                done.append("nack" if self.one("SELECT fairq.nack(%s, 'once more', '0')", receipt) else "lost")
            elif way < 0.3:
                self.conn.execute("SAVEPOINT a")
                ack()
                self.conn.execute("RELEASE a")
            else:
                ack()
            if self.chance(0.1):
                self.work()

        self.log("E", receipt)
        if self.transaction(body):
            if not done:
                self.log("A", receipt, n)
                self.shared.acked[self.number] += 1
            else:
                self.log("N", receipt)
            del self.held[receipt]
        elif done:
            self.log("N", receipt)
            del self.held[receipt]
        else:
            self.log("G", receipt)      # it goes on

    def lose(self, held):
        """What must be lost is lost."""
        for receipt in list(held):
            task, n, attempt = held[receipt]
            self.log("E", receipt)

            def body():
                if self.one("SELECT fairq.ack(%s)", receipt):
                    self.violation("task %s: receipt %s is good although its session or its server is gone" % (task, receipt))
                raise Rollback()

            self.transaction(body)
            self.log("f", receipt)
            self.log("N", receipt)
            del held[receipt]

    def in_one_transaction(self):
        """Claims and acknowledges, or pops, in the transaction of the work."""
        tasks = []
        lost = []

        def body():
            if self.chance(0.3):
                self.conn.execute("SAVEPOINT a")
                if self.kind == "pop":
                    self.rows("SELECT id FROM fairq.pop(%s, 2)", self.args.queue)
                else:
                    self.claim(2)
                self.conn.execute("ROLLBACK TO a")
            if self.kind == "pop":
                got = self.rows("SELECT id, receipt, attempt, payload #>> '{}', NULL FROM fairq.pop(%s, %s)",
                                self.args.queue, self.random.choice([1, 3]))
            else:
                got = self.claim(self.random.choice([1, 3]))
            tasks.extend(got)
            for task, receipt, attempt, n, until in got:
                self.log("T", task, receipt, attempt, "-", "inf" if until is None else repr(until))
            self.holds(len(got))
            for task, receipt, attempt, n, until in got:
                self.work()
                if self.kind == "transaction" and not self.one("SELECT fairq.ack(%s)", receipt):
                    if until > time.time():
                        self.violation("task %s: not acknowledged in the transaction of its claim" % task)
                    raise Rollback()
                self.conn.execute("INSERT INTO results VALUES (%s, %s, %s, %s, clock_timestamp())",
                                  (task, n, receipt, attempt))
            self.log("e")
            if self.chance(0.1):
                raise Rollback()

        good = self.transaction(body)
        self.log("a" if good else "n", *[t[3] for t in tasks])
        if good:
            self.shared.acked[self.number] += len(tasks)
        self.holds(0)
        if not tasks:
            time.sleep(0.01)

    def meddle(self):
        """Changes rows with SQL, leased or not: they move, and are offered to
        claimers once more. A lease is what keeps them from being taken."""
        table = sql.Identifier("fairq", "q_" + self.args.queue)

        def body():
            self.conn.execute(sql.SQL(
                "UPDATE {0} SET headers = '{{}}' WHERE ctid IN"
                " (SELECT ctid FROM {0} ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)").format(table))
            if self.chance(0.1):
                raise Rollback()

        self.transaction(body)
        time.sleep(0.03)

    # -- the loop ----------------------------------------------------------

    def run(self):
        step = {"producer": self.produce, "pop": self.in_one_transaction,
                "transaction": self.in_one_transaction, "meddler": self.meddle}.get(self.kind, self.consume)
        self.connect()
        while not self.shared.stop.value and os.getppid() == self.parent:
            if self.kind == "producer" and self.shared.drain.value:
                break
            try:
                if self.late:
                    self.lose(self.late)
                step()
            except psycopg.errors.SerializationFailure:
                # A pop does not wait for who changes the row.
                self.conn.execute("ROLLBACK")
                self.log("n")
                self.holds(0)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if getattr(error, "sqlstate", None) not in LOST:
                    self.violation("%s %s" % (error.sqlstate, error))
                # Only a server that goes down ends connections here: what it
                # knew of leases and sessions is gone.
                self.log("L")
                self.holds(0)
                self.late.update(self.held)
                self.held = {}
                self.session = None
                self.conn.close()
                self.connect()
            except Exception:
                self.violation(traceback.format_exc(limit=-3))
                self.conn.close()
                self.connect()


# -- the reckoning ------------------------------------------------------------

class Lease:
    """What the client that had it knew of it."""

    def __init__(self, client, line):
        self.client = client
        self.begin = float(line[1])
        self.task = int(line[2])
        self.receipt = line[3]
        self.attempt = int(line[4])
        self.session = line[5]
        self.until = float(line[6])     # inf: as long as the session or the transaction
        self.in_transaction = line[0] == "T"
        self.parts = [[self.begin, None]]       # held for certain
        self.ended = None                       # when that became known


class Log:
    """The log of one process."""

    def __init__(self, path):
        self.client = os.path.basename(path)
        self.kind = self.client.split(".")[0]
        self.leases = []
        self.produced = []
        self.acked = []
        self.alive = {}         # session -> [(sent, answered)]
        self.violations = []
        self.lost_connection = []
        self.refused = 0
        self.void = 0
        current = {}
        in_hand = []
        with open(path, encoding="utf-8") as log:
            for text in log:
                line = text.rstrip("\n").split(" ")
                what, at = line[0], float(line[1])
                if what == "P":
                    self.produced += line[2:]
                elif what == "H":
                    self.alive.setdefault(line[2], []).append((float(line[3]), at))
                elif what == "V":
                    self.violations.append("%s: %s" % (self.client, text.split(" ", 2)[2].strip()))
                elif what in "BT":
                    lease = Lease(self, line)
                    self.leases.append(lease)
                    if what == "B":
                        current[lease.receipt] = lease
                    else:
                        in_hand.append(lease)
                elif what == "E":
                    lease = current[line[2]]
                    if lease.parts[-1][1] is None:
                        lease.parts[-1][1] = at
                elif what == "G":
                    current[line[2]].parts.append([at, None])
                elif what in "AN":
                    if current[line[2]].ended is None:
                        current[line[2]].ended = at
                    if what == "A":
                        self.acked.append((line[3], line[2]))
                elif what == "F":
                    self.refused += 1
                elif what == "f":
                    self.void += 1
                elif what == "e":
                    for lease in in_hand:
                        lease.parts[-1][1] = at
                elif what in "an":
                    for lease in in_hand:
                        lease.ended = at
                    in_hand = []
                    if what == "a":
                        self.acked += [(n, None) for n in line[2:]]
                elif what == "L":
                    self.lost_connection.append(at)
                    for lease in list(current.values()) + in_hand:
                        if lease.ended is None:
                            lease.ended = at
                        if lease.parts[-1][1] is None:
                            lease.parts[-1][1] = lease.parts[-1][0]
                    in_hand = []

    def bounds(self, lease):
        """When it ran out at the earliest, and at the latest; whatever else
        may have ended it."""
        if lease.session in self.alive:
            beats = self.alive[lease.session]
            return (min(lease.until, beats[-1][0] + TTL), min(lease.until, beats[-1][1] + TTL))
        return (lease.until, lease.until)


class Judge:
    def __init__(self, args, logs, conn, crashes):
        self.logs = logs
        self.crashes = crashes
        self.conn = conn
        self.queue = args.queue
        self.report = {}
        self.produced = conn.execute("SELECT task, n FROM produced").fetchall()
        self.results = conn.execute("SELECT task, n, receipt::text, attempt, extract(epoch FROM at)::float8 FROM results").fetchall()
        self.finished = {row[2] for row in self.results}
        self.finished_at = {}
        for row in self.results:
            self.finished_at.setdefault(row[0], []).append(row[4])
        # When somebody had a task, as far as anybody knows: (time, attempt, receipt)
        self.seen = {}
        for log in logs:
            for lease in log.leases:
                self.seen.setdefault(lease.task, []).append((lease.begin, lease.attempt, lease.receipt))
        for task, _, receipt, attempt, at in self.results:
            self.seen.setdefault(task, []).append((at, attempt, receipt))
        for times in self.seen.values():
            times.sort(key=lambda seen: seen[0])

    def many(self, name, what):
        self.report[name] = len(what)
        if what:
            self.report.setdefault("examples", {})[name] = [str(w) for w in what[:8]]

    def tasks(self):
        names = {}
        for task, n in self.produced:
            names.setdefault(n, []).append(task)
        counts = {}
        for task, n, receipt, attempt, at in self.results:
            counts[n] = counts.get(n, 0) + 1
        known = [n for log in self.logs for n in log.produced]
        acked = [(n, receipt) for log in self.logs for n, receipt in log.acked]
        self.report["produced"] = len(self.produced)
        self.report["known_produced"] = len(known)
        self.report["known_acked"] = len(acked)
        self.many("enqueue_lost", [n for n in known if n not in names])
        self.many("enqueued_twice", [n for n in names if len(names[n]) > 1])
        self.many("unfinished", [n for n in names if n not in counts])
        self.many("finished_twice", [n for n in counts if counts[n] > 1])
        self.many("from_nowhere", [n for n in counts if n not in names])
        self.many("ack_lost", [n for n, receipt in acked if n not in counts or receipt and receipt not in self.finished])
        self.many("left", self.conn.execute("SELECT t::text FROM fairq.tasks(%s) t LIMIT 20", (self.queue,)).fetchall())
        self.many("swept", self.conn.execute("SELECT queue, swept FROM fairq.queue_stats WHERE swept > 0").fetchall())
        self.many("violations", [v for log in self.logs for v in log.violations])
        self.report["leases"] = sum(len(log.leases) for log in self.logs)
        self.report["refused"] = sum(log.refused for log in self.logs)
        self.report["void"] = sum(log.void for log in self.logs)
        self.report["delivered_again"] = sum(len({s[2] for s in seen}) > 1 for seen in self.seen.values())
        self.report["connections_lost"] = sum(len(log.lost_connection) for log in self.logs)
        self.report["attempts"] = max([row[3] for row in self.results] or [0])

    def one_holder(self):
        """Two intervals in which a lease was certain do not overlap. The
        receipts of one run of the server have their middle in common; when it
        goes down all leases go."""
        parts = {}
        for log in self.logs:
            for lease in log.leases:
                until = log.bounds(lease)[0]
                for begin, end in lease.parts:
                    if end is None:     # nobody gave it up: killed, perhaps
                        end = begin if lease.in_transaction or until == math.inf else until
                    end = min(until, end)
                    if end > begin:
                        parts.setdefault(lease.task, []).append((begin, end, lease.receipt))
        overlaps = []
        self.report["intervals"] = 0
        for task, intervals in parts.items():
            intervals.sort()
            self.report["intervals"] += len(intervals)
            for i, (begin, end, receipt) in enumerate(intervals):
                for begin2, end2, receipt2 in intervals[i + 1:]:
                    if begin2 < end and receipt2 != receipt and receipt2[9:18] == receipt[9:18]:
                        overlaps.append("task %d: %s until %.3f, %s from %.3f" % (task, receipt, end, receipt2, begin2))
        self.many("two_holders", overlaps)

    def next_holder(self, lease, after):
        for at, attempt, receipt in self.seen[lease.task]:
            if at > after and receipt != lease.receipt:
                return at, attempt
        return None

    def again(self, name, samples):
        """How long after its end (end, lease, whether an attempt is counted)
        a task was in somebody's hands again."""
        late, never, uncounted = [], [], []
        for end, lease, counted in samples:
            # It may have committed, unknown to the client.
            if lease.receipt in self.finished or lease.in_transaction and any(
                    lease.begin <= at <= end for at in self.finished_at.get(lease.task, [])):
                continue
            at = self.next_holder(lease, lease.begin)
            if at is None:
                never.append("%s: task %d, receipt %s" % (lease.client.client, lease.task, lease.receipt))
                continue
            at, attempt = at
            # A claim may have got it whose answer was lost in the next crash.
            if any(end < down < min(at, end + 3) for down, up in self.crashes):
                continue
            if counted and attempt > lease.attempt + 1:
                # Somebody else had it meanwhile whose answer was lost with him.
                continue
            if counted and attempt <= lease.attempt:
                uncounted.append("%s: task %d, attempts %d, %d" % (lease.client.client, lease.task, lease.attempt, attempt))
            late.append((round(at - end, 3), lease.client.client, lease.task, lease.attempt, attempt))
        late.sort()
        self.report[name] = len(late)
        self.report[name + "_median"] = late[len(late) // 2][0] if late else None
        self.report[name + "_last"] = late[-1][0] if late else None
        self.report.setdefault("examples", {})[name] = [str(l) for l in late[-5:]]
        self.many(name + "_never", never)
        self.many(name + "_uncounted", uncounted)

    def harmed(self, harms, name):
        """Clients that were killed or paused: (client, from)."""
        by_client = {log.client: log for log in self.logs}
        samples = []
        for client, at in harms:
            log = by_client.get(client)
            if log is None:
                continue
            for lease in log.leases:
                if lease.begin > at or lease.ended is not None and lease.ended <= at:
                    continue
                # Who is paused in a transaction that acknowledges keeps the task.
                if name == "paused" and lease.parts[-1][1] is not None and lease.parts[-1][1] <= at:
                    continue
                if lease.in_transaction:
                    samples.append((at, lease, False))
                elif log.kind == "bound":
                    samples.append((at, lease, True))
                else:
                    # Its last heartbeat may have arrived in that moment.
                    beats = [b for b in log.alive.get(lease.session, []) if b[0] <= at]
                    end = lease.until
                    if beats:
                        end = TTL + (at if name == "killed" else min(at, beats[-1][1]))
                    samples.append((end, lease, True))
        self.again(name, samples)

    def crashed(self):
        """From when the server was up again."""
        samples = []
        for down, up in self.crashes:
            for log in self.logs:
                for lease in log.leases:
                    if lease.begin < down and (lease.ended is None or lease.ended > down) and log.bounds(lease)[0] > down:
                        samples.append((up, lease, False))
        self.again("crashed", samples)


# -- the clients and what is done to them -----------------------------------

class Shared:
    """Without locks: who is killed would keep them."""

    def __init__(self, number):
        self.stop = multiprocessing.RawValue("i", 0)
        self.drain = multiprocessing.RawValue("i", 0)
        self.held = multiprocessing.RawArray("i", number)
        self.acked = multiprocessing.RawArray("q", number)


def client_process(shared, args, number, incarnation, kind):
    sys.stdin.close()
    Client(shared, args, number, incarnation, kind).run()


class Supervisor:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.kinds = args.clients.split(",")
        self.shared = Shared(len(self.kinds))
        self.clients = []           # (incarnation, process)
        self.killed = []            # (client, when)
        self.paused = []            # (client, from), paused for longer than its leases last
        self.crashes = []
        self.broken = []
        for number in range(len(self.kinds)):
            self.clients.append(None)
            self.start(number, 0)

    def name(self, number):
        return "%s.%d.%d" % (self.kinds[number], number, self.clients[number][0])

    def start(self, number, incarnation):
        process = multiprocessing.Process(
            target=client_process, args=(self.shared, self.args, number, incarnation, self.kinds[number]))
        process.start()
        self.clients[number] = (incarnation, process)

    def connect(self, seconds=120):
        deadline = time.time() + seconds
        while True:
            try:
                return psycopg.connect(self.args.conninfo, autocommit=True, connect_timeout=10)
            except psycopg.OperationalError:
                if time.time() > deadline:
                    raise
                time.sleep(0.02)

    def query(self, query, *params):
        with self.connect() as conn:
            return conn.execute(query, params).fetchall()

    def victim(self, kind, but=()):
        """One of that kind that has something in hand."""
        deadline = time.time() + 30
        while time.time() < deadline:
            numbers = [n for n, k in enumerate(self.kinds) if k == kind and n not in but and self.shared.held[n] > 0]
            if numbers:
                return self.random.choice(numbers)
            time.sleep(0.001)
        raise RuntimeError("no %s has anything in hand" % kind)

    def kill(self, kind):
        number = self.victim(kind)
        process = self.clients[number][1]
        process.kill()
        process.join()
        self.killed.append((self.name(number), time.time()))
        self.shared.held[number] = 0
        self.start(number, self.clients[number][0] + 1)
        return "killed"

    def pause(self, kind, seconds, howmany):
        paused = []
        for _ in range(int(howmany)):
            number = self.victim(kind, paused)
            os.kill(self.clients[number][1].pid, signal.SIGSTOP)
            paused.append(number)
            if float(seconds) > max(TTL, LEASE) + 1:
                self.paused.append((self.name(number), time.time()))
        time.sleep(float(seconds))
        for number in paused:
            os.kill(self.clients[number][1].pid, signal.SIGCONT)
        return "paused"

    def backend(self):
        return self.query("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'faults %%'"
                          " ORDER BY random() LIMIT 1")[0][0]

    def down(self):
        """It goes down next: not before consumers have tasks in hand, or the
        crash shows nothing of them.  Said again, it has not gone down yet."""
        deadline = time.time() + 60
        consumers = [n for n, kind in enumerate(self.kinds) if kind != "producer"]
        while sum(self.shared.held[n] for n in consumers) < 3 and time.time() < deadline:
            time.sleep(0.002)
        if not self.crashes or self.crashes[-1][1] is not None:
            self.crashes.append([None, None])
        self.crashes[-1][0] = time.time()
        return "down"

    def up(self):
        """Until it is, and is not the one that was there before."""
        while True:
            try:
                with self.connect() as conn:
                    conn.execute("SELECT fairq.enqueue(%s, 'null')", (self.args.probe,))
                break
            except psycopg.Error:
                time.sleep(0.02)
        self.crashes[-1][1] = time.time()
        return "up"

    def progress(self, number):
        wanted = sum(self.shared.acked) + int(number)
        deadline = time.time() + 60
        while sum(self.shared.acked) < wanted:
            if time.time() > deadline:
                return "none"
            time.sleep(0.01)
        return "done"

    def end(self, numbers):
        for number in numbers:
            process = self.clients[number][1]
            process.join(30)
            if process.exitcode != 0:
                self.broken.append("%s ended with %s" % (self.name(number), process.exitcode))
                process.kill()

    def finish(self):
        begin = time.time()
        self.shared.drain.value = 1
        self.end([n for n, kind in enumerate(self.kinds) if kind == "producer"])
        while time.time() < begin + 30 and self.query("SELECT FROM fairq.tasks(%s) LIMIT 1", self.args.queue):
            time.sleep(0.05)
        self.shared.stop.value = 1
        self.end([n for n, kind in enumerate(self.kinds) if kind != "producer"])
        logs = [Log(os.path.join(self.args.directory, name)) for name in sorted(os.listdir(self.args.directory))]
        with self.connect() as conn:
            judge = Judge(self.args, logs, conn, self.crashes)
            judge.tasks()
            judge.one_holder()
            judge.harmed(self.killed, "killed")
            judge.harmed(self.paused, "paused")
            judge.crashed()
        judge.report.update(broken=self.broken, kills=len(self.killed), crashes=len(self.crashes),
                            drain_seconds=round(time.time() - begin, 2), seed=self.args.seed)
        return json.dumps(judge.report)

    def answer(self, line):
        words = line.split()
        return getattr(self, words[0])(*words[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--directory", required=True, help="for the clients' logs; empty")
    parser.add_argument("--queue", default="faults")
    parser.add_argument("--clients", default="producer,producer,lease,lease,session,bound,bound,pop,transaction,meddler")
    parser.add_argument("--careless", action="store_true", help="commit whatever ack answers")
    parser.add_argument("--seed", default=str(int(time.time())))
    args = parser.parse_args()
    args.probe = args.queue + " up"

    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        for queue in args.queue, args.probe:
            conn.execute("SELECT fairq.drop_queue(%s)", (queue,))
            conn.execute("SELECT fairq.create_queue(%s, buckets => 4, max_attempts => 0, backoff_base => '0')", (queue,))
        conn.execute("DROP TABLE IF EXISTS produced, results")
        conn.execute("CREATE TABLE produced (task bigint, n text)")
        conn.execute("CREATE TABLE results (task bigint, n text, receipt uuid, attempt int, at timestamptz)")

    supervisor = Supervisor(args)
    try:
        for line in sys.stdin:
            print(supervisor.answer(line), flush=True)
            if line.split()[0] == "finish":
                break
    finally:
        supervisor.shared.stop.value = 1
        for _, process in supervisor.clients:
            process.join(5)
            process.kill()


if __name__ == "__main__":
    main()
