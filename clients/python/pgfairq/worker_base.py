"""What Worker and AsyncWorker share: options, and which handler a task has."""

from __future__ import annotations

import logging
from typing import Any, Generic, List, Optional, Sequence, Tuple, TypeVar

import psycopg

from .delivery import Delivery, Settlement
from .errors import Exceptions, NoConnection, exceptions
from .handlers import Registered, Registry, task_name
from .pace import is_hopeless
from .place import Node
from .report import first_line
from .session import SessionOver, default_name
from .values import Duration, seconds, text

log = logging.getLogger("pgfairq")

S = TypeVar("S")
MOST_QUEUES = 32    # of one claim
ROUNDS_OF_DOUBT = 60


class Options:
    """The arguments of a worker, checked."""

    def __init__(self, concurrency: int, ttl: Duration, finish: Duration, prefetch: int, bound: bool, name: Optional[str],
                 give_up_on: Exceptions) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= 10000:
            raise ValueError(f"concurrency must be a number from 1 to 10000, not {concurrency!r}")
        if isinstance(prefetch, bool) or not isinstance(prefetch, int) or not 0 <= prefetch <= 10000:
            raise ValueError(f"prefetch must be a number from 0 to 10000, not {prefetch!r}")
        self.concurrency = concurrency
        self.prefetch = prefetch
        self.ttl = seconds(ttl, "ttl")
        self.finish = seconds(finish, "finish")
        if not 1 <= self.ttl <= 86400:
            raise ValueError(f"ttl must be from a second to a day, not {ttl!r}")
        if self.finish < 0:
            raise ValueError(f"finish must not be below 0: {finish!r}")
        self.bound = bound
        self.name = None if name is None else text(name, "name")
        self.give_up_on = exceptions(give_up_on, "give_up_on")

    def session_name(self) -> str:
        return self.name or default_name()


class WorkerBase(Generic[S]):
    def __init__(self, queues: Any, kind: Any, options: Options) -> None:
        self.queues: List[Any] = list(queues) if isinstance(queues, (list, tuple)) else [queues]
        if not 1 <= len(self.queues) <= MOST_QUEUES:
            raise ValueError(f"a worker has 1 to {MOST_QUEUES} queues, not {len(self.queues)}")
        for queue in self.queues:
            if not isinstance(queue, kind):
                raise TypeError(f"{type(self).__name__} takes queues of type {kind.__name__}, not {queue!r}")
            if not queue.registry.handlers:
                raise ValueError(f"queue {queue.name!r} has no handler: decorate a function with @queue.task(\"name\")")
            if queue.source.given != self.queues[0].source.given:
                raise ValueError(f"queue {queue.name!r} has another connection than {self.queues[0].name!r}: a worker claims"
                                 " from all its queues in one database; give them one connection string, pool or function")
        self.names = [queue.name for queue in self.queues]
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"a queue is named twice: {', '.join(self.names)}; register its handlers with one object")
        self.registries = {queue.name: queue.registry for queue in self.queues}
        self.source: S = self.queues[0].source
        self.options = options

    def find(self, delivery: Delivery, headers: Any) -> Registered:
        """The handler of a task, with what to give up on of its own and of the worker."""
        registry: Registry = self.registries[delivery.queue]
        delivery.name = task_name(delivery.name, headers)
        function, give_up_on = registry.find(delivery.name)
        return Registered(function, give_up_on + self.options.give_up_on)

    def trouble(self, error: Exception, pause: float, node: Optional[Node]) -> None:
        """The session ended with this error. Raises it if no later one will fare better: another node may."""
        if node is None and isinstance(error, psycopg.Error) and is_hopeless(error):
            raise error
        if not isinstance(error, (psycopg.Error, SessionOver, OSError)):
            raise error
        log.warning("%s%s; a new session in %.1f s", "" if node is None else f"node {node.number}: ", first_line(error), pause)


def lost_ones(some: Sequence[Settlement], done: Sequence[str]) -> Tuple[List[Settlement], List[Settlement]]:
    """Of settlements that the server was told: those whose lease was lost, and those to be told again.

    A transaction that has acknowledged, and whose connection is gone, may hold the lease
    until the server has noticed.
    """
    receipts = set(done)
    missing = [settlement for settlement in some if settlement.receipt not in receipts]
    again = [settlement for settlement in missing if settlement.doubtful and settlement.tries < ROUNDS_OF_DOUBT]
    for settlement in again:
        settlement.tries += 1
    return [settlement for settlement in missing if not settlement.doubtful], again


def tell_lost(settlement: Settlement) -> None:
    log.warning("%s: the %s came too late, the lease was lost", settlement.delivery, settlement.kind)


def tell_stopping(running: int, finish: float) -> None:
    log.info("stopping: no more tasks are claimed, and %d that run have %g s to finish", running, finish)


def tell_failed(settlement: Settlement, error: BaseException) -> None:
    if isinstance(error, NoConnection):
        log.warning("%s: given back, %s", settlement.delivery, error)
    if settlement.kind == "nack":
        log.warning("%s: attempt %d failed%s: %s", settlement.delivery, settlement.delivery.attempt,
                    ", and there will be no other" if settlement.final else "",
                    (settlement.error or "").split("\n", 1)[0])


