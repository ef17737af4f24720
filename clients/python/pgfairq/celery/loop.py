"""The hub of kombu, made to hear calls of other threads.

Celery settles messages with hub.call_soon(). What is called so runs at the hub's next turn, and a turn
lasts until a socket is readable or a timer is due: up to some seconds. Where a task ends in a thread
of the pool, nothing wakes the hub; and before kombu 5.3 the call may be lost, for the set that
it is put into is not for several threads.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Callable

from vine import Thenable, promise


class Loop:
    """A hub, for as long as a transport is registered with it."""

    def __init__(self, hub: Any, wake: Callable[[], None]) -> None:
        self.hub = hub
        self._wake = wake
        self._thread = threading.get_ident()
        self._from_threads: deque[Any] = deque()
        self._stopped = False
        self._call_soon = hub.call_soon
        hub.call_soon = self.call_soon
        hub.on_close.add(self._on_close)

    def call_soon(self, callback: Any, *args: Any) -> Any:
        if not isinstance(callback, Thenable):
            callback = promise(callback, args)
        if self._stopped:  # a shutdown that waits for tasks: there is no next turn
            callback()
        elif threading.get_ident() == self._thread:
            self._call_soon(callback)
            self._wake()  # this turn may be about to wait
        else:
            self._from_threads.append(callback)
            self._wake()
        return callback

    def hear(self) -> None:
        """By the hub's thread: what the others want called, called at the next turn."""
        while self._from_threads:
            self._call_soon(self._from_threads.popleft())

    def _on_close(self, hub: Any) -> None:
        self._stopped = True
        self.hear()  # the hub calls what is left before it closes

    def release(self) -> None:
        self.hear()
        if self.hub.__dict__.get("call_soon") == self.call_soon:
            del self.hub.call_soon
        self.hub.on_close.discard(self._on_close)
