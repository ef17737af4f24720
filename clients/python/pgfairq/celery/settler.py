"""What is said of tasks when they are done with: a thread, with a connection of its own.

Not the thread that sends heartbeats, nor its connection, for a settlement may wait for a lock. It
waits for half a second at most. Then, as where the server has refused it, the tasks of a batch are
settled one by one; what still has to wait is put aside, with all else of its queue if it is not the
only one, and the others go on.

The session is bound to this connection: as long as it is there, an acknowledgement gets through.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any, Callable, NamedTuple, Optional

from ..pace import Backoff
from ..place import NoWatch, Watch
from .database import LOCK_WAIT, Database
from .errors import ConnectionLost, Refused
from .lease import Lease
from .unsettled import Unsettled
from .wake import Wake, readable

logger = logging.getLogger(__name__)

OPEN = "SELECT fairq.open_session(%s, make_interval(secs => %s), bound => true)::text"
CLOSE = "SELECT fairq.close_session(%s)"

ACK = "SELECT fairq.ack_many(%(receipts)s::uuid[])::text"
RELEASE = "SELECT fairq.release_many(%(receipts)s::uuid[])::text"
NACK = "SELECT fairq.nack_many(%(receipts)s::uuid[], %(errors)s::text[])::text"
# Final: dead at once, and kept for who looks after dead tasks.
BURY = "SELECT fairq.nack_many(%(receipts)s::uuid[], %(errors)s::text[], final => true)::text"
# It writes no row, so nothing of a row is in its way: in a minute the task is one that was lost.
LET_GO = "SELECT fairq.extend_many(%(receipts)s::uuid[], '60 s')::text"

BATCH = 1000
# So many of a queue wait in vain until its others are put aside; and for how many seconds they are.
TRIES = 2
FIRST, LONGEST = 1.0, 15.0
# Of a queue with so many put aside nothing more is claimed.
CROWD = 100
# For how many seconds the end of a session waits for what was put aside.
PATIENCE = 10.0
# Between two looks at what other sessions have left.
PAUSE = 5.0


class Settlement(NamedTuple):
    lease: Lease
    sql: str
    error: Optional[str] = None

    def instead(self, refused: Refused) -> "Optional[Settlement]":
        """What is tried where the server refuses this for good."""
        if self.sql == ACK:     # it is done, and not to be done again
            error = f"done, but the acknowledgement was refused: {refused}"
            return Settlement(self.lease, BURY, error)
        if self.error is not None:
            return self._replace(error=None)
        return None if self.sql == LET_GO else Settlement(self.lease, LET_GO)


class Late:
    """What of a queue was put aside."""

    def __init__(self) -> None:
        self.settlements: deque[Settlement] = deque()
        self.backoff = Backoff(FIRST, LONGEST)
        self.until = 0.0
        self.waits = 0      # of the pass that is under way
        self.all = False    # of its tasks are put aside
        self.why: Optional[Refused] = None

    def is_closed(self) -> bool:
        return self.waits >= TRIES or (self.all and self.until > time.monotonic())

    def put_off(self, queue: str) -> None:
        pause = self.backoff.next()
        self.until, self.all, self.waits = time.monotonic() + pause, self.waits >= TRIES, 0
        logger.warning("queue %s: %d tasks could not be settled, and are tried again in %.1f s: %s",
                       queue, len(self.settlements), pause, self.why)


class Settler:
    """Of a session, which it opens and closes."""

    def __init__(self, parameters: dict[str, Any], unsettled: Unsettled,
                 on_event: Callable[[], None], home: Optional[Database] = None,
                 watch: Optional[Watch] = None) -> None:
        """home: where to look for what others left, if not in the database of the session."""
        self.error: Optional[Exception] = None
        self.over = False
        self.releasing: set[str] = set()    # receipts of what is on its way back to its place
        self._id: str
        self._database: Database
        self._on_end: Callable[[], None]
        self._parameters = parameters
        self._unsettled = unsettled
        self._on_event = on_event
        self._home = home
        self._watch = watch or NoWatch()
        self._wake = Wake()
        self._out = 0   # tasks that are not settled
        self._counting = threading.Lock()
        self._asked: dict[str, Settlement] = {}     # and not done
        self._new: deque[Settlement] = deque()
        self._late: dict[str, Late] = {}
        self._look_at = 0.0
        self._closing = self._retired = False
        self._thread: Optional[threading.Thread] = None

    def open(self, name: str, ttl: float, on_end: Callable[[], None]) -> str:
        """The session. What others left unsettled is out of the queues before it has tasks."""
        self._database = Database(self._parameters)
        try:
            self._database.stay(LOCK_WAIT)
            self._look_after_others()
            [(self._id,)] = self._execute(OPEN, (name.encode()[:63].decode(errors="ignore"), ttl))
        except BaseException:
            self._database.close()
            raise
        self._on_end = on_end
        self._unsettled.listen(self._wake.set)
        self._thread = threading.Thread(target=self._run, name="fairq-settler", daemon=True)
        self._thread.start()
        return self._id

    def _execute(self, sql: str, values: Any) -> list:
        with self._watch.within(self._database.connection):
            return self._database.execute(sql, values)

    # What the other threads ask for. None of these waits for the server.

    def count(self, tasks: int) -> None:
        """So many more are out, or fewer."""
        with self._counting:
            self._out += tasks

    def retire(self) -> None:
        """Nothing more is claimed: it ends when all that is out is settled."""
        self._retired = True
        if self._thread is None:    # it was never opened
            self.over = True
            self._wake.close()
        self._wake.set()

    def crowded(self) -> set[str]:
        """Queues of which nothing more is to be claimed: what is done could not be told."""
        return {queue for queue, late in list(self._late.items()) if len(late.settlements) >= CROWD}

    def settle(self, settlement: Settlement) -> None:
        receipt = settlement.lease.receipt
        self._asked[receipt] = settlement
        if settlement.sql == RELEASE:
            self.releasing.add(receipt)
        self._new.append(settlement)
        self._wake.set()
        if self.over:   # the thread has gone, and takes nothing more
            self._hand_over()

    # The thread.

    def _run(self) -> None:
        try:
            pause = self._settle()
            while not self._is_at_its_end():
                if self._database in readable([self._wake, self._database], pause):
                    self._database.read_notifications()  # or the end of the connection
                self._wake.clear()
                pause = self._settle()
            self._wait_for_late()
        except Exception as error:  # whatever it is, no other thread would hear of it
            lost = isinstance(error, ConnectionLost)
            self.error = error if lost else ConnectionLost(f"the session has failed: {error}")
        finally:
            self.over = True
            self._unsettled.unlisten(self._wake.set)
            self._hand_over()
            self._close_session()
            self._wake.close()
            self._on_end()
            if self.error is not None:
                self._on_event()

    def _is_at_its_end(self) -> bool:
        return self._closing or (self._retired and self._out <= 0)

    def _settle(self) -> Optional[float]:
        """What can be settled now; how long until more can be. None: until it is asked for."""
        self._look_after_others()
        self._settle_new()
        for queue, late in list(self._late.items()):
            if late.until <= time.monotonic():
                self._retry(queue, late)
                self._settle_new()
        due = [late.until for late in self._late.values()]
        due += [self._look_at] if self._unsettled else []
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _look_after_others(self) -> None:
        """What other sessions of the process could not bring to the server."""
        if self._unsettled and time.monotonic() >= self._look_at:
            self._unsettled.settle(self._home or self._database)
            self._look_at = time.monotonic() + PAUSE if self._unsettled else 0.0

    def _settle_new(self) -> None:
        while self._new:
            self._pass([self._new.popleft() for _ in range(len(self._new))])

    def _retry(self, queue: str, late: Late) -> None:
        settlements = list(late.settlements)
        late.settlements.clear()
        self._pass(settlements)
        if not late.settlements:
            del self._late[queue]
        elif len(late.settlements) < len(settlements):
            late.backoff.reset()

    def _pass(self, settlements: list[Settlement]) -> None:
        for sql in dict.fromkeys(settlement.sql for settlement in settlements):
            same = [settlement for settlement in settlements if settlement.sql == sql]
            for at in range(0, len(same), BATCH):
                self._together(same[at:at + BATCH])
        for queue, late in self._late.items():
            if late.waits:
                late.put_off(queue)

    def _together(self, settlements: list[Settlement]) -> None:
        settlements = [settlement for settlement in settlements if not self._follows(settlement)]
        if len(settlements) == 1:
            self._alone(settlements[0])
        elif settlements:
            try:
                self._tell(settlements)
            except Refused:
                for part in _parts(settlements):
                    self._together(part)

    def _follows(self, settlement: Settlement) -> bool:
        """Put aside, as those of its queue that have waited. It has not, so it is before them."""
        late = self._late.get(settlement.lease.queue)
        if late is None or not late.is_closed():
            return False
        late.settlements.appendleft(settlement)
        self._is_not_awaited([settlement])
        return True

    def _alone(self, asked: Settlement) -> None:
        settlement: Optional[Settlement] = asked
        while settlement is not None:
            try:
                return self._tell([settlement])
            except Refused as error:
                refused = error
            if refused.passes:
                break
            logger.error("%s could not be settled: %s", asked.lease, refused)
            settlement = settlement.instead(refused)
        late = self._late.setdefault(asked.lease.queue, Late())
        late.settlements.append(asked)
        late.waits, late.why = late.waits + 1, refused
        self._is_not_awaited([asked])

    def _tell(self, settlements: list[Settlement]) -> None:
        receipts = [settlement.lease.receipt for settlement in settlements]
        values = {"receipts": receipts, "errors": [settlement.error for settlement in settlements]}
        good = {receipt for receipt, in self._execute(settlements[0].sql, values)}
        for settlement in settlements:
            if settlement.lease.receipt not in good:
                _say_lost(settlement)
            self._asked.pop(settlement.lease.receipt, None)
        self.count(-len(settlements))
        self._is_not_awaited(settlements)

    def _is_not_awaited(self, settlements: list[Settlement]) -> None:
        """What was to go back is in its place, for who claims now, or it may take long."""
        receipts = self.releasing.intersection(settlement.lease.receipt for settlement in settlements)
        if receipts:
            self.releasing.difference_update(receipts)
            self._on_event()

    # The end.

    def _wait_for_late(self) -> None:
        end = time.monotonic() + PATIENCE
        for late in self._late.values():
            late.until = 0.0
            late.backoff.reset()
        self._settle()
        while self._late and time.monotonic() < end:
            due = min(late.until for late in self._late.values())
            time.sleep(max(0.0, min(due, end) - time.monotonic()))
            self._settle()

    def _hand_over(self) -> None:
        """To the next session of the process, what this one could not acknowledge."""
        acks = [settlement for settlement in list(self._asked.values()) if settlement.sql == ACK]
        for settlement in acks:
            self._asked.pop(settlement.lease.receipt, None)
        self._unsettled.add(settlement.lease for settlement in acks)

    def _close_session(self) -> None:
        try:
            if self.error is None:
                self._execute(CLOSE, (self._id,))
        except (ConnectionLost, Refused) as error:
            # It ends with the connection.
            logger.debug("the session could not be closed: %s", error)
        finally:
            self._database.close()

    def close(self) -> None:
        """Settle what is to be settled, and give back the rest."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.over = True
        self._wake.close()


def _parts(settlements: list[Settlement]) -> list[list[Settlement]]:
    """Of each queue, or if there is one alone, of each task."""
    parts: dict[str, list[Settlement]] = {}
    for settlement in settlements:
        parts.setdefault(settlement.lease.queue, []).append(settlement)
    return list(parts.values()) if len(parts) > 1 else [[settlement] for settlement in settlements]


def _say_lost(settlement: Settlement) -> None:
    if settlement.sql == ACK:
        logger.warning("%s was acknowledged when its lease was lost: it is delivered again, or was "
                       "cancelled", settlement.lease)
    else:
        logger.debug("%s could not be given back: its lease is lost", settlement.lease)
