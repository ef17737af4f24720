"""Session, with asyncio."""

from __future__ import annotations

import time
from typing import Any, List, Optional, Sequence, TypeVar

import psycopg
from psycopg import AsyncConnection

from . import statements
from .async_context import cancel
from .connections import AsyncSource, run_async
from .delivery import Delivery
from .pace import is_interrupted
from .place import Watch
from .session import SETTINGS, Beats, SessionOver
from .statements import Statement

T = TypeVar("T")


class AsyncSession:
    """One at a time uses it: the worker's task for claims. Others may interrupt()."""

    id: str
    connection: "AsyncConnection[Any]"

    def __init__(self, source: AsyncSource, ttl: float, watch: Watch) -> None:
        self.source = source
        self.watch = watch
        self.station: Any = None
        self._closed = False
        self.over = False
        self.waits = False  # for a task, at the server
        self.beats = Beats(ttl)

    @classmethod
    async def open(cls, source: AsyncSource, name: str, ttl: float, bound: bool, watch: Watch) -> AsyncSession:
        self = cls(source, ttl, watch)
        self.connection = await source.connect()
        try:
            if bound:  # else the connection may be another one with each statement
                await self.connection.execute(SETTINGS, (str(int(self.beats.interval * 1000)),))
                self.connection.prepare_threshold = 5
            self.id = await self._ask(statements.open_session(name, ttl, bound))
        except BaseException:
            await self._let_go()
            raise
        return self

    async def beat(self, receipts: Sequence[str]) -> List[str]:
        """A heartbeat; those of the receipts that are still held. SessionOver if the session is."""
        at = time.monotonic()
        if not await self._run(statements.heartbeat(self.id)):
            raise SessionOver("the session is over: no heartbeat came in time")
        self.beats.last = at
        if not receipts:
            return []
        try:
            return await self._ask(statements.still_held(receipts))
        except psycopg.Error as error:
            if self.connection.closed or not is_interrupted(error):
                raise
            return list(receipts)   # not known while the table is locked: asked again with the next one

    async def claim(self, queues: Sequence[str], count: int, wait: float) -> Optional[List[Delivery]]:
        """What could be claimed; None if the call was interrupted."""
        self.waits = wait > 0
        try:
            rows = await self._ask(statements.claim(queues, count, self.id, wait), wait)
        except psycopg.Error as error:
            if self.connection.closed or not is_interrupted(error):
                raise
            return None
        finally:
            self.waits = False
        return [Delivery(row, self) for row in rows]

    async def release(self, receipts: Sequence[str]) -> bool:
        """Give tasks back to their places. False: the table is locked."""
        try:
            if receipts:
                await self._run(statements.release_many(receipts, None))
            return True
        except psycopg.Error as error:
            if self.connection.closed or not is_interrupted(error):
                raise
            return False

    async def interrupt(self) -> None:
        """End a claim that waits."""
        if self.waits:
            await cancel(self.connection)

    async def close(self) -> None:
        """What it still has is back in its place."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self.over and not self.connection.closed:
                await self._run(statements.close_session(self.id))
        except psycopg.Error:
            pass  # it ends with its connection, or with its time
        self.over = True
        await self._let_go()

    async def _ask(self, statement: Statement[T], waits: float = 0.0) -> T:
        with self.watch.within(self.connection, waits):
            return await run_async(self.connection, statement)

    async def _run(self, statement: Statement[T]) -> T:
        """Again, if an interrupt comes late that was for a claim."""
        for attempt in range(3):
            try:
                return await self._ask(statement)
            except psycopg.Error as error:
                if self.connection.closed or not is_interrupted(error) or attempt == 2:
                    raise
        raise AssertionError

    async def _let_go(self) -> None:
        await self.connection.close()  # not to be lent to others: it has settings of its own
        await self.source.release(self.connection)
