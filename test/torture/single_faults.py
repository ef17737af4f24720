"""The faults of one server, as plug-ins of torture.py."""

import contextlib
import os
import signal
import threading
import time

import psycopg

from client_faults import backend, crash
from faults import ALL, Skip, fail_over, fault, kill_again, simple, switch_over
from journal import CRASH, now
from queues import BY_ID, GROUPS, QUEUES, ident_sql, table, whole
from server import DATABASE
from servers import Trouble, wait_for


def background(driver, kind):
    pids = driver.admin("SELECT pid FROM pg_stat_activity WHERE backend_type = %s AND (datname = %s OR datname IS NULL)",
                        kind, DATABASE)
    if not pids:
        raise Skip
    return pids[0][0]


def ended(driver, kind):
    driver.admin("SELECT pg_terminate_backend(%d)" % background(driver, kind))


simple(
    ("worker_terminated", "background worker terminated", 40, lambda driver: ended(driver, "pgfairq worker")),
    ("launcher_terminated", "launcher terminated", 15, lambda driver: ended(driver, "pgfairq launcher")))


# -- the server ------------------------------------------------------------------

def again(driver, how):
    driver.primary.stop(how)
    driver.primary.start()


simple(
    ("worker_killed", "background worker killed (kill -9)", 20, lambda driver: crash(
        driver, background(driver, driver.random.choice(("pgfairq worker", "pgfairq worker", "pgfairq launcher"))))),
    ("postmaster_killed", "postmaster killed (kill -9)", 35, lambda driver: kill_again(driver, driver.primary, 0)),
    ("immediate_shutdown", "immediate shutdown", 35, lambda driver: again(driver, signal.SIGQUIT)),
    forgives=CRASH)
# Leases go through it.
simple(("fast_shutdown", "fast shutdown", 35, lambda driver: again(driver, signal.SIGINT)), forgives=("connections",))


@fault("killed again while it recovers", 12, forgives=CRASH)
def killed_in_recovery(driver):
    driver.primary.kill()
    for _ in range(driver.random.choice((1, 2))):
        driver.primary.spawn()
        time.sleep(driver.random.uniform(0, 0.3))
        driver.primary.kill()
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


simple(
    ("vacuum_full", "VACUUM FULL", 25, lambda driver: rewrite(
        driver, driver.random.choice((REWRITES[0], REWRITES[0], "VACUUM FULL fairq.durable_lease")))),
    ("cluster", "CLUSTER", 20, lambda driver: rewrite(driver, REWRITES[1])),
    ("reindex", "REINDEX CONCURRENTLY", 20, lambda driver: rewrite(driver, driver.random.choice(REWRITES[2:]))))


@fault("crash in the middle of one of these", 15)
def crash_in_rewrite(driver):
    queue = a_queue(driver)
    statement = driver.random.choice(REWRITES).format(table=table(queue), queue=queue)
    pid = backend(driver)
    delay = driver.random.uniform(0, 0.15)

    def run():
        with contextlib.suppress(psycopg.Error):
            driver.admin(statement, settings="lock_timeout = '15s'")

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


@fault("pause, limits, revive", 25, lasts=(0.1, 5))
def limits(driver):
    queue, group = a_queue(driver), driver.random.choice(GROUPS)
    way = driver.random.randrange(4)
    if way == 0:
        driver.admin("SELECT fairq.pause(%s)", queue)
        return lambda: driver.admin("SELECT fairq.resume(%s)", queue)
    if way == 1:
        driver.admin("SELECT fairq.pause_group(%s, %s)", queue, group)
        return lambda: driver.admin("SELECT fairq.resume_group(%s, %s)", queue, group)
    if way == 2:
        driver.admin("SELECT fairq.set_group('%s', '%s', max_leased => %d, weight => %s)" % (
            queue, group, driver.random.choice((0, 1, 3)), driver.random.choice(("0.5", "1", "4"))))
    else:
        driver.admin("SELECT fairq.revive_all('dying')")
    return None


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


@fault("disk of the WAL full", 12, needs="disks", forgives=CRASH)
def wal_full(driver):
    offset = driver.stage.log_size()
    deadline = now() + 30
    with Ballast(driver.stage.wal):
        while driver.primary.running() and "PANIC" not in driver.stage.log_since(offset):
            with contextlib.suppress(psycopg.Error):
                driver.admin("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'torture', repeat('x', 100000))")
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


@fault("clock set", 20, needs="clock", forgives=ALL)
def clock(driver):
    driver.primary.clock.set(driver.random.choice((-3600, -600, -30, 0, 0, 30, 600, 3600)))
    time.sleep(0.2)


# -- standbys and upgrades ------------------------------------------------------------

@fault("switchover to a standby, and back", 8)
def switchover(driver):
    pair = driver.stage.attach()
    switch_over(driver, pair)
    pair.rejoin()
    time.sleep(driver.random.uniform(0, 1))
    switch_over(driver, pair)
    driver.stage.detach()


@fault("primary killed, standby promoted", 8)
def failover(driver):
    pair = driver.stage.attach()
    time.sleep(driver.random.uniform(0, 1))
    fail_over(driver, pair)
    driver.stage.detach()


def upgrade(driver, bindir):
    """Tasks are in every state; the clients are there again as soon as the server is."""
    driver.empty_space()
    old = driver.primary
    twophase = os.path.join(old.data, "pg_twophase")
    with driver.calm(), driver.ends(*CRASH):
        driver.end_prepared()
        old.stop()
        while os.listdir(twophase):         # a client that was stopped had still to prepare it
            old.start()
            driver.end_prepared()
            old.stop()
        new = driver.stage.another(bindir)
        new.init()
        new.run("pg_upgrade", "-b", old.bindir, "-B", bindir, "-d", old.data, "-D", new.data,
                "-U", "postgres", "-s", driver.stage.sockets, "--no-sync", *driver.random.choice(((), ("--link",))))
        new.start()
        driver.stage.pair.primary = new
    driver.fill_space()
    old.remove()


simple(("upgrade_same", "pg_upgrade to the same version", 4, lambda driver: upgrade(driver, driver.primary.bindir)))


@fault("pg_upgrade to a later version", 1, needs="newer")
def upgrade_later(driver):
    if driver.primary.bindir == driver.options.newer_bindir:
        raise Skip
    upgrade(driver, driver.options.newer_bindir)


# -- copies -----------------------------------------------------------------------

def copy(driver, database, name):
    dump = os.path.join(driver.options.work, "dump")
    where = ("-h", driver.stage.sockets, "-p", str(driver.primary.port), "-U", "postgres")
    driver.primary.run("pg_dump", *where, "-Fc", "-f", dump, database)
    driver.primary.run("createdb", *where, "-T", "template0", name)
    driver.primary.run("pg_restore", *where, "--exit-on-error", "-d", name, dump)
    os.unlink(dump)


@fault("pg_dump, and restored beside", 8)
def dump_beside(driver):
    try:
        copy(driver, DATABASE, "copy")
        with driver.connect("copy") as conn:
            wrong = whole(conn).wrong()
        if wrong:
            raise Trouble("the restored copy is not whole: %s" % wrong[:5])
    finally:
        driver.admin("DROP DATABASE IF EXISTS copy WITH (FORCE)", database="postgres")


def rename_database(driver, old, new):
    def renamed():
        driver.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", old, database="postgres")
        try:
            driver.admin("ALTER DATABASE %s RENAME TO %s" % (old, new), database="postgres")
            return True
        except psycopg.errors.ObjectInUse:
            return False

    driver.shared.away.value = 1
    try:
        wait_for("the database to be renamed", renamed)
    finally:
        driver.shared.away.value = 0


@fault("pg_dump, and restored in its place", 5, forgives=ALL)
def dump_in_place(driver):
    with driver.calm():
        rename_database(driver, DATABASE, "old")
        driver.end_prepared("old")
        copy(driver, "old", "new")
        rename_database(driver, "new", DATABASE)
        driver.admin("DROP DATABASE old WITH (FORCE)", database="postgres")


# -- to see the checker fail -----------------------------------------------------------

def plant_loss(driver):
    driver.admin("DELETE FROM %s WHERE id IN (SELECT id FROM %s ORDER BY id DESC LIMIT 1)" % (table("plain"), table("plain")))


def plant_doubling(driver):
    driver.admin("SELECT fairq.enqueue('plain', payload) FROM %s ORDER BY id DESC LIMIT 1" % table("plain"))


PLANTS = {"loss": plant_loss, "doubling": plant_doubling}
