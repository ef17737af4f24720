"""Queues, and what they are bound to, at the server."""

from __future__ import annotations

from typing import Any, Optional

from . import topics
from .claimer import Task
from .database import Database
from .lease import Lease
from .options import QUEUE_OPTIONS
from .session import Session

EXISTS = "SELECT true FROM fairq.queues WHERE queue = %s"
BOUND = "SELECT true FROM fairq.topics WHERE topic = %s AND queue = %s"
BOUND_TO = "SELECT topic, queue FROM fairq.topics WHERE topic = %s OR starts_with(topic, %s)"
SIZE = "SELECT ready + overflow FROM fairq.queue_stats WHERE queue = %s"
CLAIM = """
SELECT id, receipt::text, enqueued_at::text, attempt, group_key, subgroup_key, payload::text, coalesce(name, '')
FROM fairq.claim(%s, session => %s)
"""


class Queues:
    def __init__(self, database: Database, options: dict[str, Any]) -> None:
        self._database = database
        self._options = options

    def exists(self, queue: str) -> bool:
        return bool(self._database.execute(EXISTS, (queue,)))

    def create(self, queue: str, arguments: dict[str, Any]) -> None:
        """If it is not there: who only publishes need not be allowed to."""
        if self.exists(queue):
            return
        options = {**self._options, **_of_amqp(arguments)}
        given = "".join(f", {name} => %({name})s::{QUEUE_OPTIONS[name]}" for name in options)
        self._database.execute(f"SELECT fairq.create_queue(%(queue)s{given}, if_not_exists => true)", {"queue": queue, **options})

    def drop(self, queue: str, if_empty: bool) -> None:
        if not self.exists(queue) or (if_empty and self.size(queue)):
            return
        self._database.execute("SELECT fairq.drop_queue(%s)", (queue,))

    def purge(self, queue: str) -> int:
        [(count,)] = self._database.execute("SELECT fairq.purge(%s)", (queue,))
        return count

    def size(self, queue: str) -> int:
        """Messages that wait, without those that are out or wait for their time."""
        rows = self._database.execute(SIZE, (queue,))
        return rows[0][0] or 0 if rows else 0

    def bind(self, queue: str, exchange: str, kind: str, routing_key: str) -> None:
        pattern = topics.pattern(exchange, kind, routing_key)
        if not self._database.execute(BOUND, (pattern, queue)):
            self._database.execute("SELECT fairq.subscribe(%s, %s)", (pattern, queue))

    def unbind(self, queue: str, exchange: str, kind: str, routing_key: str) -> None:
        self._database.execute("SELECT fairq.unsubscribe(%s, %s)", (topics.pattern(exchange, kind, routing_key), queue))

    def unbind_all(self, exchange: str, if_unused: bool) -> None:
        prefix = topics.prefix(exchange)
        bound = self._database.execute(BOUND_TO, (prefix, prefix + "."))
        for pattern, queue in () if if_unused else bound:
            self._database.execute("SELECT fairq.unsubscribe(%s, %s)", (pattern, queue))

    def bindings(self) -> list[tuple[str, str, str]]:
        """(queue, exchange, routing key), as the management of kombu shows them."""
        rows = self._database.execute(BOUND_TO, (topics.PREFIX, topics.PREFIX))
        return [(queue, *topics.parts(topic)) for topic, queue in rows]

    def claim_one(self, queue: str, session: Session) -> Optional[Task]:
        """At a proxy the call goes to the node of the session."""
        rows = self._database.execute(CLAIM, (queue, session.id))
        if not rows:
            return None
        [(id, receipt, enqueued_at, attempt, group, subgroup, payload, name)] = rows
        session.count(1)
        return Task(Lease(queue, id, receipt, enqueued_at, name, session), attempt, group, subgroup, payload)


def _of_amqp(arguments: dict[str, Any]) -> dict[str, Any]:
    """What of a queue's arguments in AMQP there is here, too."""
    ttl = arguments.get("x-message-ttl")
    return {} if ttl is None else {"expire_after": f"{int(ttl)} ms"}
