"""The library has what SQL has: each function of schema fairq and each column of its views is here, or is left to SQL for a reason.

To see it fail: take a name out of HERE or LEFT_TO_SQL, or a field out of a model.
"""

import asyncio
import inspect

import psycopg
import pytest

from pgfairq import AsyncQueue, Queue, Worker, models, options

OF_WORKERS = "a worker does it"
OF_CLUSTERS = "for who runs a cluster, in SQL"
LEFT_TO_SQL = {
    **dict.fromkeys(["claim", "claim_any", "ack", "ack_many", "ack_and_claim", "nack", "nack_many", "release", "release_many", "extend",
                     "extend_many", "set_progress", "open_session", "heartbeat", "close_session", "wait", "wait_any", "my_buckets"], OF_WORKERS),
    **dict.fromkeys(["set_node", "this_node", "node_of_id", "node_of_receipt", "node_of_session", "front", "raise_floor"], OF_CLUSTERS),
    **dict.fromkeys(["bucket", "class", "block", "slot"], "parts of an address, which the engine alone goes by"),
}
HERE = {"create_queue": "ensure", "alter_queue": "alter", "drop_queue": "drop", "get_task": "get", "get_task_by_key": "get_by_key",
        "get_done_task": "get_done", "get_task_position": "position", "await": "await_result"}     # others have their own names
VIEWS = {"queues": models.Settings, "queue_stats": models.QueueStats, "name_stats": models.NameStats, "group_stats": models.GroupStats,
         "group_settings": models.GroupSettings, "subgroup_stats": models.SubgroupStats, "subgroup_settings": models.SubgroupSettings,
         "leases": models.Lease, "sessions": models.SessionStatus, "dependencies": models.Dependency, "done_tasks": models.DoneTask,
         "dead_tasks": models.DeadTask, "schedules": models.Schedule, "topics": None}
LEFT_VIEWS = {"queue_histograms": "for exporters", "name_histograms": "for exporters", "bucket_stats": "for those who look at the engine"}
TYPES = {"task": models.Task, "task_status": models.TaskStatus, "task_done": models.DoneTask, "outcome": models.Outcome,
         "task_position": models.Position}
LEFT_COLUMNS = {"queue": "it is the queue that was asked", "address": "the engine's", "receipt": "of a claim", "lease_until": "of a claim",
                "relation": "no client reads the table itself"}


@pytest.fixture(scope="module")
def sql(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield lambda query: [row[0] for row in connection.execute(query).fetchall()]


def test_functions(sql):
    functions = sql("""SELECT DISTINCT proname FROM pg_proc p WHERE pronamespace = 'fairq'::regnamespace AND prokind IN ('f', 'p')
        AND NOT EXISTS (SELECT FROM pg_operator o WHERE o.oprcode = p.oid)
        AND NOT EXISTS (SELECT FROM pg_amproc a WHERE a.amproc = p.oid)
        AND NOT EXISTS (SELECT FROM pg_type t WHERE p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend))""")
    assert len(functions) > 60
    for kind in (Queue, AsyncQueue):
        missing = [name for name in functions if name not in LEFT_TO_SQL and not callable(getattr(kind, HERE.get(name, name), None))]
        assert missing == []
    assert [name for name in (*LEFT_TO_SQL, *HERE) if name not in functions] == []


def test_arguments(sql):
    """Of the functions whose arguments are keywords here."""
    for function, known, others in (("create_queue", options.QueueOptions, {"queue", "if_not_exists"}),
                                    ("alter_queue", options.AlterOptions, {"queue"}),
                                    ("enqueue", options.EnqueueOptions, {"queue", "payload"}),
                                    ("publish", options.PublishOptions, {"topic", "payload"}),
                                    ("schedule", options.ScheduleOptions, {"name", "queue", "cron", "payload"})):
        named = sql(f"SELECT unnest(proargnames[:pronargs]) FROM pg_proc WHERE oid = (SELECT oid FROM pg_proc WHERE proname = '{function}'"
                    " AND pronamespace = 'fairq'::regnamespace)")
        ours = {{"group": "group_key", "subgroup": "subgroup_key"}.get(name, name) for name in known.__annotations__}
        assert set(named) - others == ours, function
    limits = set(inspect.signature(Queue.set_group).parameters) - {"self", "group", "connection"}
    assert limits == set(sql("SELECT unnest(proargnames) FROM pg_proc WHERE proname = 'set_group'")) - {"queue", "group_key"}


def test_columns(sql):
    views = sql("SELECT relname FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relkind = 'v'")
    assert sorted(views) == sorted([*VIEWS, *LEFT_VIEWS])
    for name, model in {**VIEWS, **TYPES}.items():
        columns = sql(f"SELECT attname FROM pg_attribute WHERE attrelid = 'fairq.{name}'::regclass AND attnum > 0 AND NOT attisdropped")
        ours = set(models.columns(model)) if model is not None else {"topic"}
        left = set(columns) - ours
        assert left <= set(LEFT_COLUMNS), (name, left)
        assert ours <= set(columns), (name, ours - set(columns))


def test_same_methods():
    """Queue and AsyncQueue: with the same arguments."""
    def of(kind):
        return {name: list(inspect.signature(method).parameters) for name, method in inspect.getmembers(kind, inspect.isfunction)
                if not name.startswith("_")}

    assert of(Queue) == of(AsyncQueue) and "group_stats" in of(Queue)


def every(queue, run, other):
    """Each of the methods that only ask, or do one thing, with what is there."""
    task = run(queue.enqueue({"n": 1}, group=42, subgroup="ann", unique_key="key", name="send", lease=60))
    after = run(queue.enqueue(2, after=[task], group="b"))
    assert run(queue.get_by_key("key")).id == task and run(queue.get_by_key("other")) is None
    assert str(run(queue.get(task)).lease) == "0:01:00" and run(queue.get_done(task)) is None
    (one,) = run(queue.dependencies())
    assert (one.task, one.predecessor, one.on_dead, one.failed) == (after, task, "hold", False)
    run(queue.set_group(42, weight=2, max_leased=3))
    run(queue.set_subgroup(42, "ann", rate=5))
    run(queue.set_group_defaults(max_leased=7))
    (group,), (subgroup,) = run(queue.group_settings()), run(queue.subgroup_settings())
    assert (group.group, group.weight, group.max_leased, group.paused) == ("42", 2.0, 3, False) and group.group_id == run(queue.group_id(42))
    assert (subgroup.subgroup, subgroup.rate, subgroup.subgroup_id) == ("ann", 5.0, run(queue.group_id("ann")))
    (group,), (subgroup,) = run(queue.group_stats()), run(queue.subgroup_stats())
    assert (group.group, group.ready + group.overflow, group.leased, group.weight) == ("42", 1, 0, 2.0)
    assert (subgroup.group, subgroup.subgroup, subgroup.leased) == ("42", "ann", 0)
    settings = run(queue.settings())
    assert (settings.queue, settings.policy, settings.group_max_leased, settings.subgroups, settings.paused) == (queue.name, "fair", 7, True, False)
    (popped,) = run(queue.pop(5, groups=[42]))
    assert popped.id == task and popped.group == "42" and run(queue.pop(wait=0.01, groups=["nobody"])) == []
    assert run(queue.leases()) == [] and run(queue.maintain()) >= 0
    (name,) = [one for one in run(queue.name_stats()) if one.name == "send"]
    assert (name.enqueued, name.done, name.other) == (1, 1, False)
    done = run(queue.get_done(task))
    assert (done.outcome, done.group, done.payload, done.name) == ("acked", "42", {"n": 1}, "send")
    assert [one.id for one in run(queue.done(name="send"))] == [task] and run(queue.done(name="other")) == []
    run(queue.enqueue(1, unique_key="remembered", unique_for=3600))
    assert run(queue.forget_key("remembered")) and not run(queue.forget_key("remembered")) and run(queue.forget_keys()) == 0
    run(queue.reset_stats())
    assert run(queue.stats()).enqueued == 0 and run(queue.stats()).swept == 0
    run(queue.subscribe("a.*"))
    assert run(queue.topics()) == ["a.*"]
    assert isinstance(run(queue.sessions()), list)
    with pytest.raises(LookupError, match="there is no queue 'nowhere'"):
        run(other.settings())


def test_threads(make_queue, database):
    queue = make_queue(subgroups=True, keep_done=3600)
    every(queue, lambda value: value, Queue(database, "nowhere"))
    with psycopg.connect(database) as connection:
        queue.enqueue(5, group="tx")
        assert len(queue.pop(10, connection=connection)) >= 1
        connection.rollback()
    assert queue.stats().ready + queue.stats().overflow >= 1
    seen = []
    queue.task()(lambda payload, context: seen.append((len(queue.leases()), len(queue.sessions()))))
    Worker(queue, concurrency=1, prefetch=0).run(drain=True)
    assert seen[0] == (1, 1)


def test_asyncio(database):
    with asyncio.Runner() if hasattr(asyncio, "Runner") else Loop() as runner:
        every(AsyncQueue(database, "every", subgroups=True, keep_done=3600), runner.run, AsyncQueue(database, "nowhere"))


class Loop:
    """asyncio.Runner, of before Python 3.11."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        return self

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def __exit__(self, *_):
        self.loop.close()
