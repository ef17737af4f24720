"""What Worker and AsyncWorker share: options, and which handler a task has."""

from __future__ import annotations

from typing import Any, Callable, Generic, List, Optional, TypeVar, overload

import psycopg

from .delivery import Delivery
from .errors import Exceptions, exceptions
from .handlers import Registered, Registry, task_name
from .hooks import OF_TASKS, OF_WORKERS, Calls, F, Functions, Hooks, once
from .journal import log
from .pace import is_hopeless
from .place import Node
from .report import first_line
from .session_base import SessionOver, default_name
from .values import Duration, seconds, text

S = TypeVar("S")
MOST_QUEUES = 32    # of one claim


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
        self.by_name = {queue.name: queue for queue in self.queues}
        self.source: S = self.queues[0].source
        self.options = options
        self.hooks = Hooks(type(self).__name__, (*OF_TASKS, *OF_WORKERS), self.queues[0].is_async)

    @overload
    def on(self, event: str) -> Callable[[F], F]: ...

    @overload
    def on(self, event: str, function: F) -> F: ...

    def on(self, event: str, function: Optional[F] = None) -> Any:
        """Call the function on an event, as on("failed", function) or as the decorator @on("failed"): "before",
        "after", "failed", "lost" and "dead" of tasks of all its queues, "start" and "stop" of the worker."""
        return self.hooks.on(event, function)

    def calls_of(self, queue: str) -> Calls:
        """On events of the queue's tasks: its own, then the worker's."""
        own: Hooks = self.by_name[queue].hooks
        return Calls(*(own.of(event) + self.hooks.of(event) for event in OF_TASKS))

    def own_functions(self, event: str) -> Functions:
        """On "start" and "stop": a function that several queues have is called once."""
        return tuple(once((*(function for one in self.queues for function in one.hooks.of(event)), *self.hooks.of(event))))

    def handlers(self) -> List[str]:
        """Their names, for the log; "*" is the one for all others."""
        return sorted({"*" if name is None else name for queue in self.queues for name in queue.registry.handlers})

    def look_at_types(self) -> None:
        """TypeError: the types of a handler cannot be read. Before it has a task."""
        for queue in self.queues:
            for handler in queue.registry.handlers.values():
                handler.types

    def find(self, delivery: Delivery, headers: Any) -> Registered:
        """The handler of a task."""
        registry: Registry = self.by_name[delivery.queue].registry
        if delivery.name is None and headers is not None:
            delivery.name = task_name(None, headers)
        return registry.find(delivery.name)

    def trouble(self, error: Exception, pause: float, node: Optional[Node]) -> None:
        """The session ended with this error. Raises it if no later one will fare better: another node may."""
        if node is None and isinstance(error, psycopg.Error) and is_hopeless(error):
            raise error
        if not isinstance(error, (psycopg.Error, SessionOver, OSError)):
            raise error
        log.warning("%s%s; a new session in %.1f s", "" if node is None else f"node {node.number}: ", first_line(error), pause)
