"""The driver: starts server and clients, does them harm, and has it checked.

Started by test/scripts/torture.sh, which says how it is used.
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import statistics
import sys
import threading
import time
import traceback

import psycopg
from psycopg import sql

import checker
import faults
from client import KINDS, Shared, client_process
from journal import Journal, now
from queues import GROUPS, QUEUES, SCHEDULES, SUBGROUPS, TABLES, judge, table
from server import DATABASE, Stage, Trouble

# How long the clients may take to go on, and the queues to run empty.
PATIENCE = 60
DRAIN = 180


class Driver:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.stage = Stage(options)
        options.conninfo = self.stage.conninfo()
        options.journals = os.path.join(options.work, "journals")
        os.mkdir(options.journals)
        self.journal_path = os.path.join(options.work, "driver")
        self.journal = Journal(self.journal_path)
        self.shared = Shared(len(KINDS))
        self.clients = [None] * len(KINDS)
        self.incarnations = [0] * len(KINDS)
        self.timers = []        # (when, what)
        self.closing = threading.Event()
        self.dice = random.Random(options.seed)     # for what is not drawn in an order that can be had again
        self.done = {}          # fault -> [recovery]
        self.skipped = {}       # fault -> times
        self.left_out = {}      # fault -> why
        self.harmed_at = None
        self.fault = ""

    @property
    def primary(self):
        return self.stage.primary

    # -- the database ------------------------------------------------------

    def connect(self, database=DATABASE):
        return self.primary.connect(database)

    def admin(self, query, *params, database=DATABASE, settings=None):
        with self.connect(database) as conn:
            if settings:
                conn.execute("SET " + settings)
            done = conn.execute(query, params or None)
            return done.fetchall() if done.description else []

    def setup(self):
        self.admin("CREATE DATABASE " + DATABASE, database="postgres")
        with self.connect() as conn:
            conn.execute("CREATE EXTENSION pgfairq")
            conn.execute(TABLES)
            conn.execute("SELECT fairq.create_queue('ticks', buckets => 2, keep_done => '1 year')")
            for name, settings in SCHEDULES.items():
                conn.execute("SELECT fairq.schedule('%s', 'ticks', '* * * * * *', %s)" % (name, settings))
            for queue, (settings, _) in QUEUES.items():
                conn.execute("SELECT fairq.create_queue('%s', %s)" % (queue, settings))
            for subgroup, limit in zip(SUBGROUPS, ("max_leased => 1", "max_leased => 2", "rate => 20", "weight => 3")):
                conn.execute("SELECT fairq.set_subgroup('users', g, %%s, %s) FROM unnest(%%s::text[]) g" % limit, (subgroup, GROUPS))
        self.fill_space()

    def fill_space(self):
        """Some queues live in a tablespace of their own."""
        with self.connect() as conn:
            conn.execute(sql.SQL("CREATE TABLESPACE torture LOCATION {}").format(self.primary.space))
            for queue in "plain", "small":
                conn.execute("ALTER TABLE %s SET TABLESPACE torture" % table(queue))
                conn.execute('ALTER INDEX fairq."address_of_%s" SET TABLESPACE torture' % queue)

    def empty_space(self):
        """Takes the tablespace away again."""
        with self.connect() as conn:
            conn.execute("SET lock_timeout = '15s'")
            for what in "TABLE", "INDEX":
                conn.execute("ALTER %s ALL IN TABLESPACE torture SET TABLESPACE pg_default" % what)
            conn.execute("CHECKPOINT")
            # What is left is of relations that a crash has cut off.
            for directory, _, files in os.walk(self.primary.space):
                for file in files:
                    os.unlink(os.path.join(directory, file))
            conn.execute("DROP TABLESPACE torture")

    def wait_up(self):
        """The server starts again by itself, or has given up and is started."""
        deadline = now() + PATIENCE
        while True:
            if not self.primary.running():
                self.primary.start()
            try:
                self.admin("SELECT 1", database="postgres")
                return
            except psycopg.OperationalError:
                if now() > deadline:
                    raise Trouble("the server did not come up again") from None
                time.sleep(0.02)

    def drop_invalid_indexes(self):
        """What an interrupted REINDEX CONCURRENTLY leaves."""
        for (name,) in self.admin("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"):
            self.admin("DROP INDEX IF EXISTS " + name, settings="lock_timeout = '15s'")

    def end_prepared(self, database=DATABASE, but=()):
        """All prepared transactions but these. Returns those that there were."""
        with self.connect(database) as conn:
            gids = {gid for (gid,) in conn.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", (database,))}
            for gid in sorted(gids.difference(but)):
                # If it is not there any more, or busy, somebody else ends it.
                with contextlib.suppress(psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState):
                    conn.execute("%s PREPARED '%s'" % (self.dice.choice(("COMMIT", "ROLLBACK")), gid))
        return gids

    def end_left_prepared(self):
        """A thread: whatever has been prepared for a second has lost its client,
        and its locks must not hold up a fault."""
        young = set()
        while not self.closing.wait(1):
            seen = young
            with contextlib.suppress(psycopg.Error):
                with self.connect() as conn:
                    young = {gid for (gid,) in conn.execute(
                        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")}
                if young & seen:
                    self.end_prepared(but=young - seen)

    def rename_database(self, old, new):
        def renamed():
            self.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", old, database="postgres")
            try:
                self.admin("ALTER DATABASE %s RENAME TO %s" % (old, new), database="postgres")
                return True
            except psycopg.errors.ObjectInUse:
                return False

        self.shared.away.value = 1
        try:
            self.stage.wait_for("the database to be renamed", renamed)
        finally:
            self.shared.away.value = 0

    def copy(self, database, name):
        dump = os.path.join(self.options.work, "dump")
        where = ("-h", self.stage.sockets, "-p", str(self.primary.port), "-U", "postgres")
        self.stage.run(self.primary.bindir, "pg_dump", *where, "-Fc", "-f", dump, database)
        self.stage.run(self.primary.bindir, "createdb", *where, "-T", "template0", name)
        self.stage.run(self.primary.bindir, "pg_restore", *where, "--exit-on-error", "-d", name, dump)
        os.unlink(dump)

    # -- the clients -------------------------------------------------------

    def tag(self, number):
        return "%s.%d.%d" % (KINDS[number], number, self.incarnations[number])

    def start_client(self, number):
        if self.clients[number]:
            self.incarnations[number] += 1
        self.shared.holds[number] = 0
        process = multiprocessing.Process(target=client_process,
                                          args=(self.shared, self.options, number, self.incarnations[number]))
        process.start()
        self.clients[number] = process

    def a_client(self):
        busy = [number for number in range(len(KINDS)) if self.shared.holds[number]]
        return self.random.choice(busy if busy and self.random.random() < 0.7 else range(len(KINDS)))

    @contextlib.contextmanager
    def calm(self):
        """No client prepares a transaction."""
        self.shared.calm.value = 1
        try:
            time.sleep(0.1)
            yield
        finally:
            self.shared.calm.value = 0

    @contextlib.contextmanager
    def ends(self, *reaches, which=0):
        begin = now()
        self.harmed_at = begin
        try:
            yield
        finally:
            for reach in reaches:
                self.journal.write("E", self.fault, begin, now(), [reach, which])

    def later(self, seconds, what):
        self.timers.append((now() + seconds, what))

    def run_timers(self, all_of_them=False):
        for timer in sorted(self.timers, key=lambda timer: timer[0]):
            if all_of_them or timer[0] <= now():
                self.timers.remove(timer)
                try:
                    timer[1]()
                except psycopg.Error:
                    self.later(0.5, timer[1])

    def acked(self):
        return sum(self.shared.acked)

    # -- the run -----------------------------------------------------------

    def possible(self):
        have = {None: "", "disks": "" if self.stage.small_disks else "needs root, to mount small disks",
                "newer": "" if self.stage.newer_bindir else "needs UPGRADE_CONFIG, a newer server",
                "clock": "" if self.stage.clock else "needs a library that sets clocks"}
        for name, fault in faults.FAULTS.items():
            if have[fault.needs]:
                self.left_out[name] = have[fault.needs]
            else:
                yield fault

    def deck(self):
        """Each kind as often as its weight says, but once at least; then again."""
        some = [fault for fault in self.possible() if self.options.only in fault.name
                and not (self.options.but and self.options.but in fault.name)]
        number = self.options.faults or 1000
        total = sum(fault.weight for fault in some)
        cards = [fault for fault in some for _ in range(max(1, round(number * fault.weight / total)))]
        while True:
            self.random.shuffle(cards)
            yield from cards

    def harm(self, fault):
        self.fault = fault.name
        self.harmed_at = now()
        if self.options.verbose:
            print("%.1f %s" % (now(), fault.name), flush=True)
        try:
            fault.function(self)
        except (faults.Skip, ProcessLookupError):
            self.skipped[fault.name] = self.skipped.get(fault.name, 0) + 1
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            self.skipped[fault.name] = self.skipped.get(fault.name, 0) + 1
            return
        self.wait_progress()
        self.done.setdefault(fault.name, []).append(now() - self.harmed_at)

    def wait_progress(self):
        before, deadline = self.acked(), now() + PATIENCE
        while self.acked() == before:
            if now() > deadline:
                raise Trouble("no task is acknowledged any more")
            self.run_timers()
            time.sleep(0.002)

    def run(self):
        self.setup()
        for number in range(len(KINDS)):
            self.start_client(number)
        threading.Thread(target=self.end_left_prepared, daemon=True).start()
        self.stage.wait_for("tasks to be acknowledged", lambda: self.acked() > 20)
        end = now() + self.options.minutes * 60
        for number, fault in enumerate(self.deck()):
            if self.options.faults and self.total() >= self.options.faults or now() > end:
                break
            self.harm(fault)
            self.run_timers()
            if self.options.plant and number == 9:
                faults.PLANTS[self.options.plant](self)
            time.sleep(self.random.uniform(0, 0.1))
            if number % 20 == 19:
                self.look()
            if number % 100 == 99:
                print("%d faults, %d tasks settled" % (self.total(), self.acked()), flush=True)

    def total(self):
        return sum(len(times) for times in self.done.values())

    def look(self):
        """Is everything there, at this moment?"""
        with self.connect() as conn:
            lost, doubled, nowhere = judge(conn)
        if lost or doubled or nowhere:
            raise Trouble("after %d faults, the last of them \"%s\": lost %d, doubled %d: %s" % (
                self.total(), self.fault, len(lost), len(doubled + nowhere), (lost + doubled + nowhere)[:5]))

    def drain(self):
        """Everything comes in the end."""
        self.shared.calm.value = self.shared.drain.value = 1
        # What was scheduled by a clock that was ahead is due then, too.
        self.stage.set_clock(self.stage.furthest)
        self.wait_up()
        self.run_timers(all_of_them=True)
        self.end_clients(lambda kind: kind == "producer")
        self.end_prepared()
        with self.connect() as conn:
            for queue in QUEUES:
                conn.execute("SELECT fairq.resume_group(queue, group_key) FROM (SELECT %s AS queue, g AS group_key FROM unnest(%s::text[]) g) t",
                             (queue, faults.GROUPS))
                conn.execute("SELECT fairq.resume(%s), fairq.set_group_defaults(%s, max_leased => 0)", (queue, queue))
                conn.execute("SELECT fairq.set_group(%s, g, max_leased => 0) FROM unnest(%s::text[]) g", (queue, faults.GROUPS))
        deadline = now() + DRAIN
        while now() < deadline:
            with self.connect() as conn:
                conn.execute("SELECT fairq.revive_all('dying')")
                if not any(conn.execute("SELECT FROM %s LIMIT 1" % table(queue)).fetchone() is not None for queue in QUEUES):
                    break
            time.sleep(0.2)
        self.shared.stop.value = 1
        self.end_clients(lambda kind: True)
        with self.connect() as conn:
            return ["%s: %s tasks that nobody gets (%s)" % row for queue in QUEUES for row in conn.execute(
                "SELECT %s, count(*), string_agg(DISTINCT state::text, '') FROM " + table(queue) + " HAVING count(*) > 0", (queue,))]

    def end_clients(self, which):
        for number, kind in enumerate(KINDS):
            if self.clients[number] and which(kind):
                self.clients[number].join(30)
                self.clients[number].kill()

    def close(self):
        self.closing.set()
        self.shared.stop.value = 1
        for process in self.clients:
            if process:
                process.kill()
        self.stage.end()


# -- what is printed -------------------------------------------------------------

def table_of(driver):
    yield "| fault | times | recovery, median | longest |"
    yield "|---|---:|---:|---:|"
    for name in faults.FAULTS:
        times = driver.done.get(name)
        if times:
            yield "| %s | %d | %.2f s | %.2f s |" % (name, len(times), statistics.median(times), max(times))
        elif name in driver.left_out:
            yield "| %s | left out: %s | | |" % (name, driver.left_out[name])
    yield "| **all** | **%d** | | |" % driver.total()


def report(driver, trouble, left, found):
    print("\n".join(table_of(driver)))
    print()
    if found:
        for name, number in found.counts.items():
            print("%s: %d" % (name, number))
        print("lost: %d, doubled: %d" % (len(found.lost) + len(left), len(found.doubled)))
        for title, some in (("lost", left + found.lost), ("doubled", found.doubled), ("refused without reason", found.broken)):
            for line in some[:20]:
                print("%s: %s" % (title, line))
            if len(some) > 20:
                print("%s: and %d more" % (title, len(some) - 20))
        for error, times in sorted(found.errors.items()):
            print("unexpected, %d times: %s" % (times, error[:500]))
    if driver.skipped:
        print("nothing to do it to, or locked: " + ", ".join("%s %d" % item for item in driver.skipped.items()))
    if trouble:
        print("TROUBLE in \"%s\": %s" % (driver.fault, trouble))
    crashed = [line for line in driver.stage.log_since(0).splitlines()
               if "TRAP:" in line or "was terminated by signal" in line and "signal 9" not in line and "signal 6" not in line]
    for line in crashed[:10]:
        print("a server process died: " + line)
    good = found and not (trouble or left or found.lost or found.doubled or found.broken or found.errors or crashed)
    print("seed %s: %s" % (driver.options.seed, "nothing lost, nothing doubled" if good else "FAILED"))
    return bool(good)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--bindir", required=True)
    parser.add_argument("--wal", help="a small disk for the WAL")
    parser.add_argument("--space", help="a small disk for a tablespace")
    parser.add_argument("--clock", help="clock.c, as a library")
    parser.add_argument("--newer-bindir", help="programs of a later version, to upgrade to")
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", default="")
    parser.add_argument("--only", default="", help="faults that have this in their name")
    parser.add_argument("--but", default="", help="no faults that have this in their name")
    parser.add_argument("--plant", choices=faults.PLANTS, help="do what is to be found out, to see that it is")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    options = parser.parse_args()
    options.seed = options.seed or str(int(time.time()))
    print("seed %s" % options.seed, flush=True)

    driver = Driver(options)
    trouble = left = found = None
    try:
        try:
            driver.run()
        except (Trouble, psycopg.Error, OSError) as error:
            trouble = "%s\n%s" % (error, traceback.format_exc(limit=-4))
        try:
            left = driver.drain()
            with driver.connect() as conn:
                found = checker.check(conn, options.journals, driver.journal_path)
        except (Trouble, psycopg.Error, OSError) as error:
            trouble = "%s\nand at the end: %s" % (trouble or "", error)
        good = report(driver, trouble, left or [], found)
    finally:
        driver.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
