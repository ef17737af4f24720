"""AsyncQueue and AsyncWorker: what test_queue.py and test_worker.py show of the others, as far as it has code of its own.

Seen to fail: AsyncContext._rollback() without cancel() (the statement goes on at the
server), AsyncContext._lose() without cancel(), AsyncSession.close() without
close_session() (the attempt is counted).
"""

import asyncio
import threading
from contextlib import asynccontextmanager

import psycopg
import psycopg_pool
import pytest

from pgfairq import AsyncQueue, AsyncWorker, AwaitTimeout, LeaseLost, TaskFailed


async def until(condition, what, patience=120):
    for _ in range(patience * 50):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {patience} s: {what}")


@asynccontextmanager
async def running(worker):
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        worker.stop()
        await asyncio.wait_for(task, 120)


@pytest.fixture
def name(request):
    return request.node.name[:40]


def test_queue(database, name):
    async def main():
        queue = AsyncQueue(database, name, max_attempts=1, keep_done=3600)
        task = await queue.enqueue({"n": 1}, group=42, delay=3600)
        assert (await queue.get(task)).group == "42" and (await queue.get(task)).state == "scheduled"
        assert await queue.cancel(task)
        assert len(await queue.enqueue_many([1, 2, 3], group=[1, 2, 3], headers={"h": 1})) == 3
        assert [one.group for one in await queue.peek()] == ["1", "2", "3"]
        async with await psycopg.AsyncConnection.connect(database) as transaction:
            await queue.enqueue(4, connection=transaction)
            await transaction.rollback()
        assert (await queue.stats()).ready == 3 == await queue.purge()
        with pytest.raises(TypeError, match="must not be None"):
            await queue.purge_group(None)
        with pytest.raises(AwaitTimeout):
            await queue.await_result(await queue.enqueue(5), timeout=0)
        assert await queue.schedule(name, "@hourly") and await queue.unschedule(name)
        await queue.subscribe("a.*")
        assert await queue.publish("a.b", {}) == 1
        async with psycopg_pool.AsyncConnectionPool(database, min_size=1, max_size=2) as pool:
            assert await AsyncQueue(pool, name).enqueue(6)
            async with pool.connection() as connection:
                assert not connection.autocommit
        await queue.close()
        return queue

    queue = asyncio.run(main())
    assert asyncio.run(queue.stats()).ready == 3    # in another event loop


def test_handlers(database, name):
    seen = []

    async def main():
        queue = AsyncQueue(database, name, max_attempts=1, keep_done=3600, backoff_base=0)

        @queue.task("write")
        async def write(payload, context):
            connection = await context.connection()
            await connection.execute("INSERT INTO written VALUES (%s, %s)", (context.id, payload))
            await context.progress(1)
            assert await context.extend(60)
            if payload == 3:
                context.snooze(0) if len(seen) < 1 and not seen.append(3) else None
            return 10 // payload

        @queue.task()
        async def other(payload, context):
            seen.append(payload)

        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            await connection.execute("CREATE TABLE written (task bigint, n int)")
            tasks = await write.enqueue_many([0, 1, 2, 3])
            await queue.enqueue("plain")
            await AsyncWorker(queue, concurrency=3).run(drain=True)
            rows = await (await connection.execute("SELECT n FROM written ORDER BY n")).fetchall()
        assert rows == [(1,), (2,), (3,)] and "plain" in seen
        assert await queue.await_result(tasks[2]) == 5
        with pytest.raises(TaskFailed, match="ZeroDivisionError"):
            await queue.await_result(tasks[0])
        with pytest.raises(TypeError, match="AsyncQueue has coroutines"):
            queue.task("c")(lambda payload, context: None)

    asyncio.run(main())


def test_many(database, name):
    """Each task once, whatever is claimed ahead, and results of all of them."""
    async def main():
        queue = AsyncQueue(database, name, keep_done=3600)

        @queue.task()
        async def handle(payload, context):
            if payload % 7 == 0:
                await asyncio.sleep(0.001)
            return payload

        await queue.enqueue_many(list(range(3000)))
        await AsyncWorker(queue, concurrency=10).run(drain=True)
        async with await psycopg.AsyncConnection.connect(database) as connection:
            rows = await (await connection.execute("SELECT result FROM fairq.done_tasks WHERE queue = %s", (name,))).fetchall()
        assert sorted(row[0] for row in rows) == list(range(3000))

    asyncio.run(main())


def test_a_lease_lost_in_the_handler(database, name):
    seen = []

    async def main():
        queue = AsyncQueue(database, name, create=True)

        @queue.task()
        async def handle(payload, context):
            connection = await context.connection()
            if payload == "second":
                seen.append((await (await connection.execute("SELECT 2")).fetchone())[0])
                return
            await connection.execute("CREATE TABLE in_vain ()")
            seen.append("began")
            try:
                await connection.execute("SELECT 1 FROM pg_sleep(300)")
            except asyncio.CancelledError:
                seen.append(context.cancelled)
                with pytest.raises(LeaseLost):
                    await context.connection()
                raise

        task = await queue.enqueue("first")

        async def began():
            return bool(seen)

        async def both():
            return len(seen) == 3

        async with running(AsyncWorker(queue, ttl=8, concurrency=1)):
            await until(began, "it runs")
            assert await queue.cancel(task)
            await queue.enqueue("second")
            await until(both, "cancelled, and the next one is handled")
        async with await psycopg.AsyncConnection.connect(database) as connection:
            row = await (await connection.execute("SELECT to_regclass('in_vain')")).fetchone()
            assert row == (None,)

            async def ended():
                await connection.rollback()
                sleeps = "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(300)%' AND state = 'active' AND pid <> pg_backend_pid()"
                return not await (await connection.execute(sleeps)).fetchall()

            await until(ended, "its statement has ended at the server")

    asyncio.run(main())
    assert seen == ["began", True, 2]


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_what_does_not_finish_is_released(database, name, how):
    """stop(now=True) from another thread, and the cancellation of run()."""
    async def main():
        queue, begun = AsyncQueue(database, name, create=True), asyncio.Event()

        @queue.task()
        async def handle(payload, context):
            begun.set()
            await asyncio.sleep(3600)

        await queue.enqueue(1)
        worker = AsyncWorker(queue)
        task = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), 120)
        if how == "stop":
            threading.Thread(target=worker.stop, args=(True,)).start()
            await asyncio.wait_for(task, 120)
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        stats = await queue.stats()
        assert (stats.ready, stats.released, stats.nacked, stats.expired) == (1, 1, 0, 0)

    asyncio.run(main())


def test_a_queue_that_is_not_there(database):
    queue = AsyncQueue(database, "not there")

    async def handle(payload, context):
        pass

    queue.task()(handle)
    with pytest.raises(psycopg.errors.UndefinedObject):
        asyncio.run(AsyncWorker(queue).run())
