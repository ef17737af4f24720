"""Decisions of a worker that need no connection: how many tasks to claim, how long to wait, what an error means."""

from __future__ import annotations

import random
from typing import Optional, Tuple

import psycopg

# Tasks are claimed ahead of their turn only as far as handlers will begin them within this time.
AHEAD = 0.02
# One that has not begun after this is given back: a handler takes longer than those before.
STALE = 0.25
# What handlers are done with and the server has not been told. Beyond it nothing is claimed.
UNSETTLED = 5000
LONGEST_BEAT = 5.0
# A statement of many tasks waits so long for a lock; one of a queue or a task that is in doubt only so long.
LOCKED, LOCKED_ALONE = 1.0, 0.1

# No later attempt helps: no such queue, role, database or function; no privilege.
HOPELESS = ("42", "28", "3D", "3F", "22", "0A")


class Pace:
    """How many tasks a worker has, and how many more it may claim."""

    def __init__(self, concurrency: int, prefetch: int) -> None:
        self.concurrency = concurrency
        self.prefetch = prefetch
        self.running = 0    # in the hands of handlers
        self.waiting = 0    # claimed, and not begun
        self.unsettled = 0  # done, and the server has not been told
        self.aside = 0      # of these: told later, as what is locked
        self.mean: Optional[float] = None  # seconds that a handler takes

    def begin(self) -> None:
        self.waiting -= 1
        self.running += 1

    def end(self, seconds: float) -> None:
        self.running -= 1
        self.mean = seconds if self.mean is None else self.mean + (seconds - self.mean) / 8

    def gave_back(self) -> None:
        """Handlers are slower than they seemed: claim nothing ahead until they are known to be fast again."""
        self.mean = max(self.mean or 0.0, 2 * AHEAD * self.concurrency)

    def ahead(self) -> int:
        if self.mean is None:
            return 0
        return min(self.prefetch, int(AHEAD * self.concurrency / max(self.mean, 1e-6)))

    def claim(self) -> Tuple[int, bool]:
        """How many to claim now, and whether a handler is free, so that it is worth waiting for a task."""
        capacity = self.concurrency + self.ahead()
        wanted = capacity - self.running - self.waiting
        if wanted <= 0 or self.unsettled - self.aside > UNSETTLED or (self.waiting and 2 * wanted < capacity):
            return 0, False
        return wanted, self.running + self.waiting < self.concurrency

    def may_claim(self) -> bool:
        """Whether claim() has a number. Asked after each task, so most are told without computing it."""
        if self.waiting and 2 * (self.running + self.waiting) > self.concurrency + self.prefetch:
            return False
        return self.claim()[0] > 0

    @property
    def idle(self) -> bool:
        return not (self.running or self.waiting or self.unsettled)


class Backoff:
    """Ever longer pauses, partly by chance, so that workers do not all come back at the same moment."""

    def __init__(self, first: float = 0.1, longest: float = 15.0) -> None:
        self.first = first
        self.longest = longest
        self.failures = 0

    def next(self) -> float:
        pause: float = min(self.longest, self.first * 2.0 ** min(self.failures, 20))
        self.failures += 1
        return pause * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self.failures = 0


def beat_interval(ttl: float) -> float:
    """Three heartbeats in a row may fail to come before a session is over."""
    return min(ttl / 4, LONGEST_BEAT)


def is_hopeless(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(HOPELESS)


CANCELLED = "57014"
NO_ROOM = "53400"   # a limit of the server's is used up: of leases, of queues, of sessions


def is_interrupted(error: psycopg.Error) -> bool:
    """A statement was cancelled, or has waited too long for a lock. The connection is as good as before."""
    return error.sqlstate in (CANCELLED, "55P03")


def is_passing(error: psycopg.Error) -> bool:
    """The same may be asked again: it waited for a lock, was a victim of a deadlock, or lacked room."""
    return is_interrupted(error) or (error.sqlstate or "").startswith(("40", "53", "58"))


def is_answer(error: psycopg.Error, closed: bool) -> bool:
    """The server says it of what was asked for; else the connection, or the server, is to be tried again as a whole."""
    return not closed and (is_passing(error) or not is_of_connection(error, closed))


def is_of_connection(error: BaseException, closed: bool) -> bool:
    """Is it the connection, or the server, rather than what was asked for?"""
    if closed:
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate.startswith(("08", "53", "57", "58", "25006")) and not is_interrupted(error)
