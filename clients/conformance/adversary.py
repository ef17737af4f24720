"""What the adversary works with: a stage for each scenario, subjects on it, and the server.

A stage is a database of its own with a queue. Subjects are programs on a library
(libraries.py); they are held by files, killed and stopped by process group. No time is
a proof here: the adversary waits for conditions, and what a scenario holds up goes on
when it says so.
"""

import collections
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import psycopg

import part_server

TEMPLATE = "conformance"
SCHEMA = """
CREATE SCHEMA conformance;
CREATE TABLE conformance.started (key text, pid int, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE conformance.effects (key text, pid int);
CREATE TABLE conformance.orders (key text);
"""
NUMBERS = itertools.count(1)
QUEUE = "work"

# In seconds. What a worker's session lives without heartbeats, where that must not matter, and
# how long the adversary waits for what comes without that.
NEVER = 3600
PATIENCE = int(os.environ.get("PATIENCE", 240))


def make_template():
    with psycopg.connect(part_server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE}")
    with psycopg.connect(part_server.conninfo(TEMPLATE), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pgfairq")
        connection.execute(SCHEMA)


class Late:
    """Words that are asked for when they are needed."""

    def __init__(self, words):
        self.words = words

    def __str__(self):
        return self.words()


class Stage:
    """A database, its queue, and who works there."""

    def __init__(self, library, word, exact):
        """word: what the table says of this promise. exact: a handler's row and the acknowledgement are one transaction."""
        self.library, self.word, self.exact = library, word, exact
        self.database = f"stage_{next(NUMBERS)}"
        self.directory = tempfile.mkdtemp(prefix="conformance-")
        self.subjects = []
        self._connection = None
        with psycopg.connect(part_server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.database} TEMPLATE {TEMPLATE}")

    def close(self):
        for subject in self.subjects:
            subject.kill()
        if self._connection is not None:
            self._connection.close()
        # each database with queues takes one of the server's worker processes
        with psycopg.connect(part_server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {self.database} WITH (FORCE)")
        shutil.rmtree(self.directory)

    # -- the database

    def sql(self, statement, *values):
        """On a connection that is made anew when the adversary has ended it, too."""
        for last in (False, True):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.connect(part_server.conninfo(self.database), autocommit=True)
                cursor = self._connection.execute(statement, values)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if last:
                    raise
                self._connection.close()

    def one(self, statement, *values):
        return self.sql(statement, *values)[0][0]

    def make_queue(self, **settings):
        """With as many attempts as it takes, at once, unless it says otherwise."""
        settings = {"max_attempts": 1000, "backoff_base": "0", "keep_done": "1 day", **settings}
        names = "".join(f", {name} => %s" for name in settings)
        self.sql(f"SELECT fairq.create_queue('{QUEUE}'{names})", *settings.values())

    def wait(self, what, condition):
        """what: for people; a function where it is to say how things are when the time is over."""
        return part_server.wait_until(condition, Late(what) if callable(what) else what, PATIENCE)

    def started(self, key=None):
        """Keys in the order in which they were begun, or how often one was."""
        keys = [key for key, in self.sql("SELECT key FROM conformance.started ORDER BY at")]
        return keys if key is None else keys.count(key)

    def effects(self):
        return collections.Counter(key for key, in self.sql("SELECT key FROM conformance.effects"))

    def wait_started(self, count):
        self.wait(f"{count} handlers have begun", lambda: len(self.started()) >= count)

    def wait_written(self, *keys):
        """Their handlers have written, and are held before the acknowledgement: in open transactions, if the library
        has one for both."""
        if not self.exact:
            return self.wait_effects(*keys)
        open_ones = ("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                     "AND state = 'idle in transaction' AND backend_xid IS NOT NULL")
        return self.wait(f"{', '.join(keys)} are written, and not committed", lambda: self.one(open_ones) >= len(keys))

    def wait_effects(self, *keys):
        self.wait(f"the effects of {', '.join(keys)}", lambda: set(keys) <= set(self.effects()))

    def sessions(self):
        return {session for session, in self.sql("SELECT session FROM fairq.sessions")}

    def wait_sessions(self, count):
        self.wait(f"{count} workers with a session", lambda: len(self.sessions()) == count)

    def tasks(self):
        """{state: how many}, without what is done"""
        return dict(self.sql("SELECT state, count(*) FROM fairq.tasks(%s) GROUP BY state", QUEUE))

    def dead(self):
        return self.sql("SELECT last_error, attempts, lost FROM fairq.tasks(%s, 'dead')", QUEUE)

    # -- who works there

    def gate(self, name="gate"):
        """A file that is not there yet: what holds handlers until it is opened."""
        return os.path.join(self.directory, name)

    def open(self, gate):
        with open(gate, "w", encoding="ascii"):
            pass

    def subject(self, *arguments, **environment):
        subject = Subject(self, arguments, environment)
        self.subjects.append(subject)
        return subject

    def worker(self, concurrency=2, lease=NEVER):
        return self.subject("work", QUEUE, CONCURRENCY=concurrency, LEASE=lease)

    def enqueue(self, *tasks):
        """Each a dict with `key`, `do` and what a payload has; `of` is what is beside the payload. What is said of each."""
        return self.subject("enqueue", QUEUE).finish(tasks).splitlines()


class Subject:
    """A program on the library, in a process group of its own."""

    def __init__(self, stage, arguments, environment):
        self.stage = stage
        self.log = os.path.join(stage.directory, f"{len(stage.subjects) + 1}-{arguments[0]}")
        environment = {**os.environ, **stage.library.environment, "PGDATABASE": stage.database,
                       **{name: str(value) for name, value in environment.items()}}
        given = subprocess.DEVNULL if arguments[0] == "work" else subprocess.PIPE
        with open(self.log + ".out", "wb") as output, open(self.log + ".err", "wb") as errors:
            self.process = subprocess.Popen([*stage.library.command, *arguments], env=environment, stdin=given, stdout=output,
                                            stderr=errors, start_new_session=True, cwd=stage.directory)

    def read(self, kind="out"):
        with open(f"{self.log}.{kind}", encoding="utf-8", errors="replace") as file:
            return file.read()

    def finish(self, tasks):
        """Give it tasks, and wait for its end; what it has said."""
        self.give(tasks)
        return self.result()

    def give(self, tasks):
        for task in tasks:
            task = dict(task)
            beside = task.pop("of", {})
            self.process.stdin.write((json.dumps({"payload": task, **beside}) + "\n").encode())
        self.process.stdin.close()

    def result(self):
        assert self.process.wait(PATIENCE) == 0, f"{os.path.basename(self.log)} ends with {self.process.returncode}: {self.read('err')}"
        return self.read()

    @property
    def lives(self):
        return self.process.poll() is None

    def signal(self, number):
        """To it and to all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()

    def terminate(self):
        """As systemd and Kubernetes do."""
        assert self.lives, f"the worker has ended with {self.process.returncode}: {self.read('err')}"
        self.process.send_signal(signal.SIGTERM)

    def exit_status(self):
        return self.process.wait(PATIENCE)

    def end(self):
        self.terminate()
        assert self.exit_status() == 0, f"it ends with {self.process.returncode}: {self.read('err')}"


class Doorman:
    """Where the server was: takes connections and closes them, so that those who try are seen."""

    def __init__(self):
        self.path = os.path.join(os.environ["PGHOST"], f".s.PGSQL.{os.environ.get('PGPORT', '5432')}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen()
        self.socket.settimeout(0.1)

    def has_visitor(self):
        with contextlib.suppress(socket.timeout):
            self.socket.accept()[0].close()
            return True
        return False

    def leave(self):
        self.socket.close()
        os.unlink(self.path)
