"""Clients of the workloads that pgbench cannot be: they look at what they get.

A session is libpq with prepared statements and little between; a crowd is a
number of processes with a session each, which begin together and are gone when
the workload is, whatever happens.
"""

import multiprocessing
import statistics
import time

from measure import BenchError

PAYLOAD = ('{"kind": "thumbnail", "file": "uploads/2024/05/17/0001234.jpg", "width": 640,'
           ' "user": 1234567}')


class Session:
    """A connection as the environment says (PGHOST and so on)."""

    def __init__(self):
        from psycopg import pq  # only the workloads that need it need psycopg
        self.pq = pq
        self.conn = pq.PGconn.connect(b"")
        if self.conn.status != pq.ConnStatus.OK:
            raise BenchError("cannot connect: %s" % self.conn.error_message.decode().strip())
        self.conn.notice_handler = None
        self.prepared = {}

    def _check(self, result, sql):
        if result.status not in (self.pq.ExecStatus.TUPLES_OK, self.pq.ExecStatus.COMMAND_OK):
            raise BenchError("%s: %s" % (sql, result.error_message.decode(errors="replace").strip()))
        return result

    def prepare(self, sql):
        if sql not in self.prepared:
            name = b"s%d" % len(self.prepared)
            self._check(self.conn.prepare(name, sql.encode()), sql)
            self.prepared[sql] = name
        return self.prepared[sql]

    def result(self, sql, *parameters):
        """Runs a statement with $1, $2 ..., prepared when it is first met."""
        return self._check(self.conn.exec_prepared(
            self.prepare(sql), [None if each is None else str(each).encode() for each in parameters]), sql)

    def rows(self, sql, *parameters):
        result = self.result(sql, *parameters)
        return [[None if value is None else value.decode() for value in
                 (result.get_value(row, column) for column in range(result.nfields))]
                for row in range(result.ntuples)]

    def value(self, sql, *parameters):
        return self.rows(sql, *parameters)[0][0]

    def run(self, *statements):
        """Statements without parameters, as a simple query each."""
        for sql in statements:
            self._check(self.conn.exec_(sql.encode()), sql)

    def close(self):
        self.conn.finish()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def array(values):
    """A text array as a literal."""
    return "{%s}" % ",".join('"%s"' % value.replace("\\", "\\\\").replace('"', '\\"') for value in values)


class Calls:
    """A system's statements for drivers (System.driver), so that Consumer and others need not know the system."""

    def __init__(self, system):
        self.system = system
        self.enqueue = system.driver.get("enqueue_one")
        self.enqueue_many = system.driver.get("enqueue_many")
        self.ack = system.driver.get("ack")
        # A shorter way for one task, if there is.
        self.ack_one = system.driver.get("ack_one")

    def claim(self, batch):
        return self.system.driver["claim"].replace("{n}", str(batch))

    def consumer(self, session, batch):
        """The system's own way to consume, or claim and ack."""
        return (self.system.consumer or Consumer)(self, session, batch)

    def put(self, session, groups, payload=PAYLOAD):
        """Enqueues a task of each of these groups, with one call if the system can."""
        if self.enqueue_many:
            session.rows(self.enqueue_many, array([payload] * len(groups)), array(groups))
        else:
            for group in groups:
                session.rows(self.enqueue, payload, group)


class Consumer:
    """Takes tasks and finishes those it took last."""

    def __init__(self, calls, session, batch):
        self.calls, self.session, self.claim, self.handles = calls, session, calls.claim(batch), []
        session.prepare(self.claim)
        session.prepare(calls.ack)

    def take(self):
        """The groups of the tasks that were there, in order."""
        rows = self.session.rows(self.claim)
        self.handles = [row[0] for row in rows]
        return [row[1] for row in rows]

    def finish(self):
        if self.handles:
            self.session.rows(self.calls.ack, array(self.handles))
            self.handles = []


def chosen(bench, plan, one):
    """Is it one of plan["systems"]? Without that, or when somebody asked for systems, all are."""
    return bench.only or not plan.get("systems") or one.name in plan["systems"]


def callable_systems(bench, plan):
    """Those that drivers can use, and their calls."""
    return [(one, Calls(one)) for one in bench.all
            if one.postgres and one.name != "floor" and (one.consumer or "claim" in one.driver)
            and "enqueue_one" in one.driver and chosen(bench, plan, one)]


def _member(function, number, barrier, stop, answers, arguments):
    try:
        answer = function(number, barrier, stop, *arguments)
    except BaseException as error:  # the workload is to know of it, whatever it is
        stop.set()
        barrier.abort()
        answers.put((number, None, "%s: %s" % (type(error).__name__, error)))
    else:
        answers.put((number, answer, None))


class Crowd:
    """Processes that run function(number, barrier, stop, *arguments), and what each returned.

    Each waits for the barrier when it is ready; so does whoever started them, in begin().
    """

    def __init__(self, function, number, *arguments):
        context = multiprocessing.get_context("fork")
        self.barrier, self.stop, self.answers = context.Barrier(number + 1), context.Event(), context.Queue()
        self.members = [context.Process(target=_member, daemon=True,
                                        args=(function, each, self.barrier, self.stop, self.answers, arguments))
                        for each in range(number)]

    def __enter__(self):
        for member in self.members:
            member.start()
        return self

    def begin(self, patience=60):
        try:
            self.barrier.wait(patience)
        except Exception:
            raise BenchError(self.complaint() or "the clients did not get ready")
        return time.time()

    def complaint(self):
        try:
            return next(error for _, _, error in iter(lambda: self.answers.get(timeout=1), None) if error)
        except Exception:
            return None

    def end(self, patience=60):
        """Tells them to stop, and returns what they found, in their order."""
        self.stop.set()
        answers = {}
        until = time.monotonic() + patience
        while len(answers) < len(self.members):
            try:
                number, answer, error = self.answers.get(timeout=max(0.1, until - time.monotonic()))
            except Exception:
                raise BenchError("a client did not come to an end")
            if error:
                raise BenchError("a client failed: %s" % error)
            answers[number] = answer
        return [answers[number] for number in sorted(answers)]

    def __exit__(self, *_):
        self.stop.set()
        for member in self.members:
            member.join(2)
            if member.is_alive():
                member.kill()
                member.join()


def percentile(values, share):
    """The nearest rank."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def median(values):
    return statistics.median(values)
