"""Session, with asyncio."""

from __future__ import annotations

from typing import List, Optional, Sequence

from . import statements
from .async_context import cancel
from .attendance import Attendance
from .connections import AsyncSource, T, follow_async, run_async
from .delivery import Delivery
from .place import Watch
from .session_base import SETTINGS, SessionBase
from .statements import Statement


class AsyncSession(SessionBase):
    @classmethod
    async def open(cls, source: AsyncSource, name: str, ttl: float, bound: bool, watch: Watch) -> AsyncSession:
        self = cls(source, ttl, watch)
        self.connection = await source.connect()
        try:
            if bound:  # else the connection may be another one with each statement
                await self.connection.execute(SETTINGS, self.settings)
                self.connection.prepare_threshold = 5
            self.id = await self._ask(statements.open_session(name, ttl, bound))
        except BaseException:
            await self._let_go()
            raise
        return self

    async def beat(self, held: Sequence[Delivery]) -> List[Delivery]:
        return await follow_async(self.beating(held), self._ask)

    async def claim(self, attendance: Attendance, queues: Sequence[str], count: int, wait: float) -> Optional[List[Delivery]]:
        return await follow_async(self.claiming(attendance, queues, count, wait), self._ask)

    async def release(self, deliveries: Sequence[Delivery]) -> List[Delivery]:
        return await follow_async(self.releasing(deliveries), self._ask)

    async def interrupt(self) -> None:
        """End a claim that waits."""
        if self.waits:
            await cancel(self.connection)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await follow_async(self.closing(), self._ask)
            await self._let_go()

    async def _ask(self, statement: Statement[T]) -> T:
        self.waits = statement.waits > 0
        try:
            with self.watch.within(self.connection, statement.waits):
                return await run_async(self.connection, statement)
        finally:
            self.waits = False

    async def _let_go(self) -> None:
        await self.connection.close()  # not to be lent to others: it has settings of its own
        await self.source.release(self.connection)
