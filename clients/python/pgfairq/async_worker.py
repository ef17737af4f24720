"""A worker whose handlers are coroutines of one event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import deque
from typing import Any, Coroutine, Deque, List, Optional, Sequence, Set, Union

import psycopg

from . import journal
from .async_context import AsyncContext
from .async_queue import AsyncQueue
from .async_session import AsyncSession
from .async_settler import AsyncSettler
from .blocked import LoopWatch
from .connections import AsyncGiven, AsyncSource
from .delivery import Delivery, Settlement, result_text
from .errors import Exceptions
from .handlers import Registered
from .hooks import Ending, Functions, call_async, call_one
from .journal import log
from .pace import STALE, Backoff
from .place import AsyncGuide, Node, NoWatch, Watch
from .report import first_line
from .run_base import RunBase, not_done
from .session_base import SessionOver
from .values import Duration
from .worker_base import Options, WorkerBase


TURN = 0.005


class AsyncWorker(WorkerBase[AsyncSource]):
    """Runs the coroutines of its queues, up to `concurrency` at a time, in one event loop.

    The arguments are those of Worker. A handler that computes for long holds up the heartbeats of
    all: give it a thread (asyncio.to_thread), or use Worker.
    """

    def __init__(self, queues: Union[AsyncQueue, Sequence[AsyncQueue]], *, concurrency: int = 100, ttl: Duration = 30,
                 finish: Duration = 30, prefetch: int = 100, direct: Optional[AsyncGiven] = None, bound: bool = True,
                 name: Optional[str] = None, give_up_on: Exceptions = ()) -> None:
        super().__init__(queues, AsyncQueue, Options(concurrency, ttl, finish, prefetch, bound, name, give_up_on))
        self.direct = self.source if direct is None else AsyncSource(direct)
        self._run: Optional[AsyncRun] = None
        self._orders: List[bool] = []   # given before there is a run
        self._lock = threading.Lock()

    def stop(self, now: bool = False) -> None:
        """Claim no more, finish, return from run(). now: without waiting for handlers. From any thread."""
        with self._lock:
            if self._run is None:
                self._orders.append(now)
            else:
                self._run.loop.call_soon_threadsafe(self._run.stop, now)

    async def run(self, drain: bool = False) -> None:
        """Work until stop(), SIGTERM or SIGINT; a second signal is stop(now=True).

        drain: until nothing can be claimed and all is done.
        """
        run = AsyncRun(self, drain)
        with self._lock:
            self._run = run
            orders, self._orders = self._orders, []
        for now in orders:
            run.stop(now)
        numbers: tuple[signal.Signals, ...] = ()
        if threading.current_thread() is threading.main_thread():
            numbers = tuple(number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) is not signal.SIG_IGN)
        for number in numbers:
            run.loop.add_signal_handler(number, run.signalled)
        serving = asyncio.create_task(run.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            run.stop(True)
            await serving
            raise
        finally:
            with self._lock:
                self._run = None
            for number in numbers:
                run.loop.remove_signal_handler(number)


class AsyncStation:
    """Where a run works: the database of its queues, or a node; with the session there, and who settles what is of it."""

    session: AsyncSession

    def __init__(self, run: AsyncRun, node: Optional[Node]) -> None:
        self.node = node
        self.source = run.worker.source if node is None else AsyncSource(node.conninfo)
        self.watch = run.home_watch if node is None else run.watch
        self.settler = run.settler

    @classmethod
    async def open(cls, run: AsyncRun, node: Optional[Node]) -> AsyncStation:
        self = cls(run, node)
        direct = run.worker.direct if node is None else self.source
        self.session = await AsyncSession.open(direct, run.name, run.options.ttl, run.options.bound, self.watch)
        self.session.station = self
        if node is not None:
            self.settler = AsyncSettler(self.source, run, self.watch)
        return self

    async def close(self, seconds: float) -> None:
        """Settle what is to be settled, give back the rest."""
        await self.settler.close(seconds)
        await self.session.close()
        if self.node is not None:
            await self.source.close()


class AsyncRun(RunBase[AsyncContext]):
    """One run of a worker: the task of the session, those of handlers, and the settler. At a proxy of a cluster
    the session is one after the other at its nodes, and what was left has a task, until its handlers have ended."""

    def __init__(self, worker: AsyncWorker, drain: bool) -> None:
        super().__init__(worker, drain)
        self.loop = asyncio.get_running_loop()
        self.ready: Deque[Delivery] = deque()
        self.tasks: Set["asyncio.Task[None]"] = set()
        self.room = asyncio.Event()     # something has changed that the session's task should look at
        self.session: Optional[AsyncSession] = None
        self.signals = 0
        self.telling: Set["asyncio.Task[None]"] = set()
        self.watch, self.home_watch = Watch(), NoWatch()
        self.guide = AsyncGuide(worker.source, self.attendance, self.watch)
        self.leaving: Set["asyncio.Task[None]"] = set()

    # -- the end, asked for

    def signalled(self) -> None:
        self.signals += 1
        self.stop(self.signals > 1)

    def stop(self, now: bool = False) -> None:
        first = not self.stopping
        self.stopping = True
        self.aborting = self.aborting or now
        self.room.set()
        if first:
            journal.stopping(self.pace.running, self.options.finish)
            self._keep(self._interrupt())

    async def _interrupt(self) -> None:
        """A claim that waits is interrupted; again, if it had not begun."""
        while self.session is not None:
            await self.session.interrupt()
            await asyncio.sleep(0.2)

    def _keep(self, coroutine: Any) -> "asyncio.Task[None]":
        task: "asyncio.Task[None]" = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # -- the session's task

    async def serve(self) -> None:
        self.worker.look_at_types()
        for function in self.worker.own_functions("start"):
            await call_one(function, self.worker)
        error: Optional[BaseException] = None
        loop_watch = LoopWatch(self)
        try:
            await self._serve()
        except BaseException as given_up:
            error = given_up
            raise
        finally:
            loop_watch.close()
            if self.telling:
                await asyncio.wait(set(self.telling), timeout=1 if self.aborting else self.options.finish)
            journal.stopped(self.name, error)
            await call_async(self.worker.own_functions("stop"), self.worker)

    async def _serve(self) -> None:
        backoff = Backoff()
        node: Optional[Node] = None     # to go to
        self.settler = AsyncSettler(self.worker.source, self, self.home_watch)
        try:
            while not self.stopping:
                try:
                    for one in self.worker.queues:
                        try:
                            await one.ensure()
                        except psycopg.Error as error:
                            self.cannot_create(one.name, error)
                    node = node or await self.guide.ask(None)
                    node = await self._one_session(node, backoff)
                except Exception as error:
                    pause = backoff.next()
                    self.worker.trouble(error, pause, node)
                    if node is not None:
                        self.guide.unreached(node)
                        node = None
                    await self._pause(pause)
        finally:
            if self.leaving:
                await asyncio.wait(set(self.leaving))
            await self.settler.close(1)
            await self.worker.source.close()

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.room.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    async def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopping and time.monotonic() < end:
            self.room.clear()
            await self._wait(max(0.0, end - time.monotonic()))

    async def _one_session(self, node: Optional[Node], backoff: Backoff) -> Optional[Node]:
        """Work there until the worker stops, or until it is another node's turn, which is returned."""
        station = await AsyncStation.open(self, node)
        session = self.session = station.session
        self.has_session(session.connection.info)
        why = "the session of its worker is over"
        following: Optional[Node] = None
        try:
            following = await self._claim(station, backoff)
            await session.release(self._take_back())
            if following is None:
                await self._let_end(station)
        except Exception as error:
            why = f"{why}: {first_line(error)}"
            following = None
            raise
        finally:
            self.session = None
            if following is not None:
                self._leave(self._let_end(station))
            else:
                session.over = session.over or not self.stopping
                self._take_back()
                self._lose(self._contexts(session), why)
                if node is None:
                    await session.close()
                else:   # what was settled may be told when the node is back
                    self._leave(station.close(1 if self.aborting else self.options.ttl))
        return following

    def _leave(self, end: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(end)
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)

    async def _claim(self, station: AsyncStation, backoff: Backoff) -> Optional[Node]:
        session = station.session
        while not self.stopping:
            self.room.clear()
            due = session.beats.due_in()
            if not due:
                await self._beat(session)
            if not self.guide.due_in():
                following = await self._following(station)
                if following is not None:
                    return following
            due = min(due, self.guide.due_in(), self.attendance.due_in())
            await self._give_back_stale(session)
            wanted, idle_handler = self.pace.claim()
            all_told = self.pace.idle   # before the claim: what is given back while it runs may be missing in its answer
            asked = self.attendance.next(station.settler.closed()) if wanted else []
            if not asked:
                await self._wait(min(due, STALE / 2) if self.pace.waiting else due)
                continue
            alone = self.attendance.in_doubt(asked)
            wait = due if idle_handler and not self.drain and not alone else 0
            claimed = await session.claim(self.attendance, asked, wanted, wait)
            backoff.reset()
            if claimed:
                self.pace.waiting += len(claimed)
                self.ready += claimed
                self._start()
            if alone or claimed is None:    # of the other queues this says nothing
                continue
            self.guide.found(station.node, len(claimed))
            if self.is_drained(claimed, all_told):
                following = await self._following(station)
                if following is not None and following.ready:
                    return following
                self.stopping = True
            elif not claimed and (self.drain or not idle_handler):
                await self._wait(due)
        return None

    async def _following(self, station: AsyncStation) -> Optional[Node]:
        """Another node, if the worker is to go there."""
        try:
            node = await self.guide.ask(station.session.id)
        except (psycopg.Error, OSError) as error:   # whoever stays at a node needs no proxy
            log.warning("cannot ask for a node: %s; staying", first_line(error))
            self.guide.postpone()
            return None
        return None if node is None or station.node is None or node.number == station.node.number else node

    async def _beat(self, session: AsyncSession) -> None:
        contexts = self._contexts(session)
        lost = await session.beat([context._delivery for context in contexts])
        self._lose([context for context in contexts if context._delivery in lost],
                   "the lease was lost: the task was cancelled, or its time has run out")

    def _contexts(self, session: AsyncSession) -> List[AsyncContext]:
        return [context for context in self.active.values() if context._delivery.session is session]

    def _lose(self, contexts: List[AsyncContext], why: str) -> None:
        for context in contexts:
            if self.active.get(context.receipt) is context:     # else it has ended meanwhile
                context._lose(why)

    def _take_back(self, claimed_before: float = float("inf")) -> List[Delivery]:
        """What has not begun, and was claimed before that time."""
        stale = [delivery for delivery in self.ready if delivery.claimed < claimed_before]
        self.ready = deque(delivery for delivery in self.ready if delivery.claimed >= claimed_before)
        self.pace.waiting -= len(stale)
        return stale

    async def _give_back_stale(self, session: AsyncSession) -> None:
        before = time.monotonic() - STALE
        stale = self._take_back(before) if self.ready and self.ready[0].claimed < before else []    # they are in the order of claims
        if stale:
            self.pace.gave_back()
            kept = await session.release(stale)
            self.pace.waiting += len(kept)
            for delivery in kept:
                delivery.claimed = time.monotonic()
                self.ready.append(delivery)

    async def _let_end(self, station: AsyncStation) -> None:
        """Let handlers end, for their time once the worker stops. The end of the session releases the rest."""
        session = station.session
        why = "its worker ends"
        try:
            while self._contexts(session) and not self.time_is_over():
                if not session.beats.due_in():
                    await self._beat(session)
                await asyncio.sleep(0.05)
        except (psycopg.Error, SessionOver, OSError) as error:
            session.over = True
            why = f"the session of its worker is over: {first_line(error)}"
        rest = self._contexts(session)
        if rest:
            log.warning("%d handlers have not finished in time; their tasks are given back", len(rest))
            self._lose(rest, why)
            await asyncio.wait([context._task for context in rest if context._task is not None], timeout=1)
        await station.close(1 if self.aborting else 10)

    # -- handlers

    def _start(self) -> None:
        while self.ready and self.pace.running < self.options.concurrency:
            context = self._begin()
            context._task = self._keep(self._work(context))

    def _begin(self) -> AsyncContext:
        delivery = self.ready.popleft()
        self.pace.begin()
        context = self.active[delivery.receipt] = AsyncContext(delivery, delivery.session.station.source, self.name)
        return context

    async def _work(self, context: AsyncContext) -> None:
        """Handle the task, and others after it for a moment: a coroutine of its own for each would take longer
        than many a handler. Then the event loop has its turn, for heartbeats."""
        until = time.monotonic() + TURN
        task = context._task
        await self._work_on(context)
        while self.ready and self.pace.running < self.options.concurrency and not context.cancelled and time.monotonic() < until:
            context = self._begin()
            context._task = task
            await self._work_on(context)
        self._start()

    async def _work_on(self, context: AsyncContext) -> None:
        delivery = context._delivery
        began = time.monotonic()
        settlement = None
        try:
            settlement = await self._handle(context, began)
        finally:
            del self.active[delivery.receipt]
            self.pace.end(time.monotonic() - began)
            if settlement is not None:
                self.pace.unsettled += 1
                delivery.session.station.settler.put(settlement)
            if not self.room.is_set() and (self.stopping or self.drain or self.pace.may_claim()):
                self.room.set()

    async def _handle(self, context: AsyncContext, began: float) -> Optional[Settlement]:
        """Run the handler. What is to be told to the server; None if its transaction has done so, or the lease is lost."""
        delivery, calls = context._delivery, self.calls_of(context)
        handler: Optional[Registered] = None
        used = False
        try:
            handler = self.handler_of(context)
            payload = handler.payload(delivery.payload())
            for function in calls.before:
                await call_one(function, context)
            if handler.timeout is None:
                result = await handler.function(payload, context)
            else:
                result = await self._within(context, handler, payload, handler.timeout)
            text = result_text(handler.result(result))
            used = context._in_transaction
            if used:
                await context._commit(text)
            ending = Ending("done", time.monotonic() - began, result)
            settlement = None if used else Settlement("ack", delivery, text, context=context, ending=ending)
        except BaseException as error:
            used = used or context._in_transaction
            await context._rollback(error)
            settlement, ending = not_done(context, error, handler, self.options.give_up_on, used, time.monotonic() - began)
        functions = self.ended(context, calls, ending, settlement)
        if functions:
            await call_async(functions, context, ending)
        return settlement

    async def _within(self, context: AsyncContext, handler: Registered, payload: Any, timeout: float) -> Any:
        """The handler's result; it is cancelled at its timeout."""
        alarm = self.loop.call_later(timeout, context._time_out, timeout)
        try:
            result = await handler.function(payload, context)
        finally:
            alarm.cancel()
        context._check_time()
        return result

    def tell_later(self, functions: Functions, context: Any, ending: Any) -> None:
        if functions:
            task = asyncio.create_task(call_async(functions, context, ending))
            self.telling.add(task)
            task.add_done_callback(self.telling.discard)

    def settled(self, count: int) -> None:
        self.pace.unsettled -= count
        if self.drain or self.pace.may_claim():
            self.room.set()

    def put_aside(self, count: int) -> None:
        self.pace.aside += count
