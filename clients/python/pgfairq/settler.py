"""Tells the server what handlers are done with, many at a time, on a connection of its own."""

from __future__ import annotations

import queue
import threading
import time
from typing import List, Optional

from .connections import Source, T, follow, run
from .delivery import Settlement
from .pace import Backoff
from .place import Watch
from .settler_base import MOST, SettlerBase, Told
from .statements import Statement


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

    def _is_empty(self) -> bool:
        return self._inbox.empty()

    def _serve(self) -> None:
        backoff = Backoff(longest=2.0)
        work: List[Settlement] = []
        try:
            while not self._is_over(work):
                self._collect(work)
                try:
                    self._send(work)
                    backoff.reset()
                except Exception as error:
                    self._drop()
                    if self._gives_up(work, error):
                        return
                    time.sleep(backoff.next())
        finally:
            self._drop()

    def _collect(self, work: List[Settlement]) -> None:
        """Wait for something, and take all that is there."""
        patience = self._patience(work)
        try:
            while len(work) < MOST:
                one = self._inbox.get(patience != 0, patience)
                if one is not None:     # else it wakes us to close
                    work.append(one)
                patience = 0.0
        except queue.Empty:
            pass
        self._take_due(work)

    def _send(self, work: List[Settlement]) -> None:
        """Takes out of work what is told."""
        if work or self.failed:
            if self._connection is None:
                self._connection = self.source.acquire()
            follow(self.steps(work), self._ask)

    def _ask(self, statement: Statement[T]) -> T:
        with self.watch.within(self._connection):
            return run(self._connection, statement)

    def _drop(self) -> None:
        if self._connection is not None:
            self.source.release(self._connection)
            self._connection = None
