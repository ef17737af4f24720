"""The command pgfairq: what it prints, and that no tenant steers the terminal with it.

Seen to fail: output.cell() without printable() (the terminal is cleared), purge without
its question, revive_some() without its ids in order (it never ends), worker.run() without the name.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import part_server
import pytest

from pgfairq import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTILE = "\x1b[2J\x07evil\r\n\u202e\x9b%s{0}"


def pgfairq(database, *arguments, code=0, **options):
    done = subprocess.run([sys.executable, "-m", "pgfairq", "-d", database, *arguments], capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL, **options)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def dead_queue(make_queue, **settings):
    queue = make_queue(max_attempts=1, **settings)

    @queue.task()
    def fail(payload, context):
        raise ValueError(HOSTILE)

    queue.enqueue_many([{"text": HOSTILE}] * 3, group=["a", "b", HOSTILE], name=HOSTILE)
    Worker(queue).run(drain=True)
    return queue


def test_nothing_steers_the_terminal(make_queue, database):
    queue = dead_queue(make_queue)
    queue.enqueue(HOSTILE, group=HOSTILE, name=HOSTILE)
    for arguments in (["peek", queue.name], ["dead", queue.name], ["dead", queue.name, "--full"], ["stats"], ["peek", queue.name, "--json"],
                      ["dead", queue.name, "--json"]):
        shown = pgfairq(database, *arguments)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown), arguments
        assert "evil" in shown or arguments == ["stats"]
        assert ("attempt 1 failed after" in shown) == ("--full" in arguments)
    error = pgfairq(database, "peek", HOSTILE, code=1)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", error) and "does not exist" in error


def test_json(make_queue, database):
    queue = dead_queue(make_queue, subgroups=True)
    queue.enqueue([1], group=5, subgroup=6)
    (row,) = json.loads(pgfairq(database, "stats", queue.name, "--json"))
    assert (row["queue"], row["ready"] + row["overflow"], row["dead"]) == (queue.name, 1, 3) and row["oldest_ready_age"] >= 0
    (task,) = json.loads(pgfairq(database, "peek", queue.name, "--json"))
    assert (task["payload"], task["group"], task["subgroup"]) == ([1], "5", "6")
    tasks = json.loads(pgfairq(database, "dead", queue.name, "--json"))
    assert {one["group"] for one in tasks} == {"a", "b", HOSTILE} and [one["history"][0]["end"] for one in tasks] == ["failed"] * 3


def test_revive_and_purge(make_queue, database):
    queue = dead_queue(make_queue)
    first = queue.dead()[0].id
    assert pgfairq(database, "revive", queue.name, "--id", str(first)) == "1 task revived\n"
    assert pgfairq(database, "revive", queue.name, "--group", "b") == "1 task revived\n"
    assert pgfairq(database, "revive", queue.name, "--all") == "1 task revived\n"
    assert "--yes" in pgfairq(database, "purge", queue.name, "--all", code=1) and queue.stats().ready == 3
    assert pgfairq(database, "purge", queue.name, "--group", "a", "--yes") == "1 task removed\n"
    assert pgfairq(database, "purge", queue.name, "--all", "--yes") == "2 tasks removed\n"
    pgfairq(database, "purge", queue.name, code=2)      # neither --group nor --all


def test_revive_of_many(make_queue, database):
    """More than one round; those that cannot be revived, since their key waits, do not hold it up."""
    queue = make_queue(max_attempts=1)
    queue.task()(lambda payload, context: 1 / 0)
    queue.enqueue_many([1] * 2500, unique_key=["key"] + [None] * 2499)
    Worker(queue).run(drain=True)
    queue.enqueue(2, unique_key="key")
    assert pgfairq(database, "revive", queue.name, "--all") == "2,499 tasks revived\n"
    assert queue.stats().ready == 2500


def test_schedules(make_queue, database):
    queue = make_queue(subgroups=True)
    assert "next: " in pgfairq(database, "schedule", "add", "one", queue.name, "@every 1 h", '{"a": 1}', "--task", "send", "--group", "7",
                               "--subgroup", "8")
    assert "not active" in pgfairq(database, "schedule", "add", "two", queue.name, "@hourly", "--inactive", "--overlap", "--catch-up", "all",
                                   "--timezone", "Europe/Berlin")
    (one, two) = json.loads(pgfairq(database, "schedule", "list", "--queue", queue.name, "--json"))
    assert (one["cron"], one["payload"], one["group"], one["task_name"], one["subgroup"]) == ("@every 1 h", {"a": 1}, "7", "send", "8")
    assert (two["active"], two["overlap"], two["catch_up"], two["timezone"]) == (False, True, "all", "Europe/Berlin")
    assert "one" in pgfairq(database, "schedule", "list")
    assert pgfairq(database, "schedule", "remove", "one") == "removed\n"
    assert "no schedule 'one'" in pgfairq(database, "schedule", "remove", "one", code=1)
    assert "no JSON" in pgfairq(database, "schedule", "add", "x", queue.name, "@hourly", "{", code=1)
    assert "hint" in pgfairq(database, "schedule", "add", "x", queue.name, "nonsense", code=1)
    pgfairq(database, "schedule", "remove", "two")


@pytest.mark.parametrize("place, message", [
    ("fault_app", "MODULE:QUEUE"), ("fault_app:nothing", "has no 'nothing'"), ("fault_app:CONNINFO", "no Queue"), ("no_such_app:x", "no_such_app")])
def test_workers_that_cannot_be(database, place, message):
    environment = {**os.environ, "APP_CONNINFO": database}
    assert message in pgfairq(database, "worker", place, code=1, cwd=HERE, env=environment)


def test_the_name_of_a_worker(make_queue, database, tmp_path):
    """With all processes: that of the session, and so of the history of its tasks."""
    queue = make_queue(max_attempts=1)
    (tmp_path / "app.py").write_text(f"""
from pgfairq import AsyncQueue
letters = AsyncQueue({database!r}, {queue.name!r})

@letters.task()
async def fail(payload, context):
    raise ValueError
""")
    task = queue.enqueue(1)
    pgfairq(database, "worker", "app:letters", "--drain", "--name", "mailer 1", cwd=tmp_path)
    (end,) = queue.get(task).history
    assert end.worker.startswith('session "mailer 1"')


def test_the_live_table(make_queue, database):
    """On a terminal it is drawn again and again, until Ctrl-C."""
    queue = make_queue()
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "pgfairq", "-d", database, "stats", queue.name, "--interval", "0.05"], stdin=theirs,
                               stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""

    def drawn(count):
        nonlocal shown
        while shown.count(b"ready") < count:
            shown += os.read(ours, 10000)

    drawn(2)
    queue.enqueue(1)
    part_server.wait_until(lambda: queue.stats().ready == 1, "there")
    drawn(shown.count(b"ready") + 3)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    os.close(ours)
    lines = [line.split() for line in shown.decode().split("\r\n") if line.lstrip("\x1b[2AJ").startswith(queue.name)]
    assert lines[0][1] == "0" and lines[-1][1] == "1"


def test_bench(database):
    figures = json.loads(pgfairq(database, "bench", "-n", "1500", "-c", "3", "--transaction", "--milliseconds", "0.1", "--json"))
    assert sorted(figures) == ["done_per_second", "enqueued_per_second", "latency_p50", "latency_p95"] and min(figures.values()) > 0
    assert "median" in pgfairq(database, "bench", "-n", "100")
    assert "bench" not in pgfairq(database, "stats")
    assert "1 or more" in pgfairq(database, "bench", "-n", "0", code=1)
