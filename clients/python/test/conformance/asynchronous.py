"""The subject of the adversary (clients/conformance.md): the library with asyncio.

    asynchronous.py work|enqueue|transact|await QUEUE [commit|rollback]
"""

import asyncio
import json
import os
import signal
import sys
import time

import psycopg

from pgfairq import AsyncQueue, AsyncWorker, TaskFailed

queue = AsyncQueue("", sys.argv[2])


async def run(statement, *values):
    """On a connection of its own: whatever becomes of the task."""
    async with await psycopg.AsyncConnection.connect(autocommit=True) as connection:
        cursor = await connection.execute(statement, values)
        return await cursor.fetchall() if cursor.description else None


async def write(table, key):
    await run(f"INSERT INTO conformance.{table} (key, pid) VALUES (%s, %s)", key, os.getpid())


async def begin(payload):
    """Whether it is the first time."""
    await write("started", payload["key"])
    return await run("SELECT count(*) FROM conformance.started WHERE key = %s", payload["key"]) == [(1,)]


async def wait_for(path):
    while path and not os.path.exists(path):
        await asyncio.sleep(0.02)


async def wait(payload):
    await asyncio.sleep(payload.get("ms", 0) / 1000)
    await wait_for(payload.get("until"))


async def end(payload, context):
    """The row and the acknowledgement are one transaction."""
    connection = await context.connection()
    await connection.execute("INSERT INTO conformance.effects (key, pid) VALUES (%s, %s)", (payload["key"], os.getpid()))
    await wait_for(payload.get("hold"))
    return {"key": payload["key"]}


@queue.task("effect")
async def effect(payload, context):
    await begin(payload)
    await wait(payload)
    return await end(payload, context)


@queue.task("plain")
async def plain(payload, context):
    await begin(payload)
    await wait(payload)
    await write("effects", payload["key"])
    await wait_for(payload.get("hold"))
    return {"key": payload["key"]}


def work_on(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@queue.task("compute")
async def compute(payload, context):
    await begin(payload)
    await asyncio.to_thread(work_on, payload["ms"] / 1000)
    return await end(payload, context)


@queue.task("block")
async def block(payload, context):
    first = await begin(payload)
    while first and not os.path.exists(payload["until"]):
        pass
    return await end(payload, context)


@queue.task("fail")
async def fail(payload, context):
    await begin(payload)
    raise RuntimeError(payload["message"])


@queue.task("final")
async def final(payload, context):
    await begin(payload)
    context.fail(payload["message"])


@queue.task("poison")
async def poison(payload, context):
    await begin(payload)
    os.kill(os.getpid(), signal.SIGKILL)


@queue.task("snooze")
async def snooze(payload, context):
    if await begin(payload):
        context.snooze(payload["ms"] / 1000)
    await write("effects", payload["key"])
    return {"key": payload["key"]}


async def enqueue(task, connection=None):
    payload = task.pop("payload")
    return await queue.enqueue(payload, name=payload["do"], connection=connection, **task)


async def main(verb, *rest):
    if verb == "work":
        await AsyncWorker(queue, concurrency=int(os.environ.get("CONCURRENCY", 2)), ttl=float(os.environ.get("LEASE", 2))).run()
        return
    tasks = [json.loads(line) for line in sys.stdin]
    if verb == "enqueue":
        for task in tasks:
            print(json.dumps(await enqueue(task)))
    elif verb == "transact":
        async with await psycopg.AsyncConnection.connect() as connection, connection.transaction(force_rollback=rest == ("rollback",)):
            for task in tasks:
                await connection.execute("INSERT INTO conformance.orders (key) VALUES (%s)", (task["payload"]["key"],))
                await enqueue(task, connection)
    elif verb == "await":
        try:
            print(json.dumps(await queue.await_result(await enqueue(tasks[0]), float(os.environ.get("TIMEOUT", 60)))))
        except TaskFailed as error:
            print(json.dumps({"failed": str(error).splitlines()[0]}))
    await queue.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *sys.argv[3:]))
