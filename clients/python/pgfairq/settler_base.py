"""What Settler and AsyncSettler share: what they send, and what they make of the answers.

It is a generator of statements, to which the answer or the error of each is sent. So it is the same whether
a call blocks or is awaited.

A statement tells of many tasks, and waits only so long for a lock. If one of them is locked or refused all are told
alone. What waits for its lock is put aside, and told again later, alone; the others go on. Is it the queue's table that
is locked, the queue is put off, with all that is to be told of it.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple

import psycopg

from . import journal, statements
from .attendance import SOON, Attendance
from .connections import Steps
from .delivery import VERBS, Settlement, batches, refused, told
from .journal import log
from .pace import LOCKED, LOCKED_ALONE, is_answer, is_interrupted, is_passing
from .report import first_line

MOST = 1000     # in one round
DOUBT = 1.0     # seconds until one that was refused in doubt is told again
ROUNDS_OF_DOUBT = 60
CROWD = 100     # of a queue with so many put aside nothing more is claimed
MOST_LOCKED = 5 # of a queue in a round; the others of the queue have their turn in a later one
LET_GO = 30.0   # seconds until a task whose failure is refused is given back, to run again


class Told(Protocol):
    """The run of a worker, which is told what has become of settlements."""

    def settled(self, count: int) -> None: ...

    def put_aside(self, count: int) -> None: ...

    def too_late(self, settlement: Settlement) -> None: ...

    def turned(self, settlement: Settlement) -> None: ...

    def died(self, settlement: Settlement) -> None: ...


class SettlerBase:
    def __init__(self, run: Told) -> None:
        self.run = run
        self.attendance = Attendance([], "told what has become of its tasks")
        self._connection: Any = None
        self._until: Optional[float] = None     # asked to close: so long it may take
        self._aside: List[Tuple[float, Settlement]] = []    # to be told then
        self._locked: Dict[str, int] = {}       # how many of a queue are, in this round
        self._told: Dict[int, Settlement] = {}  # by id(): of the work of this round
        self.failed: List[Settlement] = []      # noted as failures, and they may have been the last ones
        self._look_at = 0.0                     # when to look whether they were

    def _is_empty(self) -> bool:
        """Nothing has come that is to be told."""
        raise NotImplementedError

    def closed(self) -> List[str]:
        """Queues of which nothing more is to be claimed: what is done could not be told. For the run's thread."""
        queues = self.attendance.absent()
        if len(self._aside) >= CROWD:
            crowds = Counter(settlement.delivery.queue for _, settlement in list(self._aside))
            queues += [queue for queue, count in crowds.items() if count >= CROWD]
        return queues

    # -- when

    def _is_over(self, work: List[Settlement]) -> bool:
        """Asked to close, and what can be told is. The end of the session lets go of the rest."""
        if self._until is None or work or self._is_to_look() or not self._is_empty():
            return False
        waiting = [one for _, one in self._aside if one.waited and not one.given_up]
        if waiting and time.monotonic() > self._until:
            log.warning("%d tasks could not be settled: they are locked", len(waiting))
        return not waiting or time.monotonic() > self._until

    def _gives_up(self, work: List[Settlement], error: Exception) -> bool:
        if self._until is not None and time.monotonic() > self._until:
            log.warning("%d tasks could not be settled: %s", len(work), first_line(error))
            return True
        log.warning("cannot settle: %s; trying again", first_line(error))
        return False

    def _patience(self, work: List[Settlement]) -> Optional[float]:
        """How long to wait for more to tell; None: until there is something."""
        if work:
            return 0.0
        ends = [due for due, _ in self._aside]
        if self.failed:
            ends.append(self._look_at)
        if self._until is not None:
            ends.append(self._until)
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _take_due(self, work: List[Settlement]) -> None:
        now = time.monotonic()
        due = [settlement for at, settlement in self._aside if at <= now]
        if due:
            self._aside = [(at, settlement) for at, settlement in self._aside if at > now]
            self.run.put_aside(-sum(not settlement.given_up for settlement in due))
            work += due

    def _is_to_look(self) -> bool:
        return bool(self.failed) and (self._until is None or time.monotonic() <= self._until)

    def _put_aside(self, settlement: Settlement, until: float) -> None:
        self._aside.append((until, settlement))
        self.run.put_aside(not settlement.given_up)

    # -- what

    def steps(self, work: List[Settlement]) -> Steps[None]:
        """Takes out of work what is told. Those first that have waited least, so that what is locked for long is not
        in the way of what is not."""
        self._locked = {}
        absent = self.attendance.absent()
        for settlement in work:
            if settlement.delivery.queue in absent:
                settlement.waited = settlement.waited or 1
        self._told = {}
        try:
            for some in batches(sorted(work, key=lambda settlement: settlement.waited)):
                yield from self._tell(work, some)
        finally:
            work[:] = [settlement for settlement in work if id(settlement) not in self._told]
        if self.failed and self._look_at <= time.monotonic():
            yield from self._look_for_dead()

    def _tell(self, work: List[Settlement], some: List[Settlement]) -> Steps[None]:
        alone = len(some) == 1
        if not (alone and self._keeps_back(some[0])):
            try:
                done = yield told(some, LOCKED_ALONE if some[0].waited else LOCKED)
            except psycopg.Error as error:
                self._raise_if_of_connection(error)
                if not alone:
                    for settlement in some:
                        settlement.waited = settlement.waited or 1
                        yield from self._tell(work, [settlement])
                elif is_passing(error):
                    yield from self._wait(some[0], error)
                else:
                    yield from self._tell_less(work, some[0], error)
            else:
                self._note(some, done)
        self._told.update((id(settlement), settlement) for settlement in some)

    def _keeps_back(self, settlement: Settlement) -> bool:
        """Whether it is put aside, without a look at it."""
        queue, until = settlement.delivery.queue, 0.0
        if self.attendance.is_off(queue):
            until = self.attendance.until(queue)
        elif self._locked.get(queue, 0) >= MOST_LOCKED:
            until = time.monotonic() + 1
        if until:
            settlement.waited = settlement.waited or 1
            self._put_aside(settlement, until)
        return until > 0

    def _wait(self, settlement: Settlement, error: psycopg.Error) -> Steps[None]:
        """A row is locked, or all of the queue: then its leases cannot be asked for either, which needs no row."""
        queue = settlement.delivery.queue
        self._locked[queue] = self._locked.get(queue, 0) + 1
        settlement.waited = max(1, settlement.waited) + 1
        if settlement.waited == 2:
            log.warning("%s: its %s waits: %s", settlement.delivery, VERBS[settlement.kind], first_line(error),
                        extra=journal.fields(settlement.delivery))
        try:
            if is_interrupted(error):
                yield statements.still_held([settlement.receipt], LOCKED_ALONE)
                self.attendance.answered([queue])
        except psycopg.Error as second:
            self._raise_if_of_connection(second)
            if is_interrupted(second):
                self.attendance.put_off(queue, second)
        self._put_aside(settlement, time.monotonic() + min(SOON, 0.25 * 2.0 ** min(settlement.waited, 10)))

    def _tell_less(self, work: List[Settlement], settlement: Settlement, error: psycopg.Error) -> Steps[None]:
        """The server refuses it for itself."""
        log.warning("%s: its %s was refused: %s", settlement.delivery, VERBS[settlement.kind], first_line(error),
                    extra=journal.fields(settlement.delivery))
        self.attendance.answered([settlement.delivery.queue])
        less = refused(settlement, error)
        if less is None:    # the run has counted it; its lease lives as long as the session
            self._put_aside(settlement, time.monotonic() + LET_GO)
            return
        if less.kind == "nack" and settlement.kind != "nack":
            self.run.turned(less)
        if less.given_up:
            journal.let_go(less, LET_GO)
            self.run.settled(1)
            self._put_aside(less, time.monotonic() + LET_GO)
        else:
            work[work.index(settlement)] = less
            yield from self._tell(work, [less])

    def _raise_if_of_connection(self, error: psycopg.Error) -> None:
        if not is_answer(error, self._connection.closed):
            raise error

    def _note(self, some: List[Settlement], done: List[str]) -> None:
        self.attendance.answered({settlement.delivery.queue for settlement in some})
        lost, again = lost_ones(some, done) if len(done) < len(some) else ([], [])
        for settlement in lost:
            if not settlement.given_up:
                self.run.too_late(settlement)
        for settlement in again:
            self._put_aside(settlement, time.monotonic() + DOUBT)
        self.run.settled(sum(not settlement.given_up for settlement in some) - len(again))
        if some[0].kind == "nack":
            missing = {id(settlement) for settlement in lost + again}
            self.failed += [settlement for settlement in some if id(settlement) not in missing]

    def _look_for_dead(self) -> Steps[None]:
        """The server knows how many attempts a task has."""
        dead = [settlement for settlement in self.failed if settlement.final]
        queues: Dict[str, List[Settlement]] = {}
        later: List[Settlement] = []
        for settlement in self.failed:
            if not settlement.final:
                queues.setdefault(settlement.delivery.queue, []).append(settlement)
        for unknown in queues.values():
            try:
                found = yield statements.dead_of([(one.delivery.queue, one.delivery.id) for one in unknown], LOCKED)
                dead += [unknown[n] for n in found]
            except psycopg.Error as error:
                self._raise_if_of_connection(error)
                log.warning("cannot look whether tasks are dead that have failed: %s", first_line(error))
                later += unknown if is_passing(error) else []
        self.failed = later
        if later:
            self._look_at = time.monotonic() + DOUBT
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
