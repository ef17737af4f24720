"""What drivers of loads have in common: a driver starts servers and clients (clients.py), makes
faults (faults.py) beside them, has what clients know compared with the tables (judge.py), and says
what it was.  Its own are the servers, the choice of faults, and what it asks in the end."""

import argparse
import contextlib
import os
import random
import signal
import statistics
import sys
import time
import traceback

import psycopg

import judge
from clients import Crew, connect_patiently
from faults import FAULTS, Skip
from journal import Journal, now
from servers import Trouble, wait_for


def arguments(plants=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="a directory for journals and servers")
    parser.add_argument("--bindir", help="programs of the server")
    parser.add_argument("--clock", help="clock.c, as a library")
    parser.add_argument("--seed", default="")
    parser.add_argument("--plant", choices=plants, help="do what is to be found out, to see that it is")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    return parser


class Driver:
    client = None               # the class of its clients
    patience = 60               # seconds in which clients must go on
    columns = ()                # more of the table of faults

    def __init__(self, options, kinds):
        options.seed = options.seed or str(int(time.time()))
        self.options = options
        options.kinds = kinds
        options.journals = os.path.join(options.work, "journals")
        os.mkdir(options.journals, 0o700)
        self.random = random.Random(options.seed)
        self.journal_path = os.path.join(options.work, "driver")
        self.journal = Journal(self.journal_path)
        self.crew = Crew(self.client, options)
        self.shared = self.crew.shared
        self.means = {}         # what faults may need -> (whether it is there, what it takes)
        self.timers = []        # (when, what)
        self.fault = None
        self.harmed_at = None
        self.done = {}          # fault -> [seconds until clients went on]
        self.skipped = {}       # fault -> times
        self.left_out = {}      # fault -> why

    def connect(self):
        return connect_patiently(self.options.conninfo)

    def admin(self, query, *params):
        """What the server says."""
        with self.connect() as conn:
            return conn.execute(query, params).fetchall()

    def wait_up(self):
        """Until the server takes connections again."""
        self.connect().close()

    def ends(self, *reaches, which=0):
        """What is done here may end leases."""
        self.harmed_at = now()
        return self.journal.ends(self.fault and self.fault.title, *reaches, which=which)

    def goes_on(self, number=1, seconds=None):
        """Until so many tasks more are acknowledged."""
        aim = self.crew.acked() + number

        def more():
            self.run_timers()
            return self.crew.acked() >= aim
        wait_for("tasks to be acknowledged", more, seconds or self.patience)

    # -- faults --------------------------------------------------------------

    def possible(self, names):
        """Those of which there is what they need."""
        for name in names:
            there, why = self.means.get(FAULTS[name].needs, (True, ""))
            if there:
                yield name
            else:
                self.left_out[name] = why

    def harm(self, name):
        fault = self.fault = FAULTS[name]
        self.harmed_at = now()
        if self.options.verbose:
            print("%.1f %s" % (now(), fault.title), flush=True)
        try:
            with self.ends(*fault.forgives):
                undo = fault.function(self)
            if undo:
                self.later(fault, undo)
        except (Skip, ProcessLookupError, psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            self.skipped[name] = self.skipped.get(name, 0) + 1
            return
        self.goes_on()
        self.done.setdefault(name, []).append(now() - self.harmed_at)

    def later(self, fault, undo):
        self.timers.append((now() + self.random.uniform(*fault.lasts), undo))

    def run_timers(self, all_of_them=False):
        for timer in sorted(self.timers, key=lambda timer: timer[0]):
            if all_of_them or timer[0] <= now():
                self.timers.remove(timer)
                try:
                    timer[1]()
                except psycopg.Error:
                    self.timers.append((now() + 0.5, timer[1]))

    def total(self):
        return sum(map(len, self.done.values()))

    # -- the end ---------------------------------------------------------------

    def drained(self, empty, seconds):
        """No more is enqueued, and the clients end when all is done.  False: in so many seconds nothing more was."""
        self.shared.drain.value = 1
        self.crew.end(lambda kind: kind == "producer", 120)
        done, before = False, -1
        while not done and self.crew.acked() > before:
            before = self.crew.acked()
            with contextlib.suppress(Trouble):
                done = wait_for("the queues to be empty", empty, seconds)
        self.shared.stop.value = 1
        self.crew.end(seconds=120)
        return done

    def judged(self, conn, sources=(), names=True):
        return judge.check(conn, judge.read_logs(self.options.journals), self.journal_path, sources, names)

    def more_of(self, name):  # pylint: disable=unused-argument
        """What is in its further columns of the table."""
        return ()

    def table(self):
        yield "| fault | times | recovery, median | longest |" + "".join(" %s |" % column for column in self.columns)
        yield "|---|---:|---:|---:|" + "---:|" * len(self.columns)
        for name, fault in FAULTS.items():
            times = self.done.get(name)
            if times:
                yield "| %s | %d | %.2f s | %.2f s |" % (fault.title, len(times), statistics.median(times), max(times)) + "".join(
                    " %.1f s |" % seconds for seconds in self.more_of(name))
            elif name in self.left_out:
                yield "| %s | left out: %s | | |" % (fault.title, self.left_out[name])
        yield "| **all** | **%d** | | |" % self.total()

    def wrong(self):
        """Lines of what else must not be."""
        return ["a client broke down: " + line for line in self.crew.broken]

    def report(self, trouble, found):
        print("\n".join(self.table()))
        print()
        if found:
            print("\n".join("%s: %d" % count for count in found.counts.items()))
            print("\n".join(found.lines()))
        if self.skipped:
            print("nothing to do it to, or locked: " + ", ".join("%s %d" % item for item in self.skipped.items()))
        wrong = self.wrong() + (["TROUBLE in \"%s\": %s" % (self.fault and self.fault.title, trouble)] if trouble else [])
        print("\n".join(wrong))
        good = bool(found and found.good() and not wrong)
        if found:
            print("%d lost, %d double, %d stuck, %d of nowhere" % (len(found.lost), len(found.doubled), len(found.stuck), len(found.nowhere)))
        print("seed %s: %s" % (self.options.seed, "nothing lost, nothing doubled" if good else "FAILED"))
        return good

    def main(self):
        """From begin() to the report.  A run that breaks off is judged, too, if that can be."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        print("seed %s" % self.options.seed, flush=True)
        trouble = found = None
        try:
            for step in self.begin, self.run, self.finish:
                try:
                    found = step()
                except (Trouble, psycopg.Error, OSError) as error:
                    trouble = "%s%s\n%s" % (trouble + "\nand at the end: " if trouble else "", error, traceback.format_exc(limit=-4))
                    if step == self.begin:  # pylint: disable=comparison-with-callable
                        break
            return 0 if self.report(trouble, found) else 1
        finally:
            self.crew.stop()
            self.close()
