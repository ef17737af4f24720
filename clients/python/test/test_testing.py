"""pgfairq.testing, as the tests of an application use it.

Seen to fail: run_inline() without JSON in between (a set as a result passes), without the handler's group, without
the functions on "before", and with what is snoozed or lost as failed; TestingBase without its check (a handler that
has lost its task goes on); Drained.note() without the errors; assert_enqueued() with any task of the queue for those
of the handler, with payloads that are to be equal, with a group that is None as no task has it, with headers that
have not been through JSON, without the connection (what the transaction has enqueued is not seen).
"""

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone

import psycopg
import pytest

from pgfairq import AsyncQueue, LeaseLost, Queue, Snooze, Unrecoverable
from pgfairq.testing import assert_enqueued, async_context, context, drain, refute_enqueued, run_inline

NOWHERE = "host=/nowhere"      # no server


@dataclass
class Letter:
    to: str
    at: datetime


NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_a_context_without_a_server():
    queue = Queue(NOWHERE, "letters")

    @queue.task("send")
    def send(payload, context):
        context.progress({"half": payload})
        context.extend(60)
        if context.attempt > 1:
            context.fail("twice")
        context.check()
        return (context.id, context.name, context.queue, context.group, context.subgroup, context.headers, context.attempt, context.priority,
                context.enqueued_at, context.expires_at, context.worker, context.cancelled)

    made = context(id=7, name="send", queue="letters", group=42, subgroup="ann", headers={"a": 1}, priority=2, enqueued_at=NOW, expires_at=NOW)
    assert send(1, made) == (7, "send", "letters", "42", "ann", {"a": 1}, 1, 2, NOW, NOW, "test", False)
    assert made.told == [{"half": 1}] and made.extended == [60]
    with pytest.raises(Unrecoverable, match="twice"):
        send(1, context(attempt=2))
    made = context()
    assert (made.id, made.name, made.group, made.subgroup, made.headers, made.expires_at) == (1, None, "", None, None, None)
    made.lose("its worker ends")
    assert made.cancelled
    with pytest.raises(LeaseLost, match="task 1 of queue 'test': its worker ends"):
        send(1, made)
    with pytest.raises(Snooze):
        context().snooze(5)
    with pytest.raises(RuntimeError, match="has no connection: give it one"):
        context().connection
    connection = object()
    assert context(connection=connection).connection is connection
    with pytest.raises(TypeError, match="a context has no 'grup'; there are: attempt, connection"):
        context(grup=1)
    for wrong in ({"group": 1.5}, {"name": ""}, {"enqueued_at": "now"}, {"headers": {1}}):
        with pytest.raises((TypeError, ValueError)):
            context(**wrong)
    with pytest.raises(TypeError, match="progress"):
        context().progress({1})


def test_contexts_of_coroutines():
    async def main():
        made = async_context(connection="connection")
        assert await made.connection() == "connection" and await made.extend() > datetime.now(timezone.utc)
        await made.progress(1)
        assert made.told == [1] and made.extended == [None]
        made.lose()
        with pytest.raises(LeaseLost):
            await made.connection()

    asyncio.run(main())


def test_inline():
    queue, told = Queue(NOWHERE, "letters", max_attempts=3), []
    queue.on("before", lambda context: told.append(("before", context.group)))
    queue.on("failed", lambda context, ending: told.append(("failed", type(ending.error).__name__)))
    queue.on("after", lambda context, ending: told.append(("after", ending.outcome)))

    @queue.task("send", group=lambda letter: letter.to, priority=2)
    def send(letter: Letter, context) -> Letter:
        assert (context.name, context.queue, context.priority) == ("send", "letters", 2)
        if letter.to == "nobody":
            raise KeyError(letter.to)
        return Letter(letter.to + "!", letter.at)

    assert run_inline(send, Letter("ann", NOW)) == Letter("ann!", NOW)
    assert told == [("before", "ann"), ("after", "done")]
    told.clear()
    with pytest.raises(KeyError, match="nobody"):
        run_inline(send, Letter("nobody", NOW), group="own")
    assert told == [("before", "own"), ("failed", "KeyError"), ("after", "failed")]
    with pytest.raises(TypeError, match="must be Letter"):
        run_inline(send, {"to": "ann"}, group=1)

    @queue.task("plain")
    def plain(payload, context):
        return {1} if payload == "set" else (payload, context.attempt)

    assert run_inline(plain, {1: "a"}, attempt=2) == [{"1": "a"}, 2]      # as JSON has it
    with pytest.raises(TypeError, match="result cannot be written as JSON"):
        run_inline(plain, "set")
    with pytest.raises(TypeError, match="payload cannot be written as JSON"):
        run_inline(plain, {NOW})
    with pytest.raises(TypeError, match="a handler is what @queue.task"):
        run_inline(print, 1)


def test_inline_as_a_worker_has_it():
    """What is snoozed has not failed, nor has what is lost."""
    queue, told = Queue(NOWHERE, "letters"), []
    for event in ("failed", "lost", "after"):
        queue.on(event, lambda context, ending, event=event: told.append((event, ending.outcome, type(ending.error))))

    @queue.task("send")
    def send(payload, context):
        if payload == "lost":
            context.lose()
        context.check()
        context.snooze(5)

    with pytest.raises(Snooze):
        run_inline(send, "snoozed")
    assert told == [("after", "snoozed", type(None))]
    told.clear()
    with pytest.raises(LeaseLost):
        run_inline(send, "lost")
    assert told == [("lost", "lost", LeaseLost), ("after", "lost", LeaseLost)]


def test_inline_coroutines():
    queue, told = AsyncQueue(NOWHERE, "letters"), []

    @queue.on("before")
    async def before(context):
        told.append(context.group)

    @queue.task("send")
    async def send(letter: Letter, context) -> str:
        await context.progress(1)
        if letter.to == "nobody":
            context.snooze(5)
        return letter.to

    for event in ("failed", "after"):
        queue.on(event, lambda context, ending: told.append(ending.outcome))
    assert asyncio.run(run_inline(send, Letter("ann", NOW), group=5)) == "ann" and told == ["5", "done"]
    with pytest.raises(Snooze):
        asyncio.run(run_inline(send, Letter("nobody", NOW)))
    assert told == ["5", "done", "", "snoozed"]


def test_without_a_driver_for_tests(tmp_path):
    """An application's test file: no server, no fixture, no plugin; and pytest takes none of ours for tests."""
    (tmp_path / "test_letters.py").write_text("""
from pgfairq import Queue
from pgfairq.testing import *
from pgfairq.testing import TestContext, context, run_inline

letters = Queue("host=/nowhere", "letters")

@letters.task("send")
def send(payload, context):
    return payload["to"]

def test_send():
    assert run_inline(send, {"to": "ann"}) == "ann"
""")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_drain(make_queue):
    queue, other = make_queue("_1", max_attempts=2, backoff_base=0), make_queue("_2")

    @queue.task("send")
    def send(payload, context):
        if payload == "fails":
            raise KeyError(payload)
        if payload == "once" and context.attempt == 1:
            raise ValueError(payload)
        if payload == "snoozes":
            context.snooze(3600)
        if payload == "asks":
            note.enqueue(1)

    @other.task("note")
    def note(payload, context):
        pass

    send.enqueue_many(["good", "fails", "once", "snoozes", "asks"])
    drained = drain(queue, other)
    assert (drained.done, drained.failed, drained.dead, drained.snoozed, drained.lost, drained.released) == (4, 3, 1, 1, 0, 0)
    assert sorted(type(error).__name__ for error in drained.errors) == ["KeyError", "KeyError", "ValueError"]
    assert drain(queue, give_up_on=ValueError).done == 0
    with pytest.raises(TypeError, match="unexpected keyword"):
        drain(queue, concurency=2)


def test_what_was_enqueued(make_queue):
    queue = make_queue(subgroups=True)
    send = queue.task("send")(lambda payload, context: None)
    note = queue.task("note")(lambda payload, context: None)
    refute_enqueued(queue)
    with pytest.raises(AssertionError, match="expected a task in queue '.*' with name 'send'; there is none"):
        assert_enqueued(send)
    task = send.enqueue({"to": "ann", "at": {"day": 1, "hour": 2}}, group=42, subgroup="u", priority=2, unique_key="k", headers={"a": 1, "b": 2})
    note.enqueue([1, 2])
    found, = assert_enqueued(send, {"at": {"day": 1}}, group=42, subgroup="u", priority=2, unique_key="k", headers={"a": 1},
                             state="overflow")      # where tasks of a queue with subgroups wait
    assert found.id == task
    assert_enqueued(queue, count=2)
    assert_enqueued(note, [1, 2])
    assert_enqueued(note, (1, 2), group=None)
    send.enqueue({}, headers={"of": (1, 2)}, group=7)
    assert_enqueued(send, headers={"of": (1, 2)}, count=1)
    queue.purge_group(7)
    refute_enqueued(note, [1])
    refute_enqueued(send, {"to": "bob"})
    refute_enqueued(queue, name="other")
    for call, message in ((lambda: assert_enqueued(send, {"to": "bob"}, group=42), "with group '42', name 'send', payload {'to': 'bob'}; there are 2:\n  'send'"),
                          (lambda: assert_enqueued(queue, count=3), "expected 3 tasks, not 2, in queue"),
                          (lambda: refute_enqueued(note), "expected 0 tasks, not 1, in queue")):
        with pytest.raises(AssertionError) as failed:
            call()
        assert message in str(failed.value), str(failed.value)
    for call in (lambda: assert_enqueued(queue, payloads=1), lambda: assert_enqueued(print)):
        with pytest.raises(TypeError, match="there are: payload, group|not in <built-in"):
            call()


def test_within_a_transaction(make_queue):
    """Its tasks are seen there, and gone with it."""
    queue = make_queue()
    send = queue.task("send")(lambda payload, context: None)
    with psycopg.connect(make_queue.conninfo) as connection:
        send.enqueue(1, connection=connection)
        assert_enqueued(send, 1, connection=connection)
        refute_enqueued(send)
        connection.rollback()
    refute_enqueued(send)


def test_asyncio(database):
    async def main():
        queue = AsyncQueue(database, "testing", max_attempts=1)

        @queue.task("send")
        async def send(payload, context):
            if payload == 2:
                raise KeyError

        await send.enqueue_many([1, 2])
        await assert_enqueued(send, count=2)
        with pytest.raises(AssertionError, match="there are 2"):
            await assert_enqueued(send, 3)
        await refute_enqueued(queue, group=5)
        drained = await drain(queue)
        assert (drained.done, drained.failed, drained.dead) == (1, 1, 1)

    asyncio.run(main())
