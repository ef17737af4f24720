"""pgfairq worker app:queue …"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import queue as queues
import signal
import sys
from typing import Any, List

from ..async_queue import AsyncQueue
from ..async_worker import AsyncWorker
from ..journal import JsonFormatter, TextFormatter
from ..queue import Queue
from ..supervisor import supervise
from ..worker import Signals, Worker

FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


def add_to(commands: Any) -> None:
    parser = commands.add_parser("worker", help="run the handlers of queues", description="""
        Runs the handlers of queues that a module has: app:emails is the Queue or AsyncQueue named emails of module app, which
        is looked for in the current directory, too; app:queues may be a list of them. Queues are served in the order given.
        SIGTERM: claim no more, finish what runs, release the rest; a second one: at once.""")
    parser.add_argument("queues", nargs="+", metavar="MODULE:QUEUE")
    parser.add_argument("-c", "--concurrency", type=int, help="handlers at a time in a process (8; for AsyncQueue 100)")
    parser.add_argument("-p", "--processes", type=int, default=1)
    parser.add_argument("--ttl", type=float, default=30, metavar="SECONDS", help="a worker that hangs so long has lost its tasks (30)")
    parser.add_argument("--finish", type=float, default=30, metavar="SECONDS", help="how long handlers go on after SIGTERM (30)")
    parser.add_argument("--prefetch", type=int, default=100, metavar="N", help="tasks claimed ahead where handlers are quick (100)")
    parser.add_argument("--name", help="of the session, in fairq.sessions and the dashboard (host and process)")
    parser.add_argument("--direct", metavar="CONNINFO", help="for the session, where the queues' connection is a pooler")
    parser.add_argument("--unbound", action="store_true", help="the session does not end with its connection")
    parser.add_argument("--drain", action="store_true", help="end when nothing is left to claim")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.add_argument("--log-format", default="text", choices=["text", "json"], help="json: a line for each record, with fields")
    parser.set_defaults(run=run)


def load(place: str) -> List[Any]:
    """The queues that MODULE:NAME is."""
    module, colon, path = place.partition(":")
    if not (module and colon and path):
        raise ValueError(f"give MODULE:QUEUE, like app:emails, not {place!r}")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(found, name):
            raise LookupError(f"module {module!r} has no {path!r}")
        found = getattr(found, name)
    some = list(found) if isinstance(found, (list, tuple)) else [found]
    for one in some:
        if not isinstance(one, (Queue, AsyncQueue)):
            raise TypeError(f"{place} is no Queue or AsyncQueue, nor a list of these, but {type(one).__name__}")
    return some


def run(given: Any) -> int:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if given.log_format == "json" else TextFormatter(FORMAT))
    logging.basicConfig(level=given.log_level, handlers=[handler])
    sys.path.insert(0, os.getcwd())
    served = [one for place in given.queues for one in load(place)]
    options = dict(ttl=given.ttl, finish=given.finish, prefetch=given.prefetch, direct=given.direct, bound=not given.unbound,
                   name=given.name)
    if given.concurrency is not None:
        options["concurrency"] = given.concurrency
    if isinstance(served[0], Queue):
        Worker(served, processes=given.processes, **options).run(drain=given.drain)
        return 0
    worker = AsyncWorker(served, **options)
    if given.processes == 1:
        asyncio.run(worker.run(drain=given.drain))
        return 0
    orders: "queues.SimpleQueue[str]" = queues.SimpleQueue()
    with Signals(lambda now: orders.put("abort" if now else "stop"), (signal.SIGTERM, signal.SIGINT)):
        supervise(lambda: asyncio.run(worker.run(drain=given.drain)), worker.stop, given.processes, orders)
    return 0
