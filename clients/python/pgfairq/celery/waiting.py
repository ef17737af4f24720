"""Who waits for results, in the threads of a process: one connection listens for all of them."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Optional

from .database import Database
from .errors import ConnectionLost
from .wake import readable

CHANNEL = "fairq_celery_results"


def name_of(key: str) -> str:
    """In a notification, which is short."""
    return hashlib.sha256(key.encode()).hexdigest()


class Waiting:
    """One call that waits for some results."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._told: Optional[set[str]] = set()

    def tell(self, name: Optional[str]) -> None:
        """None: any of them may have been stored unheard."""
        with self._lock:
            if name is None:
                self._told = None
            elif self._told is not None:
                self._told.add(name)
            self._event.set()

    def wait(self, seconds: Optional[float]) -> bool:
        return self._event.wait(seconds)

    def told(self) -> Optional[set[str]]:
        with self._lock:
            told, self._told = self._told, set()
            self._event.clear()
            return told


class Listener:
    def __init__(self, parameters: dict[str, Any]) -> None:
        self._parameters = parameters
        self._lock = threading.RLock()
        self._waiting: dict[str, set[Waiting]] = {}
        self._database: Optional[Database] = None

    @contextmanager
    def of(self, keys: Iterable[str]) -> Iterator[Waiting]:
        waiting, names = Waiting(), [name_of(key) for key in keys]
        with self._lock:
            for name in names:
                self._waiting.setdefault(name, set()).add(waiting)
        try:
            self._ensure()  # from here on nothing is missed
            yield waiting
        finally:
            with self._lock:
                for name in names:
                    self._waiting[name].discard(waiting)
                    if not self._waiting[name]:
                        del self._waiting[name]

    def _ensure(self) -> None:
        with self._lock:
            if self._database is not None and not self._database.closed:
                return
            database = Database(self._parameters, self._on_notify)
            database.stay()
            database.execute(f"LISTEN {CHANNEL}")
            self._database = database
            threading.Thread(target=self._run, args=(database,), name="fairq-results", daemon=True).start()

    def _run(self, database: Database) -> None:
        try:
            while True:
                readable([database])
                database.read_notifications()
        except (ConnectionLost, OSError, ValueError):
            database.close()
            with self._lock:
                everyone = {waiting for some in self._waiting.values() for waiting in some}
            self._again(everyone)

    def _again(self, everyone: "set[Waiting]") -> None:
        """After a lost connection: listen again, then have all look."""
        while everyone:
            try:
                self._ensure()
            except ConnectionLost:
                time.sleep(0.5)
                continue
            break
        for waiting in everyone:
            waiting.tell(None)

    def _on_notify(self, channel: str, name: str) -> None:
        with self._lock:
            told = list(self._waiting.get(name, ()))
        for waiting in told:
            waiting.tell(name)


_of_processes: dict[tuple[int, str], Listener] = {}


def waiting_of(url: str, parameters: dict[str, Any]) -> Listener:
    """The process's; a forked one has its own."""
    return _of_processes.setdefault((os.getpid(), url), Listener(parameters))
