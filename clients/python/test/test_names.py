"""Names of tasks and their handlers, losses, and what is known of the ends of a task.

Seen to fail: Handled._options() without the name, and with the header in place of it, task_name() without the header
(a task of an earlier version has no handler), and with the header first, ENQUEUE_EACH and ENQUEUE_MANY without names,
Delivery.__str__() without the name, ends() without its look at each part,
Details.named() without max_lost.
"""

import asyncio
import logging
from datetime import datetime, timedelta, timezone

import part_server
import psycopg
import pytest

from pgfairq import AsyncQueue, AsyncWorker, TaskEnd, Worker
from pgfairq.models import ends

EARLIER = {"task": "send"}      # so did an earlier version name the handler


def sql(database, statement, *values):
    with psycopg.connect(database, autocommit=True) as connection:
        return connection.execute(statement, values).fetchall()


def names(queue, **options):
    return [one.name for one in queue.tasks(**options)]


def test_where_the_name_goes(make_queue):
    queue = make_queue()
    send = queue.task("send")(lambda payload, context: None)
    send.enqueue(1)
    send.enqueue(2, headers={"trace": "x"}, name="other")       # it is the handler that names it
    send.enqueue_many([3, 4], group=["a", "b"])
    send.enqueue_many([5, 6], headers=[{"n": 5}, None])
    assert names(queue) == ["send"] * 6
    assert [one.headers for one in queue.tasks()] == [None, {"trace": "x"}, None, None, {"n": 5}, None]
    queue.enqueue_many([7, 8], name=["x", None])
    queue.enqueue_many([9, 10], name="y", max_lost=3)
    queue.subscribe(queue.name)
    assert queue.publish(queue.name, 11, name="published", max_lost=4) == 1
    queue.task()(lambda payload, context: None).enqueue(12, name="given")
    assert names(queue)[6:] == ["x", None, "y", "y", "published", "given"]
    assert [one.payload for one in queue.tasks(name="y")] == [9, 10] == [one.payload for one in queue.tasks("ready", name="y")]
    assert [one.max_lost for one in queue.tasks()][8:] == [3, 3, 4, 5]
    assert [one.name for one in queue.peek(1)] == ["send"]


def test_schedules(make_queue):
    queue = make_queue()
    send = queue.task("send")(lambda payload, context: None)
    send.schedule(f"{queue.name} 1", "@hourly", headers={"trace": "x"})
    queue.schedule(f"{queue.name} 2", "@hourly", task_name="other")
    queue.schedule(f"{queue.name} 3", "@hourly")
    assert [one.task_name for one in queue.schedules()] == ["send", "other", None]
    assert sql(make_queue.conninfo, "SELECT headers FROM fairq.schedules WHERE name = %s", f"{queue.name} 1") == [({"trace": "x"},)]


@pytest.mark.parametrize("name, message", [("", "1 to 100 bytes, not 0"), ("ä" * 51, "not 102"), ("a\0", "NUL"), (5, "must be a str")])
def test_names_that_cannot_be(make_queue, name, message):
    queue = make_queue()
    for call in (lambda: queue.enqueue(1, name=name), lambda: queue.enqueue_many([1, 2], name=["a", name]), lambda: queue.publish("t", 1, name=name),
                 lambda: queue.schedule("s", "@hourly", task_name=name), lambda: queue.task(name)(lambda payload, context: None)):
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    assert queue.stats().enqueued == 0
    assert queue.get(queue.enqueue(1, name="ä" * 50)).name == "ä" * 50


def test_which_handler(make_queue, caplog):
    """The name, or the header of a task of an earlier version; the log says which it was."""
    queue, seen = make_queue(max_attempts=1), []

    @queue.task("send")
    def send(payload, context):
        seen.append((payload, context.name, context.headers))
        if payload == "bad":
            raise ValueError

    @queue.task("other")
    def other(payload, context):
        seen.append((payload, "other", context.name))

    send.enqueue("named")
    queue.enqueue("earlier", headers=EARLIER)
    queue.enqueue("both", headers=EARLIER, name="other")
    queue.enqueue("bad", headers=EARLIER)
    queue.enqueue("unknown", name="\x1bsent")
    queue.enqueue("none", headers={"task": ["send"]})
    with caplog.at_level(logging.WARNING, "pgfairq"):
        Worker(queue, concurrency=1).run(drain=True)
    assert seen == [("named", "send", None), ("earlier", "send", EARLIER), ("both", "other", "other"), ("bad", "send", EARLIER)]
    bad, unknown, none = queue.dead()
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said[0] == f"task {bad.id} ('send') of queue {queue.name!r}: attempt 1 failed: ValueError"
    assert said[1].startswith(f"task {unknown.id} ('\\x1bsent') of queue") and "no handler for a task named '\\x1bsent'" in said[1]
    assert said[2].startswith(f"task {none.id} of queue") and "without a name" in said[2]
    assert (bad.name, unknown.name, none.name) == (None, "\x1bsent", None)


def test_asyncio(database, caplog):
    async def main():
        queue, seen = AsyncQueue(database, "asynchronous names", max_attempts=1, max_lost=7), []

        @queue.task("send")
        async def send(payload, context):
            seen.append((payload, context.name, context.headers))
            if payload == 3:
                raise ValueError

        await send.enqueue(1, max_lost=0)
        await send.enqueue_many([2, 3])
        await queue.enqueue(4, headers=EARLIER)
        assert [(one.name, one.max_lost) for one in await queue.tasks(name="send")] == [("send", 0), ("send", 7), ("send", 7)]
        await send.schedule("asynchronous", "@hourly")
        assert [one.task_name for one in await queue.schedules()] == ["send"]
        await queue.unschedule("asynchronous")
        await AsyncWorker(queue, concurrency=1).run(drain=True)
        assert sorted(seen) == [(1, "send", None), (2, "send", None), (3, "send", None), (4, "send", EARLIER)]
        bad, = await queue.dead()
        said = [record.getMessage() for record in caplog.records if record.name == "pgfairq"]
        assert said == [f"task {bad.id} ('send') of queue 'asynchronous names': {what}: ValueError"
                        for what in ("attempt 1 failed", "dead after attempt 1")]
        await queue.close()

    asyncio.run(main())


def lose(database, queue):
    """Its next task is claimed, and its lease has run out. A server has workers for a few databases, and perhaps none for this."""
    sql(database, "SELECT FROM fairq.claim(%s, lease => '1 microsecond')", queue.name)
    part_server.wait_until(lambda: sql(database, "SELECT fairq.maintain(%s)", queue.name) and sum(one.lost for one in queue.tasks()), "lost")


def test_losses_and_history(make_queue):
    queue = make_queue(max_attempts=2, max_lost=2, backoff_base=0)
    queue.alter(max_lost=3)
    task = queue.enqueue(1, name="send")
    assert (queue.get(task).lost, queue.get(task).max_lost, queue.get(task).history) == (0, 3, [])

    @queue.task("send")
    def send(payload, context):
        raise ValueError("no")

    lose(make_queue.conninfo, queue)
    before = datetime.now(timezone.utc)
    Worker(queue).run(drain=True)
    dead, = queue.dead()
    status = queue.get(task)
    assert (dead.name, dead.lost, dead.attempts) == ("send", 1, 2) == (status.name, status.lost, status.attempts)
    assert dead.history == status.history and [type(end) for end in dead.history] == [TaskEnd] * 3
    assert [(end.end, end.attempt) for end in dead.history] == [("lost", 1), ("failed", 2), ("failed", 3)]
    lost, failed, last = dead.history
    assert lost.at < before < failed.at <= last.at and before - lost.at < timedelta(minutes=5)
    assert failed.error.startswith("ValueError: no") and 0 <= failed.seconds < 60 and lost.worker and failed.worker != lost.worker


def test_lost_too_often(make_queue):
    queue = make_queue(max_lost=5)
    task = queue.enqueue(1, max_lost=1)
    lose(make_queue.conninfo, queue)
    assert (queue.get(task).state, queue.get(task).lost, queue.get(task).attempts) == ("dead", 1, 0)


def test_what_an_owner_has_written():
    """It is shown as far as it is what the server writes."""
    good = '{"at": "2026-01-02T03:04:05.1+00:00", "attempt": 2, "end": "failed", "worker": "w", "seconds": 1.5}'
    when = datetime(2026, 1, 2, 3, 4, 5, 100000, tzinfo=timezone.utc)
    parts = [good, "1", "null", "[]", "{}", good.replace("2026", "x"), good.replace("2,", "[],"), good.replace("1.5", '"x"'), good.replace(".1+", "+")]
    assert ends(f"[{', '.join(parts)}]") == [TaskEnd(when, 2, "failed", "w", 1.5, None),
                                             TaskEnd(when.replace(microsecond=0), 2, "failed", "w", 1.5, None)]
    for nothing in (None, "{}", "1", '"x"', "[]", "[" * 100000):
        assert ends(nothing) == []
