"""Which of its queues a worker attends to: one that is refused or locked is put off, so that it holds up no others.

It is kept for claims, and apart from them for settlements. One thread changes it; others may look.
"""

from __future__ import annotations

import logging
import time
from typing import Collection, Dict, List, NamedTuple, Optional, Sequence

import psycopg

from .pace import Backoff, is_hopeless
from .report import first_line

log = logging.getLogger("pgfairq")

LONGEST = 60.0  # seconds that a queue is put off
SOON = 15.0     # likewise, where it may be well by itself: a lock, or no room


class Absence(NamedTuple):
    until: float            # then it is in doubt, and asked alone
    backoff: Backoff
    error: Optional[psycopg.Error]      # None: it was asked with others


class Attendance:
    def __init__(self, queues: Sequence[str], what: str) -> None:
        self.queues = list(queues)
        self.what = what            # what a queue that is put off cannot be, for the log
        self._absent: Dict[str, Absence] = {}

    def next(self, but: Collection[str] = ()) -> List[str]:
        """Which queues to ask together now: one alone that is in doubt, or all that are well; but not these."""
        now = time.monotonic()
        asked = [queue for queue in self.queues if queue not in but]
        for queue in asked:
            if queue in self._absent and self._absent[queue].until <= now:
                return [queue]
        return [queue for queue in asked if queue not in self._absent]

    def present(self) -> List[str]:
        return [queue for queue in self.queues if not self.is_off(queue)]

    def absent(self) -> List[str]:
        """Those that are put off or in doubt."""
        return list(self._absent)

    def is_off(self, queue: str) -> bool:
        return queue in self._absent and self._absent[queue].until > time.monotonic()

    def in_doubt(self, asked: Sequence[str]) -> bool:
        """Whether it is one that next() has alone as it was refused."""
        return asked[0] in self._absent

    def until(self, queue: str) -> float:
        """When to ask it again."""
        return self._absent[queue].until

    def due_in(self) -> float:
        """Seconds until one that is put off is in doubt again."""
        now = time.monotonic()
        later = (absence.until - now for absence in self._absent.values() if absence.until > now)
        return min(later, default=float("inf"))

    def refused(self, asked: Sequence[str], error: psycopg.Error) -> None:
        """Of several that were asked together it is not known which is the cause: each is asked alone. Raises the
        error if none is left, and a later attempt would fare no better."""
        if len(asked) > 1:
            for queue in asked:
                self._absent[queue] = Absence(0.0, Backoff(1.0, LONGEST), None)
            return
        self.put_off(asked[0], error)
        if len(self._absent) == len(self.queues) and not self.awaited():
            raise error

    def put_off(self, queue: str, error: psycopg.Error) -> None:
        backoff = self._absent[queue].backoff if queue in self._absent else Backoff(1.0, LONGEST)
        pause = min(backoff.next(), LONGEST if is_hopeless(error) else SOON)
        self._absent[queue] = Absence(time.monotonic() + pause, backoff, error)
        log.warning("queue %r cannot be %s: %s; again in %.1f s", queue, self.what, first_line(error), pause,
                    extra={"queue": queue})

    def answered(self, asked: Collection[str]) -> None:
        """They are well."""
        for queue in asked:
            self._absent.pop(queue, None)

    def awaited(self) -> bool:
        """Whether any is put off that will be well by itself."""
        return any(absence.error is None or not is_hopeless(absence.error) for absence in list(self._absent.values()))
