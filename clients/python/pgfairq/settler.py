"""Tells the server what handlers are done with, many at a time, on a connection of its own."""

from __future__ import annotations

import queue
import threading
import time
from typing import List, Optional

import psycopg

from .connections import Source, run
from .delivery import Settlement
from .journal import log
from .pace import Backoff
from .place import Watch
from .report import first_line
from .settler_base import DOUBT, MOST, SettlerBase, Told


class Settler(SettlerBase):
    """A thread. What it is given while it waits for the server goes in its next statements."""

    def __init__(self, source: Source, told: Told, watch: Watch) -> None:
        super().__init__(told)
        self.source = source
        self.watch = watch
        self._inbox: "queue.SimpleQueue[Optional[Settlement]]" = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="pgfairq settler", daemon=True)
        self.thread.start()

    def put(self, settlement: Settlement) -> None:
        self._inbox.put(settlement)

    def close(self, seconds: float) -> None:
        """Tell what is there, for so long at most."""
        self._until = time.monotonic() + seconds
        self._inbox.put(None)
        self.thread.join(seconds + 1)

    def _serve(self) -> None:
        backoff = Backoff(longest=2.0)
        work: List[Settlement] = []
        closing = False
        try:
            while not (closing and not work and not self.failed):
                if not (work or self.failed or closing):
                    closing = self._collect(work)
                try:
                    self._tell(work)
                    backoff.reset()
                except Exception as error:
                    self._drop()
                    if self._until is not None and time.monotonic() > self._until:
                        log.warning("%d tasks could not be settled: %s", len(work), first_line(error))
                        return
                    log.warning("cannot settle: %s; trying again", first_line(error))
                    time.sleep(backoff.next())
        finally:
            self._drop()

    def _collect(self, work: List[Settlement]) -> bool:
        """Wait for something, and take all that is there. True: there will be no more."""
        try:
            while len(work) < MOST:
                one = self._inbox.get(block=not work, timeout=DOUBT if self.again and not work else None)
                if one is None:
                    return True
                work.append(one)
        except queue.Empty:
            pass
        if self.again:
            work += self.again
            self.again = []
        return False

    def _tell(self, work: List[Settlement]) -> None:
        """Takes out of work what is told."""
        if not (work or self.failed):
            return
        if self._connection is None:
            self._connection = self.source.acquire()
        steps = self.steps(work)
        try:
            statement = next(steps)
            while True:
                try:
                    with self.watch.within(self._connection):
                        answer = run(self._connection, statement)
                except psycopg.Error as error:
                    statement = steps.throw(error)
                else:
                    statement = steps.send(answer)
        except StopIteration:
            pass

    def _drop(self) -> None:
        if self._connection is not None:
            self.source.release(self._connection)
            self._connection = None
