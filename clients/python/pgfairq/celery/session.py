"""The worker's session: a thread that keeps it alive, settles tasks, and hears what is broadcast.

A thread, and not a timer of the event loop: heartbeats go on while the loop is held up, by a task
of the solo pool for example, or stands still, as in a warm shutdown that waits for long tasks.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import deque
from typing import Any, Callable, Optional

from ..place import NoWatch, Watch
from .database import Database
from .errors import ConnectionLost, Refused
from .lease import Lease
from .unsettled import Unsettled
from .wake import Wake

logger = logging.getLogger(__name__)

OPEN = "SELECT fairq.open_session(%s, make_interval(secs => %s), bound => true)::text"
HEARTBEAT = "SELECT fairq.heartbeat(%s)"
ACK = "SELECT fairq.ack_many(%s::uuid[])::text"
RELEASE = "SELECT fairq.release_many(%s::uuid[])::text"
CLOSE = "SELECT fairq.close_session(%s)"

# Final: dead at once, and kept for who looks after dead tasks.
NACK = "SELECT fairq.nack(%s::uuid, %s, final => %s)"

BATCH = 1000


class Session:
    def __init__(self, database: Database, ttl: float, on_event: Callable[[], None], unsettled: Unsettled,
                 home: Optional[Database] = None, watch: Optional[Watch] = None) -> None:
        """home: where what others left unsettled is looked for, if that is not the database of the session."""
        self.database = database
        self._home = home or database
        self._watch = watch or NoWatch()
        self._retired = False
        self._out = 0   # tasks that are not settled
        self._counting = threading.Lock()
        self.ttl = ttl
        self.id: Optional[str] = None
        self.error: Optional[Exception] = None
        self._on_event = on_event
        self._over = False
        self._acking: list[Lease] = []
        self._unsettled = unsettled
        self._acks: deque[Lease] = deque()
        self._releases: deque[Lease] = deque()
        self.releasing: set[str] = set()  # receipts of what is on its way back to its place
        self._nacks: deque[tuple[Lease, str, bool]] = deque()
        self._wake = Wake()
        self._closing = False
        database.stay()
        unsettled.listen(self._wake.set)
        self._thread = threading.Thread(target=self._run, name="fairq-session", daemon=True)
        self._thread.start()

    def open(self, name: str) -> str:
        """The session of the leases; only who claims needs one."""
        if self.id is None:
            self._unsettled.settle(self._home)
            [(self.id,)] = self._execute(OPEN, (name.encode()[:63].decode(errors="ignore"), self.ttl))
            self._wake.set()
        return self.id

    def _execute(self, sql: str, values: Any) -> list:
        with self._watch.within(self.database.connection):
            return self.database.execute(sql, values)

    # What the other threads ask for. None of these waits for the server.

    @property
    def over(self) -> bool:
        return self._over

    def count(self, tasks: int) -> None:
        """So many more are out, or fewer."""
        with self._counting:
            self._out += tasks

    def retire(self) -> None:
        """Nothing more is claimed: it ends when all that is out is settled."""
        self._retired = True
        self._wake.set()

    def ack(self, lease: Lease) -> None:
        self._acks.append(lease)
        if self._over:  # the thread has gone, and takes nothing more
            self._hand_over()
        else:
            self._wake.set()

    def release(self, lease: Lease) -> None:
        self.releasing.add(lease.receipt)
        self._releases.append(lease)
        self._wake.set()

    def nack(self, lease: Lease, error: str, final: bool) -> None:
        self._nacks.append((lease, error, final))
        self._wake.set()

    # The thread.

    def _run(self) -> None:
        beat_at = time.monotonic() + self.ttl / 4
        try:
            while not self._closing:
                self._settle()
                if self._retired and self._out <= 0:
                    self._end()
                    return
                if time.monotonic() >= beat_at:
                    self._heartbeat()
                    beat_at = time.monotonic() + self.ttl / 4
                readable, _, _ = select.select([self._wake, self.database], [], [], max(0, beat_at - time.monotonic()))
                self._wake.clear()
                if self.database in readable:
                    self.database.read_notifications()
            self._settle()
        except Exception as error:  # whatever it is, no other thread would hear of it
            self._fail(error)
        finally:
            self._over = True
            self._hand_over()

    def _hand_over(self) -> None:
        """To the next session of the process, what this one could not acknowledge."""
        left = self._acking + _take(self._acks, None)
        self._acking = []
        self._unsettled.add(left)

    def _fail(self, error: Exception) -> None:
        if self._closing:
            logger.debug("the session ended while it was closed: %s", error)
            return
        self.error = error if isinstance(error, ConnectionLost) else ConnectionLost(f"the session has failed: {error}")
        self._on_event()

    def _heartbeat(self) -> None:
        if self.id is None:
            return
        [(alive,)] = self._execute(HEARTBEAT, (self.id,))
        if not alive:
            raise ConnectionLost(f"the session is over: no heartbeat came within {self.ttl} s; its tasks are delivered again")

    def _settle(self) -> None:
        if self._unsettled and self.id is not None:
            self._unsettled.settle(self._home)
        while self._acks or self._releases or self._nacks:
            self._ack_some()
            self._release_some()
            while self._nacks:
                self._nack_one(*self._nacks.popleft())

    def _ack_some(self) -> None:
        self._acking = _take(self._acks)
        for lease in self._many(ACK, self._acking):
            logger.warning("%s was acknowledged when its lease was lost: it is delivered again, or was cancelled", lease)
        self.count(-len(self._acking))
        self._acking = []

    def _release_some(self) -> None:
        leases = _take(self._releases)
        for lease in self._many(RELEASE, leases):
            logger.debug("%s could not be given back: its lease is lost", lease)
        if leases:
            self.count(-len(leases))
            self.releasing.difference_update(lease.receipt for lease in leases)
            self._on_event()  # whoever claims now finds them in their places

    def _many(self, sql: str, leases: list[Lease]) -> list[Lease]:
        """Settle them; those whose lease was lost."""
        if not leases:
            return []
        settled = {receipt for receipt, in self._execute(sql, ([lease.receipt for lease in leases],))}
        return [lease for lease in leases if lease.receipt not in settled]

    def _nack_one(self, lease: Lease, error: str, final: bool) -> None:
        try:
            self.count(-1)
            self._execute(NACK, (lease.receipt, error.replace("\0", "\ufffd"), final))
        except Refused as refused:
            logger.error("%s has failed, which could not be told: %s", lease, refused)

    def close(self) -> None:
        """Settle what is to be settled, give back the rest, and close the connection."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self._end()

    def _end(self) -> None:
        self._unsettled.unlisten(self._wake.set)
        try:
            if self.id is not None and self.error is None and not self.database.closed:
                self._execute(CLOSE, (self.id,))
        except (ConnectionLost, Refused) as error:
            logger.debug("the session could not be closed: %s", error)  # it ends with the connection
        finally:
            self.database.close()
            self._wake.close()


def _take(queue: deque, most: Optional[int] = BATCH) -> list:
    taken = []
    while queue and (most is None or len(taken) < most):
        taken.append(queue.popleft())
    return taken
