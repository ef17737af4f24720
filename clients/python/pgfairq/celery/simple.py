"""Messages to the server that are text alone, and the row that they answer with.

What a producer does for each message it sends is this and little else. A cursor of psycopg takes as much
of the processor as all of Celery's own work for a message, above all where psycopg is without its C parts.
"""

from __future__ import annotations

import select
from typing import Any, Optional

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


def query(connection: psycopg.Connection, text: str) -> "tuple[Optional[str], ...]":
    """Its statements, and the first row of the last that has one. Other threads, and greenlets, run meanwhile."""
    pgconn = connection.pgconn
    pgconn.send_query(text.encode())
    while pgconn.flush():
        select.select([], [pgconn.socket], [])
    row: "tuple[Optional[str], ...]" = ()
    failed: Optional[Any] = None
    while True:
        while pgconn.is_busy():
            select.select([pgconn.socket], [], [])
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        if result.status not in GOOD:
            failed = result
        elif result.ntuples:
            values = (result.get_value(0, column) for column in range(result.nfields))
            row = tuple(None if value is None else value.decode() for value in values)
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")
    return row


def literal(connection: psycopg.Connection, value: Any) -> str:
    """As it stands in a statement, whose own casts say what it is."""
    if value is None:
        return "NULL"
    text = str(value)
    if "\0" in text:
        raise psycopg.DataError(f"{text[:100]!r} has a zero byte, which the server does not take")
    return bytes(pq.Escaping(connection.pgconn).escape_literal(text.encode())).decode()
