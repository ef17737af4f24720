"""Producers and workers for pgfairq, a task queue in PostgreSQL that is fair between tenants."""

from .async_context import AsyncContext
from .async_queue import AsyncHandler, AsyncQueue
from .async_worker import AsyncWorker
from .context import Context
from .errors import (
    AwaitTimeout, BadPayload, FairqError, LeaseLost, NoConnection, Retry, Snooze, TaskFailed, TaskTimeout, Unrecoverable,
)
from .hooks import Ending, Sending
from .journal import JsonFormatter
from .models import (
    DeadTask, Dependency, DoneTask, GroupSettings, GroupStats, Lease, NameStats, Outcome, Position, QueueStats, Schedule,
    SessionStatus, Settings, SubgroupSettings, SubgroupStats, Task, TaskEnd, TaskStatus,
)
from .queue import Handler, Queue
from .worker import Worker

__all__ = [
    "AsyncContext", "AsyncHandler", "AsyncQueue", "AsyncWorker", "AwaitTimeout", "BadPayload", "Context", "DeadTask",
    "Dependency", "DoneTask", "Ending", "FairqError", "GroupSettings", "GroupStats", "Handler", "JsonFormatter", "Lease",
    "LeaseLost", "NameStats", "NoConnection", "Outcome", "Position", "Queue", "QueueStats", "Retry", "Schedule", "Sending",
    "SessionStatus", "Settings", "Snooze", "SubgroupSettings", "SubgroupStats", "Task", "TaskEnd", "TaskFailed", "TaskStatus",
    "TaskTimeout", "Unrecoverable", "Worker",
]
