"""Faults of a cluster under load, and a checker: every task whose enqueue was answered is
done once.

Producers enqueue through the proxies.  The tasks of queue "local" are done by workers at
the nodes, which write the result there in the transaction that acknowledges the task.
Those of queue "inbox" are done by workers through the proxies: the result is written to
another server, keyed by the task's id, and then the task is acknowledged.  One claim in a
hundred is forgotten.  What is compared at the end is what producers were told with the
results, and nothing else.

Started by test/scripts/torture-cluster.sh and by test/t/cluster_checker.pl."""

import argparse
import random
import signal
import sys
import threading
import time

import psycopg
from psycopg.types.json import Jsonb

from cluster_faults import NEEDS, Faults
from cluster_servers import Place, Server, Trouble, wait_for

LEASE = "2 s"
PATIENCE = 120
LONG = 20           # work that stands still so long is reported, with what waits for what
BACKLOG = 500       # tasks that are enqueued and not done, about


class Clients:
    """All clients, each a thread with connections of its own."""

    def __init__(self, cluster, options):
        self.cluster = cluster
        self.plant = options.plant
        self.producing = True
        self.working = True
        self.answered = {}      # name -> id
        self.lock = threading.Lock()
        self.times = {}         # name -> when it was asked for and answered
        self.excused = set()    # names that a restored node does not know any more
        self.surplus = 0        # results of tasks that came again, less what is gone
        self.calls = []         # of proxies: when it began, when it was completed, and at which node, if it was
        self.unknown = set()    # names whose outcome the producer does not know
        self.done = 0           # results that were written
        self.forgotten = 0
        self.refused = 0        # calls that were refused, or lost
        self.errors = []        # what no fault explains
        self.threads = []

    def start(self, function, *arguments):
        thread = threading.Thread(target=self.guarded, args=(function, *arguments), daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def guarded(self, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(f"{function.__name__}: {error!r}")

    def produce(self, number):
        rng = random.Random(number)
        conn = None
        count = calls = 0
        while self.producing:
            if len(self.answered) - self.done + self.surplus > BACKLOG:
                time.sleep(0.02)
                continue
            names = [f"{number}.{count + i}" for i in range(rng.choice((1, 1, 1, 5, 250)))]
            count += len(names)
            queue = rng.choice(("local", "inbox"))
            groups = [f"group {rng.randrange(8)}" for _ in names]
            calls += 1
            begin = time.monotonic()
            try:
                if self.plant == "unanswered" and calls % 10 == 1:
                    raise psycopg.OperationalError("as if no proxy were there")
                conn = conn or psycopg.connect(self.cluster.proxies(produces=True), autocommit=True)
                if len(names) == 1:
                    ids = [conn.execute("SELECT fairq.enqueue(%s, %s, %s)", (queue, Jsonb(names[0]), groups[0])).fetchone()[0]]
                else:
                    ids, = conn.execute("SELECT fairq.enqueue_many(%s, %s, %s)", (queue, [Jsonb(name) for name in names], groups)).fetchone()
                end = time.monotonic()
                with self.lock:
                    self.answered.update(zip(names, ids))
                    self.times.update((name, (begin, end)) for name in names)
                self.calls += [(begin, end, node) for node in set(map(node_of, ids))]
                if rng.random() < 0.01:
                    conn.close()    # and the next one goes to any proxy
                    conn = None
            except psycopg.OperationalError as error:
                self.refused += 1
                self.calls.append((begin, time.monotonic(), None))
                if self.plant == "unanswered":
                    self.answered.update((name, None) for name in names)
                # Of a batch some may be there, whatever is said of the rest.
                elif len(names) > 1 or "Nothing was done" not in str(error.diag.message_hint):
                    self.unknown.update(names)
                conn = self.closed(conn)
            time.sleep(0.01 * len(names) ** 0.5)

    def gone(self, node, begin, end):
        """A node does not know what it was given between these times."""
        with self.lock:
            self.excused.update(name for name, (asked, answered) in self.times.items()
                                if asked <= end and answered >= begin and node_of(self.answered[name]) == node)

    def count(self, waiting):
        """So many tasks are there now."""
        self.surplus = waiting - (len(self.answered) - self.done)

    def closed(self, conn):
        """None, when the connection is not to be used any more."""
        if conn is not None and conn.closed:
            conn.close()
            return None
        if conn is None:
            time.sleep(0.1)
        return conn

    def work_at_node(self, number):
        """Result and acknowledgement in one transaction."""
        rng = random.Random(number)
        conn = None
        while self.working:
            try:
                conn = conn or psycopg.connect(self.cluster.nodes[number].conninfo(), autocommit=True)
                for task, receipt, name in conn.execute(
                        "SELECT id, receipt, payload #>> '{}' FROM fairq.claim('local', %s, lease => %s, wait => '0.2 s')",
                        (rng.choice((1, 10, 50)), LEASE)).fetchall():
                    if rng.random() < 0.01:
                        self.forgotten += 1
                    elif self.plant == "ack-first":
                        # Whose lease has run out meanwhile leaves the task to the next one.
                        if not conn.execute("SELECT fairq.ack(%s)", (receipt,)).fetchone()[0]:
                            continue
                        if self.done % 20 == 9:
                            self.done += 1
                            raise psycopg.OperationalError("as if killed")
                        conn.execute("INSERT INTO result VALUES (%s, %s)", (task, name))
                    else:
                        with conn.transaction():
                            conn.execute("INSERT INTO result VALUES (%s, %s)", (task, name))
                            if not conn.execute("SELECT fairq.ack(%s)", (receipt,)).fetchone()[0]:
                                raise psycopg.Rollback()
                    self.done += 1
            except (psycopg.OperationalError, psycopg.errors.UndefinedObject):
                # away; or it is not added yet, and has no queue
                self.refused += 1
                if conn is not None:
                    conn.close()
                conn = None
                time.sleep(0.05)

    def work_by_proxy(self, number):
        """The result where it is written once, and then the acknowledgement."""
        rng = random.Random(number)
        conn = None
        results = self.cluster.results.connect()
        while self.working:
            begin = time.monotonic()
            try:
                conn = conn or psycopg.connect(self.cluster.proxies(), autocommit=True)
                tasks = conn.execute(
                    "SELECT id, receipt, payload #>> '{}' FROM fairq.claim('inbox', %s, lease => %s, wait => '0.5 s')",
                    (rng.choice((1, 10, 50)), LEASE)).fetchall()
                end = time.monotonic()
                self.calls.append((begin, end, node_of(tasks[0][0]) if tasks else None))
                tasks = [task for task in tasks if rng.random() >= 0.01]
                if not tasks:
                    continue
                with results.transaction():
                    for task, _, name in tasks:
                        results.execute("INSERT INTO result VALUES (%s, %s) ON CONFLICT DO NOTHING", (task, name))
                self.done += len(tasks)
                begin = time.monotonic()
                conn.execute("SELECT count(*) FROM fairq.ack_many(%s)", ([receipt for _, receipt, _ in tasks],))
                if rng.random() < 0.01:
                    conn.close()
                    conn = None
            except psycopg.OperationalError:
                self.refused += 1
                self.calls.append((begin, time.monotonic(), None))
                conn = self.closed(conn)


def node_of(task):
    return task >> 48


class Cluster(Faults):
    def __init__(self, options):
        self.random = random.Random(options.seed)
        self.place = Place(options.work, options.bindir, options.network, options.clock, options.old_bindir)
        self.longest = options.longest
        self.patience = PATIENCE
        self.standbys = options.standbys
        self.unmarked = options.plant == "unmarked"
        self.nodes = {}
        self.results = Server(self.place, "results", next(self.place.ports))
        self.results.init("shared_preload_libraries = ''\n")
        self.results.start()
        self.results.execute("CREATE DATABASE app", "postgres")
        self.results.execute("CREATE TABLE result (task bigint PRIMARY KEY, name text)")
        self.proxy = self.place.proxy()
        self.lagging = False
        self.furthest = 0       # how far a clock has been ahead
        for number in range(1, options.nodes + 1):
            self.new_node(number)
            self.add(number)
        self.proxy.attach(synchronous=False)
        for queue in "local", "inbox":
            self.proxy.primary.execute(f"SELECT fairq.create_queue('{queue}', max_attempts => 0)")
        self.spare = options.nodes + 1
        if options.spare:
            self.new_node(self.spare)
        self.clients = Clients(self, options)
        self.rounds = {}

    def new_node(self, number):
        self.nodes[number] = self.place.node(number, standby=number <= self.standbys)
        # No key: what is there twice is to be seen.
        self.nodes[number].primary.execute("CREATE TABLE result (task bigint, name text)")
        if self.unmarked:
            self.nodes[number].primary.execute(
                "CREATE OR REPLACE FUNCTION fairq_internal.set_membership(membership text) RETURNS void LANGUAGE sql AS ''")
        if self.nodes[number].standby:
            self.nodes[number].attach()

    def add(self, number):
        self.proxy.primary.execute(f"SELECT fairq.add_node({number}, $${self.nodes[number].conninfo()}$$)")

    def proxies(self, produces=False):
        servers = self.proxy.both()
        self.random.shuffle(servers)
        if self.lagging:
            # Who produces has an old list, who works does not go where it has put tasks.
            servers = [self.proxy.standby, self.proxy.primary] if produces else [self.proxy.primary]
        return "host=%s port=%s dbname=app user=postgres connect_timeout=10" % (
            ",".join([self.place.sockets] * len(servers)), ",".join(str(server.port) for server in servers))

    # -- the run ------------------------------------------------------------

    def goes_on(self):
        """Until there are more results."""
        before = self.clients.done
        last = time.monotonic() + LONG

        def more():
            nonlocal last
            if self.clients.done <= before + 5 and time.monotonic() > last:
                last += LONG
                self.report()
            return self.clients.done > before + 5 or self.clients.errors

        wait_for("more results", more, PATIENCE)
        if self.clients.errors:
            raise Trouble("a client has failed: " + self.clients.errors[0])

    def run(self, faults, rounds, seconds):
        clients = self.clients
        for number in self.nodes:
            clients.start(clients.work_at_node, number)
        for number in 1, 2:
            clients.start(clients.produce, number)
            clients.start(clients.work_by_proxy, number)
        self.goes_on()
        deadline = time.monotonic() + seconds
        for turn in range(rounds):
            for fault in faults:
                if time.monotonic() > deadline:
                    return
                clients.calls.clear()
                begin = time.monotonic()
                try:
                    sick = getattr(self, fault)()
                    self.goes_on()
                except Trouble as trouble:
                    raise Trouble(f"{self.title(fault)}, round {turn + 1}: {trouble}") from trouble
                end = time.monotonic()
                self.rounds.setdefault(fault, []).append((end - begin, *self.held_up(sick, begin, end)))
            if turn % 10 == 9:
                print(f"{turn + 1} rounds, {len(clients.answered)} tasks enqueued", flush=True)

    def title(self, fault):
        return getattr(self, fault).__doc__

    def print_rounds(self, faults):
        print("| fault | rounds | longest round | others: longest time without a call | longest call |\n|---|---:|---:|---:|---:|")
        for fault in faults:
            rounds = self.rounds.get(fault, [])
            print(f"| {self.title(fault)} | {len(rounds)} | " + " | ".join(f"{max(times):.1f} s" for times in zip(*rounds or [(0, 0, 0)])) + " |")

    def held_up(self, sick, begin, end):
        """Meanwhile: the longest time between two calls that others completed, and the longest call."""
        calls = list(self.clients.calls)
        times = sorted(when for _, when, node in calls if begin < when < end and node is not None and node not in sick)
        times = [begin] + times + [end]
        return max(b - a for a, b in zip(times, times[1:])), max((when - since for since, when, _ in calls if since > begin), default=0)

    def report(self):
        """What the tasks wait for that are there."""
        for number, node in self.nodes.items():
            if not node.primary.execute("SELECT to_regclass('fairq.q_inbox') IS NOT NULL")[0][0]:
                continue
            for queue in "local", "inbox":
                states = node.primary.execute(
                    "SELECT state, to_jsonb(t)->>'lost', count(*), min(run_at) - clock_timestamp(), max(run_at) - clock_timestamp()"
                    f" FROM fairq.tasks('{queue}') t GROUP BY 1, 2 ORDER BY 1, 2")
                print(f"node {number}, {queue}: " + ("; ".join(f"{n} {state}, lost {lost} times, due in {first} to {last}"
                                                               for state, lost, n, first, last in states) or "nothing"), flush=True)

    def waiting(self):
        """Tasks that are there."""
        return sum(node.primary.execute("SELECT (SELECT count(*) FROM fairq.q_local) + (SELECT count(*) FROM fairq.q_inbox)")[0][0]
                   for node in self.nodes.values() if node.primary.execute("SELECT to_regclass('fairq.q_inbox') IS NOT NULL")[0][0])

    def finish(self):
        """All that is there is done, and the clients end.  What is left is stuck."""
        self.clients.producing = False
        # What was put off by a clock that was ahead is due then, too.
        for node in self.nodes.values():
            node.primary.set_clock(self.furthest)
        try:
            wait_for("the nodes to be empty", lambda: self.waiting() == 0, PATIENCE)
        except Trouble:
            pass
        stuck = self.waiting()
        self.clients.working = False
        for thread in self.clients.threads:
            thread.join(30)
        return stuck

    def judge(self):
        """What is lost, and what is there twice."""
        times = {}
        for server in [self.results] + [node.primary for node in self.nodes.values()]:
            for name, in server.execute("SELECT name FROM result"):
                times[name] = times.get(name, 0) + 1
        told = self.clients.answered
        missing = [name for name in told if name not in times]
        lost = [name for name in missing if name not in self.clients.excused]
        double = [name for name in times if times[name] > 1]
        nowhere = [name for name in times if name not in told and name not in self.clients.unknown]
        return lost, len(missing) - len(lost), double, nowhere, sum(name in times for name in self.clients.unknown)


FAULTS = ("nothing", "kill", "promote", "switch", "kill_proxy", "add_drain", "stop_node", "stop_backends", "stop_walwriter",
          "drain_kills", "lag", "restore", "drop_answers", "drop_all", "reset", "full_disk", "clock")

MISSING = {"network": "needs root, nft, and a network namespace", "clock": "needs clock.c, compiled", "old_bindir": "needs a server with an earlier version"}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--bindir", required=True)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--standbys", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--faults", default=" ".join(FAULTS))
    parser.add_argument("--longest", type=float, default=10, help="seconds that a node is sick")
    parser.add_argument("--network", action="store_true", help="there is a network namespace for this alone, and the right to change it")
    parser.add_argument("--clock", help="clock.c, as a library")
    parser.add_argument("--old-bindir", help="of a server with an earlier version of pgfairq, with which all begin")
    parser.add_argument("--plant", choices=("ack-first", "unanswered", "unmarked"))
    options = parser.parse_args()
    asked = options.faults.split()
    faults = [fault for fault in asked if fault not in NEEDS or getattr(options, NEEDS[fault])]
    for fault in asked:
        if fault not in faults:
            print(f"left out: {getattr(Cluster, fault).__doc__}: {MISSING[NEEDS[fault]]}", flush=True)
    options.spare = bool({"add_drain", "drain_kills", "lag"}.intersection(faults))
    cluster = None
    try:
        cluster = Cluster(options)
        cluster.run(faults, options.rounds, options.seconds)
        stuck = cluster.finish()
        lost, gone, double, nowhere, known = cluster.judge()
    except Trouble as trouble:
        print(f"trouble: {trouble}")
        if cluster:
            cluster.print_rounds(faults)
        print(f"errors of clients: {cluster.clients.errors if cluster and hasattr(cluster, 'clients') else ''}")
        return 2
    finally:
        if cluster:
            cluster.place.end()
            cluster.results.end()
    clients = cluster.clients
    cluster.print_rounds(faults)
    print(f"{len(clients.answered)} tasks were enqueued; of {len(clients.unknown)} more the producer was not told, {known} of these are done")
    print(f"{clients.forgotten} claims were forgotten, {clients.refused} calls refused or lost")
    if "restore" in faults:
        print(f"{gone} came to a node after the backup that it was restored from and are gone, as is documented")
    print(f"{len(lost)} lost, {len(double)} double, {stuck} stuck, {len(nowhere)} of nowhere")
    for what in lost, double, nowhere, clients.errors:
        if what:
            print(what[:5])
    return 1 if lost or double or stuck or nowhere or clients.errors else 0


if __name__ == "__main__":
    sys.exit(main())
