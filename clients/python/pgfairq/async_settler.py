"""Settler, with asyncio: tells the server what handlers are done with, many at a time."""

from __future__ import annotations

import asyncio
import time
from typing import List

from .connections import AsyncSource, T, follow_async, run_async
from .delivery import Settlement
from .pace import Backoff
from .place import Watch
from .settler_base import MOST, SettlerBase, Told
from .statements import Statement


class AsyncSettler(SettlerBase):
    def __init__(self, source: AsyncSource, told: Told, watch: Watch) -> None:
        super().__init__(told)
        self.source = source
        self.watch = watch
        self._inbox: List[Settlement] = []
        self._filled = asyncio.Event()
        self.task = asyncio.create_task(self._serve())

    def put(self, settlement: Settlement) -> None:
        self._inbox.append(settlement)
        self._filled.set()

    async def close(self, seconds: float) -> None:
        """Tell what is there, for so long at most."""
        self._until = time.monotonic() + seconds
        self._filled.set()
        await asyncio.wait([self.task], timeout=seconds + 1)

    def _is_empty(self) -> bool:
        return not self._inbox

    async def _serve(self) -> None:
        backoff = Backoff(longest=2.0)
        work: List[Settlement] = []
        try:
            while not self._is_over(work):
                await self._collect(work)
                try:
                    await self._send(work)
                    backoff.reset()
                except Exception as error:
                    await self._drop()
                    if self._gives_up(work, error):
                        return
                    await asyncio.sleep(backoff.next())
        finally:
            await self._drop()

    async def _collect(self, work: List[Settlement]) -> None:
        """Wait for something, and take all that is there."""
        if not self._inbox:
            self._filled.clear()
            patience = self._patience(work)
            if patience != 0:
                try:
                    await asyncio.wait_for(self._filled.wait(), patience)
                except asyncio.TimeoutError:
                    pass
        room = max(0, MOST - len(work))
        work += self._inbox[:room]
        del self._inbox[:room]
        self._take_due(work)

    async def _send(self, work: List[Settlement]) -> None:
        """Takes out of work what is told."""
        if work or self.failed:
            if self._connection is None:
                self._connection = await self.source.acquire()
            await follow_async(self.steps(work), self._ask)

    async def _ask(self, statement: Statement[T]) -> T:
        with self.watch.within(self._connection):
            return await run_async(self._connection, statement)

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await self.source.release(connection)
