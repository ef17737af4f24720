"""What a handler knows of its task, and what it can do about it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import datetime
from typing import Any, NoReturn, Optional, Union

import psycopg
from psycopg import Connection

from . import statements
from .connections import Source, run
from .delivery import Delivery, moment
from .errors import LeaseLost, NoConnection, Retry, Snooze, TaskTimeout, Unrecoverable
from .pace import Backoff
from .report import first_line
from .values import Duration, json_text

log = logging.getLogger("pgfairq")


PATIENCE = 10.0     # seconds that a handler waits for a connection


class ContextBase:
    """The task, and how its handler may end."""

    def __init__(self, delivery: Delivery, worker: str) -> None:
        self._delivery = delivery
        self._lost: Optional[str] = None    # why
        self._late: Optional[str] = None    # the handler takes longer than its timeout
        self._ended = False
        self._settling = False
        self.worker = worker
        self.headers: Any = None

    id: int = property(lambda self: self._delivery.id)  # type: ignore[assignment]
    queue: str = property(lambda self: self._delivery.queue)  # type: ignore[assignment]
    name: Optional[str] = property(lambda self: self._delivery.name)  # type: ignore[assignment]
    group: str = property(lambda self: self._delivery.group)  # type: ignore[assignment]
    subgroup: Optional[str] = property(lambda self: self._delivery.subgroup)  # type: ignore[assignment]
    priority: int = property(lambda self: self._delivery.priority)  # type: ignore[assignment]
    attempt: int = property(lambda self: self._delivery.attempt)  # type: ignore[assignment]
    receipt: str = property(lambda self: self._delivery.receipt)  # type: ignore[assignment]

    @property
    def enqueued_at(self) -> datetime:
        at = moment(self._delivery.enqueued)
        assert at is not None
        return at

    @property
    def expires_at(self) -> Optional[datetime]:
        return moment(self._delivery.expires)

    @property
    def cancelled(self) -> bool:
        """Whether the lease is lost, the worker must end, or the handler's timeout is over: what it does from now on is in vain."""
        return self._lost is not None or self._late is not None

    def check(self) -> None:
        """Raises LeaseLost, or TaskTimeout, if the handler should stop. For handlers that compute for long."""
        if self._lost is not None:
            raise LeaseLost(f"{self._delivery}: {self._lost}")
        self._check_time()
        if self._ended:
            raise RuntimeError(f"{self._delivery}: its handler has ended, and with it the transaction; what comes after it needs"
                               " a connection of its own")

    def _check_time(self) -> None:
        if self._late is not None:
            raise TaskTimeout(self._late)

    def _timeout_error(self, error: BaseException) -> BaseException:
        """If the time is over, that is why the handler has failed, whatever it has made of it."""
        if self._late is None or isinstance(error, TaskTimeout):
            return error
        late = TaskTimeout(self._late)
        late.__cause__ = None if isinstance(error, asyncio.CancelledError) else error
        return late.with_traceback(error.__traceback__)

    def snooze(self, delay: Duration) -> NoReturn:
        """Ends the handler: the task comes again after the delay, and no attempt is counted."""
        raise Snooze(delay)

    def retry(self, error: str = "retry", delay: Optional[Duration] = None) -> NoReturn:
        """Ends the handler: the attempt failed. The next one comes after the delay; None: the queue's backoff."""
        raise Retry(error, delay)

    def fail(self, error: Union[str, BaseException] = "failed") -> NoReturn:
        """Ends the handler: the attempt failed, and no other one would fare better. The task is dead at once."""
        if isinstance(error, BaseException):
            raise Unrecoverable(first_line(error)) from error
        raise Unrecoverable(error)

    def _progress(self, value: Any) -> statements.Statement[bool]:
        self.check()
        return statements.progress(self.receipt, json_text(value, "progress"))

    def _extended(self, until: Optional[datetime]) -> datetime:
        if until is None:
            self._lost = self._lost or "the lease was lost"
            self.check()
        assert until is not None
        return until


class Context(ContextBase):
    """For a handler in a thread."""

    def __init__(self, delivery: Delivery, source: Source, worker: str) -> None:
        super().__init__(delivery, worker)
        self._source = source
        self._connection: Optional["Connection[Any]"] = None
        self._block: Any = None
        self._lock = threading.Lock()

    @property
    def connection(self) -> "Connection[Any]":
        """The connection of the task's transaction, which begins here. Its writes and the task's acknowledgement
        are one: both are committed when the handler returns, or neither is."""
        if self._connection is None:
            self.check()
            connection = self._acquire()
            block = connection.transaction()
            try:
                block.__enter__()
            except BaseException:
                self._source.release(connection)
                raise
            with self._lock:
                self._connection, self._block = connection, block
        self.check()
        return self._connection

    def _acquire(self) -> "Connection[Any]":
        """Where the server takes no more connections, others of this worker will soon be free."""
        backoff, end = Backoff(0.02, 1.0), time.monotonic() + PATIENCE
        while True:
            self.check()
            try:
                return self._source.acquire()
            except psycopg.OperationalError as error:
                if time.monotonic() > end:
                    raise NoConnection(f"no connection for its transaction: {first_line(error)}") from error
            time.sleep(backoff.next())

    def extend(self, lease: Optional[Duration] = None) -> datetime:
        """Until when the lease is good without a heartbeat. LeaseLost: it is not this worker's any more."""
        self.check()
        return self._extended(self._source.run(statements.extend(self.receipt, lease)))

    def progress(self, value: Any) -> None:
        """Tell others how far the task is: queue.get(id).progress. Seen at once, whatever the transaction does."""
        self._source.run(self._progress(value))

    # -- for the worker

    @property
    def _in_transaction(self) -> bool:
        return self._connection is not None

    def _commit(self, result: Optional[str]) -> None:
        """Acknowledge and commit, or raise and leave nothing."""
        assert self._connection is not None
        with self._lock:
            self.check()
            self._settling = True
        try:
            if not run(self._connection, statements.ack(self.receipt, self.queue, result)):
                raise LeaseLost(f"{self._delivery}: the lease was lost before the acknowledgement")
        except BaseException as error:
            self._rollback(error)
            raise
        connection, block = self._give_up()
        try:
            block.__exit__(None, None, None)
        finally:
            self._source.release(connection)

    def _rollback(self, error: BaseException) -> None:
        connection, block = self._give_up()
        if connection is None:
            return
        if self.cancelled:
            connection.close()  # the cancel may still come, and is not for those who would have it next
        else:
            try:
                block.__exit__(type(error), error, error.__traceback__)
            except Exception as second:  # the transaction ends with its connection
                log.debug("%s: rollback failed: %s", self._delivery, second)
                connection.close()
        self._source.release(connection)

    def _give_up(self) -> Any:
        with self._lock:
            connection, self._connection = self._connection, None
        return connection, self._block

    def _lose(self, why: str) -> None:
        """Stop the handler as far as that can be done from outside: its statement is cancelled, and no other begins.

        One that is acknowledging is left alone: the server's answer decides.
        """
        with self._lock:
            if self._connection is not None and self._delivery.session.over:
                self._delivery.session.watch.end_soon(self._connection)
            if self._settling:
                return
            self._lost = self._lost or why
            if self._connection is not None:
                threading.Thread(target=self._cancel, args=(self._connection,), daemon=True).start()

    def _time_out(self, seconds: float) -> None:
        """As _lose(): its statement is cancelled, and no other begins. In the thread of the timeouts."""
        with self._lock:
            if self._lost is None and not (self._settling or self._ended):
                self._late = f"it took longer than its timeout of {seconds:g} s"
                if self._connection is not None:
                    threading.Thread(target=self._cancel, args=(self._connection,), daemon=True).start()

    def _cancel(self, connection: "Connection[Any]") -> None:
        try:
            connection.cancel()
        except psycopg.Error as error:
            log.debug("%s: cannot cancel its statement: %s", self._delivery, error)
