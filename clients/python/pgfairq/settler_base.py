"""What Settler and AsyncSettler share: what they send, and what they make of the answers.

It is a generator of statements, to which the answer or the error of each is sent. So it is the same whether
a call blocks or is awaited.
"""

from __future__ import annotations

from typing import Any, Generator, List, Optional, Protocol, Sequence, Tuple

import psycopg

from . import statements
from .delivery import Settlement, batches, refused
from .journal import log
from .pace import is_interrupted, is_of_connection
from .report import first_line
from .statements import Statement

MOST = 1000     # in one round
DOUBT = 1.0     # seconds until one that was refused in doubt is told again
ROUNDS_OF_DOUBT = 60

Steps = Generator[Statement[Any], Any, None]


class Told(Protocol):
    """The run of a worker, which is told what has become of settlements."""

    def settled(self, count: int) -> None: ...

    def too_late(self, settlement: Settlement) -> None: ...

    def turned(self, settlement: Settlement) -> None: ...

    def died(self, settlement: Settlement) -> None: ...


class SettlerBase:
    def __init__(self, run: Told) -> None:
        self.run = run
        self._connection: Any = None
        self._until: Optional[float] = None
        self.again: List[Settlement] = []       # refused in doubt
        self.failed: List[Settlement] = []      # noted as failures, and they may have been the last ones

    def steps(self, work: List[Settlement]) -> Steps:
        """Takes out of work what is told."""
        for statement, some in list(batches(work)):
            try:
                done = yield statement
            except psycopg.Error as error:
                self._raise_if_of_connection(error)
                yield from self._one_by_one(some)
            else:
                self._note(some, done)
            told = {id(settlement) for settlement in some}
            work[:] = [settlement for settlement in work if id(settlement) not in told]
        if self.failed:
            yield from self._look_for_dead()

    def _one_by_one(self, some: List[Settlement]) -> Steps:
        """The server refuses one of them. The others are told alone."""
        for settlement in some:
            current: Optional[Settlement] = settlement
            while current is not None:
                (statement, _), = batches([current])
                try:
                    self._note([current], (yield statement))
                    break
                except psycopg.Error as alone:
                    self._raise_if_of_connection(alone)
                    log.warning("%s: its %s was refused: %s", current.delivery, current.kind, first_line(alone))
                    kind, current = current.kind, refused(current, alone)
                    if current is not None and current.kind != kind:
                        self.run.turned(current)
            else:
                self.run.settled(1)

    def _raise_if_of_connection(self, error: psycopg.Error) -> None:
        if is_of_connection(error, self._connection.closed) or is_interrupted(error):
            raise error

    def _note(self, some: List[Settlement], done: List[str]) -> None:
        lost, again = lost_ones(some, done) if len(done) < len(some) else ([], [])
        for settlement in lost:
            self.run.too_late(settlement)
        self.again += again
        self.run.settled(len(some) - len(again))
        if some[0].kind == "nack":
            missing = {id(settlement) for settlement in lost + again}
            self.failed += [settlement for settlement in some if id(settlement) not in missing]

    def _look_for_dead(self) -> Steps:
        """The server knows how many attempts a task has."""
        failed = list(self.failed)
        unknown = [settlement for settlement in failed if not settlement.final]
        dead = [settlement for settlement in failed if settlement.final]
        try:
            if unknown:
                found = yield statements.dead_of([(one.delivery.queue, one.delivery.id) for one in unknown])
                dead += [unknown[n] for n in found]
        except psycopg.Error as error:
            self._raise_if_of_connection(error)
            log.warning("cannot look whether tasks are dead that have failed: %s", first_line(error))
        self.failed = []
        for settlement in dead:
            self.run.died(settlement)


def lost_ones(some: Sequence[Settlement], done: Sequence[str]) -> Tuple[List[Settlement], List[Settlement]]:
    """Of settlements that the server was told: those whose lease was lost, and those to be told again.

    A transaction that has acknowledged, and whose connection is gone, may hold the lease
    until the server has noticed.
    """
    receipts = set(done)
    missing = [settlement for settlement in some if settlement.receipt not in receipts]
    again = [settlement for settlement in missing if settlement.doubtful and settlement.tries < ROUNDS_OF_DOUBT]
    for settlement in again:
        settlement.tries += 1
    return [settlement for settlement in missing if not settlement.doubtful], again
