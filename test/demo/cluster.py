"""The cluster demo's main job: four nodes with a synchronous standby each, two proxies, and
two tenants. Bob has 20,000 tasks, alice one. While eight workers do them, a node is killed
and its standby promoted, a fifth node is added, and the first is drained. Ends with what
happened, and with exit code 1 when anything is not as promised.

    cluster.py DIRECTORY BINDIR TASKS"""

import os
import signal
import statistics
import sys
import threading
import time

import psycopg
from psycopg.types.json import Jsonb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "load"))
from servers import Place, Trouble, wait_for  # noqa: E402  pylint: disable=wrong-import-position

NODES = 4
WORKERS = 2     # at each node
BATCH = 10
LEASE = "5 s"
PATIENCE = 90   # seconds without a new result


class Cluster:
    def __init__(self, work, bindir):
        self.place = Place(work, bindir)
        self.nodes = {}
        self.proxy = self.place.proxy()
        self.events = {}        # node -> what has become of it

    def start(self):
        for number in range(1, NODES + 1):
            self.add(number, standby=True)
            print(f"  node {number} on port {self.nodes[number].primary.port}, its standby on {self.nodes[number].standby.port}", flush=True)
        self.proxy.attach(synchronous=False)
        print(f"  two proxies, on ports {self.proxy.primary.port} and {self.proxy.standby.port}, the second a hot standby of the first", flush=True)
        self.proxy.primary.execute("SELECT fairq.create_queue('jobs', buckets => 1)")

    def add(self, number, standby):
        node = self.nodes[number] = self.place.node(number, standby)
        node.primary.execute("CREATE TABLE done (task bigint, name text, tenant text, worker text, enqueued_at timestamptz,"
                             " claimed_at timestamptz)")
        if standby:
            node.attach()
        self.proxy.primary.execute(f"SELECT fairq.add_node({number}, $${node.conninfo()}$$)")

    def proxies(self):
        servers = self.proxy.both()
        return "host=%s port=%s dbname=app user=postgres" % (
            ",".join([self.place.sockets] * len(servers)), ",".join(str(server.port) for server in servers))

    def ask(self, number, query):
        """What a node says, or None: it is away."""
        try:
            return self.nodes[number].primary.execute(query)
        except psycopg.OperationalError:
            return None

    def end(self):
        self.place.end()


class Story:
    """What the tenants and the workers do, in threads."""

    def __init__(self, cluster, total):
        self.cluster = cluster
        self.total = total
        self.answered = {}      # name -> id
        self.unknown = []       # names, where the answer was lost
        self.repeated = 0
        self.done = 0
        self.errors = []
        self.working = True
        self.live = sys.stdout.isatty()
        self.lines = 0
        self.started = time.monotonic()

    def start(self, function, *arguments):
        def guarded():
            try:
                function(*arguments)
            except Exception as error:  # pylint: disable=broad-except
                self.errors.append(f"{function.__name__}: {error!r}")
        threading.Thread(target=guarded, daemon=True).start()

    def enqueue(self, tenant, numbers):
        """A thousand at a time through a proxy."""
        conn = psycopg.connect(self.cluster.proxies(), autocommit=True)
        numbers = list(numbers)
        for first in range(0, len(numbers), 1000):
            names = [f"{tenant} {number}" for number in numbers[first:first + 1000]]
            try:
                ids, = conn.execute("SELECT fairq.enqueue_many('jobs', %s, %s)", ([Jsonb(name) for name in names], [tenant])).fetchone()
                self.answered.update(zip(names, ids))
            except psycopg.OperationalError:
                # Some may be there: the rest is enqueued under other names.
                self.unknown += names
                self.repeated += 1
                numbers += [f"again {name}" for name in names]

    def work(self, number, worker):
        """At a node: the result, and the acknowledgement, in one transaction."""
        conn = None
        while self.working:
            try:
                conn = conn or psycopg.connect(self.cluster.nodes[number].conninfo(), autocommit=True)
                tasks = conn.execute("SELECT id, receipt, payload #>> '{}', group_key, enqueued_at, clock_timestamp()"
                                     " FROM fairq.claim('jobs', %s, lease => %s, wait => '0.2 s')", (BATCH, LEASE)).fetchall()
                for task, receipt, name, tenant, enqueued_at, claimed_at in tasks:
                    with conn.transaction():
                        conn.execute("INSERT INTO done VALUES (%s, %s, %s, %s, %s, %s)",
                                     (task, name, tenant, f"{number}.{worker}", enqueued_at, claimed_at))
                        if not conn.execute("SELECT fairq.ack(%s)", (receipt,)).fetchone()[0]:
                            raise psycopg.Rollback()
                    self.done += 1
            except psycopg.OperationalError:
                if conn is not None:
                    conn.close()
                conn = None
                time.sleep(0.05)

    # -- what the reader sees ----------------------------------------------

    def table(self):
        yield f"  {'node':<6}{'ready':>8}{'leased':>8}{'done':>8}   by tenant (ready, done, longest wait)"
        for number in sorted(self.cluster.nodes):
            counts = self.cluster.ask(number, "SELECT ready, leased, acked FROM fairq.queue_stats WHERE queue = 'jobs'")
            event = self.cluster.events.get(number, "")
            if not counts:
                yield f"  {number:<6}{'away':>8}{'':16}   {event}"
                continue
            tenants = self.cluster.ask(number, "SELECT tenant, count(*), extract(epoch FROM max(claimed_at - enqueued_at))::float FROM done GROUP BY 1 ORDER BY 1")
            shares = ", ".join(f"{tenant} {done:,} done, {wait:.1f} s" for tenant, done, wait in tenants or [])
            yield "  %-6d%8s%8s%8s   %s%s" % (number, *(f"{count:,}" for count in counts[0]), shares, f"  [{event}]" if event else "")
        yield f"  {self.done:,} of {self.total:,} done after {time.monotonic() - self.started:.1f} s"

    def show(self):
        """A table that is drawn over the last one, where somebody watches."""
        if not self.live:
            return
        lines = list(self.table())
        print(f"\033[{self.lines}A" * bool(self.lines) + "".join(f"\033[K{line}\n" for line in lines), end="", flush=True)
        self.lines = len(lines)

    def say(self, text):
        print(f"\n{text}", flush=True)
        if self.live:
            self.lines = 0
        else:
            print("\n".join(self.table()), flush=True)

    def until(self, done):
        last, news = self.done, time.monotonic()
        while self.done < done:
            if self.errors:
                raise Trouble(self.errors[0])
            if self.done > last:
                last, news = self.done, time.monotonic()
            elif time.monotonic() - news > PATIENCE:
                raise Trouble(f"nothing new for {PATIENCE} seconds")
            self.show()
            time.sleep(0.5 if self.live else 0.05)


class Checks:
    def __init__(self):
        self.failed = 0

    def check(self, holds, what):
        print(f"  {'yes' if holds else 'NO '}  {what}")
        if not holds:
            self.failed += 1


def report(story, cluster):
    rows = [(number, *row) for number, node in cluster.nodes.items()
            for row in node.primary.execute("SELECT name, tenant, extract(epoch FROM claimed_at - enqueued_at)::float, claimed_at FROM done ORDER BY claimed_at")]
    print("\nWaiting times             tasks       min    median       max")
    for tenant in "alice", "bob":
        waits = [row[3] for row in rows if row[2] == tenant]
        print(f"  {tenant:20} {len(waits):10,} {min(waits):7.2f} s {statistics.median(waits):7.2f} s {max(waits):7.2f} s")
    print("\nDone at                   tasks")
    for number in sorted(cluster.nodes):
        print(f"  node {number:<13} {sum(row[0] == number for row in rows):10,}  {cluster.events.get(number, '')}")

    times = {}
    for row in rows:
        times[row[1]] = times.get(row[1], 0) + 1
    lost = [name for name in story.answered if name not in times]
    double = [name for name in times if times[name] > 1]
    home, = (row[0] for row in rows if row[2] == "alice")
    there = [row for row in rows if row[0] == home]
    alice, = (row for row in there if row[2] == "alice")
    place = sum(row[4] <= alice[4] for row in there)
    bound = (WORKERS + 1) * BATCH
    print("\nAs promised?")
    checks = Checks()
    checks.check(place <= bound, f"alice was among the first {bound} claimed at her node, node {home}: {WORKERS} workers take {BATCH} at a time")
    checks.check(not lost and not double, f"what was enqueued is done once: {len(story.answered):,} tasks, {len(lost)} lost, {len(double)} double")
    checks.check(story.errors == [], "no worker and no tenant met an error that it cannot go on from"
                 + (f" ({story.repeated} batches were enqueued again)" if story.repeated else ""))
    fifth = sum(row[0] == NODES + 1 for row in rows)
    checks.check(fifth > 0, f"the fifth node has got tasks ({fifth:,})")
    left, = cluster.nodes[1].primary.execute("SELECT count(*) FROM fairq.tasks('jobs')")[0]
    checks.check(left == 0, f"nothing is left at the first node, which is drained ({left} tasks)")
    return checks.failed == 0


def run(work, bindir, total):
    cluster = Cluster(work, bindir)
    try:
        print("Starting the servers ...", flush=True)
        cluster.start()
        story = Story(cluster, total + 1)
        print(f"\n{WORKERS} workers at each node claim {BATCH} tasks at a time, and write result and ack in one transaction.")
        cluster.proxy.primary.execute("SELECT fairq.pause('jobs')")
        story.enqueue("bob", range(total * 6 // 10))
        story.enqueue("alice", [0])
        print(f"Bob enqueues {total * 6 // 10:,} tasks through a proxy, alice then one; bob goes on to {total:,}.", flush=True)
        cluster.proxy.primary.execute("SELECT fairq.resume('jobs')")
        for number in cluster.nodes:
            for worker in range(WORKERS):
                story.start(story.work, number, worker)

        story.until(total // 8)
        cluster.events[2] = "killed"
        story.say("kill -9 of node 2 ...")
        before = time.monotonic()
        cluster.nodes[2].fail_over()
        cluster.events[2] = f"killed; its standby took over after {time.monotonic() - before:.1f} s"
        story.say("... its standby is promoted; nothing is changed at the proxies, or at the workers.")

        story.until(total // 3)
        cluster.add(NODES + 1, standby=False)
        cluster.events[NODES + 1] = "added"
        for worker in range(WORKERS):
            story.start(story.work, NODES + 1, worker)
        story.start(story.enqueue, "bob", range(total * 6 // 10, total))
        story.say(f"Node {NODES + 1} is added, and bob enqueues the rest.")

        story.until(total // 2)
        cluster.proxy.primary.execute("SELECT fairq.drain_node(1)")
        cluster.events[1] = "drained"
        story.say("Node 1 is drained: it gets no more tasks, and its own are done.")
        story.until(story.total)
        story.say("All is done.")
        wait_for("the nodes to be empty", lambda: not any(
            cluster.ask(number, "SELECT 1 FROM fairq.tasks('jobs') LIMIT 1") for number in cluster.nodes))
        story.working = False
        return report(story, cluster)
    finally:
        cluster.end()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(0 if run(sys.argv[1], sys.argv[2], int(sys.argv[3])) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except (psycopg.Error, Trouble) as trouble:
        print(f"\nThe demo failed: {trouble}", file=sys.stderr)
        sys.exit(1)
