"""What an application is told of: its functions, by event, in the order in which they were given."""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

log = logging.getLogger("pgfairq")

OF_TASKS = ("before", "after", "failed", "lost", "dead")
OF_WORKERS = ("start", "stop")

F = TypeVar("F", bound=Callable[..., Any])
Functions = Tuple[Callable[..., Any], ...]


@dataclass
class Sending:
    """What the functions of "enqueue" get, before tasks are sent; they may write into `headers`."""

    queue: Optional[str]            # None: of a topic
    topic: Optional[str]
    name: Optional[str]             # of all these tasks; None: they have none, or not the same
    count: int
    headers: Dict[str, Any]         # for each of the tasks, beside its own, which go first


class Ending(NamedTuple):
    """How an attempt has ended, for the functions of all events of tasks but "before"."""

    outcome: str                    # "done", "failed", "dead", "snoozed", "released" (given back), "lost"
    seconds: float                  # that it took
    result: Any = None              # of one that is done: what the handler returned
    error: Optional[BaseException] = None


def is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


class Calls(NamedTuple):
    """What is called on the events of a queue's tasks, in the order of OF_TASKS."""

    before: Functions
    after: Functions
    failed: Functions
    lost: Functions
    dead: Functions


class Hooks:
    """Of a queue or a worker."""

    def __init__(self, owner: str, events: Sequence[str], is_async: bool) -> None:
        self.owner = owner
        self.events = tuple(events)
        self.is_async = is_async
        self._functions: Dict[str, Functions] = {}

    def add(self, event: str, function: Callable[..., Any]) -> None:
        if event not in self.events:
            raise ValueError(f"{self.owner} has no event {event!r}, but {', '.join(map(repr, self.events))}")
        if not callable(function):
            raise TypeError(f"what is called on {event!r} must be a function, not {function!r}")
        if is_coroutine_function(function) and (not self.is_async or event == "enqueue"):
            raise TypeError(f"{function!r} is a coroutine, which {self.owner} cannot call on {event!r}: give a function without async")
        self._functions[event] = (*self._functions.get(event, ()), function)

    def of(self, event: str) -> Functions:
        return self._functions.get(event, ())

    def on(self, event: str, function: Optional[F] = None) -> Any:
        """on(event, function), or the decorator @on(event)."""
        if function is not None:
            self.add(event, function)
            return function

        def register(function: F) -> F:
            self.add(event, function)
            return function

        return register


def once(functions: Functions) -> List[Callable[..., Any]]:
    """Each of them once, in their order."""
    return list(dict.fromkeys(functions))


def call(functions: Functions, *arguments: Any) -> None:
    """One that fails is of no consequence for others, nor for the task."""
    for function in functions:
        try:
            function(*arguments)
        except (Exception, SystemExit):     # which would end the thread of a worker
            log.exception("%r failed, which is called on an event", function)


async def call_one(function: Callable[..., Any], *arguments: Any) -> None:
    """With asyncio, where it may be a coroutine."""
    returned = function(*arguments)
    if asyncio.iscoroutine(returned):
        await returned


async def call_async(functions: Functions, *arguments: Any) -> None:
    for function in functions:
        try:
            await call_one(function, *arguments)
        except Exception:
            log.exception("%r failed, which is called on an event", function)


class Teller:
    """A thread that calls functions when the thread that knows of an event has more urgent things to do."""

    def __init__(self) -> None:
        self._calls: "queue.SimpleQueue[Optional[Tuple[Functions, Tuple[Any, ...]]]]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()

    def tell(self, functions: Functions, *arguments: Any) -> None:
        if not functions:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="pgfairq hooks", daemon=True)
                self._thread.start()
        self._calls.put((functions, arguments))

    def close(self, seconds: float) -> None:
        """Once what was told is done, or the time is over."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join(seconds)

    def _serve(self) -> None:
        while True:
            told = self._calls.get()
            if told is None:
                return
            call(told[0], *told[1])
