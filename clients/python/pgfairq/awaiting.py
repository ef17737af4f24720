"""Who awaits the ends of tasks: in a process one connection looks for all of them, however many there are.

Each of its rounds is one statement: it waits for one of the tasks, the next in turn, for a moment, and looks at the others.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from typing import Any, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar

import psycopg

from . import statements
from .connections import AsyncSource, Source, run, run_async
from .models import Outcome
from .pace import is_of_connection

SHORTEST = 0.02     # seconds of a round
LONGER = 10         # a round is so many times as long as its looks take, so that these are a small part of the server's time

S = TypeVar("S")


class Wait:
    """For the end of one task."""

    def __init__(self, queue: str, task: int, done: Any) -> None:
        self.queue = queue
        self.task = task
        self.done = done        # an event to set
        self.began = time.monotonic()
        self.is_known = False   # what the task's state is
        self.keeps: Optional[bool] = None       # whether its queue has keep_done; if not, only who waits is told of an end
        self.outcome: Optional[Outcome] = None
        self.error: Optional[BaseException] = None

    def note(self, outcome: Optional[Outcome], keeps: bool) -> None:
        self.is_known, self.outcome, self.keeps = True, outcome, keeps
        if self.has_ended or not keeps:
            self.done.set()

    @property
    def has_ended(self) -> bool:
        return self.outcome is None or self.outcome.ended

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()

    def rest(self, timeout: float) -> Tuple[bool, float]:
        """Whether there is an answer, and if not, for how long to ask on a connection of its own."""
        if self.error is not None:
            raise self.error
        if self.keeps is False and not self.has_ended:
            return False, max(0.0, self.began + timeout - time.monotonic())
        return self.is_known, 0.0


class AwaitingBase(Generic[S]):
    def __init__(self) -> None:
        self.waits: List[Wait] = []
        self.length = SHORTEST
        self.turn = 0

    def in_turn(self) -> List[Wait]:
        """Those that wait, with another one in front each time."""
        some = [wait for wait in self.waits if not wait.done.is_set()]
        if not some:
            return []
        self.turn = (self.turn + 1) % len(some)
        return some[self.turn:] + some[:self.turn]

    def statement(self, some: Sequence[Wait]) -> statements.Statement[List[statements.Seen]]:
        return statements.outcomes([(wait.queue, wait.task, wait.keeps is True) for wait in some], self.length)

    def note(self, some: Sequence[Wait], found: List[statements.Seen]) -> None:
        self.length = max(SHORTEST, LONGER * (found[-1].at - found[0].at))
        for wait, seen in zip(some, found):
            wait.note(seen.outcome, seen.keeps)

    def fail(self, error: BaseException) -> None:
        for wait in list(self.waits):
            wait.fail(error)


class Awaiting(AwaitingBase[Source]):
    """Its thread is there while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    def wait(self, source: Source, queue: str, task: int, timeout: float) -> Optional[Outcome]:
        """How the task has ended, or its state when the time is over."""
        wait = Wait(queue, task, threading.Event())
        with self._lock:
            self.waits.append(wait)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, args=(source,), name="pgfairq results", daemon=True)
                self._thread.start()
        try:
            wait.done.wait(timeout)
        finally:
            with self._lock:
                self.waits.remove(wait)
        has_answer, rest = wait.rest(timeout)
        return wait.outcome if has_answer else source.run(statements.outcome(queue, task, rest))

    def _serve(self, source: Source) -> None:
        connection: Any = None
        try:
            while True:
                with self._lock:
                    some = self.in_turn()
                    if not some:
                        self._thread = None
                        return
                try:
                    connection = connection or source.acquire()
                    self.note(some, run(connection, self.statement(some)))
                except psycopg.Error as error:
                    if connection is None:
                        raise
                    if connection.closed:
                        source.release(connection)
                        connection = None   # where there is no new one all are told
                    elif is_of_connection(error, False):
                        raise               # another one would not do either, as during recovery
                    else:
                        self._each(connection, some)
        except BaseException as error:
            with self._lock:
                self._thread = None
                self.fail(error)
        finally:
            if connection is not None:
                source.release(connection)

    def _each(self, connection: Any, some: Sequence[Wait]) -> None:
        """The server refuses one of them."""
        for wait in some:
            try:
                wait.note(run(connection, statements.outcome(wait.queue, wait.task, 0)), True)
            except psycopg.Error as error:
                wait.fail(error)
        time.sleep(self.length)


class AsyncAwaiting(AwaitingBase[AsyncSource]):
    """Its asyncio.Task is there while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self._task: Optional["asyncio.Task[None]"] = None

    async def wait(self, source: AsyncSource, queue: str, task: int, timeout: float) -> Optional[Outcome]:
        wait = Wait(queue, task, asyncio.Event())
        self.waits.append(wait)
        if self._task is None:
            self._task = asyncio.create_task(self._serve(source))
        try:
            await asyncio.wait_for(wait.done.wait(), timeout)
        except asyncio.TimeoutError:
            pass
        finally:
            self.waits.remove(wait)
        has_answer, rest = wait.rest(timeout)
        return wait.outcome if has_answer else await source.run(statements.outcome(queue, task, rest))

    async def _serve(self, source: AsyncSource) -> None:
        connection: Any = None
        try:
            while True:
                some = self.in_turn()
                if not some:
                    return
                try:
                    connection = connection or await source.acquire()
                    self.note(some, await run_async(connection, self.statement(some)))
                except psycopg.Error as error:
                    if connection is None:
                        raise
                    if connection.closed:
                        await source.release(connection)
                        connection = None   # where there is no new one all are told
                    elif is_of_connection(error, False):
                        raise               # another one would not do either, as during recovery
                    else:
                        await self._each(connection, some)
        except Exception as error:
            self.fail(error)
        finally:
            self._task = None
            if connection is not None:
                await source.release(connection)

    async def _each(self, connection: Any, some: Sequence[Wait]) -> None:
        for wait in some:
            try:
                wait.note(await run_async(connection, statements.outcome(wait.queue, wait.task, 0)), True)
            except psycopg.Error as error:
                wait.fail(error)
        await asyncio.sleep(self.length)


_of_processes: Dict[Tuple[int, Any], Awaiting] = {}
_of_loops: "weakref.WeakKeyDictionary[Any, Dict[Any, AsyncAwaiting]]" = weakref.WeakKeyDictionary()


def key_of(given: Any) -> Any:
    """All queues of a connection string, a pool or a function share one."""
    return given if isinstance(given, str) else id(given)


def awaiting_of(source: Source) -> Awaiting:
    """The process's; a forked one has its own."""
    return _of_processes.setdefault((os.getpid(), key_of(source.given)), Awaiting())


def async_awaiting_of(source: AsyncSource) -> AsyncAwaiting:
    """The event loop's."""
    return _of_loops.setdefault(asyncio.get_running_loop(), {}).setdefault(key_of(source.given), AsyncAwaiting())
