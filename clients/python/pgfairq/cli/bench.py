"""pgfairq bench"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, List

from ..context import Context
from ..queue import Queue
from ..worker import Worker
from .output import Bar, print_json, span

BATCH = 1000


def add_to(commands: Any) -> None:
    parser = commands.add_parser("bench", help="how fast this server and this machine are", description="""
        Enqueues tasks into a queue of its own, works them off, and measures how long an idle worker takes to begin one. Then
        drops the queue.""")
    parser.add_argument("-n", type=int, default=20000, dest="count", metavar="TASKS")
    parser.add_argument("-c", "--concurrency", type=int, default=10)
    parser.add_argument("--groups", type=int, default=10, help="tenants")
    parser.add_argument("--milliseconds", type=float, default=0.0, help="that a handler sleeps")
    parser.add_argument("--transaction", action="store_true", help="each handler writes in the transaction of its task")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(given: Any) -> int:
    if given.count < 1 or given.groups < 1 or given.milliseconds < 0:
        raise ValueError("-n and --groups must be 1 or more, --milliseconds not below 0")
    queue = Queue(given.database, f"pgfairq bench {os.getpid()}", create=True)
    done = [0]
    latencies: List[float] = []

    @queue.task()
    def handle(payload: Any, context: Context) -> None:
        if given.transaction:
            context.connection.execute("SELECT 1")
        if given.milliseconds:
            time.sleep(given.milliseconds / 1000)
        done[0] += 1

    @queue.task("latency")
    def latency(payload: Any, context: Context) -> None:
        latencies.append(time.time() - payload)

    try:
        figures = {"enqueued_per_second": fill(queue, given), "done_per_second": drain(queue, given, done)}
        figures.update(idle(queue, latency, latencies))
    finally:
        queue.drop()
    if given.json:
        print_json(figures)
    else:
        print(f"enqueue, {BATCH:,} at a time   {figures['enqueued_per_second']:10,.0f} tasks/s")
        print(f"handled by {given.concurrency:4,} at a time  {figures['done_per_second']:10,.0f} tasks/s")
        print(f"enqueue to handler, idle   {span(figures['latency_p50']):>10} median, {span(figures['latency_p95'])} for 95 %")
    return 0


def fill(queue: Queue, given: Any) -> float:
    bar = Bar("enqueued", given.count)
    began = time.monotonic()
    for first in range(0, given.count, BATCH):
        numbers = range(first, min(given.count, first + BATCH))
        queue.enqueue_many([{"n": n} for n in numbers], group=[n % given.groups for n in numbers])
        bar.at(numbers[-1] + 1)
    bar.end()
    return float(given.count / (time.monotonic() - began))


def drain(queue: Queue, given: Any, done: List[int]) -> float:
    worker = Worker(queue, concurrency=given.concurrency)
    bar = Bar("handled", given.count)
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(0.1):
            bar.at(done[0])

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    began = time.monotonic()
    try:
        worker.run(drain=True)
    finally:
        seconds = time.monotonic() - began
        ended.set()
        watcher.join()
        bar.end()
    return done[0] / seconds


def idle(queue: Queue, latency: Any, latencies: List[float], rounds: int = 100) -> Dict[str, float]:
    worker = Worker(queue)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        for n in range(rounds + 1):
            latency.enqueue(time.time())
            while len(latencies) <= n and thread.is_alive():
                time.sleep(0.005)
    finally:
        worker.stop()
        thread.join()
    measured = sorted(latencies[1:])    # the first one finds a worker that is just starting
    return {"latency_p50": measured[len(measured) // 2], "latency_p95": measured[len(measured) * 95 // 100]}
