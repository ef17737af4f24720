"""Which of a worker's queues a claim is made of: one that is refused, or locked, hurts no others.

The server refuses a claim of several queues for any one of them. Then each is claimed alone, which
says which one it was. That one is put off, and the others go on with one claim.
"""

from __future__ import annotations

import logging
import time
from typing import Sequence

from ..pace import Backoff
from .errors import Refused

logger = logging.getLogger(__name__)

# Seconds: how long a queue is put off at first, and at most.
FIRST, LONGEST = 1.0, 60.0


class Apart:
    """A queue that a claim may have been refused for: it is claimed alone, from a time on."""

    def __init__(self) -> None:
        self.backoff = Backoff(FIRST, LONGEST)
        self.until = 0.0
        self.well = False   # alone; it is forgotten when it was so together with the others


class Attendance:
    def __init__(self) -> None:
        self._apart: dict[str, Apart] = {}

    def ask(self, queues: Sequence[str]) -> tuple[list[str], float]:
        """What to claim from, in this order, and how long that may wait. None: all are put off."""
        now = time.monotonic()
        doubtful = {queue: self._apart[queue].until for queue in queues
                    if queue in self._apart and not self._apart[queue].well}
        for queue, until in doubtful.items():
            if until <= now:
                return [queue], 0.0
        well = [queue for queue in queues if queue not in doubtful]
        return well, max(0.1, min(doubtful.values(), default=float("inf")) - now)

    def answered(self, queues: Sequence[str]) -> None:
        for queue in queues:
            apart = self._apart.get(queue)
            if apart is not None and not apart.well:
                apart.well = True
            else:
                self._apart.pop(queue, None)

    def refused(self, queues: Sequence[str], error: Refused) -> None:
        """One of several is to blame: each is claimed alone. If that has not told, all pause."""
        for queue in queues:
            if len(queues) > 1 and queue not in self._apart:
                self._apart[queue] = Apart()
            else:
                self._put_off(queue, error)

    def _put_off(self, queue: str, error: Refused) -> None:
        apart = self._apart.setdefault(queue, Apart())
        pause = apart.backoff.next()
        apart.until, apart.well = time.monotonic() + pause, False
        logger.error("queue %s is put off for %.1f s: %s", queue, pause, error)
