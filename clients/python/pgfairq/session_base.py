"""What Session and AsyncSession share: what they send, and what they make of the answers.

As with the settlers it is generators of statements, so the same whether a call blocks or is awaited.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple

import psycopg

from . import statements
from .attendance import Attendance
from .connections import Steps
from .delivery import Delivery, by_queue
from .pace import CANCELLED, LOCKED, LOCKED_ALONE, beat_interval, is_answer
from .place import Watch
from .statements import Statement

# A statement that waits for a table's lock would hold up the heartbeats; one that waits for a task has no limit but its own.
SETTINGS = "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', '0', false)"


class SessionOver(Exception):
    """No heartbeat came in time, or the session's connection was lost: other workers have its tasks."""


def default_name() -> str:
    return f"{socket.gethostname()}.{os.getpid()}"


class Beats:
    """When the next heartbeat is due."""

    def __init__(self, ttl: float) -> None:
        self.interval = beat_interval(ttl)
        self.last = time.monotonic()

    def due_in(self) -> float:
        return max(0.0, self.last + self.interval - time.monotonic())

    def late_by(self) -> float:
        return max(0.0, time.monotonic() - self.last - self.interval)


class SessionBase:
    """One at a time uses it: the worker's thread or task for claims. Others may interrupt()."""

    id: str
    connection: Any

    def __init__(self, source: Any, ttl: float, watch: Watch) -> None:
        self.source = source
        self.watch = watch
        self.station: Any = None
        self._closed = False
        self.over = False
        self.waits = False      # for a task, at the server
        self.beats = Beats(ttl)
        self.locked = min(LOCKED, self.beats.interval)
        self._apart = False     # queues are asked one by one: one of them did not answer

    @property
    def settings(self) -> Tuple[str]:
        return (statements.milliseconds(self.beats.interval),)

    def beating(self, held: Sequence[Delivery]) -> Steps[List[Delivery]]:
        """A heartbeat; those of the tasks whose lease is lost. SessionOver if the session is."""
        yield from self._beating()
        answers, unknown = yield from self._of_each(held, statements.still_held)
        still = {*answers, *(delivery.receipt for delivery in unknown)}     # what is not known is asked again
        return [delivery for delivery in held if delivery.receipt not in still]

    def claiming(self, attendance: Attendance, queues: Sequence[str], count: int, wait: float) -> Steps[Optional[List[Delivery]]]:
        """What could be claimed from these queues; None if the call was interrupted or refused."""
        bound = LOCKED_ALONE if attendance.in_doubt(queues) else self.locked
        try:
            rows = yield statements.claim(queues, count, self.id, wait, bound)
        except psycopg.Error as error:
            if not is_answer(error, self.connection.closed):
                raise
            if error.sqlstate != CANCELLED:
                yield from self._beating()      # or is it the session that is refused?
                attendance.refused(queues, error)
            return None
        attendance.answered(queues)
        return [Delivery(row, self) for row in rows]

    def releasing(self, deliveries: Sequence[Delivery]) -> Steps[List[Delivery]]:
        """Give tasks back to their places. Those that could not be, as their table is locked."""
        _, unknown = yield from self._of_each(deliveries, lambda receipts, bound: statements.release_many(receipts, None, bound))
        return unknown

    def closing(self) -> Steps[None]:
        """What it still has is back in its place."""
        try:
            if not self.over and not self.connection.closed:
                yield from self._surely(statements.close_session(self.id))
        except psycopg.Error:
            pass  # it ends with its connection, or with its time
        self.over = True

    def _beating(self) -> Steps[None]:
        at = time.monotonic()
        if not (yield from self._surely(statements.heartbeat(self.id))):
            raise SessionOver("the session is over: no heartbeat came in time")
        self.beats.last = at

    def _surely(self, statement: Statement[Any]) -> Steps[Any]:
        """Again, if an interrupt comes late that was for a claim."""
        for _ in range(2):
            try:
                return (yield statement)
            except psycopg.Error as error:
                if self.connection.closed or error.sqlstate != CANCELLED:
                    raise
        return (yield statement)

    def _of_each(self, deliveries: Sequence[Delivery],
                 asked: Callable[[List[str], float], Statement[List[str]]]) -> Steps[Tuple[List[str], List[Delivery]]]:
        """Ask of all together, or, where that is refused or waits for a lock, of each queue alone. The receipts that
        are answered, and the tasks of which there is no answer."""
        answers: List[str] = []
        unknown: List[Delivery] = []
        parts = by_queue(deliveries) if self._apart else [list(deliveries)] if deliveries else []
        bound = LOCKED_ALONE if self._apart else self.locked
        while parts:
            some = parts.pop()
            try:
                answers += yield from self._surely(asked([delivery.receipt for delivery in some], bound))
            except psycopg.Error as error:
                if not is_answer(error, self.connection.closed):
                    raise
                alone = by_queue(some)
                if len(alone) > 1:
                    parts, bound = alone, LOCKED_ALONE
                else:
                    unknown += some
        self._apart = bool(unknown)
        return answers, unknown
