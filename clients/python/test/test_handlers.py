"""What @queue.task() says of a handler: of its tasks when they are enqueued, and of its attempts.

Seen to fail: Handled._options() without its look at what the call says (a priority and a group of the call are those
of the handler), and with defaults for schedules (max_attempts, which they have not); _options_of_many() with the group
of the first for all; after_error() without the handler's delay, and with it before Retry; _with() that keeps
unique_for for tasks without a key, _options() with a schedule's unique_key; Registered.delay() without min() (the
fourth attempt has no delay); Deadlines._serve() that tells nobody (the handler waits for an hour), Context._time_out()
without its cancel (a statement goes on), _check_time() in Worker and AsyncWorker (what took too long is done),
AsyncContext._time_out() without cancel(); within() that keeps a handler which has ended, and that does not wake the
thread for one that is due sooner; Options without the check of names; seconds() that takes None; Registry.add()
without check_parameters(); of_tasks() with unique_for and no key; ENQUEUE_EACH that gives unique_for to tasks without
a key.
"""

import asyncio
import threading
from datetime import timedelta

import part_server
import psycopg
import pytest
from conftest import running

from pgfairq import AsyncQueue, AsyncWorker, TaskTimeout, Worker
from pgfairq.deadlines import Deadlines


def test_what_tasks_are_enqueued_with(make_queue):
    queue = make_queue(max_attempts=9, subgroups=True)

    @queue.task("send", max_attempts=3, priority=2, group=lambda payload: payload["tenant"], subgroup=lambda payload: payload.get("user"))
    def send(payload, context):
        pass

    def of(task):
        found = queue.get(task)
        return found.name, found.max_attempts, found.priority, found.group, found.subgroup

    assert of(send.enqueue({"tenant": 42, "user": "ann"})) == ("send", 3, 2, "42", "ann")
    assert of(send.enqueue({"tenant": 42}, group="own", subgroup="bob", priority=7, max_attempts=0)) == ("send", 0, 7, "own", "bob")
    assert of(send.enqueue({"tenant": 42}, group=None)) == ("send", 3, 2, "", None)
    many = send.enqueue_many([{"tenant": 1}, {"tenant": 2, "user": "cleo"}])
    assert [of(task) for task in many] == [("send", 3, 2, "1", None), ("send", 3, 2, "2", "cleo")]
    assert [of(task)[2:4] for task in send.enqueue_many([{"tenant": 1}] * 2, group="all", priority=[5, 6])] == [(5, "all"), (6, "all")]
    send.schedule("options", "@hourly", {"tenant": 5})
    (one,) = queue.schedules()
    assert (one.task_name, one.group, one.subgroup) == ("send", "5", None)
    queue.unschedule("options")
    assert of(queue.enqueue({}, name="send")) == ("send", 9, 4, "", None)     # the queue knows nothing of its handlers


def test_costs_and_keys_that_tasks_are_enqueued_with(make_queue):
    queue = make_queue(max_lost=9)

    @queue.task("index", max_lost=2, lease=60, cost=lambda payload: payload["pages"], unique_key=lambda payload: payload.get("url"),
                unique_for=3600, on_duplicate="replace")
    def index(payload, context):
        pass

    @queue.task("fixed", cost=2.5)
    def fixed(payload, context):
        pass

    def of(task):
        found = queue.get(task)
        return found.unique_key, found.cost, found.max_lost, found.lease, found.payload["pages"]

    first = index.enqueue({"url": "/a", "pages": 3})
    assert of(first) == ("/a", 3.0, 2, timedelta(minutes=1), 3)
    assert index.enqueue({"url": "/a", "pages": 4}) == first and of(first)[4] == 4              # replaced
    assert index.enqueue({"url": "/a", "pages": 5}, on_duplicate="keep") == first and of(first)[4] == 4
    none, other = index.enqueue_many([{"pages": 1}, {"url": "/b", "pages": 7}])
    assert [of(task)[:3] for task in (none, other)] == [(None, 1.0, 2), ("/b", 7.0, 2)]
    assert of(index.enqueue({"url": "/a", "pages": 1}, unique_key=None, cost=9, max_lost=None))[:3] == (None, 9.0, 9)
    assert of(index.enqueue({"pages": 1}))[0] is None
    assert queue.cancel(first) and index.enqueue({"url": "/a", "pages": 1}) == first            # it is remembered for an hour
    assert of(fixed.enqueue({"pages": 0}))[:2] == (None, 2.5)
    index.schedule("costly", "@hourly", {"url": "/a", "pages": 6})                              # which has no keys
    (one,) = queue.schedules()
    queue.unschedule("costly")
    assert (one.task_name, one.cost) == ("index", 6.0)


@pytest.mark.parametrize("backoff, delays", [
    (30, [30, 30, 30, 30]), ([10, timedelta(seconds=20), 40], [10, 20, 40, 40]), (lambda attempt: 100 * attempt, [100, 200, 300, 400]),
    (lambda attempt: 1 / 0, [7200] * 4), (lambda attempt: -5, [7200] * 4), (lambda attempt: "soon", [7200] * 4)])
def test_backoff(make_queue, backoff, delays):
    """The delay to the next attempt; one that fails is the queue's. What the handler says itself goes before."""
    queue = make_queue(backoff_base=7200, backoff_max=7200, backoff_jitter=0)

    @queue.task("fail", backoff=backoff)
    def fail(payload, context):
        if payload == "own":
            context.retry("own delay", 3000)
        raise ValueError

    given = [fail.registered.delay(attempt) for attempt in (1, 2, 3, 4)]
    assert [7200 if delay is None else delay.total_seconds() for delay in given] == delays
    tasks = {payload: fail.enqueue(payload) for payload in ("fails", "own")}
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        before, = connection.execute("SELECT clock_timestamp()").fetchone()
        Worker(queue).run(drain=True)
        after, = connection.execute("SELECT clock_timestamp()").fetchone()
    for payload, delay in (("fails", delays[0]), ("own", 3000)):
        assert before <= queue.get(tasks[payload]).run_at - timedelta(seconds=delay) <= after


def test_timeouts_in_threads(make_queue):
    """A statement is cancelled; a handler that looks is told; one that does not has failed all the same, when it ends."""
    queue, ended = make_queue(max_attempts=1), []
    table = f"timeouts_{queue.name}"
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (what text)")

    @queue.task("late", timeout=0.2)
    def late(payload, context):
        if payload in ("statement", "deaf with a transaction"):
            context.connection.execute(f"INSERT INTO {table} VALUES (%s)", (payload,))
        if payload == "statement":
            context.connection.execute("SELECT pg_sleep(3600)")
        while not context.cancelled:
            threading.Event().wait(0.01)
        ended.append(payload)
        if payload == "looks":
            context.check()
        if payload == "raises":
            raise KeyError("of its own")

    @queue.task("soon", timeout=3600)
    def soon(payload, context):
        ended.append(payload)

    kinds = ["statement", "deaf", "deaf with a transaction", "looks", "raises"]
    late.enqueue_many(kinds)
    soon.enqueue("in time")
    Worker(queue, concurrency=2).run(drain=True)
    dead = {one.payload: one.last_error for one in queue.dead()}
    assert sorted(dead) == sorted(kinds) and sorted(ended) == sorted(["in time", *kinds[1:]])
    assert all(error.startswith("pgfairq.errors.TaskTimeout: it took longer than its timeout of 0.2 s") for error in dead.values())
    assert "after KeyError: 'of its own'" in dead["raises"] and "after QueryCanceled" in dead["statement"]
    with psycopg.connect(make_queue.conninfo) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_timeout_is_of_one_task(make_queue):
    """The thread that had one goes on with the next task, also when the first one ends at the last moment."""
    queue, seen, gate = make_queue(max_attempts=1), [], threading.Event()

    @queue.task("quick", timeout=0.05)
    def quick(payload, context):
        seen.append(payload)

    @queue.task("long")
    def long(payload, context):
        gate.wait(100)
        seen.append((payload, context.cancelled))

    quick.enqueue_many(list(range(20)))
    long.enqueue("long")
    with running(Worker(queue, concurrency=1)):
        part_server.wait_until(lambda: len(seen) == 20 and queue.stats().leased == 1, "all timeouts are over before it ends")
        gate.set()
        part_server.wait_until(lambda: queue.stats().acked == 21, "done")
    assert seen[-1] == ("long", False)


def test_timeouts_keep_nothing_of_handlers_that_have_ended():
    """However long their timeouts are. The thread of an hour is woken for what is due before."""
    class Handler:
        over = threading.Event()

        def _time_out(self, seconds):
            assert seconds == 0.05
            self.over.set()

    deadlines = Deadlines()
    with deadlines.within(Handler(), 1e300):
        for _ in range(1000):
            with deadlines.within(Handler(), 3600):
                pass
        assert len(deadlines._due) == 1
        with deadlines.within(Handler(), 0.05):
            assert Handler.over.wait(100)
            assert len(deadlines._due) == 1
    assert not deadlines._due
    deadlines.close()
    deadlines._thread.join(100)
    assert not deadlines._thread.is_alive()


def test_timeouts_of_coroutines(database):
    ended = []

    async def main():
        queue = AsyncQueue(database, "timeouts", max_attempts=2, backoff_base=0)

        @queue.task("late", timeout=timedelta(seconds=0.2), give_up_on=TaskTimeout)
        async def late(payload, context):
            if payload == "statement":
                await (await context.connection()).execute("SELECT pg_sleep(3600)")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                ended.append((payload, context.cancelled))
                if payload == "raises":
                    raise KeyError("of its own") from None
                if payload != "deaf":
                    raise

        @queue.task("soon", timeout=3600, backoff=0)
        async def soon(payload, context):
            ended.append((payload, context.cancelled))

        kinds = ["statement", "sleep", "deaf", "raises"]
        await late.enqueue_many(kinds)
        await soon.enqueue("in time")
        await AsyncWorker(queue, concurrency=1).run(drain=True)
        dead = {one.payload: (one.attempts, one.last_error) for one in await queue.dead()}
        assert sorted(dead) == sorted(kinds) and {attempts for attempts, _ in dead.values()} == {1}
        assert all(error.startswith("pgfairq.errors.TaskTimeout: it took longer than") for _, error in dead.values())
        assert "after KeyError" in dead["raises"][1]
        assert sorted(ended) == sorted([("in time", False), *((kind, True) for kind in kinds[1:])])

    asyncio.run(main())


@pytest.mark.parametrize("options, message", [
    ({"max_attempts": -1}, "max_attempts must be a whole number from 0 on, not -1"), ({"max_attempts": True}, "not True"),
    ({"backoff": -1}, "backoff must be a time from 0 on"), ({"backoff": []}, "backoff must be"), ({"backoff": "soon"}, "backoff must be a timedelta"),
    ({"backoff": [1, None]}, "backoff must be"), ({"timeout": 0}, "timeout must be above 0, not 0"), ({"timeout": "1"}, "timeout must be a timedelta"),
    ({"group": "tenant"}, "group of a handler must be a function of the payload"), ({"subgroup": 5}, "subgroup of a handler"),
    ({"unique_key": "url"}, "unique_key of a handler must be a function"), ({"cost": 0}, "cost must be a number above 0, or a function"),
    ({"cost": "much"}, "cost must be"), ({"max_lost": -1}, "max_lost must be a whole number from 0 on"), ({"lease": "1 min"}, "lease must be a timedelta"),
    ({"unique_for": 60}, "unique_for of a handler is for tasks with a key: give it unique_key"), ({"on_duplicate": 1}, "on_duplicate must be a str"),
    ({"priority": "high"}, "priority must be a whole number, not 'high'"), ({"max_retries": 3}, "task has no argument 'max_retries'; there are:")])
def test_mistakes(make_queue, options, message):
    queue = make_queue()
    for kind in (queue, AsyncQueue(make_queue.conninfo, queue.name)):
        with pytest.raises((TypeError, ValueError), match=message):
            async def coroutine(payload, context):
                pass

            kind.task("a", **options)(coroutine if kind is not queue else lambda payload, context: None)
        assert kind.registry.handlers == {}     # so that it can be made right


@pytest.mark.parametrize("parameters", ["payload", "", "payload, context, more", "payload, *, context"])
def test_handlers_that_no_worker_could_call(make_queue, parameters):
    """It is said where they are made, and not by the first task."""
    queue = make_queue()
    for kind, prefix in ((queue, ""), (AsyncQueue(make_queue.conninfo, queue.name), "async ")):
        made = {}
        exec(f"{prefix}def send({parameters}): pass", made)
        with pytest.raises(TypeError, match=r"must take two arguments, the payload and the context.* takes \("):
            kind.task("send")(made["send"])
        assert kind.registry.handlers == {}
    queue.task("more")(lambda payload, context, more=None: None)
    queue.task("any")(lambda *arguments: None)
    queue.task("built in")(print)


def test_times_that_are_none(make_queue):
    """For a time that has to be there."""
    queue = make_queue()
    task = queue.task("a")(lambda payload, context: None).enqueue(1)
    for call, name in ((lambda: Worker(queue, ttl=None), "ttl"), (lambda: Worker(queue, finish=None), "finish"),
                       (lambda: queue.await_result(task, None), "timeout")):
        with pytest.raises(TypeError, match=f"{name} must be a timedelta or a number of seconds, not None"):
            call()


def test_a_group_that_is_none(make_queue):
    """What the function returns is checked as if the call had said it; one that fails has the call fail."""
    queue = make_queue()

    @queue.task("send", group=lambda payload: payload["tenant"])
    def send(payload, context):
        pass

    with pytest.raises(TypeError, match="group must be a str"):
        send.enqueue({"tenant": 1.5})
    with pytest.raises(KeyError):
        send.enqueue({})
    assert queue.stats().enqueued == 0
