"""How many connections the calls of an application take, where it gives no pool.

Seen to fail: call() that is run() (a connection for each), Line and AsyncLine without their patience (who holds the
lock that all others wait for never comes to its turn), AsyncLine.turn() that hands nothing on, and _was_handed_on()
that does not when it is cancelled (a turn is lost), pop() that waits in the line, _forget_parents() without a new
Line, AsyncQueue.ensure() that is not in the line. All of these but the first and the last hang.
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import part_server
import psycopg
import pytest

from pgfairq import AsyncQueue, Queue, connections

COUNT = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
BLOCKED = COUNT + " AND wait_event_type = 'Lock'"


@pytest.fixture
def ask(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield lambda query, name: connection.execute(query, (name,)).fetchone()[0]


@pytest.fixture
def few(monkeypatch):
    """Three at a time, without end of patience."""
    monkeypatch.setattr(connections, "CALLS", 3)
    monkeypatch.setattr(connections, "PATIENCE", 1000)


def test_many_threads(make_queue, database, ask, few):
    queue = Queue(f"{database} application_name=threads", make_queue().name)
    with ThreadPoolExecutor(30) as threads:
        tasks = [call.result() for call in [threads.submit(queue.enqueue, n) for n in range(90)]]
    assert len(set(tasks)) == 90 and 1 <= ask(COUNT, "threads") <= 3
    queue.close()


def test_many_coroutines(make_queue, database, ask, few):
    name = make_queue().name

    async def main():
        queue = AsyncQueue(f"{database} application_name=coroutines", name, create=True)      # each finds that it may be missing
        tasks = await asyncio.gather(*[queue.enqueue(n) for n in range(90)])
        assert len(set(tasks)) == 90 and 1 <= ask(COUNT, "coroutines") <= 3
        await queue.close()

    asyncio.run(main())


def test_a_call_that_all_others_wait_for(make_queue, database, ask, few, monkeypatch):
    """They wait for a key that a transaction has, whose owner asks for something else first: it is not kept waiting."""
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    queue = Queue(f"{database} application_name=blocked", make_queue().name)
    with psycopg.connect(database) as transaction, ThreadPoolExecutor(3) as threads:
        queue.enqueue(0, unique_key="key", connection=transaction)
        others = [threads.submit(queue.enqueue, n, unique_key="key") for n in range(3)]
        part_server.wait_until(lambda: ask(BLOCKED, "blocked") == 3, "the others wait for the key")
        assert queue.stats().enqueued == 0
        transaction.commit()
        assert len({other.result() for other in others}) == 1
    queue.close()


def test_coroutines_that_wait_for_a_lock(make_queue, database, ask, few, monkeypatch):
    """The same, and some that are in line are cancelled."""
    name = make_queue().name

    async def main():
        queue = AsyncQueue(f"{database} application_name=locked", name)
        async with await psycopg.AsyncConnection.connect(database) as transaction:
            await queue.enqueue(0, unique_key="key", connection=transaction)
            others = [asyncio.create_task(queue.enqueue(n, unique_key="key")) for n in range(3)]
            await asyncio.to_thread(part_server.wait_until, lambda: ask(BLOCKED, "locked") == 3, "the others wait for the key")
            waiting = [asyncio.create_task(queue.enqueue(n)) for n in range(5)]
            while len(queue.source._line._waiting) < 5:
                await asyncio.sleep(0)
            waiting[0].cancel()
            monkeypatch.setattr(connections, "PATIENCE", 0.1)
            await queue.stats()     # in its turn, since it has no more patience
            monkeypatch.setattr(connections, "PATIENCE", 1000)
            await transaction.commit()
        waiting[1].cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert len({await other for other in others}) == 1
        assert isinstance(ended[0], asyncio.CancelledError) and all(isinstance(one, int) for one in ended[2:])
        assert queue.source._line._under_way == 0
        await queue.close()

    asyncio.run(main())


def test_a_turn_that_was_handed_on_in_vain(few):
    """Who is cancelled just then hands it on."""
    async def main():
        line, order = connections.AsyncLine(), []

        async def call(name, gate):
            async with line.turn():
                order.append(name)
                await gate.wait()

        gates = [asyncio.Event() for _ in range(5)]
        calls = [asyncio.create_task(call(n, gate)) for n, gate in enumerate(gates)]
        while len(line._waiting) < 2:
            await asyncio.sleep(0)
        gates[0].set()
        while len(line._waiting) == 2:      # until the first in line is called; it has not gone on yet
            await asyncio.sleep(0)
        calls[3].cancel()
        gates[4].set()
        await calls[4]
        assert order == [0, 1, 2, 4]
        for gate in gates:
            gate.set()
        await asyncio.gather(*calls, return_exceptions=True)
        assert line._under_way == 0

    asyncio.run(main())


def test_a_pop_that_waits_is_in_nobodys_way(make_queue, database, few, monkeypatch):
    monkeypatch.setattr(connections, "CALLS", 1)
    queue = Queue(database, make_queue().name)
    popped = []

    def pop():      # which also comes back when it has done what a worker of the server had not done yet
        while not popped:
            popped.extend(queue.pop(wait=100))

    thread = threading.Thread(target=pop)
    thread.start()
    task = queue.enqueue(1)
    thread.join(120)
    assert [one.id for one in popped] == [task]
    queue.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_has_a_line_of_its_own(make_queue, database, few):
    queue = Queue(database, make_queue().name)
    queue.enqueue(1)
    queue.source._line._under_way = 3       # as if other threads of the parent were calling
    child = os.fork()
    if child == 0:
        try:
            queue.enqueue(2)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.source._line._under_way = 0
    assert queue.stats().enqueued == 2
    queue.close()
