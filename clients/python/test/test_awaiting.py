"""Those who await results: one connection of the process for all of them.

Seen to fail: outcome() without awaiting_of() (as many connections as there are waiters), note() without its look at
keep_done (a queue that keeps nothing: an end that was waited for is not known), _serve() without _each() (a queue
that is dropped has all fail), without the second try (a connection that is lost has all fail), awaiting_of() without
the process (a child waits for ever), _serve() that asks on for ever what the server refuses to all (nobody is told
before the time is over).
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import part_server
import psycopg
import psycopg_pool
import pytest
from conftest import running

from pgfairq import AsyncQueue, AsyncWorker, AwaitTimeout, Queue, TaskFailed, Worker, awaiting, statements
from pgfairq.statements import Statement

COUNT = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s AND query LIKE %s"
ANY, LOOKS = "%", "%fairq.await(a.queue%"


@pytest.fixture
def count(database):
    """Connections of those who wait."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield lambda name, query=ANY: connection.execute(COUNT, (name, query)).fetchone()[0]


def named(database, name):
    return f"{database} application_name={name}"


def test_many_threads(make_queue, database, count):
    """80 of them, of two queues, and of two objects for one of these."""
    first, second = make_queue("_1", keep_done=3600, max_attempts=1), make_queue("_2", keep_done=3600, max_attempts=1)
    go = threading.Event()
    for queue in (first, second):
        @queue.task()
        def handle(payload, context):
            go.wait(100)
            if payload == 3:
                raise KeyError("three")
            return {"n": payload}

    tasks = [(name, queue.enqueue_many(list(range(40)))) for name, queue in ((first.name, first), (second.name, second))]
    there = [(Queue(named(database, "threads"), name), task) for name, some in tasks for task in some]

    def wait(queue, task):
        try:
            return queue.await_result(task, timeout=100)["n"]
        except TaskFailed as error:
            return error.outcome.state

    with ThreadPoolExecutor(80) as threads:
        results = [threads.submit(wait, *one) for one in there]
        part_server.wait_until(lambda: len(awaiting_now()) == 80, "all wait")
        part_server.wait_until(lambda: count("threads", LOOKS) == 1, "one connection looks for them")
        assert count("threads") == 1
        with running(Worker([first, second], concurrency=4)):
            go.set()
            found = [result.result() for result in results]
    assert found == 2 * [0, 1, 2, "dead", *range(4, 40)]
    part_server.wait_until(lambda: not threads_of_awaiting(), "its thread has ended")


def awaiting_now():
    return [wait for one in awaiting._of_processes.values() for wait in one.waits]


def threads_of_awaiting():
    return [thread for thread in threading.enumerate() if thread.name == "pgfairq results"]


def test_asyncio(database, count):
    async def main():
        queue, kept = AsyncQueue(named(database, "coroutines"), "awaited", keep_done=3600), []

        @queue.task()
        async def handle(payload, context):
            await asyncio.sleep(payload % 3 / 10)
            return payload

        tasks = await queue.enqueue_many(list(range(100)))
        waits = [asyncio.create_task(queue.await_result(task, timeout=100)) for task in tasks]
        await asyncio.sleep(0)
        while not kept:
            await asyncio.sleep(0.05)
            kept += [1] * await asyncio.to_thread(count, "coroutines", LOOKS)
        assert await asyncio.to_thread(count, "coroutines") == 1
        await AsyncWorker(queue, concurrency=10).run(drain=True)
        assert await asyncio.gather(*waits) == list(range(100))
        late = await queue.enqueue(1, delay=3600)
        with pytest.raises(AwaitTimeout, match="it is scheduled"):
            await queue.await_result(late, timeout=0.1)
        cancelled = asyncio.create_task(queue.await_result(late, timeout=3600))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(TaskFailed, match="no task 1000000"):
            await queue.await_result(10 ** 6, timeout=100)
        await queue.close()

    asyncio.run(main())
    asyncio.run(main_again(database))


async def main_again(database):
    """Another event loop has one of its own."""
    queue = AsyncQueue(database, "awaited")
    task = await queue.enqueue(1)
    queue.task()(coroutine)
    wait = asyncio.create_task(queue.await_result(task, timeout=100))
    await AsyncWorker(queue).run(drain=True)
    assert await wait == 7


async def coroutine(payload, context):
    return 7


def test_a_queue_that_keeps_nothing(make_queue, database):
    """Only who waits is told how a task ends, so each has a connection; and those of other queues are not disturbed."""
    bare, kept, go = make_queue("_1"), make_queue("_2", keep_done=3600), threading.Event()
    for queue in (bare, kept):
        queue.task()(lambda payload, context: go.wait(100))
    tasks = bare.enqueue_many([1, 2]) + [kept.enqueue(3)]
    with ThreadPoolExecutor(3) as threads, running(Worker([bare, kept])):
        waits = [threads.submit(queue.outcome, task, 100) for queue, task in zip((bare, bare, kept), tasks)]
        with psycopg.connect(database, autocommit=True) as connection:
            alone = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%%FROM fairq.await($1%%' AND pid <> pg_backend_pid()"
            part_server.wait_until(lambda: connection.execute(alone).fetchone() == (2,), "two wait alone")
        go.set()
        assert [(wait.result().state, wait.result().result) for wait in waits] == [("acked", None), ("acked", None), ("acked", True)]


def test_one_that_cannot_be_looked_for(make_queue):
    """Its queue is dropped: it fails with that error, and the others wait on."""
    gone, kept = make_queue("_1", keep_done=3600), make_queue("_2", keep_done=3600)
    kept.task()(lambda payload, context: "done")
    tasks = gone.enqueue(1), kept.enqueue(1)
    with ThreadPoolExecutor(2) as threads:
        waits = [threads.submit(queue.await_result, task, 100) for queue, task in zip((gone, kept), tasks)]
        part_server.wait_until(lambda: len(awaiting_now()) == 2 and all(wait.is_known for wait in awaiting_now()), "both are looked for")
        gone.drop()
        with pytest.raises(psycopg.errors.UndefinedObject):
            waits[0].result(100)
        assert not waits[1].done()
        Worker(kept).run(drain=True)
        assert waits[1].result(100) == "done"


def test_connections_that_are_lost(make_queue, database, count):
    """There is another one, and nobody learns of it; where there is no server all are told."""
    queue = make_queue(keep_done=3600)
    queue.task()(lambda payload, context: "done")
    waiting = Queue(named(database, "lost"), queue.name)
    task = queue.enqueue(1)
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database, autocommit=True) as connection:
        wait = threads.submit(waiting.await_result, task, 100)
        for _ in range(3):
            part_server.wait_until(lambda: count("lost", LOOKS) == 1, "one looks")
            pid, = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'lost' AND query LIKE '%fairq.await(a.%'").fetchone()
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
            gone = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
            part_server.wait_until(lambda: connection.execute(gone, (pid,)).fetchone() == (0,), "it is gone")
        Worker(queue).run(drain=True)
        assert wait.result(100) == "done"
    task = queue.enqueue(2)
    with ThreadPoolExecutor(1) as threads:
        wait = threads.submit(queue.await_result, task, 100)
        part_server.wait_until(lambda: awaiting_now() and awaiting_now()[0].is_known, "it is looked for")
        part_server.stop("immediate")
        try:
            with pytest.raises(psycopg.OperationalError):
                wait.result(100)
        finally:
            part_server.start()


def test_a_server_that_waits_for_nothing(make_queue, database, monkeypatch):
    """As fairq.await() does not during recovery: that is what all are told, and at once."""
    queue, asked = make_queue(keep_done=3600), []
    task = queue.enqueue(1)
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SEQUENCE numbers")

    def refused(*_):
        asked.append(1)
        return Statement(b"SELECT nextval('numbers')", (), list)

    monkeypatch.setattr(statements, "outcomes", refused)
    reading = f"{database} options='-c default_transaction_read_only=on'"
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        Queue(reading, queue.name).await_result(task, 100)

    async def main():
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await AsyncQueue(reading, queue.name).await_result(task, 100)

    asyncio.run(main())
    assert len(asked) == 2


def test_a_pool_and_a_fork(make_queue, database):
    queue = make_queue(keep_done=3600)
    queue.task()(lambda payload, context: payload)
    with psycopg_pool.ConnectionPool(database, min_size=1, max_size=2) as pool, ThreadPoolExecutor(10) as threads:
        pooled = Queue(pool, queue.name)
        tasks = pooled.enqueue_many(list(range(10)))
        waits = [threads.submit(pooled.await_result, task, 100) for task in tasks]
        part_server.wait_until(lambda: len(awaiting_now()) == 10, "all wait")
        assert pooled.get(tasks[0]).state == "ready"    # there is a connection left
        Worker(queue).run(drain=True)
        assert [wait.result() for wait in waits] == list(range(10))
    late = queue.enqueue("late", delay=3600)
    with ThreadPoolExecutor(1) as threads:
        wait = threads.submit(queue.outcome, late, 100)
        part_server.wait_until(awaiting_now, "the parent waits")
        pid = os.fork()
        if not pid:
            try:
                os._exit(0 if Queue(database, queue.name).await_result(tasks[5], 100) == 5 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert queue.cancel(late) and wait.result(100).state == "cancelled"
