"""The faults: what each does, and how often it is drawn.

A fault is a function of the driver.  It says with driver.ends(...) which leases
may end by it, and returns when the server takes connections again; the driver
then waits for the clients to go on.
"""

import os
import signal
import threading
import time

import psycopg

from journal import now
from queues import BY_ID, GROUPS, LEASE, QUEUES, ident_sql, judge, table
from server import DATABASE, Trouble

FAULTS = {}     # name -> Fault


class Fault:
    def __init__(self, function, name, weight, needs):
        self.function = function
        self.name = name
        self.weight = weight
        self.needs = needs      # what the stage must have: "disks", "clock", "newer"


class Skip(Exception):
    """There was nothing to do it to."""


def fault(name, weight, needs=None):
    def enter(function):
        FAULTS[name] = Fault(function, name, weight, needs)
        return function
    return enter


# What ends the leases that are in memory only, and every connection.
CRASH = ("memory", "connections")
# The leases of a copy are forgotten, and those of another time have run out.
ALL = ("all", "connections")


# -- clients and connections ---------------------------------------------------

@fault("client killed (kill -9)", 160)
def client_killed(driver):
    number = driver.a_client()
    with driver.ends("client", which=driver.tag(number)):
        driver.clients[number].kill()
        driver.clients[number].join()
        driver.start_client(number)


@fault("client stopped for longer than a lease (SIGSTOP)", 30)
def client_stopped(driver):
    process = driver.clients[driver.a_client()]
    os.kill(process.pid, signal.SIGSTOP)
    driver.later(driver.random.uniform(1, LEASE + 2), lambda: process.is_alive() and os.kill(process.pid, signal.SIGCONT))


def backend(driver):
    pids = driver.admin("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'torture %' ORDER BY pid")
    if not pids:
        raise Skip
    return driver.random.choice(pids)[0]


def signalled(driver, function):
    pid = backend(driver)
    with driver.ends("pid", which=pid):
        driver.admin("SELECT %s(%d)" % (function, pid))
        # It notices with its next interrupt.
        time.sleep(0.05)


@fault("connection terminated (pg_terminate_backend)", 150)
def terminated(driver):
    signalled(driver, "pg_terminate_backend")


@fault("statement cancelled (pg_cancel_backend)", 150)
def cancelled(driver):
    signalled(driver, "pg_cancel_backend")


def background(driver, kind):
    pids = driver.admin("SELECT pid FROM pg_stat_activity WHERE backend_type = %s AND (datname = %s OR datname IS NULL)",
                        kind, DATABASE)
    if not pids:
        raise Skip
    return pids[0][0]


@fault("background worker terminated", 40)
def worker_terminated(driver):
    driver.admin("SELECT pg_terminate_backend(%d)" % background(driver, "pgfairq worker"))


@fault("launcher terminated", 15)
def launcher_terminated(driver):
    driver.admin("SELECT pg_terminate_backend(%d)" % background(driver, "pgfairq launcher"))


# -- the server ------------------------------------------------------------------

def crash(driver, pid):
    """Kill a process of the server: it ends all others and starts again."""
    offset = driver.stage.log_size()
    os.kill(pid, signal.SIGKILL)
    driver.stage.wait_for("the server to notice that a process of it is gone", lambda: "reinitializing" in driver.stage.log_since(offset))
    driver.wait_up()


@fault("backend killed (kill -9)", 45)
def backend_killed(driver):
    pid = backend(driver)
    with driver.ends(*CRASH):
        crash(driver, pid)


@fault("background worker killed (kill -9)", 20)
def worker_killed(driver):
    pid = background(driver, driver.random.choice(("pgfairq worker", "pgfairq worker", "pgfairq launcher")))
    with driver.ends(*CRASH):
        crash(driver, pid)


@fault("postmaster killed (kill -9)", 35)
def postmaster_killed(driver):
    with driver.ends(*CRASH):
        driver.primary.kill()
        driver.primary.start()


@fault("killed again while it recovers", 12)
def killed_in_recovery(driver):
    with driver.ends(*CRASH):
        driver.primary.kill()
        for _ in range(driver.random.choice((1, 2))):
            driver.primary.spawn()
            time.sleep(driver.random.uniform(0, 0.3))
            driver.primary.kill()
        driver.primary.start()


@fault("immediate shutdown", 35)
def immediate_shutdown(driver):
    with driver.ends(*CRASH):
        driver.primary.stop(signal.SIGQUIT)
        driver.primary.start()


@fault("fast shutdown", 35)
def fast_shutdown(driver):
    # Leases go through it.
    with driver.ends("connections"):
        driver.primary.stop(signal.SIGINT)
        driver.primary.start()


# -- the tables --------------------------------------------------------------------

def a_queue(driver, but=()):
    return driver.random.choice([queue for queue in QUEUES if queue not in but])


REWRITES = ("VACUUM FULL {table}", "CLUSTER {table} USING \"id_of_{queue}\"", "REINDEX TABLE CONCURRENTLY {table}",
            "REINDEX INDEX CONCURRENTLY fairq.\"address_of_{queue}\"")


def rewrite(driver, which):
    queue = a_queue(driver)
    statement = which.format(table=table(queue), queue=queue)
    try:
        driver.admin(statement, settings="lock_timeout = '15s'")
    finally:
        driver.drop_invalid_indexes()


@fault("VACUUM FULL", 25)
def vacuum_full(driver):
    rewrite(driver, driver.random.choice((REWRITES[0], REWRITES[0], "VACUUM FULL fairq.durable_lease")))


@fault("CLUSTER", 20)
def cluster(driver):
    rewrite(driver, REWRITES[1])


@fault("REINDEX CONCURRENTLY", 20)
def reindex(driver):
    rewrite(driver, driver.random.choice(REWRITES[2:]))


@fault("crash in the middle of one of these", 15)
def crash_in_rewrite(driver):
    queue = a_queue(driver)
    statement = driver.random.choice(REWRITES).format(table=table(queue), queue=queue)
    pid = backend(driver)
    delay = driver.random.uniform(0, 0.15)

    def run():
        try:
            driver.admin(statement, settings="lock_timeout = '15s'")
        except psycopg.Error:
            pass

    thread = threading.Thread(target=run)
    with driver.ends(*CRASH):
        thread.start()
        time.sleep(delay)
        try:
            crash(driver, pid)
        except ProcessLookupError:
            raise Skip from None
        finally:
            thread.join()
        driver.drop_invalid_indexes()


@fault("TRUNCATE", 12)
def truncate(driver):
    queue = a_queue(driver)
    # Not where tasks that are done are asked for by id.
    restart = "" if queue in BY_ID or queue == "expiring" else driver.random.choice(("", " RESTART IDENTITY"))
    with driver.connect() as conn:
        conn.execute("SET lock_timeout = '15s'")
        with conn.transaction():
            conn.execute("LOCK TABLE " + table(queue))
            conn.execute("INSERT INTO removed SELECT %%s, %s, 'truncated' FROM %s" % (ident_sql(queue), table(queue)), (queue,))
            conn.execute("TRUNCATE %s%s" % (table(queue), restart))


@fault("purge", 15)
def purge(driver):
    queue = a_queue(driver)
    group = driver.random.choice((None, *GROUPS))
    with driver.connect() as conn:
        conn.execute("SET lock_timeout = '15s'")
        with conn.transaction():
            # So that nothing else is done to it meanwhile
            conn.execute("LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE" % table(queue))
            conn.execute("CREATE TEMP TABLE before ON COMMIT DROP AS SELECT %s AS ident FROM %s" % (ident_sql(queue), table(queue)))
            if group is None:
                conn.execute("SELECT fairq.purge(%s)", (queue,))
            else:
                conn.execute("SELECT fairq.purge_group(%s, %s)", (queue, group))
            conn.execute("INSERT INTO removed SELECT %%s, ident, 'purged' FROM"
                         " (SELECT ident FROM before EXCEPT SELECT %s FROM %s) t" % (ident_sql(queue), table(queue)), (queue,))


@fault("alter_queue(buckets)", 25)
def alter_buckets(driver):
    driver.admin("SELECT fairq.alter_queue(%s, buckets => %s)", a_queue(driver), driver.random.choice((1, 2, 3, 4, 8)))


@fault("rows changed with SQL", 25)
def meddle(driver):
    end = driver.random.choice(("COMMIT", "COMMIT", "ROLLBACK"))
    queue = a_queue(driver)
    with driver.connect() as conn:
        conn.execute("BEGIN")
        conn.execute("UPDATE %s SET headers = '{}' WHERE ctid IN (SELECT ctid FROM %s ORDER BY random() LIMIT 30"
                     " FOR UPDATE SKIP LOCKED)" % (table(queue), table(queue)))
        time.sleep(driver.random.choice((0, 0.1)))
        conn.execute(end)


@fault("pause, limits, revive", 25)
def limits(driver):
    queue, group = a_queue(driver), driver.random.choice(GROUPS)
    way = driver.random.randrange(4)
    if way == 0:
        driver.admin("SELECT fairq.pause(%s)", queue)
        driver.later(driver.random.uniform(0.1, 2), lambda: driver.admin("SELECT fairq.resume(%s)", queue))
    elif way == 1:
        driver.admin("SELECT fairq.pause_group(%s, %s)", queue, group)
        driver.later(driver.random.uniform(0.1, 5), lambda: driver.admin("SELECT fairq.resume_group(%s, %s)", queue, group))
    elif way == 2:
        driver.admin("SELECT fairq.set_group('%s', '%s', max_leased => %d, weight => %s)" % (
            queue, group, driver.random.choice((0, 1, 3)), driver.random.choice(("0.5", "1", "4"))))
    else:
        driver.admin("SELECT fairq.revive_all('dying')")


# -- disks and clocks ---------------------------------------------------------------

class Ballast:
    """Takes all that is left of a small disk, and gives it back."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "ballast")

    def __enter__(self):
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        for size in (1 << 20, 4096):
            try:
                while True:
                    os.write(self.fd, bytes(size))
            except OSError:
                pass
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        os.unlink(self.path)


@fault("disk of the WAL full", 12, needs="disks")
def wal_full(driver):
    offset = driver.stage.log_size()
    deadline = now() + 30
    with driver.ends(*CRASH):
        with Ballast(driver.stage.wal):
            while driver.primary.running() and "PANIC" not in driver.stage.log_since(offset):
                try:
                    driver.admin("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'torture', repeat('x', 100000))")
                except psycopg.Error:
                    pass
                if now() > deadline:
                    raise Trouble("nobody minds that the disk of the WAL is full")
            time.sleep(driver.random.uniform(0, 1))
        # It may have given up, or be about to.
        driver.wait_up()


@fault("disk of a tablespace full", 15, needs="disks")
def space_full(driver):
    queue = driver.random.choice(("plain", "small"))
    with Ballast(driver.stage.space), driver.connect() as conn:
        # More than finds room in the table as it is; the others meet it, too.
        conn.execute("BEGIN")
        try:
            for _ in range(2000):
                conn.execute("SELECT fairq.enqueue_many(%s, array_fill(to_jsonb(repeat(md5(random()::text), 40)), ARRAY[20]))", (queue,))
        except psycopg.errors.DiskFull:
            pass
        else:
            raise Trouble("nobody minds that the disk of the tablespace is full")
        conn.execute("ROLLBACK")
        time.sleep(driver.random.uniform(0, 2))


@fault("clock set", 20, needs="clock")
def clock(driver):
    with driver.ends(*ALL):
        driver.stage.set_clock(driver.random.choice((-3600, -600, -30, 0, 0, 30, 600, 3600)))
        time.sleep(0.2)


# -- standbys and upgrades ------------------------------------------------------------

def switch(driver, standby):
    """The primary is stopped as is due, and the standby takes over."""
    old = driver.primary
    old.replicate(standby)
    with driver.ends(*CRASH):
        old.stop(signal.SIGINT)
        standby.promote()
        driver.stage.primary = standby
        driver.wait_up()
    return old


@fault("switchover to a standby, and back", 8)
def switchover(driver):
    standby = driver.stage.standby()
    old = switch(driver, standby)
    driver.wait_progress()
    old.follow(standby)
    old.start(standby=True)
    time.sleep(driver.random.uniform(0, 1))
    switch(driver, old)
    standby.remove()


@fault("primary killed, standby promoted", 8)
def failover(driver):
    standby = driver.stage.standby()
    old = driver.primary
    old.replicate(standby)
    time.sleep(driver.random.uniform(0, 1))
    with driver.ends(*CRASH):
        old.kill()
        standby.promote()
        driver.stage.primary = standby
        driver.wait_up()
    old.remove()


def upgrade(driver, bindir):
    """Tasks are in every state; the clients are there again as soon as the server is."""
    driver.empty_space()
    old = driver.primary
    twophase = os.path.join(old.data, "pg_twophase")
    with driver.calm(), driver.ends(*CRASH):
        driver.end_prepared()
        old.stop(signal.SIGINT)
        while os.listdir(twophase):         # a client that was stopped had still to prepare it
            old.start()
            driver.end_prepared()
            old.stop(signal.SIGINT)
        new = driver.stage.node(driver.stage.other_port(), bindir)
        new.initdb()
        driver.stage.run(bindir, "pg_upgrade", "-b", old.bindir, "-B", bindir, "-d", old.data, "-D", new.data,
                         "-U", "postgres", "-s", driver.stage.sockets, "--no-sync",
                         *driver.random.choice(((), ("--link",))))
        new.start()
        driver.stage.primary = new
    driver.fill_space()
    old.remove()


@fault("pg_upgrade to the same version", 4)
def upgrade_same(driver):
    upgrade(driver, driver.primary.bindir)


@fault("pg_upgrade to a later version", 1, needs="newer")
def upgrade_later(driver):
    if driver.primary.bindir == driver.stage.newer_bindir:
        raise Skip
    upgrade(driver, driver.stage.newer_bindir)


# -- copies -----------------------------------------------------------------------

@fault("pg_dump, and restored beside", 8)
def dump_beside(driver):
    try:
        driver.copy(DATABASE, "copy")
        with driver.connect("copy") as conn:
            lost, doubled, nowhere = judge(conn)
        if lost or doubled or nowhere:
            raise Trouble("the restored copy is not whole: %s" % (lost + doubled + nowhere)[:5])
    finally:
        driver.admin("DROP DATABASE IF EXISTS copy WITH (FORCE)", database="postgres")


@fault("pg_dump, and restored in its place", 5)
def dump_in_place(driver):
    with driver.ends(*ALL), driver.calm():
        driver.rename_database(DATABASE, "old")
        driver.end_prepared("old")
        driver.copy("old", "new")
        driver.rename_database("new", DATABASE)
        driver.admin("DROP DATABASE old WITH (FORCE)", database="postgres")


# -- to see the checker fail -----------------------------------------------------------

def plant_loss(driver):
    driver.admin("DELETE FROM %s WHERE id IN (SELECT id FROM %s ORDER BY id DESC LIMIT 1)" % (table("plain"), table("plain")))


def plant_doubling(driver):
    driver.admin("SELECT fairq.enqueue('plain', payload) FROM %s ORDER BY id DESC LIMIT 1" % table("plain"))


PLANTS = {"loss": plant_loss, "doubling": plant_doubling}
