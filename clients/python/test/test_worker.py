"""Worker: which handler has a task, what becomes of its result and its errors, and how much is claimed.

Seen to fail: Registry.find() without its check of the header's type (TypeError ends the
worker), error_text() without clean() (the NUL is refused, and the task stays leased),
Pace.ahead() without its look at the mean (more is claimed than handlers are free), ack()
without KEPT (a result fails the task where none is kept), the ack outside of the handler's
transaction (a row is there whose task has failed), Run._give_back_stale() that finds
nothing (tasks wait behind a slow handler), Context._lose() without its cancel,
Run._finish() without settler.close() (what has run is released), Settler._serve() that
drops its work on an error (tasks stay leased), Pace.may_claim() that does not look at
`waiting`.
"""

import itertools
import threading
import time

import part_server
import psycopg
import psycopg_pool
import pytest
from conftest import running

from pgfairq import LeaseLost, Queue, Retry, Worker, settler
from pgfairq.pace import Pace


def drain(*queues, **options):
    Worker(list(queues), **options).run(drain=True)


def test_handlers_by_name(make_queue):
    queue, seen = make_queue(max_attempts=1), []

    @queue.task("send")
    def send(payload, context):
        seen.append(("send", payload, context.headers, context.group, context.queue, context.attempt, context.priority))

    @queue.task()
    def other(payload, context):
        seen.append(("other", payload))

    send.enqueue(1, group=42, headers={"trace": "x"})
    send.enqueue_many([2, 3], headers=[{"n": 2}, None])
    queue.enqueue(4)                                # by plain SQL, or without a name
    queue.enqueue(5, headers={"task": "unknown"})   # the default handler has it
    queue.enqueue(6, headers={"task": ["send"]})    # what a tenant made up
    drain(queue, concurrency=1)
    assert seen[0] == ("send", 1, {"trace": "x"}, "42", queue.name, 1, 4)
    assert sorted(name + str(payload) for name, payload, *_ in seen) == ["other4", "other5", "other6", "send1", "send2", "send3"]


def test_a_task_without_a_handler(make_queue):
    queue = make_queue(max_attempts=1)
    queue.task("send")(lambda payload, context: None)
    for headers in ({"task": "sent"}, None, {"task": 5}, {"task": {"a": 1}}):
        queue.enqueue(1, headers=headers)
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute("SELECT fairq.enqueue(%s, '1', headers => '[1]')", (queue.name,))
    drain(queue)
    dead = queue.dead()
    assert len(dead) == 5 and all("no handler for a task" in one.last_error for one in dead)
    assert "'sent'" in dead[0].last_error and "'send'" in dead[0].last_error


def test_registering_mistakes(make_queue):
    queue = make_queue()
    with pytest.raises(ValueError, match="no handler"):
        Worker([queue])
    queue.task("a")(lambda payload, context: None)
    with pytest.raises(ValueError, match="has a handler for task 'a' already"):
        queue.task("a")(lambda payload, context: None)
    with pytest.raises(TypeError, match="parentheses"):
        queue.task(None)(5)

    async def coroutine(payload, context):
        pass

    with pytest.raises(TypeError, match="AsyncQueue"):
        queue.task("b")(coroutine)
    for options, message in (({"concurrency": 0}, "concurrency"), ({"concurrency": True}, "concurrency"), ({"ttl": 0.5}, "ttl"),
                             ({"prefetch": -1}, "prefetch"), ({"finish": -1}, "finish"), ({"processes": 0}, "processes"),
                             ({"name": "a\0"}, "name")):
        with pytest.raises((ValueError, TypeError), match=message):
            Worker(queue, **options)
    with pytest.raises(ValueError, match="1 to 32 queues"):
        Worker([])
    with pytest.raises(ValueError, match="named twice"):
        Worker([queue, queue])
    elsewhere = Queue("dbname=elsewhere", "x")
    elsewhere.task()(lambda payload, context: None)
    with pytest.raises(ValueError, match="another connection"):
        Worker([queue, elsewhere])
    with pytest.raises(TypeError, match="takes queues"):
        Worker(["emails"])


def test_a_queue_that_is_not_there(database):
    queue = Queue(database, "not there")
    queue.task()(lambda payload, context: None)
    with pytest.raises(psycopg.errors.UndefinedObject, match="not there"):
        Worker(queue).run()


def test_result_and_writes_are_one(make_queue):
    """Rows of a handler that fails are gone with its transaction, and the others are there once."""
    queue = make_queue(max_attempts=3, backoff_base=0, keep_done=3600)
    table = "written_" + queue.name
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (task bigint, n int CHECK (n < 90), UNIQUE (task) DEFERRABLE INITIALLY DEFERRED)")

    @queue.task("write")
    def write(payload, context):
        context.connection.execute(f"INSERT INTO {table} VALUES (%s, %s)", (context.id, payload))
        if payload % 10 == 3 and context.attempt == 1:
            raise RuntimeError("not at first")
        if payload == 77:   # refused at the commit
            context.connection.execute(f"INSERT INTO {table} VALUES (%s, %s)", (context.id, payload))
        return {"n": payload}

    tasks = write.enqueue_many(list(range(100)), group=[n % 5 for n in range(100)])
    drain(queue, concurrency=4)
    with psycopg.connect(make_queue.conninfo) as connection:
        rows = dict(connection.execute(f"SELECT n, count(*) FROM {table} GROUP BY n").fetchall())
    assert rows == {n: 1 for n in range(90) if n != 77}
    dead = {one.payload: one.last_error for one in queue.dead()}
    assert sorted(dead) == [77, *range(90, 100)]
    assert "UniqueViolation" in dead[77] and "CheckViolation" in dead[95] and "test_worker.py" in dead[95]
    assert [queue.outcome(task).result for task in tasks[:3]] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_results_where_none_are_kept(make_queue):
    queue = make_queue(max_attempts=1)

    @queue.task()
    def handle(payload, context):
        if payload:
            context.connection.execute("SELECT 1")
        return {"result": payload}

    queue.enqueue_many([0, 1])
    drain(queue)
    assert queue.stats().acked == 2 and queue.dead() == []


def test_results_that_cannot_be(make_queue):
    queue = make_queue(max_attempts=1, keep_done=3600)
    queue.task()(lambda payload, context: {"set": {1}, "nan": float("nan"), "nul": "\0", "half": "\ud800", "good": 1}[payload])
    tasks = queue.enqueue_many(["set", "nan", "nul", "half", "good"])
    drain(queue, concurrency=1)
    assert [queue.outcome(task).state for task in tasks] == ["dead"] * 4 + ["acked"]
    assert all("result" in queue.outcome(task).last_error for task in tasks[:3])
    assert "refused" in queue.outcome(tasks[3]).last_error


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_errors_of_all_kinds(make_queue):
    """The worker lives through each of them, and last_error is text that the server takes."""
    queue = make_queue(max_attempts=1)

    @queue.task()
    def fail(payload, context):
        if payload == "key":
            return {}["name"]
        if payload == "deep":
            raise ValueError("outer") from KeyError("inner")
        raise {"nul": ValueError("a\0b"), "long": ValueError("x" * 10 ** 6), "half": ValueError("\ud800"), "exit": SystemExit(3),
               "interrupt": KeyboardInterrupt(), "unprintable": Unprintable(), "percent": ValueError("%s %n {0}")}[payload]

    kinds = ["key", "deep", "nul", "long", "half", "exit", "interrupt", "unprintable", "percent"]
    queue.enqueue_many(kinds)
    drain(queue)
    errors = {one.payload: one.last_error for one in queue.dead()}
    assert sorted(errors) == sorted(kinds)
    assert errors["key"].startswith("KeyError: 'name'") and "test_worker.py" in errors["key"] and "in fail" in errors["key"]
    assert "KeyError" in errors["deep"] and "inner" in errors["deep"]
    assert "a\\0b" in errors["nul"] and "SystemExit" in errors["exit"] and "Unprintable" in errors["unprintable"]
    assert len(errors["long"]) < 10000 and "%s %n {0}" in errors["percent"]


def test_retry_and_snooze(make_queue):
    queue, seen = make_queue(max_attempts=2, backoff_base=3600), []

    @queue.task()
    def handle(payload, context):
        seen.append((payload, context.attempt))
        if len([one for one in seen if one[0] == payload]) <= 3:
            if payload == "snooze":
                context.connection.execute("SELECT 1")
                context.snooze(0.001)
            if payload == "retry":
                context.retry("try again", 0)
            if payload == "raised":
                raise Retry("no", "soon")   # a delay that is none

    queue.enqueue_many(["snooze", "retry", "raised"])
    with running(Worker(queue, concurrency=2)):
        part_server.wait_until(lambda: queue.stats().acked == 1 and queue.dead(), "the snoozed one is done, the retried one dead")
    assert [one for one in seen if one[0] == "snooze"] == [("snooze", 1)] * 4      # no attempt is counted
    assert [one for one in seen if one[0] == "retry"] == [("retry", 1), ("retry", 2)]
    (dead,) = queue.dead()
    assert dead.payload == "retry" and dead.last_error.startswith("pgfairq.errors.Retry: try again")
    (waits,) = queue.tasks("scheduled")
    assert "delay of a retry must be" in waits.last_error


def test_progress_extend_and_check(make_queue):
    queue, step, told = make_queue(max_attempts=1, keep_done=3600), threading.Event(), []

    @queue.task()
    def long(payload, context):
        context.connection.execute("SELECT 1")
        context.progress({"done": 0.5})
        told.append(context.extend(60))
        told.append(context.cancelled)
        context.check()
        step.wait(100)

    task = queue.enqueue(1, headers={"mine": 1})
    with running(Worker(queue)):
        part_server.wait_until(lambda: queue.get(task).progress == {"done": 0.5}, "the progress is seen while the task runs")
        assert queue.get(task).headers["mine"] == 1
        part_server.wait_until(lambda: len(told) == 2, "extended")
        step.set()
        part_server.wait_until(lambda: queue.stats().acked == 1, "done")
    assert told[0].timestamp() > time.time() and told[1] is False
    assert queue.get(task) is None and queue.get_done(task).progress == {"done": 0.5}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_claims_only_what_is_free_to_run(make_queue, concurrency):
    """Of slow handlers no task is claimed before one is free for it, so others may have it."""
    queue, gate, ended, ahead = make_queue(), threading.Event(), [], []

    @queue.task()
    def slow(payload, context):
        gate.wait(100)
        time.sleep(0.1)     # so slow that three of them do not begin another one within 20 ms
        ahead.append(queue.stats().claimed - len(ended))
        ended.append(payload)

    queue.enqueue_many(list(range(12)))
    with running(Worker(queue, concurrency=concurrency)):
        part_server.wait_until(lambda: queue.stats().leased == concurrency, "all handlers are busy")
        gate.set()
        part_server.wait_until(lambda: queue.stats().acked == 12, "all are done")
    assert len(ahead) == 12 and max(ahead) <= concurrency


def test_the_quick_look_at_what_may_be_claimed():
    """It says what claim() says."""
    seen = set()
    for concurrency, prefetch, mean in itertools.product((1, 2, 5), (0, 3, 10), (None, 0.001, 0.01, 1.0)):
        pace = Pace(concurrency, prefetch)
        pace.mean = mean
        for pace.running, pace.waiting in itertools.product(range(concurrency + 1), range(concurrency + prefetch + 2)):
            assert pace.may_claim() is (pace.claim()[0] > 0), vars(pace)
            seen.add(pace.may_claim())
    assert seen == {False, True}


def test_what_was_claimed_ahead_is_given_back(make_queue):
    """Quick handlers have tasks claimed ahead. When one of them turns out slow, others get what waits behind it."""
    queue, gate, begun = make_queue(), threading.Event(), threading.Event()

    @queue.task()
    def handle(payload, context):
        if payload == "slow":
            begun.set()
            gate.wait(100)

    quick = 0
    with running(Worker(queue, concurrency=1)):
        while not queue.stats().released:   # on a busy machine what is quick may look slow for once: then again
            gate.clear()
            begun.clear()
            queue.enqueue_many(["quick"] * 500 + ["slow"] + ["quick"] * 50)
            quick += 550
            part_server.wait_until(begun.is_set, "the slow one has begun")
            part_server.wait_until(lambda: queue.stats().leased == 1, "only what runs is leased")
            gate.set()
            part_server.wait_until(lambda: queue.stats().ready == queue.stats().leased == 0, "all are done")
    assert queue.stats().expired == queue.stats().nacked == 0 and queue.stats().acked == quick + quick // 550


def test_what_has_run_is_told_before_the_end(make_queue, monkeypatch):
    """The session, whose end releases what is not acknowledged, waits for a settler that is slow."""
    queue, ended, send = make_queue(), [], settler.run
    queue.task()(lambda payload, context: ended.append(payload))
    monkeypatch.setattr(settler, "run", lambda *arguments: (time.sleep(0.3), send(*arguments))[1])
    queue.enqueue_many(list(range(1000)))
    with running(Worker(queue, concurrency=1)):
        part_server.wait_until(lambda: ended, "some have run")
    stats = queue.stats()
    assert (stats.acked, stats.ready, stats.expired) == (len(ended), 1000 - len(ended), 0)


def test_a_settler_that_loses_its_connection(make_queue, monkeypatch):
    """What it was about to tell is told through the next one. The session lives, so no one else would."""
    queue, seen, rounds, send = make_queue(), [], [], settler.run

    def lose_each_other(connection, statement):
        rounds.append(statement)
        if len(rounds) % 2:
            connection.close()
        return send(connection, statement)

    queue.task()(lambda payload, context: seen.append(payload))
    monkeypatch.setattr(settler, "run", lose_each_other)
    queue.enqueue_many(list(range(200)))
    with running(Worker(queue, concurrency=1)):
        part_server.wait_until(lambda: queue.stats().acked == 200, "all are told", 30)
    assert sorted(seen) == list(range(200)) and len(rounds) >= 2


def test_several_queues_in_their_order(make_queue):
    first, second, seen = make_queue("_1"), make_queue("_2"), []
    for queue in (first, second):
        queue.task()(lambda payload, context: seen.append(context.queue))
        queue.enqueue_many([1, 2, 3])
    drain(first, second, concurrency=1)
    assert seen == [first.name] * 3 + [second.name] * 3


def test_a_task_that_comes_while_all_is_idle(make_queue):
    queue, seen = make_queue(), []
    queue.task()(lambda payload, context: seen.append(payload))
    with running(Worker(queue)):
        for n in range(20):
            queue.enqueue(n)
            part_server.wait_until(lambda: seen[-1:] == [n], "handled")
        with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%claim_any%%' AND state = 'active' AND pid <> pg_backend_pid()"
            part_server.wait_until(lambda: connection.execute(waits).fetchone() == (1,), "it waits at the server")


def test_fair_between_groups(make_queue):
    queue, seen = make_queue(), []
    queue.task()(lambda payload, context: seen.append(context.group))
    queue.enqueue_many([0] * 300, group="big")
    queue.enqueue_many([0] * 3, group="small")
    drain(queue, concurrency=1)
    assert max(n for n, group in enumerate(seen) if group == "small") < 20 and len(seen) == 303


def test_a_lease_lost_in_the_handler(make_queue):
    """The task is cancelled while its handler runs: its statement ends, its rows are not committed."""
    queue, seen = make_queue(), []
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE in_vain (task bigint)")

    @queue.task()
    def handle(payload, context):
        context.connection.execute("INSERT INTO in_vain VALUES (1)")
        seen.append("began")
        try:
            context.connection.execute("SELECT pg_sleep(300)")
        except psycopg.errors.QueryCanceled:
            seen.append(context.cancelled)
            with pytest.raises(LeaseLost):
                context.connection
            raise

    task = queue.enqueue(1)
    with running(Worker(queue, ttl=8)):
        part_server.wait_until(lambda: seen, "it runs")
        assert queue.cancel(task)
        part_server.wait_until(lambda: len(seen) > 1, "its statement is cancelled")
    assert seen == ["began", True]
    with psycopg.connect(make_queue.conninfo) as connection:
        assert connection.execute("SELECT count(*) FROM in_vain").fetchone() == (0,)
    assert queue.get(task) is None


@pytest.mark.parametrize("kind", ["pool", "function"])
def test_connections_of_the_application(make_queue, database, kind):
    """A pool has its connections back afterwards, as they were; what a function has made is closed with the queue."""
    name = make_queue(backoff_base=0).name
    with psycopg_pool.ConnectionPool(database, min_size=1, max_size=5, open=True) as pool:
        queue = Queue(pool if kind == "pool" else lambda: psycopg.connect(database), name)

        @queue.task()
        def handle(payload, context):
            if payload % 2:
                context.connection.execute("SELECT 1")
            if payload == 7 and context.attempt == 1:
                context.connection.execute("SELECT 1 / 0")

        queue.enqueue_many(list(range(200)))
        Worker(queue, concurrency=3).run(drain=True)
        part_server.wait_until(lambda: queue.stats().scheduled == queue.stats().ready == 0 or Worker(queue).run(drain=True), "all are done")
        assert (queue.stats().acked, queue.stats().nacked) == (200, 1)
        queue.close()
        if kind == "pool":
            for connection in [pool.getconn() for _ in range(5)]:   # none is missing
                assert not connection.autocommit
                pool.putconn(connection)


def test_a_server_that_takes_no_more_connections(make_queue, database):
    """Handlers take turns with the connections that there are, and no attempt is counted."""
    queue = make_queue(max_attempts=1)
    with psycopg.connect(make_queue.conninfo, autocommit=True) as connection:
        connection.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 4; GRANT ALL ON fairq.\"q_%s\" TO few" % queue.name)
    limited = Queue(database + " user=few", queue.name)     # one for the session, one to settle, two for handlers

    @limited.task()
    def handle(payload, context):
        context.connection.execute("SELECT pg_sleep(0.01)")

    queue.enqueue_many(list(range(50)))
    Worker(limited, concurrency=10).run(drain=True)
    stats = queue.stats()
    assert (stats.acked, stats.nacked, stats.dead) == (50, 0, 0)
