"""One statement of one row in a transaction of its own, and no more messages to the server than that takes.

What a producer does for each message it sends is this and little else. A cursor of psycopg takes as much
of the processor as all of Celery's own work for a message, above all where psycopg is without its C parts.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Callable, Iterator, Mapping, Optional

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from ..connections import is_ready

Row = tuple     # of texts, or None

PEER = struct.Struct("3i")  # of SO_PEERCRED: process, user, group


def call(connection: psycopg.Connection, statement: str, values: Mapping[str, Any]) -> Row:
    """Its row. If the answer is lost nobody knows whether it was committed."""
    pgconn = connection.pgconn
    text, parameters = _bound(statement, values)
    with _to_its_end(connection):
        pgconn.send_query_params(text, parameters)
        result = _answer(pgconn)
        while _next(pgconn) is not None:
            pass
    return _row(result)


def transact(connection: psycopg.Connection, statement: str, values: Mapping[str, Any], prepared: "Optional[dict[str, bytes]]",
             begun: Callable[[Row], None]) -> Row:
    """Its row, which begun() is given before the commit is asked for. prepared: the names of statements that the
    server knows already. Who has such is_direct(), so the commit is asked for together with the row, one message
    less: a row that the server has sent is not lost."""
    pgconn = connection.pgconn
    text, parameters = _bound(statement, values)
    pgconn.enter_pipeline_mode()
    with _to_its_end(connection):
        if prepared is None:
            pgconn.send_query_params(text, parameters)
            pgconn.send_flush_request()
            result = _answer(pgconn)
        else:
            result = _ask_prepared(pgconn, statement, text, parameters, prepared)
        if result.status == pq.ExecStatus.TUPLES_OK:
            begun(_row(result))
        if prepared is None:
            pgconn.pipeline_sync()
        failed = _sync(pgconn)
        pgconn.exit_pipeline_mode()
    return _row(failed if failed and result.status == pq.ExecStatus.TUPLES_OK else result)


@contextmanager
def _to_its_end(connection: psycopg.Connection) -> Iterator[None]:
    """If it ends by an exception an answer may still come, which is not for the next statement."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _ask_prepared(pgconn: Any, statement: str, text: bytes, parameters: "list[Optional[bytes]]", prepared: "dict[str, bytes]") -> Any:
    name = prepared.get(statement, b"fairq_%d" % len(prepared))
    if statement not in prepared:
        pgconn.send_prepare(name, text)
    pgconn.send_query_prepared(name, parameters)
    pgconn.send_flush_request()
    pgconn.pipeline_sync()
    result = _answer(pgconn)
    if statement not in prepared and result.status == pq.ExecStatus.COMMAND_OK:
        prepared[statement] = name
        _next(pgconn)   # the end of its answer
        result = _answer(pgconn)
    return result


def is_direct(connection: psycopg.Connection) -> bool:
    """Whether it is the server itself, on this machine, that has the other end of the connection. What it has sent
    is there to be read, whatever becomes of it; a pooler takes with it what it has not passed on."""
    pgconn = connection.pgconn
    try:
        with socket.socket(fileno=os.dup(pgconn.socket)) as end:
            if end.family != socket.AF_UNIX:
                return False
            listener, _, _ = PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
        with open(f"/proc/{pgconn.backend_pid}/stat", encoding="ascii", errors="replace") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
    except (OSError, AttributeError, ValueError, IndexError):   # another system, or another container
        return False
    return 0 < listener == parent   # 0: a process of another container


def _bound(statement: str, values: Mapping[str, Any]) -> "tuple[bytes, list[Optional[bytes]]]":
    text, names = _numbered(statement)
    return text, [_value(values[name]) for name in names]


@lru_cache(maxsize=100)
def _numbered(statement: str) -> "tuple[bytes, list[str]]":
    """With $1 for the first of its %(name)s."""
    names: list[str] = []

    def number(found: "re.Match[str]") -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return re.sub(r"%\((\w+)\)s", number, statement).encode(), names


def _value(value: Any) -> Optional[bytes]:
    """As text, whose type the statement says."""
    if value is None:
        return None
    text = str(value)
    if "\0" in text:    # libpq would take what is before it
        raise psycopg.DataError(f"{text[:100]!r} has a zero byte, which the server does not take")
    return text.encode()


def _next(pgconn: Any) -> Any:
    """The next result, or None; other threads, and greenlets, run meanwhile."""
    while pgconn.flush():
        is_ready(pgconn.socket, to_write=True)
    while pgconn.is_busy():
        is_ready(pgconn.socket)
        pgconn.consume_input()
    return pgconn.get_result()


def _answer(pgconn: Any) -> Any:
    result = _next(pgconn)
    if result is None and pgconn.status != pq.ConnStatus.OK:
        raise psycopg.OperationalError("the connection is lost")
    return result


def _sync(pgconn: Any) -> Any:
    """Until the transaction has ended; what has failed in its commit, or None."""
    failed = None
    while True:
        result = _answer(pgconn)
        if result is None:
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return failed
        failed = result


def _row(result: Any) -> Row:
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise error_from_result(result, encoding="utf-8")
    values = (result.get_value(0, column) for column in range(result.nfields))
    return tuple(None if value is None else value.decode() for value in values)
