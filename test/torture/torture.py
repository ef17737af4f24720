"""make torture: the servers, their queues, and what is asked of them in the end.

Started by test/scripts/torture.sh, which says how it is used.
"""

import contextlib
import os
import random
import sys
import threading
import time

import psycopg
from psycopg import sql

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "load"))
import driver  # noqa: E402
import queues  # noqa: E402
import single_faults  # noqa: E402
from client import KINDS, Client  # noqa: E402
from faults import ALL, FAULTS  # noqa: E402
from journal import now  # noqa: E402
from queues import GROUPS, QUEUES, SCHEDULES, SUBGROUPS, TABLES, table, whole  # noqa: E402
from server import DATABASE, Stage  # noqa: E402
from servers import Trouble, wait_for  # noqa: E402

# How long the queues may take to run empty.
DRAIN = 180


class Driver(driver.Driver):
    client = Client

    def __init__(self, options):
        super().__init__(options, KINDS)
        self.stage = Stage(options)
        options.conninfo = self.stage.conninfo()
        self.closing = threading.Event()
        self.dice = random.Random(options.seed)     # for what is not drawn in an order that can be had again
        self.means = {"disks": (options.wal and options.space, "needs root, to mount small disks"),
                      "newer": (options.newer_bindir, "needs UPGRADE_CONFIG, a newer server"),
                      "clock": (options.clock, "needs a library that sets clocks")}

    @property
    def primary(self):
        return self.stage.pair.primary

    # -- the database ------------------------------------------------------

    def connect(self, database=DATABASE):
        return self.primary.connect(database)

    def admin(self, query, *params, database=DATABASE, settings=None):
        return self.primary.execute(query, database, params, settings)

    def begin(self):
        self.stage.begin()
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
        self.crew.begin()
        threading.Thread(target=self.end_left_prepared, daemon=True).start()
        self.goes_on(20)

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
        def up():
            if not self.primary.running():
                self.primary.start()
            return self.admin("SELECT 1", database="postgres")
        wait_for("the server to come up again", up, self.patience)

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

    @contextlib.contextmanager
    def calm(self):
        """No client prepares a transaction."""
        self.shared.calm.value = 1
        try:
            time.sleep(0.1)
            yield
        finally:
            self.shared.calm.value = 0

    # -- the run -----------------------------------------------------------

    def deck(self):
        """Each kind as often as its weight says, but once at least; then again."""
        some = [name for name in self.possible(FAULTS) if self.options.only in FAULTS[name].title
                and not (self.options.but and self.options.but in FAULTS[name].title)]
        number = self.options.faults or 1000
        total = sum(FAULTS[name].weight for name in some)
        cards = [name for name in some for _ in range(max(1, round(number * FAULTS[name].weight / total)))]
        while True:
            self.random.shuffle(cards)
            yield from cards

    def run(self):
        end = now() + self.options.minutes * 60
        for number, name in enumerate(self.deck()):
            if self.options.faults and self.total() >= self.options.faults or now() > end:
                break
            self.harm(name)
            self.run_timers()
            if self.options.plant and number == 9:
                single_faults.PLANTS[self.options.plant](self)
            time.sleep(self.random.uniform(0, 0.1))
            if number % 20 == 19:
                self.look()
            if number % 100 == 99:
                print("%d faults, %d tasks settled" % (self.total(), self.crew.acked()), flush=True)

    def look(self):
        """Is everything there, at this moment?"""
        with self.connect() as conn:
            wrong = whole(conn).wrong()
        if wrong:
            raise Trouble("after %d faults %d tasks are lost or doubled: %s" % (self.total(), len(wrong), wrong[:5]))

    def finish(self):
        """Everything comes in the end."""
        self.shared.calm.value = self.shared.drain.value = 1
        # What was scheduled by a clock that was ahead is due then, too.
        with self.ends(*ALL):
            self.stage.one_clock.set(self.stage.one_clock.furthest)
            time.sleep(0.2)
        self.wait_up()
        self.run_timers(all_of_them=True)
        self.crew.end(lambda kind: kind == "producer", 30)
        self.end_prepared()
        with self.connect() as conn:
            for queue in QUEUES:
                conn.execute("SELECT fairq.resume_group(queue, group_key) FROM (SELECT %s AS queue, g AS group_key FROM unnest(%s::text[]) g) t",
                             (queue, GROUPS))
                conn.execute("SELECT fairq.resume(%s), fairq.set_group_defaults(%s, max_leased => 0)", (queue, queue))
                conn.execute("SELECT fairq.set_group(%s, g, max_leased => 0) FROM unnest(%s::text[]) g", (queue, GROUPS))

        def empty():
            self.admin("SELECT fairq.revive_all('dying')")
            return not any(self.admin("SELECT 1 FROM %s LIMIT 1" % table(queue)) for queue in QUEUES)
        self.drained(empty, DRAIN)
        with self.connect() as conn:
            # A key that is kept is another's task: of that queue the names do not say which it is.
            found = self.judged(conn, queues.SOURCES, names=False)
            queues.check(conn, found)
            found.stuck += ["%s: %s tasks that nobody gets (%s)" % row for queue in QUEUES for row in conn.execute(
                "SELECT %s, count(*), string_agg(DISTINCT state::text, '') FROM " + table(queue) + " HAVING count(*) > 0", (queue,))]
        return found

    def wrong(self):
        crashed = [line for line in self.stage.log_since(0).splitlines()
                   if "TRAP:" in line or "was terminated by signal" in line and "signal 9" not in line and "signal 6" not in line]
        return super().wrong() + ["a server process died: " + line for line in crashed[:10]]

    def close(self):
        self.closing.set()
        self.stage.end()


def main():
    parser = driver.arguments(plants=single_faults.PLANTS)
    parser.add_argument("--wal", help="a small disk for the WAL")
    parser.add_argument("--space", help="a small disk for a tablespace")
    parser.add_argument("--newer-bindir", help="programs of a later version, to upgrade to")
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", default="", help="faults that have this in their name")
    parser.add_argument("--but", default="", help="no faults that have this in their name")
    return Driver(parser.parse_args()).main()


if __name__ == "__main__":
    sys.exit(main())
