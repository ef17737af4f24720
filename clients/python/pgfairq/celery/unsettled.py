"""Acknowledgements that this process could not bring to the server, because the connection was lost.

Their receipts are void, for the session has ended with its connection. But these tasks are done,
so the next session of the process takes them out of their queues, by their ids. What another worker
has claimed meanwhile it may be doing a second time; that cannot be helped.
"""

from __future__ import annotations

import threading
from typing import Callable, Iterable

from .database import Database
from .errors import Refused
from .lease import Lease

# An id may be given again after a failover that lost transactions, but not at the same time.
CANCEL = """
SELECT fairq.cancel(%(queue)s, id) FROM fairq.get_task(%(queue)s, %(id)s) WHERE enqueued_at = %(enqueued_at)s::timestamptz
"""


class Unsettled:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[str, Lease] = {}
        self._listeners: set[Callable[[], None]] = set()

    def __bool__(self) -> bool:
        return bool(self._leases)

    def listen(self, on_add: Callable[[], None]) -> None:
        with self._lock:
            self._listeners.add(on_add)

    def unlisten(self, on_add: Callable[[], None]) -> None:
        with self._lock:
            self._listeners.discard(on_add)

    def add(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._leases.update((lease.receipt, lease) for lease in leases)
            for on_add in self._listeners if self._leases else ():
                on_add()

    def settle(self, database: Database) -> None:
        """By a session that has a connection. Of a queue that is locked they are left for later,
        the first of them behind the others."""
        with self._lock:
            leases = list(self._leases.values())
        locked: set[str] = set()
        for lease in leases:
            if lease.queue in locked:
                continue
            try:
                database.execute(CANCEL, {"queue": lease.queue, "id": lease.id, "enqueued_at": lease.enqueued_at})
            except Refused as refused:
                if refused.passes:
                    locked.add(lease.queue)
                # else the queue is gone, and the task with it
            with self._lock:
                self._leases.pop(lease.receipt, None)
                if lease.queue in locked:
                    self._leases[lease.receipt] = lease


_of_servers: dict[str, Unsettled] = {}


def unsettled_of(url: str) -> Unsettled:
    """One for each server and database that the process works for."""
    return _of_servers.setdefault(url, Unsettled())
