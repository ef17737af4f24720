"""A task in a worker's hands, and what is told to the server when the handler is done with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Type

from . import statements
from .errors import NoConnection, Retry, Snooze, Unrecoverable
from .handlers import Registered
from .hooks import Ending
from .report import error_text, first_line
from .statements import Statement
from .values import DECODER, LONGEST_NAME, Duration, duration, json_text, parse_json

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment(microseconds: Optional[int]) -> Optional[datetime]:
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)


class Delivery:
    """One claimed task."""

    __slots__ = ("queue", "id", "receipt", "group", "priority", "attempt", "enqueued", "expires", "payload_text", "headers_text",
                 "claimed", "session", "name", "subgroup")

    def __init__(self, row: Tuple[Any, ...], session: Any) -> None:
        (self.queue, self.id, self.receipt, self.group, self.priority, self.attempt, self.enqueued,
         self.expires, self.name, self.subgroup, self.headers_text), end = DECODER.raw_decode(row[0])
        self.payload_text: str = row[0][end:]
        self.claimed = time.monotonic()
        self.session = session

    def __str__(self) -> str:
        return f"task {self.id}{'' if self.name is None else f' ({self.name[:LONGEST_NAME]!r})'} of queue {self.queue!r}"

    def payload(self) -> Any:
        return parse_json(self.payload_text)

    def headers(self) -> Any:
        return parse_json(self.headers_text)


def by_queue(deliveries: Iterable[Delivery]) -> List[List[Delivery]]:
    queues: Dict[str, List[Delivery]] = {}
    for delivery in deliveries:
        queues.setdefault(delivery.queue, []).append(delivery)
    return list(queues.values())


@dataclass(eq=False)
class Settlement:
    """What becomes of a lease: ack, nack or release."""

    kind: str
    delivery: Delivery
    result: Optional[str] = None        # of an ack: JSON
    error: Optional[str] = None         # of a nack
    delay: Optional[Duration] = None    # of a nack or release
    final: bool = False                 # of a nack: no other attempt would fare better
    doubtful: bool = False              # a transaction that has acknowledged may still be open at the server
    tries: int = 0                      # of one in doubt
    waited: int = 0                     # 1: it is told alone; one more each time it has waited for a lock or for room
    given_up: bool = False              # of a release: the run counts it as settled, and only its lease is to go
    context: Any = None                 # the handler's
    ending: Optional[Ending] = None     # as the handler has it

    @property
    def receipt(self) -> str:
        receipt: str = self.delivery.receipt
        return receipt


VERBS = {"ack": "acknowledgement", "nack": "failure", "release": "release"}


def result_text(result: Any) -> Optional[str]:
    return None if result is None else json_text(result, "the handler's result")


def after_error(delivery: Delivery, error: BaseException, handler: Optional[Registered],
                give_up_on: Tuple[Type[Exception], ...]) -> Settlement:
    """What a handler's exception means for its task; give_up_on is its worker's. One that says itself what comes next is not
    asked for in give_up_on, nor does the handler's backoff count for it."""
    try:
        if isinstance(error, NoConnection):
            return Settlement("release", delivery, delay=timedelta(seconds=1))
        if isinstance(error, Snooze):
            return Settlement("release", delivery, delay=duration(error.delay, "the delay of a snooze"))
        if isinstance(error, Retry):
            return Settlement("nack", delivery, error=error_text(error), delay=duration(error.delay, "the delay of a retry"))
    except (TypeError, ValueError) as wrong:
        return Settlement("nack", delivery, error=error_text(wrong))
    if isinstance(error, Unrecoverable) or (handler is not None and isinstance(error, (*handler.give_up_on, *give_up_on))):
        return Settlement("nack", delivery, error=error_text(error), final=True)
    return Settlement("nack", delivery, error=error_text(error), delay=None if handler is None else handler.delay(delivery.attempt))


def refused(settlement: Settlement, error: BaseException) -> Optional[Settlement]:
    """What to do about one that the server refuses for itself, each time with less for it to refuse. A result or a delay
    that it does not take is the task's failure. A failure is told without its error; then the lease is let go."""
    said = f"the {VERBS[settlement.kind]} was refused: {first_line(error)}"
    if settlement.kind == "ack" or (settlement.kind == "release" and settlement.delay is not None):
        ending = None if settlement.ending is None else settlement.ending._replace(outcome="failed", result=None, error=error)
        return replace(settlement, kind="nack", result=None, delay=None, error=said, ending=ending)
    if settlement.kind == "release":
        return None
    if settlement.delay is not None:    # it may be out of range
        return replace(settlement, delay=None, error=f"{settlement.error or ''}\n{first_line(error)}".strip())
    if settlement.error is not None:
        return replace(settlement, error=None)
    return replace(settlement, kind="release", final=False, doubtful=False, given_up=True)


def batches(settlements: Sequence[Settlement]) -> List[List[Settlement]]:
    """Those that go in one statement each: as few as there are kinds, but that those which had to wait go alone."""
    kinds: Dict[Tuple[Any, ...], List[Settlement]] = {}
    for settlement in settlements:
        key: Tuple[Any, ...] = (settlement.kind, settlement.delay, settlement.final)
        if settlement.kind == "ack" and settlement.result is not None:
            key = ("result", settlement.delivery.queue)
        if settlement.waited:
            key = (settlement.receipt,)
        kinds.setdefault(key, []).append(settlement)
    return list(kinds.values())


def told(some: Sequence[Settlement], bound: float) -> Statement[List[str]]:
    """The statement of a batch, which waits so many seconds for a lock."""
    one, receipts = some[0], [settlement.receipt for settlement in some]
    if one.kind == "ack" and one.result is None:
        return statements.ack_many(receipts, bound)
    if one.kind == "ack":
        return statements.ack_results(one.delivery.queue, [(settlement.receipt, settlement.result or "null") for settlement in some], bound)
    if one.kind == "nack":
        return statements.nack_many(receipts, [settlement.error for settlement in some], one.delay, one.final, bound)
    return statements.release_many(receipts, one.delay, bound)
