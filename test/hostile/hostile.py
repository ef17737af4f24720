#!/usr/bin/env python3
"""The suite hostile: attacks by ordinary roles, and what others do meanwhile.

An attack is a file in attacks/. Its first line says as whom it is run, and so
what was granted:

    -- as: owner        a queue "theirs", which somebody gave him
    -- as: creator      CREATE on schema fairq, and a queue "theirs" of his own
    -- as: producer     INSERT on a queue "theirs" of somebody else
    -- as: worker       SELECT, UPDATE and DELETE on such a queue
    -- as: nobody       CONNECT and nothing else; there is a queue "theirs" of somebody else
    -- as: database     CREATEDB, and a database of his own without the extension
    -- as: tenant       INSERT, SELECT, UPDATE and DELETE on a queue "theirs" of somebody else with
                        subgroups: an application, that does what users of its tenant "hog" want
    -- as: landlord     such a queue "theirs", which somebody gave him

In these two "hog" may have 20 tasks in flight, each user 15, and "hog" has a user "colleague".

"theirs" has an archive, hears topic "news", and has tasks in every state; the
attacker has a schema "attack" with what prelude.sql puts there. Further lines
may follow:

    -- then: restore        the tables are written anew, and a dump is restored
    -- then: order          all of "theirs" is claimed, and what comes next is in order, and can be written with SQL
    -- then: extension      a superuser has the extension, and queues, in the attacker's database
    -- then: shares N       the colleague, and another tenant, are served as doc/fairness.md states, while
                            N tasks are, or were, in the attacker's hands; how they fared is printed
    -- then: tenants        the same of the other tenant only
    -- may wait: NAME, ...  victims that may be cancelled by their timeout, as
                            who waits for a lock; "users" are all who use "theirs"

A statement that fails is a mistake in the attack, unless the file switches
ON_ERROR_STOP off. What it leaves open, a transaction with locks for example,
stays open until the victims are through.

A victim is a function below with @victim: an action of somebody else. After each
attack all of them are run, and it is looked whether

  - code of the attacker ran as anybody but him (the log has it: see prelude.sql),
  - anything of other queues is not as it was, in any view,
  - the server has restarted, or an internal error was reported,
  - anybody had to wait who does not use "theirs", or could not be cancelled.

At the end all attacks are made once more, on queues of their own, and with all of
them in force the server is restarted and a standby promoted.

Before them all functions are called by roles that may do nothing: every_function.py,
which is also the name of an attack.

Usage: hostile.py BINDIR DIRECTORY [ATTACK...]
DIRECTORY: of a cluster that runs (test/scripts/cluster.sh). Reports in TAP.
"""

import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import time

import psycopg

import every_function

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 120          # seconds for what takes milliseconds, on a machine that is busy with other things
IMPATIENCE = 0.3        # for those who may have to wait for the attacker
VICTIMS = []
NEVER = {"57014": "was cancelled by its timeout", "57P01": "was terminated", "57P02": "lost its connection in a crash"}


class Failed(Exception):
    """What a victim has suffered."""


def victim(function):
    VICTIMS.append((function.__name__.replace("_", " "), function))
    return function


# --- the server ---------------------------------------------------------------

class Server:
    """A cluster, and connections to it by role, made when they are needed."""

    def __init__(self, bindir, directory):
        self.bindir = bindir
        self.data = os.path.join(directory, "data")
        self.log = os.path.join(directory, "log")
        self.socket = os.path.join(directory, "socket")
        self.connections = {}
        self.may_wait = ()              # what an attack says
        self.patience = PATIENCE        # of the victim under way
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.read_to = os.path.getsize(self.log)

    def connect(self, role, database="town"):
        key = (role, database)
        connection = self.connections.get(key)
        if connection is None or connection.closed or connection.broken:
            connection = psycopg.connect(host=self.socket, user=role, dbname=database, autocommit=True,
                                         application_name=f"hostile {role}")
            self.connections[key] = connection
        return connection

    def run(self, role, query, parameters=None, database="town", patience=None):
        """The rows of a query. It is cancelled after its timeout; who cannot be
        cancelled is a failure of its own."""
        def execute():
            with self.connect(role, database).cursor() as cursor:
                cursor.execute(f"SET statement_timeout = '{patience or self.patience}s'")
                try:
                    cursor.execute(query, parameters)
                    return cursor.fetchall() if cursor.description else []
                except psycopg.Error as error:
                    error.statement = query
                    raise
        task = self.pool.submit(execute)
        try:
            return task.result(PATIENCE * 2)
        except concurrent.futures.TimeoutError:
            self.control("stop", "-m", "immediate")     # it is the only way to end it
            self.control("start", "-l", self.log)
            self.forget()
            raise Failed(f"could not be cancelled: {query}") from None

    def value(self, role, query, parameters=None, **options):
        rows = self.run(role, query, parameters, **options)
        return rows[0][0] if rows else None

    def forget(self):
        for connection in self.connections.values():
            try:
                connection.close()
            except psycopg.Error:
                pass
        self.connections = {}

    def control(self, action, *arguments):
        subprocess.run([os.path.join(self.bindir, "pg_ctl"), "-D", self.data, "-w", "-t", str(PATIENCE * 2), "-s", action, *arguments],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def program(self, name, *arguments):
        """A client program of the server; its output, or an error."""
        done = subprocess.run([os.path.join(self.bindir, name), "-h", self.socket, "-U", "postgres", *arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE * 2)
        if done.returncode != 0:
            raise Failed(f"{name}: {done.stderr.decode(errors='replace').strip()[-300:]}")
        return done.stdout

    def news(self):
        """The lines of the log since the last look."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            log.seek(self.read_to)
            text = log.read()
            self.read_to = log.tell()
        return text.splitlines()


class Standby(Server):
    """A standby of a server, below its directory."""

    def __init__(self, primary):
        directory = os.path.join(os.path.dirname(primary.data), "standby")
        os.makedirs(os.path.join(directory, "s"), mode=0o700)
        primary.program("pg_basebackup", "-D", os.path.join(directory, "data"), "-R", "-c", "fast", "--no-sync")
        with open(os.path.join(directory, "log"), "w", encoding="utf-8"):
            pass
        super().__init__(primary.bindir, directory)
        self.socket = os.path.join(directory, "s")      # a short path: a socket's may have a hundred bytes
        self.control("start", "-l", self.log, "-o", f"-c unix_socket_directories='{self.socket}'")

    def catch_up(self, primary):
        place = primary.value("postgres", "SELECT pg_current_wal_flush_lsn()")
        wait_for("the standby to catch up", lambda: self.value("postgres", "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (place,)))


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Failed(f"waited {PATIENCE} s in vain: {what}")
        time.sleep(0.01)


# --- the town: those who live there, and their queues --------------------------

ROLES = """
CREATE ROLE citizen LOGIN; CREATE ROLE publisher LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE clerk LOGIN;
CREATE ROLE tenant LOGIN; CREATE ROLE landlord LOGIN; CREATE ROLE owner LOGIN; CREATE ROLE creator LOGIN; CREATE ROLE producer LOGIN; CREATE ROLE worker LOGIN; CREATE ROLE nobody LOGIN;
CREATE ROLE database LOGIN CREATEDB;
CREATE DATABASE town
"""

TOWN = """
CREATE EXTENSION pgfairq;
SELECT fairq.create_queue('still', buckets => 3, max_ready_per_group => 5, keep_done => '1 year', lease => '1 day');
SELECT fairq.create_queue('durable', policy => 'priority', buckets => 2, durable_leases => true, lease => '1 day');
SELECT fairq.create_queue('work', buckets => 2, keep_done => '1 year');
SELECT fairq.create_queue('news', buckets => 2), fairq.subscribe('news', 'news');
SELECT fairq.create_queue('clock', buckets => 1);
ALTER TABLE fairq.q_still OWNER TO citizen; ALTER TABLE fairq.done_still OWNER TO citizen;
ALTER TABLE fairq.q_durable OWNER TO citizen;
ALTER TABLE fairq.q_work OWNER TO citizen; ALTER TABLE fairq.done_work OWNER TO citizen;
ALTER TABLE fairq.q_news OWNER TO citizen; ALTER TABLE fairq.q_clock OWNER TO citizen;
GRANT INSERT ON fairq.q_news TO publisher
"""

# "still" and "durable" have tasks in every state, and nobody touches them: they
# show whether something of others changes.
STILL = """
SELECT fairq.set_group('still', 'a', weight => 3, max_leased => 2);
SELECT fairq.enqueue('still', to_jsonb(n), group_key => (ARRAY['a', 'b', 'c'])[n % 3 + 1]) FROM generate_series(1, 30) n;
SELECT fairq.enqueue('still', '"later"', run_at => now() + interval '1 month') FROM generate_series(1, 3);
SELECT fairq.enqueue('still', '"one"', unique_key => 'k');
SELECT fairq.nack(receipt, 'dead') FROM (SELECT fairq.enqueue('still', '"dead"', group_key => 'd', max_attempts => 1)) e,
	LATERAL fairq.claim('still', group_keys => '{d}');
SELECT count(*) FROM fairq.claim('still', 4);
SELECT fairq.enqueue('durable', to_jsonb(n), priority => n) FROM generate_series(1, 10) n;
SELECT count(*) FROM fairq.claim('durable', 3);
SELECT fairq.ack(receipt) FROM (SELECT fairq.enqueue('still', '"done"', group_key => 'e')) e, LATERAL fairq.claim('still', group_keys => '{e}');
SELECT fairq.enqueue('still', '"after"', after => ARRAY[fairq.enqueue('still', '"before"', run_at => now() + interval '1 month')], on_dead => h) FROM unnest('{hold,cancel,run}'::text[]) h;
SELECT fairq.schedule('still', 'still', '@yearly', '{"secret": 1}')
"""

# The attacker's queue. His tasks are due at once, in a moment, run out in a moment.
THEIRS = """
SELECT fairq.create_queue('theirs', buckets => 2, max_ready_per_group => 4, keep_done => '1 day', backoff_base => '1 ms', backoff_max => '10 ms');
SELECT fairq.subscribe('news', 'theirs')
"""
THEIR_TASKS = """
SELECT fairq.enqueue('theirs', to_jsonb(n), group_key => (ARRAY['a', 'b'])[n % 2 + 1], headers => '{"trace": "x"}') FROM generate_series(1, 16) n;
SELECT fairq.enqueue('theirs', '"soon"', run_at => now() + interval '300 ms') FROM generate_series(1, 4);
SELECT fairq.enqueue('theirs', '"unique"', unique_key => 'k', group_key => 'u');
SELECT count(*) FROM fairq.claim('theirs', 2, lease => '200 ms');
SELECT count(*) FROM fairq.claim('theirs', group_keys => '{u}');
SELECT fairq.enqueue('theirs', '"held"', unique_key => 'k', group_key => 'u')
"""
# The colleague has work throughout: else its entry may be another user's by the time that is judged.
DIVIDED = """
SELECT fairq.alter_queue('theirs', subgroups => true);
SELECT fairq.set_group('theirs', 'hog', max_leased => 20), fairq.set_subgroup_defaults('theirs', max_leased => 15);
SELECT count(fairq.enqueue('theirs', '1', 'hog', subgroup_key => 'colleague')) FROM generate_series(1, 10)
"""
OWNED = """
ALTER TABLE fairq.q_theirs OWNER TO {role}; ALTER TABLE fairq.done_theirs OWNER TO {role};
"""


def statements(text):
    return [part.strip() for part in text.split(";") if part.strip()]


# What changes by itself while nobody does anything.
RESTLESS = re.compile(r"(_age|_rate|^oldest_wait|^tokens|_reset)$")


def picture(server):
    """All that views and tables say of the queues that stand still."""
    views = server.run("postgres", "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
                       " JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'"
                       " WHERE c.relkind = 'v' AND a.attnum > 0 GROUP BY 1 ORDER BY 1")
    result = {}
    for view, columns in views:
        if "queue" not in columns:
            continue
        kept = ", ".join(f'"{column}"' for column in columns if not RESTLESS.search(column))
        rows = server.run("postgres", f"SELECT {kept} FROM fairq.{view} WHERE queue IN ('still', 'durable')")
        result[view] = sorted(str(row) for row in rows)
    for table in ("q_still", "q_durable", "done_still", "durable_lease"):
        result[table] = sorted(str(row) for row in server.run("postgres", f"SELECT t::text FROM fairq.{table} t"))
    result["dependency"] = sorted(str(row) for row in server.run("postgres", "SELECT d::text FROM fairq.dependency d WHERE queue IN ('still', 'durable')"))
    return result


def tables(contents):
    """What a crash and a promotion leave as it is."""
    return {name: rows for name, rows in contents.items() if name in ("q_still", "q_durable", "done_still", "durable_lease", "dependency")}


def differences(before, after):
    for name, rows in before.items():
        if after[name] != rows:
            gone = [row for row in rows if row not in after[name]][:2]
            come = [row for row in after[name] if row not in rows][:2]
            yield f"{name} of another's queue has changed: {gone} became {come}"


# --- the victims ---------------------------------------------------------------
# They get the server and the name of the attacker's queue, or None if it is gone.

def bear(server, role, query, parameters=None):
    """Somebody who uses the attacker's queue may be refused, but clearly, and in time."""
    may_wait = "users" in server.may_wait
    try:
        return server.run(role, query, parameters, patience=IMPATIENCE if may_wait else None)
    except psycopg.Error as error:
        if (error.sqlstate is None or error.sqlstate.startswith("XX") or
                error.sqlstate in NEVER and not (may_wait and error.sqlstate == "57014")):
            raise
        return []


def views_as(server, role, database="town"):
    views = server.run("postgres", "SELECT objid::regclass::text FROM pg_depend d JOIN pg_class c ON c.oid = d.objid"
                       " WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND c.relkind = 'v' ORDER BY 1")
    for (view,) in views:
        server.run(role, f"SELECT v::pg_catalog.text FROM {view} v", database=database)


@victim
def views_by_monitor(server, theirs):
    views_as(server, "watcher")


@victim
def views_by_superuser(server, theirs):
    views_as(server, "postgres")


@victim
def looks(server, theirs):
    for query in ("SELECT fairq.peek(%s, 100)::text", "SELECT fairq.tasks(%s)::text",
                  "SELECT fairq.get_task_position(q, id)::text, fairq.get_task(q, id)::text FROM (SELECT %s AS q) n, generate_series(1, 3) id",
                  "SELECT fairq.get_task_by_key(%s, 'key')::text",
                  "SELECT fairq.get_done_task(q, id)::text FROM (SELECT %s AS q) n, generate_series(1, 3) id",
                  "SELECT fairq_internal.tasks_page(%s, NULL, 100, 100, NULL, NULL)::text",
                  "SELECT fairq_internal.done_page(%s, NULL, NULL, 100, 100, NULL, NULL)::text",
                  "SELECT fairq.await(q, id, '0')::text FROM (SELECT %s AS q) n, generate_series(1, 3) id"):
        bear(server, "postgres", query, (theirs,))


@victim
def publish(server, theirs):
    bear(server, "publisher", "SELECT fairq.publish('news', '\"extra\"', group_key => 'p')")
    server.run("citizen", "SELECT fairq.purge('news')")


@victim
def enqueue(server, theirs):
    server.run("citizen", "SELECT fairq.enqueue_many('work', array_fill('1'::jsonb, ARRAY[20]))")
    server.run("citizen", "SELECT fairq.enqueue('work', '2', unique_key => 'w', on_duplicate => 'replace')")


@victim
def claim_and_settle(server, theirs):
    rows = server.run("citizen", "SELECT id, receipt FROM fairq.claim('work', 30)")
    if len(rows) != 21:
        raise Failed(f"{len(rows)} of 21 tasks were claimed")
    receipts = [row[1] for row in rows]
    server.run("citizen", "SELECT fairq.release(%s)", (receipts[0],))
    server.run("citizen", "SELECT fairq.nack(%s, 'again', '0')", (receipts[1],))
    server.run("citizen", "SELECT fairq.extend(%s)", (receipts[2],))
    acked = server.value("citizen", "SELECT count(*) FROM fairq.ack_many(%s)", (receipts[2:-1],))
    server.run("citizen", "SELECT fairq.ack(%s, '\"result\"')", (receipts[-1],))
    outcome = server.run("citizen", "SELECT o.state, o.result FROM fairq.await('work', %s) o", (rows[-1][0],))
    if outcome != [("acked", "result")]:
        raise Failed(f"a task of ours ended as {outcome}")
    popped = server.value("citizen", "SELECT count(*) FROM fairq.pop('work', 10)")
    if acked != 18 or popped != 2:
        raise Failed(f"{acked} of 19 tasks were acknowledged, {popped} of 2 popped")


@victim
def claim_and_ack_theirs(server, theirs):
    rows = bear(server, "clerk", "SELECT receipt FROM fairq.claim(%s, 4)", (theirs,))
    receipts = [row[0] for row in rows]
    bear(server, "clerk", "SELECT fairq.extend_many(%s)", (receipts[:1],))
    bear(server, "clerk", "SELECT fairq.release_many(%s)", (receipts[:1],))
    bear(server, "clerk", "SELECT fairq.set_progress(r, '1') FROM unnest(%s::uuid[]) r", (receipts[1:],))
    bear(server, "clerk", "SELECT fairq.nack(r, 'no', final => true) FROM unnest(%s::uuid[]) r", (receipts[1:2],))
    bear(server, "clerk", "SELECT fairq.ack_many(%s)", (receipts[2:],))
    bear(server, "clerk", "SELECT fairq.pop(%s, 2)", (theirs,))
    bear(server, "clerk", "SELECT fairq.cancel(q, id) FROM (SELECT %s AS q) n, generate_series(1, 2) id", (theirs,))


@victim
def sessions(server, theirs):
    session = server.value("citizen", "SELECT fairq.open_session('victim')")
    server.run("citizen", "SELECT fairq.my_buckets('work', %s)", (session,))
    if not server.value("citizen", "SELECT fairq.heartbeat(%s)", (session,)):
        raise Failed("the session is over")
    server.run("citizen", "SELECT fairq.close_session(%s)", (session,))


@victim
def wait(server, theirs):
    server.run("citizen", "CALL fairq.wait('work', '1 ms')")
    server.run("citizen", "CALL fairq.wait_any('{work}', '1 ms')")


@victim
def new_queue(server, theirs):
    server.run("postgres", "SELECT fairq.create_queue('new', keep_done => '1 day')")
    server.run("postgres", "SELECT fairq.enqueue('new', '1')")
    server.run("postgres", "SELECT fairq.pause('new'), fairq.alter_queue('new', buckets => 3), fairq.resume('new')")
    popped = server.value("postgres", "SELECT count(*) FROM fairq.pop('new')")
    server.run("postgres", "SELECT fairq.drop_queue('new')")
    if popped != 1:
        raise Failed("a new queue's task is not claimable")


@victim
def maintain(server, theirs):
    bear(server, "postgres", "SELECT fairq.maintain(%s)", (theirs,))
    bear(server, "clerk", "SELECT fairq.maintain(%s)", (theirs,))
    server.run("citizen", "SELECT fairq.maintain('work')")


@victim
def background_worker(server, theirs):
    """Something is due in the attacker's queue, too. Twice, so that the worker has
    been at every queue in between."""
    bear(server, "publisher", "SELECT fairq.publish('news', '\"due\"', group_key => 'w', run_at => clock_timestamp() + interval '1 ms')")
    time.sleep(0.002)
    for _ in range(2):
        task = server.value("citizen", "SELECT fairq.enqueue('clock', '1', run_at => clock_timestamp() + interval '5 ms')")
        wait_for("a task that is due", lambda: server.value("citizen", "SELECT state = 'ready' FROM fairq.get_task('clock', %s)", (task,)))
        wait_for("it can be claimed", lambda: server.value("citizen", "SELECT count(*) FROM fairq.pop('clock')") == 1)


@victim
def schedules(server, theirs):
    """Due now, for somebody else's queue and for the attacker's."""
    server.run("citizen", "SELECT fairq.schedule('victim', 'clock', '@yearly', overlap => true)")
    bear(server, "publisher", "SELECT fairq.schedule('victim of theirs', %s, '@yearly', overlap => true)", (theirs,))
    server.run("postgres", "UPDATE fairq.schedule SET next_run = clock_timestamp(), active = true WHERE name LIKE 'victim%'")
    wait_for("a schedule that is due", lambda: server.value("citizen", "SELECT last_run IS NOT NULL FROM fairq.schedules WHERE name = 'victim'"))
    server.run("citizen", "SELECT fairq.unschedule('victim')")
    server.run("publisher", "SELECT fairq.unschedule('victim of theirs')")
    ran = wait_for("its task", lambda: server.value("citizen", "SELECT count(*) FROM fairq.pop('clock', 10)"))
    ran += server.value("citizen", "SELECT count(*) FROM fairq.pop('clock', 10)")
    if ran != 1:
        raise Failed(f"a schedule has run {ran} times, not once")


@victim
def update_of_the_extension(server, theirs):
    # In one transaction: the library serves its own version only.
    version = server.value("postgres", "SELECT extversion FROM pg_extension WHERE extname = 'pgfairq'")
    server.run("postgres", f"ALTER EXTENSION pgfairq UPDATE TO '{version}hostile'; ALTER EXTENSION pgfairq UPDATE TO '{version}'")


@victim
def dump(server, theirs):
    server.program("pg_dump", f"--lock-wait-timeout={server.patience}s", "-Fc", "-Z0", "-f", os.path.join(os.path.dirname(server.data), "town.dump"), "town")


def restore(server):
    """What is in a dump of the attacker's queue is in the copy."""
    server.run("postgres", "VACUUM FULL fairq.q_theirs")
    server.run("publisher", "SELECT fairq.enqueue('theirs', '1', group_key => 'new ' || n) FROM generate_series(1, 5) n")
    server.run("postgres", "SELECT fairq.slot(address) FROM fairq.q_theirs WHERE address IS NOT NULL")
    dump(server, "theirs")
    server.run("postgres", "CREATE DATABASE copy", database="postgres")
    try:
        server.program("pg_restore", "-d", "copy", os.path.join(os.path.dirname(server.data), "town.dump"))
        rows = [server.value("postgres", "SELECT count(*) FROM fairq.q_theirs", database=name) for name in ("town", "copy")]
        if rows[0] != rows[1]:
            raise Failed(f"of {rows[0]} tasks {rows[1]} were restored")
    finally:
        server.forget()
        server.run("postgres", "DROP DATABASE copy WITH (FORCE)", database="postgres")


def order(server):
    """Groups that come to the attacker's queue share it, when its rows were claimed and read anew."""
    def in_order(groups):
        keys = [f"{groups} {n}" for n in (1, 2) for _ in range(3)]
        server.run("postgres", "SELECT fairq.enqueue('theirs', '1', k) FROM unnest(%s::text[]) k", (keys,))
        got = [row[0][-1] for row in server.run("postgres", "SELECT group_key FROM fairq.q_theirs WHERE group_key = ANY (%s)"
                                                " ORDER BY fairq.block(address), fairq.slot(address)", (keys,))]
        if len(got) == 6 and got not in (list("121212"), list("212121")):
            raise Failed(f"tasks of two groups are in order {got}")

    server.run("clerk", "SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 100)")
    in_order("late")
    server.run("postgres", "CREATE TEMP TABLE kept AS SELECT * FROM fairq.q_theirs WHERE group_key LIKE 'late%';"
               "DELETE FROM fairq.q_theirs WHERE group_key LIKE 'late%'; INSERT INTO fairq.q_theirs SELECT * FROM kept; DROP TABLE kept")
    restore(server)
    in_order("later")


def extension(server):
    """A superuser's queues in the attacker's database, and the worker there."""
    def run(query, parameters=None):
        return server.run("postgres", query, parameters, database="attack")

    run("CREATE EXTENSION pgfairq")
    run("SELECT fairq.create_queue('q', keep_done => '100 ms', max_ready_per_group => 2)")
    run("SELECT fairq.set_group('q', 'g', weight => 2), fairq.set_group_defaults('q', max_leased => 5), fairq.subscribe('a.#', 'q'), fairq.pause_group('q', 'p')")
    run("SELECT fairq.alter_queue('q', buckets => 3, lease => '1 h')")
    run("SELECT fairq.publish('a.b', '1', unique_key => 'u'), fairq.enqueue('q', '2', group_key => 'g'), fairq.enqueue('q', '3', group_key => 'g'), fairq.enqueue('q', '4', group_key => 'g')")
    task = run("SELECT fairq.enqueue('q', '1', run_at => 'tomorrow')")[0][0]
    run("UPDATE fairq.q_q SET run_at = clock_timestamp() WHERE state OPERATOR(pg_catalog.=) 's'")
    wait_for("the worker in the attacker's database", lambda: run("SELECT (fairq.get_task('q', %s)).state", (task,))[0][0] != "scheduled")
    wait_for("all tasks", lambda: len(run("SELECT fairq.ack(receipt) FROM fairq.claim('q', 10)")) == 0 and len(run("SELECT FROM fairq.q_q")) == 0)
    wait_for("the end of what is archived", lambda: len(run("SELECT FROM fairq.done_tasks")) == 0)
    views_as(server, "postgres", "attack")
    run("SELECT fairq.unsubscribe('a.#', 'q'), fairq.resume_group('q', 'p'), fairq.reset_stats('q')")
    run("SELECT fairq.drop_queue('q')")


def shares(server, in_hand="0", colleagues=True):
    """Beside tenant "hog", whose users are the attackers: its user "colleague", and tenant "neighbour".
    A task is claimed at a time, and nobody may be ahead of them by more than the bound, with what
    was in hand: of the attacker, and of the victims before, who have had 4 at a time."""
    slack = 2 + 4 + int(in_hand)
    took = []
    for tenant, user in ("hog", "colleague"), ("neighbour", "ann"), ("neighbour", "bob"):
        began = time.monotonic()
        server.run("publisher", "SELECT fairq.enqueue_many('theirs', array_fill('9'::jsonb, '{150}'), group_keys => %s, subgroup_keys => %s)", ([tenant], [user]))
        took.append(time.monotonic() - began)
    began = time.monotonic()
    task = server.value("publisher", "SELECT fairq.enqueue('theirs', '1', 'neighbour', subgroup_key => 'due', delay => '1 ms')")
    wait_for("a task of a neighbour that is due", lambda: server.value("clerk", "SELECT state = 'overflow' FROM fairq.get_task('theirs', %s)", (task,)))
    waited = time.monotonic() - began
    served, users = collections.Counter(), collections.Counter()
    for n in range(1, 201):
        rows = server.run("clerk", "SELECT group_key, subgroup_key, fairq.ack(receipt) FROM fairq.claim('theirs')")
        if not rows:
            raise Failed(f"nothing came after {n - 1} tasks, though a neighbour waits")
        for tenant, user, _ in rows:
            served[tenant] += 1
            users[user] += tenant == "hog"
        if served["hog"] > served["neighbour"] + slack:
            raise Failed(f"of {n} tasks {served['neighbour']} were of a neighbour, and {served['hog']} of the attacker's tenant")
        (user, most), = users.most_common(1)
        if colleagues and most > users["colleague"] + slack:
            raise Failed(f"of {n} tasks {users['colleague']} were of a colleague, and {most} of user {user}")
    if colleagues and users["colleague"] == 0:
        raise Failed("no task of a colleague came")
    return (f"enqueued within {max(took) * 1000:.0f} ms, due after {waited:.2f} s; of 200 tasks {served['neighbour']} were of a neighbour, "
            f"{served['hog']} of the attacker's tenant, {users['colleague']} of these of a colleague")


def tenants(server):
    return shares(server, colleagues=False)


# --- attacks -------------------------------------------------------------------

class Attack:
    def __init__(self, name):
        self.name = name
        with open(os.path.join(HERE, "attacks", name + ".sql"), encoding="utf-8") as source:
            self.text = source.read()
        self.role = re.match(r"-- as: (\w+)\n", self.text)[1]
        may_wait = re.search(r"^-- may wait: (.*)$", self.text, re.MULTILINE)
        self.may_wait = [name.strip() for name in may_wait[1].split(",")] if may_wait else []
        then = re.search(r"^-- then: (\w+)(?: (\d+))?$", self.text, re.MULTILINE)
        self.then = {"restore": restore, "order": order, "extension": extension, "shares": shares, "tenants": tenants}[then[1]] if then else None
        self.then_arguments = [then[2]] if then and then[2] else []
        self.psql = None

    def numbered(self, text, number):
        """The same on another queue and in another schema."""
        text = re.sub(r"\battack\b(?=[.';, ])", f"attack{number}", text)
        return re.sub(r"(?<![a-z])theirs(?![a-z])", f"theirs{number}", text)

    def prepare(self, server, number=""):
        """The queue and the schema, by a superuser; then what the attacker has done before."""
        def run(role, text):
            for statement in statements(self.numbered(text, number)):
                server.run(role, statement)

        if self.role == "database":
            server.run("database", "CREATE DATABASE attack TEMPLATE template0", database="postgres")
            return
        run("postgres", f"CREATE SCHEMA attack ; ALTER SCHEMA attack OWNER TO {self.role}")
        if self.role == "creator":
            run("postgres", "GRANT CREATE ON SCHEMA fairq TO creator")
        run("creator" if self.role == "creator" else "postgres", THEIRS)
        if self.role == "owner":
            run("postgres", OWNED.format(role="owner"))
        if self.role in ("tenant", "landlord"):
            run("postgres", DIVIDED)
        if self.role == "landlord":
            run("postgres", OWNED.format(role="landlord"))
        if self.role in ("producer", "worker", "nobody", "tenant"):
            run("postgres", OWNED.format(role="citizen"))
        owner = self.role if self.role in ("owner", "creator", "landlord") else "citizen"
        run(owner, "GRANT SELECT, UPDATE, DELETE ON fairq.q_theirs TO clerk; GRANT INSERT ON fairq.q_theirs TO publisher")
        if self.role == "producer":
            run("postgres", "GRANT INSERT ON fairq.q_theirs TO producer")
        if self.role == "worker":
            run("postgres", "GRANT SELECT, UPDATE, DELETE ON fairq.q_theirs TO worker")
        if self.role == "tenant":
            run("postgres", "GRANT INSERT, SELECT, UPDATE, DELETE ON fairq.q_theirs TO tenant")
        run(owner, THEIR_TASKS)

    def make(self, server, number=""):
        """Run it. Returns what went wrong; psql stays connected."""
        database = "attack" if self.role == "database" else "town"
        text = self.text
        if self.role != "database":
            with open(os.path.join(HERE, "prelude.sql"), encoding="utf-8") as prelude:
                text = prelude.read() + text
        self.psql = subprocess.Popen(
            [os.path.join(server.bindir, "psql"), "-X", "-q", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose",
             "-h", server.socket, "-U", self.role, "-d", database],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, PGOPTIONS="-c statement_timeout=20s -c client_min_messages=error", PGAPPNAME="hostile attacker"), encoding="utf-8", errors="replace")
        self.psql.stdin.write(self.numbered(text, number))
        self.psql.stdin.write("\n\\echo HOSTILE-DONE\n")
        self.psql.stdin.flush()
        lines = []
        reader = server.pool.submit(self.read, lines)
        try:
            done = reader.result(PATIENCE * 2)
        except concurrent.futures.TimeoutError:
            self.psql.kill()
            return f"could not be cancelled: {lines[-1:]}"
        return None if done else f"could not be made: {' '.join(lines)[-600:]}"

    def read(self, lines):
        for line in self.psql.stdout:
            line = line.rstrip("\n")
            if line == "HOSTILE-DONE":
                return True
            lines.append(line)
        return False

    def end(self):
        """Closes the attacker's connection, and what he left open."""
        if self.psql is not None:
            try:
                self.psql.stdin.close()
            except OSError:
                pass
            try:
                self.psql.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.psql.kill()
            self.psql.stdout.close()
            self.psql = None

    @staticmethod
    def drop_schema(server):
        """It locks many things in any order, and the worker may be at some of them."""
        for last in (False, False, True):
            try:
                server.run("postgres", "DROP SCHEMA attack CASCADE")
                return
            except psycopg.errors.DeadlockDetected:
                if last:
                    raise

    def clean(self, server):
        """A superuser removes it all, which is one more victim."""
        if self.role == "database":
            server.run("postgres", "DROP DATABASE IF EXISTS attack WITH (FORCE)", database="postgres")
            return
        for (name,) in server.run("postgres", "SELECT gid FROM pg_prepared_xacts WHERE database = 'town'"):
            server.run("postgres", f"ROLLBACK PREPARED '{name}'")
        try:
            self.drop_schema(server)
            server.run("postgres", "SELECT fairq.drop_queue('theirs')")
        finally:
            server.run("postgres", f"DROP OWNED BY {self.role} CASCADE")
            server.run("postgres", "DELETE FROM fairq.schedule WHERE name <> 'still'")
            server.run("postgres", "DELETE FROM fairq.queue WHERE queue NOT IN ('still', 'durable', 'work', 'news', 'clock')")


class Suite:
    def __init__(self, server):
        self.server = server
        self.count = self.failed = 0

    def report(self, name, problems, notes=()):
        self.count += 1
        self.failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.count} - {name}", flush=True)
        for problem in [*notes, *problems]:
            print(f"#   {problem}", flush=True)

    def log_problems(self, attackers):
        """Whoever ran the attacker's code, and what broke."""
        seen = set()
        for line in self.server.news():
            ran = re.search(r"hostile code: (\S+) as=(\S+) session=\S+ by=(.*)", line)
            if ran and ran[2] not in attackers:
                seen.add(f"code of {ran[1]} ran as {ran[2]}: {ran[3]}")
            elif re.search(r"PANIC:|TRAP:|was terminated by signal|all server processes terminated|could not be .* in time", line):
                seen.add(line)
            elif re.search(r"(ERROR|FATAL): +XX", line):        # internal errors: an invariant is broken
                seen.add(line)
        return sorted(seen)

    def started(self):
        """Since when the server and the town's worker are there."""
        return wait_for("the worker", lambda: self.server.value(
            "postgres", "SELECT concat(pg_postmaster_start_time(), ', checkpointer ', c.pid, ', worker ', w.pid) FROM pg_stat_activity c, pg_stat_activity w"
            " WHERE c.backend_type = 'checkpointer' AND w.backend_type = 'pgfairq worker' AND w.datname = 'town'"))

    def suffer(self, may_wait=(), theirs="theirs"):
        """All victims' problems."""
        problems = []
        self.server.may_wait = may_wait
        for name, function in VICTIMS:
            began = time.monotonic()
            excused = name in may_wait
            self.server.patience = IMPATIENCE if excused else PATIENCE
            try:
                function(self.server, theirs)
            except psycopg.Error as error:
                if not (excused and error.sqlstate == "57014"):
                    why = NEVER.get(error.sqlstate, str(error).splitlines()[0])
                    problems.append(f"{name}: {error.sqlstate} {why}, in: {getattr(error, 'statement', '')}")
                if error.sqlstate is None or error.sqlstate.startswith("57P"):
                    self.server.forget()
                    wait_for("the server", self.alive)
            except (Failed, UnicodeError, subprocess.TimeoutExpired) as failure:
                if not (excused and "due to statement timeout" in str(failure)):
                    problems.append(f"{name}: {failure}")
            self.server.patience = PATIENCE
            if TIMES is not None:
                TIMES[name] = TIMES.get(name, 0) + time.monotonic() - began
        return problems

    def alive(self):
        try:
            return self.server.value("postgres", "SELECT true")
        except psycopg.Error:
            return False

    def one(self, name):
        attack = Attack(name)
        problems, notes = [], []
        title = f"{name} ({attack.role})"
        self.server.news()
        start = self.started()
        before = picture(self.server)
        try:
            attack.prepare(self.server)
            problem = attack.make(self.server)
            if problem:
                problems.append(problem)
            wait_for("the server", self.alive)
            problems += self.suffer(attack.may_wait)
            if attack.then:
                notes = filter(None, [attack.then(self.server, *attack.then_arguments)])
            attack.end()
            attack.clean(self.server)
        except (psycopg.Error, UnicodeError, Failed) as error:
            problems.append(f"{getattr(error, 'sqlstate', '')} {str(error).splitlines()[0]}, in: {getattr(error, 'statement', '')}")
        attack.end()
        self.server.forget()
        try:
            wait_for("the server", self.alive)
            if self.started() != start:
                problems.append("the server, or the worker, has restarted")
            else:
                problems += differences(before, picture(self.server))
        except (psycopg.Error, Failed) as error:
            problems.append(f"afterwards: {error}")
        problems += self.log_problems({attack.role})
        held = self.server.run("postgres", "SELECT l.* FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                               " WHERE l.locktype = 'advisory' AND a.backend_type LIKE 'pgfairq %'", database="postgres")
        if held:
            problems.append(f"the worker has kept {len(held)} advisory locks")
        self.report(title, problems, notes)
        if problems:
            self.rebuild()

    def rebuild(self):
        """After damage the next attack begins in a town that is whole."""
        def rebuilt():
            try:
                self.server.forget()
                for gid, database in self.server.run("postgres", "SELECT gid, database FROM pg_prepared_xacts", database="postgres"):
                    self.server.run("postgres", f"ROLLBACK PREPARED '{gid}'", database=database)
                self.server.forget()
                for database in ("attack", "town"):
                    self.server.run("postgres", f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", database="postgres")
                self.server.run("postgres", "CREATE DATABASE town", database="postgres")
                self.build()
                return True
            except psycopg.Error:
                return False
        wait_for("the server, to begin anew", rebuilt)

    def together(self, names):
        """All attacks that let others go on, at the same time, through a crash of
        the server and the promotion of a standby."""
        server = self.server
        attacks = [attack for attack in map(Attack, names) if attack.role != "database" and "users" not in attack.may_wait]
        roles = {attack.role for attack in attacks}
        self.rebuild()
        standby = Standby(server)
        before = picture(server)
        problems = []
        for number, attack in enumerate(attacks):
            attack.prepare(server, number)
            problem = attack.make(server, number)
            attack.end()
            if problem:
                problems.append(f"{attack.name}: {problem}")
        theirs = "theirs0"
        problems += self.suffer(theirs=theirs)
        problems += differences(before, picture(server))
        self.report(f"all {len(attacks)} at the same time", problems + self.log_problems(roles))

        problems = []
        standby.catch_up(server)
        self.server = standby
        for role in ("watcher", "postgres"):
            try:
                views_as(standby, role)
            except (psycopg.Error, UnicodeError, Failed) as error:
                problems.append(f"{role}: {error}, in: {getattr(error, 'statement', '')}")
        self.report("views of the standby", problems + self.log_problems(roles))
        problems = []
        # Such a server forgets to write what unlogged sequences begin with, unless a restartpoint comes.
        if 150000 <= standby.connect("postgres").info.server_version < 150020:
            server.run("postgres", "CHECKPOINT")
            standby.catch_up(server)
            standby.run("postgres", "CHECKPOINT")
        standby.control("promote")
        problems += self.suffer(theirs=theirs)
        problems += differences(tables(before), tables(picture(standby)))
        self.report("promotion of the standby", problems + self.log_problems(roles))
        standby.control("stop", "-m", "immediate")

        self.server = server
        server.news()
        server.control("stop", "-m", "immediate")
        server.control("start", "-l", server.log)
        server.forget()
        problems = self.suffer(theirs=theirs)
        problems += differences(tables(before), tables(picture(server)))
        self.report("crash of the server", problems + self.log_problems(roles))

    def build(self):
        for statement in statements(TOWN):
            self.server.run("postgres", statement)
        for statement in statements(STILL):
            self.server.run("citizen", statement)
        self.server.news()


TIMES = {} if os.environ.get("HOSTILE_TIMES") else None


def install_versions(bindir):
    """Something to update the extension to, and back: what scripts do."""
    directory = subprocess.run([os.path.join(bindir, "pg_config"), "--sharedir"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.strip() + "/extension"
    with open(f"{directory}/pgfairq.control", encoding="utf-8") as control:
        version = re.search(r"^default_version = '(.*)'$", control.read(), re.MULTILINE)[1]
    with open(f"{directory}/pgfairq--{version}--{version}hostile.sql", "w", encoding="utf-8") as script:
        script.write("""
ALTER TABLE fairq.queue ADD COLUMN hostile pg_catalog.int4 DEFAULT 1;
UPDATE fairq.queue SET hostile = 2;
CREATE FUNCTION fairq.hostile(queue text) RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT pg_catalog.count(*) FROM fairq.queue; END;
CREATE VIEW fairq.hostile AS SELECT s.* FROM fairq.queue_stats s;
SELECT pg_catalog.count(*) FROM fairq.queues;
""")
    with open(f"{directory}/pgfairq--{version}hostile--{version}.sql", "w", encoding="utf-8") as script:
        script.write("""
DROP VIEW fairq.hostile;
DROP FUNCTION fairq.hostile(text);
ALTER TABLE fairq.queue DROP COLUMN hostile;
""")


def main():
    if len(sys.argv) < 3:
        raise SystemExit("usage: hostile.py BINDIR DIRECTORY [ATTACK...]")
    server = Server(sys.argv[1], sys.argv[2])
    names = sys.argv[3:] or sorted(name[:-4] for name in os.listdir(os.path.join(HERE, "attacks")) if name.endswith(".sql"))
    install_versions(sys.argv[1])
    for statement in statements(ROLES):
        server.run("postgres", statement, database="postgres")
    # Errors, too, and of which kind they are.
    server.run("postgres", "ALTER SYSTEM SET log_min_messages = 'warning'", database="postgres")
    server.run("postgres", "ALTER SYSTEM SET log_error_verbosity = 'verbose'", database="postgres")
    server.run("postgres", "SELECT pg_reload_conf()", database="postgres")
    suite = Suite(server)
    if not sys.argv[3:] or "every_function" in names:
        every_function.run(server, suite.report)
        names = [name for name in names if name != "every_function"]
    if names:
        suite.build()
        for name in names:
            suite.one(name)
        suite.together(names)
    print(f"1..{suite.count}")
    if TIMES is not None:
        for name, seconds in sorted(TIMES.items(), key=lambda item: -item[1]):
            print(f"# {seconds:6.1f} s {name}")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
