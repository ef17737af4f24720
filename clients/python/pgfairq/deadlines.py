"""The timeouts of handlers in threads: one thread tells those whose time is over."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional, Tuple


class Deadlines:
    """Of the handlers that run. Its thread begins with the first one that has a timeout."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: Dict[int, Tuple[float, Any, float]] = {}     # when, context, seconds
        self._next = math.inf       # when the thread looks again
        self._thread: Optional[threading.Thread] = None
        self._closed = False

    @contextmanager
    def within(self, context: Any, seconds: float) -> Iterator[None]:
        due = time.monotonic() + seconds
        with self._changed:
            self._due[id(context)] = due, context, seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="pgfairq timeouts", daemon=True)
                self._thread.start()
            elif due < self._next:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(id(context), None)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _serve(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                for key in [key for key, (due, _, _) in self._due.items() if due <= now]:
                    _, context, seconds = self._due.pop(key)
                    context._time_out(seconds)
                self._next = min((due for due, _, _ in self._due.values()), default=math.inf)
                self._changed.wait(min(self._next - now, threading.TIMEOUT_MAX))
