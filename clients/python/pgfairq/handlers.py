"""Which function handles which task: the one of the task's name."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Generic, Mapping, NamedTuple, Optional, Tuple, Type, TypeVar

from .errors import Exceptions, exceptions
from .values import task_name as checked

HEADER = "task"     # where the name was before tasks had one

H = TypeVar("H", bound=Callable[..., Any])


def is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


class NoHandler(LookupError):
    """The worker has no function for a task."""


class Registered(NamedTuple):
    function: Callable[..., Any]
    give_up_on: Tuple[Type[Exception], ...]     # these make its task dead at once


class Registry:
    """The handlers of a queue by name; None is the name of the one for all others."""

    def __init__(self, queue: str, is_async: bool) -> None:
        self.queue = queue
        self.is_async = is_async
        self.handlers: Dict[Optional[str], Registered] = {}

    def add(self, name: Optional[str], function: Callable[..., Any], give_up_on: Exceptions) -> None:
        if not callable(function):
            raise TypeError(f"a handler must be a function, not {function!r}; write @queue.task(\"name\"), with parentheses")
        if is_coroutine_function(function) != self.is_async:
            wanted = "a coroutine (async def)" if self.is_async else "a function, not a coroutine"
            raise TypeError(f"the handler {function!r} must be {wanted}; Queue has functions, AsyncQueue has coroutines")
        if name is not None:
            checked(name, "the name of a task")
        if name in self.handlers:
            what = "a default handler" if name is None else f"a handler for task {name!r}"
            raise ValueError(f"queue {self.queue!r} has {what} already: {self.handlers[name].function!r}")
        self.handlers[name] = Registered(function, exceptions(give_up_on, "give_up_on"))

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


class Handled(Generic[H]):
    """A handler, as its decorator leaves it: call it as ever, or enqueue a task for it."""

    def __init__(self, queue: Any, name: Optional[str], function: H) -> None:
        self.queue = queue
        self.name = name
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", repr(function))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<task {self.name!r} of queue {self.queue.name!r}>"

    def _options(self, options: Mapping[str, Any], option: str = "name") -> Dict[str, Any]:
        return {**options} if self.name is None else {**options, option: self.name}
