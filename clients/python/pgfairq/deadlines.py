"""The timeouts of handlers in threads: one thread tells those whose time is over."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional


class Deadlines:
    """Its thread begins with the first handler that has a timeout."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: List[List[Any]] = []     # [when, number, context, seconds]; a context that has ended is None
        self._numbers = itertools.count()
        self._thread: Optional[threading.Thread] = None
        self._closed = False

    @contextmanager
    def within(self, context: Any, seconds: float) -> Iterator[None]:
        entry = [time.monotonic() + seconds, next(self._numbers), context, seconds]
        with self._changed:
            heapq.heappush(self._due, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="pgfairq timeouts", daemon=True)
                self._thread.start()
            elif self._due[0] is entry:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                entry[2] = None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _serve(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                while self._due and (self._due[0][0] <= now or self._due[0][2] is None):
                    _, _, context, seconds = heapq.heappop(self._due)
                    if context is not None:
                        context._time_out(seconds)
                self._changed.wait(self._due[0][0] - now if self._due else None)
