"""What a worker writes into its log: lines for people, fields for machines, and what blocks an event loop.

Seen to fail: fields() without one of them, journal.died() that says nothing, has_session() that says so of each session,
TextFormatter without printable() (a tenant's text clears the terminal), JsonFormatter without OWN (the record's own
attributes come, too); LoopWatch._serve() without its look at the heartbeat (a block of a moment is told), without `told` (it is told again and again), with the loop's
answer not waited for (a loop that goes round is blocked), _running() that takes any task (the one that sleeps is blamed),
_stack() with the frames of asyncio; Run._beat() without journal.late().
"""

import asyncio
import json
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import part_server
import pytest
from conftest import running

from pgfairq import AsyncQueue, AsyncWorker, JsonFormatter, Queue, Worker
from pgfairq.blocked import LoopWatch

HOSTILE = "\x1b[2J\x07evil\r\n\u202e"


def records(caplog, level=None):
    return [one for one in caplog.records if one.name == "pgfairq" and (level is None or one.levelname == level)]


def test_fields(make_queue, caplog):
    queue = make_queue(max_attempts=2, backoff_base=0, subgroups=True)

    @queue.task("handle")
    def handle(payload, context):
        if payload == "snoozes":
            context.snooze(3600)
        if payload == "fails":
            raise KeyError("to")

    tasks = {payload: handle.enqueue(payload, group=42, subgroup="ann") for payload in ("good", "snoozes", "fails")}
    with caplog.at_level(logging.DEBUG, "pgfairq"):
        Worker(queue, concurrency=3, name="worker-a").run(drain=True)
    told = {(one.outcome, one.attempt): one for one in records(caplog) if hasattr(one, "task_id")}
    assert sorted(told) == [("dead", 2), ("done", 1), ("failed", 1), ("failed", 2), ("snoozed", 1)]
    for (outcome, _), one in told.items():
        payload = {"done": "good", "snoozed": "snoozes"}.get(outcome, "fails")
        assert (one.task_id, one.queue, one.tenant, one.subgroup, one.task_name) == (tasks[payload], queue.name, "42", "ann", "handle")
        assert one.duration > 0
    levels = {outcome: one.levelname for (outcome, _), one in told.items()}
    assert levels == {"done": "DEBUG", "snoozed": "DEBUG", "failed": "WARNING", "dead": "ERROR"}
    assert told["failed", 1].exc_info[0] is KeyError and "test_journal.py" in logging.Formatter().formatException(told["failed", 1].exc_info)
    assert told["dead", 2].getMessage() == f"task {tasks['fails']} ('handle') of queue {queue.name!r}: dead after attempt 2: KeyError: 'to'"
    started, stopped = records(caplog, "INFO")
    assert started.getMessage().startswith(f"worker worker-a has started: queues {queue.name!r}; handlers 'handle'; 3 at a time; database 'test_")
    assert (started.worker, started.queues, started.handlers, started.concurrency) == ("worker-a", [queue.name], ["handle"], 3)
    assert "PostgreSQL" in started.getMessage() and stopped.getMessage() == "worker worker-a has stopped"


def test_one_line_for_the_start(make_queue, caplog):
    """Also when the first session is lost, and there is another one."""
    queue = make_queue()
    queue.task()(lambda payload, context: None)
    with caplog.at_level(logging.INFO, "pgfairq"), running(Worker(queue)):
        part_server.wait_until(lambda: queue.sessions(), "there is a session")
        first = queue.sessions()[0]
        part_server.restart()
        part_server.wait_until(lambda: (sessions_of(queue) or [first])[0].session != first.session, "another one")
    assert len([one for one in records(caplog, "INFO") if "has started" in one.getMessage()]) == 1


def sessions_of(queue):
    try:
        return queue.sessions()
    except Exception:   # the server has just come
        return []


def test_json():
    logger, lines = logging.getLogger("test.json"), []
    handler = logging.Handler()
    handler.setFormatter(JsonFormatter())
    handler.emit = lambda record: lines.append(handler.format(record))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logger.warning("task %d: %s", 5, HOSTILE, extra={"task_id": 5, "own": {1}}, exc_info=True)
        logger.error("plain")
    finally:
        logger.removeHandler(handler)
    assert all(line.isascii() and "\n" not in line for line in lines)
    first, second = map(json.loads, lines)
    assert (first["level"], first["logger"], first["message"], first["task_id"], first["own"]) == (
        "WARNING", "test.json", f"task 5: {HOSTILE}", 5, "{1}")
    assert "ValueError" in first["exception"] and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first["time"])
    assert sorted(second) == ["level", "logger", "message", "process", "time"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_on_the_command_line(database, tmp_path, form):
    (tmp_path / "app.py").write_text(f"""
from pgfairq import Queue
letters = Queue({database!r}, "letters {form}", max_attempts=1)

@letters.task("send")
def send(payload, context):
    raise ValueError(payload)
""")
    code = f"from app import send\nsend.enqueue({HOSTILE!r}, group={HOSTILE!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    done = subprocess.run([sys.executable, "-m", "pgfairq", "worker", "app:letters", "--drain", "--log-format", form], cwd=tmp_path,
                          capture_output=True, text=True, timeout=120, check=True)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stderr), done.stderr
    if form == "json":
        told = [json.loads(line) for line in done.stderr.splitlines()]
        assert [one.get("outcome") for one in told if "task_id" in one] == ["failed", "dead"]
        assert told[0]["worker"] and told[0]["queues"] == ["letters json"] and told[-1]["message"].endswith("has stopped")
        assert [one["tenant"] for one in told if "tenant" in one] == [HOSTILE] * 2
    else:
        assert "has started" in done.stderr and "dead after attempt 1" in done.stderr and "Traceback" in done.stderr


def blocks(caplog):
    return [one for one in records(caplog, "WARNING") if "event loop is blocked" in one.getMessage() and hasattr(one, "task_name")]


def test_what_blocks_the_event_loop(database, caplog):
    """While it does, by name and stack; not the others that wait."""
    async def main():
        queue, gate, slept = AsyncQueue(database, "blocked", create=True), threading.Event(), asyncio.Event()

        @queue.task("sleep")
        async def sleep(payload, context):
            await slept.wait()

        @queue.task("compute")
        async def compute(payload, context):
            work_for_long(gate)
            slept.set()

        def open_when_told():
            try:
                part_server.wait_until(lambda: blocks(caplog), "the block is told while it lasts", 100)
            finally:
                gate.set()

        await sleep.enqueue(1)
        worker = AsyncWorker(queue, ttl=4, concurrency=2)
        running_worker = asyncio.create_task(worker.run())
        while (await queue.stats()).leased < 1:
            await asyncio.sleep(0.05)
        await compute.enqueue("long", group="tenant")
        opener = threading.Thread(target=open_when_told)
        opener.start()
        while (await queue.stats()).acked < 2:
            await asyncio.sleep(0.05)
        opener.join()
        worker.stop()
        await running_worker

    with caplog.at_level(logging.WARNING, "pgfairq"):
        asyncio.run(main())
    told = blocks(caplog)[0]
    assert (told.task_name, told.tenant) == ("compute", "tenant") and "('compute') of queue 'blocked'" in told.getMessage()
    assert "in work_for_long" in told.stack and "in compute" in told.stack and "asyncio" not in told.stack


class Beats:
    """Of a session whose heartbeats are as late as the test says."""

    def __init__(self, interval, late):
        self.interval, self.late, self.last, self.asked = interval, late, time.monotonic(), 0

    def late_by(self):
        self.asked += 1
        return self.late


def watched(beats):
    return SimpleNamespace(loop=asyncio.get_running_loop(), session=SimpleNamespace(beats=beats), options=SimpleNamespace(ttl=4), active={})


def test_when_a_block_is_told(caplog):
    """Neither where the loop goes round, and it is the server that is late, nor where no heartbeat is late yet; and once."""
    def told():
        return [one for one in records(caplog) if "event loop is blocked" in one.getMessage()]

    async def goes_round():
        watch = LoopWatch(watched(Beats(80, 1000)))     # it has 20 s for its answer
        while not watch._answered.is_set():
            await asyncio.sleep(0.01)
        watch.close()
        assert told() == []

    async def is_blocked():
        beats = Beats(0.04, 0)
        watch = LoopWatch(watched(beats))
        for late, enough in ((0, lambda: beats.asked >= 5), (1000, told)):
            beats.late, end = late, time.monotonic() + 100
            while not enough() and time.monotonic() < end:
                time.sleep(0.01)
            assert enough() and len(told()) == (1 if late else 0)
        asked = beats.asked
        while watch._thread.is_alive() and not watch._answered.wait(0.2):       # which it cannot be: the loop is blocked
            watch.close()
        assert len(told()) == 1 and beats.asked >= asked

    with caplog.at_level(logging.WARNING, "pgfairq"):
        asyncio.run(goes_round())
        asyncio.run(is_blocked())


def work_for_long(gate):
    gate.wait(110)


def test_what_holds_the_interpreter(database, tmp_path):
    """Something lets no thread run, not that of the heartbeats either: the log says afterwards what ran."""
    queue = Queue(database, "held up", create=True)
    queue.enqueue(1, name="wait")
    (tmp_path / "app.py").write_text(f"""
import threading
from pgfairq import Queue
held_up = Queue({database!r}, "held up")

@held_up.task("wait")
def wait(payload, context):
    while not context.cancelled:
        threading.Event().wait(0.05)
""")
    with open(tmp_path / "log", "w+", encoding="utf-8") as log:
        worker = subprocess.Popen([sys.executable, "-m", "pgfairq", "worker", "app:held_up", "--ttl", "4"], cwd=tmp_path, stderr=log)
        try:
            part_server.wait_until(lambda: queue.stats().leased == 1, "it runs")
            worker.send_signal(signal.SIGSTOP)
            part_server.wait_until(lambda: not [one for one in queue.sessions() if one.alive_until and one.alive_until
                                                - datetime.now(timezone.utc) > timedelta(seconds=1.5)], "heartbeats are missing")
            worker.send_signal(signal.SIGCONT)
            part_server.wait_until(lambda: "s late" in (tmp_path / "log").read_text(), "it is told")
        finally:
            worker.kill()
            worker.wait()
    line = next(line for line in (tmp_path / "log").read_text().splitlines() if "s late" in line)
    assert "('wait') of queue 'held up'" in line and "after 4 s without one the tasks go to other workers" in line
