"""Producers and workers of every kind, each a process with a journal (journal.py) of what it
is about to do and what came of it; and the crew of them, which a driver (driver.py) starts,
kills and ends.

A load is a class of these with what is its own: its queues, what it enqueues, what it is told
when its faults are about.
"""

import multiprocessing
import os
import random
import sys
import time
import traceback

import psycopg

from journal import Journal, now


class Rollback(Exception):
    """Leaves a transaction the other way."""


class Shared:
    """Without locks: who is killed would keep them."""

    def __init__(self, number):
        self.stop = multiprocessing.RawValue("i", 0)
        self.drain = multiprocessing.RawValue("i", 0)
        self.calm = multiprocessing.RawValue("i", 0)    # nothing is to be prepared
        self.away = multiprocessing.RawValue("i", 0)    # no client is to connect
        self.acked = multiprocessing.RawArray("q", number)
        self.holds = multiprocessing.RawArray("i", number)


class Task:
    """One that was claimed.  until: its lease lasts that long for certain; None: a session decides, or nothing is certain."""

    def __init__(self, queue, ident, receipt, key=None, attempt=None, asked=None, until=None, durable=False, task=None, payload=None):
        self.queue, self.ident, self.receipt, self.key, self.attempt = queue, ident, receipt, key, attempt
        self.asked, self.until, self.durable, self.task, self.payload = asked, until, durable, task, payload

    def line(self, until):
        return [self.queue, self.ident, self.receipt, self.key, self.attempt, self.asked, until, self.durable]


class Connected:
    """A process with a connection, which it gets again, and a journal."""

    prefix = "load"             # of its connections' names
    levels = ("READ COMMITTED",)
    pause = 0.05                # between two attempts to connect
    # What it may be told when faults are about, or how that begins.
    expected = ("08", "57")

    def __init__(self, shared, options, number, incarnation):
        self.shared = shared
        self.options = options
        self.number = number
        self.kind = options.kinds[number]
        self.tag = tag(options.kinds, number, incarnation)
        self.random = random.Random("%s %s" % (options.seed, self.tag))
        self.journal = Journal(os.path.join(options.journals, self.tag))
        self.parent = os.getppid()
        self.counter = 0
        self.x = 0
        self.conn = None
        self.pid = 0
        self.session = None

    def chance(self, p):
        return self.random.random() < p

    def over(self):
        return self.shared.stop.value or os.getppid() != self.parent

    def conninfo(self):
        return self.options.conninfo

    def connect(self):
        while not self.over():
            if self.shared.away.value:
                time.sleep(self.pause)
                continue
            try:
                self.conn = psycopg.connect(self.conninfo(), autocommit=True, connect_timeout=10,
                                            application_name="%s %s" % (self.prefix, self.tag))
                self.pid = self.conn.info.backend_pid
                return
            except psycopg.OperationalError:
                time.sleep(self.pause)

    def rows(self, query, *params):
        return self.conn.execute(query, params).fetchall()

    def one(self, query, *params):
        return self.rows(query, *params)[0][0]

    def wrong(self, text, sqlstate="client"):
        self.journal.write("X", now(), sqlstate, text)

    def names(self, number):
        self.counter += number
        return ["%s.%d" % (self.tag, self.counter - i) for i in range(number)]

    # -- transactions ------------------------------------------------------

    def transaction(self, what, names, body, prepare=False):
        """body(acked) does the work and may raise Rollback.  True if it
        committed, and this is known."""
        self.x += 1
        x, acked, outcome = self.x, [], "r"
        self.journal.write("I", x, now(), what, names)
        try:
            self.conn.execute("BEGIN ISOLATION LEVEL " + self.random.choice(self.levels))
            try:
                body(acked)
            except Rollback:
                self.conn.execute("ROLLBACK")
                return False
            # From here on it may be committed when the connection is lost.
            outcome = "u"
            try:
                if prepare:
                    self.two_phases("%s.%d" % (self.tag, x))
                elif self.conn.execute("COMMIT").statusmessage != "COMMIT":
                    raise RuntimeError("COMMIT answered with something else")
            except Rollback:
                outcome = "r"
                return False
            except psycopg.Error:
                if not self.conn.closed and not prepare:
                    outcome = "r"
                raise
            outcome = "c"
            self.shared.acked[self.number] += len(acked)
            return True
        finally:
            self.journal.write("O", x, now(), outcome, acked)

    def two_phases(self, name):
        # The driver ends what nobody else will: then neither of the two is there.
        self.conn.execute("PREPARE TRANSACTION '%s'" % name)
        time.sleep(self.random.choice((0, 0.05, 0.3)))
        commit = self.chance(0.7)
        self.conn.execute("%s PREPARED '%s'" % ("COMMIT" if commit else "ROLLBACK", name))
        if not commit:
            raise Rollback()

    def ident(self, queue, task, n):  # pylint: disable=unused-argument
        return n

    def produced(self, queue, tasks):
        """[(id, name)], in the transaction that enqueues them."""
        self.conn.execute("INSERT INTO produced SELECT %s, i, n, t FROM unnest(%s::text[], %s::text[], %s::bigint[]) u(i, n, t)", (
            queue, [self.ident(queue, task, n) for task, n in tasks], [n for _, n in tasks], [task for task, _ in tasks]))

    def result(self, *tasks, acked, how=None):
        """In the transaction of the ack.  how: instead of who."""
        self.conn.execute("INSERT INTO results SELECT q, i, r, %s, %s, t FROM unnest(%s::text[], %s::text[], %s::uuid[], %s::bigint[]) u(q, i, r, t)", (
            how or self.tag, self.x, [task.queue for task in tasks], [task.ident for task in tasks], [task.receipt for task in tasks],
            [task.task for task in tasks]))
        acked += [[task.queue, task.ident, task.receipt] for task in tasks]

    # -- what is certain -----------------------------------------------------

    def hold(self, tasks, pid=0):
        """From now on, for certain."""
        if tasks:
            self.journal.write("H", now(), pid, self.session, [task.line(task.until) for task in tasks])

    def unsure(self, tasks):
        self.journal.write("D", now(), [task.receipt for task in tasks])

    def claimed(self, tasks, limit):
        """Is it what was asked for?"""
        if len(tasks) > limit:
            self.wrong("asked for %d, got %d" % (limit, len(tasks)))
        if len({(task.queue, task.ident) for task in tasks}) != len(tasks):
            self.wrong("one claim gave a task twice: %s" % [task.ident for task in tasks])
        return tasks

    # -- the loop ----------------------------------------------------------

    def is_expected(self, error):
        if error.sqlstate is None:
            return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return error.sqlstate.startswith(self.expected)

    def run(self):
        step = self.step()
        self.connect()
        while not self.over() and not (self.kind == "producer" and self.shared.drain.value):
            try:
                step()
            except psycopg.Error as error:
                if not self.is_expected(error):
                    self.wrong(str(error), error.sqlstate)
                self.recover(error.sqlstate)
            except Exception:  # pylint: disable=broad-except
                self.wrong(traceback.format_exc(limit=-3))
                self.conn.close()
                self.recover(None)

    def recover(self, sqlstate):
        if not self.conn.closed and self.stays(sqlstate):
            try:
                self.conn.execute("ROLLBACK")
                return
            except psycopg.Error:
                pass
        self.conn.close()
        self.journal.write("L", now(), "connection")
        self.disconnected()
        self.connect()

    def stays(self, _):
        """After an error that leaves it its connection."""
        return True

    def disconnected(self):
        """The connection is lost."""


class Client(Connected):
    """A producer; or a worker: with leases, a session, a session that ends with its connection, or
    one that does its work in the transaction that claims or pops."""

    queues = {}                 # how often each is chosen
    enough = 600                # tasks in a queue, and producers leave it alone
    groups = ["g%d" % i for i in range(12)]
    forgets = 0.0               # how often a worker forgets what it has claimed
    lease = 4.0                 # seconds, of claims without a session
    ttl = bound_ttl = 3.0       # seconds, of sessions
    batches = (1, 1, 1, 5, 20)  # tasks that are enqueued at once,
    claims = (1, 2, 5, 20)      # claimed,
    at_once = (1, 1, 2, 10)     # and settled
    prepares = 0.0              # how often a producer prepares its transaction

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.alive_at = 0
        self.held = {}          # receipt -> Task

    def step(self):
        return {"producer": self.produce, "transaction": self.in_one_transaction,
                "pop": self.in_one_transaction}.get(self.kind, self.consume)

    def work(self):
        time.sleep(self.random.uniform(0.001, 0.03))

    def a_queue(self):
        return self.random.choices(list(self.queues), list(self.queues.values()))[0]

    def recover(self, sqlstate):
        if sqlstate == "55000":
            self.session_over()
        super().recover(sqlstate)

    # -- producers ---------------------------------------------------------

    def crowded(self, queue):
        """Producers leave it alone."""
        return self.one('SELECT count(*) FROM (SELECT FROM fairq."q_%s" LIMIT %d) t' % (queue, self.enough)) >= self.enough

    def enqueue(self, queue, names, keys=None, more="", params=()):
        """[(id, name)].  more: further arguments of enqueue_many."""
        return self.rows(
            "SELECT i, n FROM unnest(fairq.enqueue_many(%s, ARRAY(SELECT jsonb_build_object('n', n, 'key', k) FROM"
            " unnest(%s::text[], %s::text[]) WITH ORDINALITY u(n, k, o) ORDER BY o), group_keys => %s::text[],"
            " run_ats => ARRAY[clock_timestamp() + %s::float8 * interval '1 s']" + more + "), %s::text[]) u(i, n)",
            queue, names, keys, self.random.choices(self.groups, k=len(names)), self.random.uniform(0.05, 1) if self.chance(0.1) else None,
            *params, names)

    def besides(self, queue, tasks, way):
        """In the same transaction."""

    def produce(self):
        queue = self.a_queue()
        if self.crowded(queue):
            time.sleep(0.05)
            return
        names = self.names(self.random.choice(self.batches))
        void = self.names(3)
        prepare = self.chance(self.prepares) and not self.shared.calm.value
        way = self.random.random()

        def body(_):
            if way < 0.1:           # what is enqueued here must never be seen
                self.conn.execute("SAVEPOINT a")
                self.enqueue(queue, void)
                self.conn.execute("ROLLBACK TO a")
            tasks = self.enqueue(queue, names)
            self.produced(queue, tasks)
            if not prepare:
                self.besides(queue, tasks, way)
            if self.chance(0.03):
                time.sleep(0.3)     # commits when others are ahead
            self.shared.holds[self.number] = 1
            if self.chance(0.1):
                raise Rollback()

        try:
            if self.transaction("enqueue", names, body, prepare):
                self.enqueued(queue, names)
        finally:
            self.shared.holds[self.number] = 0
        time.sleep(self.random.uniform(0, 0.03))

    def enqueued(self, queue, names):
        """It is committed."""

    # -- those who claim, and settle later -----------------------------------

    COLUMNS = "id, receipt::text, payload->>'n', payload->>'key', attempt"

    def tasks(self, rows, asked, until=None):
        """Of queue and COLUMNS."""
        return [Task(queue, self.ident(queue, task, n), receipt, key, attempt, asked, until, task=task)
                for queue, task, receipt, n, key, attempt, *_ in rows]

    def claim(self, queue, limit):
        """[Task]"""
        asked = now()
        rows = self.rows("SELECT %s, " + self.COLUMNS + " FROM fairq.claim(%s, %s, lease => %s * interval '1 s', session => %s)",
                         queue, queue, limit, None if self.session else self.lease, self.session)
        return self.claimed(self.tasks(rows, asked, None if self.session else asked + self.lease), limit)

    def pop(self, queue, limit):
        asked = now()
        return self.claimed(self.tasks(self.rows("SELECT %s, " + self.COLUMNS + " FROM fairq.pop(%s, %s)", queue, queue, limit), asked), limit)

    def alive(self):
        """False: its session is over, and all that it held is lost."""
        if self.kind not in ("session", "bound"):
            return True
        sent = now()
        ttl = self.bound_ttl if self.kind == "bound" else self.ttl
        if self.session is None:
            self.session = self.one("SELECT fairq.open_session(%s, %s * interval '1 s', %s)::text", self.tag, ttl,
                                    self.kind == "bound")
        elif sent < self.alive_at + ttl / 4:
            return True
        elif not self.one("SELECT fairq.heartbeat(%s)", self.session):
            self.journal.write("L", now(), "session")
            self.session_over()
            return False
        self.alive_at = sent
        self.journal.write("B", sent, self.session, ttl, now())
        return True

    def session_over(self):
        self.session = None
        self.held = {}

    def consume(self):
        if not self.alive():
            return
        if not self.held:
            tasks = self.claim(self.a_queue(), self.random.choice(self.claims))
            if not tasks:
                time.sleep(0.02)
                return
            if self.chance(self.forgets):
                self.session = None     # they come again when the lease, or the session, is over
                return
            self.held = {task.receipt: task for task in tasks}
            self.hold(tasks, self.pid if self.kind == "bound" else 0)
        self.shared.holds[self.number] = len(self.held)
        self.work()
        self.settle()
        self.shared.holds[self.number] = len(self.held)

    def settle(self):
        tasks = list(self.held.values())[:self.random.choice(self.at_once)]
        receipts = [task.receipt for task in tasks]
        way = self.random.random()
        if way < 0.03 and not self.session:
            self.extend(tasks[0])
            return
        self.unsure(tasks)

        def ack(acked):
            for task in tasks:
                self.acknowledge(task, acked)

        def body(acked):
            if way < 0.08:
                self.rows("SELECT fairq.nack_many(%s::uuid[], ARRAY['once more'])", receipts)
            elif way < 0.13:
                self.rows("SELECT fairq.release_many(%s::uuid[], %s)", receipts, self.random.choice(("0", "100 ms", "1 s")))
            elif way < 0.2:
                self.conn.execute("SAVEPOINT a")
                ack([])
                self.conn.execute("ROLLBACK TO a")
                ack(acked)
            elif way < 0.27:
                ack([])
                raise Rollback()
            elif way < 0.35:
                self.conn.execute("SAVEPOINT a")
                ack(acked)
                self.conn.execute("RELEASE a")
            else:
                ack(acked)
            if self.chance(0.1):
                self.work()

        try:
            done = self.transaction("settle", receipts, body)
        except psycopg.Error:
            # The leases go on if nothing was committed. They are tried again, but nothing is sure of them.
            for task in tasks:
                task.until = None
            raise
        if done:
            for receipt in receipts:
                self.held.pop(receipt)
        else:
            self.go_on([task for task in tasks if task.receipt in self.held])

    def go_on(self, tasks):
        """The transaction that was to end these was rolled back."""
        self.hold([task for task in tasks if task.until is not None or self.session], self.pid if self.kind == "bound" else 0)

    def extend(self, task):
        sent = now()
        if self.one("SELECT fairq.extend(%s, %s * interval '1 s')", task.receipt, self.lease) is None:
            del self.held[task.receipt]
            return
        self.unsure([task])
        task.asked, task.until = sent, sent + self.lease
        self.hold([task])

    def acknowledge(self, task, acked):
        """With its result, in a transaction.  False: it is not ours any more."""
        sent = now()
        if self.acked(task):
            self.result(task, acked=acked)
            return True
        self.journal.write("F", now(), sent, task.queue, task.ident, task.receipt, task.until)
        return False

    def acked(self, task):
        return self.one("SELECT fairq.ack(%s)", task.receipt)

    # -- those who claim in the transaction of the work ------------------------

    def take(self, queue, limit):
        return self.pop(queue, limit) if self.kind == "pop" else self.claim(queue, limit)

    def in_one_transaction(self):
        queue = self.a_queue()
        found = []

        def body(acked):
            if self.chance(0.1):
                self.conn.execute("SAVEPOINT a")
                self.take(queue, 2)
                self.conn.execute("ROLLBACK TO a")
            found.extend(self.take(queue, self.random.choice((1, 2, 5))))
            self.shared.holds[self.number] = len(found)
            self.hold(found, self.pid)
            if found:
                self.work()
            self.unsure(found)
            for task in found:
                if self.kind == "pop":
                    self.result(task, acked=acked)
                elif not self.acknowledge(task, acked):
                    raise Rollback()
            if self.chance(0.15):
                raise Rollback()

        try:
            self.transaction("work", [], body)
        finally:
            self.shared.holds[self.number] = 0
        if not found:
            time.sleep(0.02)

    def disconnected(self):
        self.shared.holds[self.number] = 0
        if self.kind == "bound":
            self.session_over()


def connect_patiently(conninfo, seconds=120):
    """The server may be on its way up."""
    deadline = now() + seconds
    while True:
        try:
            return psycopg.connect(conninfo, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError:
            if now() > deadline:
                raise
            time.sleep(0.02)


def tag(kinds, number, incarnation):
    return "%s.%d.%d" % (kinds[number], number, incarnation)


def process_of(client, shared, options, number, incarnation):
    sys.stdin.close()
    client(shared, options, number, incarnation).run()


class Crew:
    """The processes of all clients, options.kinds; each a client, a class."""

    def __init__(self, client, options):
        self.client = client
        self.options = options
        self.kinds = options.kinds
        self.shared = Shared(len(self.kinds))
        self.processes = [None] * len(self.kinds)
        self.incarnations = [0] * len(self.kinds)
        self.broken = []

    def begin(self):
        for number in range(len(self.kinds)):
            self.start(number)

    def tag(self, number):
        return tag(self.kinds, number, self.incarnations[number])

    def start(self, number):
        if self.processes[number]:
            self.incarnations[number] += 1
        self.shared.holds[number] = 0
        self.processes[number] = multiprocessing.Process(
            target=process_of, args=(self.client, self.shared, self.options, number, self.incarnations[number]))
        self.processes[number].start()

    def kill(self, number):
        """kill -9; another one takes its place.  The driver says in its journal that it was."""
        self.processes[number].kill()
        self.processes[number].join()
        self.start(number)

    def busy(self, which=lambda number: True):
        """Those that have tasks in hand."""
        return [number for number in range(len(self.kinds)) if self.shared.holds[number] > 0 and which(number)]

    def acked(self):
        return sum(self.shared.acked)

    def end(self, which=lambda kind: True, seconds=60):
        """Wait until these have ended."""
        for number, process in enumerate(self.processes):
            if process and which(self.kinds[number]):
                process.join(seconds)
                if process.exitcode != 0:
                    self.broken.append("%s ended with %s" % (self.tag(number), process.exitcode))
                    process.kill()
                    process.join()

    def stop(self):
        """At once."""
        self.shared.stop.value = 1
        for process in self.processes:
            if process:
                process.kill()
