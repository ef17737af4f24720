"""What Queue and AsyncQueue share: names, options, and handlers."""

from __future__ import annotations

from typing import Any, Callable, Dict, Generic, Mapping, Optional, Sequence, TypeVar, overload

from . import options, statements, values
from .errors import AwaitTimeout, TaskFailed
from .handlers import Registry
from .hooks import OF_TASKS, OF_WORKERS, F, Hooks, Sending
from .models import Outcome
from .report import without_frames
from .statements import Details, Statement

S = TypeVar("S")


class QueueBase(Generic[S]):
    source: S
    is_async: bool

    def __init__(self, source: S, name: str, create: bool, settings: Mapping[str, Any]) -> None:
        options.check(settings, options.QueueOptions, "Queue")
        if not values.text(name, "the queue's name"):
            raise ValueError("the queue's name is empty")
        self.source = source
        self.name = name
        self.registry = Registry(name, self.is_async)
        self.hooks = Hooks(f"queue {name!r}", ("enqueue", *OF_TASKS, *OF_WORKERS), self.is_async)
        self._settings: Dict[str, Any] = dict(settings)
        self._missing = create or bool(settings)  # it is to be created before it is used

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @overload
    def on(self, event: str) -> Callable[[F], F]: ...

    @overload
    def on(self, event: str, function: F) -> F: ...

    def on(self, event: str, function: Optional[F] = None) -> Any:
        """Call the function on an event, as on("failed", function) or as the decorator @on("failed"): "enqueue",
        "before", "after", "failed", "lost" and "dead" of the queue's tasks, "start" and "stop" of its workers."""
        return self.hooks.on(event, function)

    def _enqueue(self, payload: Any, given: Mapping[str, Any]) -> Statement[int]:
        options.check(given, options.EnqueueOptions, "enqueue")
        return statements.enqueue(self.name, payload, Details(**self._told(given, 1)))

    def _enqueue_many(self, payloads: Any, given: Mapping[str, Any]) -> Statement[Any]:
        options.check(given, options.ManyOptions, "enqueue_many")
        payloads = list(payloads)
        return statements.enqueue_many(self.name, payloads, Details(**self._told(given, len(payloads))))

    def _publish(self, topic: str, payload: Any, given: Mapping[str, Any]) -> Statement[int]:
        options.check(given, options.PublishOptions, "publish")
        return statements.publish(topic, payload, Details(**self._told(given, 1, topic)))

    def _told(self, given: Mapping[str, Any], count: int, topic: Optional[str] = None) -> Mapping[str, Any]:
        """With the headers that functions on "enqueue" have added. One that fails has the call fail: nothing is sent."""
        functions = self.hooks.of("enqueue")
        if not functions:
            return given
        name = given.get("name")
        sending = Sending(None if topic else self.name, topic, name if isinstance(name, str) else None, count, {})
        for function in functions:
            function(sending)
        return {**given, "headers": with_headers(given.get("headers"), sending.headers)} if sending.headers else given

    def _schedule(self, name: str, cron: str, payload: Any, given: Mapping[str, Any]) -> Statement[Any]:
        options.check(given, options.ScheduleOptions, "schedule")
        named = dict(given)
        named["group_key"] = values.group_key(named.pop("group", None))
        named["subgroup_key"] = values.group_key(named.pop("subgroup", None), "subgroup")
        named["headers"] = values.json_object(named.get("headers"), "headers")
        named["task_name"] = values.task_name(named.get("task_name"), "task_name")
        return statements.schedule(self.name, name, cron, {"payload": values.json_text(payload, "payload"), **named})

    def _alter(self, given: Mapping[str, Any]) -> Statement[None]:
        options.check(given, options.AlterOptions, "alter")
        return statements.alter_queue(self.name, given)


def with_headers(given: Any, added: Mapping[str, Any]) -> Any:
    """Those of a task, or of many, and what is added to each; what is no mapping is left as it is."""
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return [with_headers(one, added) for one in given]
    if given is None:
        return dict(added)
    return {**added, **given} if isinstance(given, Mapping) else given


def result_of(queue: str, task: int, outcome: Any) -> Any:
    """The result of a task that was awaited, or why there is none."""
    if outcome is None:
        raise TaskFailed(f"there is no task {task} in queue {queue!r}; the queue must have keep_done for tasks that have ended"
                         " to be known", None)
    assert isinstance(outcome, Outcome)
    if outcome.state == "acked":
        return outcome.result
    if not outcome.ended:
        raise AwaitTimeout(f"task {task} of queue {queue!r} has not ended in time: it is {outcome.state}")
    reason = None if outcome.last_error is None else without_frames(outcome.last_error)
    raise TaskFailed(f"task {task} of queue {queue!r} is {outcome.state}{': ' + reason if reason else ''}", outcome, reason)
