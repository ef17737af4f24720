"""A task in a worker's hands, and what is told to the server when the handler is done with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Type

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


@dataclass
class Settlement:
    """What becomes of a lease: ack, nack or release."""

    kind: str
    delivery: Delivery
    result: Optional[str] = None        # of an ack: JSON
    error: Optional[str] = None         # of a nack
    delay: Optional[Duration] = None    # of a nack or release
    final: bool = False                 # of a nack: no other attempt would fare better
    doubtful: bool = False              # a transaction that has acknowledged may still be open at the server
    tries: int = 0
    context: Any = None                 # the handler's
    ending: Optional[Ending] = None     # as the handler has it

    @property
    def receipt(self) -> str:
        receipt: str = self.delivery.receipt
        return receipt


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
    """What to do about one that the server refuses for itself: a result that it does not take is the task's failure."""
    if settlement.kind == "ack":
        ending = None if settlement.ending is None else settlement.ending._replace(outcome="failed", result=None, error=error)
        return replace(settlement, kind="nack", result=None, error=f"the acknowledgement was refused: {first_line(error)}", ending=ending)
    if settlement.delay is not None:    # a delay that is out of range
        return replace(settlement, delay=None, error=f"{settlement.error or ''}\n{first_line(error)}".strip())
    return None


def batches(settlements: Sequence[Settlement]) -> Iterator[Tuple[Statement[List[str]], List[Settlement]]]:
    """As few statements as there are kinds."""
    kinds: Dict[Tuple[Any, ...], List[Settlement]] = {}
    for settlement in settlements:
        key: Tuple[Any, ...] = (settlement.kind, settlement.delay, settlement.final)
        if settlement.kind == "ack" and settlement.result is not None:
            key = ("result", settlement.delivery.queue, False)
        kinds.setdefault(key, []).append(settlement)
    for (kind, detail, final), some in kinds.items():
        receipts = [settlement.receipt for settlement in some]
        if kind == "ack":
            yield statements.ack_many(receipts), some
        elif kind == "result":
            yield statements.ack_results(detail, [(settlement.receipt, settlement.result or "null") for settlement in some]), some
        elif kind == "nack":
            yield statements.nack_many(receipts, [settlement.error or "" for settlement in some], detail, final), some
        else:
            yield statements.release_many(receipts, detail), some
