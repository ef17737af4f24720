"""What an asyncio handler knows of its task, and what it can do about it."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any, Optional

import psycopg
from psycopg import AsyncConnection

from . import statements
from .connections import AsyncSource, run_async
from .context import PATIENCE, ContextBase, log
from .delivery import Delivery
from .errors import LeaseLost, NoConnection
from .pace import Backoff
from .place import hang_up
from .report import first_line
from .values import Duration


async def cancel(connection: "AsyncConnection[Any]") -> None:
    """Cancel its statement. The call of libpq connects and blocks, so it has a thread."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, connection.cancel)
    except psycopg.Error as error:
        log.debug("cannot cancel a statement: %s", error)


class AsyncContext(ContextBase):
    def __init__(self, delivery: Delivery, source: AsyncSource, worker: str) -> None:
        super().__init__(delivery, worker)
        self._source = source
        self._connection: Optional["AsyncConnection[Any]"] = None
        self._block: Any = None
        self._task: Optional["asyncio.Task[Any]"] = None
        self._opening: Optional[asyncio.Lock] = None

    async def connection(self) -> "AsyncConnection[Any]":
        """The connection of the task's transaction, which begins here. Its writes and the task's acknowledgement
        are one: both are committed when the handler returns, or neither is."""
        if self._opening is None:   # few handlers ask for it
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._connection is None:
                connection = await self._acquire()
                block = connection.transaction()
                try:
                    await block.__aenter__()
                except BaseException:
                    await self._source.release(connection)
                    raise
                self._connection, self._block = connection, block
        self.check()
        return self._connection

    async def _acquire(self) -> "AsyncConnection[Any]":
        """Where the server takes no more connections, others of this worker will soon be free."""
        backoff, end = Backoff(0.02, 1.0), time.monotonic() + PATIENCE
        while True:
            self.check()
            try:
                return await self._source.acquire()
            except psycopg.OperationalError as error:
                if time.monotonic() > end:
                    raise NoConnection(f"no connection for its transaction: {first_line(error)}") from error
            await asyncio.sleep(backoff.next())

    async def extend(self, lease: Optional[Duration] = None) -> datetime:
        """Until when the lease is good without a heartbeat. LeaseLost: it is not this worker's any more."""
        self.check()
        return self._extended(await self._source.run(statements.extend(self.receipt, lease)))

    async def progress(self, value: Any) -> None:
        """Tell others how far the task is: queue.get(id).progress. Seen at once, whatever the transaction does."""
        await self._source.run(self._progress(value))

    # -- for the worker

    @property
    def _in_transaction(self) -> bool:
        return self._connection is not None

    async def _commit(self, result: Optional[str]) -> None:
        """Acknowledge and commit, or raise and leave nothing."""
        assert self._connection is not None
        self.check()
        self._settling = True
        if not await run_async(self._connection, statements.ack(self.receipt, self.queue, result)):
            raise LeaseLost(f"{self._delivery}: the lease was lost before the acknowledgement")
        connection, self._connection = self._connection, None
        try:
            await self._block.__aexit__(None, None, None)
        finally:
            await self._source.release(connection)

    async def _rollback(self, error: BaseException) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if isinstance(error, asyncio.CancelledError):
            # It may be in the middle of a statement, whose answer no one has read.
            if not self._given_up():
                await cancel(connection)
            await connection.close()
        else:
            try:
                await self._block.__aexit__(type(error), error, error.__traceback__)
            except Exception as second:  # the transaction ends with its connection
                log.debug("%s: rollback failed: %s", self._delivery, second)
                await connection.close()
        await self._source.release(connection)

    def _lose(self, why: str) -> None:
        """Stop the handler: it is cancelled, and with it the statement that it waits for."""
        if self._given_up() and self._connection is not None:
            hang_up(self._connection)
        if not (self._settling or self._ended):
            self._lost = self._lost or why
            if self._task is not None:
                self._task.cancel()

    def _time_out(self, seconds: float) -> None:
        """As _lose(): the coroutine is cancelled."""
        if self._lost is None and not (self._settling or self._ended):
            self._late = f"it took longer than its timeout of {seconds:g} s"
            if self._task is not None:
                self._task.cancel()

    def _given_up(self) -> bool:
        """Whether its node may be one that hangs, which would not answer to a cancel either."""
        return bool(self._delivery.session.over and self._delivery.session.station.node is not None)
