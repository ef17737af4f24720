"""Workers that are killed, stopped, shut down and cut off.

A session lives for 600 s without a heartbeat here, unless a test says otherwise: what is delivered again
was given back because a connection closed.

Seen to fail: the fork without keep_from_children(), which closes what a child has of the connections; the long task without the thread of heartbeats; the lost ack
without Unsettled; the claim that has not begun with one cancel; the lost commit without was_committed(), and with a commit that does not wait for the row; the task that kills its process each time
without is_lost() of request.py (it is begun for ever); the shutdown of the whole group with an is_lost() that does not
ask whether the worker ends.
"""

import os
import signal
import socket
import subprocess
import sys
import threading

import psycopg
import pytest
from kombu import Connection, Queue

import part_server
from part_server import wait_until

LONG = {"broker_transport_options": {"claim_wait": 600, "session_ttl": 600}}
LATE = {"task_acks_late": True, "task_reject_on_worker_lost": True}


def sessions(server):
    return server.sql("SELECT count(*) FROM fairq.sessions")[0][0]


def until(server, name, count=1):
    """Sends tasks that run until the file is there; its path."""
    tasks, path = server.app(**LONG), os.path.join(server.directory, name)
    for number in range(count):
        tasks.until.delay(path, number)
    return path


def touch(path):
    with open(path, "w", encoding="ascii"):
        pass


def test_kill_of_worker_and_pool(server, pool):
    path = until(server, "go", 2)
    worker = server.worker(pool, **LONG, **LATE)
    server.wait_notes(2, "begin")
    worker.kill()
    wait_until(lambda: server.tasks() == {"ready": 2} and sessions(server) == 0, "both are back, and the session is over")
    touch(path)
    server.worker(pool, name="w2", **LONG, **LATE)
    server.wait_notes(2, "end")
    server.wait_empty()
    assert len(server.notes("begin")) == 4


def test_kill_of_the_main_process_alone(server):
    """The child that was forked after the connection was made keeps no lease alive: it goes on where Celery cannot
    have the kernel kill it together with its parent."""
    tasks = server.app(**LONG)
    tasks.work.delay("first")
    worker = server.worker(concurrency=1, arguments=["--max-tasks-per-child", "1"], **LONG, **LATE)
    server.wait_notes(1, "work")
    server.wait_empty()
    path = until(server, "go")
    server.wait_notes(1, "begin")
    os.kill(worker.pid, signal.SIGKILL)
    worker.process.wait()
    wait_until(lambda: server.tasks() == {"ready": 1} and sessions(server) == 0, "it is back")
    touch(path)


FORK = """
import os, signal, sys, time
import pgfairq.celery
from kombu import Connection, Queue
connection = Connection(sys.argv[1])
Queue("q")(connection.channel()).get()
child = os.fork()
if child == 0:
    time.sleep(3600)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_process_has_nothing_of_the_connections(server):
    with Connection(server.url) as connection:
        Queue("q")(connection.channel()).declare()
        connection.Producer().publish("x", routing_key="q")
    parent = subprocess.Popen([sys.executable, "-c", FORK, server.url], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    try:
        parent.wait()
        wait_until(lambda: server.tasks("q") == {"ready": 1} and sessions(server) == 0,
                   f"it is back though the child lives {server.sql('TABLE fairq.leases')} {server.tasks('q')} {sessions(server)}")
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_kill_of_a_child(server):
    path = until(server, "go")
    server.worker(concurrency=1, **LONG, **LATE)
    [note] = server.wait_notes(1, "begin")
    os.kill(note.pid, signal.SIGKILL)
    server.wait_notes(2, "begin")  # Celery rejects it, and it is back in its place
    touch(path)
    server.wait_notes(1, "end")
    server.wait_empty()


def test_a_task_that_kills_its_process_each_time(server):
    """It is an attempt each time, so it comes to an end; others are done."""
    options = {**LONG["broker_transport_options"], "queue_options": {"max_attempts": 3, "backoff_base": "0"}}
    server.settings["broker_transport_options"] = options
    tasks = server.app()
    tasks.die.delay()
    tasks.work.delay("other")
    server.worker(concurrency=2, **LATE)
    server.wait_notes(1, "work")
    wait_until(lambda: server.tasks() == {"dead": 1}, "it is dead")
    assert len(server.notes("die")) == 3
    [(error, attempts, lost)] = server.sql("SELECT last_error, attempts, lost FROM fairq.tasks('celery')")
    assert "WorkerLostError: " in error.splitlines()[0] and (attempts, lost) == (3, 0)


@pytest.mark.parametrize("late", [False, True])
def test_a_warm_shutdown_gives_back_what_was_prefetched(server, pool, late):
    path = until(server, "go", 6)
    worker = server.worker(pool, concurrency=2, **LONG, worker_prefetch_multiplier=3, task_acks_late=late)
    server.wait_notes(2, "begin")
    wait_until(lambda: server.tasks().get("leased", 0) == (6 if late else 4) or server.tasks().get("leased") == 4, "some are prefetched")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in worker.log(), "the shutdown")
    touch(path)
    assert worker.wait() == 0
    done = len(server.notes("end"))
    assert done >= 2 and done == len(server.notes("begin"))
    assert server.tasks() == ({"ready": 6 - done} if done < 6 else {})
    assert {attempts for attempts, in server.sql("SELECT attempts FROM fairq.tasks('celery')")} <= {0}
    assert sessions(server) == 0


def test_a_shutdown_of_the_whole_group(server):
    """As systemd does by default: SIGTERM to the pool, too, which dies of it. That is no fault of the tasks."""
    until(server, "go", 2)
    worker = server.worker(**LONG, **LATE)
    server.wait_notes(2, "begin")
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait()
    wait_until(lambda: server.tasks() == {"ready": 2} and sessions(server) == 0, "both are back")
    assert server.sql("SELECT DISTINCT attempts FROM fairq.tasks('celery')") == [(0,)]


def test_a_cold_shutdown(server):
    until(server, "go", 2)
    worker = server.worker(**LONG, **LATE)
    server.wait_notes(2, "begin")
    worker.signal(signal.SIGQUIT)
    worker.wait()
    wait_until(lambda: server.tasks() == {"ready": 2} and sessions(server) == 0, "both are back")


@pytest.mark.parametrize("pool_of", ["prefork", "threads", "solo"])
def test_a_long_task_is_delivered_once(server, pool_of):
    # Long enough for a worker that a busy machine keeps waiting; the task takes longer.
    short = {"broker_transport_options": {"claim_wait": 600, "session_ttl": 10}}
    path = until(server, "go")
    server.worker(pool_of, concurrency=1, **short, **LATE)
    server.wait_notes(1, "begin")
    [(until_then,)] = server.sql("SELECT alive_until FROM fairq.sessions")
    wait_until(lambda: server.sql("SELECT alive_until > %s + interval '11 s' FROM fairq.sessions", (until_then,)) == [(True,)], "heartbeats")
    other = server.worker("solo", name="w2", **short, **LATE).wait_ready()
    touch(path)
    server.wait_notes(1, "end")
    server.wait_empty()
    other.stop()
    assert len(server.notes("begin")) == 1


def test_a_worker_that_stood_still(server):
    """Its session is over; another does the task, and what the first one says of it is of no effect."""
    short = {"broker_transport_options": {"claim_wait": 600, "session_ttl": 1}}
    path = until(server, "go")
    first = server.worker("threads", concurrency=1, **short, **LATE)
    server.wait_notes(1, "begin")
    first.signal(signal.SIGSTOP)
    wait_until(lambda: server.tasks() == {"ready": 1}, f"it is put back {server.tasks()} {server.sql('TABLE fairq.sessions')} {server.sql('TABLE fairq.leases')} {first.log()}")
    server.worker("solo", name="w2", **short, **LATE)
    server.wait_notes(2, "begin")
    first.signal(signal.SIGCONT)
    wait_until(lambda: "Connection to broker lost" in first.log(), "the first one knows")
    touch(path)
    server.wait_notes(2, "end")
    server.wait_empty()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_restarts_of_the_server(server, pool, mode):
    tasks, count = server.app(), 300
    worker = server.worker(pool, concurrency=2).wait_ready()
    for number in range(count):
        tasks.work.apply_async((number,), retry=True, retry_policy={"max_retries": 300, "interval_step": 0.1, "interval_max": 0.1})
        if number == 100:
            part_server.restart(mode)
    wait_until(lambda: {note.words[1] for note in server.notes("work")} >= set(map(str, range(count))), "each was done")
    server.wait_empty()
    worker.stop()


CLAIMS = ("SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
          "AND state = 'active' AND query ~ 'FROM fairq.claim_any' AND pid <> pg_backend_pid()")


BEATS = ("SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
         "AND query ~ 'fairq.hear[t]beat'")     # not a backend that has just asked this


@pytest.mark.parametrize("connection", [CLAIMS, "SELECT pid FROM fairq.sessions", BEATS],
                         ids=["claims", "session", "heartbeats"])
def test_connections_that_are_cut(server, pool, connection):
    """Of the claims, of the session, and of its heartbeats. The worker connects again, and goes on."""
    tasks = server.app()
    # No heartbeat is to tell that another connection is cut.
    ttl = 30 if connection is BEATS else 600
    worker = server.worker(pool, broker_transport_options={"claim_wait": 600, "session_ttl": ttl})
    tasks.work.delay("before")
    server.wait_notes(1, "work")
    wait_until(lambda: server.sql(CLAIMS), "a claim waits")
    first = server.sql("SELECT session FROM fairq.sessions")
    wait_until(lambda: server.sql(f"SELECT pg_terminate_backend(pid) FROM ({connection}) c") == [(True,)], "the connection is cut")
    wait_until(lambda: server.sql("SELECT session FROM fairq.sessions") not in (first, []), f"another session {worker.log()}")
    tasks.work.delay("after")
    server.wait_notes(2, "work")
    server.wait_empty()
    worker.stop()


def test_a_claim_that_the_server_has_not_begun_is_ended(server):
    """The first cancel meets a server that has not read the claim yet, and is forgotten."""
    server.app()
    connection = Connection(server.url, transport_options={"claim_wait": 600})
    channel = connection.channel()
    queue = Queue("q")(channel)
    queue.declare()
    queue.consume(callback=lambda message: message.ack())
    connection.Producer().publish("once", routing_key="q")
    connection.drain_events(timeout=60)
    claimer = channel.claimer
    wait_until(lambda: claimer.under_way or channel.claim_more(), "a claim is under way")
    channel._stop_claim()
    backend = claimer._pgconn.backend_pid
    os.kill(backend, signal.SIGSTOP)
    ending = threading.Thread(target=channel._stop_claim, daemon=True)
    try:
        channel.claim_more()
        assert claimer.under_way
        ending.start()
        ending.join(1)
        assert ending.is_alive()
    finally:
        os.kill(backend, signal.SIGCONT)
    ending.join(120)
    assert not ending.is_alive()
    connection.release()


def test_acks_without_a_server(server):
    """Deterministic: the ack waits for a lock while the connection is cut."""
    connection = Connection(server.url, transport_options={"claim_wait": 600})
    queue = Queue("q")(connection.channel())
    queue.declare()
    connection.Producer().publish("once", routing_key="q")
    message = queue.get()
    with psycopg.connect(server.conninfo) as locker:
        locker.execute("LOCK TABLE fairq.q_q IN SHARE MODE")
        message.ack()
        waits = "SELECT pid FROM pg_stat_activity WHERE query ~ 'ack_many' AND wait_event_type = 'Lock' AND datname = current_database()"
        wait_until(lambda: server.sql(waits), "the ack waits")
        server.sql("SELECT pg_terminate_backend(pid) FROM fairq.sessions")
        wait_until(lambda: connection.transport._session.error is not None, "the session is lost")
    wait_until(lambda: server.tasks("q") == {"ready": 1}, "it is put back")
    connection.collect()
    assert Queue("q")(connection.channel()).get() is None  # the next session has taken it out
    assert server.tasks("q") == {}
    connection.release()


class Cutter:
    """Between a client and the server. It cuts the connection before or after a commit has got through: of who
    waits for the row before asking for the commit."""

    COMMIT = b"S\0\0\0\4"   # the end of a transaction in the extended protocol

    def __init__(self, path, target, after):
        self.path, self.target, self.after, self.cuts = path, target, after, 1
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, server = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            for source, sink, watched in [(client, server, True), (server, client, False)]:
                threading.Thread(target=self.carry, args=(source, sink, watched), daemon=True).start()

    def carry(self, source, sink, watched):
        try:
            while data := source.recv(65536):
                cut = watched and self.cuts and data == self.COMMIT
                if cut and not self.after:
                    break
                if cut:
                    self.cuts -= 1
                    source.shutdown(socket.SHUT_WR)  # the client gets no answer
                sink.sendall(data)
                if cut:
                    return
        except OSError:
            pass
        finally:
            if watched and self.cuts and not self.after:
                self.cuts = 0
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR if end is source else socket.SHUT_WR)
                except OSError:
                    pass


@pytest.mark.parametrize("after", [False, True])
def test_a_message_is_published_once(server, after):
    cutter = Cutter(os.path.join(server.directory, ".s.PGSQL.5432"), os.path.join(os.environ["PGHOST"], ".s.PGSQL.5432"), after)
    tasks = server.app()
    tasks.work.delay("before")
    server.settings["broker_url"] = server.url.replace(server.url.partition("host=")[2], server.directory.replace("/", "%2F"))
    tasks = server.app()
    tasks.work.delay("through the cutter")
    assert cutter.cuts == 0
    assert server.tasks() == {"ready": 2}
