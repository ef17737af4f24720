"""Settler, with asyncio: tells the server what handlers are done with, many at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, List, Optional

import psycopg
from psycopg import AsyncConnection

from .connections import AsyncSource, run_async
from .delivery import Settlement, batches, refused
from .pace import Backoff, is_interrupted, is_of_connection
from .place import Watch
from .report import first_line
from .settler import DOUBT, MOST
from .worker_base import log, lost_ones, tell_lost


class AsyncSettler:
    def __init__(self, source: AsyncSource, settled: Callable[[int], None], watch: Watch) -> None:
        self.source = source
        self.watch = watch
        self.settled = settled
        self._inbox: List[Settlement] = []
        self._filled = asyncio.Event()
        self._connection: Optional["AsyncConnection[Any]"] = None
        self._until: Optional[float] = None
        self.again: List[Settlement] = []
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
            while work or self._inbox or self._until is None:
                if not work:
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
        if not work:
            return
        if self._connection is None:
            self._connection = await self.source.acquire()
        for statement, some in list(batches(work)):
            try:
                with self.watch.within(self._connection):
                    done = await run_async(self._connection, statement)
            except psycopg.Error as error:
                if is_of_connection(error, self._connection.closed) or is_interrupted(error):
                    raise
                await self._one_by_one(some)
            else:
                self._note(some, done)
            told = {id(settlement) for settlement in some}
            work[:] = [settlement for settlement in work if id(settlement) not in told]

    async def _one_by_one(self, some: List[Settlement]) -> None:
        """The server refuses one of them. The others are told alone."""
        assert self._connection is not None
        for settlement in some:
            current: Optional[Settlement] = settlement
            while current is not None:
                (statement, _), = batches([current])
                try:
                    with self.watch.within(self._connection):
                        self._note([current], await run_async(self._connection, statement))
                    break
                except psycopg.Error as alone:
                    if is_of_connection(alone, self._connection.closed) or is_interrupted(alone):
                        raise
                    log.warning("%s: its %s was refused: %s", current.delivery, current.kind, first_line(alone))
                    current = refused(current, alone)
            else:
                self.settled(1)

    def _note(self, some: List[Settlement], done: List[str]) -> None:
        lost, again = lost_ones(some, done) if len(done) < len(some) else ([], [])
        for settlement in lost:
            tell_lost(settlement)
        self.again += again
        self.settled(len(some) - len(again))

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await self.source.release(connection)
