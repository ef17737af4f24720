"""Which function handles which task: the one of the task's name; and what is said of a handler's tasks."""

from __future__ import annotations

import inspect
import logging
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from .errors import exceptions
from .hooks import is_coroutine_function
from .payloads import Typed, Unread, annotated
from .values import Duration, duration, seconds, text
from .values import task_name as checked

log = logging.getLogger("pgfairq")

HEADER = "task"     # where the name was before tasks had one

P = TypeVar("P")    # a handler's payload
R = TypeVar("R")    # and its result

Backoffs = Union[Duration, Sequence[Duration], Callable[[int], Any]]    # which returns a Duration, for an attempt from 1 on


class NoHandler(LookupError):
    """The worker has no function for a task."""


def checked_backoff(value: Any) -> Any:
    """A time, times for one attempt after the other, or a function of the attempt."""
    if value is None or callable(value):
        return value
    some = [duration(one, "backoff") for one in (value if isinstance(value, (list, tuple)) else [value])]
    if not some or any(one is None or one < timedelta() for one in some):
        raise ValueError(f"backoff must be a time from 0 on, such as 30, or a list of these, such as [1, 10, 60], not {value!r}")
    return some


def checked_number(value: Any, name: str, least: Optional[int] = None) -> Optional[int]:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)):
        return value
    raise ValueError(f"{name} must be a whole number{'' if least is None else f' from {least} on'}, not {value!r}")


def checked_function(value: Any, name: str) -> Optional[Callable[[Any], Any]]:
    if value is None or (callable(value) and not is_coroutine_function(value)):
        function: Optional[Callable[[Any], Any]] = value
        return function
    raise TypeError(f"{name} of a handler must be a function of the payload, such as lambda payload: payload[\"tenant\"], not {value!r}")


def checked_cost(value: Any) -> Any:
    if callable(value):
        return checked_function(value, "cost")
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0):
        return value
    raise ValueError(f"cost must be a number above 0, or a function of the payload, not {value!r}")


OF_SCHEDULES = ("group", "subgroup", "priority", "cost")    # which a scheduled task has; all else is of those that are enqueued
OF_KEYS = ("unique_for", "on_duplicate")                    # which only a task with a unique key has


def of_tasks(given: Mapping[str, Any]) -> Dict[str, Any]:
    """What a handler says of its tasks: values, and functions of the payload."""
    on_duplicate = given.get("on_duplicate")
    said = {"max_attempts": checked_number(given.get("max_attempts"), "max_attempts", 0),
            "max_lost": checked_number(given.get("max_lost"), "max_lost", 0),
            "priority": checked_number(given.get("priority"), "priority"), "cost": checked_cost(given.get("cost")),
            "lease": duration(given.get("lease"), "lease"), "unique_for": duration(given.get("unique_for"), "unique_for"),
            "on_duplicate": None if on_duplicate is None else text(on_duplicate, "on_duplicate"),
            **{name: checked_function(given.get(name), name) for name in ("group", "subgroup", "unique_key")}}
    for name in OF_KEYS:
        if said[name] is not None and said["unique_key"] is None:
            raise ValueError(f"{name} of a handler is for tasks with a key: give it unique_key, a function of the payload, too")
    return {name: value for name, value in said.items() if value is not None}


def check_parameters(function: Callable[..., Any]) -> None:
    """A worker calls it with two arguments; without this look its first task would say that it cannot."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):     # a built-in function that has none
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise TypeError(f"a handler must take two arguments, the payload and the context, as in def send(payload, context); {function!r}"
                        f" takes {signature}") from None


@dataclass
class Registered:
    """A handler, as a worker has it."""

    function: Callable[..., Any]
    give_up_on: Tuple[Type[Exception], ...] = ()    # these make its task dead at once
    backoff: Any = None                             # None: the queue's
    timeout: Optional[float] = None
    place: Optional[Mapping[str, Any]] = None       # names of where it was made, until its types are read
    _types: Optional[Tuple[Typed, Typed]] = None

    @property
    def types(self) -> Tuple[Typed, Typed]:
        """Of the payload and of the result."""
        if self._types is None:
            self._types = annotated(self.function, "payload", self.place), annotated(self.function, "return", self.place)
            self.place = None
        return self._types

    def payload(self, value: Any) -> Any:
        """For the function, of what is in JSON."""
        return self.types[0].from_json(value, "the payload")

    def result(self, value: Any) -> Any:
        """For JSON, of what the function has returned."""
        return self.types[1].to_json(value, "the handler's result")

    def delay(self, attempt: int) -> Optional[timedelta]:
        """Until the next attempt, after this one; None: as the queue has it."""
        if not callable(self.backoff):
            return self.backoff[min(attempt, len(self.backoff)) - 1] if self.backoff else None
        try:
            found = duration(self.backoff(attempt), "the delay of a backoff")
            if found is not None and found < timedelta():
                raise ValueError(f"the delay of a backoff is below 0: {found!r}")
            return found
        except Exception as error:
            log.error("the backoff of %r failed, so the queue's is taken: %s: %s", self.function, type(error).__name__, error)
            return None


class Registry:
    """The handlers of a queue by name; None is the name of the one for all others."""

    def __init__(self, queue: str, is_async: bool) -> None:
        self.queue = queue
        self.is_async = is_async
        self.handlers: Dict[Optional[str], Registered] = {}

    def add(self, name: Optional[str], function: Callable[..., Any], given: Mapping[str, Any]) -> Registered:
        if not callable(function):
            raise TypeError(f"a handler must be a function, not {function!r}; write @queue.task(\"name\"), with parentheses")
        if is_coroutine_function(function) != self.is_async:
            wanted = "a coroutine (async def)" if self.is_async else "a function, not a coroutine"
            raise TypeError(f"the handler {function!r} must be {wanted}; Queue has functions, AsyncQueue has coroutines")
        check_parameters(function)
        if name is not None:
            checked(name, "the name of a task")
        if name in self.handlers:
            what = "a default handler" if name is None else f"a handler for task {name!r}"
            raise ValueError(f"queue {self.queue!r} has {what} already: {self.handlers[name].function!r}")
        timeout = given.get("timeout")
        made = Registered(function, exceptions(given.get("give_up_on", ()), "give_up_on"), checked_backoff(given.get("backoff")),
                          None if timeout is None else seconds(timeout, "timeout"))
        if made.timeout is not None and made.timeout <= 0:
            raise ValueError(f"timeout must be above 0, not {timeout!r}")
        self.handlers[name] = made
        return made

    def find(self, name: Optional[str]) -> Registered:
        handler = self.handlers.get(name) or self.handlers.get(None)
        if handler is None:
            named = f"named {name!r}" if name is not None else "without a name"
            raise NoHandler(f"this worker has no handler for a task {named} in queue {self.queue!r}; it has handlers for:"
                            f" {', '.join(sorted(repr(known) for known in self.handlers)) or 'nothing'}")
        return handler


def task_name(name: Optional[str], headers: Any) -> Optional[str]:
    """Of a task, also of one that was enqueued by an earlier version."""
    header = headers.get(HEADER) if name is None and isinstance(headers, dict) else name
    return header if isinstance(header, str) else None


class Handled(Generic[P, R]):
    """A handler, as its decorator leaves it: call it as ever, or enqueue a task for it."""

    def __init__(self, queue: Any, name: Optional[str], function: Callable[..., Any], given: Mapping[str, Any]) -> None:
        self.defaults = of_tasks(given)
        self.registered = queue.registry.add(name, function, given)
        self.queue = queue
        self.name = name
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", repr(function))
        self._look_for_types()

    def _look_for_types(self) -> None:
        """Types of the place of the decorator, which may be within a function, are known now; later ones of a module later."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(__name__.rpartition(".")[0] + "."):
            frame = frame.f_back
        self.registered.place = frame.f_locals
        try:
            self.registered.types
        except Unread:
            pass    # it is said when they are needed

    def __repr__(self) -> str:
        return f"<task {self.name!r} of queue {self.queue.name!r}>"

    def _options(self, given: Mapping[str, Any], payload: Any, option: str = "name") -> Dict[str, Any]:
        """What a task is enqueued with, or a schedule has: what the call says, else the handler."""
        return self._with({name: value(payload) if callable(value) else value for name, value in self.defaults.items()
                           if name not in given and (option == "name" or name in OF_SCHEDULES)}, given, option)

    def _options_of_many(self, given: Mapping[str, Any], payloads: Sequence[Any]) -> Dict[str, Any]:
        return self._with({name: [value(payload) for payload in payloads] if callable(value) else value
                           for name, value in self.defaults.items() if name not in given}, given)

    def _with(self, own: Mapping[str, Any], given: Mapping[str, Any], option: str = "name") -> Dict[str, Any]:
        options = {**own, **given}
        if options.get("unique_key") is None:
            options = {name: value for name, value in options.items() if name not in OF_KEYS or name in given}
        return options if self.name is None else {**options, option: self.name}

    def _payload(self, payload: Any) -> Any:
        return self._payloads([payload])[0]

    def _payloads(self, payloads: Sequence[Any]) -> List[Any]:
        typed, name = self.registered.types[0], f"the payload of task {self.name!r}"
        return [typed.to_json(payload, name) for payload in payloads]

    def _result(self, result: Any) -> Any:
        return self.registered.types[1].from_json(result, f"the result of task {self.name!r}")
