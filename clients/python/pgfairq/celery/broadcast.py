"""Messages to who listens just now: remote control, its replies, events, and fanout to workers.

They travel by NOTIFY. It carries less than 8,000 bytes, so a longer message goes in parts, all in one
transaction: they arrive together, and in order. Who does not listen when one is sent does not get it.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from collections import deque
from typing import Any, Callable, Optional

from . import topics

logger = logging.getLogger(__name__)

PART = 7800
MOST_PARTS = 1000
TOPIC = 2000
PART_OF = re.compile(r"([0-9a-f]{32}) ([0-9]{1,4}) ([0-9]{1,4}) ", re.ASCII)

# Messages of a queue that has no consumer, of which the oldest go first; and those that wait for one that is at work,
# of which the latest are passed over.
KEPT = 10_000
KEPT_LETTERS = 64_000_000


def unfit(message: dict[str, Any]) -> Optional[str]:
    """Why a message is not broadcast, and not read when somebody has; None: it is.

    Everybody who may connect can send a NOTIFY, with whatever sender and content type. So no content is read that could be
    code, as a pickle can, or that grows, whatever accept_content says.
    """
    kind, encoding = message.get("content-type"), message.get("content-encoding")
    if kind not in ("application/json", "text/plain") or encoding != "utf-8":
        return f"broadcasts are JSON, or text, in UTF-8, not {str(kind)[:100]!r} in {str(encoding)[:100]!r}"
    if (message.get("headers") or {}).get("compression"):
        return "broadcasts are not compressed"
    return None


def parts(topic: str, payload: str) -> list[str]:
    """What is to be sent on the exchange's channel, one NOTIFY for each."""
    text = json.dumps([topic, payload])  # ASCII: as many bytes as letters
    cut = [text[at:at + PART] for at in range(0, len(text), PART)]
    if len(cut) > MOST_PARTS or len(topic) > TOPIC:
        raise ValueError(f"a broadcast has {MOST_PARTS * PART} letters at most, not {len(text)}, and its topic {TOPIC}")
    name = uuid.uuid4().hex
    return [f"{name} {number} {len(cut)} {part}" for number, part in enumerate(cut)]


class Kept:
    """Messages of one queue, as many as there is room for."""

    def __init__(self) -> None:
        self.messages: deque[str] = deque()
        self._letters = 0

    def put(self, message: str) -> None:
        self.messages.append(message)
        self._letters += len(message)
        while len(self.messages) > KEPT or self._letters > KEPT_LETTERS:
            self.take()

    def take(self) -> str:
        message = self.messages.popleft()
        self._letters -= len(message)
        return message


class Mailboxes:
    """The transient queues of one connection: their bindings, and where their messages go."""

    def __init__(self, on_message: Callable[[str, str], None]) -> None:
        self._on_message = on_message
        self._patterns: dict[str, dict[str, set[str]]] = {}  # queue: {channel: patterns}
        self._partial: Optional[tuple[str, str, int, list[str]]] = None  # channel, name, count, the parts so far
        self._kept: dict[str, Kept] = {}  # that have no consumer yet
        self._lock = threading.Lock()
        self._waiting = 0  # for consumers, and
        self._letters = 0  # how long these are

    def __contains__(self, queue: str) -> bool:
        return queue in self._patterns

    def add(self, queue: str) -> None:
        self._patterns.setdefault(queue, {})

    def bind(self, queue: str, exchange: str, kind: str, routing_key: str) -> None:
        bound = self._patterns[queue].setdefault(topics.channel(exchange), set())
        bound.add(topics.pattern(exchange, kind, routing_key))

    def unbind(self, queue: str, exchange: str, kind: str, routing_key: str) -> None:
        channel, bound = topics.channel(exchange), self._patterns[queue]
        bound.get(channel, set()).discard(topics.pattern(exchange, kind, routing_key))
        if not bound.get(channel):
            bound.pop(channel, None)

    def remove(self, queue: str) -> None:
        self._patterns.pop(queue, None)
        self._kept.pop(queue, None)

    def keep(self, queue: str, payload: str) -> None:
        self._kept.setdefault(queue, Kept()).put(payload)

    def room_for(self, payload: str) -> bool:
        """Whether one more may wait for its consumer; then it does, until taken()."""
        with self._lock:
            if self._waiting >= KEPT or self._letters + len(payload) > KEPT_LETTERS:
                return False
            self._waiting += 1
            self._letters += len(payload)
            return True

    def taken(self, payload: str) -> None:
        with self._lock:
            self._waiting -= 1
            self._letters -= len(payload)

    def kept(self, queue: str) -> list[str]:
        """All of them; they are forgotten here."""
        kept = self._kept.pop(queue, None)
        return list(kept.messages) if kept is not None else []

    def take(self, queue: str) -> Optional[str]:
        kept = self._kept.get(queue)
        return kept.take() if kept is not None and kept.messages else None

    def count(self, queue: str) -> int:
        kept = self._kept.get(queue)
        return len(kept.messages) if kept is not None else 0

    def channels(self) -> set[str]:
        return {channel for bound in self._patterns.values() for channel in bound}

    def receive(self, channel: str, payload: str) -> None:
        """A NOTIFY, which is a stranger's letter: whatever is not of this module's making is passed over."""
        try:
            self._receive(channel, payload)
        except Exception:  # a session that ends would give its tasks back
            logger.warning("a notification on %s cannot be read, and is passed over", channel, exc_info=True)

    def _receive(self, channel: str, payload: str) -> None:
        text = self._whole(channel, payload)
        if text is None:
            return
        try:
            topic, message = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            return
        if not isinstance(topic, str) or not isinstance(message, str) or len(topic) > TOPIC:
            return
        for queue, bound in list(self._patterns.items()):
            if any(topics.matches(pattern, topic) for pattern in list(bound.get(channel, ()))):
                self._on_message(queue, message)

    def _whole(self, channel: str, payload: str) -> Optional[str]:
        """The message that this part is the last of. Its parts come one behind the other, for a commit sends all that it
        has to send before the next one does: so one message is kept that is not whole, and any other ends it."""
        before, self._partial = self._partial, None
        head = PART_OF.match(payload)
        if head is None:
            return None
        name, number, count = head[1], int(head[2]), int(head[3])
        if number == 0:
            before = (channel, name, count, [])
        if before is None or before[:3] != (channel, name, count) or number != len(before[3]) or not number < count <= MOST_PARTS:
            return None  # LISTEN began in the middle, or it is none of ours
        before[3].append(payload[head.end():])
        if number + 1 < count:
            self._partial = before
            return None
        return "".join(before[3])
