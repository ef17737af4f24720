"""Exchanges and routing keys of AMQP as topics of the queue, and as channels to listen on."""

from __future__ import annotations

import hashlib
import re

PREFIX = "celery."


def topic(exchange: str, routing_key: str) -> str:
    """What a message to the exchange is published to."""
    return PREFIX + ".".join([_word(exchange)] + [_word(word) for word in _words(routing_key)])


def pattern(exchange: str, kind: str, routing_key: str) -> str:
    """What a queue that is bound to the exchange subscribes to."""
    if kind == "fanout":
        return PREFIX + _word(exchange) + ".#"
    if kind == "direct":
        return topic(exchange, routing_key)
    return PREFIX + ".".join([_word(exchange)] + [word if word in ("*", "#") else _word(word) for word in _words(routing_key)])


def prefix(exchange: str) -> str:
    """What the subscriptions of an exchange begin with."""
    return PREFIX + _word(exchange)


def matches(pattern: str, topic: str) -> bool:
    """As the server finds it, for queues that it does not know."""
    return _match(pattern.split("."), topic.split("."))


def _match(pattern: list[str], topic: list[str]) -> bool:
    if not pattern:
        return not topic
    if pattern[0] == "#":
        return any(_match(pattern[1:], topic[skip:]) for skip in range(len(topic) + 1))
    return bool(topic) and pattern[0] in ("*", topic[0]) and _match(pattern[1:], topic[1:])


def channel(exchange: str) -> str:
    """The name for LISTEN, of letters and digits, whatever the exchange's is."""
    return "fairq_celery_" + hashlib.sha256(exchange.encode()).hexdigest()[:32]


def _words(routing_key: str) -> list[str]:
    return routing_key.split(".") if routing_key else []


def _word(text: str) -> str:
    """Nothing in it means anything to the server, and no two texts give the same word."""
    return re.sub(r"[%.*#\0]", lambda match: "%%%02x" % ord(match[0]), text) or "%"


def parts(pattern: str) -> tuple[str, str]:
    """The exchange and the routing key that a subscription was made of."""
    exchange, _, routing_key = pattern[len(PREFIX):].partition(".")
    return _text(exchange), ".".join(_text(word) for word in _words(routing_key))


def _text(word: str) -> str:
    return "" if word == "%" else re.sub("%([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), word)
