"""A worker whose handlers run in threads."""

from __future__ import annotations

import queue
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import psycopg

from . import journal
from .connections import Given, Source
from .context import Context
from .deadlines import Deadlines
from .delivery import Delivery, Settlement, result_text
from .errors import Exceptions
from .handlers import Registered
from .hooks import Ending, Functions, Teller, call
from .journal import log
from .pace import STALE, Backoff
from .place import Guide, Node, NoWatch, Watch
from .queue import Queue
from .report import first_line
from .run_base import RunBase, not_done
from .session import Session
from .session_base import SessionOver
from .settler import Settler
from .supervisor import supervise
from .values import Duration
from .worker_base import Options, WorkerBase

STOP, ABORT, ENDED = "stop", "abort", "ended"


class Worker(WorkerBase[Source]):
    """Runs the handlers of its queues, up to `concurrency` at a time.

    queues: in the order in which they are served: a later one is served when those before have nothing ready.
    processes: so many of these workers, each in a process of its own.
    ttl: a worker that hangs for so long has lost its tasks. finish: how long handlers may go on after SIGTERM.
    prefetch: how many tasks may be claimed beyond those that run, where handlers take milliseconds.
    direct: where `queues` connect through a pooler in transaction mode, a connection that does not, for the session.
    bound: whether the session ends with its connection; False where that is through such a pooler.
    give_up_on: exceptions of any handler after which its task is dead at once, beside those of @queue.task().
    """

    def __init__(self, queues: Union[Queue, Sequence[Queue]], *, concurrency: int = 8, processes: int = 1, ttl: Duration = 30,
                 finish: Duration = 30, prefetch: int = 100, direct: Optional[Given] = None, bound: bool = True,
                 name: Optional[str] = None, give_up_on: Exceptions = ()) -> None:
        super().__init__(queues, Queue, Options(concurrency, ttl, finish, prefetch, bound, name, give_up_on))
        if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= 1000:
            raise ValueError(f"processes must be a number from 1 to 1000, not {processes!r}")
        self.processes = processes
        self.direct = self.source if direct is None else Source(direct)
        self._orders: "queue.SimpleQueue[str]" = queue.SimpleQueue()

    def stop(self, now: bool = False) -> None:
        """Claim no more, finish, return from run(). now: without waiting for handlers. From any thread."""
        self._orders.put(ABORT if now else STOP)

    def run(self, drain: bool = False) -> None:
        """Work until stop(), SIGTERM or SIGINT; a second signal is stop(now=True).

        drain: until nothing can be claimed and all is done.
        """
        if self.processes == 1:
            self._run(drain, (signal.SIGTERM, signal.SIGINT))
        else:
            with Signals(self.stop, (signal.SIGTERM, signal.SIGINT)):
                # Ctrl-C reaches all processes of a terminal. Of ours it is for the first one to tell the others.
                supervise(lambda: self._run(drain, (signal.SIGTERM,)), self.stop, self.processes, self._orders)

    def _run(self, drain: bool, signals: Sequence[int]) -> None:
        with Signals(self.stop, signals):
            Run(self, drain).main()


class Signals:
    """These signals stop the worker, while it runs in the main thread."""

    def __init__(self, stop: Callable[[bool], None], numbers: Sequence[int]) -> None:
        self.stop = stop
        self.numbers = numbers
        self.before: Dict[int, Any] = {}
        self.count = 0

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in self.numbers:
                self.before[number] = signal.signal(number, self.note)

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def note(self, number: int, frame: object) -> None:
        self.count += 1
        self.stop(self.count > 1)


class Station:
    """Where a run works: the database of its queues, or a node; with the session there, and who settles what is of it."""

    def __init__(self, run: Run, node: Optional[Node]) -> None:
        worker, options = run.worker, run.options
        self.node = node
        self.source = worker.source if node is None else Source(node.conninfo)
        watch = run.home_watch if node is None else run.watch
        self.session = Session(worker.direct if node is None else self.source, run.name, options.ttl, options.bound, watch)
        self.session.station = self
        self.settler = run.settler if node is None else Settler(self.source, run, watch)

    def close(self, seconds: float) -> None:
        """Settle what is to be settled, give back the rest."""
        self.settler.close(seconds)
        self.session.close()
        if self.node is not None:
            self.source.close()


class Run(RunBase[Context]):
    """One run of a worker: the thread of the session, those of handlers, and the settler. At a proxy of a cluster
    the session is one after the other at its nodes, and what was left has a thread, until its handlers have ended."""

    def __init__(self, worker: Worker, drain: bool) -> None:
        super().__init__(worker, drain)
        self.lock = threading.Lock()        # of pace and active
        self.ready: "queue.SimpleQueue[Optional[Delivery]]" = queue.SimpleQueue()
        self.room = threading.Event()       # something has changed that the session's thread should look at
        self.stale_from = 0.0               # nothing that waits is stale before
        self.threads: List[threading.Thread] = []
        self.session: Optional[Session] = None
        self.deadlines, self.teller = Deadlines(), Teller()
        self.error: Optional[Exception] = None
        self.watch, self.home_watch = Watch(), NoWatch()
        self.guide = Guide(worker.source, self.attendance, self.watch)
        self.leaving: List[threading.Thread] = []

    # -- the main thread

    def main(self) -> None:
        self.worker.look_at_types()
        for function in self.worker.own_functions("start"):
            function(self.worker)
        try:
            self._main()
        finally:
            call(self.worker.own_functions("stop"), self.worker)

    def _main(self) -> None:
        threading.Thread(target=self._serve, name="pgfairq session", daemon=True).start()
        timeout: Optional[float] = None
        while True:
            try:
                order = self.worker._orders.get(timeout=timeout)
            except queue.Empty:
                order = ""
            if order == ENDED:
                break
            if order:
                if not self.stopping:
                    journal.stopping(self.pace.running, self.options.finish)
                self.stopping = True
                self.aborting = self.aborting or order == ABORT
                self.room.set()
                timeout = 0.2   # a claim that waits is interrupted; again, if it had not begun
            if self.session is not None:
                self.session.interrupt()
        while not self.worker._orders.empty():  # a stop() that came too late is not for the next run
            self.worker._orders.get()
        if self.error is not None:
            raise self.error

    # -- the session's thread

    def _serve(self) -> None:
        backoff = Backoff()
        node: Optional[Node] = None     # to go to
        self.settler = Settler(self.worker.source, self, self.home_watch)
        try:
            while not self.stopping:
                try:
                    for one in self.worker.queues:
                        try:
                            one.ensure()
                        except psycopg.Error as error:
                            self.cannot_create(one.name, error)
                    node = node or self.guide.ask(None)
                    node = self._one_session(node, backoff)
                except Exception as error:
                    pause = backoff.next()
                    self.worker.trouble(error, pause, node)
                    if node is not None:
                        self.guide.unreached(node)
                        node = None
                    self._pause(pause)
        except Exception as error:
            self.error = error
        finally:
            for thread in self.leaving:
                thread.join()
            for _ in self.threads:
                self.ready.put(None)
            self.settler.close(1)
            self.deadlines.close()
            self.teller.close(1 if self.aborting else self.options.finish)
            journal.stopped(self.name, self.error)
            self.worker._orders.put(ENDED)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopping and time.monotonic() < end:
            self.room.clear()
            self.room.wait(min(0.5, max(0.0, end - time.monotonic())))

    def _one_session(self, node: Optional[Node], backoff: Backoff) -> Optional[Node]:
        """Work there until the worker stops, or until it is another node's turn, which is returned."""
        station = Station(self, node)
        session = self.session = station.session
        self.has_session(session.connection.info)
        why = "the session of its worker is over"
        following: Optional[Node] = None
        try:
            following = self._claim(station, backoff)
            session.release(self._take_back())
            if following is None:
                self._let_end(station)
        except Exception as error:
            why = f"{why}: {first_line(error)}"
            following = None
            raise
        finally:
            self.session = None
            if following is not None:
                self._leave(station, self._let_end)
            else:
                session.over = session.over or not self.stopping
                self._take_back()
                self._lose(self._contexts(session), why)
                if node is None:
                    session.close()
                else:   # what was settled may be told when the node is back
                    self._leave(station, lambda station: station.close(1 if self.aborting else self.options.ttl))
        return following

    def _leave(self, station: Station, end: Callable[[Station], None]) -> None:
        self.leaving = [thread for thread in self.leaving if thread.is_alive()]
        thread = threading.Thread(target=end, args=(station,), name="pgfairq leaving", daemon=True)
        self.leaving.append(thread)
        thread.start()

    def _claim(self, station: Station, backoff: Backoff) -> Optional[Node]:
        session = station.session
        while not self.stopping:
            self.room.clear()
            due = session.beats.due_in()
            if not due:
                self._beat(session)
            if not self.guide.due_in():
                following = self._following(station)
                if following is not None:
                    return following
            due = min(due, self.guide.due_in(), self.attendance.due_in())
            self._give_back_stale(session)
            with self.lock:
                wanted, idle_handler = self.pace.claim()
                waiting = self.pace.waiting
                all_told = self.pace.idle   # before the claim: what is given back while it runs may be missing in its answer
            asked = self.attendance.next(station.settler.closed()) if wanted else []
            if not asked:
                self.room.wait(min(due, STALE / 2) if waiting else due)
                continue
            alone = self.attendance.in_doubt(asked)
            wait = due if idle_handler and not self.drain and not alone else 0
            claimed = session.claim(self.attendance, asked, wanted, wait)
            backoff.reset()
            if claimed:
                self._hand_out(claimed)
            if alone or claimed is None:    # of the other queues this says nothing
                continue
            self.guide.found(station.node, len(claimed))
            if self.is_drained(claimed, all_told):
                following = self._following(station)
                if following is not None and following.ready:
                    return following
                self.stopping = True
            elif not claimed and (self.drain or not idle_handler):
                self.room.wait(due)
        return None

    def _following(self, station: Station) -> Optional[Node]:
        """Another node, if the worker is to go there."""
        try:
            node = self.guide.ask(station.session.id)
        except (psycopg.Error, OSError) as error:   # whoever stays at a node needs no proxy
            log.warning("cannot ask for a node: %s; staying", first_line(error))
            self.guide.postpone()
            return None
        return None if node is None or station.node is None or node.number == station.node.number else node

    def _hand_out(self, claimed: List[Delivery]) -> None:
        with self.lock:
            self.pace.waiting += len(claimed)
            needed = min(self.options.concurrency, self.pace.running + self.pace.waiting)
        for delivery in claimed:
            self.ready.put(delivery)
        while len(self.threads) < needed:
            thread = threading.Thread(target=self._work, name=f"pgfairq handler {len(self.threads) + 1}", daemon=True)
            self.threads.append(thread)
            thread.start()

    def _beat(self, session: Session) -> None:
        contexts = self._contexts(session)
        late = session.beats.late_by()
        if late > session.beats.interval:
            journal.late(late, self.options.ttl, [context._delivery for context in contexts])
        lost = session.beat([context._delivery for context in contexts])
        self._lose([context for context in contexts if context._delivery in lost],
                   "the lease was lost: the task was cancelled, or its time has run out")

    def _contexts(self, session: Session) -> List[Context]:
        with self.lock:
            return [context for context in self.active.values() if context._delivery.session is session]

    def _lose(self, contexts: List[Context], why: str) -> None:
        for context in contexts:
            with self.lock:
                active = self.active.get(context.receipt) is context
            if active:  # else it has ended meanwhile
                context._lose(why)

    def _take_back(self, claimed_before: float = float("inf")) -> List[Delivery]:
        """What has not begun, and was claimed before that time."""
        taken = []
        while True:
            try:
                delivery = self.ready.get_nowait()
            except queue.Empty:
                break
            if delivery is not None:
                taken.append(delivery)
        fresh = [delivery for delivery in taken if delivery.claimed >= claimed_before]
        self.stale_from = STALE + min((delivery.claimed for delivery in fresh), default=time.monotonic())
        for delivery in fresh:
            self.ready.put(delivery)
        stale = [delivery for delivery in taken if delivery.claimed < claimed_before]
        with self.lock:
            self.pace.waiting -= len(stale)
        return stale

    def _give_back_stale(self, session: Session) -> None:
        now = time.monotonic()
        if self.pace.waiting and now > self.stale_from:     # else it would only stop the handlers' threads for a moment
            stale = self._take_back(now - STALE)
            if stale:
                self.pace.gave_back()
                kept = session.release(stale)
                with self.lock:
                    self.pace.waiting += len(kept)
                for delivery in kept:
                    delivery.claimed = time.monotonic()
                    self.ready.put(delivery)

    # -- the end

    def _let_end(self, station: Station) -> None:
        """Let handlers end, for their time once the worker stops. The end of the session releases the rest."""
        session = station.session
        why = "its worker ends"
        try:
            while self._contexts(session) and not self.time_is_over():
                if not session.beats.due_in():
                    self._beat(session)
                time.sleep(0.05)
        except (psycopg.Error, SessionOver, OSError) as error:
            session.over = True
            why = f"the session of its worker is over: {first_line(error)}"
        rest = self._contexts(session)
        if rest:
            log.warning("%d handlers have not finished in time; their tasks are given back", len(rest))
            self._lose(rest, why)
        station.close(1 if self.aborting else 10)

    # -- handlers' threads

    def _work(self) -> None:
        while True:
            delivery = self.ready.get()
            if delivery is None:
                return
            context = Context(delivery, delivery.session.station.source, self.name)
            with self.lock:
                self.pace.begin()
                self.active[delivery.receipt] = context
            began = time.monotonic()
            settlement = None if delivery.session.over else self._handle(context, began)
            with self.lock:
                del self.active[delivery.receipt]
                self.pace.end(time.monotonic() - began)
                if settlement is not None:
                    self.pace.unsettled += 1
                wake = self.stopping or self.drain or self.pace.may_claim()
            if settlement is not None:
                delivery.session.station.settler.put(settlement)
            if wake and not self.room.is_set():     # if it is, the session's thread has yet to look
                self.room.set()

    def _handle(self, context: Context, began: float) -> Optional[Settlement]:
        """Run the handler. What is to be told to the server; None if its transaction has done so, or the lease is lost."""
        delivery, calls = context._delivery, self.calls_of(context)
        handler: Optional[Registered] = None
        used = False
        try:
            handler = self.handler_of(context)
            payload = handler.payload(delivery.payload())
            for function in calls.before:
                function(context)
            if handler.timeout is None:
                result = handler.function(payload, context)
            else:
                with self.deadlines.within(context, handler.timeout):
                    result = handler.function(payload, context)
                context._check_time()
            text = result_text(handler.result(result))
            used = context._in_transaction
            if used:
                context._commit(text)
            ending = Ending("done", time.monotonic() - began, result)
            settlement = None if used else Settlement("ack", delivery, text, context=context, ending=ending)
        except BaseException as error:
            used = used or context._in_transaction
            context._rollback(error)
            settlement, ending = not_done(context, error, handler, self.options.give_up_on, used, time.monotonic() - began)
        functions = self.ended(context, calls, ending, settlement)
        if functions:
            call(functions, context, ending)
        return settlement

    def tell_later(self, functions: Functions, context: Any, ending: Any) -> None:
        self.teller.tell(functions, context, ending)

    def settled(self, count: int) -> None:
        with self.lock:
            self.pace.unsettled -= count
            wake = self.drain or self.pace.may_claim()
        if wake:
            self.room.set()

    def put_aside(self, count: int) -> None:
        with self.lock:
            self.pace.aside += count
