"""Settler, with asyncio: tells the server what handlers are done with, many at a time."""

from __future__ import annotations

import asyncio
import time
from typing import List

import psycopg

from .connections import AsyncSource, run_async
from .delivery import Settlement
from .journal import log
from .pace import Backoff
from .place import Watch
from .report import first_line
from .settler_base import DOUBT, MOST, SettlerBase, Told


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

    async def _serve(self) -> None:
        backoff = Backoff(longest=2.0)
        work: List[Settlement] = []
        try:
            while work or self.failed or self._inbox or self._until is None:
                if not (work or self.failed):
                    await self._collect(work)
                try:
                    await self._tell(work)
                    backoff.reset()
                except Exception as error:
                    await self._drop()
                    if self._until is not None and time.monotonic() > self._until:
                        log.warning("%d tasks could not be settled: %s", len(work), first_line(error))
                        return
                    log.warning("cannot settle: %s; trying again", first_line(error))
                    await asyncio.sleep(backoff.next())
        finally:
            await self._drop()

    async def _collect(self, work: List[Settlement]) -> None:
        """Wait for something, and take all that is there."""
        if not self._inbox and self._until is None:
            self._filled.clear()
            try:
                await asyncio.wait_for(self._filled.wait(), DOUBT if self.again else None)
            except asyncio.TimeoutError:
                pass
        work += self._inbox[:MOST] + self.again
        self.again = []
        del self._inbox[:MOST]

    async def _tell(self, work: List[Settlement]) -> None:
        """Takes out of work what is told."""
        if not (work or self.failed):
            return
        if self._connection is None:
            self._connection = await self.source.acquire()
        steps = self.steps(work)
        try:
            statement = next(steps)
            while True:
                try:
                    with self.watch.within(self._connection):
                        answer = await run_async(self._connection, statement)
                except psycopg.Error as error:
                    statement = steps.throw(error)
                else:
                    statement = steps.send(answer)
        except StopIteration:
            pass

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await self.source.release(connection)
