"""What an application is told of: each event, in its place, with what has become of the attempt.

Seen to fail: _handle() that calls functions on "before" as those of other events (one that fails is of no
consequence), RunBase.ended() without "failed" or "lost", and with "after" first; SettlerBase._note() that forgets
what has failed, and _look_for_dead() that takes all that has failed for dead (a task of three attempts is dead after
the first one); without those that are final; died() and too_late() without tell_later(); call() without its except
(the worker ends), Hooks.add() without its checks, own_functions() without once(); AsyncContext._lose() without its
look at `_ended` (a task whose function on "after" is cancelled stays leased); check() without it (a transaction
begins that nobody ends); _tell_less() without turned(); settlers that begin before the functions on "start" (a
thread and an asyncio.Task are left by a worker that cannot start).
"""

import asyncio
import logging
import threading

import part_server
import pytest
from conftest import running

from pgfairq import AsyncQueue, AsyncWorker, LeaseLost, Worker

EVENTS = ("before", "after", "failed", "lost", "dead", "start", "stop")


def note_all(of, told):
    """Every event, in order."""
    for event in EVENTS:
        of.on(event, lambda *arguments, event=event: told.append((event, *arguments)))


def test_in_their_order(make_queue):
    queue, told = make_queue(max_attempts=3, backoff_base=0, keep_done=3600), []
    note_all(queue, told)

    @queue.task("handle")
    def handle(payload, context):
        told.append(("handler", context))
        context.connection.execute("SELECT 1")
        if payload == "fails once" and context.attempt == 1 or payload == "fails":
            raise KeyError(payload)
        if payload == "snoozes":
            context.snooze(3600)
        return payload

    def run(payload, attempts):
        handle.enqueue(payload)
        worker = Worker(queue, concurrency=1)
        worker.on("after", lambda context, ending: told.append(("after, of the worker", context, ending)))
        worker.run(drain=True)
        context = told[1][1]
        assert told[0] == ("start", worker) and told[-1] == ("stop", worker)
        assert (context.attempt, context.id > 0, context.queue, context.name) == (1, True, queue.name, "handle")
        seen = [(one[0], one[2].outcome if len(one) > 2 else None) for one in told[1:-1]]
        ending = told[-2][2]
        told.clear()
        assert [event for event, _ in seen].count("before") == attempts
        return seen, ending

    begins = [("before", None), ("handler", None)]
    done, failed = [("after", "done"), ("after, of the worker", "done")], [("failed", "failed"), ("after", "failed"), ("after, of the worker", "failed")]
    seen, ending = run("good", 1)
    assert seen == begins + done and ending.result == "good" and ending.error is None and ending.seconds > 0
    assert run("fails once", 2)[0] == [*begins, *failed, *begins, *done]
    seen, ending = run("fails", 3)
    assert [one for one in seen if one[0] != "dead"] == 3 * [*begins, *failed] and [one for one in seen if one[0] == "dead"] == [("dead", "dead")]
    assert seen[-1][0] == "dead" and isinstance(ending.error, KeyError)
    assert run("snoozes", 1)[0] == [*begins, ("after", "snoozed"), ("after, of the worker", "snoozed")]


def test_dead_is_what_the_server_says(make_queue):
    """With max_attempts of the queue, of the task, and at once; those of a batch are told apart."""
    queue, dead = make_queue(max_attempts=2, backoff_base=3600), []
    queue.on("dead", lambda context, ending: dead.append((context.id, ending.outcome, type(ending.error).__name__)))

    @queue.task("fail", give_up_on=ValueError)
    def fail(payload, context):
        raise {"value": ValueError, "key": KeyError}[payload]("no")

    one, two, three, _ = (fail.enqueue(payload, max_attempts=attempts) for payload, attempts in
                          (("value", None), ("key", 1), ("value", 0), ("key", None)))
    Worker(queue, concurrency=4).run(drain=True)
    assert sorted(dead) == [(one, "dead", "ValueError"), (two, "dead", "KeyError"), (three, "dead", "ValueError")]


def test_before_is_part_of_the_attempt(make_queue):
    """It may write in the task's transaction; one that fails has the attempt fail before the handler."""
    queue, seen = make_queue(max_attempts=1), []

    @queue.on("before")
    def be_the_tenant(context):
        context.connection.execute("SELECT set_config('app.tenant', %s, true)", (context.group,))
        if context.group == "unknown":
            raise LookupError("no such tenant")

    @queue.task()
    def handle(payload, context):
        seen.append((context.group, context.connection.execute("SELECT current_setting('app.tenant')").fetchone()[0]))

    queue.enqueue_many([1, 2, 3], group=["a", "unknown", "b"])
    Worker(queue, concurrency=1).run(drain=True)
    assert sorted(seen) == [("a", "a"), ("b", "b")]
    (dead,) = queue.dead()
    assert dead.group == "unknown" and dead.last_error.startswith("LookupError: no such tenant")


def test_others_that_fail_are_of_no_consequence(make_queue, caplog):
    queue, seen = make_queue(max_attempts=1), []

    def fail(*_):
        raise RuntimeError("of the function")

    for event in ("after", "failed", "dead", "stop"):
        queue.on(event, fail)
        queue.on(event, lambda *arguments, event=event: seen.append(event))

    @queue.task()
    def handle(payload, context):
        if payload:
            raise ValueError

    queue.enqueue_many([0, 1])
    with caplog.at_level(logging.ERROR, "pgfairq"):
        Worker(queue, concurrency=1).run(drain=True)
    assert sorted(seen) == ["after", "after", "dead", "failed", "stop"] and queue.stats().acked == 1 and len(queue.dead()) == 1
    assert len([record for record in caplog.records if "is called on an event" in record.getMessage()]) == 5


def test_a_worker_that_cannot_start(make_queue):
    queue = make_queue()
    queue.task()(lambda payload, context: None)
    queue.enqueue(1)
    worker = Worker(queue)

    @worker.on("start")
    def start(started):
        assert started is worker
        raise ConnectionError("no cache")

    threads = set(threading.enumerate())
    with pytest.raises(ConnectionError, match="no cache"):
        worker.run(drain=True)
    assert queue.stats().claimed == 0
    assert set(threading.enumerate()) <= threads


def test_what_is_lost(make_queue):
    """A handler that is stopped, and one that does not see that it has lost its task."""
    queue, told, step = make_queue(), [], threading.Event()
    queue.on("lost", lambda context, ending: told.append(("lost", context.id, ending.outcome, type(ending.error))))
    queue.on("after", lambda context, ending: told.append(("after", context.id, ending.outcome)))

    @queue.task()
    def handle(payload, context):
        if payload == "looks":
            while not context.cancelled:
                threading.Event().wait(0.01)
            context.check()
        step.wait(100)

    looks, deaf = queue.enqueue("looks"), queue.enqueue("deaf")
    with running(Worker(queue, concurrency=2, ttl=4)):
        part_server.wait_until(lambda: queue.stats().leased == 2, "both run")
        assert queue.cancel(looks)
        part_server.wait_until(lambda: len(told) == 2, "the first one has ended")
        assert queue.cancel(deaf)
        step.set()
        part_server.wait_until(lambda: [one for one in told if one[:2] == ("lost", deaf)], "its acknowledgement came too late")
    assert told[:2] == [("lost", looks, "lost", LeaseLost), ("after", looks, "lost")]
    assert ("lost", deaf, "lost", LeaseLost) in told


def test_after_the_end_there_is_no_transaction(make_queue):
    """A function on "after" that asks for the connection of the task would begin one that nobody ends."""
    queue, errors = make_queue(), []

    @queue.on("after")
    def after(context, ending):
        try:
            context.connection
        except RuntimeError as error:
            errors.append(str(error))

    queue.task()(lambda payload, context: None)
    queue.enqueue(1)
    Worker(queue).run(drain=True)
    assert len(errors) == 1 and "its handler has ended" in errors[0]


def test_a_result_that_is_refused(make_queue):
    """It was done, as far as the worker knew. The server does not take it, so it has failed, and is told so."""
    queue, told = make_queue(max_attempts=1, keep_done=3600), []
    for event in ("failed", "after", "dead"):
        queue.on(event, lambda context, ending, event=event: told.append((event, ending.outcome)))
    queue.task()(lambda payload, context: "\ud800")
    queue.enqueue(1)
    Worker(queue).run(drain=True)
    assert told == [("after", "done"), ("failed", "failed"), ("dead", "dead")]


def test_asyncio(database):
    """Functions and coroutines."""
    told = []

    async def main():
        queue = AsyncQueue(database, "hooks", max_attempts=2, backoff_base=0)

        def of(event):
            async def coroutine(*arguments):
                await asyncio.sleep(0)
                told.append((event, arguments[1].outcome if len(arguments) > 1 else None))
            return coroutine

        for event in EVENTS:
            queue.on(event, of(event))
        queue.on("after", lambda context, ending: told.append(("after, a function", ending.outcome)))

        @queue.task("handle", timeout=3600)
        async def handle(payload, context):
            told.append(("handler", None))
            if payload:
                raise KeyError

        worker = AsyncWorker(queue, concurrency=1)
        for payload in (0, 1):
            await handle.enqueue(payload)
            await worker.run(drain=True)
        tasks = asyncio.all_tasks()
        with pytest.raises(ConnectionError):
            @worker.on("start")
            async def start(_):
                raise ConnectionError
            await worker.run(drain=True)
        assert asyncio.all_tasks() <= tasks

    asyncio.run(main())
    attempt = [("before", None), ("handler", None)]
    failed = [*attempt, ("failed", "failed"), ("after", "failed"), ("after, a function", "failed")]
    good = [("start", None), *attempt, ("after", "done"), ("after, a function", "done"), ("stop", None)]
    assert told[:len(good)] == good
    rest = [one for one in told[len(good):] if one[0] != "dead"]
    assert rest == [("start", None), *failed, *failed, ("stop", None), ("start", None)]
    assert [one for one in told if one[0] == "dead"] == [("dead", "dead")] and told[-3:-1] == [("dead", "dead"), ("stop", None)]


def test_a_lease_that_is_lost_after_the_handler(database):
    """A coroutine on "after" takes its time, while the task is cancelled by an operator: it is not stopped, and all is told."""
    async def main():
        queue, begun, go = AsyncQueue(database, "after lost", create=True), asyncio.Event(), asyncio.Event()
        told = []

        @queue.on("after")
        async def after(context, ending):
            begun.set()
            await go.wait()
            told.append(("after", ending.outcome))

        queue.on("lost", lambda context, ending: told.append(("lost", ending.outcome)))

        async def handle(payload, context):
            pass

        queue.task()(handle)
        task = await queue.enqueue(1)
        worker = AsyncWorker(queue, ttl=20)
        running_worker = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), 120)
        await queue.cancel(task)
        session = None
        while session is None or session.beats.last < heartbeat:      # until the worker has learned of it
            if session is None:
                session, heartbeat = worker._run.session, asyncio.get_running_loop().time()
            await asyncio.sleep(0.05)
        go.set()
        while len(told) < 2:
            await asyncio.sleep(0.01)
        assert told == [("after", "done"), ("lost", "lost")]
        worker.stop()
        await asyncio.wait_for(running_worker, 120)

    asyncio.run(main())


def test_of_several_queues(make_queue):
    """A function that two queues have is called once when the worker starts, and for the tasks of each."""
    first, second, told = make_queue("_1"), make_queue("_2"), []

    def note(*arguments):
        told.append(arguments[0].queue if len(arguments) == 2 else "worker")

    for queue in (first, second):
        queue.on("start", note)
        queue.on("after", note)
        queue.task()(lambda payload, context: None)
        queue.enqueue(1)
    Worker([first, second], concurrency=1).run(drain=True)
    assert told == ["worker", first.name, second.name]


def test_enqueue(make_queue):
    """Told before anything is sent; what it adds to the headers goes with each task, and what the call says goes before."""
    queue, told = make_queue(), []

    @queue.on("enqueue")
    def add(sending):
        told.append((sending.queue, sending.topic, sending.name, sending.count))
        sending.headers.update(by="me", mine=0)
        if sending.count == 2:
            raise PermissionError("not two")

    queue.task("send")(lambda payload, context: None)
    assert queue.get(queue.enqueue(1, name="send", headers={"mine": 1})).headers == {"mine": 1, "by": "me"}
    assert [queue.get(task).headers for task in queue.enqueue_many([1, 2, 3], headers=[None, {"mine": 2}, [5]])] == [
        {"by": "me", "mine": 0}, {"by": "me", "mine": 2}, [5]]
    with pytest.raises(PermissionError):
        queue.enqueue_many([1, 2])
    queue.publish("a.b", 1)
    assert told == [(queue.name, None, "send", 1), (queue.name, None, None, 3), (queue.name, None, None, 2), (None, "a.b", None, 1)]
    assert queue.stats().enqueued == 4


def test_mistakes(make_queue):
    queue = make_queue()
    queue.task()(lambda payload, context: None)

    async def coroutine(*_):
        pass

    for wrong, error, message in (("ended", ValueError, "has no event 'ended', but 'enqueue', 'before'"), ("failed", TypeError, "is a coroutine")):
        with pytest.raises(error, match=message):
            queue.on(wrong, coroutine)
    with pytest.raises(TypeError, match="must be a function, not 5"):
        queue.on("failed", 5)
    with pytest.raises(ValueError, match="Worker has no event 'enqueue'"):
        Worker(queue).on("enqueue", print)
    with pytest.raises(TypeError, match="is a coroutine"):
        AsyncQueue(make_queue.conninfo, "x").on("enqueue", coroutine)
