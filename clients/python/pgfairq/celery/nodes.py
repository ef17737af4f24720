"""At a proxy of a cluster: the node where this process consumes. Elsewhere it is the one database.

What is claimed, and its acknowledgements, are of the node; queues, messages that are sent, and what is
broadcast stay with the proxy.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from psycopg.conninfo import conninfo_to_dict

from .. import statements
from ..attendance import Attendance
from ..place import GuideBase, Node, Watch
from .database import Database
from .errors import ConnectionLost, Refused
from .session import Session
from .settler import Settler
from .unsettled import unsettled_of

if TYPE_CHECKING:
    from .transport import Transport

logger = logging.getLogger(__name__)

_guides: dict[str, GuideBase] = {}


class Place(NamedTuple):
    parameters: dict[str, Any]
    session: Session
    node: Optional[Node]


class Nodes:
    """Of a transport."""

    def __init__(self, transport: "Transport", url: str) -> None:
        self._transport = transport
        self._url = url
        self._place: Optional[Place] = None
        self._left: list[Session] = []
        # Of the process: which nodes could not be reached is to be known after a reconnection.
        self.guide = _guides.setdefault(url, GuideBase(Attendance((), "claimed from")))
        self._watch = Watch()

    @property
    def error(self) -> Optional[Exception]:
        """Of the session where it consumes. One that was left has none: what it had comes again."""
        return None if self._place is None else self._place.session.error

    def place(self, queues: Sequence[str]) -> Place:
        """Where to claim now."""
        if self._place is None:
            self._go(self._ask(queues, None))
        elif not self.guide.due_in():
            node = self._following(queues)
            if node is not None:
                self.leave()
                self._go(node)
        assert self._place is not None
        return self._place

    def found(self, count: int) -> None:
        if self._place is not None:
            self.guide.found(self._place.node, count)

    def _ask(self, queues: Sequence[str], session: Optional[str]) -> Optional[Node]:
        database = self._transport.database
        with database.lock, self._watch.within(database.connection):
            if self.guide.is_proxy is None:
                self.guide.is_proxy = _run(database, statements.is_proxy())
            if not self.guide.is_proxy:
                return None
            return self.guide.answer(_run(database, self.guide.question(session, queues)), database.connection.info)

    def _following(self, queues: Sequence[str]) -> Optional[Node]:
        place = self._place
        assert place is not None and place.node is not None
        try:
            node = self._ask(queues, place.session.id)
        except Refused as error:   # such as that no node is in reach
            logger.warning("cannot ask for a node: %s; staying", error)
            self.guide.postpone()
            return None
        return None if node is None or node.number == place.node.number else node

    def _go(self, node: Optional[Node]) -> None:
        transport = self._transport
        if node is None:
            self._place = Place(transport.parameters, transport.session, None)
            return
        parameters = conninfo_to_dict(node.conninfo)
        try:
            database = Database(parameters)
        except ConnectionLost:
            self.guide.unreached(node)
            raise
        settler = Settler(parameters, unsettled_of(self._url), transport.wake, transport.database,
                          self._watch)
        session = Session(database, settler, transport.options.session_ttl, transport.wake, self._watch)
        self._place = Place(parameters, session, node)

    def leave(self) -> None:
        """What was claimed there is still settled there."""
        place, self._place = self._place, None
        self._transport.stop_claims()
        if place is not None and place.node is not None:
            place.session.retire()
            self._left = [session for session in self._left if not session.over] + [place.session]

    def lost(self) -> None:
        """The connection of the transport is about to be made anew."""
        if self._place is not None and self._place.node is not None:
            self.guide.unreached(self._place.node)

    def close(self) -> None:
        place, self._place = self._place, None
        sessions, self._left = self._left, []
        if place is not None and place.node is not None:
            sessions.append(place.session)
        for session in sessions:
            session.close()


def _run(database: Database, statement: "statements.Statement[Any]") -> Any:
    return statement.read(database.execute(statement.query.decode(), statement.parameters))
