"""Subgroups: the users of a tenant, between whom its share is fair.

Seen to fail: Details.named(), ENQUEUE_MANY, ENQUEUE_EACH and QueueBase._schedule() without the subgroup, CLAIM without
the column, named_subgroup() without its look at None.
"""

import asyncio
from uuid import UUID

import psycopg
import pytest

from pgfairq import AsyncQueue, AsyncWorker, Worker


def served(queue):
    """The payloads in the order in which they are handled."""
    order = []
    queue.task()(lambda payload, context: order.append((payload, context.group, context.subgroup)))
    Worker(queue, concurrency=1, prefetch=0).run(drain=True)
    return order


def settings(conninfo, queue):
    with psycopg.connect(conninfo) as connection:
        return connection.execute("SELECT group_key, subgroup_key, weight, max_leased, rate, burst, paused FROM fairq.subgroup_settings"
                                  " WHERE queue = %s ORDER BY group_key, subgroup_key", (queue.name,)).fetchall()


def test_where_the_subgroup_goes(make_queue):
    queue = make_queue(subgroups=True, max_attempts=1)
    send = queue.task("send")(lambda payload, context: 1 / 0)
    send.enqueue(1, group="shop", subgroup=UUID(int=1))
    queue.enqueue_many([2, 3, 4], group="shop", subgroup=["ann", None, ""])
    queue.enqueue_many([5, 6], group="shop", subgroup=7, headers=[{"n": 5}, None], name="send")
    queue.subscribe(queue.name)
    assert queue.publish(queue.name, 7, group="shop", subgroup="bob", name="send") == 1
    subgroups = [str(UUID(int=1)), "ann", None, None, "7", "7", "bob"]
    assert [one.subgroup for one in queue.tasks()] == subgroups
    assert [queue.get(one.id).subgroup for one in queue.tasks()] == subgroups
    assert {one.payload: one.subgroup for one in queue.peek()} == dict(zip(range(1, 8), subgroups))
    Worker(queue).run(drain=True)
    assert [one.subgroup for one in queue.dead()] == subgroups
    send.schedule(f"{queue.name} 1", "@hourly", group="shop", subgroup="ann")
    queue.schedule(f"{queue.name} 2", "@hourly", group="shop")
    assert [one.subgroup for one in queue.schedules()] == ["ann", None]


def test_users_of_a_group_take_turns(make_queue):
    queue = make_queue(subgroups=True)
    queue.enqueue_many(["a1", "a2", "a3", "b1", "c1"], group=["shop"] * 4 + ["other"], subgroup=["ann", "ann", "ann", "bob", None])
    order = served(queue)
    assert sorted(order[:3]) == [("a1", "shop", "ann"), ("b1", "shop", "bob"), ("c1", "other", None)]
    assert [payload for payload, _, _ in order[3:]] == ["a2", "a3"]


def test_weights_of_subgroups(make_queue):
    queue = make_queue(subgroups=True)
    queue.set_subgroup("shop", "ann", weight=3)
    queue.enqueue_many([1] * 60, group="shop", subgroup=["ann", "bob"] * 30)
    first = [subgroup for _, _, subgroup in served(queue)[:40]]
    assert 28 <= first.count("ann") <= 30


def test_operators(make_queue):
    queue = make_queue(subgroups=True)
    queue.set_subgroup(5, "ann", weight=2, max_leased=1, rate=3, burst=4)
    queue.pause_subgroup(5, "ann")
    queue.pause_subgroup(5, "")
    assert settings(make_queue.conninfo, queue) == [("5", "", None, None, None, None, True), ("5", "ann", 2, 1, 3, 4, True)]
    queue.enqueue_many(["a", "b", "none"], group=5, subgroup=["ann", "bob", None])
    assert [one.payload for one in queue.peek()] == ["b"]
    queue.resume_subgroup(5, "ann")
    assert sorted(one.payload for one in queue.peek()) == ["a", "b"]
    assert queue.reset_subgroup(5, "") and queue.reset_subgroup(5, "ann") and not queue.reset_subgroup(5, "ann")
    assert len(queue.peek()) == 3 and settings(make_queue.conninfo, queue) == []
    queue.set_group_defaults(weight=2, max_leased=7, rate=8, burst=9)
    queue.set_subgroup_defaults(weight=3, max_leased=4, rate=5, burst=6)
    with psycopg.connect(make_queue.conninfo) as connection:
        assert connection.execute("SELECT group_weight, group_max_leased, group_rate, group_burst, subgroup_weight, subgroup_max_leased,"
                                  " subgroup_rate, subgroup_burst FROM fairq.queues WHERE queue = %s", (queue.name,)).fetchall() \
            == [(2, 7, 8, 9, 3, 4, 5, 6)]


def test_in_a_transaction(make_queue):
    queue = make_queue(subgroups=True)
    with psycopg.connect(make_queue.conninfo) as connection:
        queue.set_subgroup("shop", "ann", weight=2, connection=connection)
        queue.set_subgroup_defaults(weight=2, connection=connection)
        connection.rollback()
    assert settings(make_queue.conninfo, queue) == []


@pytest.mark.parametrize("subgroup, message", [(True, "subgroup must be a str"), (1.5, "subgroup must be a str"), ("a\0", "NUL")])
def test_subgroups_that_are_a_mistake(make_queue, subgroup, message):
    queue = make_queue(subgroups=True)
    for call in (lambda: queue.enqueue(1, subgroup=subgroup), lambda: queue.enqueue_many([1, 2], subgroup=["a", subgroup]),
                 lambda: queue.publish("t", 1, subgroup=subgroup), lambda: queue.schedule("s", "@hourly", subgroup=subgroup),
                 lambda: queue.set_subgroup("g", subgroup, weight=1)):
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    for method in (queue.pause_subgroup, queue.resume_subgroup, queue.set_subgroup, queue.reset_subgroup):
        with pytest.raises(TypeError, match="subgroup must not be None"):
            method("g", None)
        with pytest.raises(TypeError, match="group must not be None"):
            method(None, "s")
    with pytest.raises(ValueError, match="subgroup has 1 values for 2"):
        queue.enqueue_many([1, 2], subgroup=["a"])


def test_queues_without_subgroups(make_queue):
    queue = make_queue()
    with pytest.raises(psycopg.Error, match="subgroup_key"):
        queue.enqueue(1, group="shop", subgroup="ann")
    assert queue.get(queue.enqueue(1, group="shop", subgroup="")).subgroup is None
    with pytest.raises(psycopg.Error, match="has no subgroups"):
        queue.set_subgroup("shop", "ann", weight=2)
    queue.purge()
    queue.alter(subgroups=True)
    assert queue.get(queue.enqueue(1, group="shop", subgroup="ann")).subgroup == "ann"


def test_asyncio(database):
    async def main():
        queue, seen = AsyncQueue(database, "asynchronous subgroups", subgroups=True), []

        @queue.task()
        async def note(payload, context):
            seen.append((payload, context.subgroup))

        await queue.pause_subgroup("shop", "bob")
        await queue.resume_subgroup("shop", "bob")
        await queue.set_subgroup("shop", "bob", weight=2)
        assert await queue.reset_subgroup("shop", "bob") and not await queue.reset_subgroup("shop", "bob")
        await queue.set_group_defaults(weight=2)
        await queue.set_subgroup_defaults(weight=3)
        await note.enqueue_many(["a1", "a2", "b1"], group="shop", subgroup=["ann", "ann", "bob"])
        task = await queue.enqueue("b2", group="shop", subgroup="bob")
        assert (await queue.get(task)).subgroup == "bob"
        await AsyncWorker(queue, concurrency=1, prefetch=0).run(drain=True)
        assert sorted(seen[:2]) == [("a1", "ann"), ("b1", "bob")] and sorted(seen[2:]) == [("a2", "ann"), ("b2", "bob")]
        await queue.close()

    asyncio.run(main())
