"""What the server answers, with types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, List, Optional, Tuple
from uuid import UUID

from .values import shown_json


@dataclass(frozen=True)
class TaskEnd:
    """One end of a task that was a failure or a loss."""

    at: datetime
    attempt: int
    end: str                # "failed" or "lost"
    worker: str
    seconds: float          # that it ran
    error: Optional[str]


def ends(history: Optional[str]) -> List[TaskEnd]:
    """The ends that the server has noted, the earliest first. What else an owner has written there is left out."""
    noted = shown_json(history)
    found = []
    for one in noted if isinstance(noted, list) else []:
        try:
            error = one.get("error")
            # Python before 3.11 reads no fraction of a second but one with six digits.
            at = re.sub(r"\.(\d+)", lambda fraction: f".{fraction[1]:0<6}", one["at"])
            found.append(TaskEnd(datetime.fromisoformat(at), int(one["attempt"]), str(one["end"]), str(one["worker"]),
                                 float(one["seconds"]), None if error is None else str(error)))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            pass
    return found


def progress_of(headers: Any) -> Any:
    return headers.get("progress") if isinstance(headers, dict) else None


@dataclass(frozen=True)
class Task:
    """A task that peek shows."""

    id: int
    group: str
    payload: Any
    headers: Any
    priority: int
    attempt: int
    enqueued_at: datetime
    expires_at: Optional[datetime]
    name: Optional[str]
    subgroup: Optional[str]     # of its group


@dataclass(frozen=True)
class TaskStatus:
    """A task in whatever state."""

    id: int
    state: str
    group: str
    payload: Any
    headers: Any
    priority: int
    cost: float
    attempts: int
    max_attempts: int
    enqueued_at: datetime
    run_at: Optional[datetime]
    lease_until: Optional[datetime]
    unique_key: Optional[str]
    last_error: Optional[str]
    expires_at: Optional[datetime]
    name: Optional[str]
    lost: int
    max_lost: int
    history: List[TaskEnd]      # the last ten failures and losses
    subgroup: Optional[str]     # of its group
    lease: Optional[timedelta]  # in place of the queue's

    @property
    def progress(self) -> Any:
        """What the handler has told with context.progress(), or None."""
        return progress_of(self.headers)


@dataclass(frozen=True)
class DeadTask:
    id: int
    group: str
    payload: Any
    headers: Any
    priority: int
    attempts: int
    enqueued_at: datetime
    last_error: Optional[str]
    name: Optional[str]
    lost: int
    history: List[TaskEnd]
    subgroup: Optional[str]


@dataclass(frozen=True)
class DoneTask:
    """What a queue with keep_done has kept of a task that has ended."""

    id: int
    outcome: str                # "acked", "cancelled", "dead" or "expired"
    group: str
    payload: Any
    headers: Any
    result: Any
    priority: int
    cost: float
    attempts: int
    enqueued_at: datetime
    run_at: Optional[datetime]
    claimed_at: Optional[datetime]
    done_at: datetime
    unique_key: Optional[str]
    last_error: Optional[str]
    name: Optional[str]
    lost: int
    history: List[TaskEnd]
    subgroup: Optional[str]

    @property
    def progress(self) -> Any:
        """What the handler has told last with context.progress(), or None."""
        return progress_of(self.headers)


@dataclass(frozen=True)
class Outcome:
    """How a task has ended, or its present state: see fairq.await."""

    state: str
    result: Any
    last_error: Optional[str]
    done_at: Optional[datetime]

    @property
    def ended(self) -> bool:
        return self.state in ("acked", "dead", "cancelled", "expired")


@dataclass(frozen=True)
class Position:
    state: str
    ahead: Optional[int]
    starts_at: Optional[datetime]
    exact: bool


@dataclass(frozen=True)
class QueueStats:
    """A row of fairq.queue_stats."""

    queue: str
    ready: Optional[int]
    leased: Optional[int]
    scheduled: Optional[int]
    overflow: Optional[int]
    held: Optional[int]
    dead: Optional[int]
    oldest_ready_age: Optional[timedelta]
    enqueued: int
    claimed: int
    acked: int
    nacked: int
    released: int
    expired: int
    cancelled: int
    dead_total: int
    expired_tasks: int
    enqueue_rate: float
    claim_rate: float
    ack_rate: float
    wait_p50: Optional[timedelta]
    wait_p95: Optional[timedelta]
    wait_p99: Optional[timedelta]
    run_p50: Optional[timedelta]
    run_p95: Optional[timedelta]
    run_p99: Optional[timedelta]
    deduplicated: int
    snoozed: int
    stats_reset: Optional[datetime]
    near_lease_end: int
    swept: int
    payload_avg: Optional[int]
    payload_p50: Optional[int]
    payload_p95: Optional[int]
    payload_max: Optional[int]


@dataclass(frozen=True)
class Settings:
    """A row of fairq.queues."""

    queue: str
    owner: str
    policy: str
    buckets: int
    lease: timedelta
    max_attempts: int
    max_lost: int
    backoff_base: timedelta
    backoff_max: timedelta
    backoff_jitter: float
    max_ready: int
    max_ready_per_group: int
    max_depth: Optional[int]
    keep_done: Optional[timedelta]
    durable_leases: bool
    charge: str
    notify: bool
    expire_after: Optional[timedelta]
    default_priority: int
    group_required: bool
    class_weights: Optional[List[float]]
    subgroups: bool
    paused: bool
    group_weight: float
    group_max_leased: int
    group_rate: float
    group_burst: int
    subgroup_weight: float
    subgroup_max_leased: int
    subgroup_rate: float
    subgroup_burst: int


@dataclass(frozen=True)
class GroupStats:
    """A row of fairq.group_stats: a group that has work. Its key is cut after 48 bytes; group_id names it."""

    group: str
    group_id: UUID
    ready: int
    overflow: int
    leased: int
    weight: float
    max_leased: Optional[int]
    rate: Optional[float]
    burst: Optional[int]
    tokens: Optional[float]
    paused: bool
    served: int
    served_cost: float
    share: Optional[float]
    expected_share: Optional[float]
    share_error: Optional[float]
    oldest_wait: Optional[timedelta]
    run_time: timedelta
    all_served_cost: float


@dataclass(frozen=True)
class SubgroupStats:
    """A row of fairq.subgroup_stats."""

    group: str
    group_id: UUID
    subgroup: str
    subgroup_id: UUID
    overflow: int
    leased: int
    weight: float
    max_leased: Optional[int]
    rate: Optional[float]
    burst: Optional[int]
    tokens: Optional[float]
    paused: bool
    served: int
    served_cost: float
    share: Optional[float]
    expected_share: Optional[float]
    run_time: timedelta


@dataclass(frozen=True)
class NameStats:
    """A row of fairq.name_stats: what became of the tasks of a name."""

    name: Optional[str]         # None: of all that there was no room for
    other: bool
    enqueued: int
    done: int
    failed: int
    lost: int
    dead: int
    wait_p50: Optional[timedelta]
    wait_p95: Optional[timedelta]
    wait_p99: Optional[timedelta]
    run_p50: Optional[timedelta]
    run_p95: Optional[timedelta]
    run_p99: Optional[timedelta]


@dataclass(frozen=True)
class GroupSettings:
    """A row of fairq.group_settings: what a group was given. None is the queue's."""

    group: str
    group_id: UUID
    weight: Optional[float]
    max_leased: Optional[int]
    rate: Optional[float]
    burst: Optional[int]
    paused: bool


@dataclass(frozen=True)
class SubgroupSettings:
    """A row of fairq.subgroup_settings."""

    group: str
    group_id: UUID
    subgroup: str
    subgroup_id: UUID
    weight: Optional[float]
    max_leased: Optional[int]
    rate: Optional[float]
    burst: Optional[int]
    paused: bool


@dataclass(frozen=True)
class Lease:
    """A row of fairq.leases: a task in flight."""

    id: int
    receipt: UUID
    lease_until: Optional[datetime]
    attempt: int
    state: str
    pid: int


@dataclass(frozen=True)
class Dependency:
    """A row of fairq.dependencies: a task that waits for another one's end."""

    task: int
    predecessor: int
    on_dead: str
    failed: bool


@dataclass(frozen=True)
class SessionStatus:
    """A row of fairq.sessions: a worker, of whatever queues of the database."""

    session: UUID
    name: Optional[str]
    role: str
    opened_at: datetime
    ttl: timedelta
    alive_until: Optional[datetime]
    bound: bool
    pid: Optional[int]
    leases: int
    client: Optional[str]
    quarantine: bool


@dataclass(frozen=True)
class Schedule:
    name: str
    queue: str
    cron: str
    timezone: str
    catch_up: str
    overlap: bool
    active: bool
    next_run: Optional[datetime]
    last_run: Optional[datetime]
    last_task: Optional[int]
    skipped: int
    failures: int
    last_error: Optional[str]
    group: str
    payload: Any
    task_name: Optional[str]
    subgroup: Optional[str]
    last_error_at: Optional[datetime]
    owner: str
    headers: Any
    priority: Optional[int]
    cost: float


# Columns of a type here that have another name in the server.
RENAMED = {"group": "group_key", "subgroup": "subgroup_key"}


def columns(model: Any) -> Tuple[str, ...]:
    return tuple(RENAMED.get(name, name) for name in model.__dataclass_fields__)
