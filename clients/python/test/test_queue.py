"""Queue: what producers and operators call. Each call is compared with what the server then has.

Seen to fail: group_key() without its look at bool, json_text() without its check for
NUL, is_usable() without its look at the socket (an enqueue after a restart fails),
`connection` ignored by enqueue() (the task stays after a rollback), acquire() after a fork
without _forget_parents(); result_of() with the whole last_error, without_frames() without each of its words.
"""

import enum
import os
import threading
import uuid
from datetime import date, datetime, timedelta, timezone

import part_server
import psycopg
import psycopg_pool
import pytest

from pgfairq import AwaitTimeout, Queue, TaskFailed, Worker
from pgfairq.report import without_frames


class Plan(enum.Enum):
    FREE = "free"


@pytest.mark.parametrize("group, text", [
    (42, "42"), ("shop 42", "shop 42"), (uuid.UUID(int=7), str(uuid.UUID(int=7))), (date(2026, 1, 2), "2026-01-02"),
    (Plan.FREE, "free"), (None, ""), ("Zoë '\\ \"; --", "Zoë '\\ \"; --")])
def test_groups_of_any_simple_type(make_queue, group, text):
    queue = make_queue()
    task = queue.enqueue({"a": 1}, group=group)
    assert queue.get(task).group == text


@pytest.mark.parametrize("group", [True, 1.5, b"x", ["a"], "nul\0"])
def test_groups_that_are_a_mistake(make_queue, group):
    queue = make_queue()
    with pytest.raises((TypeError, ValueError), match="group"):
        queue.enqueue({}, group=group)
    assert queue.stats().ready == 0


@pytest.mark.parametrize("payload", [None, 1, "text", [1, [2]], {"ä": "\u20ac", "n": 1.5}, True, "'; DROP TABLE x; --%s", {"u": "\\u0000"}])
def test_payloads(make_queue, payload):
    queue = make_queue()
    assert queue.get(queue.enqueue(payload)).payload == payload
    assert [queue.get(task).payload for task in queue.enqueue_many([payload, payload])] == [payload] * 2
    assert [queue.get(task).payload for task in queue.enqueue_many([payload], headers={"h": 1})] == [payload]


@pytest.mark.parametrize("payload, error", [({1, 2}, TypeError), ({"a": "\0"}, ValueError), (float("nan"), ValueError), (object(), TypeError)])
def test_payloads_that_cannot_be(make_queue, payload, error):
    queue = make_queue()
    with pytest.raises(error, match="payload"):
        queue.enqueue(payload)
    with pytest.raises(error, match="payload"):
        queue.enqueue_many([1, payload])
    assert queue.stats().ready == 0


def test_details(make_queue):
    queue = make_queue()
    later = datetime.now(timezone.utc) + timedelta(hours=2)
    first = queue.enqueue(1, group="a", priority=7, cost=2.5, headers={"trace": "x"}, max_attempts=4, expires_at=later,
                          unique_key=17, unique_for=3600)
    status = queue.get(first)
    assert (status.priority, status.cost, status.headers, status.max_attempts, status.expires_at, status.unique_key) == \
        (7, 2.5, {"trace": "x"}, 4, later, "17")
    assert queue.enqueue(2, unique_key=17) == first
    queue.enqueue(3, unique_key=17, on_duplicate="replace", headers={})
    assert queue.get(first).payload == 3
    assert queue.get(queue.enqueue(4, delay=3600)).state == "scheduled"
    assert queue.get(queue.enqueue(5, delay=timedelta(hours=1))).state == "scheduled"
    assert queue.get(queue.enqueue(6, run_at=later)).run_at == later
    assert queue.get(queue.enqueue(7, after=[first], on_dead="run")).state == "held"
    assert queue.position(first).ahead == 0
    assert [one.id for one in queue.tasks("ready")] == [first]


@pytest.mark.parametrize("detail, message", [
    ({"delay": "5 s"}, "delay must be"), ({"delay": True}, "delay must be"), ({"run_at": datetime(2030, 1, 1)}, "no time zone"),
    ({"run_at": "tomorrow"}, "run_at must be"), ({"grp": 1}, "no argument 'grp'"), ({"headers": {"a": "\0"}}, "headers"),
    ({"unique_key": 1.5}, "unique_key must be")])
def test_details_that_are_a_mistake(make_queue, detail, message):
    queue = make_queue()
    with pytest.raises((TypeError, ValueError), match=message):
        queue.enqueue({}, **detail)
    assert queue.stats().ready == 0


def test_what_the_server_refuses(make_queue):
    queue = make_queue()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="priority"):
        queue.enqueue({}, priority=99)
    with pytest.raises(psycopg.errors.UndefinedObject, match="no such thing"):
        Queue(make_queue.conninfo, "no such thing").enqueue({})
    assert queue.enqueue({}) > 0    # the connection is as good as before


def test_enqueue_many(make_queue):
    queue = make_queue()
    tasks = queue.enqueue_many([{"n": n} for n in range(5)], group=[1, 2, None, "x", uuid.UUID(int=1)], priority=3, cost=[1, 2, 3, 0.5, 1])
    assert [(queue.get(t).payload["n"], queue.get(t).group, queue.get(t).cost) for t in tasks] == \
        [(0, "1", 1), (1, "2", 2), (2, "", 3), (3, "x", 0.5), (4, str(uuid.UUID(int=1)), 1)]
    later = datetime.now(timezone.utc) + timedelta(hours=2)
    tasks = queue.enqueue_many([5, 6, 7], group="g", headers=[{"h": 1}, None, {"h": 3}], delay=[None, 60, timedelta(hours=1)],
                               unique_key=["z", None, "a"], expires_at=[None, later, later])
    assert [(queue.get(t).payload, queue.get(t).headers, queue.get(t).state, queue.get(t).unique_key) for t in tasks] == \
        [(5, {"h": 1}, "ready", "z"), (6, None, "scheduled", None), (7, {"h": 3}, "scheduled", "a")]
    assert queue.enqueue_many([]) == [] == queue.enqueue_many([], headers={"h": 1})
    with pytest.raises(ValueError, match="group has 1 values for 2"):
        queue.enqueue_many([1, 2], group=[1])


def test_in_a_transaction(make_queue):
    queue = make_queue()
    for factory in (psycopg.rows.tuple_row, psycopg.rows.dict_row):
        with psycopg.connect(make_queue.conninfo, row_factory=factory) as transaction:
            task = queue.enqueue({"n": 1}, connection=transaction)
            queue.enqueue_many([1, 2], connection=transaction)
            assert queue.get(task) is None      # others do not see it yet
            transaction.rollback()
            assert queue.stats().ready == 0
            task = queue.enqueue({"n": 1}, connection=transaction)
        assert queue.get(task).state == "ready"
        assert queue.cancel(task)


def test_sources(make_queue, database):
    """A pool, and a function that connects; the pool's connections come back as they were."""
    name = make_queue().name
    with psycopg_pool.ConnectionPool(database, min_size=1, max_size=2) as pool:
        queue = Queue(pool, name)
        task = queue.enqueue({"from": "pool"})
        with pool.connection() as connection:
            assert not connection.autocommit
            assert queue.get(task).state == "ready"
    queue = Queue(lambda: psycopg.connect(database), name)
    assert queue.get(queue.enqueue(1)).payload == 1
    queue.close()
    for wrong in (5, None):
        with pytest.raises(TypeError, match="connection string"):
            Queue(wrong, name)
    with pytest.raises(TypeError, match="psycopg.Connection"):
        Queue(lambda: 5, name).enqueue(1)
    with pytest.raises(psycopg.ProgrammingError):
        Queue("nonsense=1", name)


def test_created_when_it_is_used(database):
    name = "made on demand"
    Queue(database, name)       # without settings nothing is created
    queue = Queue(database, name, max_attempts=3, keep_done=timedelta(hours=1), backoff_base=0, backoff_jitter=0.5, group_required=False)
    threads = [threading.Thread(target=queue.enqueue, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert queue.stats().ready == 8
    assert Queue(database, name, max_attempts=5).get(queue.enqueue(1)).max_attempts == 3    # it is left as it is
    queue.alter(max_attempts=6, lease=60, class_weights=[1, 0.5, 0.5, 0.5, 1])
    assert queue.get(queue.enqueue(1)).max_attempts == 6
    queue.enqueue_many([-1, -1], priority=0)
    with psycopg.connect(database, autocommit=True) as connection:
        claimed = connection.execute("SELECT priority FROM fairq.claim(%s, 4)", (name,)).fetchall()
    assert claimed == [(0,), (4,), (0,), (4,)]      # classes in turn
    queue.alter(class_weights=[])
    assert queue.drop() and not queue.drop()
    with pytest.raises(TypeError, match="no argument 'max_atempts'"):
        Queue(database, name, max_atempts=3)
    with pytest.raises(ValueError, match="empty"):
        Queue(database, "")


def test_a_role_that_may_not_create(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE ROLE producer LOGIN")
        Queue(database, "given", create=True).enqueue(1)
        connection.execute("GRANT INSERT ON fairq.q_given TO producer")
    assert Queue(database + " user=producer", "given", max_attempts=3).enqueue(1)


def test_operators(make_queue):
    queue = make_queue(max_attempts=1)
    queue.task()(lambda payload, context: 1 / 0)
    for group in ("a", "a", "b", "c"):
        queue.enqueue({"g": group}, group=group)
    assert [one.group for one in queue.peek(2)] == ["a", "b"]
    Worker(queue).run(drain=True)
    dead = queue.dead()
    assert sorted(one.group for one in dead) == ["a", "a", "b", "c"] and "ZeroDivisionError" in dead[0].last_error
    assert queue.revive(dead[0].id) and not queue.revive(dead[0].id)
    assert queue.revive_group("b") == 1 and queue.revive_all() == 2
    assert queue.stats().ready == 4
    assert queue.purge_group("a") == 2 and queue.purge() == 2
    for call in (queue.purge_group, queue.revive_group, queue.pause_group, queue.reset_group):
        with pytest.raises(TypeError, match="must not be None"):
            call(None)
    task = queue.enqueue(1, group=5)
    queue.pause_group(5)
    assert queue.peek() == []
    queue.resume_group(5)
    queue.pause()
    assert queue.peek() == []
    queue.resume()
    queue.set_group(5, weight=2, max_leased=1)
    assert queue.reset_group(5) and not queue.reset_group(5)
    assert queue.cancel(task) and not queue.cancel(task)


def test_results(make_queue):
    queue = make_queue(keep_done=timedelta(hours=1), max_attempts=1)

    @queue.task("add")
    def add(payload, context):
        return sum(payload)

    good, bad = add.enqueue([1, 2, 3]), add.enqueue(["x"])
    assert queue.outcome(good).state == "ready"
    with pytest.raises(AwaitTimeout, match="ready"):
        queue.await_result(good, timeout=0)
    Worker(queue).run(drain=True)
    assert queue.await_result(good) == 6
    with pytest.raises(TaskFailed, match="is dead: TypeError") as failed:
        queue.await_result(bad)
    assert failed.value.outcome.state == "dead" and failed.value.reason.startswith("TypeError: unsupported operand")
    assert str(failed.value) == f"task {bad} of queue {queue.name!r} is dead: {failed.value.reason}" and __file__ not in str(failed.value)
    assert __file__ in failed.value.outcome.last_error      # the frames are there, for who looks for them
    assert queue.outcome(10 ** 6) is None
    with pytest.raises(TaskFailed, match="no task 1000000"):
        queue.await_result(10 ** 6)
    assert add([4, 5], None) == 9   # the function is as it was


@pytest.mark.parametrize("last_error, reason", [
    ("plain", "plain"), ("two\nlines", "two\nlines"), ("panic: no\n\ngoroutine 7 [running]:\nmain.f()", "panic: no"),
    ("KeyError: 'to'\n  File \"/app.py\", line 3, in send\n    x", "KeyError: 'to'"), ("ValueError: no\n\nafter KeyError: 'a'", "ValueError: no"),
    ("Error: a\nb\n    at f (/x.js:1:2)", "Error: a\nb"), ("error: dup\n  code: 23505\ncaused by: x", "error: dup"),
    ("ArgumentError: no\n  /app/mail.rb:3:in `send'\nCaused by X", "ArgumentError: no")])
def test_why_a_task_has_failed_without_the_workers_paths(last_error, reason):
    """Whatever language its worker has: what is awaited ends up in the answers of web servers."""
    assert without_frames(last_error) == reason


def test_schedules_and_topics(make_queue):
    queue = make_queue()

    @queue.task("report")
    def report(payload, context):
        pass

    assert report.schedule("nightly", "30 2 * * *", {"job": 1}, timezone="Europe/Berlin", group=42) > datetime.now(timezone.utc)
    (one,) = queue.schedules()
    assert (one.name, one.cron, one.timezone, one.group, one.payload) == ("nightly", "30 2 * * *", "Europe/Berlin", "42", {"job": 1})
    assert queue.schedule("off", "@every 1 h", active=False) is None
    assert queue.unschedule("nightly") and queue.unschedule("off") and not queue.unschedule("off")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        queue.schedule("bad", "61 * * * *")
    queue.subscribe("order.#")
    assert queue.publish("order.eu.paid", {"n": 1}, group=7) == 1 and queue.publish("user.new", {}) == 0
    assert queue.unsubscribe("order.#") and not queue.unsubscribe("order.#")
    assert [one.payload for one in queue.peek()] == [{"n": 1}]


def test_hostile_content_can_be_read(make_queue):
    """Numbers with more digits than Python reads, and depths beyond its stack: by others than us, and not at our cost."""
    queue = make_queue()
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute("SELECT fairq.enqueue(%s, ('{\"n\": 1' || repeat('0', 5000) || '}')::jsonb)", (queue.name,))
        connection.execute("SET max_stack_depth = '6MB'")
        connection.execute("SELECT fairq.enqueue(%s, (repeat('[', 10000) || repeat(']', 10000))::jsonb)", (queue.name,))
    shown = queue.peek()
    assert shown[0].payload["n"] == 10 ** 5000
    assert shown[1].payload == "[" * 10000 + "]" * 10000


def test_after_a_restart_of_the_server(make_queue):
    queue = make_queue()
    first = queue.enqueue(1)
    part_server.restart()
    assert queue.enqueue(2) > first
    part_server.restart("immediate")
    part_server.wait_until(lambda: queue.stats().ready == 2, "both tasks are there")


def test_after_a_fork(make_queue):
    """The child has connections of its own, and leaves the parent's alone."""
    queue = make_queue()
    queue.enqueue("parent")
    with queue.source.connection() as connection:
        parents = connection.info.backend_pid
    pid = os.fork()
    if not pid:
        try:
            with queue.source.connection() as connection:
                assert connection.info.backend_pid != parents
            queue.enqueue("child")
            queue.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    queue.enqueue("parent")
    assert queue.stats().ready == 3
