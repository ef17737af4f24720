"""make check-patroni: see test/scripts/check-patroni.sh."""

import argparse
import os
import random
import signal
import sys
import time

import load
from load import Load
from stage import LONG, Stage, Trouble, wait_for

SHOWN = 20      # of each kind of findings


class Run:
    def __init__(self, options):
        self.options = options
        self.stage = Stage(options)
        self.load = None
        self.began = time.monotonic()
        self.seen = []      # (fault, seconds without an ack)

    def say(self, text):
        print("%6.1f  %s" % (time.monotonic() - self.began, text), flush=True)

    def progress(self, number=50):
        """So many acks more."""
        aim = self.load.acked() + number
        wait_for("%d more acks" % number, lambda: self.load.acked() >= aim)

    # -- the faults ----------------------------------------------------------

    def postmaster_killed(self):
        """Patroni starts it again; or does not, and the other one takes over."""
        leader = self.stage.leader()
        before = leader.postmaster()
        leader.kill_postmaster()
        wait_for("another postmaster, or another primary", lambda: leader.postmaster() not in (None, before)
                 or (self.stage.leader() or leader) is not leader)
        return wait_for("a primary", self.stage.leader)

    def machine_killed(self, walsenders=()):
        """All of a server at once, and Patroni first, so that it cannot help."""
        leader = self.stage.leader()
        leader.kill_patroni()
        leader.kill_postmaster()
        for pid in walsenders:
            os.kill(pid, signal.SIGKILL)
        new = wait_for("the standby to be promoted",
                       lambda: (lambda now: now if now is not leader else None)(self.stage.leader()))
        self.say("promoted: %s" % new.name)
        self.progress()
        leader.start()
        return new

    def replication_stalls(self):
        """Nothing more reaches the standby, then the server goes, too. Commits wait for the standby meanwhile."""
        leader = self.stage.leader()
        with leader.connect() as connection:
            walsenders = [pid for pid, in connection.execute("SELECT pid FROM pg_stat_replication")]
            for pid in walsenders:
                os.kill(pid, signal.SIGSTOP)
            if self.stage.asynchronous:
                self.progress()     # of which nothing has left this server
            else:
                wait_for("commits that wait for the standby", lambda: connection.execute(
                    "SELECT count(*) > 2 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()[0])
        return self.machine_killed(walsenders)

    def switchovers(self):
        """Over and back, each server restarted while it is the standby: as for an upgrade."""
        for _ in range(2):
            leader = self.stage.leader()
            standby = self.stage.other(leader)
            before = standby.postmaster()
            self.stage.restart(standby)
            wait_for("the standby to be restarted", lambda: standby.postmaster() not in (None, before))
            self.stage.wait_until_whole()
            self.stage.switch_over(leader)
            wait_for("the switchover", lambda: self.stage.leader() is standby)
            self.say("switched over to %s" % standby.name)
            self.progress()
            self.stage.wait_until_whole()

    # -- all of it -------------------------------------------------------------

    def check_configuration(self):
        """That each server has what the page says."""
        for member in self.stage.members.values():
            with member.connect() as connection:
                for name, value in (("shared_preload_libraries", "pgfairq"), ("pgfairq.max_leases", "200000"),
                                    ("synchronous_commit", "on"), ("max_worker_processes", "16"), ("data_checksums", "on")):
                    found, = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                    if found != value:
                        raise Trouble("%s has %s = %s" % (member.name, name, found))

    def rounds(self):
        faults = [self.postmaster_killed, self.machine_killed, self.replication_stalls, self.switchovers]
        chance = random.Random(self.options.seed)
        for number in range(self.options.rounds):
            for fault in chance.sample(faults, len(faults)):
                self.stage.wait_until_whole()
                self.progress()
                name = fault.__name__.replace("_", " ")
                self.say("round %d: %s, %s" % (number + 1, name, self.stage.leader().name))
                fault()
                self.progress()
                self.seen.append(name)

    def run(self):
        self.stage.begin()
        self.check_configuration()
        with self.stage.leader().connect() as connection:
            connection.execute(load.TABLES)
        if self.options.plant == "asynchronous":
            self.stage.make_asynchronous()
        self.say("two members; rounds: %d, seed: %s" % (self.options.rounds, self.options.seed))
        self.load = Load(self.options, self.stage.conninfo())
        self.rounds()
        self.load.shared.drain.value = 1
        leader = self.stage.wait_until_whole()
        with leader.connect() as connection:
            wait_for("the queues to be empty", lambda: not connection.execute(
                "SELECT 1 FROM fairq.q_emails UNION ALL SELECT 1 FROM fairq.q_reports LIMIT 1").fetchone(), LONG)
            self.load.end()
            return self.report(*load.check(connection, self.options.journals))

    def report(self, counts, lost, double, errors):
        print()
        for name in sorted(set(self.seen)):
            print("%7d  %s" % (self.seen.count(name), name))
        print()
        counts["connections lost"] = sum(self.load.shared.lost)
        for name, number in counts.items():
            print("%7d  %s" % (number, name))
        print()
        for name, found in (("errors that no failover explains", errors), ("lost", lost), ("double", double)):
            for one in found[:SHOWN]:
                print("  %s: %s" % (name, one))
        good = not (lost or double or errors) and counts["results"] > 0 and sum(self.load.shared.lost) > 0
        print("%d faults, %d lost, %d double%s" % (len(self.seen), len(lost), len(double), "" if good else ": NOT as it must be"))
        return 0 if good else 1

    def end(self):
        if self.load:
            self.load.end()
        self.stage.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--bindir", required=True)
    parser.add_argument("--page", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", default="")
    parser.add_argument("--plant", choices=("asynchronous", "apart"))
    options = parser.parse_args()
    options.seed = options.seed or str(random.randrange(1000000))
    options.journals = os.path.join(options.work, "journals")
    os.mkdir(options.journals, 0o700)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run = Run(options)
    try:
        return run.run()
    except Trouble as trouble:
        run.say("the test broke off: %s" % trouble)
        return 2
    finally:
        run.end()


if __name__ == "__main__":
    sys.exit(main())
