"""pgfairq stats, peek, dead"""

from __future__ import annotations

import sys
import time
from typing import Any, List

from .. import statements
from ..connections import Source
from ..models import QueueStats
from ..queue import Queue
from ..values import printable
from .output import Json, cell, print_json, span, table

STATS = (("queue", "queue"), ("ready", "ready"), ("leased", "leased"), ("scheduled", "scheduled"), ("held", "held"), ("dead", "dead"),
         ("oldest", "oldest_ready_age"), ("enq/s", "enqueue_rate"), ("ack/s", "ack_rate"), ("wait p50", "wait_p50"),
         ("wait p95", "wait_p95"), ("run p50", "run_p50"), ("run p95", "run_p95"), ("failed", "nacked"), ("expired", "expired"))


def add_to(commands: Any) -> None:
    parser = commands.add_parser("stats", help="a live table of the queues", description="""
        Queues with depth, rates of the last minute, and how long tasks waited and ran. On a terminal the table is drawn anew every
        second, until Ctrl-C.""")
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help="only these")
    parser.add_argument("--once", action="store_true", help="print it once")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="once, with durations in seconds")
    parser.set_defaults(run=stats)

    parser = commands.add_parser("peek", help="the tasks that would be claimed next")
    parser.add_argument("queue")
    parser.add_argument("-n", type=int, default=10, dest="count")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=peek)

    parser = commands.add_parser("dead", help="the tasks whose attempts are used up, with their errors")
    parser.add_argument("queue")
    parser.add_argument("-n", type=int, default=20, dest="count")
    parser.add_argument("--full", action="store_true", help="with payload and the whole error")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=dead)


def read(source: Source, names: List[str]) -> List[QueueStats]:
    rows = source.run(statements.stats(None))
    missing = set(names) - {row.queue for row in rows}
    if missing:
        raise LookupError(f"there is no queue {', '.join(sorted(map(repr, missing)))}, or it is not yours to read")
    return [row for row in rows if not names or row.queue in names]


def stats(given: Any) -> int:
    source = Source(given.database)
    if not 0.05 <= given.interval <= 86400:
        raise ValueError(f"--interval must be from 0.05 to 86400 seconds, not {given.interval}")
    if given.json:
        print_json(read(source, given.queues))
        return 0
    drawn = 0
    live = sys.stdout.isatty() and not given.once
    while True:
        rows = [[getattr(row, field) for _, field in STATS] for row in read(source, given.queues)]
        lines = table([title for title, _ in STATS], rows)
        if drawn:
            print(f"\033[{drawn}A\033[J", end="")   # back to the first line, and clear from there
        print("\n".join(lines), flush=True)
        if not live:
            return 0
        drawn = len(lines)
        time.sleep(given.interval)


def peek(given: Any) -> int:
    tasks = Queue(given.database, given.queue).peek(given.count)
    if given.json:
        print_json(tasks)
        return 0
    print("\n".join(table(["id", "name", "group", "subgroup", "priority", "attempt", "enqueued", "payload"], [
        [str(one.id), one.name, one.group, one.subgroup, one.priority, one.attempt, one.enqueued_at, Json(one.payload)] for one in tasks])))
    return 0


def dead(given: Any) -> int:
    tasks = Queue(given.database, given.queue).dead(given.count)
    if given.json:
        print_json(tasks)
    elif given.full:
        for one in tasks:
            print(f"task {one.id}, name {cell(one.name, 100)}, group {cell(one.group, 1000)}, subgroup {cell(one.subgroup, 1000)},"
                  f" {one.attempts} attempts, lost {one.lost} times, enqueued {cell(one.enqueued_at)}")
            print(f"  payload {cell(Json(one.payload), 10000)}")
            for line in (one.last_error or "").split("\n"):
                print(f"  {printable(line)}")
            for end in one.history:
                print(f"  {cell(end.at)} attempt {end.attempt} {printable(end.end)} after {span(end.seconds)}, {cell(end.worker, 200)}:"
                      f" {cell((end.error or '').split(chr(10))[0], 200)}")
            print()
    else:
        print("\n".join(table(["id", "name", "group", "subgroup", "attempts", "lost", "enqueued", "error"], [
            [str(one.id), one.name, one.group, one.subgroup, one.attempts, one.lost, one.enqueued_at, (one.last_error or "").split("\n")[0]]
            for one in tasks])))
    return 0
