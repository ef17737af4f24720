"""What goes wrong, in the two kinds that kombu knows: a connection to be made anew, a call that is refused."""

from __future__ import annotations

import psycopg
from kombu.exceptions import ChannelError


class ConnectionLost(Exception):
    """The connection, or the session that the leases belong to, is gone. Kombu connects again."""


# A lock, room, an operator, the system: a later attempt may fare better.
PASSING = ("40", "53", "55", "57", "58", "XX")


class Refused(ChannelError):
    """The server has refused the call; another connection would not change that."""

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate

    @property
    def passes(self) -> bool:
        return (self.sqlstate or "").startswith(PASSING)


# The administrator has ended the connection or shuts the server down; a standby where the primary was.
GONE = ("08", "57P", "25006")


def text_of(error: BaseException) -> str:
    """The server's message with its hint, on one line."""
    diagnostic = getattr(error, "diag", None)
    if diagnostic is not None and diagnostic.message_primary:
        hint = f" ({diagnostic.message_hint})" if diagnostic.message_hint else ""
        return f"{diagnostic.message_primary}{hint}"
    return " ".join(str(error).split()) or type(error).__name__


def as_kombu(error: psycopg.Error, connection: "psycopg.Connection | None") -> Exception:
    """The same error, of the kind that kombu acts on."""
    gone = connection is None or connection.closed or (error.sqlstate or "").startswith(GONE)
    if gone or (error.sqlstate is None and isinstance(error, psycopg.OperationalError)):
        return ConnectionLost(text_of(error))
    return Refused(text_of(error), error.sqlstate)
