"""A worker's session at the server, on a connection of its own: heartbeats, claims, and waiting for tasks."""

from __future__ import annotations

from typing import List, Optional, Sequence

import psycopg

from . import statements
from .attendance import Attendance
from .connections import Source, T, follow, run
from .delivery import Delivery
from .place import Watch
from .session_base import SETTINGS, SessionBase
from .statements import Statement


class Session(SessionBase):
    def __init__(self, source: Source, name: str, ttl: float, bound: bool, watch: Watch) -> None:
        super().__init__(source, ttl, watch)
        self.connection = source.connect()
        try:
            if bound:  # else the connection may be another one with each statement
                self.connection.execute(SETTINGS, self.settings)
                self.connection.prepare_threshold = 5
            self.id = self._ask(statements.open_session(name, ttl, bound))
        except BaseException:
            self._let_go()
            raise

    def beat(self, held: Sequence[Delivery]) -> List[Delivery]:
        return follow(self.beating(held), self._ask)

    def claim(self, attendance: Attendance, queues: Sequence[str], count: int, wait: float) -> Optional[List[Delivery]]:
        return follow(self.claiming(attendance, queues, count, wait), self._ask)

    def release(self, deliveries: Sequence[Delivery]) -> List[Delivery]:
        return follow(self.releasing(deliveries), self._ask)

    def interrupt(self) -> None:
        """End a claim that waits. From any thread."""
        try:
            if self.waits:
                self.connection.cancel()
        except psycopg.Error:
            pass

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            follow(self.closing(), self._ask)
            self._let_go()

    def _ask(self, statement: Statement[T]) -> T:
        self.waits = statement.waits > 0
        try:
            with self.watch.within(self.connection, statement.waits):
                return run(self.connection, statement)
        finally:
            self.waits = False

    def _let_go(self) -> None:
        self.connection.close()  # not to be lent to others: it has settings of its own
        self.source.release(self.connection)
