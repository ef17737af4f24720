"""What a worker writes into its log, with fields for those who read it by machine.

Each record that is of a task has `extra`: task_id, queue, tenant, subgroup, task_name (`name` is taken, by the logger's), attempt,
and if it is of an attempt's end outcome and duration in seconds.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any, Dict, Optional, Sequence

from .delivery import Delivery, Settlement
from .hooks import Ending
from .report import first_line, without_own_frames
from .values import printable

log = logging.getLogger("pgfairq")

# What a record has that is no field of ours or the application's.
OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields(delivery: Delivery, ending: Optional[Ending] = None) -> Dict[str, Any]:
    found = {"task_id": delivery.id, "queue": delivery.queue, "tenant": delivery.group, "subgroup": delivery.subgroup,
             "task_name": delivery.name, "attempt": delivery.attempt}
    return found if ending is None else {**found, "outcome": ending.outcome, "duration": round(ending.seconds, 6)}


# -- of the worker

def started(name: str, queues: Sequence[str], concurrency: int, handlers: Sequence[str], info: Any) -> None:
    version = "%d.%d" % divmod(info.server_version, 10000)
    log.info("worker %s has started: queues %s; handlers %s; %d at a time; database %r at %s:%s, PostgreSQL %s", name,
             ", ".join(map(repr, queues)), ", ".join(map(repr, handlers)), concurrency, info.dbname, info.host, info.port, version,
             extra={"worker": name, "queues": list(queues), "handlers": list(handlers), "concurrency": concurrency,
                    "database": info.dbname, "server_version": version})


def stopping(running: int, finish: float) -> None:
    log.info("stopping: no more tasks are claimed, and %d that run have %g s to finish", running, finish)


def stopped(name: str, error: Optional[BaseException] = None) -> None:
    if error is None:
        log.info("worker %s has stopped", name, extra={"worker": name})
    else:
        log.error("worker %s has given up: %s", name, first_line(error), extra={"worker": name})


def late(seconds: float, ttl: float, running: Sequence[Delivery]) -> None:
    log.warning("a heartbeat is %.1f s late, and after %g s without one the tasks go to other workers: something has held the interpreter,"
                " while these ran: %s", seconds, ttl, ", ".join(map(str, running)) or "none",
                extra={"tasks": [delivery.id for delivery in running]})


def blocked(seconds: float, ttl: float, delivery: Optional[Delivery], stack: str) -> None:
    """The stack is code of the application, not a tenant's text."""
    by = "something that is no handler" if delivery is None else str(delivery)
    log.warning("the event loop is blocked by %s: there is no heartbeat since %.1f s, and after %g s the tasks of this worker go to others."
                " Give what computes a thread, as with asyncio.to_thread().\n%s", by, seconds, ttl, stack,
                extra={**({} if delivery is None else fields(delivery)), "stack": stack})


# -- of tasks

def ended(delivery: Delivery, ending: Ending, settlement: Optional[Settlement]) -> None:
    """An attempt, as far as its handler goes."""
    if ending.outcome in ("done", "snoozed") and not log.isEnabledFor(logging.DEBUG):
        return
    extra = fields(delivery, ending)
    error = ending.error
    if ending.outcome == "done":
        log.debug("%s: done after %.3f s", delivery, ending.seconds, extra=extra)
    elif ending.outcome == "snoozed":
        log.debug("%s: snoozed after %.3f s", delivery, ending.seconds, extra=extra)
    elif ending.outcome == "lost":
        log.warning("%s: stopped, %s", delivery, "" if error is None else first_line(error), extra=extra)
    elif ending.outcome == "released":
        log.warning("%s: given back, %s", delivery, error, extra=extra)
    else:
        final = settlement is not None and settlement.final
        said = "" if settlement is None else (settlement.error or "").split("\n", 1)[0]
        log.warning("%s: attempt %d failed%s: %s", delivery, delivery.attempt, ", and there will be no other" if final else "", said,
                    extra=extra, exc_info=None if error is None else without_own_frames(error))


def died(settlement: Settlement) -> None:
    """The server has said so."""
    delivery, ending = settlement.delivery, settlement.ending
    log.error("%s: dead after attempt %d: %s", delivery, delivery.attempt, (settlement.error or "").split("\n", 1)[0],
              extra=fields(delivery) if ending is None else {**fields(delivery, ending), "outcome": "dead"})


def too_late(settlement: Settlement) -> None:
    ending = settlement.ending
    log.warning("%s: the %s came too late, the lease was lost", settlement.delivery, settlement.kind,
                extra={**fields(settlement.delivery, ending), "outcome": "lost"})


def let_go(settlement: Settlement, seconds: float) -> None:
    log.error("%s: its failure cannot be noted; in %g s it is given back, to run again, and no attempt is counted",
              settlement.delivery, seconds, extra=fields(settlement.delivery, settlement.ending))


# -- how it is written

class TextFormatter(logging.Formatter):
    """For terminals: what tenants wrote does not steer them."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


class JsonFormatter(logging.Formatter):
    """A line of JSON for each record: time, level, logger, process and message; what the record has in `extra`; and
    the traceback of its exception, if there is one, as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        made: Dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname, "logger": record.name, "process": record.process, "message": record.getMessage(),
        }
        made.update((name, value) for name, value in vars(record).items() if name not in OWN and name not in made)
        if record.exc_info:
            made["exception"] = self.formatException(record.exc_info)
        return json.dumps(made, default=str)
