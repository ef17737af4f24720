"""Failures that no other attempt would mend: what makes a task dead at once, and what does not.

Seen to fail: batches() without `final` in its key (the last verdict of a batch is that of all),
after_error() without Unrecoverable, without give_up_on, and with give_up_on before Retry and Snooze,
WorkerBase.find() without the worker's list, and with the list in place while no handler is found,
exceptions() without its check, nack_many() without `final`.
"""

import asyncio
import logging

import psycopg
import pytest

from pgfairq import AsyncQueue, AsyncWorker, Queue, Retry, Unrecoverable, Worker
from pgfairq.delivery import Settlement, batches, told


class Refused(Unrecoverable):
    """One of the application's own."""


class Closed(Exception):
    pass


class Gone(Closed):
    """Of a class that is given up on."""


def fail_as(payload, context):
    """What handlers below do, as their payload says."""
    if payload == "raised":
        raise Unrecoverable("no such mailbox")
    if payload == "own":
        raise Refused("by the application")
    if payload == "from":
        raise Unrecoverable("it cannot be read") from KeyError("the cause")
    if payload == "text":
        context.fail("no address")
    if payload == "error":
        context.fail(KeyError("address"))
    if payload == "silent":
        context.fail()
    if payload in ("listed", "derived", "of the worker", "other", "system"):
        raise {"listed": ValueError, "derived": Gone, "of the worker": LookupError, "other": RuntimeError,
               "system": SystemExit}[payload]("no")
    if payload == "retry":
        raise Retry("later", 3600)
    if payload == "snooze":
        context.snooze(3600)


DEAD = {"raised": "pgfairq.errors.Unrecoverable: no such mailbox", "own": "test_final.Refused: by the application",
        "from": "pgfairq.errors.Unrecoverable: it cannot be read", "text": "pgfairq.errors.Unrecoverable: no address",
        "error": "pgfairq.errors.Unrecoverable: 'address'", "silent": "pgfairq.errors.Unrecoverable: failed", "listed": "ValueError: no",
        "derived": "test_final.Gone: no", "of the worker": "LookupError: no"}
TRIED_AGAIN = ["other", "system", "retry"]
UNKNOWN = {"task": "unknown"}     # for which there is no handler, which is a LookupError
ALL = [*DEAD, *TRIED_AGAIN, "snooze", "good"]


def check(queue, dead, waiting, table):
    """Each task is where its payload says, after one attempt, and nothing of those that have failed is written."""
    errors = {one.payload: one.last_error for one in dead}
    assert {payload: error.split("\n")[0] for payload, error in errors.items()} == DEAD
    assert {one.attempts for one in dead} == {1}
    assert "test_final.py" in errors["raised"] and "KeyError" in errors["from"] and "the cause" in errors["from"]
    assert "after KeyError: 'address'" in errors["error"]
    assert sorted((one.payload, one.attempts) for one in waiting) == [("other", 1), ("retry", 1), ("snooze", 0), ("system", 1),
                                                                        ("unknown", 1)]
    with psycopg.connect(queue) as connection:
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == [("good",)]


@pytest.mark.parametrize("used", [False, True], ids=["batched", "with a transaction"])
def test_threads(make_queue, used, caplog):
    """All of these at once, so that final failures and others are told together."""
    queue = make_queue(backoff_base=3600)
    table = f'"{queue.name}"'
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (payload text)")
        connection.execute(f"INSERT INTO {table} SELECT 'good' WHERE NOT %s", (used,))

    @queue.task("fail", give_up_on=[ValueError, Closed])
    def fail(payload, context):
        if used:
            context.connection.execute(f"INSERT INTO {table} VALUES (%s)", (payload,))
        fail_as(payload, context)

    fail.enqueue_many(ALL)
    queue.enqueue("unknown", headers=UNKNOWN)
    with caplog.at_level(logging.WARNING, "pgfairq"):
        Worker(queue, concurrency=len(ALL), give_up_on=LookupError).run(drain=True)
    check(make_queue.conninfo, queue.dead(), queue.tasks("scheduled"), table)
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "attempt 1 failed, and there will be no other: " in line]) == len(DEAD)
    assert len([line for line in said if "attempt 1 failed: " in line]) == len(TRIED_AGAIN) + 1
    assert queue.stats().nacked == len(DEAD) + len(TRIED_AGAIN) + 1 and queue.revive_all() == len(DEAD)


@pytest.mark.parametrize("used", [False, True], ids=["batched", "with a transaction"])
def test_asyncio(database, request, used):
    async def main():
        queue = AsyncQueue(database, request.node.name[:40], backoff_base=3600)
        table = f'"{queue.name}"'
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            await connection.execute(f"CREATE TABLE {table} (payload text)")
            await connection.execute(f"INSERT INTO {table} SELECT 'good' WHERE NOT %s", (used,))

        @queue.task("fail", give_up_on=(ValueError, Closed))
        async def fail(payload, context):
            if used:
                await (await context.connection()).execute(f"INSERT INTO {table} VALUES (%s)", (payload,))
            fail_as(payload, context)

        await fail.enqueue_many(ALL)
        await queue.enqueue("unknown", headers=UNKNOWN)
        await AsyncWorker(queue, give_up_on=[LookupError]).run(drain=True)
        check(database, await queue.dead(), await queue.tasks("scheduled"), table)
        await queue.close()

    asyncio.run(main())


def test_each_handler_has_its_own_list(make_queue):
    queue = make_queue(backoff_base=3600)

    def fail(payload, context):
        raise ValueError(payload)

    queue.task("once", give_up_on=ValueError)(fail)
    queue.task("again")(fail)
    queue.task("also")(fail)
    for name in ("once", "again", "also"):
        queue.enqueue(name, headers={"task": name})
    Worker(queue).run(drain=True)
    assert [one.payload for one in queue.dead()] == ["once"]
    assert sorted(one.payload for one in queue.tasks("scheduled")) == ["again", "also"]


def test_a_list_of_everything(make_queue):
    """A task for which this worker has no handler may have one in another: it is not given up. Nor is one that says itself
    what comes next."""
    queue = make_queue(backoff_base=3600)

    @queue.task("known", give_up_on=Exception)
    def known(payload, context):
        fail_as(payload, context)
        if payload == "result":
            return {1}

    known.enqueue_many(["retry", "snooze", "other", "result"])
    queue.enqueue("unknown", headers=UNKNOWN)
    Worker(queue, give_up_on=(Exception,)).run(drain=True)
    assert sorted(one.payload for one in queue.dead()) == ["other", "result"]
    assert sorted(one.payload for one in queue.tasks("scheduled")) == ["retry", "snooze", "unknown"]


def test_a_commit_that_fails(make_queue):
    queue = make_queue(backoff_base=3600)
    table = f'"{queue.name}"'
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (payload int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    @queue.task(give_up_on=psycopg.errors.UniqueViolation)
    def twice(payload, context):
        context.connection.execute(f"INSERT INTO {table} VALUES (1), (1)")

    queue.enqueue(1)
    Worker(queue).run(drain=True)
    assert [(one.attempts, one.last_error.split(":")[0]) for one in queue.dead()] == [(1, "psycopg.errors.UniqueViolation")]


def test_what_is_no_exception(make_queue):
    queue = make_queue()
    for wrong in ("ValueError", ValueError("x"), [ValueError, None], int, KeyboardInterrupt, None):
        with pytest.raises(TypeError, match="give_up_on takes classes of exceptions"):
            queue.task("a", give_up_on=wrong)(lambda payload, context: None)
    queue.task("a")(lambda payload, context: None)
    with pytest.raises(TypeError, match="give_up_on takes classes of exceptions"):
        Worker(queue, give_up_on=["ValueError"])
    asynchronous = AsyncQueue(make_queue.conninfo, queue.name)
    with pytest.raises(TypeError, match="give_up_on takes classes of exceptions"):
        @asynchronous.task("a", give_up_on=5)
        async def handle(payload, context):
            pass


class Given:
    """A delivery, as far as it matters here."""

    queue = "q"

    def __init__(self, receipt):
        self.receipt = receipt


def test_batches():
    """Final failures go apart from those that are tried again, whatever their order; one of a delay is never final."""
    kinds = [("ack", None, False), ("nack", None, True), ("nack", None, False), ("nack", 5, False), ("release", 5, False)]
    some = [Settlement(kind, Given(f"{n} {kind} {final}"), error="no", delay=delay, final=final)
            for n in range(3) for kind, delay, final in kinds]
    sent = [(told(together, 1).query.decode(), told(together, 1).parameters, together) for together in batches(some)]
    assert len(sent) == len(kinds) and sum(len(together) for *_, together in sent) == len(some)
    for text, values, together in sent:
        assert len({(one.kind, one.delay, one.final) for one in together}) == 1
        if "nack_many" in text:
            assert values[-1] is together[0].final and not (together[0].final and together[0].delay)
