"""Producers and workers for pgfairq, a task queue in PostgreSQL that is fair between tenants."""

from .context import Context
from .errors import AwaitTimeout, FairqError, LeaseLost, Retry, Snooze, TaskFailed
from .models import DeadTask, Outcome, Position, QueueStats, Schedule, Task, TaskStatus
from .queue import Handler, Queue
from .worker import Worker

__all__ = [
    "AwaitTimeout", "Context", "DeadTask", "FairqError", "Handler", "LeaseLost", "Outcome", "Position", "Queue", "QueueStats",
    "Retry", "Schedule", "Snooze", "Task", "TaskFailed", "TaskStatus", "Worker",
]
