"""pg-boss: what it sent with its own functions is moved with the statements of the page, and back.

Seen to fail: "a worker's lock" without SKIP LOCKED (the move waits for the worker), "what is active" with no condition
on the state, "flows" without NOT blocked AND NOT blocking.
"""

import datetime

import psycopg
import pytest

import page

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def boss(database):
    def call(command, *argument):
        return database.node("pgboss.mjs", command, *argument)
    call("create", {"retryLimit": 4, "retryDelay": 7, "policy": "standard"})
    return call


def test_each_job_is_moved_as_it_was(database, boss):
    times = [[{"n": 1}, {}],
             [{"n": 2, "text": "ä'\"\\; DROP"}, {"priority": 3, "group": {"id": "shop 42"}}],
             [{"n": 3}, {"startAfter": 3600, "priority": -20}],
             [{"n": 4}, {"priority": 99, "retryLimit": 0, "retentionSeconds": 60}],
             [None, {"singletonKey": "page 17"}]]
    ids = boss("send", times)
    before = dict(database.rows("SELECT id::text, start_after FROM pgboss.job"))
    assert page.moved(database.conninfo, "pg-boss move") == (5, 5)
    tasks = database.tasks()
    assert list(tasks) == ids                                      # in their order
    assert [tasks[i].payload for i in ids] == [{"n": 1}, times[1][0], {"n": 3}, {"n": 4}, None]
    assert [tasks[i].group_key for i in ids] == ["", "shop 42", "", "", ""]
    assert [tasks[i].priority for i in ids] == [4, 1, 9, 0, 4]
    assert [tasks[i].own_attempts for i in ids] == [5, 5, 5, 1, 5]
    assert [tasks[i].state for i in ids] == ["ready", "ready", "scheduled", "ready", "ready"]
    assert tasks[ids[2]].run_at == before[ids[2]]                  # to the microsecond
    assert tasks[ids[3]].expires_at - tasks[ids[3]].enqueued_at < HOUR
    assert tasks[ids[4]].headers["singleton_key"] == "page 17" and tasks[ids[4]].unique_key is None
    assert database.value("SELECT count(*) FROM pgboss.job") == 0
    assert database.rows("SELECT job FROM moved WHERE source = 'pg-boss emails' ORDER BY task") == [(i,) for i in ids]


def test_run_again_it_moves_what_has_come_since(database, boss):
    boss("send", [[{"n": n}, {}] for n in range(3)])
    assert page.moved(database.conninfo, "pg-boss move") == (3, 3)
    assert page.moved(database.conninfo, "pg-boss move") == (0, 0)
    boss("send", [[{"n": 3}, {}]])
    assert page.moved(database.conninfo, "pg-boss move") == (1, 1)
    assert sorted(task.payload["n"] for task in database.tasks().values()) == [0, 1, 2, 3]


def test_what_is_active_stays_and_comes_with_the_attempts_it_has_left(database, boss):
    """Fetched once and failed: of the five attempts one is used."""
    boss("send", [[{"n": 1}, {}]])
    job, = boss("fetch")
    boss("send", [[{"n": 2}, {}]])
    assert page.moved(database.conninfo, "pg-boss move") == (1, 1)
    assert page.run(database.conninfo, "pg-boss left") == [["active", "f", "1"]]
    boss("fail", job["id"])
    run_at = database.value("SELECT start_after FROM pgboss.job")
    assert page.moved(database.conninfo, "pg-boss move") == (1, 1)
    assert page.run(database.conninfo, "pg-boss left") == []
    task = database.tasks()[job["id"]]
    assert (task.state, task.own_attempts, task.run_at) == ("scheduled", 4, run_at)
    assert task.headers["last_error"]["message"] == "no paper"


def test_a_job_that_a_worker_has_locked_is_passed_over(database, boss):
    boss("send", [[{"n": n}, {}] for n in range(2)])
    with psycopg.connect(database.conninfo) as worker:
        worker.execute("SELECT FROM pgboss.job WHERE data->>'n' = '0' FOR UPDATE")
        assert page.moved(database.conninfo, "pg-boss move", timeout=20) == (1, 1)
    assert page.moved(database.conninfo, "pg-boss move") == (1, 1)


def test_a_move_that_fails_has_moved_nothing(database, boss):
    boss("send", [[{"n": n}, {}] for n in range(5)])
    database.rows("SELECT fairq.alter_queue('emails', max_depth => 3)")
    with pytest.raises(page.MoveFailed, match="max_depth"):
        page.moved(database.conninfo, "pg-boss move")
    assert database.value("SELECT count(*) FROM pgboss.job") == 5
    assert database.value("SELECT count(*) FROM fairq.q_emails") == 0
    assert database.value("SELECT count(*) FROM moved") == 0


def test_a_key_that_waits_here_already_shows_in_the_count(database, boss):
    database.execute("UPDATE pgboss.queue SET policy = 'short'")
    boss("send", [[{"n": 1}, {"singletonKey": "page 17"}], [{"n": 2}, {"singletonKey": "page 18"}]])
    database.rows("SELECT fairq.enqueue('emails', '{\"n\": 0}', unique_key => 'page 17')")
    assert page.moved(database.conninfo, "pg-boss move") == (2, 1)
    assert database.value("SELECT array_agg(payload->>'n' ORDER BY id) FROM fairq.tasks('emails')") == ["0", "2"]


def test_flows_stay(database, boss):
    boss("flow")
    assert page.moved(database.conninfo, "pg-boss move") == (0, 0)
    assert database.value("SELECT count(*) FROM pgboss.job") == 2


def test_the_queue_has_the_settings_it_had(database, boss):
    database.rows("SELECT fairq.drop_queue('emails')")
    page.run(database.conninfo, "pg-boss queue")
    assert database.rows("SELECT max_attempts, backoff_base, backoff_max, lease FROM fairq.queues") == [
        (5, datetime.timedelta(seconds=7), datetime.timedelta(seconds=7), datetime.timedelta(minutes=15))]
    page.run(database.conninfo, "pg-boss queue")                   # leaves it as it is


def test_schedules(database, boss):
    boss("schedule", ["30 2 * * *", {"report": 1}, {"tz": "Europe/Berlin", "key": "nightly"}])
    page.run(database.conninfo, "pg-boss schedules")
    assert database.rows("SELECT name, queue, cron, timezone, payload FROM fairq.schedules") == [
        ("emails nightly", "emails", "30 2 * * *", "Europe/Berlin", {"report": 1})]
    assert database.value("SELECT count(*) FROM pgboss.schedule") == 0


def test_there_and_back(database, boss):
    ids = boss("send", [[{"n": 1}, {"priority": 2, "group": {"id": "shop 42"}}], [{"n": 2}, {"startAfter": 3600}]])
    same = "id, name, priority, data, state, retry_limit, retry_delay, expire_seconds, singleton_key, group_id, start_after, policy"
    before = database.rows(f"SELECT {same} FROM pgboss.job ORDER BY created_on")
    page.moved(database.conninfo, "pg-boss move")
    new = database.value("SELECT fairq.enqueue('emails', '{\"n\": 3}', group_key => 'shop 7')")
    leased = database.value("SELECT fairq.enqueue('emails', '{\"n\": 4}', group_key => 'first', priority => 0)")
    assert database.value("SELECT id FROM fairq.claim('emails')") == leased
    assert page.run(database.conninfo, "pg-boss back") == [["3", "3"]]
    after = database.rows(f"SELECT {same} FROM pgboss.job ORDER BY priority DESC, start_after")
    assert [row for row in after if str(row[0]) in ids] == sorted(before, key=lambda row: -row[2])
    assert database.value("SELECT array_agg(id) FROM fairq.q_emails") == [leased]
    assert database.value("SELECT count(*) FROM moved") == 0
    assert not database.value("SELECT paused FROM fairq.queues")
    assert new and sorted(job["data"]["n"] for job in boss("fetch")) == [1, 3]
    assert page.moved(database.conninfo, "pg-boss move") == (1, 1)     # and here again, with the id it always had
