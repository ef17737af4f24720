"""A connection that several threads share, and that a forked process does not."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import psycopg
from psycopg import waiting

from . import wire
from .address import described
from .errors import ConnectionLost, Refused, as_kombu, text_of
from .wire import Row

Rows = list

_open: "weakref.WeakSet[Database]" = weakref.WeakSet()


# After a failover another transaction may have the number, but another timeline.
NAMES = "pg_current_xact_id()::text, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
STATUS = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), pg_xact_status(%s::xid8)"


# Seconds that a claim, and a settlement, waits for a lock. Then others have their turn.
LOCK_WAIT = 0.5


# What select() takes.
HIGHEST = 1023


class Connection(psycopg.Connection):
    """psycopg without its C parts waits with select()."""

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        if self.fileno() <= HIGHEST:
            return super().wait(gen, *arguments, **options)
        try:
            return waiting.wait_selector(gen, self.fileno(), 0.1)
        except KeyboardInterrupt:   # the answer is still to come
            self.close()
            raise


class Begun(NamedTuple):
    transaction: str
    timeline: str


class Database:
    """Statements run one at a time, each in a transaction of its own, whichever thread calls."""

    def __init__(self, parameters: dict[str, Any], on_notify: Optional[Callable[[str, str], None]] = None) -> None:
        self.lock = threading.RLock()
        self.on_notify = on_notify
        try:
            self.connection = Connection.connect(**parameters, autocommit=True)
        except psycopg.Error as error:
            raise ConnectionLost(f"cannot connect to {described(parameters)}: {text_of(error)}") from error
        self.connection.prepare_threshold = None  # a pooler may give each statement another server process
        # What comes with the answer to a statement is told to a handler only.
        self.connection.pgconn.notify_handler = self._tell
        self._direct: Optional[bool] = None
        self._prepared: dict[str, bytes] = {}
        _open.add(self)

    def fileno(self) -> int:
        return self.connection.fileno()

    @property
    def closed(self) -> bool:
        return self.connection.closed

    def stay(self, lock_wait: float = 0) -> None:
        """For a connection that stays for long, and is nobody else's meanwhile. It waits so many
        seconds for a lock, 0: as long as it takes."""
        self.execute("SET statement_timeout = 0; SET idle_session_timeout = 0; "
                     f"SET lock_timeout = {round(lock_wait * 1000)}")
        self.connection.prepare_threshold = 0

    def execute(self, sql: str, values: Union[Sequence[Any], Mapping[str, Any], None] = None) -> Rows:
        """The rows of the statement, or none if it has none."""
        with self.lock:
            try:
                cursor = self.connection.execute(sql, values)
                rows = cursor.fetchall() if cursor.description else []
                self._tell_all()
                return rows
            except psycopg.Error as error:
                raise as_kombu(error, self.connection) from error

    def transact(self, columns: str, values: Mapping[str, Any], begun: Callable[["Begun", Row], None]) -> Row:
        """SELECT columns, of one row, in a transaction that can be asked about: whoever calls keeps what begun()
        was told, for was_committed()."""
        named = columns.replace("SELECT ", f"SELECT {NAMES}, ", 1)

        def told(row: Row) -> None:
            transaction, timeline, *rest = row
            begun(Begun(transaction, timeline), tuple(rest))

        with self.lock:
            try:
                row = wire.transact(self.connection, named, values, self._prepared if self._is_direct() else None, told)
                self._tell_all()
                return row[2:]
            except psycopg.Error as error:
                raise as_kombu(error, self.connection) from error

    def call(self, columns: str, values: Mapping[str, Any]) -> Row:
        """SELECT columns, of one row, in a transaction that cannot be asked about."""
        with self.lock:
            try:
                row = wire.call(self.connection, columns, values)
                self._tell_all()
                return row
            except psycopg.Error as error:
                raise as_kombu(error, self.connection) from error

    def _is_direct(self) -> bool:
        if self._direct is None:
            self._direct = wire.is_direct(self.connection)
        return self._direct

    def was_committed(self, begun: "Begun") -> bool:
        """Of a transaction whose answer was lost, on whichever connection it was."""
        while True:
            try:
                [(timeline, status)] = self.execute(STATUS, (begun.transaction,))
            except Refused:
                return False  # this server has not come to that number
            if timeline != begun.timeline or status != "in progress":
                return timeline == begun.timeline and status == "committed"
            time.sleep(0.05)  # the server has not noticed that the connection is lost

    def read_notifications(self) -> None:
        """Take what has arrived, without waiting. For who has seen the socket readable."""
        with self.lock:
            try:
                self.connection.pgconn.consume_input()
                self._tell_all()
            except psycopg.Error as error:
                self.connection.close()
                raise as_kombu(error, self.connection) from error

    def _tell_all(self) -> None:
        # libpq may have read one together with the end of an answer; the socket tells of it no more.
        while True:
            notify = self.connection.pgconn.notifies()
            if notify is None:
                return
            self._tell(notify)

    def _tell(self, notify: Any) -> None:
        """Bytes that are no text, which a database in SQL_ASCII lets through, are read as other letters."""
        if self.on_notify is not None:
            self.on_notify(notify.relname.decode(errors="replace"), notify.extra.decode(errors="replace"))

    def close(self) -> None:
        with self.lock:
            self.connection.close()


def keep_from_children(fd: int) -> None:
    """In a forked process: nothing it does reaches the server through the parent's socket, and the
    server sees the socket close when the parent dies."""
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, fd)
    os.close(devnull)


def _after_fork() -> None:
    for database in list(_open):
        database.lock = threading.RLock()
        if not database.closed:
            keep_from_children(database.fileno())


os.register_at_fork(after_in_child=_after_fork)
