"""What Queue and AsyncQueue share: names, options, and handlers."""

from __future__ import annotations

from typing import Any, Dict, Generic, Mapping, TypeVar

from . import options, statements, values
from .errors import AwaitTimeout, TaskFailed
from .handlers import Registry
from .models import Outcome
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
        self.settings: Dict[str, Any] = dict(settings)
        self._missing = create or bool(settings)  # it is to be created before it is used

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _enqueue(self, payload: Any, given: Mapping[str, Any]) -> Statement[int]:
        options.check(given, options.EnqueueOptions, "enqueue")
        return statements.enqueue(self.name, payload, Details(**given))

    def _enqueue_many(self, payloads: Any, given: Mapping[str, Any]) -> Statement[Any]:
        options.check(given, options.ManyOptions, "enqueue_many")
        return statements.enqueue_many(self.name, payloads, Details(**given))

    def _publish(self, topic: str, payload: Any, given: Mapping[str, Any]) -> Statement[int]:
        options.check(given, options.PublishOptions, "publish")
        return statements.publish(topic, payload, Details(**given))

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
    because = f": {outcome.last_error}" if outcome.last_error else ""
    raise TaskFailed(f"task {task} of queue {queue!r} is {outcome.state}{because}", outcome)
