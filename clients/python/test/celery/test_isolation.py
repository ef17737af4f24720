"""One queue, or one task, that is refused or locked hurts no others.

A claim waits for up to 600 s here, and a lock is held until the others have come: what waits behind
it comes too late.

Seen to fail: the queues that are refused, and the claim without room, with a claim whose refusal is
a lost connection; those that are locked with no lock_timeout for claims; who is claimed alone
without well, and the pause of all with one that begins anew each time; the row and the table that
are locked with no lock_timeout for settlements, and the row with a batch that is not split; the
place that takes no room without _is_not_awaited(); heartbeats on the connection of the settler, and
beside statements without a bound; the end of a session with a PATIENCE without end; what was left
with Refused that is always for good, or that ends the round; all refusals without instead();
results without their lock_timeout; the many files with SelectSelector, and with psycopg's own
wait().
"""

import contextlib
import os
import resource
import socket
import threading

import psycopg
import pytest
from harness import Server
from kombu import Connection, Consumer, Queue

import part_server
from part_server import wait_until
from pgfairq.celery import attendance, unsettled
from pgfairq.celery.address import parameters
from pgfairq.celery.attendance import Attendance
from pgfairq.celery.backend import Backend
from pgfairq.celery.database import Database
from pgfairq.celery.errors import Refused
from pgfairq.celery.lease import Lease
from pgfairq.celery.settler import Late
from pgfairq.celery.unsettled import Unsettled
from pgfairq.celery.waiting import CHANNEL, Listener, name_of

OPTIONS = {"claim_wait": 600, "session_ttl": 600}


@pytest.fixture
def connect(server):
    with contextlib.ExitStack() as stack:
        def connect(url=server.url, **options):
            return stack.enter_context(Connection(url, transport_options={**OPTIONS, **options}))
        yield connect


def send(server, queue, *bodies):
    with Connection(server.url) as connection:
        for body in bodies:
            connection.Producer().publish(body, routing_key=queue, declare=[Queue(queue)])


class Receiver:
    """A consumer of a connection, and what it gets."""

    def __init__(self, connection, *queues, prefetch=0):
        self.connection, self.messages = connection, []
        self.channel = connection.channel()
        self.channel.basic_qos(0, prefetch, False)
        self.consumer = Consumer(self.channel, [Queue(queue) for queue in queues],
                                 callbacks=[lambda body, message: self.messages.append(message)],
                                 auto_declare=False)
        self.consumer.consume()

    def get(self, count=1):
        self.until(lambda: len(self.messages) >= count)
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken

    def until(self, condition):
        """Deliver until it holds."""
        def look():
            with contextlib.suppress(socket.timeout):
                self.connection.drain_events(timeout=0.1)
            return condition()
        wait_until(look, "what is to be delivered")

    @property
    def session(self):
        return self.connection.transport._session


@contextlib.contextmanager
def locked(server, *statements):
    """Locks of another transaction, for as long as the block runs."""
    with psycopg.connect(server.conninfo) as locker:
        for statement in statements:
            locker.execute(statement)
        yield
        locker.rollback()


# Claims.

@contextlib.contextmanager
def dropped(server):
    server.sql("SELECT fairq.drop_queue('bad')")
    yield
    server.sql("SELECT fairq.create_queue('bad')")


@contextlib.contextmanager
def unfit(server):
    server.sql("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    server.sql("CREATE TRIGGER own BEFORE UPDATE ON fairq.q_bad FOR EACH ROW EXECUTE FUNCTION f()")
    yield
    server.sql("DROP TRIGGER own ON fairq.q_bad")


@contextlib.contextmanager
def forbidden(server):
    server.sql("REVOKE UPDATE ON fairq.q_bad FROM web")
    yield
    server.sql("GRANT UPDATE ON fairq.q_bad TO web")


def altered(server):
    return locked(server, "LOCK TABLE fairq.q_bad IN ACCESS EXCLUSIVE MODE")


@pytest.fixture
def web(server):
    """A role that has privileges for two queues."""
    for queue in ("bad", "good"):
        server.sql(f"SELECT fairq.create_queue('{queue}')")
    server.sql("CREATE ROLE web LOGIN")
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON fairq.q_bad, fairq.q_good TO web")
    yield server.url.replace("postgres@", "web@")
    server.sql("DROP OWNED BY web; DROP ROLE web")


@pytest.mark.parametrize("fault", [dropped, unfit, forbidden, altered])
def test_a_queue_that_is_refused_holds_up_no_other(server, connect, web, caplog, fault):
    send(server, "good", 1)
    receiver = Receiver(connect(server.url if fault is dropped else web), "bad", "good")
    assert [message.payload for message in receiver.get()] == [1]
    session = receiver.session.id
    with fault(server):
        send(server, "good", 2)
        assert [message.payload for message in receiver.get()] == [2]
        receiver.until(lambda: "queue bad is put off" in caplog.text)
        send(server, "good", 3)
        assert [message.payload for message in receiver.get()] == [3]
    send(server, "bad", 4)
    assert [message.payload for message in receiver.get()] == [4]   # it is taken back
    assert "queue good is put off" not in caplog.text
    assert receiver.session.id == session and receiver.session.error is None


def test_a_worker_whose_only_queue_is_locked(server):
    """With what its event loop has, and no drain_events()."""
    tasks = server.app()
    tasks.work.delay("before")
    worker = server.worker("threads")
    server.wait_notes(1, "work")
    server.wait_empty()
    with locked(server, "LOCK TABLE fairq.q_celery IN EXCLUSIVE MODE"):
        server.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                   "WHERE query ~ 'claim_an[y]' AND pid <> pg_backend_pid()")
        wait_until(lambda: worker.log().count("queue celery is put off") >= 2, "claims are refused")
    tasks.work.delay("after")
    server.wait_notes(2, "work")
    worker.stop()


LOCK_WAITS = """
SELECT query FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database() AND pid <> pg_backend_pid()
"""


def test_a_claim_without_room_for_a_lease_is_a_pause(connect_small, caplog):
    """What was claimed goes on, and is settled."""
    server, connect = connect_small
    send(server, "q", 1, 2)
    server.sql("SELECT fairq.create_queue('other')")
    receiver = Receiver(connect(), "q", prefetch=2)
    messages = receiver.get(2)
    session = receiver.session.id
    with psycopg.connect(server.conninfo, autocommit=True) as filler:
        filler.execute("SELECT fairq.enqueue_many('other', array_agg('1'::jsonb)) "
                       "FROM generate_series(1, 1000)")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            while True:
                filler.execute("SELECT fairq.claim('other', 5, lease => '1 day')")
        send(server, "q", 3)
        receiver.channel.basic_qos(0, 3, False)
        receiver.until(lambda: "queue q is put off" in caplog.text)
        assert receiver.session.id == session and receiver.session.error is None
        messages[0].ack()
        wait_until(lambda: server.tasks("q") == {"leased": 1, "ready": 1}, "the ack")
    assert [message.payload for message in receiver.get()] == [3]
    assert receiver.session.id == session


@pytest.fixture
def connect_small(monkeypatch):
    """With a server that has room for 16 leases."""
    def set_leases(action):
        with psycopg.connect(part_server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM {action}")
        part_server.restart()

    set_leases("SET pgfairq.max_leases = 16")
    try:
        server = Server()
        with contextlib.ExitStack() as stack:
            connection = Connection(server.url, transport_options=OPTIONS)
            yield server, lambda: stack.enter_context(connection)
        server.close()
    finally:
        set_leases("RESET pgfairq.max_leases")


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(attendance.time, "monotonic", lambda: self.now)


def test_who_is_claimed_alone(monkeypatch):
    clock, queues, refusal = Clock(monkeypatch), Attendance(), Refused("no", "42704")
    assert queues.ask(["a", "b", "c"]) == (["a", "b", "c"], float("inf"))
    queues.refused(["a", "b", "c"], refusal)
    assert queues.ask(["a", "b", "c"]) == (["a"], 0)
    queues.answered(["a"])
    assert queues.ask(["a", "b", "c"]) == (["b"], 0)
    queues.refused(["b"], refusal)
    assert queues.ask(["a", "b", "c"]) == (["c"], 0)
    queues.answered(["c"])
    asked, longest = queues.ask(["c", "b", "a"])
    assert asked == ["c", "a"] and 0.1 <= longest <= attendance.FIRST
    assert queues.ask(["b"])[0] == []   # nothing but a pause
    queues.answered(["c", "a"])
    clock.now += longest
    assert queues.ask(["a", "b", "c"]) == (["b"], 0)
    queues.answered(["b"])
    assert queues.ask(["a", "b", "c"]) == (["a", "b", "c"], float("inf"))


def test_ever_longer_pauses(monkeypatch):
    clock, queues, refusal = Clock(monkeypatch), Attendance(), Refused("no", "53400")
    pauses = []
    for _ in range(10):
        queues.refused(["a"], refusal)
        asked, longest = queues.ask(["a"])
        assert asked == []
        pauses.append(longest)
        clock.now += longest
        assert queues.ask(["a"]) == (["a"], 0)
    assert 0.5 <= pauses[0] <= 1 and 2 <= pauses[2] <= 4
    assert all(30 <= pause <= 60 for pause in pauses[6:])


def test_a_claim_that_none_alone_is_refused_for_pauses_too(monkeypatch):
    """As where a queue is locked at times: nothing spins."""
    _, queues, refusal = Clock(monkeypatch), Attendance(), Refused("no", "55P03")
    queues.refused(["a", "b"], refusal)
    for queue in ("a", "b"):
        assert queues.ask(["a", "b"]) == ([queue], 0)
        queues.answered([queue])
    queues.refused(["a", "b"], refusal)
    asked, longest = queues.ask(["a", "b"])
    assert asked == [] and longest >= 0.1


# Settlements.

def test_a_row_that_is_locked_holds_up_no_other(server, connect):
    send(server, "q", *range(20))
    messages = Receiver(connect(), "q").get(20)
    rows = "SELECT FROM fairq.q_q WHERE payload->>'body' IN ('3', '4', '7') FOR UPDATE"
    with locked(server, rows):
        for message in messages:
            message.ack()
        wait_until(lambda: server.tasks("q") == {"leased": 3}, "the others are acknowledged")
    wait_until(lambda: server.tasks("q") == {}, "and these, when they can be")


def test_one_task_that_is_locked_is_alone_with_it():
    late = Late()
    late.waits = 1
    late.put_off("q")
    assert not late.is_closed()
    late.waits = 2
    assert late.is_closed()
    late.put_off("q")
    assert late.is_closed() and late.waits == 0


@pytest.mark.parametrize("settle", ["ack", "reject", "requeue"])
def test_a_table_that_is_locked_holds_up_no_other(server, connect, settle, caplog):
    for queue in ("bad", "good"):
        send(server, queue, *range(5))
    receiver = Receiver(connect(), "bad", "good", prefetch=10)
    messages = receiver.get(10)
    receiver.consumer.cancel()
    after = {"ack": {}, "reject": {"dead": 5}, "requeue": {"ready": 5}}[settle]
    with locked(server, "LOCK TABLE fairq.q_bad IN SHARE MODE"):
        for message in messages:
            getattr(message, settle)()
        wait_until(lambda: server.tasks("good") == after, "the other queue")
        assert server.tasks("bad") == {"leased": 5}
        wait_until(lambda: "5 tasks could not be settled" in caplog.text, "it is said")
    wait_until(lambda: server.tasks("bad") == after, "and this, when it can be")
    assert receiver.session.error is None


def test_what_cannot_go_back_to_its_place_takes_no_room(server, connect):
    send(server, "bad", 1)
    server.sql("SELECT fairq.create_queue('good')")
    receiver = Receiver(connect(), "bad", "good", prefetch=1)
    [message] = receiver.get()
    with locked(server, "LOCK TABLE fairq.q_bad IN SHARE MODE"):
        message.requeue()
        send(server, "good", 2)
        [other] = receiver.get()
        assert other.payload == 2
        other.ack()
    assert [message.payload for message in receiver.get()] == [1]


def lives_on(server, session):
    """For several times as long as it would without heartbeats."""
    alive = "SELECT alive_until FROM fairq.sessions WHERE session = %s"
    [(until,)] = server.sql(alive, (session.id,))
    later = f"SELECT ({alive}) > %s + %s * interval '1 s'"
    wait_until(lambda: server.sql(later, (session.id, until, 3 * session.ttl)) == [(True,)], "it lives")
    assert session.error is None


def test_heartbeats_are_not_behind_a_settlement(server, connect):
    send(server, "q", 1)
    receiver = Receiver(connect(session_ttl=1), "q")
    [message] = receiver.get()
    with locked(server, "LOCK TABLE fairq.q_q IN SHARE MODE"):
        message.ack()
        wait_until(lambda: server.sql(LOCK_WAITS), "the ack waits")
        lives_on(server, receiver.session)
    wait_until(lambda: server.tasks("q") == {}, "the ack")


def test_heartbeats_are_not_behind_another_statement(server, connect):
    """Of the consumer's connection, such as one that publishes."""
    send(server, "q", 1)
    receiver, refused = Receiver(connect(session_ttl=2), "q"), []
    [message] = receiver.get()

    def purge():
        try:
            receiver.channel.queue_purge("q")
        except Refused as error:
            refused.append(error.sqlstate)

    with locked(server, "LOCK TABLE fairq.q_q IN SHARE MODE"):
        thread = threading.Thread(target=purge, daemon=True)
        thread.start()
        lives_on(server, receiver.session)
        thread.join(120)
        assert refused == ["55P03"]
    message.ack()
    wait_until(lambda: server.tasks("q") == {}, "the ack")


def test_the_end_of_a_session_does_not_wait_for_ever(server, connect, caplog):
    send(server, "q", 1)
    connection = connect()
    [message] = Receiver(connection, "q").get()
    left = unsettled.unsettled_of(connection.transport._url)
    with locked(server, "LOCK TABLE fairq.q_q IN SHARE MODE"):
        message.ack()
        thread = threading.Thread(target=connection.collect, daemon=True)
        thread.start()
        thread.join(120)
        assert left
        alive = "SELECT session FROM fairq.sessions WHERE alive_until IS NOT NULL"
        wait_until(lambda: server.sql(alive) == [], "the session is over")
    assert Queue("q")(connection.channel()).get() is None   # the next session has taken it out
    assert server.tasks("q") == {}


def test_what_was_left_unsettled_waits_for_no_lock(server):
    for queue in ("bad", "good"):
        send(server, queue, 1, 2)
    left = Unsettled()
    for queue in ("bad", "good"):
        rows = server.sql("SELECT id, enqueued_at::text FROM fairq.tasks(%s) ORDER BY id", (queue,))
        left.add(Lease(queue, id, f"{queue} {id}", enqueued_at, "") for id, enqueued_at in rows)
    database = Database(parameters(server.url))
    database.stay(0.1)
    with locked(server, "SELECT FROM fairq.q_bad WHERE payload->>'body' = '1' FOR UPDATE"):
        left.settle(database)
        assert server.tasks("good") == {} and server.tasks("bad") == {"ready": 2}
        left.settle(database)
        assert left and server.tasks("bad") == {"ready": 1}
    left.settle(database)
    assert not left and server.tasks("bad") == {}
    database.close()


# Refusals.

def test_an_error_that_is_refused_does_not_keep_the_task(server, connect, caplog):
    send(server, "q", *range(5))
    server.sql("ALTER TABLE fairq.q_q ADD CONSTRAINT short CHECK (length(last_error) < 4)")
    receiver = Receiver(connect(), "q")
    messages = receiver.get(5)
    for message in messages[:4]:
        message.reject()    # as "rejected"
    messages[4].ack()
    wait_until(lambda: server.tasks("q") == {"dead": 4}, "they are dead, without it")
    assert "could not be settled" in caplog.text and "short" in caplog.text
    assert receiver.session.error is None


def test_a_task_whose_row_takes_no_change_is_let_go(server, connect):
    send(server, "q", 1, 2)
    receiver = Receiver(connect(), "q")
    messages = receiver.get(2)
    server.sql("ALTER TABLE fairq.q_q ADD CONSTRAINT never CHECK (false) NOT VALID")
    messages[0].reject()
    soon = "SELECT id FROM fairq.leases WHERE lease_until < now() + interval '1 min'"
    wait_until(lambda: len(server.sql(soon)) == 1, "its lease ends")
    messages[1].ack()
    left = "SELECT payload->>'body' FROM fairq.q_q"
    wait_until(lambda: server.sql(left) == [("1",)], "the other")
    assert receiver.session.error is None


def test_an_acknowledgement_that_is_refused_is_noted(server, connect):
    """The task is done, so it does not run again."""
    send(server, "q", 1)
    server.sql("SELECT fairq.alter_queue('q', keep_done => '1 day')")
    server.sql("ALTER TABLE fairq.done_q ADD CONSTRAINT never CHECK (false) NOT VALID")
    receiver = Receiver(connect(), "q")
    [message] = receiver.get()
    message.ack()
    wait_until(lambda: server.tasks("q") == {"dead": 1}, "it is dead")
    [(error,)] = server.sql("SELECT last_error FROM fairq.dead_tasks")
    assert error.startswith("done, but the acknowledgement was refused: ") and "never" in error
    assert receiver.session.error is None


# Results.

def test_a_result_that_is_locked_holds_up_no_other(server):
    tasks = server.app()
    backend = Backend(tasks.app, server.url)
    backend.set("a", "1")
    keys = {"a": lambda: backend.set("a", "2"), "n": lambda: backend.incr("n")}
    backend.incr("n")
    with locked(server, "SELECT FROM celery_result FOR UPDATE"):
        threads = [threading.Thread(target=call, daemon=True) for call in keys.values()]
        for thread in threads:
            thread.start()
        wait_until(lambda: server.sql(LOCK_WAITS), "one waits")
        others = [threading.Thread(target=backend.set, args=(key, "3"), daemon=True)
                  for key in "xyz"]
        for thread in others:
            thread.start()
        stored = "SELECT key FROM celery_result WHERE key IN ('x', 'y', 'z')"
        wait_until(lambda: len(server.sql(stored)) == 3, "the others")
        assert all(thread.is_alive() for thread in threads)
    for thread in threads + others:
        thread.join(120)
    assert backend.get("a") == b"2"
    assert server.sql("SELECT counter FROM celery_result WHERE key = 'n'") == [(2,)]


# Descriptors.

@pytest.fixture
def many_files(server, monkeypatch):
    """Open, as in a server that has a thousand clients of its own."""
    def sql(statement, values=None):
        with contextlib.closing(Database(parameters(server.url))) as database:
            return database.execute(statement, values)

    monkeypatch.setattr(server, "sql", sql)     # psycopg's own connections take no such number
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = most if most == resource.RLIM_INFINITY else min(4096, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, most))
    files = []
    while not files or files[-1] < 1024:
        files.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_a_consumer_with_many_open_files(server, many_files):
    with Connection(server.url, transport_options=OPTIONS) as connection:
        send(server, "q", 1, "x" * 5_000_000)
        receiver = Receiver(connection, "q")
        for message in receiver.get(2):
            message.ack()
        wait_until(lambda: server.tasks("q") == {}, "the acks")
        with contextlib.suppress(socket.timeout):
            connection.drain_events(timeout=0.3)
        receiver.consumer.cancel()  # ends the claim that waits
        assert receiver.session.error is None


def test_who_waits_for_results_with_many_open_files(server, many_files):
    listener = Listener(parameters(server.url))
    with listener.of(["key"]) as waiting:
        server.sql("SELECT pg_notify(%s, %s)", (CHANNEL, name_of("key")))
        assert waiting.wait(120) and waiting.told() == {name_of("key")}
