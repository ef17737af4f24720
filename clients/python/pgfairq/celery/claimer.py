"""Claims beside an event loop: a connection on which one claim is under way, or none.

A claim waits at the server until there is something, and is answered with the tasks themselves.
So there is nothing to poll, no notification that could be missed, and no second message before a
task is here. Its socket is readable when it is answered, and only then.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import weakref
from typing import Any, NamedTuple, Optional, Sequence

import psycopg
from psycopg import pq

from .database import keep_from_children
from .errors import ConnectionLost, Refused, as_kombu
from .lease import Lease

logger = logging.getLogger(__name__)

# A statement keeps a snapshot while it waits, and vacuum leaves alone what that may see: so not for long.
WAIT = 10.0     # seconds

CLAIM = b"""
SELECT queue, id, receipt, enqueued_at, attempt, group_key, subgroup_key, payload, coalesce(name, '')
FROM fairq.claim_any($1::text[], $2::int, session => $3::uuid, wait => $4::interval)
"""

MOST_QUEUES = 32

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
            self._connection = psycopg.connect(**parameters, autocommit=True)
            # A role's own timeouts are meant for statements of people.
            self._connection.execute("SET statement_timeout = 0; SET idle_session_timeout = 0")
            self._pgconn = self._connection.pgconn
            self._expect(self._pgconn.prepare(b"claim", CLAIM), pq.ExecStatus.COMMAND_OK)
        except psycopg.Error as error:
            raise as_kombu(error, None) from error
        self._wait = wait
        self._session: Any = None
        self._results: list[Any] = []
        self._lock = threading.Lock()
        self.under_way = False
        _open.add(self)

    def fileno(self) -> int:
        return self._connection.fileno()

    def start(self, queues: Sequence[str], most: int, session: Any, longest: float = float("inf")) -> None:
        """Claim up to so many tasks, of the queues in this order, under an open session."""
        with self._lock:
            self._session = session
            self._send([array_of(queues), str(most).encode(), session.id.encode(), f"{min(self._wait, longest)} s".encode()])

    def _send(self, values: list[Optional[bytes]]) -> None:
        try:
            self._pgconn.send_query_prepared(b"claim", values)
            while self._pgconn.flush():
                select.select([], [self], [])
        except psycopg.Error as error:
            raise as_kombu(error, None) from error
        self.under_way = True

    def read(self) -> Optional[list[Task]]:
        """What has arrived, without waiting: the tasks, maybe none, or None if the claim goes on."""
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
            if result.error_field(pq.DiagnosticField.SQLSTATE) == b"57014":
                continue  # stop() has cancelled it
            self._expect(result, pq.ExecStatus.TUPLES_OK)
            for row in range(result.ntuples):
                values = (result.get_value(row, column) for column in range(9))
                queue, id, receipt, enqueued, attempt, group, subgroup, payload, name = (value and value.decode() for value in values)
                tasks.append(Task(Lease(queue, int(id), receipt, enqueued, name, self._session), int(attempt), group, subgroup, payload))
        self._session.count(len(tasks))
        return tasks

    def _expect(self, result: Any, status: Any) -> None:
        if result.status == status:
            return
        text = f"cannot claim: {' '.join(pq.error_message(result).split())}"
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
        if sqlstate == b"42501":  # for good, unlike a queue that was dropped or a session that is over
            raise Refused(text, sqlstate.decode())
        raise ConnectionLost(text)

    def stop(self) -> list[Task]:
        """End the claim that is under way; the tasks that it was given nevertheless."""
        tasks: Optional[list[Task]] = []
        if self.under_way:
            try:
                self._pgconn.get_cancel().cancel()
            except psycopg.Error as error:
                raise as_kombu(error, None) from error
            tasks = self.read()
            while tasks is None:
                select.select([self], [], [])
                tasks = self.read()
        return tasks or []

    def close(self) -> None:
        self.under_way = False
        self._connection.close()


def array_of(words: Sequence[str]) -> bytes:
    """A text array as the server reads it."""
    quoted = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    return ("{" + ",".join(quoted) + "}").encode()


def _after_fork() -> None:
    for claimer in list(_open):
        if not claimer._connection.closed:
            keep_from_children(claimer.fileno())


os.register_at_fork(after_in_child=_after_fork)
