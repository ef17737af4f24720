"""Results, with real workers. Nobody asks twice: an interval of polling would be longer than any patience.

Seen to fail: the chords of generators without make_lists(), whose bodies never run; `expires` before `eta` with the
expires_at that the server refuses; the counter with was_committed() that answers false; many threads with the table created
under a lock that ends before the transaction.
"""

import threading

import psycopg
import pytest
from celery import chain, chord, group, states
from celery.exceptions import ImproperlyConfigured, TaskRevokedError, TimeoutError
from celery.result import AsyncResult

import part_server
from pgfairq.celery import wire
from part_server import wait_until

POLL = 1000  # seconds


@pytest.fixture
def tasks(server):
    server.settings.update(result_backend=server.url, task_ignore_result=False, result_chord_join_timeout=60)
    tasks = server.app()
    tasks.app._local.__dict__.pop("backend", None)
    tasks.app.__dict__.pop("backend", None)
    tasks.app._backend_cache = None
    return tasks


def test_results(server, tasks, pool):
    server.worker(pool)
    assert tasks.add.delay(1, 2).get(timeout=120, interval=POLL) == 3
    with pytest.raises(ZeroDivisionError):
        tasks.divide.delay(1, 0).get(timeout=120, interval=POLL)
    failed = tasks.divide.delay(1, 0)
    assert failed.get(timeout=120, interval=POLL, propagate=False).args and failed.state == states.FAILURE and "divide" in failed.traceback
    assert group(tasks.add.s(n, n) for n in range(100))().get(timeout=120, interval=POLL) == [2 * n for n in range(100)]
    assert chain(tasks.add.s(1, 1), tasks.add.s(5), tasks.add.s(7))().get(timeout=120, interval=POLL) == 14
    assert chord([tasks.add.s(n, 1) for n in range(20)], tasks.total.s())().get(timeout=120, interval=POLL) == 210
    with pytest.raises(Exception, match="division by zero"):
        chord([tasks.add.s(1, 1), tasks.divide.s(1, 0)], tasks.total.s())().get(timeout=120, interval=POLL)
    result = tasks.add.delay(4, 5)
    assert result.get(timeout=120, interval=POLL) == 9
    result.forget()
    assert AsyncResult(result.id, app=tasks.app).state == states.PENDING


def test_headers_of_chords_that_are_generators(server, tasks):
    """Of each shape in which Celery takes one; none of the tasks is left out."""
    server.worker("threads", concurrency=2)
    add, total = tasks.add, tasks.total
    shapes = [
        group(add.s(n, 1) for n in range(4)) | total.s(),
        chord((add.s(n, 1) for n in range(4)), total.s()),
        chain(group(add.s(n, 1) for n in range(4)), total.s(), add.s(0)),
        group(chain(add.s(n, 0), add.s(1)) for n in range(4)) | total.s(),
        group(group(add.s(n, 1) for n in pair) for pair in ((0, 1), (2, 3))) | total.s(),
    ]
    assert [shape().get(timeout=120, interval=POLL) for shape in shapes] == [10] * 5
    assert chain(group(add.s(n, 1) for n in range(4)), group(total.s(), total.s()))().get(timeout=120, interval=POLL) == [10, 10]
    assert (group(add.s(n, 1) for n in ()) | total.s())().get(timeout=120, interval=POLL) == 0
    again = group(add.s(n, 1) for n in range(4)) | total.s()
    assert [again().get(timeout=120, interval=POLL) for _ in range(2)] == [10, 10]
    server.wait_empty()


def test_what_expires_before_its_time_is_revoked(server, tasks):
    """By the worker, when its time has come, as with Redis."""
    early = tasks.add.apply_async((1, 1), countdown=10, expires=0.5)
    late = tasks.add.apply_async((1, 1), countdown=10, expires=3600)
    assert server.sql("SELECT expires_at IS NULL FROM fairq.tasks('celery') ORDER BY id") == [(True,), (False,)]
    server.worker("solo")
    with pytest.raises(TaskRevokedError, match="expired"):
        early.get(timeout=120, interval=POLL)
    assert late.get(timeout=120, interval=POLL) == 2
    server.wait_empty()


def test_many_threads_wait(server, tasks):
    server.worker("threads", concurrency=4)
    answers = {}

    def ask(number):
        answers[number] = tasks.add.delay(number, 1).get(timeout=120, interval=POLL)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number + 1 for number in range(20)}


def test_a_wait_that_is_in_vain(server, tasks):
    result = tasks.add.delay(1, 1)
    with pytest.raises(TimeoutError):
        result.get(timeout=0.5, interval=0.05)
    assert result.state == states.PENDING


def test_a_wait_goes_through_a_restart_of_the_server(server, tasks):
    result = tasks.add.delay(20, 22)
    got = []
    assert result.state == states.PENDING
    thread = threading.Thread(target=lambda: got.append(result.get(timeout=240, interval=POLL)))
    thread.start()
    wait_until(lambda: server.sql("SELECT count(*) FROM celery_result WHERE awaited") == [(1,)], "it waits")
    part_server.restart("immediate")
    server.worker("solo")
    thread.join(240)
    assert got == [42]


def test_a_success_stays(server, tasks):
    backend = tasks.app.backend
    backend.store_result("one", 1, states.SUCCESS)
    backend.store_result("one", None, states.STARTED)
    backend.store_result("zero\0", 2, states.SUCCESS)
    assert backend.get_state("one") == states.SUCCESS and backend.get_result("zero\0") == 2


def test_results_expire(server, tasks):
    backend = tasks.app.backend
    backend.store_result("old", 1, states.SUCCESS)
    backend.store_result("new", 2, states.SUCCESS)
    server.sql("UPDATE celery_result SET expires_at = now() - interval '1 s' WHERE key LIKE '%old'")
    backend._cache.clear()
    assert backend.get_state("old") == states.PENDING
    backend.cleanup()
    assert [row for row, in server.sql("SELECT key FROM celery_result")] == ["celery-task-meta-new"]
    assert server.sql("SELECT expires_at - now() BETWEEN '23 h' AND '24 h' FROM celery_result") == [(True,)]


def test_the_table_is_where_one_wants_it(server, tasks):
    from pgfairq.celery.backend import Backend
    server.sql('CREATE SCHEMA "My schema"')
    tasks.app.conf.result_backend_transport_options = {"table": 'My schema.the "table"'}
    try:
        backend = Backend(tasks.app, url=server.url)
        backend.store_result("one", 1, states.SUCCESS)
        assert server.sql('SELECT count(*) FROM "My schema"."the ""table"""') == [(1,)]
        assert Backend(tasks.app, **backend.__reduce__()[1][2]).get_state("one") == states.SUCCESS
    finally:
        tasks.app.conf.result_backend_transport_options = {}
    server.sql("CREATE ROLE poor LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    try:
        with pytest.raises(ImproperlyConfigured, match="(?s)Run as its owner:.*CREATE TABLE"):
            Backend(tasks.app, url=server.url.replace("postgres@", "poor@")).store_result("one", 1, states.SUCCESS)
    finally:
        server.sql("DROP ROLE poor")


@pytest.mark.parametrize("direct", [False, True])
def test_a_counter_counts_once(server, tasks, monkeypatch, direct):
    """The answer to the commit is lost, and the count is done again."""
    backend = tasks.app.backend
    assert backend.incr("n") == 1
    database = backend._database

    def lose(pgconn):
        sync(pgconn)
        monkeypatch.undo()
        database.connection.close()
        raise psycopg.OperationalError("lost")

    sync = wire._sync
    monkeypatch.setattr(wire, "_sync", lose)
    database._direct = direct
    assert backend.incr("n") == 2
    assert backend.incr("n") == 3
