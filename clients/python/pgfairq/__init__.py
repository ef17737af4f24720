"""Producers and workers for pgfairq, a task queue in PostgreSQL that is fair between tenants."""

from .async_context import AsyncContext
from .async_queue import AsyncHandler, AsyncQueue
from .async_worker import AsyncWorker
from .context import Context
from .errors import AwaitTimeout, FairqError, LeaseLost, NoConnection, Retry, Snooze, TaskFailed, Unrecoverable
from .models import DeadTask, Outcome, Position, QueueStats, Schedule, Task, TaskEnd, TaskStatus
from .queue import Handler, Queue
from .worker import Worker

__all__ = [
    "AsyncContext", "AsyncHandler", "AsyncQueue", "AsyncWorker", "AwaitTimeout", "Context", "DeadTask", "FairqError",
    "Handler", "LeaseLost", "NoConnection", "Outcome", "Position", "Queue", "QueueStats", "Retry", "Schedule", "Snooze",
    "Task", "TaskEnd", "TaskFailed", "TaskStatus", "Unrecoverable", "Worker",
]
