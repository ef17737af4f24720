"""Where connections come from: a connection string, a pool of psycopg_pool, or a function."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from typing import (Any, AsyncIterator, Awaitable, Callable, Deque, Dict, Generator, Iterator, List, Optional, Protocol, Set, TypeVar,
                    Union, cast)

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from .statements import Statement

T = TypeVar("T")
AnyConnection = Union["Connection[Any]", "AsyncConnection[Any]"]


class Pool(Protocol):
    """What is used of psycopg_pool.ConnectionPool."""

    def getconn(self) -> "Connection[Any]": ...

    def putconn(self, conn: "Connection[Any]") -> None: ...


class AsyncPool(Protocol):
    """What is used of psycopg_pool.AsyncConnectionPool."""

    async def getconn(self) -> "AsyncConnection[Any]": ...

    async def putconn(self, conn: "AsyncConnection[Any]") -> None: ...


Given = Union[str, Pool, Callable[[], "Connection[Any]"]]
AsyncGiven = Union[str, AsyncPool, Callable[[], Awaitable["AsyncConnection[Any]"]]]

# A connection that is dead is noticed within half a minute, also by a worker that only listens.
DEFAULTS: Dict[str, Any] = {
    "client_encoding": "utf8", "connect_timeout": "10", "application_name": "pgfairq", "keepalives_idle": "10",
    "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "25000",
}
# Prepared statements do not pass a pooler in transaction mode.
SETTINGS: Dict[str, Any] = {"autocommit": True, "prepare_threshold": None}


def connect_arguments(conninfo: str) -> Dict[str, Any]:
    return {**DEFAULTS, **conninfo_to_dict(conninfo), **SETTINGS}


def is_usable(connection: AnyConnection) -> bool:
    """Open, between transactions, and the server has not sent anything: what it sends unasked is mostly its farewell."""
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    try:
        return not is_ready(connection.fileno(), 0)
    except (OSError, ValueError, psycopg.Error):
        return False


def is_ready(descriptor: int, seconds: Optional[float] = None, to_write: bool = False) -> bool:
    """Whether it can be read, or written to, within this time; None: once it can. select() takes none beyond 1,023."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if to_write else select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))
    some = [descriptor]
    return any(select.select([] if to_write else some, some if to_write else [], [], seconds))


def run(connection: "Connection[Any]", statement: Statement[T]) -> T:
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(statement.query, statement.parameters)
        return statement.read(cursor.fetchall())


async def run_async(connection: "AsyncConnection[Any]", statement: Statement[T]) -> T:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(statement.query, statement.parameters)
        return statement.read(await cursor.fetchall())


# Statements one after the other, each for the answer to the one before: the same for both kinds of connections.
Steps = Generator[Statement[Any], Any, T]


def follow(steps: Steps[T], ask: Callable[[Statement[Any]], Any]) -> T:
    """Ask each statement; its answer, or the error, is sent to the steps. What these return."""
    try:
        statement = next(steps)
        while True:
            try:
                answer = ask(statement)
            except psycopg.Error as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def follow_async(steps: Steps[T], ask: Callable[[Statement[Any]], Awaitable[Any]]) -> T:
    try:
        statement = next(steps)
        while True:
            try:
                answer = await ask(statement)
            except psycopg.Error as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


CALLS = 10          # of an application that are under way at a time on connections of our own; a pool has its own bound
PATIENCE = 1.0      # seconds; then a call takes one more, for those before it may wait for locks that only it can free


class Line:
    """Where calls of threads wait for their turn, so that a thousand at a time do not make as many connections."""

    def __init__(self) -> None:
        self._under_way = 0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._under_way < CALLS, PATIENCE)
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify()


class AsyncLine:
    """The same for the tasks of an event loop: who has had a turn hands it on, to the first in line."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: Deque["asyncio.Future[None]"] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        if self._under_way < CALLS or not await self._was_handed_on():
            self._under_way += 1
        try:
            yield
        finally:
            self._hand_on()

    async def _was_handed_on(self) -> bool:
        place: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await asyncio.wait([place], timeout=PATIENCE)
        except asyncio.CancelledError:
            if place.done():
                self._hand_on()
            raise
        finally:
            place.cancel()      # which does nothing to one that was handed on
        return not place.cancelled()

    def _hand_on(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._under_way -= 1


class Source:
    """Lends connections in autocommit mode, to any number of threads."""

    def __init__(self, given: Given) -> None:
        if not (isinstance(given, str) or hasattr(given, "getconn") or callable(given)):
            raise TypeError("the queue's connection must be a connection string, a pool of psycopg_pool, or a function that"
                            f" returns a connection, not {type(given).__name__}")
        if isinstance(given, str):
            conninfo_to_dict(given)  # says at once what is wrong with it
        self.given = given
        self._idle: List["Connection[Any]"] = []
        self._line = Line()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._changed: Set[int] = set()  # connections of a pool that are not in autocommit mode for others

    def acquire(self) -> "Connection[Any]":
        given = self.given
        if not isinstance(given, str) and hasattr(given, "getconn"):
            connection = given.getconn()
            if not connection.autocommit:
                connection.autocommit = True
                self._changed.add(id(connection))
            return connection
        while True:
            with self._lock:
                self._forget_parents()
                if not self._idle:
                    break
                connection = self._idle.pop()
            if is_usable(connection):
                return connection
            connection.close()
        return self.connect()

    def connect(self) -> "Connection[Any]":
        """A new one, for the caller to close; from a pool one of its connections, to be released."""
        given = self.given
        if isinstance(given, str):
            return psycopg.connect("", **connect_arguments(given))
        if hasattr(given, "getconn"):
            return self.acquire()
        connection = given()
        if not isinstance(connection, Connection):
            raise TypeError(f"the function for connections must return a psycopg.Connection, not {type(connection).__name__}")
        connection.autocommit = True
        return connection

    def release(self, connection: "Connection[Any]") -> None:
        if not isinstance(self.given, str) and hasattr(self.given, "putconn"):
            changed = id(connection) in self._changed
            self._changed.discard(id(connection))
            if not is_usable(connection):
                connection.close()
            elif changed:
                connection.autocommit = False
            self.given.putconn(connection)
        elif is_usable(connection):
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def connection(self) -> Iterator["Connection[Any]"]:
        connection = self.acquire()
        try:
            yield connection
        finally:
            self.release(connection)

    def run(self, statement: Statement[T]) -> T:
        with self.connection() as connection:
            return run(connection, statement)

    def call(self, statement: Statement[T]) -> T:
        """What an application asks, and the server answers at once."""
        if not isinstance(self.given, str) and hasattr(self.given, "getconn"):
            return self.run(statement)
        with self._lock:
            self._forget_parents()
            line = self._line
        with line.turn():
            return self.run(statement)

    def close(self) -> None:
        """Closes what is idle. A pool is its owner's to close."""
        with self._lock:
            self._forget_parents()
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _forget_parents(self) -> None:
        """After a fork the connections are the parent's: they are neither used nor closed here."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._idle = []
            self._line = Line()


class AsyncSource:
    """Lends connections in autocommit mode, to the tasks of an event loop."""

    def __init__(self, given: AsyncGiven) -> None:
        if not (isinstance(given, str) or hasattr(given, "getconn") or callable(given)):
            raise TypeError("the queue's connection must be a connection string, an AsyncConnectionPool, or a coroutine function"
                            f" that returns a connection, not {type(given).__name__}")
        if isinstance(given, str):
            conninfo_to_dict(given)
        self.given = given
        self._idle: List["AsyncConnection[Any]"] = []
        self._line = AsyncLine()
        self._owner: Optional[object] = None
        self._changed: Set[int] = set()

    async def acquire(self) -> "AsyncConnection[Any]":
        given = self.given
        if not isinstance(given, str) and hasattr(given, "getconn"):
            connection = await given.getconn()
            if not connection.autocommit:
                await connection.set_autocommit(True)
                self._changed.add(id(connection))
            return connection
        self._forget_others()
        while self._idle:
            connection = self._idle.pop()
            if is_usable(connection):
                return connection
            await connection.close()
        return await self.connect()

    async def connect(self) -> "AsyncConnection[Any]":
        given = self.given
        connection: Any
        if isinstance(given, str):
            connection = await AsyncConnection.connect("", **connect_arguments(given))
            return cast("AsyncConnection[Any]", connection)
        if hasattr(given, "getconn"):
            return await self.acquire()
        connection = await given()
        if not isinstance(connection, AsyncConnection):
            raise TypeError(f"the function for connections must return a psycopg.AsyncConnection, not {type(connection).__name__}")
        await connection.set_autocommit(True)
        return connection

    async def release(self, connection: "AsyncConnection[Any]") -> None:
        if not isinstance(self.given, str) and hasattr(self.given, "putconn"):
            changed = id(connection) in self._changed
            self._changed.discard(id(connection))
            if not is_usable(connection):
                await connection.close()
            elif changed:
                await connection.set_autocommit(False)
            await self.given.putconn(connection)
        elif is_usable(connection) and self._is_mine():
            self._idle.append(connection)
        else:
            await connection.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["AsyncConnection[Any]"]:
        connection = await self.acquire()
        try:
            yield connection
        finally:
            await self.release(connection)

    async def run(self, statement: Statement[T]) -> T:
        async with self.connection() as connection:
            return await run_async(connection, statement)

    async def call(self, statement: Statement[T]) -> T:
        """What an application asks, and the server answers at once."""
        if not isinstance(self.given, str) and hasattr(self.given, "getconn"):
            return await self.run(statement)
        self._forget_others()
        async with self._line.turn():
            return await self.run(statement)

    async def close(self) -> None:
        self._forget_others()
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    def _is_mine(self) -> bool:
        return self._owner == (os.getpid(), id(asyncio.get_running_loop()))

    def _forget_others(self) -> None:
        """Connections of another event loop, or of the process that forked this one, are not ours to use."""
        if not self._is_mine():
            self._owner = (os.getpid(), id(asyncio.get_running_loop()))
            self._idle = []
            self._line = AsyncLine()
