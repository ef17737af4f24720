"""Puts messages into queues: one, those of an exchange, or those of who listens."""

from __future__ import annotations

import logging
import numbers
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, NamedTuple, Optional

from celery.utils.time import maybe_iso8601, maybe_make_aware
from kombu.serialization import loads
from kombu.utils.imports import symbol_by_name

from . import broadcast, topics
from .database import Database
from .envelope import COST, GROUP, SUBGROUP, to_payload
from .errors import Refused
from ..values import LONGEST_NAME

logger = logging.getLogger(__name__)

ARGUMENTS = """
(%(name)s, %(payload)s::jsonb, group_key => %(group)s, priority => %(priority)s::bigint, cost => %(cost)s::float8,
    run_at => %(run_at)s::timestamptz, expires_at => %(expires_at)s::timestamptz, name => %(task)s, subgroup_key => %(subgroup)s)
"""
ENQUEUE = "SELECT fairq.enqueue" + ARGUMENTS
# A queue whose groups are not divided refuses a subgroup, and a task that hands its own on does not know the queue.
ENQUEUE_HANDED_ON = ENQUEUE.replace(
    "%(subgroup)s", "(SELECT %(subgroup)s::text FROM fairq.queues WHERE queue = %(name)s AND subgroups)")
PUBLISH = "SELECT fairq.publish" + ARGUMENTS
TELL = "SELECT count(pg_notify(%(channel)s, part)) FROM unnest(%(parts)s::text[]) part"

# Mostly there are listeners or queues, not both. So one message to the server will do for what only listeners get.
TELL_UNLESS_BOUND = f"""
SELECT bound, CASE WHEN NOT bound THEN ({TELL}) END
FROM (SELECT EXISTS (SELECT FROM fairq.topics WHERE topic = %(prefix)s OR starts_with(topic, %(prefix)s || '.')) AS bound) b
"""

PENDING = "fairq_pending"  # beside the message, between two attempts to publish it


class Place(NamedTuple):
    """Where in the queue a message goes."""

    group: str
    subgroup: Optional[str]
    handed_on: bool     # the subgroup: by the task that is running
    cost: float
    priority: Optional[int]
    run_at: Optional[datetime]
    expires_at: Optional[datetime]


class Publisher:
    def __init__(self, database: Database, group: Any = None, subgroup: Any = None, priority_order: str = "amqp",
                 publish_once: bool = True) -> None:
        self._database = database
        self._group: Optional[Callable[..., Any]] = symbol_by_name(group) if isinstance(group, str) else group
        self._subgroup: Optional[Callable[..., Any]] = symbol_by_name(subgroup) if isinstance(subgroup, str) else subgroup
        self._priority_order = priority_order
        self._once = publish_once

    def send(self, exchange: str, routing_key: str, message: dict[str, Any]) -> None:
        """To the queue of that name if the exchange is the default one, else to all that are bound to it."""
        if not exchange:
            self._enqueue(routing_key, message)
        elif self._is_bound_or_tell(exchange, routing_key, message):
            self._write(PUBLISH, topics.topic(exchange, routing_key), message)
            values = self._news(exchange, routing_key, message)
            if values["parts"]:
                self._database.execute(TELL, values)
        message["properties"].pop(PENDING, None)

    def _enqueue(self, queue: str, message: dict[str, Any]) -> None:
        try:
            self._write(ENQUEUE, queue, message)
        except Refused as error:
            if error.sqlstate == "42704":
                raise Refused(f"there is no queue {queue!r}; declare it before publishing to it (results over rpc:// "
                              "are not supported: result_backend = 'fairq://...')", error.sqlstate) from error
            raise

    def _is_bound_or_tell(self, exchange: str, routing_key: str, message: dict[str, Any]) -> bool:
        if PENDING in message["properties"]:
            return True
        values = {**self._news(exchange, routing_key, message), "prefix": topics.prefix(exchange)}
        [(bound, _)] = self._database.execute(TELL_UNLESS_BOUND, values)
        refused = broadcast.unfit(message)
        if refused is not None and not bound:
            logger.warning("a message to exchange %s is not sent: %s; set task_serializer = 'json'", exchange, refused)
        return bound

    def _news(self, exchange: str, routing_key: str, message: dict[str, Any]) -> dict[str, Any]:
        """For those who listen; no part of what they would not read."""
        fit = broadcast.unfit(message) is None
        parts = broadcast.parts(topics.topic(exchange, routing_key), _payload(message)) if fit else []
        return {"channel": topics.channel(exchange), "parts": parts}

    def _write(self, call: str, name: str, message: dict[str, Any]) -> None:
        pending = message["properties"].pop(PENDING, None)
        if pending is not None and self._database.was_committed(pending):
            message["properties"][PENDING] = pending
            return  # an earlier attempt, whose answer was lost
        place = self._place(message)
        values = {"name": name, "payload": _payload(message), "task": _task_name(message["headers"].get("task")), **place._asdict()}
        if place.handed_on and call is ENQUEUE:
            call = ENQUEUE_HANDED_ON
        elif place.handed_on:   # to several queues, maybe
            values["subgroup"] = None
        if self._once:
            self._database.transact(call, values, lambda begun, row: message["properties"].__setitem__(PENDING, begun))
        else:
            self._database.call(call, values)

    def _place(self, message: dict[str, Any]) -> Place:
        headers, properties = message["headers"], message["properties"]
        running = _running_request()
        group = headers.get(GROUP)
        if group is None and self._group is not None:
            group = self._group(*_call_of(message))
        if group is None and running is not None:
            group = getattr(running, GROUP, None)  # a retry, or what a tenant's task has started
        cost = headers.get(COST)
        if cost is None and running is not None and headers.get("id") == running.id:
            cost = getattr(running, COST, None)
        group, cost = _group_key(group), _cost(cost)
        subgroup, handed_on = self._subgroup_of(message, group, running)
        if group:
            headers[GROUP] = group
        if subgroup is not None:
            headers[SUBGROUP] = subgroup
        if cost != 1:
            headers[COST] = cost
        run_at = _eta(headers.get("eta"))
        return Place(group, subgroup, handed_on, cost, self._class(properties.get("priority")), run_at, _expires(properties, run_at))

    def _subgroup_of(self, message: dict[str, Any], group: str, running: Any) -> tuple[Optional[str], bool]:
        """The subgroup, and whether it is that of the running task, for whose group alone it means something."""
        subgroup = message["headers"].get(SUBGROUP)
        if subgroup is None and self._subgroup is not None:
            subgroup = self._subgroup(*_call_of(message))
        of_running = None
        if running is not None and _group_key(getattr(running, GROUP, None)) == group:
            of_running = getattr(running, SUBGROUP, None)
        subgroup = _group_key(of_running if subgroup is None else subgroup, SUBGROUP) or None
        return subgroup, subgroup is not None and subgroup == of_running    # also one that a retry repeats

    def _class(self, priority: Any) -> int:
        """0 is the most urgent in the queue; in AMQP 9 is, with Redis 0."""
        number = min(9, max(0, int(priority or 0)))
        return 9 - number if self._priority_order == "amqp" else number


def _payload(message: dict[str, Any]) -> str:
    properties = {name: value for name, value in message["properties"].items() if name != PENDING}
    return to_payload({**message, "properties": properties})


def _task_name(task: Any) -> Optional[str]:
    """As much of it as the server takes for a name, which is for people: what runs is in the message."""
    if not isinstance(task, str):
        return None
    return task.replace("\0", "").encode("utf-8", "ignore")[:LONGEST_NAME].decode("utf-8", "ignore") or None


def _running_request() -> Any:
    """Of the task that this thread runs, if it runs one."""
    from celery import current_task
    if not current_task:
        return None
    request = current_task.request
    return None if request.called_directly else request


def _call_of(message: dict[str, Any]) -> tuple[Optional[str], Any, Any, dict[str, Any]]:
    """The task, its args and kwargs, and the headers: of a message that this process is about to send."""
    headers, content_type = message["headers"], message["content-type"]
    body = message["body"]
    if headers.get("compression"):
        from kombu.compression import decompress
        body = decompress(body, headers["compression"])
    body = loads(body, content_type, message["content-encoding"], accept={content_type})
    if "task" in headers:
        args, kwargs = body[0], body[1]
        return headers["task"], args, kwargs, headers
    if isinstance(body, dict):
        return body.get("task"), body.get("args"), body.get("kwargs"), headers
    return None, (), {}, headers


def _group_key(group: Any, header: str = GROUP) -> str:
    if group is None:
        return ""
    if isinstance(group, bool) or not isinstance(group, (str, numbers.Integral, uuid.UUID)):
        raise ValueError(f"{header} is {group!r}; give a text, an integer or a UUID")
    if "\0" in str(group):
        raise ValueError(f"{header} {group!r} has a zero byte, which the server does not take")
    return str(group)


def _cost(cost: Any) -> float:
    if cost is None:
        return 1.0
    if isinstance(cost, bool) or not isinstance(cost, (numbers.Real, str)):
        raise ValueError(f"{COST} is {cost!r}; give a number from 0.001 to 1000000")
    return float(cost)


def _eta(eta: Optional[str]) -> Optional[datetime]:
    """A time without a zone is one of the app's, as the worker has it."""
    if not eta:
        return None
    from celery import current_app
    return maybe_make_aware(maybe_iso8601(eta), current_app.timezone)


def _expires(properties: dict[str, Any], run_at: Optional[datetime]) -> Optional[datetime]:
    """The message's own time to live, which is in milliseconds. What is over before its time comes goes to a
    worker then, which finds `expires` in it and stores that it was revoked."""
    expiration = properties.get("expiration")
    if expiration is None:
        return None
    expires_at = datetime.now(timezone.utc) + timedelta(milliseconds=int(expiration))
    return expires_at if run_at is None or expires_at > run_at else None
