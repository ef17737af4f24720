"""Where a worker works: in the database of its queues, or, if that is a proxy of a cluster, at a node that the proxy names.

The proxy says as well when to ask it again. Here is what Worker and AsyncWorker share.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from . import statements
from .attendance import Attendance
from .connections import AnyConnection, AsyncSource, Source, Steps, follow, follow_async, run, run_async
from .pace import Backoff, is_hopeless

# A connection to the proxy is kept for the next question, if that comes so soon. Each is one to every node, too.
KEPT = 10.0
# A node has so many seconds for an answer, beside those that a call waits itself.
PATIENCE = 10.0

# What the node's connection says of where it is, and how soon it is taken for dead; all else is the worker's own.
OF_NODE = ("host", "hostaddr", "port", "dbname", "target_session_attrs", "load_balance_hosts", "service")
LIMITS = ("connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")


class Node(NamedTuple):
    number: int
    conninfo: str
    ready: int


def conninfo_at(connection: str, own: Dict[str, Any]) -> str:
    """How to come to a node, with the user, the password and the TLS settings of the connection to the proxy."""
    theirs = conninfo_to_dict(connection)
    ours = {word: value for word, value in own.items() if word not in OF_NODE}
    first = {word: value for word, value in theirs.items() if word in OF_NODE + LIMITS}
    return make_conninfo("", **{**theirs, **ours, **first})


class GuideBase:
    """When to ask, what to ask, and what to make of the answer."""

    def __init__(self, attendance: Attendance) -> None:
        self.attendance = attendance
        self.is_proxy: Optional[bool] = None    # not known yet
        self.pause = 2.0
        self._next = 0.0
        self._worked = False
        self._unreached: Dict[int, Tuple[float, Backoff]] = {}

    def due_in(self) -> float:
        return max(0.0, self._next - time.monotonic()) if self.is_proxy else float("inf")

    def found(self, node: Optional[Node], count: int) -> None:
        """So many tasks were claimed. When a node becomes empty it is time to ask soon."""
        if node is None:
            return
        self._unreached.pop(node.number, None)
        if count == 0 and self._worked:
            self._next = min(self._next, time.monotonic() + self.pause / 4 * random.uniform(0.5, 1.5))
        self._worked = count > 0

    def unreached(self, node: Node) -> None:
        """The node could not be connected to, or was lost: it is not asked for, for ever longer times."""
        backoff = self._unreached[node.number][1] if node.number in self._unreached else Backoff(5.0, 60.0)
        self._unreached[node.number] = (time.monotonic() + backoff.next(), backoff)

    def postpone(self) -> None:
        self._next = time.monotonic() + self.pause * random.uniform(0.75, 1.25)

    def asking(self, session: Optional[str], info: "psycopg.ConnectionInfo") -> Steps[Optional[Node]]:
        """The node to work at, for one who has this session at another. None: the database of the queues is no proxy."""
        if self.is_proxy is None:
            self.is_proxy = yield statements.is_proxy()
        if not self.is_proxy:
            return None
        queues = self.attendance.present() or self.attendance.queues
        answers: List[Tuple[int, str, int, float]] = []
        try:
            answers.append((yield self.question(session, queues)))
        except psycopg.Error as error:
            if len(self.attendance.queues) == 1 or not is_hopeless(error):
                raise
            for queue in self.attendance.queues:    # also those that are put off, if no other is left
                try:
                    answers.append((yield self.question(session, [queue])))
                except psycopg.Error as alone:
                    if not is_hopeless(alone):
                        raise
                    self.attendance.refused([queue], alone)
            if not answers:
                raise
        return self.answer(max(answers, key=lambda answer: answer[2]), info)

    def question(self, session: Optional[str], queues: Sequence[str]) -> statements.Statement[Tuple[int, str, int, float]]:
        now = time.monotonic()
        return statements.worker_node(queues, session, [number for number, (until, _) in self._unreached.items() if until > now])

    def answer(self, answer: Tuple[int, str, int, float], info: "psycopg.ConnectionInfo") -> Node:
        number, connection, ready, self.pause = answer
        self.postpone()
        own: Dict[str, Any] = dict(info.get_parameters())
        if info.password:
            own["password"] = info.password
        return Node(number, conninfo_at(connection, own), ready)


class Guide(GuideBase):
    def __init__(self, source: Source, attendance: Attendance, watch: "Watch") -> None:
        super().__init__(attendance)
        self.source = source
        self.watch = watch

    def ask(self, session: Optional[str]) -> Optional[Node]:
        if self.is_proxy is False:
            return None
        connection = self.source.acquire()
        try:
            with self.watch.within(connection):
                return follow(self.asking(session, connection.info), lambda statement: run(connection, statement))
        finally:
            if self.pause > KEPT:
                connection.close()
            self.source.release(connection)


class AsyncGuide(GuideBase):
    def __init__(self, source: AsyncSource, attendance: Attendance, watch: "Watch") -> None:
        super().__init__(attendance)
        self.source = source
        self.watch = watch

    async def ask(self, session: Optional[str]) -> Optional[Node]:
        if self.is_proxy is False:
            return None
        connection = await self.source.acquire()
        try:
            with self.watch.within(connection):
                return await follow_async(self.asking(session, connection.info),
                                          lambda statement: run_async(connection, statement))
        finally:
            if self.pause > KEPT:
                await connection.close()
            await self.source.release(connection)


def hang_up(connection: AnyConnection) -> None:
    """End a call whose server says nothing. From any thread, and without a word to the server."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError, psycopg.Error):
        pass    # it has ended


class Watch:
    """Ends calls that are not answered: a thread, which there is while there are calls to watch.

    At a node the worker has another place to go to. In the only database it waits, as for any other statement.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Dict[int, Tuple[float, AnyConnection]] = {}
        self._thread: Optional[threading.Thread] = None

    @contextmanager
    def within(self, connection: AnyConnection, waits: float = 0.0) -> Iterator[None]:
        with self._lock:
            self._calls[id(connection)] = (time.monotonic() + waits + PATIENCE, connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="pgfairq watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._calls.pop(id(connection), None)

    def end_soon(self, connection: AnyConnection) -> None:
        """What still runs on it in some seconds is for nobody."""
        with self.within(connection):
            pass
        with self._lock:
            self._calls[id(connection)] = (time.monotonic() + PATIENCE, connection)

    def _serve(self) -> None:
        idle = 0
        while True:
            time.sleep(1)
            now = time.monotonic()
            with self._lock:
                idle = 0 if self._calls else idle + 1
                if idle > 30:
                    self._thread = None
                    return
                late = [connection for until, connection in self._calls.values() if now > until]
                for connection in late:
                    del self._calls[id(connection)]
            for connection in late:
                hang_up(connection)


class NoWatch(Watch):
    """For calls that may take as long as they take."""

    def end_soon(self, connection: AnyConnection) -> None:
        pass

    @contextmanager
    def within(self, connection: AnyConnection, waits: float = 0.0) -> Iterator[None]:
        yield
