"""The worker's session: a thread that keeps it alive, and hears what is broadcast.

A thread, and not a timer of the event loop: heartbeats go on while the loop is held up, by a task
of the solo pool for example, or stands still, as in a warm shutdown that waits for long tasks.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable, Optional

from ..place import NoWatch, Watch
from .database import Database
from .errors import ConnectionLost
from .lease import Lease
from .settler import ACK, BURY, NACK, RELEASE, Settlement, Settler
from .wake import Wake, readable

logger = logging.getLogger(__name__)

HEARTBEAT = "SELECT fairq.heartbeat(%s)"


class Session:
    def __init__(self, database: Database, settler: Settler, ttl: float,
                 on_event: Callable[[], None], watch: Optional[Watch] = None) -> None:
        """The database is for heartbeats, and what is broadcast. Others use it too, but none waits
        there for a lock until a heartbeat is late."""
        self.database = database
        self.ttl = ttl
        self.id: Optional[str] = None
        self._settler = settler
        self._on_event = on_event
        self._watch = watch or NoWatch()
        self._error: Optional[Exception] = None
        self._wake = Wake()
        database.stay(ttl / 4)
        self._thread = threading.Thread(target=self._run, name="fairq-session", daemon=True)
        self._thread.start()

    def open(self, name: str) -> str:
        """The session of the leases; only who claims needs one."""
        if self.id is None:
            self.id = self._settler.open(name, self.ttl, self._wake.set)
        return self.id

    @property
    def error(self) -> Optional[Exception]:
        return self._error or self._settler.error

    @property
    def over(self) -> bool:
        return self._settler.over

    @property
    def releasing(self) -> int:
        """How many tasks are on their way back to their places."""
        return len(self._settler.releasing)

    # What the other threads ask for. None of these waits for the server.

    def count(self, tasks: int) -> None:
        self._settler.count(tasks)

    def retire(self) -> None:
        self._settler.retire()
        self._wake.set()

    def crowded(self) -> set[str]:
        return self._settler.crowded()

    def ack(self, lease: Lease) -> None:
        self._settler.settle(Settlement(lease, ACK))

    def release(self, lease: Lease) -> None:
        self._settler.settle(Settlement(lease, RELEASE))

    def nack(self, lease: Lease, error: str, final: bool) -> None:
        text = error.replace("\0", "\ufffd").encode(errors="replace").decode()
        self._settler.settle(Settlement(lease, BURY if final else NACK, text))

    # The thread.

    def _run(self) -> None:
        beat_at = time.monotonic() + self.ttl / 4
        try:
            while not self.over:
                if time.monotonic() >= beat_at:
                    self._heartbeat()
                    beat_at = time.monotonic() + self.ttl / 4
                left = max(0.0, beat_at - time.monotonic())
                sources = readable([self._wake, self.database], left)
                self._wake.clear()
                if self.database in sources:
                    self.database.read_notifications()
            self.database.close()
            self._wake.close()
        except Exception as error:  # whatever it is, no other thread would hear of it
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.over:
            logger.debug("the session ended while it was closed: %s", error)
            return
        lost = isinstance(error, ConnectionLost)
        self._error = error if lost else ConnectionLost(f"the session has failed: {error}")
        self._on_event()

    def _heartbeat(self) -> None:
        if self.id is None:
            return
        with self._watch.within(self.database.connection):
            [(alive,)] = self.database.execute(HEARTBEAT, (self.id,))
        if not alive:
            raise ConnectionLost(f"the session is over: no heartbeat came within {self.ttl} s; its "
                                 "tasks are delivered again")

    def close(self) -> None:
        """Settle what is to be settled, while heartbeats go on, and give back the rest."""
        self._settler.close()
        self._wake.set()
        self._thread.join()
        self.database.close()
        self._wake.close()
