"""To wait for descriptors, and one that a thread makes readable, to wake who waits."""

from __future__ import annotations

import os
import selectors
import threading
from typing import Any, Optional, Sequence


def readable(sources: Sequence[Any], seconds: Optional[float] = None) -> list[Any]:
    """Those that can be read, once there is one or the time is over; also beyond 1,023."""
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]


class Wake:
    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._lock = threading.Lock()
        self._is_set = False
        self._closed = False

    def fileno(self) -> int:
        return self._reader

    def set(self) -> None:
        with self._lock:
            if not self._is_set and not self._closed:
                self._is_set = True
                os.write(self._writer, b"w")

    def clear(self) -> None:
        with self._lock:
            if self._is_set and not self._closed:
                self._is_set = False
                os.read(self._reader, 1)

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)
