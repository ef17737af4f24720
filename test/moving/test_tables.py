"""pgmq, Solid Queue and River: rows as they write them are moved with the statements of the page, and back.

The tables are those of tables.sql. Seen to fail: "what was read" with vt alone as the condition, "times" of Solid Queue
without AT TIME ZONE, "a worker's lock" without SKIP LOCKED.
"""

import datetime
import json
import os

import psycopg
import pytest

import page

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def tables(database):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables.sql"), encoding="utf-8") as file:
        database.execute(file.read())
    # not that of the server: times without a zone are in UTC there, whatever this is
    database.execute(f"ALTER DATABASE {database.connection.info.dbname} SET timezone = 'Asia/Kolkata'")
    return database


def all_locked_but_one_is_moved(tables, table, name):
    with psycopg.connect(tables.conninfo) as worker:
        worker.execute(f"SELECT FROM {table} ORDER BY id LIMIT 1 FOR UPDATE")
        assert page.moved(tables.conninfo, name, timeout=20) == (1, 1)
    assert page.moved(tables.conninfo, name) == (1, 1)


# --- pgmq -------------------------------------------------------------------

PGMQ = "msg_id, read_ct, vt, message, headers"


@pytest.fixture
def pgmq(tables):
    """Never read; delayed; read, and visible again; being read."""
    tables.execute("""
        INSERT INTO pgmq.q_emails (read_ct, vt, message, headers) VALUES
            (0, now() - interval '1 min', '{"n": 1}', NULL),
            (0, now() + interval '1 hour', '{"n": 2}', '{"x-pgmq-group": "shop 42", "trace": "4bf92f"}'),
            (3, now() - interval '1 s', '{"n": 3}', NULL),
            (1, now() + interval '30 s', '{"n": 4}', NULL),
            (0, now(), NULL, NULL)""")
    return tables


def test_pgmq_messages_are_moved_as_they_were(pgmq):
    times = dict(pgmq.rows("SELECT msg_id, vt FROM pgmq.q_emails"))
    assert page.moved(pgmq.conninfo, "pgmq move") == (4, 4)
    tasks = pgmq.tasks()
    assert [(i, task.payload, task.group_key, task.state) for i, task in tasks.items()] == [
        (1, {"n": 1}, "", "ready"), (2, {"n": 2}, "shop 42", "scheduled"), (3, {"n": 3}, "", "ready"), (5, None, "", "ready")]
    assert tasks[2].run_at == times[2] and tasks[2].headers["trace"] == "4bf92f" and tasks[3].headers["read_ct"] == 3


def test_pgmq_what_was_read_is_moved_when_its_time_is_over(pgmq):
    page.moved(pgmq.conninfo, "pgmq move")
    assert page.run(pgmq.conninfo, "pgmq left")[0][0] == "1"
    assert page.moved(pgmq.conninfo, "pgmq move") == (0, 0)
    pgmq.execute("UPDATE pgmq.q_emails SET vt = now()")
    assert page.moved(pgmq.conninfo, "pgmq move") == (1, 1)
    assert page.run(pgmq.conninfo, "pgmq left")[0][0] == "0"


def test_pgmq_locked_is_passed_over(tables):
    tables.execute("INSERT INTO pgmq.q_emails (vt, message) SELECT now(), '1' FROM generate_series(1, 2)")
    tables.execute("ALTER TABLE pgmq.q_emails ADD id bigint GENERATED ALWAYS AS (msg_id) STORED")    # for ORDER BY
    all_locked_but_one_is_moved(tables, "pgmq.q_emails", "pgmq move")


def test_pgmq_there_and_back(pgmq):
    pgmq.execute("DELETE FROM pgmq.q_emails WHERE read_ct > 0")
    before = pgmq.rows("SELECT vt, coalesce(message, 'null'), headers FROM pgmq.q_emails ORDER BY msg_id")
    page.moved(pgmq.conninfo, "pgmq move")
    assert page.run(pgmq.conninfo, "pgmq back") == [["3", "3"]]
    assert pgmq.rows("SELECT vt, message, headers FROM pgmq.q_emails ORDER BY msg_id") == before
    assert pgmq.value("SELECT count(*) FROM fairq.q_emails") + pgmq.value("SELECT count(*) FROM moved") == 0


# --- Solid Queue ------------------------------------------------------------

def serialized(n):
    return json.dumps({"job_class": "MailJob", "job_id": f"id-{n}", "queue_name": "emails", "arguments": [{"n": n}], "executions": 0})


@pytest.fixture
def solid(tables):
    """1 ready, 2 scheduled in an hour, 3 ready under a limit, 4 blocked by it, 5 claimed, 6 failed, 7 of another queue."""
    for n, queue, priority, key in ((1, "emails", 0, None), (2, "emails", -3, None), (3, "emails", 9, "MailJob/42"),
                                    (4, "emails", 0, "MailJob/42"), (5, "emails", 0, "MailJob/43"), (6, "emails", 0, None),
                                    (7, "other", 0, None)):
        tables.rows("""INSERT INTO solid_queue_jobs (queue_name, class_name, arguments, priority, active_job_id, scheduled_at,
                concurrency_key, created_at, updated_at)
            VALUES (%s, 'MailJob', %s, %s, %s, now() AT TIME ZONE 'UTC' + CASE WHEN %s THEN interval '1 hour' ELSE '0' END, %s,
                now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC') RETURNING id""", queue, serialized(n), priority, f"id-{n}", n == 2, key)
    jobs = "SELECT id, queue_name, priority, created_at FROM solid_queue_jobs WHERE id"
    tables.execute(f"INSERT INTO solid_queue_ready_executions (job_id, queue_name, priority, created_at) {jobs} IN (1, 3, 7)")
    tables.execute(f"""INSERT INTO solid_queue_scheduled_executions (job_id, queue_name, priority, created_at, scheduled_at)
        SELECT job.*, now() AT TIME ZONE 'UTC' + interval '1 hour' FROM ({jobs} = 2) job""")
    tables.execute(f"""INSERT INTO solid_queue_blocked_executions (job_id, queue_name, priority, created_at, concurrency_key, expires_at)
        SELECT job.*, 'MailJob/42', now() FROM ({jobs} = 4) job""")
    tables.execute("INSERT INTO solid_queue_claimed_executions (job_id, process_id, created_at) VALUES (5, 1, now())")
    tables.execute("INSERT INTO solid_queue_failed_executions (job_id, created_at) VALUES (6, now())")
    tables.execute("""INSERT INTO solid_queue_semaphores (key, value, expires_at, created_at, updated_at)
        SELECT key, 0, now(), now(), now() FROM unnest('{MailJob/42,MailJob/43}'::text[]) key""")
    return tables


def test_solid_queue_jobs_are_moved_as_they_were(solid):
    assert page.moved(solid.conninfo, "Solid Queue move") == (4, 4)
    tasks = solid.tasks()
    assert [(i, task.payload, task.group_key, task.priority, task.state) for i, task in tasks.items()] == [
        (1, json.loads(serialized(1)), "", 4, "ready"), (2, json.loads(serialized(2)), "", 1, "scheduled"),
        (3, json.loads(serialized(3)), "MailJob/42", 9, "ready"), (4, json.loads(serialized(4)), "MailJob/42", 4, "ready")]
    assert {task.name for task in tasks.values()} == {"MailJob"}
    assert abs(tasks[2].run_at - tasks[2].enqueued_at - HOUR) < HOUR / 2       # zones differ by more
    assert [row[0] for row in solid.rows("SELECT id FROM solid_queue_jobs ORDER BY id")] == [5, 6, 7]
    assert solid.rows("SELECT key FROM solid_queue_semaphores") == [("MailJob/43",)]
    assert page.run(solid.conninfo, "Solid Queue left") == [["1", "1"]]
    assert page.moved(solid.conninfo, "Solid Queue move") == (0, 0)


def test_solid_queue_locked_is_passed_over(solid):
    solid.execute("DELETE FROM solid_queue_jobs WHERE id NOT IN (1, 3)")
    all_locked_but_one_is_moved(solid, "solid_queue_ready_executions", "Solid Queue move")


def test_solid_queue_there_and_back(solid):
    page.moved(solid.conninfo, "Solid Queue move")
    assert page.run(solid.conninfo, "Solid Queue back") == [["4", "4"]]
    executions = {
        kind: [json.loads(row[0])["job_id"] for row in solid.rows(
            f"SELECT arguments FROM solid_queue_{kind}_executions e JOIN solid_queue_jobs job ON job.id = job_id"
            " WHERE job.queue_name = 'emails' ORDER BY job.id")]
        for kind in ("ready", "scheduled", "blocked", "claimed")}
    assert executions == {"ready": ["id-1"], "scheduled": ["id-2"], "blocked": ["id-3", "id-4"], "claimed": ["id-5"]}
    assert solid.rows("""SELECT class_name, active_job_id, priority, concurrency_key,
            scheduled_at > now() AT TIME ZONE 'UTC' + interval '50 min' FROM solid_queue_jobs WHERE id > 7 ORDER BY id""") == [
        ("MailJob", "id-1", 0, None, False), ("MailJob", "id-2", -3, None, True),
        ("MailJob", "id-3", 5, "MailJob/42", False), ("MailJob", "id-4", 0, "MailJob/42", False)]
    assert solid.value("SELECT count(*) FROM fairq.q_emails") + solid.value("SELECT count(*) FROM moved") == 0


# --- River ------------------------------------------------------------------

RIVER = "args, kind, queue, priority, scheduled_at, state, metadata, tags, unique_key, unique_states"


@pytest.fixture
def river(tables):
    """1 available, 2 scheduled, 3 to be retried, 4 running, 5 done, 6 of another queue."""
    tables.execute("""
        INSERT INTO river_job (args, kind, queue, priority, state, scheduled_at, attempt, max_attempts, metadata, tags,
                unique_key, unique_states, errors, finalized_at) VALUES
            ('{"n": 1}', 'mail', 'emails', 1, 'available', now() - interval '1 s', 0, 25, '{}', '{}', NULL, NULL, NULL, NULL),
            ('{"n": 2}', 'mail', 'emails', 4, 'scheduled', now() + interval '1 hour', 0, 3, '{"tenant": "shop 42"}', '{a,b}',
                '\\x00ff', '11110101', NULL, NULL),
            ('{"n": 3}', 'letter', 'emails', 2, 'retryable', now() + interval '1 min', 2, 5, '{}', '{}', NULL, NULL,
                ARRAY['{"error": "no ink"}', '{"error": "no paper"}']::jsonb[], NULL),
            ('{"n": 4}', 'mail', 'emails', 1, 'running', now(), 1, 25, '{}', '{}', NULL, NULL, NULL, NULL),
            ('{"n": 5}', 'mail', 'emails', 1, 'completed', now(), 1, 25, '{}', '{}', NULL, NULL, NULL, now()),
            ('{"n": 6}', 'mail', 'other', 1, 'available', now(), 1, 25, '{}', '{}', NULL, NULL, NULL, NULL)""")
    return tables


def test_river_jobs_are_moved_as_they_were(river):
    times = dict(river.rows("SELECT id, scheduled_at FROM river_job"))
    assert page.moved(river.conninfo, "River move") == (3, 3)
    tasks = river.tasks()
    assert [(i, task.payload["n"], task.group_key, task.priority, task.state, task.own_attempts, task.unique_key)
            for i, task in tasks.items()] == [
        (1, 1, "", 4, "ready", 25, None), (2, 2, "shop 42", 7, "scheduled", 3, "00ff"), (3, 3, "", 5, "scheduled", 3, None)]
    assert tasks[2].run_at == times[2] and tasks[3].run_at == times[3]
    assert [task.name for task in tasks.values()] == ["mail", "mail", "letter"] and tasks[2].headers["tags"] == ["a", "b"]
    assert tasks[3].headers["last_error"] == "no paper"
    assert page.run(river.conninfo, "River left") == [["running", "1"]]
    assert page.moved(river.conninfo, "River move") == (0, 0)


def test_river_locked_is_passed_over(river):
    river.execute("DELETE FROM river_job WHERE id NOT IN (1, 2)")
    all_locked_but_one_is_moved(river, "river_job", "River move")


def test_river_there_and_back(river):
    river.execute("DELETE FROM river_job WHERE id NOT IN (1, 2, 3)")
    before = river.rows(f"SELECT {RIVER} FROM river_job ORDER BY id")
    page.moved(river.conninfo, "River move")
    assert page.run(river.conninfo, "River back") == [["3", "3"]]
    after = river.rows(f"SELECT {RIVER} FROM river_job ORDER BY id")
    assert [row[:5] + row[6:] for row in after] == [row[:5] + row[6:] for row in before]
    assert [row[5] for row in after] == ["available", "scheduled", "scheduled"]     # a retry is due later, as these are
    assert river.rows("SELECT attempt, max_attempts FROM river_job ORDER BY id") == [(0, 25), (0, 3), (0, 3)]
    assert river.value("SELECT count(*) FROM fairq.q_emails") + river.value("SELECT count(*) FROM moved") == 0
