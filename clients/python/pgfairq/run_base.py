"""What a run of Worker and one of AsyncWorker share: what they know, and what they make of how handlers end."""

from __future__ import annotations

import time
from typing import Any, Dict, Generic, List, Optional, Tuple, Type, TypeVar

import psycopg

from . import journal
from .attendance import Attendance
from .delivery import Delivery, Settlement, after_error
from .errors import LeaseLost, NoConnection, Snooze
from .handlers import Registered
from .hooks import Calls, Ending, Functions
from .pace import NO_ROOM, Pace, is_hopeless
from .report import first_line
from .worker_base import WorkerBase

C = TypeVar("C")    # of context


def not_done(context: Any, error: BaseException, handler: Optional[Registered], give_up_on: Tuple[Type[Exception], ...], used: bool,
             seconds: float) -> Tuple[Optional[Settlement], Ending]:
    """What is to be told to the server; None if the lease is lost."""
    if context._lost is not None or isinstance(error, LeaseLost):
        lost = error if isinstance(error, LeaseLost) else LeaseLost(context._lost or first_line(error))
        return None, Ending("lost", seconds, error=lost)
    error = context._timeout_error(error)
    settlement = after_error(context._delivery, error, handler, give_up_on)
    if settlement.kind == "nack":
        outcome = "failed"
    else:
        outcome = "released" if isinstance(error, NoConnection) else "snoozed"
    settlement.doubtful, settlement.context = used, context
    settlement.ending = Ending(outcome, seconds, error=None if isinstance(error, Snooze) else error)
    return settlement, settlement.ending


class RunBase(Generic[C]):
    def __init__(self, worker: WorkerBase[Any], drain: bool) -> None:
        self.worker: Any = worker
        self.options = worker.options
        self.drain = drain
        self.pace = Pace(self.options.concurrency, self.options.prefetch)
        self.attendance = Attendance(worker.names, "claimed from")
        self.name = self.options.session_name()
        self.active: Dict[str, C] = {}      # by receipt
        self.stopping = False
        self.aborting = False
        self.finish_by: Optional[float] = None
        self._has_started = False
        self._calls: Dict[str, Calls] = {}

    def time_is_over(self) -> bool:
        """For handlers, once the worker stops."""
        if self.stopping and self.finish_by is None:
            self.finish_by = time.monotonic() + self.options.finish
        return self.aborting or (self.finish_by is not None and time.monotonic() > self.finish_by)

    def has_session(self, info: Any) -> None:
        """With the connection's; the first one is worth a line."""
        if not self._has_started:
            self._has_started = True
            journal.started(self.name, self.worker.names, self.options.concurrency, self.worker.handlers(), info)

    def cannot_create(self, queue: str, error: psycopg.Error) -> None:
        """Others of its queues are there. Raises the error if not, or if it is of no queue."""
        if not is_hopeless(error) and error.sqlstate != NO_ROOM:
            raise error
        self.attendance.refused([queue], error)

    def is_drained(self, claimed: Optional[List[Delivery]], all_told: bool) -> bool:
        """What was claimed from all queues that are well; whether all was told before."""
        return self.drain and not claimed and all_told and not self.attendance.awaited()

    # -- what becomes of a task

    def calls_of(self, context: Any) -> Calls:
        """As they were when the run had the first task of the queue."""
        queue: str = context._delivery.queue
        found = self._calls.get(queue)
        if found is None:
            found = self._calls[queue] = self.worker.calls_of(queue)
        return found

    def handler_of(self, context: Any) -> Registered:
        delivery = context._delivery
        if delivery.headers_text is not None:
            context.headers = delivery.headers()
        found: Registered = self.worker.find(delivery, context.headers)
        return found

    def ended(self, context: Any, calls: Calls, ending: Ending, settlement: Optional[Settlement]) -> Functions:
        """Note it; what is to be called of it, in this order."""
        context._ended = True
        journal.ended(context._delivery, ending, settlement)
        own = calls.failed if ending.outcome == "failed" else calls.lost if ending.outcome == "lost" else ()
        return own + calls.after

    # -- what the settler tells, beside settled()

    def too_late(self, settlement: Settlement) -> None:
        journal.too_late(settlement)
        ending = Ending("lost", settlement.ending.seconds if settlement.ending else 0.0,
                        error=LeaseLost(f"the {settlement.kind} came too late, the lease was lost"))
        self.tell_later(self.calls_of(settlement.context).lost, settlement.context, ending)

    def turned(self, settlement: Settlement) -> None:
        """What was done has failed after all."""
        self.tell_later(self.calls_of(settlement.context).failed, settlement.context, settlement.ending)

    def died(self, settlement: Settlement) -> None:
        journal.died(settlement)
        noted = settlement.ending
        ending = Ending("dead", noted.seconds if noted else 0.0, error=noted.error if noted else None)
        self.tell_later(self.calls_of(settlement.context).dead, settlement.context, ending)

    def tell_later(self, functions: Functions, context: Any, ending: Any) -> None:
        raise NotImplementedError

