"""graphile-worker: what it added with its own functions is moved with the statements of the page, and back.

Seen to fail: "a worker's lock" without SKIP LOCKED (the move waits for the worker), "what a worker has" without
is_available.
"""

import contextlib
import json
import subprocess

import psycopg
import pytest

import page


@pytest.fixture
def graphile(database):
    def call(command, *argument):
        return database.node("graphile.mjs", command, *argument)
    call("add", [])
    return call


@contextlib.contextmanager
def holding_worker(database):
    worker = subprocess.Popen(database.node_command("graphile.mjs", "hold"), text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def test_each_job_is_moved_as_it_was(database, graphile):
    ids = graphile("add", [[{"n": 1}, {}],
                           [{"n": 2, "text": "ä'\"\\; DROP"}, {"queueName": "shop 42", "priority": 2, "maxAttempts": 3}],
                           [{"n": 3}, {"runAt": "2040-05-06T07:08:09.123Z", "jobKey": "page 17", "priority": 90}],
                           [{"n": 4}, {"priority": -50, "flags": ["slow"]}]])
    assert page.moved(database.conninfo, "graphile-worker move") == (4, 4)
    tasks = database.tasks()
    tasks = [tasks[int(i)] for i in ids]
    assert [task.payload for task in tasks] == [{"n": 1}, {"n": 2, "text": "ä'\"\\; DROP"}, {"n": 3}, {"n": 4}]
    assert [task.group_key for task in tasks] == ["", "shop 42", "", ""]
    assert [task.priority for task in tasks] == [4, 6, 9, 0]
    assert [task.own_attempts for task in tasks] == [25, 3, 25, 25]
    assert [task.state for task in tasks] == ["ready", "ready", "scheduled", "ready"]
    assert [task.unique_key for task in tasks] == [None, None, "page 17", None]
    assert tasks[2].run_at.isoformat() == "2040-05-06T07:08:09.123000+00:00"
    assert {task.name for task in tasks} == {"send_email"} and tasks[3].headers["flags"] == {"slow": True}
    assert page.run(database.conninfo, "graphile-worker left") == []
    assert page.moved(database.conninfo, "graphile-worker move") == (0, 0)


def test_other_tasks_stay(database, graphile):
    graphile("add", [[{"n": 1}, {}]])
    database.rows("SELECT graphile_worker.add_job('another', '{}')")
    assert page.moved(database.conninfo, "graphile-worker move") == (1, 1)
    assert database.value("SELECT count(*) FROM graphile_worker.jobs") == 1


def test_what_a_worker_has_stays_and_comes_with_the_attempts_it_has_left(database, graphile):
    job, = graphile("add", [[{"n": 1}, {"maxAttempts": 5}]])
    with holding_worker(database) as worker:
        assert json.loads(worker.stdout.readline()) == {"n": 1}
        graphile("add", [[{"n": 2}, {}]])
        assert page.moved(database.conninfo, "graphile-worker move") == (1, 1)
        assert database.value("SELECT count(*) FROM fairq.q_emails WHERE payload->>'n' = '1'") == 0
        assert len(page.run(database.conninfo, "graphile-worker left")) == 1
        worker.stdin.write("end\n")
        worker.stdin.flush()
        assert json.loads(worker.stdout.readline()) == "failed"
    page.moved(database.conninfo, "graphile-worker move")
    task = database.tasks()[int(job)]
    assert (task.state, task.own_attempts) == ("scheduled", 4)
    assert "no paper" in task.headers["last_error"]
    assert page.run(database.conninfo, "graphile-worker left") == []


def test_a_job_that_a_worker_has_locked_is_passed_over(database, graphile):
    graphile("add", [[{"n": n}, {}] for n in range(2)])
    with psycopg.connect(database.conninfo) as worker:
        worker.execute("SELECT FROM graphile_worker._private_jobs WHERE payload->>'n' = '0' FOR UPDATE")
        assert page.moved(database.conninfo, "graphile-worker move", timeout=20) == (1, 1)
    assert page.moved(database.conninfo, "graphile-worker move") == (1, 1)


def test_jobs_of_one_queue_run_one_after_the_other(database, graphile):
    graphile("add", [[{"n": n}, {"queueName": "shop 42"}] for n in range(2)] + [[{"n": n}, {}] for n in range(2, 4)])
    page.moved(database.conninfo, "graphile-worker move")
    page.run(database.conninfo, "graphile-worker serial")
    claimed = database.rows("SELECT group_key FROM fairq.claim('emails', 10)")
    assert sorted(group for group, in claimed) == ["", "", "shop 42"]


def test_a_move_that_fails_has_moved_nothing(database, graphile):
    graphile("add", [[{"n": 1}, {}], [{"text": "a\0b"}, {}]])     # JSON that jsonb has not
    with pytest.raises(page.MoveFailed, match="u0000"):
        page.moved(database.conninfo, "graphile-worker move")
    assert database.value("SELECT count(*) FROM graphile_worker.jobs") == 2
    assert database.value("SELECT count(*) FROM fairq.q_emails") == 0


def test_there_and_back(database, graphile):
    graphile("add", [[{"n": 1}, {"priority": 2, "queueName": "shop 42", "maxAttempts": 7, "flags": ["slow"]}],
                     [{"n": 2}, {"runAt": "2040-05-06T07:08:09.123Z", "jobKey": "page 17"}]])
    same = "task_identifier, queue_name, priority, run_at, attempts, max_attempts, key, flags"
    before = database.rows(f"SELECT {same} FROM graphile_worker.jobs ORDER BY run_at")
    page.moved(database.conninfo, "graphile-worker move")
    assert page.run(database.conninfo, "graphile-worker back") == [["2", "2"]]
    assert database.rows(f"SELECT {same} FROM graphile_worker.jobs ORDER BY run_at") == before
    assert database.value("SELECT count(*) FROM fairq.q_emails") == 0
    assert database.value("SELECT count(*) FROM moved") == 0
    assert graphile("once") == [{"n": 1}]
