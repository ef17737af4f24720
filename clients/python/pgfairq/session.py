"""A worker's session at the server, on a connection of its own: heartbeats, claims, and waiting for tasks."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, List, Optional, Sequence, TypeVar

import psycopg

from . import statements
from .connections import Source, run
from .delivery import Delivery
from .pace import beat_interval, is_interrupted
from .place import Watch
from .statements import Statement

T = TypeVar("T")

# A claim that waits for a table's lock would hold up the heartbeats; one that waits for a task has no limit but its own.
SETTINGS = "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', '0', false)"


class SessionOver(Exception):
    """No heartbeat came in time, or the session's connection was lost: other workers have its tasks."""


def default_name() -> str:
    return f"{socket.gethostname()}.{os.getpid()}"


class Beats:
    """When the next heartbeat is due."""

    def __init__(self, ttl: float) -> None:
        self.interval = beat_interval(ttl)
        self.last = time.monotonic()

    def due_in(self) -> float:
        return max(0.0, self.last + self.interval - time.monotonic())

    def late_by(self) -> float:
        return max(0.0, time.monotonic() - self.last - self.interval)


class Session:
    """One at a time uses it: the worker's thread for claims. Others may interrupt()."""

    def __init__(self, source: Source, name: str, ttl: float, bound: bool, watch: Watch) -> None:
        self.source = source
        self.watch = watch
        self.station: Any = None
        self._closed = False
        self.over = False
        self.waits = False  # for a task, at the server
        self.beats = Beats(ttl)
        self.connection = source.connect()
        try:
            if bound:  # else the connection may be another one with each statement
                self.connection.execute(SETTINGS, (str(int(self.beats.interval * 1000)),))
                self.connection.prepare_threshold = 5
            self.id: str = self._ask(statements.open_session(name, ttl, bound))
        except BaseException:
            self._let_go()
            raise

    def beat(self, receipts: Sequence[str]) -> List[str]:
        """A heartbeat; those of the receipts that are still held. SessionOver if the session is."""
        at = time.monotonic()
        if not self._run(statements.heartbeat(self.id)):
            raise SessionOver("the session is over: no heartbeat came in time")
        self.beats.last = at
        if not receipts:
            return []
        try:
            return self._ask(statements.still_held(receipts))
        except psycopg.Error as error:
            if self.connection.closed or not is_interrupted(error):
                raise
            return list(receipts)   # not known while the table is locked: asked again with the next one

    def claim(self, queues: Sequence[str], count: int, wait: float) -> Optional[List[Delivery]]:
        """What could be claimed; None if the call was interrupted."""
        self.waits = wait > 0
        try:
            rows = self._ask(statements.claim(queues, count, self.id, wait), wait)
        except psycopg.Error as error:
            if self.connection.closed or not is_interrupted(error):
                raise
            return None
        finally:
            self.waits = False
        return [Delivery(row, self) for row in rows]

    def release(self, receipts: Sequence[str]) -> bool:
        """Give tasks back to their places. False: the table is locked."""
        try:
            if receipts:
                self._run(statements.release_many(receipts, None))
            return True
        except psycopg.Error as error:
            if self.connection.closed or not is_interrupted(error):
                raise
            return False

    def interrupt(self) -> None:
        """End a claim that waits. From any thread."""
        try:
            if self.waits:
                self.connection.cancel()
        except psycopg.Error:
            pass

    def close(self) -> None:
        """What it still has is back in its place."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self.over and not self.connection.closed:
                self._run(statements.close_session(self.id))
        except psycopg.Error:
            pass  # it ends with its connection, or with its time
        self.over = True
        self._let_go()

    def _ask(self, statement: Statement[T], waits: float = 0.0) -> T:
        with self.watch.within(self.connection, waits):
            return run(self.connection, statement)

    def _run(self, statement: Statement[T]) -> T:
        """Again, if an interrupt comes late that was for a claim."""
        for attempt in range(3):
            try:
                return self._ask(statement)
            except psycopg.Error as error:
                if self.connection.closed or not is_interrupted(error) or attempt == 2:
                    raise
        raise AssertionError

    def _let_go(self) -> None:
        self.connection.close()  # not to be lent to others: it has settings of its own
        self.source.release(self.connection)
