"""make check-patroni: see test/scripts/check-patroni.sh."""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "load"))
import clients  # noqa: E402
import driver  # noqa: E402
import judge  # noqa: E402
from faults import FAULTS, fault  # noqa: E402
from journal import CRASH  # noqa: E402
from servers import Trouble  # noqa: E402
from stage import Stage, wait_for  # noqa: E402

KINDS = ("producer", "producer", "lease", "lease", "bound", "bound")


class Client(clients.Client):
    """They go to whichever server takes writes."""

    prefix = "patroni"
    pause = 0.1
    # The server goes away or becomes a standby. 53300: too many, at a start. 55000: the session is over.
    expected = ("08", "57", "25006", "53300", "55000")
    queues = {"emails": 1, "reports": 1}
    enough = 500
    forgets = 0.01
    lease = 10.0
    bound_ttl = 15.0

    def stays(self, _):
        """A server that has become a standby stays connected: go and look for the primary."""
        return False

    def settle(self):
        if self.options.plant != "apart":
            super().settle()
            return
        task = self.held.popitem()[1]
        self.unsure([task])
        self.result(task, acked=[])
        time.sleep(0.01)
        self.one("SELECT fairq.ack(%s)", task.receipt)
        self.shared.acked[self.number] += 1


@fault("postmaster killed", forgives=CRASH)
def postmaster_killed(run):
    """Patroni starts it again; or does not, and the other one takes over."""
    leader = run.stage.leader()
    before = leader.postmaster()
    leader.kill_postmaster()
    wait_for("another postmaster, or another primary", lambda: leader.postmaster() not in (None, before)
             or (run.stage.leader() or leader) is not leader)
    wait_for("a primary", run.stage.leader)


@fault("machine killed", forgives=CRASH)
def machine_killed(run, walsenders=()):
    """All of a server at once, and Patroni first, so that it cannot help."""
    leader = run.stage.leader()
    leader.kill_patroni()
    leader.kill_postmaster()
    for pid in walsenders:
        os.kill(pid, signal.SIGKILL)
    wait_for("the standby to be promoted", lambda: run.stage.leader() not in (None, leader))
    run.goes_on(50)
    leader.start()


@fault("replication stalls", forgives=CRASH)
def replication_stalls(run):
    """Nothing more reaches the standby, then the server goes, too. Commits wait for the standby meanwhile."""
    with run.stage.leader().connect() as connection:
        walsenders = [pid for pid, in connection.execute("SELECT pid FROM pg_stat_replication")]
        for pid in walsenders:
            os.kill(pid, signal.SIGSTOP)
        if run.stage.asynchronous:
            run.goes_on(50)     # of which nothing has left this server
        else:
            wait_for("commits that wait for the standby", lambda: connection.execute(
                "SELECT count(*) > 2 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()[0])
    machine_killed(run, walsenders)


@fault("switchovers", forgives=CRASH)
def switchovers(run):
    """Over and back, each server restarted while it is the standby: as for an upgrade."""
    for _ in range(2):
        leader = run.stage.leader()
        standby = run.stage.other(leader)
        before = standby.postmaster()
        run.stage.restart(standby)
        wait_for("the standby to be restarted", lambda: standby.postmaster() not in (None, before))
        run.stage.wait_until_whole()
        run.stage.switch_over(leader)
        wait_for("the switchover", lambda: run.stage.leader() is standby)
        run.goes_on(50)
        run.stage.wait_until_whole()


class Run(driver.Driver):
    client = Client
    patience = 300

    def __init__(self, options):
        super().__init__(options, KINDS)
        self.stage = Stage(options)

    def begin(self):
        self.stage.begin()
        self.check_configuration()
        with self.stage.leader().connect() as connection:
            connection.execute(judge.TABLES + "GRANT SELECT, INSERT ON produced, results TO app;")
        if self.options.plant == "asynchronous":
            self.stage.make_asynchronous()
        self.options.conninfo = self.stage.conninfo()
        self.crew.begin()

    def check_configuration(self):
        """That each server has what the page says."""
        for member in self.stage.members.values():
            # A standby may still have to replay that it is created.
            with wait_for("database app at " + member.name, member.connect) as connection:
                for name, value in (("shared_preload_libraries", "pgfairq"), ("pgfairq.max_leases", "200000"),
                                    ("synchronous_commit", "on"), ("max_worker_processes", "16"), ("data_checksums", "on")):
                    found, = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                    if found != value:
                        raise Trouble("%s has %s = %s" % (member.name, name, found))

    def goes_on(self, number=50, seconds=None):
        super().goes_on(number, seconds)

    def run(self):
        for _ in range(self.options.rounds):
            for name in self.random.sample(list(FAULTS), len(FAULTS)):
                self.stage.wait_until_whole()
                self.goes_on()
                self.harm(name)

    def finish(self):
        with self.stage.wait_until_whole().connect() as connection:
            empty = self.drained(lambda: not connection.execute(
                "SELECT 1 FROM fairq.q_emails UNION ALL SELECT 1 FROM fairq.q_reports LIMIT 1").fetchone(), self.patience)
            found = self.judged(connection, [judge.there(queue) for queue in Client.queues])
        if not empty:
            found.stuck.append("tasks in emails or reports")
        if not (found.counts["connections lost"] and found.counts["acknowledged"]):
            found.errors["no client has lost a connection, or none has done anything"] = 1
        return found

    def close(self):
        self.stage.end()


def main():
    parser = driver.arguments(plants=("asynchronous", "apart"))
    parser.add_argument("--page", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.seed = options.seed or str(random.randrange(1000000))
    return Run(options).main()


if __name__ == "__main__":
    sys.exit(main())
