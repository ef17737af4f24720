"""What a run of Worker and one of AsyncWorker share: what they know, and what they make of how handlers end."""

from __future__ import annotations

import time
from typing import Any, Dict, Generic, List, Optional, Tuple, TypeVar

from . import journal
from .delivery import Settlement, after_error, result_text
from .errors import LeaseLost, NoConnection, Snooze
from .handlers import Registered
from .hooks import Ending, Functions
from .pace import Pace
from .report import first_line
from .worker_base import WorkerBase

C = TypeVar("C")    # of context


class RunBase(Generic[C]):
    def __init__(self, worker: WorkerBase[Any], drain: bool) -> None:
        self.worker: Any = worker
        self.options = worker.options
        self.drain = drain
        self.pace = Pace(self.options.concurrency, self.options.prefetch)
        self.name = self.options.session_name()
        self.active: Dict[str, C] = {}      # by receipt
        self.stopping = False
        self.aborting = False
        self.finish_by: Optional[float] = None
        self._has_started = False

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

    # -- what becomes of a task

    def functions(self, event: str, context: Any) -> Functions:
        found: Functions = self.worker.functions(event, context.queue)
        return found

    def handler_of(self, context: Any) -> Registered:
        context.headers = context._delivery.headers()
        found: Registered = self.worker.find(context._delivery, context.headers)
        return found

    def payload_of(self, context: Any, handler: Registered) -> Any:
        return handler.types[0].from_json(context._delivery.payload(), "the payload")

    def result_of(self, handler: Registered, result: Any) -> Optional[str]:
        return result_text(handler.types[1].to_json(result, "the handler's result"))

    def done(self, context: Any, result: Any, text: Optional[str], committed: bool, seconds: float) -> Tuple[Optional[Settlement], Ending]:
        ending = Ending("done", seconds, result)
        if committed:
            return None, ending
        return Settlement("ack", context._delivery, result=text, context=context, ending=ending), ending

    def not_done(self, context: Any, error: BaseException, handler: Optional[Registered], used: bool,
                 seconds: float) -> Tuple[Optional[Settlement], Ending]:
        """What is to be told to the server; None if the lease is lost."""
        if context._lost is not None or isinstance(error, LeaseLost):
            lost = error if isinstance(error, LeaseLost) else LeaseLost(context._lost or first_line(error))
            return None, Ending("lost", seconds, error=lost)
        error = context._timeout_error(error)
        settlement = after_error(context._delivery, error, handler)
        if settlement.kind == "nack":
            outcome = "failed"
        else:
            outcome = "released" if isinstance(error, NoConnection) else "snoozed"
        settlement.doubtful, settlement.context = used, context
        settlement.ending = Ending(outcome, seconds, error=None if isinstance(error, Snooze) else error)
        return settlement, settlement.ending

    def calls_at_end(self, context: Any, ending: Ending) -> Functions:
        """In this order."""
        own = self.functions(ending.outcome, context) if ending.outcome in ("failed", "lost") else ()
        return own + self.functions("after", context)

    # -- what the settler tells, beside settled()

    def too_late(self, settlement: Settlement) -> None:
        journal.too_late(settlement)
        ending = Ending("lost", settlement.ending.seconds if settlement.ending else 0.0,
                        error=LeaseLost(f"the {settlement.kind} came too late, the lease was lost"))
        self.tell_later(self.functions("lost", settlement.context), settlement.context, ending)

    def turned(self, settlement: Settlement) -> None:
        """What was done has failed after all."""
        self.tell_later(self.functions("failed", settlement.context), settlement.context, settlement.ending)

    def died(self, settlement: Settlement) -> None:
        journal.died(settlement)
        noted = settlement.ending
        ending = Ending("dead", noted.seconds if noted else 0.0, error=noted.error if noted else None)
        self.tell_later(self.functions("dead", settlement.context), settlement.context, ending)

    def tell_later(self, functions: Functions, context: Any, ending: Any) -> None:
        raise NotImplementedError

