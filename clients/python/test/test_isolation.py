"""One queue that is refused or locked, one task whose row is locked, and one whose end is refused: no others are hurt.

Each with threads and with asyncio, against a server; then what is the same for both, without one.

Seen to fail: claiming() that raises what is refused, and _of_each() (a heartbeat ends the worker); statements without
their bound of locks; claims from queues that cannot be settled; _is_over() that does not look at what is aside; refused()
without a failure that has no text, without the release, and with the release of a snooze; is_passing() without class 53
(what runs loses its lease), and without class 40; _keeps_back() without MOST_LOCKED, steps() without its order, _wait()
without its question for the table, _tell() that takes what is told out of work too late; _of_each() that does not know
what was apart; Attendance without awaited(), is_drained() without it, and refused() that raises nothing; asking() without its questions apart.
"""

import asyncio
import threading
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace

import part_server
import psycopg
import pytest
from conftest import running
from psycopg import errors

from pgfairq import AsyncQueue, AsyncWorker, Queue, Worker, attendance, settler_base
from pgfairq.attendance import Attendance
from pgfairq.connections import follow
from pgfairq.delivery import Settlement
from pgfairq.place import GuideBase
from pgfairq.session_base import SessionBase
from pgfairq.settler_base import MOST_LOCKED, SettlerBase

PUT_OFF, NOT_TOLD = "cannot be claimed from", "cannot be told"


@pytest.fixture(params=["threads", "asyncio"])
def make_worker(request):
    """make_worker(conninfo, {name of a queue: its handler}, …): a worker, which runs functions in either case."""
    def make(conninfo, handlers, **options):
        kind, worker = (Queue, Worker) if request.param == "threads" else (AsyncQueue, OfCoroutines)
        queues = [kind(conninfo, name) for name in handlers]
        for queue, handler in zip(queues, handlers.values()):
            queue.task()(handler if kind is Queue else coroutine(handler))
        return worker(queues, **{"concurrency": 1, "prefetch": 0, **options})
    return make


def coroutine(function):
    async def handle(payload, context):
        return await asyncio.to_thread(function, payload, context)
    return handle


class OfCoroutines(AsyncWorker):
    def run(self, drain=False):
        asyncio.run(super().run(drain))


class Gated:
    """A handler each of whose tasks ends when its gate is opened."""

    def __init__(self, *payloads):
        self.begun, self.gates = [], {payload: threading.Event() for payload in payloads}

    def __call__(self, payload, context):
        self.begun.append(payload)
        if payload in self.gates:
            assert self.gates[payload].wait(120)

    def has_begun(self, payload):
        part_server.wait_until(lambda: payload in self.begun, f"{payload} has begun")


@contextmanager
def open_transaction(conninfo, sql, *parameters):
    with psycopg.connect(conninfo) as connection:
        connection.execute(sql, parameters)
        yield
        connection.rollback()


def execute(conninfo, sql, *parameters):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else None


def table(queue):
    return f'fairq."q_{queue.name}"'


def is_done(queue, count):
    part_server.wait_until(lambda: queue.stats().acked == count, f"{count} of {queue.name} are done")


def goes_on(queue, count):
    """Each task is done before the next one comes. Asked for by itself: figures of all queues may wait for a lock."""
    for n in range(count):
        task = queue.enqueue(n)
        part_server.wait_until(lambda: queue.get(task) is None, f"{n} of {queue.name} is done")


def is_said(caplog, text):
    part_server.wait_until(lambda: any(text in message for message in caplog.messages), f"the log says: {text}")


def session_of(conninfo):
    (session,) = execute(conninfo, "SELECT session, alive_until FROM fairq.sessions WHERE alive_until IS NOT NULL")
    return session


# -- queues that cannot be claimed from

def test_a_queue_that_is_dropped(make_queue, make_worker, caplog):
    """The other one is served; when it is there again it is served as well."""
    bad, good, seen = make_queue("_1"), make_queue("_2"), []
    with running(make_worker(make_queue.conninfo, {one.name: lambda payload, context: seen.append(payload) for one in (bad, good)})):
        bad.enqueue("first")
        is_done(bad, 1)
        bad.drop()
        is_said(caplog, PUT_OFF)
        goes_on(good, 3)
        execute(make_queue.conninfo, "SELECT fairq.create_queue(%s)", bad.name)
        bad.enqueue("again")
        is_done(bad, 1)
    assert seen == ["first", 0, 1, 2, "again"]
    assert not any(good.name in message for message in caplog.messages if PUT_OFF in message)


def test_a_queue_that_is_not_there(make_queue, make_worker):
    """From the start; a worker that has no other says so, and ends."""
    good, seen = make_queue(), []
    handler = lambda payload, context: seen.append(payload)     # noqa: E731
    good.enqueue_many([1, 2])
    make_worker(make_queue.conninfo, {"missing": handler, good.name: handler}).run(drain=True)
    assert sorted(seen) == [1, 2]
    with pytest.raises(errors.UndefinedObject, match="missing"):
        make_worker(make_queue.conninfo, {"missing": handler, "missing too": handler}).run()


@pytest.fixture
def role(make_queue, request):
    name = "few_" + request.node.originalname[:30]
    execute(make_queue.conninfo, f"DO $$ BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    return name


def test_a_privilege_that_is_revoked(make_queue, make_worker, role, caplog):
    """From a queue of which a task runs. Its lease lasts, and it is done when the privilege is there again."""
    bad, good, gated = make_queue("_1"), make_queue("_2"), Gated("held")
    for one in (bad, good):
        execute(make_queue.conninfo, f"GRANT ALL ON {table(one)} TO {role}")
    bad.enqueue("held")
    worker = make_worker(f"{make_queue.conninfo} user={role}", {bad.name: gated, good.name: gated}, concurrency=2, ttl=4)
    with running(worker):
        gated.has_begun("held")
        session, alive = session_of(make_queue.conninfo)
        execute(make_queue.conninfo, f"REVOKE ALL ON {table(bad)} FROM {role}")
        is_said(caplog, PUT_OFF)
        part_server.wait_until(lambda: session_of(make_queue.conninfo)[1] > alive + timedelta(seconds=8), "heartbeats came")
        goes_on(good, 1)
        execute(make_queue.conninfo, f"GRANT ALL ON {table(bad)} TO {role}")
        gated.gates["held"].set()
        is_done(bad, 1)
        assert session_of(make_queue.conninfo)[0] == session
    assert (bad.stats().expired, bad.stats().nacked) == (0, 0)


def test_a_table_that_is_locked(make_queue, make_worker, caplog):
    """A task of it runs, and one waits. The other queue's are claimed and done meanwhile, and no lease is lost."""
    bad, good, gated = make_queue("_1"), make_queue("_2"), Gated("held")
    bad.enqueue_many(["held", "later"])
    with running(make_worker(make_queue.conninfo, {bad.name: gated, good.name: gated}, ttl=8)):
        gated.has_begun("held")
        session, _ = session_of(make_queue.conninfo)
        with open_transaction(make_queue.conninfo, f"LOCK TABLE {table(bad)} IN ACCESS EXCLUSIVE MODE"):
            gated.gates["held"].set()
            is_said(caplog, NOT_TOLD)
            goes_on(good, 5)
            assert gated.begun == ["held", *range(5)]
        is_done(bad, 2)
        assert session_of(make_queue.conninfo)[0] == session
    assert bad.stats().expired == good.stats().expired == 0 and gated.begun == ["held", *range(5), "later"]


def test_a_queue_whose_tasks_cannot_be_settled(make_queue, make_worker, caplog):
    """It could be claimed from; but then there would be ever more that is leased and done."""
    bad, good, gated = make_queue("_1"), make_queue("_2"), Gated("first", "second")
    bad.enqueue_many(["first", "second", "third"])
    with running(make_worker(make_queue.conninfo, {bad.name: gated, good.name: gated})):
        gated.has_begun("first")
        with open_transaction(make_queue.conninfo, f"LOCK TABLE {table(bad)} IN SHARE MODE"):
            gated.gates["first"].set()
            gated.has_begun("second")
            is_said(caplog, NOT_TOLD)
            gated.gates["second"].set()
            goes_on(good, 5)
            assert gated.begun == ["first", "second", *range(5)]
        is_done(bad, 3)


def test_a_table_that_is_locked_while_a_worker_drains(make_queue, make_worker, caplog):
    """It does not end before what is there is done."""
    bad, good = make_queue("_1"), make_queue("_2")
    worker = make_worker(make_queue.conninfo, {one.name: lambda payload, context: None for one in (bad, good)})
    for one in (bad, good):
        one.enqueue(1)
    thread = threading.Thread(target=worker.run, args=(True,))
    with open_transaction(make_queue.conninfo, f"LOCK TABLE {table(bad)} IN ACCESS EXCLUSIVE MODE"):
        thread.start()
        is_said(caplog, PUT_OFF)
        thread.join(3)      # it would end by then without waiting, unless the machine is slow
        assert thread.is_alive()
    thread.join(120)
    assert not thread.is_alive() and bad.stats().acked == good.stats().acked == 1


def lease_one(queue, conninfo):
    """How many of its tasks are leased then."""
    try:
        execute(conninfo, "SELECT FROM fairq.claim(%s, 1, '1 day')", queue.name)
    except errors.ConfigurationLimitExceeded:
        pass    # one that looks for tasks reserves some for a moment
    return queue.stats().leased


def test_no_more_leases(make_queue, make_worker, caplog):
    """What runs goes on, in the same session, and is settled; then there is room again."""
    execute(make_queue.conninfo, "ALTER SYSTEM SET pgfairq.max_leases = 16")
    part_server.restart()
    try:
        queue, other, gated = make_queue("_1"), make_queue("_2"), Gated("held")
        queue.enqueue("held")
        other.enqueue_many(list(range(40)))
        with running(make_worker(make_queue.conninfo, {queue.name: gated}, concurrency=2)):
            gated.has_begun("held")
            session, _ = session_of(make_queue.conninfo)
            part_server.wait_until(lambda: lease_one(other, make_queue.conninfo) == 15, "all leases but that one are taken")
            queue.enqueue("later")
            is_said(caplog, PUT_OFF)
            gated.gates["held"].set()
            is_done(queue, 2)
            assert session_of(make_queue.conninfo)[0] == session
        assert gated.begun == ["held", "later"] and queue.stats().expired == 0
        other.drop()    # with its leases, which the next test has no room for
    finally:
        execute(make_queue.conninfo, "ALTER SYSTEM RESET pgfairq.max_leases")
        part_server.restart()


# -- tasks that cannot be settled

@pytest.mark.parametrize("end", ["done", "failed", "snoozed"])
def test_a_row_that_is_locked(make_queue, make_worker, caplog, end):
    """Those behind it are told; it is told when its row is free."""
    queue, gated = make_queue(max_attempts=1), Gated("held")

    def handler(payload, context):
        gated(payload, context)
        if payload == "held" and end == "failed":
            raise ValueError
        if payload == "held" and end == "snoozed":
            context.snooze(3600)

    held, *_ = queue.enqueue_many(["held", 1, 2, 3])
    with running(make_worker(make_queue.conninfo, {queue.name: handler}, ttl=8)):
        gated.has_begun("held")
        with open_transaction(make_queue.conninfo, f"SELECT FROM {table(queue)} WHERE id = %s FOR UPDATE", held):
            gated.gates["held"].set()
            is_done(queue, 3)
            is_said(caplog, "waits: ")
            assert queue.stats().leased == 1
        part_server.wait_until(lambda: queue.stats().leased == 0, "it is told")
    stats = queue.stats()
    assert (stats.acked, stats.dead, stats.scheduled, stats.expired) == {
        "done": (4, 0, 0, 0), "failed": (3, 1, 0, 0), "snoozed": (3, 0, 1, 0)}[end]


def test_a_row_that_is_locked_at_the_end(make_queue, make_worker, caplog):
    """A worker that is to stop waits for it, for a while."""
    caplog.set_level("INFO")
    queue, gated = make_queue(), Gated("held")
    held = queue.enqueue("held")
    worker = make_worker(make_queue.conninfo, {queue.name: gated})
    with running(worker):
        gated.has_begun("held")
        with open_transaction(make_queue.conninfo, f"SELECT FROM {table(queue)} WHERE id = %s FOR UPDATE", held):
            gated.gates["held"].set()
            is_said(caplog, "waits: ")
            worker.stop()
            is_said(caplog, "stopping: ")
    assert (queue.stats().acked, queue.stats().ready) == (1, 0)


def test_a_failure_whose_text_is_refused(make_queue, make_worker, caplog):
    """By a constraint of the table: the failure counts without it."""
    queue = make_queue(max_attempts=2, backoff_base=0)
    execute(make_queue.conninfo, f"ALTER TABLE {table(queue)} ADD CHECK (last_error IS NULL)")

    def handler(payload, context):
        raise ValueError("not for the table")

    queue.enqueue_many([1, 2])
    with running(make_worker(make_queue.conninfo, {queue.name: handler})):
        part_server.wait_until(lambda: queue.stats().dead == 2, "both are dead")
    assert {(one.attempts, one.last_error) for one in queue.dead()} == {(2, None)}
    is_said(caplog, "its failure was refused")


def test_a_failure_that_is_refused(make_queue, make_worker, caplog, monkeypatch):
    """By a constraint of the table, whatever its text: its task is given back after a pause, and runs again. Others are done."""
    monkeypatch.setattr(settler_base, "LET_GO", 0.3)
    queue, seen = make_queue(max_attempts=1, keep_done=3600), []
    execute(make_queue.conninfo, f"ALTER TABLE {table(queue)} ADD CHECK (attempts = 0)")

    def handler(payload, context):
        seen.append(payload)
        if payload == "fails" and seen.count("fails") < 3:
            raise ValueError

    queue.enqueue_many(["fails", 1, 2])
    with running(make_worker(make_queue.conninfo, {queue.name: handler})):
        is_done(queue, 3)
    assert sorted(map(str, seen)) == ["1", "2"] + 3 * ["fails"]
    assert (queue.stats().released, queue.stats().nacked, queue.stats().expired) == (2, 0, 0)
    is_said(caplog, "its failure cannot be noted")


def test_a_snooze_that_is_refused(make_queue, make_worker):
    """It is beyond what the server takes: the attempt has failed, and does not come again at once, not counted."""
    queue = make_queue(max_attempts=1)
    queue.enqueue(1)
    make_worker(make_queue.conninfo, {queue.name: lambda payload, context: context.snooze(timedelta(days=10000))}).run(drain=True)
    (dead,) = queue.dead()
    assert dead.attempts == 1 and "the release was refused" in dead.last_error


# -- without a server

@pytest.fixture
def clock(monkeypatch):
    """The time of these modules: clock.now."""
    made = SimpleNamespace(now=1000.0, monotonic=lambda: made.now)
    for module in (attendance, settler_base):
        monkeypatch.setattr(module, "time", made)
    return made


def test_attendance(caplog, clock):
    queues = Attendance(["a", "b", "c"], "claimed from")
    assert queues.next() == ["a", "b", "c"] and queues.due_in() == float("inf")
    queues.refused(["a", "b", "c"], errors.UndefinedObject("of one of them"))
    assert queues.next() == ["a"] and not caplog.messages   # each is asked alone
    assert queues.next(but=["a"]) == ["b"]
    queues.answered(["a"])
    queues.refused(["b"], errors.UndefinedObject("no b"))
    assert queues.next() == ["c"] and queues.in_doubt(["c"])
    queues.answered(["c"])
    assert queues.next() == ["a", "c"] and not queues.in_doubt(["a", "c"]) and not queues.awaited()
    assert 0.5 <= queues.due_in() <= 1 and queues.absent() == ["b"] and queues.present() == ["a", "c"]
    assert "'b' cannot be claimed from: no b" in caplog.messages[0]
    clock.now += queues.due_in()
    assert queues.next() == ["b"] and queues.in_doubt(["b"]) and queues.due_in() == float("inf")
    for _ in range(10):
        queues.refused(["b"], errors.UndefinedObject("no b"))
    assert 30 <= queues.due_in() <= 60 and len(caplog.messages) == 11
    queues.refused(["b"], errors.LockNotAvailable("locked"))
    assert queues.due_in() == 15
    queues.refused(["b"], errors.UndefinedObject("no b"))
    queues.refused(["a"], errors.LockNotAvailable("locked"))
    queues.refused(["c"], errors.InsufficientPrivilege("no"))
    assert queues.next() == [] and queues.awaited()
    with pytest.raises(errors.InsufficientPrivilege):   # none is left that would be well by itself
        queues.refused(["a"], errors.InsufficientPrivilege("no"))


def test_a_proxy_that_does_not_have_a_queue(clock):
    """Each is asked for alone; the node is the one where most is ready."""
    queues = Attendance(["a", "b", "c"], "claimed from")
    guide = GuideBase(queues)
    guide.is_proxy = True
    guide.answer = lambda answer, info: answer[0]
    steps, asked = guide.asking(None, None), []

    def ask(statement):
        asked.append(statement.parameters[0])
        if "b" in asked[-1]:
            raise errors.UndefinedObject("no b")
        return {"a": (1, "", 5, 1.0), "c": (2, "", 9, 1.0)}[asked[-1][0]]

    assert follow(steps, ask) == 2
    assert asked == [["a", "b", "c"], ["a"], ["b"], ["c"]] and queues.present() == ["a", "c"]


def test_a_proxy_is_asked_about_all_if_no_other_is_left(clock):
    """One is put off for a lock, and the other was dropped: so the worker works for the first."""
    queues = Attendance(["a", "b"], "claimed from")
    queues.put_off("a", errors.LockNotAvailable())
    guide = GuideBase(queues)
    guide.is_proxy = True
    guide.answer = lambda answer, info: answer[0]
    asked = []

    def ask(statement):
        asked.append(statement.parameters[0])
        if "b" in asked[-1]:
            raise errors.UndefinedObject("no b")
        return (1, "", 5, 1.0)

    assert follow(guide.asking(None, None), ask) == 1
    assert asked == [["b"], ["a"], ["b"]]


class Given:
    """Of a delivery what is needed of it."""

    def __init__(self, n, queue="q"):
        self.receipt, self.queue, self.id, self.name = f"{queue}{n}", queue, n, None
        self.group = self.subgroup = self.attempt = None


class Noting:
    """A run that notes what it is told."""

    def __init__(self):
        self.count, self.aside, self.told = 0, 0, []

    def settled(self, count):
        self.count += count

    def put_aside(self, count):
        self.aside += count

    def __getattr__(self, name):
        return lambda settlement: self.told.append((name, settlement.receipt))


class OnPaper(SettlerBase):
    """A settler whose server is a function of the receipts of a statement; the answer is what it returns."""

    class _connection:
        closed = False

    def __init__(self, server):
        self.paper = Noting()
        super().__init__(self.paper)
        self._connection = OnPaper._connection
        self.server, self.asked = server, []

    def _ask(self, statement):
        verb = statement.query.decode().split("fairq.")[1].split("(")[0]
        receipts = statement.parameters[1]
        if isinstance(receipts, str):
            receipts = receipts.strip("{}").split(",")
        self.asked.append((verb, receipts))
        return self.server(verb, receipts)

    def tell(self, work):
        follow(self.steps(work), self._ask)


def acks(count, queue="q"):
    return [Settlement("ack", Given(n, queue)) for n in range(count)]


def test_many_rows_that_are_locked(clock):
    """Of a queue some are tried in each round, those first that have waited least; the others' are told."""
    def server(verb, receipts):
        if verb != "extend_many" and any(receipt.startswith("q") for receipt in receipts):
            raise errors.LockNotAvailable
        return receipts

    settler, work = OnPaper(server), [*acks(20), *acks(20, "other")]
    settler.tell(work)
    assert work == [] and settler.paper.count == 20 and settler.paper.aside == 20
    alone = [receipts[0] for verb, receipts in settler.asked if verb == "ack_many" and len(receipts) == 1]
    assert [one for one in alone if one.startswith("q")] == [f"q{n}" for n in range(MOST_LOCKED)]
    assert settler.attendance.absent() == []    # its leases could be asked for: it is not the table
    clock.now += 60
    settler._take_due(work)
    settler.asked.clear()
    settler.tell(work)
    assert [receipts for verb, receipts in settler.asked if verb == "ack_many"] == [[f"q{n}"] for n in range(5, 5 + MOST_LOCKED)]
    assert settler.paper.aside == 20


def test_a_table_that_is_locked_is_asked_for_once(clock):
    settler, work = OnPaper(lambda verb, receipts: (_ for _ in ()).throw(errors.LockNotAvailable())), acks(20)
    settler.tell(work)
    assert work == [] and settler.paper.aside == 20 and settler.attendance.is_off("q")
    assert [(verb, len(receipts)) for verb, receipts in settler.asked] == [("ack_many", 20), ("ack_many", 1), ("extend_many", 1)]
    work = acks(3)
    settler.tell(work)      # what comes meanwhile
    assert len(settler.asked) == 3 and settler.paper.aside == 23
    clock.now += 60
    settler.server = lambda verb, receipts: receipts
    settler._take_due(work)
    settler.tell(work)
    assert settler.paper.count == 23 and settler.paper.aside == 0 and settler.attendance.absent() == []


@pytest.mark.parametrize("error", [errors.DeadlockDetected, errors.SerializationFailure, errors.DiskFull, errors.QueryCanceled])
def test_what_passes_is_no_verdict(error):
    """The task is not told to have failed: it is told again that it is done."""
    def server(verb, receipts):
        if verb == "ack_many" and "q1" in receipts:
            raise error
        return receipts

    settler, work = OnPaper(server), acks(3)
    settler.tell(work)
    assert {verb for verb, _ in settler.asked} <= {"ack_many", "extend_many"} and work == []
    assert settler.paper.told == [] and (settler.paper.count, settler.paper.aside) == (2, 1)


def test_a_connection_that_is_lost_between():
    """What was told before it is not told again."""
    def server(verb, receipts):
        if len(receipts) > 1:
            raise errors.LockNotAvailable
        if receipts == ["q2"]:
            raise errors.AdminShutdown
        return receipts

    settler, work = OnPaper(server), acks(4)
    with pytest.raises(errors.AdminShutdown):
        settler.tell(work)
    assert [settlement.receipt for settlement in work] == ["q2", "q3"] and settler.paper.count == 2


def test_less_and_less(clock):
    """A release that is refused after all else is tried again and again, and the run does not wait for it."""
    def server(verb, receipts):
        raise errors.CheckViolation

    settler, work = OnPaper(server), acks(1)
    settler.tell(work)
    assert [verb for verb, _ in settler.asked] == ["ack_many", "nack_many", "nack_many"] and work == []
    assert settler.paper.told == [("turned", "q0")] and (settler.paper.count, settler.paper.aside) == (1, 0)
    (until, last), = settler._aside
    assert until == clock.now + 30 and last.kind == "release"
    clock.now += 30
    settler._take_due(work)
    settler.tell(work)
    assert [verb for verb, _ in settler.asked][3:] == ["release_many"]
    assert work == [] and settler.paper.count == 1
    assert [until for until, _ in settler._aside] == [clock.now + 30]


def test_whether_tasks_are_dead_is_asked_again(clock):
    """Where the answer waits for a lock."""
    locked = True

    def server(verb, receipts):
        if verb == "get_task" and locked:
            raise errors.LockNotAvailable
        return [0] if verb == "get_task" else receipts

    settler, work = OnPaper(server), [Settlement("nack", Given(0, "a"), error="it failed")]
    settler.tell(work)
    assert work == [] and settler.paper.told == [] and settler._patience(work) == 1.0
    settler.tell(work)
    assert [verb for verb, _ in settler.asked] == ["nack_many", "get_task"]
    locked = False
    clock.now += 1
    settler.tell(work)
    assert settler.paper.told == [("died", "a0")] and settler.failed == []


def test_nothing_more_is_claimed_of_a_crowd(clock):
    def server(verb, receipts):
        if verb == "ack_many":
            raise errors.LockNotAvailable
        return receipts

    settler, work = OnPaper(server), acks(150)
    settler.tell(work)
    assert settler.attendance.absent() == [] and settler.closed() == ["q"]


def test_leases_are_asked_for_apart():
    """A heartbeat does not take a lease for lost whose queue does not answer, and next time does not wait for it."""
    class OfNobody(SessionBase):
        connection = OnPaper._connection
        id = "s"

    session, asked = OfNobody(None, 30, None), []
    held = [Given(n, queue) for queue in ("a", "b", "c") for n in (1, 2)]

    def ask(statement):
        if b"heartbeat" in statement.query:
            return True
        bound, receipts = statement.parameters
        asked.append((bound, receipts))
        if "b1" in receipts:
            raise errors.LockNotAvailable
        return [receipt for receipt in receipts.strip("{}").split(",") if receipt != "c2"]

    assert [lost.receipt for lost in follow(session.beating(held), ask)] == ["c2"]
    assert [bound for bound, _ in asked] == ["1000", "100", "100", "100"]
    asked.clear()
    assert [lost.receipt for lost in follow(session.beating(held), ask)] == ["c2"]
    assert [bound for bound, _ in asked] == ["100"] * 3
