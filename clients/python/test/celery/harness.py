"""Real workers on the server of the suite, and what their tasks have written down."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.parse

import psycopg
from psycopg.conninfo import conninfo_to_dict

from part_server import conninfo, new_database, wait_until

POOLS = ["prefork", "threads"]


class Note:
    def __init__(self, line):
        moment, pid, *self.words = line.split()
        self.time, self.pid = float(moment), int(pid)


class Server:
    """A database of its own, and the broker that is in it."""

    def __init__(self):
        self.conninfo = new_database()
        given = conninfo_to_dict(self.conninfo)
        self.url = f"fairq://{given['user']}@/{given['dbname']}?host={urllib.parse.quote(given['host'], safe='')}"
        self.directory = tempfile.mkdtemp(prefix="celery-")
        self.notes_path = os.path.join(self.directory, "notes")
        self.settings = {"broker_url": self.url, "worker_prefetch_multiplier": 1, "task_ignore_result": True,
                         "broker_connection_retry_on_startup": True, "broker_transport_options": {"claim_wait": 600},
                         "worker_hijack_root_logger": True}
        self.workers = []
        os.environ["TEST_NOTES"] = self.notes_path

    def sql(self, statement, values=None):
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def app(self, **settings):
        """The tests' own: it sends, and never consumes tasks."""
        import tasks
        tasks.app._pool = tasks.app.amqp._producer_pool = None  # those of another server
        tasks.app.conf.update({**self.settings, **settings})
        return tasks

    def notes(self, what=None):
        if not os.path.exists(self.notes_path):
            return []
        with open(self.notes_path, encoding="utf-8") as file:
            notes = [Note(line) for line in file if line.endswith("\n")]
        return [note for note in notes if what is None or note.words[0] == what]

    def worker(self, pool="prefork", concurrency=2, name="w1", arguments=(), **settings):
        log = open(os.path.join(self.directory, f"{name}.log"), "ab")
        environment = {**os.environ, "TEST_NOTES": self.notes_path, "TEST_SETTINGS": json.dumps({**self.settings, **settings})}
        worker = Worker(subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-P", pool, "-c", str(concurrency), "-n", f"{name}@test",
             "-l", "INFO", *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True), log.name)
        log.close()
        self.workers.append(worker)
        return worker

    def tasks(self, queue="celery"):
        """{state: how many} of a queue."""
        return dict(self.sql("SELECT state, count(*) FROM fairq.tasks(%s) GROUP BY state", (queue,)))

    def wait_notes(self, count, what=None, patience=120):
        wait_until(lambda: len(self.notes(what)) >= count, f"{count} notes {what or ''}; there are {len(self.notes(what))}", patience)
        return self.notes(what)

    def wait_empty(self, queue="celery"):
        wait_until(lambda: not self.tasks(queue), f"queue {queue} is empty")

    def close(self):
        for worker in self.workers:
            worker.kill()
        # Each database with queues takes one of the server's worker processes.
        name = conninfo_to_dict(self.conninfo)["dbname"]
        with psycopg.connect(conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Worker:
    def __init__(self, process, log_path):
        self.process = process
        self.pid = process.pid
        self.log_path = log_path

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_ready(self):
        wait_until(lambda: " ready." in self.log() or self.process.poll() is not None, "the worker is ready")
        assert self.process.poll() is None, self.log()
        return self

    def children(self):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
        return []

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, patience=120):
        return self.process.wait(patience)

    def stop(self):
        """Warm."""
        self.signal(signal.SIGTERM)
        assert self.wait() == 0, self.log()

    def kill(self):
        """All of it at once, by pid: it leads a process group of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
