"""Tells the server what handlers are done with, many at a time, on a connection of its own."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, List, Optional

import psycopg
from psycopg import Connection

from .connections import Source, run
from .delivery import Settlement, batches, refused
from .pace import Backoff, is_interrupted, is_of_connection
from .place import Watch
from .report import first_line
from .worker_base import log, lost_ones, tell_lost

MOST = 1000     # in one round
DOUBT = 1.0     # seconds until one that was refused in doubt is told again


class Settler:
    """A thread. What it is given while it waits for the server goes in its next statements."""

    def __init__(self, source: Source, settled: Callable[[int], None], watch: Watch) -> None:
        self.source = source
        self.watch = watch
        self.settled = settled
        self._inbox: "queue.SimpleQueue[Optional[Settlement]]" = queue.SimpleQueue()
        self._connection: Optional["Connection[Any]"] = None
        self._until: Optional[float] = None
        self.again: List[Settlement] = []
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
            while not (closing and not work):
                if not work and not closing:
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
        if not work:
            return
        if self._connection is None:
            self._connection = self.source.acquire()
        for statement, some in list(batches(work)):
            try:
                with self.watch.within(self._connection):
                    done = run(self._connection, statement)
            except psycopg.Error as error:
                if is_of_connection(error, self._connection.closed) or is_interrupted(error):
                    raise
                self._one_by_one(some)
            else:
                self._note(some, done)
            told = {id(settlement) for settlement in some}
            work[:] = [settlement for settlement in work if id(settlement) not in told]

    def _one_by_one(self, some: List[Settlement]) -> None:
        """The server refuses one of them. The others are told alone."""
        assert self._connection is not None
        for settlement in some:
            current: Optional[Settlement] = settlement
            while current is not None:
                (statement, _), = batches([current])
                try:
                    with self.watch.within(self._connection):
                        self._note([current], run(self._connection, statement))
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

    def _drop(self) -> None:
        if self._connection is not None:
            self.source.release(self._connection)
            self._connection = None
