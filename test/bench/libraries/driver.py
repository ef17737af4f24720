"""What the bench has pgfairq's library for Python do.

    driver.py threads|asyncio ROLE OPTIONS

ROLE is setup, fill, send or work, and OPTIONS is JSON, as in driver.mjs.
"""

import asyncio
import json
import logging
import sys
import time

from pgfairq import AsyncQueue, AsyncWorker, Queue, Worker

from recorder import Recorder

FILL_BATCH = 5000


def fill(options):
    queue = Queue(options["conninfo"], "bench")
    job = {"ms": options["ms"], "tenant": options["tenant"]}
    for sent in range(0, options["jobs"], FILL_BATCH):
        queue.enqueue_many([job] * min(FILL_BATCH, options["jobs"] - sent), group=options["tenant"])


def send(options):
    queue = Queue(options["conninfo"], "bench")
    for _ in range(options["count"]):
        queue.enqueue({"ms": 0, "tenant": options["tenant"], "t": str(time.monotonic_ns())}, group=options["tenant"])
        time.sleep(options["gap"] / 1000)


def work_threads(options):
    recorder = Recorder(options["notes"])
    queue = Queue(options["conninfo"], "bench")

    @queue.task()
    def bench(job, context):
        recorder.handle(job)

    Worker(queue, concurrency=options["concurrency"], prefetch=options["ahead"]).run()


def work_asyncio(options):
    recorder = Recorder(options["notes"])
    queue = AsyncQueue(options["conninfo"], "bench")

    @queue.task()
    async def bench(job, context):
        recorder.arrived(job)
        if job["ms"]:
            await asyncio.sleep(job["ms"] / 1000)
        recorder.done()

    asyncio.run(AsyncWorker(queue, concurrency=options["concurrency"], prefetch=options["ahead"]).run())


def main():
    system, role, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    logging.basicConfig(level=logging.WARNING)
    if role == "work":
        {"threads": work_threads, "asyncio": work_asyncio}[system](options)
    else:
        {"setup": lambda _: None, "fill": fill, "send": send}[role](options)


if __name__ == "__main__":
    main()
