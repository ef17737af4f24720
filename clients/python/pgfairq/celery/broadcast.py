"""Messages to who listens just now: remote control, its replies, events, and fanout to workers.

They travel by NOTIFY. It carries less than 8,000 bytes, so a longer message goes in parts, all in one
transaction: they arrive together, and in order. Who does not listen when one is sent does not get it.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from typing import Any, Callable, Optional

from . import topics

PART = 7800
KEPT = 10000  # messages of a queue that has no consumer; the oldest go first


def parts(topic: str, payload: str) -> list[str]:
    """What is to be sent on the exchange's channel, one NOTIFY for each."""
    text = json.dumps([topic, payload])  # ASCII: as many bytes as letters
    cut = [text[at:at + PART] for at in range(0, len(text), PART)]
    name = uuid.uuid4().hex
    return [f"{name} {number} {len(cut)} {part}" for number, part in enumerate(cut)]


class Mailboxes:
    """The transient queues of one connection: their bindings, and where their messages go."""

    def __init__(self, on_message: Callable[[str, str], None]) -> None:
        self._on_message = on_message
        self._patterns: dict[str, dict[str, set[str]]] = {}  # queue: {channel: patterns}
        self._partial: dict[str, list[str]] = {}
        self._kept: dict[str, deque[str]] = {}  # that have no consumer yet

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
        self._kept.setdefault(queue, deque(maxlen=KEPT)).append(payload)

    def kept(self, queue: str) -> list[str]:
        """All of them; they are forgotten here."""
        return list(self._kept.pop(queue, ()))

    def take(self, queue: str) -> Optional[str]:
        return self._kept[queue].popleft() if self._kept.get(queue) else None

    def count(self, queue: str) -> int:
        return len(self._kept.get(queue, ()))

    def channels(self) -> set[str]:
        return {channel for bound in self._patterns.values() for channel in bound}

    def receive(self, channel: str, payload: str) -> None:
        """A NOTIFY. Whatever is not of this module's making is passed over."""
        text = self._whole(payload)
        try:
            topic, message = json.loads(text) if text is not None else (None, None)
        except ValueError:
            return
        if not isinstance(topic, str) or not isinstance(message, str):
            return
        for queue, bound in list(self._patterns.items()):
            if any(topics.matches(pattern, topic) for pattern in list(bound.get(channel, ()))):
                self._on_message(queue, message)

    def _whole(self, payload: str) -> Optional[str]:
        name, _, rest = payload.partition(" ")
        number, _, rest = rest.partition(" ")
        count, _, part = rest.partition(" ")
        if not (number.isdecimal() and count.isdecimal()):
            return None
        received: list[Any] = self._partial.setdefault(name, [])
        received.append(part)
        if int(number) + 1 < int(count):
            return None
        del self._partial[name]
        return "".join(received) if len(received) == int(count) else None  # else LISTEN began in the middle
