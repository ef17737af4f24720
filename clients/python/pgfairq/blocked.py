"""Says what blocks an event loop, while it does: the loop itself could say it only afterwards."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from typing import Any, Optional

from . import journal
from .delivery import Delivery

FRAMES = 20


class LoopWatch:
    """A thread that asks the loop for an answer, and looks what it does when there is none, and a heartbeat is late."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.thread_of_loop = threading.get_ident()
        self._answered = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="pgfairq loop watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _serve(self) -> None:
        while not self._closed.is_set():
            session = self.run.session
            period = 0.25 if session is None else session.beats.interval / 4
            self._answered.clear()
            try:
                self.run.loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:    # it is closed
                return
            told = False
            while not self._answered.wait(period) and not self._closed.is_set():
                if session is not None and not told and session.beats.late_by() > session.beats.interval / 2:
                    journal.blocked(time.monotonic() - session.beats.last, self.run.options.ttl, self._running(), self._stack())
                    told = True
            self._closed.wait(period)

    def _running(self) -> Optional[Delivery]:
        """The task whose handler the loop is in."""
        current = asyncio.current_task(self.run.loop)
        for context in list(self.run.active.values()):
            if current is not None and context._task is current:
                found: Delivery = context._delivery
                return found
        return None

    def _stack(self) -> str:
        """From where the handler was called."""
        frame = sys._current_frames().get(self.thread_of_loop)
        frames = traceback.extract_stack(frame)
        caller = os.path.join(os.path.dirname(__file__), "async_worker.py")
        last = max((n for n, one in enumerate(frames) if one.filename == caller), default=-1)
        return "".join(traceback.format_list((frames[last + 1:] or frames)[-FRAMES:])).rstrip()
