"""A channel of kombu: queues and exchanges, what is consumed, and how far it may go."""

from __future__ import annotations

import logging
import uuid
from typing import Any, Optional

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.utils.scheduling import cycle_by_name

from . import broadcast
from .attendance import Attendance
from .claimer import MOST_QUEUES, Claimer, Task
from .envelope import GROUP, SUBGROUP, NotAMessage, from_payload
from .errors import Refused
from .lease import Lease
from .publisher import Publisher
from .queues import Queues
from .session import Session

logger = logging.getLogger(__name__)

MOST_TASKS = 1000  # at a time, where the prefetch count is unlimited


class QoS(virtual.QoS):
    """How many messages are out, and settling them. Leases are the server's: there is nothing to restore."""

    restore_at_shutdown = False

    def __init__(self, channel: "Channel", prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        self._on_collect.cancel()

    def ack(self, delivery_tag: str) -> None:
        super().ack(delivery_tag)
        self.channel.ack_lease(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        message = self._delivered.get(delivery_tag)
        why, counts = getattr(message, "why", "rejected"), getattr(message, "counts", False)    # noted by Request
        self._quick_ack(delivery_tag)
        self.channel.reject_lease(delivery_tag, requeue, why, counts)

    def restore_unacked(self) -> list:
        self._flush()
        for delivery_tag in list(self._delivered):
            self.reject(delivery_tag, requeue=True)
        return []

    def up_to(self, delivery_tag: str) -> list[str]:
        """The tags that were delivered before this one and are not settled, and this one."""
        self._flush()
        tags = list(self._delivered)
        return tags[:tags.index(delivery_tag) + 1] if delivery_tag in tags else [delivery_tag]


class Channel(virtual.Channel):
    QoS = QoS
    supports_fanout = True
    do_restore = False
    body_encoding = None
    from_transport_options = ()

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        options = connection.options
        self.claimer: Optional[Claimer] = None
        self._queues = Queues(connection.database, options.queue_options)
        self._publisher = Publisher(connection.database, options.group, options.subgroup, options.priority_order, options.publish_once)
        self._order = cycle_by_name(options.queue_order_strategy)()
        self._attendance = Attendance()
        self._no_ack: set[str] = set()
        self._leases: dict[str, Lease] = {}
        self._session: Optional[Session] = None  # outlives the connection, for those who settle late

    # Queues and exchanges.

    def exchange_declare(self, exchange: Optional[str] = None, type: str = "direct", durable: bool = False,
                         auto_delete: bool = False, arguments: Any = None, nowait: bool = False, passive: bool = False) -> None:
        kind = type or "direct"
        if kind not in ("direct", "topic", "fanout"):
            raise ChannelError(f"exchange {exchange!r} is of type {kind!r}; this transport has direct, topic and fanout")
        super().exchange_declare(exchange, kind, durable, auto_delete, arguments, nowait, passive)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        self._queues.unbind_all(exchange, if_unused)
        self.state.exchanges.pop(exchange, None)

    def _kind(self, exchange: str) -> str:
        return self.state.exchanges.get(exchange, {}).get("type", "direct")

    def queue_declare(self, queue: Optional[str] = None, passive: bool = False, durable: bool = True, exclusive: bool = False,
                      auto_delete: bool = False, arguments: Any = None, **kwargs: Any) -> queue_declare_ok_t:
        queue = queue or f"amq.gen-{uuid.uuid4()}"
        mailboxes = self.connection.mailboxes
        if queue in mailboxes or (not passive and (exclusive or auto_delete)):
            mailboxes.add(queue)
            return queue_declare_ok_t(queue, mailboxes.count(queue), 0)
        if passive:
            if not self._queues.exists(queue):
                raise ChannelError(f"NOT_FOUND - no queue {queue!r}", (50, 10), "Channel.queue_declare", "404")
            return queue_declare_ok_t(queue, self._queues.size(queue), 0)
        self._queues.create(queue, arguments or {})
        return queue_declare_ok_t(queue, 0, 0)

    def queue_bind(self, queue: str, exchange: Optional[str] = None, routing_key: str = "", arguments: Any = None, **kwargs: Any) -> None:
        if not exchange:  # each queue is bound to the default exchange by its name
            return
        kind = self._kind(exchange)
        if queue in self.connection.mailboxes:
            self.connection.mailboxes.bind(queue, exchange, kind, routing_key or "")
            self.connection.listen()
        else:
            self._queues.bind(queue, exchange, kind, routing_key or "")

    def queue_unbind(self, queue: str, exchange: Optional[str] = None, routing_key: str = "", arguments: Any = None, **kwargs: Any) -> None:
        if not exchange:
            return
        kind = self._kind(exchange)
        if queue in self.connection.mailboxes:
            self.connection.mailboxes.unbind(queue, exchange, kind, routing_key or "")
            self.connection.listen()
        else:
            self._queues.unbind(queue, exchange, kind, routing_key or "")

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:
        if queue in self.connection.mailboxes:
            self.connection.mailboxes.remove(queue)
            self.connection.listen()
        else:
            self._queues.drop(queue, if_empty)

    def after_reply_message_received(self, queue: str) -> None:
        """Its consumer was cancelled, and the queue went with it."""

    def list_bindings(self) -> list[tuple[str, str, str]]:
        return self._queues.bindings()

    def _size(self, queue: str) -> int:
        return self._queues.size(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return queue in self.connection.mailboxes or self._queues.exists(queue)

    def _purge(self, queue: str) -> int:
        if queue in self.connection.mailboxes:
            return len(self.connection.mailboxes.kept(queue))
        return self._queues.purge(queue)

    # Publishing.

    def prepare_message(self, body: Any, priority: Any = None, content_type: Any = None, content_encoding: Any = None,
                        headers: Any = None, properties: Any = None) -> dict[str, Any]:
        properties = {} if properties is None else properties
        properties.setdefault("delivery_info", {})
        properties.setdefault("priority", priority or 0)
        return {"body": body, "content-encoding": content_encoding, "content-type": content_type,
                "headers": headers or {}, "properties": properties}

    def basic_publish(self, message: dict[str, Any], exchange: str = "", routing_key: str = "", **kwargs: Any) -> None:
        properties = message["properties"]
        properties.setdefault("delivery_tag", str(uuid.uuid4()))
        properties["delivery_info"].update(exchange=exchange or "", routing_key=routing_key or "")
        self._publisher.send(exchange or "", routing_key or "", message)

    # Consuming.

    def basic_consume(self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any) -> None:
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        if no_ack:
            self._no_ack.add(queue)
        if queue in self.connection.mailboxes:
            self.connection.expect(self, queue)
        elif self.claimer is not None:
            self._stop_claim()  # it knows nothing of this queue
        self._order.update(self._durable_queues())
        self.connection.wake()

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is None or queue in self._active_queues:
            return
        self._no_ack.discard(queue)
        self._order.update(self._durable_queues())
        if queue in self.connection.mailboxes:
            self.queue_delete(queue)  # transient queues go with their last consumer
        elif self.claimer is not None:
            self._stop_claim()
        self.connection.put_back(self, queue)
        self.connection.wake()

    def consumes(self, queue: str) -> bool:
        return queue in self._active_queues

    def _durable_queues(self) -> list[str]:
        return [queue for queue in dict.fromkeys(self._active_queues) if queue not in self.connection.mailboxes]

    def has_room(self) -> bool:
        """For what a claim would bring that is yet to begin."""
        if self.closed or (self.claimer is not None and self.claimer.under_way):
            return False
        return bool(self._durable_queues()) and self._room() > 0

    def claim_more(self) -> None:
        """Begin a claim, if none is under way and there is room for what it brings."""
        if not self.has_room():
            return
        queues = self._durable_queues()
        room = self._room()
        if len(queues) > MOST_QUEUES:
            raise ChannelError(f"a worker can consume from {MOST_QUEUES} queues at most, not from {len(queues)}; use more workers (-Q)")
        nodes = self.connection.nodes
        place = nodes.place(queues)
        if self.claimer is None:
            self.claimer = Claimer(place.parameters, self.connection.options.claim_wait)
            self.connection.watch(self.claimer)
        crowded = place.session.crowded()
        asked, longest = self._attendance.ask([queue for queue in self._order.consume(len(queues)) if queue not in crowded])
        if crowded:
            longest = min(longest, 1.0)
        if longest:
            longest = min(longest, max(0.1, nodes.guide.due_in()))
        if not asked:
            return self.claimer.pause(longest)
        try:
            self.claimer.start(asked, room, self._open_session(queues), longest)
        except Refused as error:    # there is no room for a session
            self._attendance.refused(asked, error)
            self.connection.wake()

    def read_claim(self) -> Optional[list[Task]]:
        """What the claim has brought, or None if it goes on. If it was refused others follow it."""
        try:
            tasks = self.claimer.read()
        except Refused as error:
            self._attendance.refused(self.claimer.queues, error)
            return None
        if tasks is not None:
            self._attendance.answered(self.claimer.queues)
        return tasks

    def _open_session(self, queues: list[str]) -> Session:
        self._session = self.connection.nodes.place(queues).session
        self.connection.open_session(self._session)
        return self._session

    def leave_claimer(self) -> None:
        """The next claim is elsewhere."""
        claimer = self.claimer
        if claimer is not None:
            self._stop_claim()
            self.claimer = None
            self._attendance = Attendance()     # each node has its own queues
            self.connection.unwatch(claimer)
            claimer.close()

    def _room(self) -> int:
        room = self.qos.can_consume_max_estimate()
        on_its_way = 0 if self._session is None else self._session.releasing
        return min(MOST_TASKS, MOST_TASKS if room is None else room) - self.connection.pending(self) - on_its_way

    def _stop_claim(self) -> None:
        for task in self.claimer.stop():
            self.refuse(task)

    def deliver(self, queue: str, arrived: "Task | str") -> None:
        """Give it to the consumer; by the thread that runs the event loop."""
        callback = self.connection._callbacks.get(queue)
        message = None if callback is None else self._open(queue, arrived)
        if message is None:
            return self.refuse(arrived) if callback is None else None
        if isinstance(arrived, Task):
            self._order.rotate(queue)
            if queue in self._no_ack:
                arrived.lease.session.ack(arrived.lease)
            else:
                self._leases[arrived.lease.receipt] = arrived.lease
            callback(message)
        else:
            self._tell(queue, callback, message)

    def _tell(self, queue: str, callback: Any, message: dict[str, Any]) -> None:
        """Give a broadcast to its consumer. What is in it may be anything, and must not end the worker."""
        try:
            callback(message)
        except (*self.connection.connection_errors, SystemExit):
            raise
        except Exception:
            logger.error("queue %s: a broadcast has failed, and is passed over", queue, exc_info=True)

    def _open(self, queue: str, arrived: "Task | str") -> Optional[dict[str, Any]]:
        """The message, or None if it is none; then it is dead."""
        try:
            message = from_payload(arrived.payload if isinstance(arrived, Task) else arrived)
        except NotAMessage as error:
            logger.error("%s: %s", arrived.lease if isinstance(arrived, Task) else f"queue {queue}", error)
            if isinstance(arrived, Task):
                arrived.lease.session.nack(arrived.lease, str(error), final=True)
            return None
        refused = None if isinstance(arrived, Task) else broadcast.unfit(message)
        if refused is not None:
            logger.error("queue %s: a broadcast is not read: %s", queue, refused)
            return None
        if isinstance(arrived, Task):
            properties = message["properties"]
            properties["delivery_tag"] = arrived.lease.receipt
            properties["delivery_info"].setdefault("exchange", "")
            properties["delivery_info"].setdefault("routing_key", queue)
            properties["delivery_info"]["redelivered"] = arrived.attempt > 1
            if arrived.group:
                message["headers"][GROUP] = arrived.group
            if arrived.subgroup is not None:
                message["headers"][SUBGROUP] = arrived.subgroup
        message["properties"].setdefault("delivery_tag", str(uuid.uuid4()))
        return message

    def refuse(self, arrived: "Task | str") -> None:
        """It is not to be delivered: back to its place."""
        if isinstance(arrived, Task):
            arrived.lease.session.release(arrived.lease)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """One message, without waiting; None if there is none."""
        if queue in self.connection.mailboxes:
            arrived: Any = self.connection.mailboxes.take(queue)
        else:
            arrived = self._queues.claim_one(queue, self._open_session([queue]))
        message = None if arrived is None else self._open(queue, arrived)
        if message is None:
            return None
        message = self.Message(message, channel=self)
        if isinstance(arrived, Task):
            if no_ack:
                arrived.lease.session.ack(arrived.lease)
                return message
            self._leases[arrived.lease.receipt] = arrived.lease
            self.qos.append(message, message.delivery_tag)
        return message

    # Settling; by any thread.

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        for tag in self.qos.up_to(delivery_tag) if multiple else [delivery_tag]:
            self.qos.ack(tag)

    def basic_recover(self, requeue: bool = False) -> list:
        return self.qos.restore_unacked()

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        self.qos.prefetch_count = prefetch_count
        if self.connection is not None:
            self.connection.wake()

    def ack_lease(self, delivery_tag: str) -> None:
        lease = self._leases.pop(delivery_tag, None)
        if lease is not None:
            lease.session.ack(lease)
            self._there_is_room()

    def reject_lease(self, delivery_tag: str, requeue: bool, why: str, counts: bool = False) -> None:
        """counts: where it is to be delivered again, this was an attempt."""
        lease = self._leases.pop(delivery_tag, None)
        if lease is None:
            return
        if requeue and not counts:
            lease.session.release(lease)  # and then there is room: not before it is back in its place
        else:
            lease.session.nack(lease, why, final=not requeue)
            self._there_is_room()

    def _there_is_room(self) -> None:
        if self.claimer is not None and not self.claimer.under_way and self.connection is not None:
            self.connection.wake()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._consumers.clear()
        self._active_queues.clear()
        transport = self.connection
        claimer, self.claimer = self.claimer, None
        if claimer is not None:
            transport.unwatch(claimer)
            claimer.close()
        transport.put_back(self)
        transport.close_channel(self)
