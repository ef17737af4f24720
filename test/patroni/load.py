"""Producers and workers that go to whichever server takes writes, and what they know.

Each is a process with a journal (test/torture/journal.py); these are its lines:

["P", name]     the enqueue of that task was answered, or its COMMIT
["A", name]     the COMMIT of its result and its ack was answered
["X", text]     an error that no failover explains

In the database are the tables below.  None has a unique index: a double must show,
not be prevented.
"""

import multiprocessing
import os
import random
import sys
import time
import traceback

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torture"))
import journal  # noqa: E402

TABLES = """
CREATE TABLE produced (name text);
CREATE TABLE results (name text, queue text, task bigint, attempt int, worker text);
GRANT SELECT, INSERT ON produced, results TO app;
"""

QUEUES = ("emails", "reports")
KINDS = ("producer", "producer", "lease", "lease", "session", "session")
LEASE = "10 s"
TTL = 15

# With these tasks in a queue producers leave it alone.
ENOUGH = 500

# What a client may be told when its server goes away or becomes a standby. None: the
# connection is lost. 08: the same. 57: the administrator. 53300: too many, at a start.
# 55000: the session is over.
EXPECTED = {None, "25006", "55000", "53300"}


class Shared:
    """Without locks: who is killed would keep them."""

    def __init__(self):
        self.stop = multiprocessing.RawValue("i", 0)
        self.drain = multiprocessing.RawValue("i", 0)
        self.acked = multiprocessing.RawArray("q", len(KINDS))
        self.lost = multiprocessing.RawArray("q", len(KINDS))   # connections


class Client:
    def __init__(self, shared, options, conninfo, number):
        self.shared = shared
        self.plant = options.plant
        self.conninfo = conninfo
        self.number = number
        self.kind = KINDS[number]
        self.tag = "%s.%d" % (self.kind, number)
        self.random = random.Random("%s %s" % (options.seed, self.tag))
        self.journal = journal.Journal(os.path.join(options.journals, self.tag))
        self.parent = os.getppid()
        self.counter = 0
        self.conn = None
        self.session = None

    def over(self):
        return self.shared.stop.value or os.getppid() != self.parent

    def connect(self):
        while not self.over():
            try:
                self.conn = psycopg.connect(self.conninfo, autocommit=True, application_name=self.tag)
                return
            except psycopg.OperationalError:
                time.sleep(0.1)

    def rows(self, query, *params):
        return self.conn.execute(query, params).fetchall()

    def one(self, query, *params):
        return self.rows(query, *params)[0][0]

    # -- producers ---------------------------------------------------------

    def produce(self):
        queue = self.random.choice(QUEUES)
        if self.one("SELECT count(*) FROM (SELECT FROM fairq.q_%s LIMIT %d) t" % (queue, ENOUGH)) >= ENOUGH:
            time.sleep(0.1)
            return
        number = self.random.choice((1, 1, 5))
        self.counter += number
        names = ["%s.%d" % (self.tag, self.counter - i) for i in range(number)]
        with self.conn.transaction():
            self.conn.execute("INSERT INTO produced SELECT unnest(%s::text[])", (names,))
            self.conn.execute(
                "SELECT fairq.enqueue_many(%s, ARRAY(SELECT jsonb_build_object('name', n) FROM unnest(%s::text[]) n), group_keys => %s)",
                (queue, names, ["group %d" % self.random.randrange(10)]))
        for name in names:
            self.journal.write("P", name)
        time.sleep(self.random.uniform(0, 0.1))

    # -- workers -----------------------------------------------------------

    def consume(self):
        if self.kind == "session":
            if self.session is None:
                self.session = self.one("SELECT fairq.open_session(%s, make_interval(secs => %s), true)", self.tag, TTL)
            elif not self.one("SELECT fairq.heartbeat(%s)", self.session):
                self.session = None
                return
        queue = self.random.choice(QUEUES)
        tasks = self.rows("SELECT id, receipt, attempt, payload->>'name' FROM fairq.claim(%s, %s, lease => %s, session => %s)",
                          queue, self.random.choice((1, 5)), None if self.session else LEASE, self.session)
        if not tasks:
            time.sleep(0.05)
        for task, receipt, attempt, name in tasks:
            if self.random.random() < 0.01:
                self.session = None     # forgotten: it comes again when the lease, or the session, is over
                continue
            if self.plant == "apart":
                self.conn.execute("INSERT INTO results VALUES (%s, %s, %s, %s, %s)", (name, queue, task, attempt, self.tag))
                time.sleep(0.01)
                if self.one("SELECT fairq.ack(%s)", receipt):
                    self.answered(name)
                continue
            with self.conn.transaction():
                self.conn.execute("INSERT INTO results VALUES (%s, %s, %s, %s, %s)", (name, queue, task, attempt, self.tag))
                mine = self.one("SELECT fairq.ack(%s)", receipt)
                if not mine:
                    raise psycopg.Rollback()
            if mine:
                self.answered(name)

    def answered(self, name):
        self.journal.write("A", name)
        self.shared.acked[self.number] += 1

    # -- the loop ----------------------------------------------------------

    def run(self):
        step = self.produce if self.kind == "producer" else self.consume
        self.connect()
        while not self.over() and not (self.kind == "producer" and self.shared.drain.value):
            try:
                step()
            except psycopg.Error as error:
                state = error.sqlstate
                if state not in EXPECTED and state[:2] not in ("08", "57"):
                    self.journal.write("X", "%s: %s" % (state, error))
                # A server that has become a standby stays connected: go and look for the primary.
                self.conn.close()
                self.session = None
                self.shared.lost[self.number] += 1
                self.connect()
            except Exception:
                self.journal.write("X", traceback.format_exc(limit=-3))
                self.conn.close()
                self.connect()


def client_process(shared, options, conninfo, number):
    sys.stdin.close()
    Client(shared, options, conninfo, number).run()


class Load:
    """The processes of all clients."""

    def __init__(self, options, conninfo):
        self.shared = Shared()
        self.processes = [multiprocessing.Process(target=client_process, args=(self.shared, options, conninfo, number), daemon=True)
                          for number in range(len(KINDS))]
        for process in self.processes:
            process.start()

    def acked(self):
        return sum(self.shared.acked)

    def end(self):
        self.shared.stop.value = 1
        for process in self.processes:
            process.join(60)
            if process.is_alive():
                process.kill()
                process.join()


# -- the proof ---------------------------------------------------------------

# Each task whose enqueue committed has one result or is there once, and no other has.
# (What is produced and what is enqueued are of one transaction, and so are result and ack.)
JUDGE = """
WITH fate AS (
        SELECT name FROM results
        UNION ALL SELECT payload->>'name' FROM fairq.q_emails
        UNION ALL SELECT payload->>'name' FROM fairq.q_reports),
    fates AS (SELECT name, count(*) AS n FROM fate GROUP BY 1)
SELECT name, p.name IS NOT NULL, coalesce(n, 0) FROM produced p FULL JOIN fates USING (name)
WHERE p.name IS NULL OR n IS DISTINCT FROM 1
"""


def check(conn, journals):
    """Counts, and what is lost, double, or unexplained."""
    lost, double, errors = [], [], []
    for name, known, number in conn.execute(JUDGE):
        if not known:
            lost.append("%s: there is a task or a result, but the transaction that enqueued it is gone" % name)
        elif number == 0:
            lost.append("%s: neither there nor done" % name)
        else:
            double.append("%s: %d results" % (name, number))
    produced = {name for name, in conn.execute("SELECT name FROM produced")}
    results = {name for name, in conn.execute("SELECT name FROM results")}
    answered = {"P": 0, "A": 0}
    for path in sorted(os.listdir(journals)):
        for what, text in journal.read(os.path.join(journals, path)):
            if what == "X":
                errors.append("%s: %s" % (path, text))
                continue
            answered[what] += 1
            if what == "P" and text not in produced:
                lost.append("%s: enqueued, the producer had its answer" % text)
            if what == "A" and text not in results:
                lost.append("%s: acknowledged, the worker had its answer" % text)
    counts = {
        "tasks": len(produced),
        "enqueues that were answered": answered["P"],
        "acks that were answered": answered["A"],
        "results": len(results),
        "of a later attempt": conn.execute("SELECT count(*) FROM results WHERE attempt > 1").fetchone()[0],
        "still there": conn.execute("SELECT (SELECT count(*) FROM fairq.q_emails) + (SELECT count(*) FROM fairq.q_reports)").fetchone()[0],
    }
    return counts, lost, double, errors
