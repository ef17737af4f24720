"""What becomes of tasks when workers, connections and servers end in all ways. Workers are processes of the command line.

No test asserts a speed. Times that are of interest are printed, as comments of the TAP.

Seen to fail: Beats.due_in() that is never 0 (slow handlers: tasks in vain);
open_session() without bound (a killed worker's tasks stay for the ttl); an ack in a
transaction of its own (rows are missing or there twice after a restart);
Session.close() without close_session() (SIGTERM counts attempts); obey() that does not
heed the end of its pipe.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import part_server
import psycopg
import pytest
from conftest import running

from pgfairq import Queue, Worker

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = "CREATE TABLE counted (n int); CREATE TABLE noted (task bigint, pid int, attempt int, what text, at timestamptz)"


@pytest.fixture
def tell(capsys):
    """Says something that is of interest, also where the test passes."""
    def tell(text):
        with capsys.disabled():
            print("# " + text, flush=True)
    return tell


@pytest.fixture
def app():
    """A database with the queues of fault_app.py, and what starts its workers."""
    made = App(part_server.new_database(TABLES))
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


class App:
    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.processes = []
        conninfo += " application_name=test"
        self.steady = Queue(conninfo, "steady", max_attempts=1000, backoff_base=0)
        self.patient = Queue(conninfo, "patient", max_attempts=5, backoff_base=0)
        self.asynchronous = Queue(conninfo, "asynchronous", max_attempts=1000, backoff_base=0)
        for queue in (self.steady, self.patient, self.asynchronous):
            queue.ensure()

    def start(self, *arguments, log=None):
        """pgfairq worker …; its log is shown where a test fails."""
        process = subprocess.Popen([sys.executable, "-m", "pgfairq", "worker", *arguments], cwd=HERE, stderr=log, text=True,
                                   env={**os.environ, "APP_CONNINFO": self.conninfo})
        self.processes.append(process)
        return process

    def query(self, sql, *arguments):
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            return connection.execute(sql, arguments).fetchall()

    def began(self, count):
        part_server.wait_until(lambda: len(self.query("SELECT FROM noted WHERE what = 'began'")) >= count, f"{count} have begun")


def enqueue(queue, name, payloads, **details):
    queue.enqueue_many(payloads, name=name, **details)


def end(process, number=signal.SIGTERM):
    process.send_signal(number)
    assert process.wait(120) == 0


def test_slow_handlers_and_short_leases(database):
    """Handlers of 3 s, a lease of 2 s, two attempts, 8 tasks, two workers at work for longer than their ttl: none in vain, none dead."""
    queue, seen = Queue(database, "friction", lease=2, max_attempts=2), []

    @queue.task()
    def handle(payload, context):
        time.sleep(3)
        seen.append(payload)

    queue.enqueue_many(list(range(8)))
    with running(Worker(queue, concurrency=1, ttl=10)), running(Worker(queue, concurrency=1, ttl=10)):
        part_server.wait_until(lambda: queue.stats().acked == 8, "all are done")
    stats = queue.stats()
    assert sorted(seen) == list(range(8))
    assert (stats.acked, stats.dead_total, stats.expired, stats.nacked) == (8, 0, 0, 0)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_that_is_killed(app, processes, tell):
    """kill -9: its tasks run again as soon as the server has seen its socket's end."""
    enqueue(app.patient, "sleep", [3600, 3600])
    first = app.start("fault_app:patient", "-c", "2", "-p", processes, "--ttl", "600")
    app.began(2)
    pids = {pid for pid, in app.query("SELECT pid FROM noted")}
    app.query("UPDATE fairq.q_patient SET payload = '0' RETURNING 1")
    second = app.start("fault_app:patient")
    part_server.wait_until(lambda: len(app.query("SELECT FROM fairq.sessions")) == int(processes) + 1, "another waits")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    killed, = app.query("SELECT clock_timestamp()")[0]
    part_server.wait_until(lambda: app.patient.stats().acked == 2, "others have done them")
    again = app.query("SELECT max(at) FROM noted WHERE attempt = 2 AND what = 'began'")[0][0]
    tell(f"kill -9 with -p {processes}: again {(again - killed).total_seconds():.3f} s after")
    assert app.patient.stats().expired == 2 and (again - killed).total_seconds() < 60     # far below the ttl
    if processes == "1":
        assert first.wait(60) == -signal.SIGKILL
    else:
        end(first)      # it has started others for those that were killed
    end(second)


def test_sigterm_finishes(app):
    """What runs is finished, what was claimed ahead or comes later is left to others, with all its attempts."""
    enqueue(app.patient, "sleep", [10, 10])     # they end after the signal
    worker = app.start("fault_app:patient", "-c", "2")
    app.began(2)
    enqueue(app.patient, "sleep", [0])
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(120) == 0
    stats = app.patient.stats()
    assert (stats.acked, stats.ready, stats.expired, stats.nacked) == (2, 1, 0, 0)
    assert app.query("SELECT FROM fairq.sessions") == []


@pytest.mark.parametrize("how", ["finish", "second signal", "processes"])
def test_sigterm_releases_the_rest(app, how):
    """Handlers that do not end in time, and a second signal: the tasks are free at once, and no attempt is counted."""
    enqueue(app.patient, "sleep", [3600, 3600])
    options = {"finish": ["--finish", "0.2"], "second signal": ["--finish", "3600"], "processes": ["--finish", "0.2", "-p", "2"]}[how]
    worker = app.start("fault_app:patient", "-c", "2", *options, log=subprocess.PIPE)
    app.began(2)
    worker.send_signal(signal.SIGTERM)
    if how == "second signal":
        while "stopping" not in worker.stderr.readline():   # two signals that are not yet taken are one
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
    assert worker.wait(120) == 0
    worker.stderr.close()
    stats = app.patient.stats()
    assert (stats.acked, stats.ready, stats.released, stats.expired, stats.nacked) == (0, 2, 2, 0, 0)
    assert {task.attempts for task in app.patient.tasks()} == {0}


def test_sigterm_in_the_middle_of_quick_tasks(app):
    """What has run is acknowledged before the worker gives the rest back."""
    enqueue(app.patient, "sleep", [0] * 3000)
    worker = app.start("fault_app:patient", "-c", "4")
    app.began(200)
    end(worker)
    stats = app.patient.stats()
    assert app.query("SELECT count(*), count(DISTINCT task) FROM noted WHERE what = 'ended'") == [(stats.acked, stats.acked)]
    assert stats.ready == 3000 - stats.acked and (stats.leased, stats.expired, stats.nacked) == (0, 0, 0)


def test_an_idle_worker_ends_at_once(app, tell):
    """It waits at the server for a task; SIGTERM and SIGINT end that."""
    for number in (signal.SIGTERM, signal.SIGINT):
        worker = app.start("fault_app:both", "--ttl", "3600")
        part_server.wait_until(lambda: app.query("SELECT FROM pg_stat_activity WHERE query LIKE %s AND state = 'active'"
                                                 " AND pid <> pg_backend_pid()", "%claim_any%"), "it waits")
        sent = time.monotonic()
        end(worker, number)
        tell(f"ends {time.monotonic() - sent:.3f} s after signal {number}")


@pytest.mark.parametrize("queue, name, options", [("steady", "count", ["-c", "4"]), ("asynchronous", "count", ["-c", "10"])])
def test_restarts_lose_and_double_nothing(app, tell, queue, name, options):
    """Four processes, two restarts in the middle, one of them a crash: each row once. TASKS=100000 for the long run."""
    count = int(os.environ.get("TASKS", "12000" if queue == "steady" else "4000"))
    there = getattr(app, queue)
    for first in range(0, count, 10000):
        enqueue(there, name, list(range(first, min(count, first + 10000))), group=[n % 7 for n in range(first, min(count, first + 10000))])
    began = time.monotonic()
    worker = app.start(f"fault_app:{queue}", "-p", "4", *options, "--log-level", "ERROR")
    for part, mode in ((3, "fast"), (2, "immediate")):
        part_server.wait_until(lambda: app.query("SELECT count(*) FROM counted")[0][0] > count // part, "some are done", 600)
        part_server.restart(mode)
    part_server.wait_until(lambda: app.query("SELECT count(*) FROM counted")[0][0] >= count, "all are done", 600)
    part_server.wait_until(lambda: there.stats().leased == there.stats().ready == 0, "nothing is left")
    tell(f"{count} tasks, 4 processes, 2 restarts: {time.monotonic() - began:.1f} s")
    end(worker)
    assert app.query("SELECT count(*), count(DISTINCT n), min(n), max(n) FROM counted") == [(count, count, 0, count - 1)]
    assert app.query("SELECT FROM fairq.dead_tasks") == []


def test_connections_that_are_terminated(app):
    """Those of the session, of the settler and of handlers, one after the other, under load."""
    enqueue(app.steady, "count", list(range(3000)))
    enqueue(app.steady, "plain", list(range(3000)))
    worker = app.start("fault_app:steady", "-c", "4", "--log-level", "ERROR")
    stop = threading.Event()

    def terminate():
        while not stop.wait(0.15):
            app.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgfairq' ORDER BY random() LIMIT 1")

    thread = threading.Thread(target=terminate)
    thread.start()
    try:
        part_server.wait_until(lambda: app.steady.stats().acked >= 3000, "half of them are done")
    finally:
        stop.set()
        thread.join()
    part_server.wait_until(lambda: app.steady.stats().leased == app.steady.stats().ready == 0, "nothing is left")
    end(worker)
    assert app.query("SELECT count(*), count(DISTINCT n) FROM counted") == [(3000, 3000)]
    assert app.steady.stats().acked == 6000


def test_a_server_that_comes_later(app):
    """A worker that finds no server tries again."""
    part_server.stop()
    try:
        worker = app.start("fault_app:steady")
        time.sleep(0.5)
        assert worker.poll() is None
    finally:
        part_server.start()
    app.steady.enqueue(1, name="count")
    part_server.wait_until(lambda: app.query("SELECT count(*) FROM counted") == [(1,)], "done")
    end(worker)


def test_processes_end_with_their_parent(app):
    """kill -9 of the first process: the others finish what they have, and end."""
    worker = app.start("fault_app:steady", "-p", "3")
    part_server.wait_until(lambda: len(app.query("SELECT FROM fairq.sessions")) == 3, "three workers")
    worker.kill()
    worker.wait()
    part_server.wait_until(lambda: app.query("SELECT FROM fairq.sessions") == [], "none is left")


def test_processes_that_cannot_work(app):
    """All of them end, with an exit code, when there is no queue."""
    app.steady.drop()
    assert app.start("fault_app:steady", "-p", "2").wait(120) == 1


def test_a_worker_that_was_stopped(app):
    """SIGSTOP for longer than the ttl: another one does the task, and what the first one wrote is rolled back."""
    app.steady.enqueue(10, name="hang")      # it is stopped in the midst of that
    first = app.start("fault_app:steady", "--ttl", "1")
    app.began(1)
    first.send_signal(signal.SIGSTOP)
    second = app.start("fault_app:steady", "--ttl", "600")
    part_server.wait_until(lambda: app.steady.stats().acked == 1, "the second one does it")
    part_server.wait_until(lambda: app.query("SELECT FROM noted WHERE attempt = 1 AND at < clock_timestamp() - interval '10 s'"),
                           "its sleep is over, so that it acknowledges as soon as it goes on")
    first.send_signal(signal.SIGCONT)
    part_server.wait_until(lambda: len(app.query("SELECT FROM fairq.sessions")) == 2, "the first one has a new session")
    end(first)
    end(second)
    rows = app.query("SELECT n FROM counted")
    assert len(rows) == 1 and rows != [(1,)]    # that of a later attempt alone
