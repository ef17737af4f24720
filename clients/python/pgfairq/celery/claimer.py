"""Claims beside an event loop: a connection on which one claim is under way, or none.

A claim waits at the server until there is something, and is answered with the tasks themselves.
So there is nothing to poll, no notification that could be missed, and no second message before a
task is here. Its socket is readable when it is answered, and only then.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Any, NamedTuple, Optional, Sequence

import psycopg
from psycopg import pq

from ..connections import is_ready
from .database import LOCK_WAIT, Connection, keep_from_children
from .errors import GONE, ConnectionLost, Refused, as_kombu
from .lease import Lease

logger = logging.getLogger(__name__)

# A statement keeps a snapshot while it waits, and vacuum leaves alone what that may see: so not for long.
WAIT = 10.0     # seconds
CANCEL_AGAIN = 0.5

CLAIM = b"""
SELECT queue, id, receipt, enqueued_at, attempt, group_key, subgroup_key, payload, coalesce(name, '')
FROM fairq.claim_any($1::text[], $2::int, session => $3::uuid, wait => $4::interval)
"""

# As a claim of nothing: for who has no queue to claim from, but will have one.
PAUSE = b"SELECT pg_sleep(extract(epoch FROM $1::interval))"

MOST_QUEUES = 32

CANCELLED = "57014"

_open: "weakref.WeakSet[Claimer]" = weakref.WeakSet()


class Task(NamedTuple):
    lease: Lease
    attempt: int
    group: str
    subgroup: Optional[str]
    payload: str


class Claimer:
    def __init__(self, parameters: dict[str, Any], wait: float = WAIT) -> None:
        try:
            self._connection = Connection.connect(**parameters, autocommit=True)
            # A role's own timeouts are meant for statements of people.
            self._connection.execute("SET statement_timeout = 0; SET idle_session_timeout = 0; "
                                     f"SET lock_timeout = {round(LOCK_WAIT * 1000)}")
            self._pgconn = self._connection.pgconn
            for name, statement in ((b"claim", CLAIM), (b"pause", PAUSE)):
                result = self._pgconn.prepare(name, statement)
                if result.status != pq.ExecStatus.COMMAND_OK:
                    raise ConnectionLost(_text_of(result))
        except psycopg.Error as error:
            raise as_kombu(error, None) from error
        self._wait = wait
        self._session: Any = None
        self._results: list[Any] = []
        self.queues: list[str] = []     # of the latest claim
        self._lock = threading.Lock()
        self.under_way = False
        _open.add(self)

    def fileno(self) -> int:
        return self._connection.fileno()

    def start(self, queues: Sequence[str], most: int, session: Any, longest: float = float("inf")) -> None:
        """Claim up to so many tasks, of the queues in this order, under an open session."""
        with self._lock:
            self._session, self.queues = session, list(queues)
            values = [array_of(queues), str(most).encode(), session.id.encode()]
            self._send(b"claim", values + [self._seconds(longest)])

    def pause(self, seconds: float) -> None:
        """Claim nothing for so long."""
        with self._lock:
            self.queues = []
            self._send(b"pause", [self._seconds(seconds)])

    def _seconds(self, longest: float) -> bytes:
        return f"{min(self._wait, longest):.3f} s".encode()

    def _send(self, statement: bytes, values: list[Optional[bytes]]) -> None:
        try:
            self._pgconn.send_query_prepared(statement, values)
            while self._pgconn.flush():
                is_ready(self.fileno(), to_write=True)
        except psycopg.Error as error:
            raise as_kombu(error, None) from error
        self.under_way = True

    def read(self) -> Optional[list[Task]]:
        """What has arrived, without waiting: the tasks, maybe none, or None if the claim goes on.
        Refused: it is over, and the next one may fare better."""
        if not self.under_way:
            return None
        with self._lock:
            try:
                self._pgconn.consume_input()
                while not self._pgconn.is_busy():
                    result = self._pgconn.get_result()
                    if result is None:
                        self.under_way = False
                        return self._tasks()
                    self._results.append(result)
            except psycopg.Error as error:
                raise as_kombu(error, None) from error
        return None

    def _tasks(self) -> list[Task]:
        results, self._results = self._results, []
        tasks = []
        for result in results:
            if result.status != pq.ExecStatus.TUPLES_OK:
                _raise(result)
            for row in range(result.ntuples if self.queues else 0):
                values = (result.get_value(row, column) for column in range(9))
                queue, id, receipt, enqueued, attempt, group, subgroup, payload, name = (value and value.decode() for value in values)
                tasks.append(Task(Lease(queue, int(id), receipt, enqueued, name, self._session), int(attempt), group, subgroup, payload))
        if tasks:
            self._session.count(len(tasks))
        return tasks

    def stop(self) -> list[Task]:
        """End the claim that is under way; the tasks that it was given nevertheless."""
        tasks: Optional[list[Task]] = []
        try:
            while self.under_way:
                # A server that has not begun with the claim yet forgets that it is to end it.
                self._cancel()
                is_ready(self.fileno(), CANCEL_AGAIN)
                tasks = self.read()
        except Refused as refused:
            logger.debug("a claim was ended, and refused: %s", refused)
        return tasks or []

    def _cancel(self) -> None:
        try:
            self._pgconn.get_cancel().cancel()
        except psycopg.Error as error:
            raise as_kombu(error, None) from error

    def close(self) -> None:
        self.under_way = False
        self._connection.close()


def _raise(result: Any) -> None:
    """The error of a claim. 55000: its session is over, and another takes another connection."""
    sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if sqlstate == CANCELLED:   # by stop(), or by an operator
        return
    if not sqlstate or sqlstate.startswith((*GONE, "55000")):
        raise ConnectionLost(_text_of(result))
    raise Refused(_text_of(result), sqlstate)


def _text_of(result: Any) -> str:
    return f"cannot claim: {' '.join(pq.error_message(result).split())}"


def array_of(words: Sequence[str]) -> bytes:
    """A text array as the server reads it."""
    quoted = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    return ("{" + ",".join(quoted) + "}").encode()


def _after_fork() -> None:
    for claimer in list(_open):
        if not claimer._connection.closed:
            keep_from_children(claimer.fileno())


os.register_at_fork(after_in_child=_after_fork)
