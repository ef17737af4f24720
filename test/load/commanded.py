#!/usr/bin/python3
"""The load behind the tests of faults: faults_kills, faults_failover, engine_exactly_once.

Producers and workers of every kind (clients.py) use one queue while the test does
them and the server harm.  At the end their journals are compared with what is in
the database (judge.py), and looked at for how soon what was in the hands of the
dead was in somebody's hands again.

It takes commands from standard input, and answers each with one line:

kill KIND           kill -9 a client of that kind while it has tasks in hand; another
                    one takes its place
pause KIND SECONDS NUMBER
                    so many of them are stopped with SIGSTOP, and go on with SIGCONT later
backend             the process id of the backend of some client
down                the server is about to go down ...
up                  ... and is to be waited for: it takes commands again
progress N          wait until N more tasks have been acknowledged
finish              stop producing, wait until the queue is empty, and judge:
                    a JSON object
"""

import contextlib
import json
import sys
import time

import psycopg
from psycopg import sql

import judge
from clients import Client, Rollback
from driver import Driver, arguments
from faults import stop
from journal import CRASH, now, since_boot
from servers import Trouble, wait_for

QUEUE = "faults"
PROBE = "faults up"

# More than these ready tasks and producers pause: a task that is put back goes to
# the end of its group's queue, and must not wait there for a backlog.
ENOUGH = 40


class FaultsClient(Client):
    prefix = "faults"
    pause = 0.02
    # Its server goes down, or is a standby; a pop does not wait for who changes the row;
    # the session ended before it claimed.
    expected = ("57P01", "57P02", "57P03", "08006", "08001", "08003", "40001", "55000")
    lease = ttl = 1.0
    bound_ttl = 3600.0
    queues = {QUEUE: 1}
    COLUMNS = Client.COLUMNS + ", extract(epoch FROM lease_until)::float8"
    batches = (1, 1, 5, 8)
    claims = (1, 2, 5)
    at_once = (1,)

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.late = {}      # as held, of leases that are certainly over

    def step(self):
        return self.meddle if self.kind == "meddler" else super().step()

    def work(self):
        time.sleep(self.random.uniform(0.002, 0.04))

    def crowded(self, queue):
        return self.one("SELECT count(*) FROM fairq.peek(%s, %s)", queue, ENOUGH) >= ENOUGH

    def tasks(self, rows, asked, until=None):
        tasks = super().tasks(rows, asked)
        for task, row in zip(tasks, rows) if until else ():
            task.until = since_boot(row[-1])
            if task.until < until - 0.001:
                self.wrong("a lease of less than %s s" % self.lease)
        return tasks

    def acknowledge(self, task, acked):
        """It ends here if the task is somebody else's."""
        if super().acknowledge(task, acked):
            return True
        if self.options.careless:
            self.result(task, acked=acked)
        else:
            self.held.pop(task.receipt, None)
            raise Rollback()
        return False

    def consume(self):
        if self.late:
            self.lose()
        super().consume()

    def settle(self):
        # It is worked on for too long.
        if self.kind == "lease" and self.chance(0.01):
            time.sleep(self.lease + 0.2)
        super().settle()

    def session_over(self):
        # What must be lost is lost.
        self.late.update(self.held)
        super().session_over()

    def disconnected(self):
        # Only a server that goes down ends connections here: what it knew of leases and sessions is gone.
        super().disconnected()
        self.session_over()

    def lose(self):
        for receipt in list(self.late):
            def body(_, receipt=receipt):
                if self.one("SELECT fairq.ack(%s)", receipt):
                    self.wrong("receipt %s is good although its session or its server is gone" % receipt)
                raise Rollback()

            self.transaction("void", [], body)
            self.journal.write("N", "void")
            del self.late[receipt]

    def meddle(self):
        """Changes rows with SQL, leased or not: they move, and are offered to
        claimers once more. A lease is what keeps them from being taken."""
        def body(_):
            self.conn.execute(sql.SQL(
                "UPDATE {0} SET headers = '{{}}' WHERE ctid IN"
                " (SELECT ctid FROM {0} ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)").format(
                    sql.Identifier("fairq", "q_" + QUEUE)))
            if self.chance(0.1):
                raise Rollback()

        self.transaction("meddle", [], body)
        time.sleep(0.03)


# -- how soon tasks are in somebody's hands again ------------------------------

class Again:
    def __init__(self, logs, crashes, finished):
        self.logs = {log.client: log for log in logs}
        self.crashes = crashes
        self.finished = finished        # receipts
        self.report = {"examples": {}}
        self.seen = {}                  # task -> [(begin, attempt, receipt)]
        for lease in self.leases():
            self.seen.setdefault(lease.ident, []).append((lease.begin, lease.attempt, lease.receipt))
        for times in self.seen.values():
            times.sort()
        self.report["delivered_again"] = sum(len(seen) > 1 for seen in self.seen.values())

    def leases(self):
        return (lease for log in self.logs.values() for lease in log.leases.values())

    def many(self, name, what):
        self.report[name] = len(what)
        self.report["examples"][name] = [str(w) for w in what[:8]]

    def again(self, name, samples):
        """How long after its end (end, lease, whether an attempt is counted)
        a task was in somebody's hands again."""
        late, never, uncounted = [], [], []
        for end, lease, counted in samples:
            # It may have committed, unknown to the client.
            if lease.receipt in self.finished:
                continue
            later = [(at, attempt) for at, attempt, receipt in self.seen[lease.ident] if at > lease.begin and receipt != lease.receipt]
            if not later:
                never.append("%s: task %s, receipt %s" % (lease.client, lease.ident, lease.receipt))
                continue
            at, attempt = later[0]
            # A claim may have got it whose answer was lost in the next crash.
            if any(end < down < min(at, end + 3) for down, up in self.crashes):
                continue
            # Or somebody else had it meanwhile whose answer was lost with him.
            if counted and attempt > lease.attempt + 1:
                continue
            if counted and attempt <= lease.attempt:
                uncounted.append("%s: task %s, attempts %d, %d" % (lease.client, lease.ident, lease.attempt, attempt))
            late.append((round(at - end, 3), lease.client, lease.ident, lease.attempt, attempt))
        late.sort()
        self.report[name] = len(late)
        self.report[name + "_median"] = late[len(late) // 2][0] if late else None
        self.report[name + "_last"] = late[-1][0] if late else None
        self.report["examples"][name] = [str(sample) for sample in late[-5:]]
        self.many(name + "_never", never)
        self.many(name + "_uncounted", uncounted)

    def harmed(self, harms, name):
        """Clients that were killed or paused: (client, from)."""
        samples = []
        for client, at in harms:
            log = self.logs.get(client)
            for lease in log.leases.values() if log else ():
                if lease.begin > at or lease.ended is not None and lease.ended <= at:
                    continue
                # Who is paused in a transaction that acknowledges keeps the task.
                if name == "paused" and lease.unsure is not None and lease.unsure <= at:
                    continue
                # One of whom it is not known whether it has given the task back may have, and that counts nothing.
                counted = not lease.in_transaction and (lease.unsure is None or lease.unsure > at)
                if lease.in_transaction or client.startswith("bound."):
                    samples.append((at, lease, counted))
                else:
                    # Its last heartbeat may have arrived in that moment.
                    beats = [beat for beat in log.beats.get(lease.session, []) if beat[0] <= at]
                    end = lease.until
                    if beats:
                        end = FaultsClient.ttl + (at if name == "killed" else min(at, beats[-1][1]))
                    samples.append((end, lease, counted))
        self.again(name, samples)

    def crashed(self):
        """From when the server was up again."""
        self.again("crashed", [(up, lease, False) for down, up in self.crashes for lease in self.leases() if lease.begin < down
                               and (lease.ended is None or lease.ended > down) and lease.until > down])


# -- what is done to the clients --------------------------------------------

class Supervisor(Driver):
    client = FaultsClient

    def __init__(self, options):
        super().__init__(options, options.clients.split(","))
        self.killed = []            # (client, when)
        self.paused = []            # (client, from), paused for longer than its leases last
        self.crashes = []

    def begin(self):
        for queue in QUEUE, PROBE:
            self.admin("SELECT fairq.drop_queue(%s)", queue)
            self.admin("SELECT fairq.create_queue(%s, buckets => 4, max_attempts => 0, backoff_base => '0')", queue)
        with self.connect() as conn:
            conn.execute("DROP TABLE IF EXISTS produced, results, removed;" + judge.TABLES)
        self.crew.begin()

    def in_hand(self, which, least=1):
        """Those clients that have something in hand, of which there is to be so much."""
        def found():
            numbers = self.crew.busy(lambda number: which(self.options.kinds[number], number))
            return numbers if sum(self.shared.holds[number] for number in numbers) >= least else None
        return wait_for("clients with something in hand", found, self.patience)

    def victim(self, kind, but=()):
        return self.random.choice(self.in_hand(lambda one, number: one == kind and number not in but))

    def kill(self, kind):
        number = self.victim(kind)
        client = self.crew.tag(number)
        with self.ends("client", which=client):
            self.crew.kill(number)
            self.killed.append((client, now()))
        return "killed"

    def pause(self, kind, seconds, howmany):
        paused, going_on = [], []
        for _ in range(int(howmany)):
            number = self.victim(kind, paused)
            process = self.crew.processes[number].pid
            going_on.append(stop(lambda process=process: [process]))
            paused.append(number)
            if float(seconds) > FaultsClient.ttl + 1:
                self.paused.append((self.crew.tag(number), now()))
        time.sleep(float(seconds))
        for go_on in going_on:
            go_on()
        return "paused"

    def backend(self):
        return self.admin("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'faults %%'"
                          " ORDER BY random() LIMIT 1")[0][0]

    def down(self):
        """It goes down next: not before consumers have tasks in hand, or the
        crash shows nothing of them.  Said again, it has not gone down yet."""
        with contextlib.suppress(Trouble):
            self.in_hand(lambda kind, _: kind != "producer", 3)
        if not self.crashes or self.crashes[-1][1] is not None:
            self.crashes.append([None, None])
        self.crashes[-1][0] = now()
        return "down"

    def up(self):
        """Until it is, and is not the one that was there before."""
        while True:
            try:
                self.admin("SELECT fairq.enqueue(%s, 'null')", PROBE)
                break
            except psycopg.Error:
                time.sleep(0.02)
        self.crashes[-1][1] = now()
        for reach in CRASH:
            self.journal.write("E", "down", *self.crashes[-1], [reach, 0])
        return "up"

    def progress(self, number):
        try:
            self.goes_on(int(number))
            return "done"
        except Trouble:
            return "none"

    def finish(self):
        begin = now()
        self.drained(lambda: not self.admin("SELECT FROM fairq.tasks(%s) LIMIT 1", QUEUE), 30)
        logs = judge.read_logs(self.options.journals)
        with self.connect() as conn:
            found = self.judged(conn)
            again = Again(logs, self.crashes, {receipt for receipt, in conn.execute("SELECT receipt::text FROM results")})
            again.harmed(self.killed, "killed")
            again.harmed(self.paused, "paused")
            again.crashed()
            again.many("left", conn.execute("SELECT t::text FROM fairq.tasks(%s) t LIMIT 20", (QUEUE,)).fetchall())
            again.many("swept", conn.execute("SELECT queue, swept FROM fairq.queue_stats WHERE swept > 0").fetchall())
        return json.dumps(dict(again.report, **found.as_json(), broken=self.crew.broken, kills=len(self.killed), crashes=len(self.crashes),
                               void=judge.actions(logs)["void"], drain_seconds=round(now() - begin, 2), seed=self.options.seed))


def main():
    parser = arguments()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--clients", default="producer,producer,lease,lease,session,bound,bound,pop,transaction,meddler")
    parser.add_argument("--careless", action="store_true", help="commit whatever ack answers")
    supervisor = Supervisor(parser.parse_args())
    try:
        supervisor.begin()
        for line in sys.stdin:
            command, *words = line.split()
            print(getattr(supervisor, command)(*words), flush=True)
            if command == "finish":
                break
    finally:
        supervisor.crew.stop()


if __name__ == "__main__":
    main()
