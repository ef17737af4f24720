"""The Python library and a cluster: all at the proxy, producers and workers.

usage: proxy_clients.py sync|async PROXY WORKERS

Its workers go to the nodes that the proxy names, each with handlers that write what
they do in the transaction of the task, at its node. It does what it is told, a line
each, and answers each with a line:

    enqueue N      tasks, of groups that are spread over the nodes
    slow N SECONDS the same, whose handlers take so long
    end            workers end in order; "done N, repeated N, attempts N", of all
"""

import asyncio
import collections
import logging
import sys
import threading
import time

import psycopg
from pgfairq import AsyncQueue, AsyncWorker, Queue, Worker

logging.basicConfig(level="INFO", format="# %(asctime)s %(message)s")
kind, proxy, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
WRITE = "INSERT INTO done VALUES (%s, %s)"
attempts = collections.Counter()
queue = Queue(proxy, "jobs")


def a_worker():
    if kind == "sync":
        one = Queue(proxy, "jobs")

        @one.task()
        def note(payload, context):
            time.sleep(payload["takes"])
            context.connection.execute(WRITE, (context.id, context.attempt))
            attempts[context.attempt] += 1

        worker = Worker(one, concurrency=4)
        thread = threading.Thread(target=worker.run)
    else:
        several = AsyncQueue(proxy, "jobs")

        @several.task()
        async def note_too(payload, context):
            await asyncio.sleep(payload["takes"])
            await (await context.connection()).execute(WRITE, (context.id, context.attempt))
            attempts[context.attempt] += 1

        worker = AsyncWorker(several, concurrency=4)
        thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    return worker, thread


workers = [a_worker() for _ in range(count)]
print("ready", flush=True)
for line in sys.stdin:
    word, *values = line.split()
    if word == "end":
        break
    takes = float(values[1]) if word == "slow" else 0
    number = int(values[0])
    for done in range(0, number, 10):
        while True:
            try:
                queue.enqueue_many([{"takes": takes}] * min(10, number - done), group=[f"g{n % 97}" for n in range(done, min(done + 10, number))])
                break
            except psycopg.OperationalError as error:   # of a node that was dead before
                print(f"# {error}", file=sys.stderr)
    print(f"enqueued {number}", flush=True)
for worker, thread in workers:
    worker.stop()
for worker, thread in workers:
    thread.join()
print(f"attempts {', '.join(str(attempt) for attempt in sorted(attempts))}", flush=True)
