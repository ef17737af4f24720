"""For the tests of an application: call a handler, run a task on the spot, work off a queue, and see what was enqueued.

context(), async_context() and run_inline() need no server. For an AsyncQueue and its handlers, what runs
something is to be awaited.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Awaitable, Dict, List, Optional, TypeVar, Union, overload

from . import statements, values
from .async_context import AsyncContext
from .async_queue import AsyncHandler, AsyncQueue
from .async_worker import AsyncWorker
from .context import Context, ContextBase
from .delivery import Delivery
from .handlers import Handled
from .hooks import Ending, call_one
from .models import TaskStatus
from .queue import Handler, Queue
from .run_base import not_done
from .values import Duration, Group
from .worker import Worker

P = TypeVar("P")
R = TypeVar("R")

LEASE = timedelta(seconds=30)
SHOWN = 10      # tasks in the message of an assertion that fails


class TestingBase(ContextBase):
    """A context without a worker. Beside what a handler knows of its task it has what the handler has told: `told`, the
    values of progress(), and `extended`, the arguments of extend()."""

    __test__ = False    # for pytest

    def __init__(self, **task: Any) -> None:
        enqueued = task.pop("enqueued_at") or datetime.now(timezone.utc)
        identity = [task["queue"], task["id"], "00000000-0000-0000-0000-000000000000", values.group_key(task["group"]) or "",
                    task["priority"], task["attempt"], microseconds(enqueued), microseconds(task["expires_at"]),
                    values.task_name(task["name"]), values.group_key(task["subgroup"], "subgroup"), None]
        ContextBase.__init__(self, Delivery((json.dumps(identity) + "null",), None), "test")
        self.headers = values.parse_json(values.json_object(task["headers"], "headers"))
        self.told: List[Any] = []
        self.extended: List[Optional[Duration]] = []
        self._given = task["connection"]

    def lose(self, why: str = "the lease was lost") -> None:
        """From now on the handler finds that it has lost its task: `cancelled` is true, check() raises LeaseLost."""
        self._lost = why

    def _own(self) -> Any:
        self.check()
        if self._given is None:
            raise RuntimeError("this context has no connection: give it one, as context(connection=…), to test what the handler writes")
        return self._given

    def _note_progress(self, value: Any) -> None:
        self.check()
        self.told.append(values.parse_json(values.json_text(value, "progress")))

    def _note_extension(self, lease: Optional[Duration]) -> datetime:
        self.check()
        self.extended.append(lease)
        return datetime.now(timezone.utc) + (values.duration(lease, "lease") or LEASE)


class TestContext(TestingBase, Context):
    """Of a handler of a Queue."""

    @property
    def connection(self) -> Any:
        return self._own()

    def progress(self, value: Any) -> None:
        self._note_progress(value)

    def extend(self, lease: Optional[Duration] = None) -> datetime:
        return self._note_extension(lease)


class AsyncTestContext(TestingBase, AsyncContext):
    """Of a handler of an AsyncQueue."""

    async def connection(self) -> Any:
        return self._own()

    async def progress(self, value: Any) -> None:
        self._note_progress(value)

    async def extend(self, lease: Optional[Duration] = None) -> datetime:
        return self._note_extension(lease)


def microseconds(at: Optional[datetime]) -> Optional[int]:
    checked = values.moment(at, "the time of a task")
    return None if checked is None else round(checked.timestamp() * 1000000)


# -- a handler's context

def of_task(**given: Any) -> Dict[str, Any]:
    """What context() and run_inline() say of a task, all of it."""
    known: Dict[str, Any] = {
        "id": 1, "queue": "test", "name": None, "group": "", "subgroup": None, "headers": None, "attempt": 1, "priority": 4,
        "enqueued_at": None, "expires_at": None, "connection": None}
    for name in given:
        if name not in known:
            raise TypeError(f"a context has no {name!r}; there are: {', '.join(sorted(known))}")
    return {**known, **given}


def context(**task: Any) -> TestContext:
    """To call a handler with: send({"to": "ann"}, context(group=42)). What can be said of the task: id, queue, name, group,
    subgroup, headers, attempt, priority, enqueued_at, expires_at; and connection, which its transaction is to be on."""
    return TestContext(**of_task(**task))


def async_context(**task: Any) -> AsyncTestContext:
    """The same for a coroutine."""
    return AsyncTestContext(**of_task(**task))


# -- a task on the spot

@overload
def run_inline(handler: Handler[P, R], payload: P, **task: Any) -> R: ...


@overload
def run_inline(handler: AsyncHandler[P, R], payload: P, **task: Any) -> Awaitable[R]: ...


def run_inline(handler: Any, payload: Any, **task: Any) -> Any:
    """Do a task of this payload here and now, without a server: what the handler returns, or raises. Payload and result go
    through JSON and their types as they would, and functions on "before", "after", "failed" and "lost" are called. There is
    no timeout. task: as context() has it; the group is the handler's, if nothing is said."""
    keys = {"group": task["group"]} if "group" in task else {}
    keys.update({"subgroup": task["subgroup"]} if "subgroup" in task else {})
    options = handler_of(handler)._options(keys, payload)
    known = {name: value for name, value in options.items() if name in ("group", "subgroup", "priority", "name")}
    made = of_task(**{"queue": handler.queue.name, **known, **task})
    given = through_json(handler.registered.types[0], handler._payload(payload), "the payload")
    if isinstance(handler, AsyncHandler):
        return _run_async(handler, given, AsyncTestContext(**made))
    return _run(handler, given, TestContext(**made))


def handler_of(handler: Any) -> "Handled[Any, Any]":
    if not isinstance(handler, Handled):
        raise TypeError(f"a handler is what @queue.task() makes of a function, not {handler!r}")
    return handler


def through_json(typed: Any, value: Any, name: str) -> Any:
    return typed.from_json(values.parse_json(values.json_text(value, name)), name)


def _result(handler: Any, result: Any) -> Any:
    typed = handler.registered.types[1]
    return through_json(typed, typed.to_json(result, "the handler's result"), "the handler's result")


def _not_done(handler: Any, made: TestingBase, error: BaseException, began: float) -> Ending:
    """As a worker has it. Its outcome is an event, too, if it is "failed" or "lost"."""
    return not_done(made, error, handler.registered, (), False, time.monotonic() - began)[1]


def _run(handler: Any, payload: Any, made: TestContext) -> Any:
    hooks, began = handler.queue.hooks, time.monotonic()
    try:
        for function in hooks.of("before"):
            function(made)
        result = _result(handler, handler.function(payload, made))
    except BaseException as error:
        ending = _not_done(handler, made, error, began)
        for function in (*hooks.of(ending.outcome), *hooks.of("after")):
            function(made, ending)
        raise
    for function in hooks.of("after"):
        function(made, Ending("done", time.monotonic() - began, result))
    return result


async def _run_async(handler: Any, payload: Any, made: AsyncTestContext) -> Any:
    hooks, began = handler.queue.hooks, time.monotonic()
    try:
        for function in hooks.of("before"):
            await call_one(function, made)
        result = _result(handler, await handler.function(payload, made))
    except BaseException as error:
        ending = _not_done(handler, made, error, began)
        for function in (*hooks.of(ending.outcome), *hooks.of("after")):
            await call_one(function, made, ending)
        raise
    for function in hooks.of("after"):
        await call_one(function, made, Ending("done", time.monotonic() - began, result))
    return result


# -- a queue, with a server

@dataclass
class Drained:
    """What a worker has done until nothing was ready: how many attempts ended in which way, and the errors."""

    done: int = 0
    failed: int = 0
    dead: int = 0       # of those that have failed
    snoozed: int = 0
    released: int = 0
    lost: int = 0
    errors: List[BaseException] = field(default_factory=list)

    def note(self, _: Any, ending: Ending) -> None:
        setattr(self, ending.outcome, getattr(self, ending.outcome) + 1)
        if ending.error is not None and ending.outcome in ("failed", "lost"):
            self.errors.append(ending.error)


@overload
def drain(queue: Queue, *others: Queue, **options: Any) -> Drained: ...


@overload
def drain(queue: AsyncQueue, *others: AsyncQueue, **options: Any) -> Awaitable[Drained]: ...


def drain(queue: Any, *others: Any, **options: Any) -> Any:
    """Work off what is ready in the queues, and what that enqueues, one task after the other. What is to come later, as
    a retry after its backoff, stays. options: those of Worker."""
    drained = Drained()
    worker: Any = (AsyncWorker if isinstance(queue, AsyncQueue) else Worker)([queue, *others], **{"concurrency": 1, **options})
    worker.on("after", drained.note)
    worker.on("dead", drained.note)
    if isinstance(worker, Worker):
        worker.run(drain=True)
        return drained

    async def run() -> Drained:
        await worker.run(drain=True)
        return drained

    return run()


ANY = object()      # whatever the payload is
WORDS = ("group", "subgroup", "name", "state", "priority", "unique_key", "headers", "max_attempts", "run_at")


@overload
def assert_enqueued(where: Union[Queue, Handler[Any, Any]], payload: Any = ..., *, count: Optional[int] = ..., connection: Any = ...,
                    **task: Any) -> List[TaskStatus]: ...


@overload
def assert_enqueued(where: Union[AsyncQueue, AsyncHandler[Any, Any]], payload: Any = ..., *, count: Optional[int] = ...,
                    connection: Any = ..., **task: Any) -> Awaitable[List[TaskStatus]]: ...


def assert_enqueued(where: Any, payload: Any = ANY, *, count: Optional[int] = None, connection: Any = None, **task: Any) -> Any:
    """That there is a task of this handler, or in this queue, or `count` of them; which are returned. AssertionError: what
    there is instead. A payload that is a dict, and headers, are to be among what the task has; all else is to be equal:
    group, subgroup, name, state, priority, unique_key, max_attempts, run_at. connection: to see what its transaction
    has enqueued and not committed."""
    wanted = wanted_of(where, payload, task)
    queue = where.queue if isinstance(where, Handled) else where

    def answer(there: List[TaskStatus]) -> List[TaskStatus]:
        found = [one for one in there if fits(one, wanted)]
        if (len(found) == count) if count is not None else found:
            return found
        number = "a task" if count is None else f"{count} tasks, not {len(found)},"
        listed = "".join(f"\n  {shown(one)}" for one in there[:SHOWN]) + ("\n  …" if len(there) > SHOWN else "")
        raise AssertionError(f"expected {number} in queue {queue.name!r} with {shown_wanted(wanted)}; "
                             + (f"there are {len(there)}:{listed}" if there else "there is none"))

    every = statements.tasks(queue.name, None, None, None, 100000)
    if not isinstance(queue, AsyncQueue):
        return answer(queue._run(every, connection))

    async def look() -> List[TaskStatus]:
        return answer(await queue._run(every, connection))

    return look()


def refute_enqueued(where: Any, payload: Any = ANY, *, connection: Any = None, **task: Any) -> Any:
    """That there is no such task."""
    return assert_enqueued(where, payload, count=0, connection=connection, **task)


def wanted_of(where: Any, payload: Any, task: Dict[str, Any]) -> Dict[str, Any]:
    if not isinstance(where, (Handled, Queue, AsyncQueue)):
        raise TypeError(f"tasks are looked for in a queue or of a handler, not in {where!r}")
    for word in task:
        if word not in WORDS:
            raise TypeError(f"tasks are not looked for by {word!r}; there are: payload, {', '.join(WORDS)}")
    wanted = dict(task)
    if isinstance(where, Handled) and where.name is not None:
        wanted["name"] = where.name
    for word in ("group", "subgroup", "unique_key"):
        if word in wanted:
            wanted[word] = values.group_key(wanted[word], word)
    if "group" in wanted:
        wanted["group"] = wanted["group"] or ""     # as a task that was enqueued without one has it
    if payload is not ANY:
        wanted["payload"] = payload
    for word in ("payload", "headers"):
        if word in wanted:
            wanted[word] = values.parse_json(values.json_text(wanted[word], word))
    return wanted


def fits(task: TaskStatus, wanted: Dict[str, Any]) -> bool:
    return all(is_within(getattr(task, word), value) if word in ("payload", "headers") else getattr(task, word) == value
               for word, value in wanted.items())


def is_within(found: Any, wanted: Any) -> bool:
    """Whether a dict has these items, at whatever depth; all else is equal."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and is_within(found[key], value) for key, value in wanted.items())
    return bool(found == wanted)


def shown(task: TaskStatus) -> str:
    return f"{task.name!r} of group {task.group!r}, {task.state}: {task.payload!r}"


def shown_wanted(wanted: Dict[str, Any]) -> str:
    return ", ".join(f"{word} {value!r}" for word, value in wanted.items()) or "anything"
