"""The transport of kombu: a connection, its session, its claims, and the event loop that hears of them."""

from __future__ import annotations

import logging
import os
import socket
import time
from array import array
from collections import deque
from typing import Any, Optional

import psycopg
from kombu.transport import base, virtual

from . import address
from .broadcast import Mailboxes
from .channel import Channel
from .database import Database
from .errors import ConnectionLost, Refused
from .loop import Loop
from .nodes import Nodes
from .options import Options
from .session import Session
from .settler import Settler
from .unsettled import unsettled_of
from .wake import Wake, readable

logger = logging.getLogger(__name__)


class Transport(virtual.Transport):
    """One to a kombu.Connection. It is its own "connection" in kombu's words."""

    Channel = Channel

    can_parse_url = True
    driver_type = "fairq"
    driver_name = "psycopg"
    polling_interval = None

    connection_errors = base.Transport.connection_errors + (ConnectionLost, OSError)
    channel_errors = base.Transport.channel_errors + (Refused,)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()

    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False)

    def __init__(self, client: Any, **kwargs: Any) -> None:
        # kombu's own __init__ has a cycle to poll the channels, which there is no need for
        self.client = client
        self.state = virtual.BrokerState()
        self.channels: list[Channel] = []
        self._callbacks: dict[str, Any] = {}
        self._used_channel_ids = array("H")
        self.options = Options(client.transport_options or {})
        self._url = client.hostname or ""
        self._parameters: dict[str, Any] = {}
        self._database: Optional[Database] = None
        self._session: Optional[Session] = None
        self._nodes: Optional[Nodes] = None
        self._listening: set[str] = set()
        self._loop: Optional[Loop] = None
        self._wake: Optional[Wake] = None
        self._turns_to_claim = 0
        self._inbox: deque = deque()  # (channel, queue, what has arrived) to be delivered
        self.mailboxes = Mailboxes(self._on_broadcast)

    def driver_version(self) -> str:
        return psycopg.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        return uri if include_password else address.hide_password(uri, mask)

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {}

    # The connection.

    def establish_connection(self) -> "Transport":
        if getattr(self.client, "ssl", None):
            raise ValueError("broker_use_ssl is not for this transport; put ?sslmode=... into the URL")
        self._parameters = address.parameters(self._url, self.client.connect_timeout)
        self._database = Database(self._parameters, self.mailboxes.receive)
        self._wake = Wake()
        self._turns_to_claim = 0
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        return self._parameters

    @property
    def connected(self) -> bool:
        return self._database is not None and not self._database.closed and self._error() is None

    def _error(self) -> Optional[Exception]:
        """What has ended a session that is needed."""
        error = None if self._session is None else self._session.error
        return error or (None if self._nodes is None else self._nodes.error)

    def verify_connection(self, connection: "Transport") -> bool:
        return self.connected

    @property
    def database(self) -> Database:
        if self._database is None:
            raise ConnectionLost("the connection is closed")
        return self._database

    @property
    def session(self) -> Session:
        """Begins when something is consumed: a producer needs no thread."""
        if self._session is None:
            database = self.database
            settler = Settler(self._parameters, unsettled_of(self._url), self.wake)
            self._session = Session(database, settler, self.options.session_ttl, self.wake)
        return self._session

    @property
    def nodes(self) -> Nodes:
        """Where it consumes."""
        if self._nodes is None:
            self._nodes = Nodes(self, self._url)
        return self._nodes

    def open_session(self, session: Session) -> None:
        session.open(f"celery {socket.gethostname()} {os.getpid()}")

    def stop_claims(self) -> None:
        for channel in self.channels:
            channel.leave_claimer()

    def create_channel(self, connection: "Transport") -> Channel:
        channel = self.Channel(connection)
        self.channels.append(channel)
        return channel

    def close_connection(self, connection: "Transport") -> None:
        try:
            for channel in list(self.channels):
                channel.close()
        finally:
            self._forget_loop()
            session, self._session = self._session, None
            nodes, self._nodes = self._nodes, None
            database, self._database = self._database, None
            wake, self._wake = self._wake, None
            if nodes is not None:
                nodes.close()
            if session is not None:
                session.close()
            if database is not None:
                database.close()
            if wake is not None:
                wake.close()

    def listen(self) -> None:
        """To the channels that mailboxes are bound to; from the answer on nothing is missed."""
        self.session  # its thread reads what arrives
        wanted = self.mailboxes.channels()
        for channel in wanted - self._listening:
            self.database.execute(f'LISTEN "{channel}"')
        for channel in self._listening - wanted:
            self.database.execute(f'UNLISTEN "{channel}"')
        self._listening = wanted

    # Deliveries. They are made by the thread that runs the event loop, or drain_events().

    def wake(self) -> None:
        wake = self._wake
        if wake is not None:
            wake.set()

    def register_with_event_loop(self, connection: "Transport", loop: Any) -> None:
        self._loop = Loop(loop, self.wake)
        for source in self._sources():
            self.watch(source)

    def watch(self, source: Any) -> None:
        """From now on hear when it is readable."""
        if self._loop is not None:
            self._loop.hub.add_reader(source, self._on_readable, source)

    def unwatch(self, source: Any) -> None:
        """Before it is closed: its number may be given to another."""
        if self._loop is not None:
            self._loop.hub.remove(source)

    def _forget_loop(self) -> None:
        for source in self._sources():
            self.unwatch(source)
        if self._loop is not None:
            self._loop.release()
            self._loop = None

    def _sources(self) -> list[Any]:
        claimers = [channel.claimer for channel in self.channels if channel.claimer is not None]
        return claimers + ([self._wake] if self._wake is not None else [])

    def _on_readable(self, source: Any) -> None:
        self._hear(source)
        delivered = False
        try:
            while self._deliver_next():
                delivered = True
        finally:
            if self._inbox:  # a callback has failed; the others are for the next turn
                self.wake()
        if not self._claim_is_put_off(source, delivered):
            self._claim()

    def _claim_is_put_off(self, source: Any, delivered: bool) -> bool:
        """By two turns of the loop, after a delivery: in the next one the pool's processes get what was
        delivered, and they need not wait until a claim has begun."""
        if self._turns_to_claim and source is self._wake:
            self._turns_to_claim -= 1
        elif delivered and not self._turns_to_claim and any(channel.has_room() for channel in self.channels):
            self._turns_to_claim = 2
        if self._turns_to_claim:
            self.wake()
        return self._turns_to_claim > 0

    def _hear(self, source: Any) -> None:
        if source is self._wake:
            self._wake.clear()
            if self._loop is not None:
                self._loop.hear()
        error = self._error()
        if error is not None:
            if self._nodes is not None:
                self._nodes.lost()
            raise error
        for channel in self.channels:
            if channel.claimer is source:
                self._inbox.extend((channel, task.lease.queue, task) for task in self._read(channel))

    def _read(self, channel: Channel) -> list[Any]:
        try:
            tasks = channel.read_claim()
        except ConnectionLost:
            self.nodes.lost()
            raise
        if tasks is None:
            return []
        self.nodes.found(len(tasks))
        return tasks

    def _claim(self) -> None:
        for channel in list(self.channels):
            channel.claim_more()

    def drain_events(self, connection: "Transport", timeout: Optional[float] = None) -> None:
        """Deliver one message; socket.timeout if none comes."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._deliver_next():
            self._claim()
            left = None if end is None else end - time.monotonic()
            ready = self._wait(left)
            if not ready and left is not None and left <= 0:
                raise socket.timeout(f"nothing came within {timeout} s")
            for source in ready:
                self._hear(source)

    def _wait(self, seconds: Optional[float]) -> list[Any]:
        if self._wake is None:
            raise ConnectionLost("the connection is closed")
        return readable(self._sources(), None if seconds is None else max(0.0, seconds))

    def _deliver_next(self) -> bool:
        if not self._inbox:
            return False
        channel, queue, arrived = self._inbox.popleft()
        if isinstance(arrived, str):
            self.mailboxes.taken(arrived)
        channel.deliver(queue, arrived)
        return True

    def pending(self, channel: Channel) -> int:
        """How many of the channel's messages are to be delivered."""
        return sum(1 for of, _, _ in list(self._inbox) if of is channel)

    def put_back(self, channel: Channel, queue: Optional[str] = None) -> None:
        """What is not to be delivered any more: the channel's, or of one queue of it."""
        for entry in list(self._inbox):
            if entry[0] is channel and queue in (None, entry[1]):
                self._inbox.remove(entry)
                if isinstance(entry[2], str):
                    self.mailboxes.taken(entry[2])
                channel.refuse(entry[2])

    def expect(self, channel: Channel, queue: str) -> None:
        """A consumer of a transient queue: what came before it is its own."""
        for payload in self.mailboxes.kept(queue):
            self._put(channel, queue, payload)

    def _put(self, channel: Channel, queue: str, payload: str) -> None:
        if self.mailboxes.room_for(payload):
            self._inbox.append((channel, queue, payload))
            self.wake()

    def _on_broadcast(self, queue: str, payload: str) -> None:
        """By the thread of the session, or whichever has read it."""
        for channel in self.channels:
            if channel.consumes(queue):
                self._put(channel, queue, payload)
                return
        self.mailboxes.keep(queue, payload)
