"""The keywords of Queue, enqueue, enqueue_many and schedule, with their types, written once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, Mapping, Optional, Sequence, Type, TypedDict, Union

from .errors import Exceptions
from .handlers import Backoffs
from .values import Duration, Group


class AlterOptions(TypedDict, total=False):
    """Settings of fairq.alter_queue."""

    buckets: int
    lease: Duration
    max_attempts: int
    max_lost: int
    backoff_base: Duration
    backoff_max: Duration
    backoff_jitter: float
    max_ready: int
    max_ready_per_group: int
    max_depth: int
    keep_done: Duration
    durable_leases: bool
    charge: str
    notify: bool
    expire_after: Duration
    default_priority: int
    group_required: bool
    class_weights: Sequence[float]
    subgroups: bool


class QueueOptions(AlterOptions, total=False):
    """Settings of fairq.create_queue."""

    policy: str


class PublishOptions(TypedDict, total=False):
    """Details of a task, as fairq.publish has them. None is the default."""

    group: Optional[Group]
    delay: Optional[Duration]
    run_at: Optional[datetime]
    priority: Optional[int]
    cost: Optional[float]
    unique_key: Optional[Group]
    unique_for: Optional[Duration]
    on_duplicate: Optional[str]
    expires_at: Optional[datetime]
    max_attempts: Optional[int]
    lease: Optional[Duration]
    headers: Optional[Mapping[str, Any]]
    name: Optional[str]
    max_lost: Optional[int]
    subgroup: Optional[Group]


class EnqueueOptions(PublishOptions, total=False):
    """Details of a task, as fairq.enqueue has them."""

    after: Optional[Sequence[int]]
    on_dead: Optional[str]


class ManyOptions(TypedDict, total=False):
    """Details of many tasks: one value for all, or a list with a value for each."""

    group: Union[Group, None, Sequence[Optional[Group]]]
    delay: Union[Duration, None, Sequence[Optional[Duration]]]
    run_at: Union[datetime, None, Sequence[Optional[datetime]]]
    priority: Union[int, None, Sequence[Optional[int]]]
    cost: Union[float, None, Sequence[Optional[float]]]
    unique_key: Union[Group, None, Sequence[Optional[Group]]]
    expires_at: Union[datetime, None, Sequence[Optional[datetime]]]
    headers: Union[Mapping[str, Any], None, Sequence[Optional[Mapping[str, Any]]]]
    name: Union[str, None, Sequence[Optional[str]]]
    subgroup: Union[Group, None, Sequence[Optional[Group]]]
    unique_for: Optional[Duration]
    on_duplicate: Optional[str]
    max_attempts: Optional[int]
    max_lost: Optional[int]
    lease: Optional[Duration]


class ScheduleOptions(TypedDict, total=False):
    group: Optional[Group]
    priority: Optional[int]
    cost: Optional[float]
    headers: Optional[Mapping[str, Any]]
    task_name: Optional[str]
    subgroup: Optional[Group]
    timezone: str
    catch_up: str
    overlap: bool
    active: bool


class TaskOptions(TypedDict, total=False):
    """What @queue.task() says of a handler, beside the name. None is the queue's."""

    max_attempts: Optional[int]
    max_lost: Optional[int]
    priority: Optional[int]
    cost: Union[float, Callable[[Any], float], None]
    lease: Optional[Duration]
    group: Optional[Callable[[Any], Any]]       # a Group of the payload; a type checker knows neither
    subgroup: Optional[Callable[[Any], Any]]
    unique_key: Optional[Callable[[Any], Any]]
    unique_for: Optional[Duration]
    on_duplicate: Optional[str]
    backoff: Optional[Backoffs]
    timeout: Optional[Duration]
    give_up_on: Exceptions


def check(given: Mapping[str, Any], known: Type[Any], function: str) -> None:
    """Python checks the names of keywords that are written out; of these it does not."""
    names = known.__annotations__   # those of its bases as well
    for name in given:
        if name not in names:
            raise TypeError(f"{function} has no argument {name!r}; there are: {', '.join(sorted(names))}")
