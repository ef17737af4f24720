"""Measures a queue over several nodes. Started by cluster.sh, in two steps.

    cluster.py counts         with four nodes and a proxy that run as they are:
                              WAL, buffers and transactions a task, times, what
                              a dead node costs, what a new node gets
    cluster.py instructions   with a node and the proxy under callgrind

Each adds what it has measured to measured.json, of which cluster_report.py makes
the tables.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import threading
import time

import psycopg
import psycopg.sql

NODES = 4
GROUPS = 1000
PAYLOAD = '{"kind": "thumbnail", "file": "uploads/2024/05/17/0001234.jpg", "width": 640, "user": 1234567}'
NODE_SHIFT = 48     # of ids, which begin with the node's number

# What is called, by system: the same statements at a proxy and at a node.
SYSTEMS = {
    "pgfairq": {
        ("enqueue", 1): "SELECT fairq.enqueue('{q}', %s::jsonb, group_key => %s)",
        ("enqueue", 100): "SELECT fairq.enqueue_many('{q}', %s::jsonb[], %s::text[])",
        ("claim", 1): "SELECT * FROM fairq.claim('{q}', %s::int)",
        ("claim", 100): "SELECT * FROM fairq.claim('{q}', %s::int)",
        ("ack", 1): "SELECT fairq.ack(%s::uuid)",
        ("ack", 100): "SELECT * FROM fairq.ack_many(%s::uuid[])",
    },
    "skip": {
        ("enqueue", 1): "SELECT skip.enqueue(%s::jsonb, %s)",
        ("enqueue", 100): "SELECT skip.enqueue_many(%s::jsonb[], %s::text[])",
        ("claim", 1): "SELECT * FROM skip.claim(%s::int)",
        ("claim", 100): "SELECT * FROM skip.claim(%s::int)",
        ("ack", 1): "SELECT skip.done(ARRAY[%s::bigint])",
        ("ack", 100): "SELECT skip.done(%s::bigint[])",
    },
}
# Who is connected to a node may ask for less than a proxy does, which always asks for whole rows.
SYSTEMS["narrow"] = dict(SYSTEMS["pgfairq"])
for n in (1, 100):
    SYSTEMS["narrow"]["claim", n] = "SELECT id, receipt, group_key, payload FROM fairq.claim('{q}', %s::int)"
SYSTEMS["narrow"]["ack", 100] = "SELECT count(*) FROM fairq.ack_many(%s::uuid[])"
# As a claim by virtual time asks, now and then.
FRONT = "SELECT class, ready, front::float8 AS front, floor::float8 AS floor FROM fairq.front(%s)"


class Servers:
    def __init__(self, work):
        self.work = work

    def conninfo(self, name, database="postgres"):
        return "host=%s/%s/socket user=postgres dbname=%s" % (self.work, name, database)

    def connect(self, name, database="postgres"):
        conn = psycopg.connect(self.conninfo(name, database), autocommit=True)
        conn.prepare_threshold = 0
        return conn

    def execute(self, name, sql, database="postgres"):
        with self.connect(name, database) as conn:
            conn.execute(sql, prepare=False)

    def kill(self, name):
        """As when a process of the server dies: at once, without a word to its clients."""
        with open(os.path.join(self.work, name, "data", "postmaster.pid")) as pidfile:
            pid = int(pidfile.readline())
        os.kill(pid, signal.SIGQUIT)
        while os.path.exists("/proc/%d" % pid):
            with open("/proc/%d/stat" % pid) as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
            time.sleep(0.05)


class Client:
    """A connection, and the calls of a system in a queue."""

    def __init__(self, conn, system="pgfairq", queue="", prepare=True):
        self.conn, self.prepare = conn, prepare
        self.sql = {call: sql.format(q=queue) for call, sql in SYSTEMS[system].items()}
        self.receipt = "id" if system == "skip" else "receipt"
        self.random = random.Random(1)

    def call(self, name, batch, *arguments):
        return self.conn.execute(self.sql[name, batch], arguments, prepare=self.prepare).fetchall()

    def group(self):
        return "g%d" % self.random.randrange(GROUPS)

    def enqueue(self, batch):
        """The ids."""
        if batch == 1:
            return [self.call("enqueue", 1, PAYLOAD, self.group())[0][0]]
        return self.call("enqueue", 100, [PAYLOAD] * batch, [self.group() for _ in range(batch)])[0][0]

    def claim(self, batch):
        """The receipts."""
        cursor = self.conn.execute(self.sql["claim", batch], (batch,), prepare=self.prepare)
        column = [each.name for each in cursor.description].index(self.receipt)
        return [row[column] for row in cursor]

    def ack(self, batch, receipts):
        self.call("ack", batch, receipts[0] if batch == 1 else receipts)


def proxy_of(n):
    return "p%d" % n


def setup(servers):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "cluster_skip.sql")) as at_node, open(os.path.join(here, "cluster_skip_proxy.sql")) as at_proxy:
        node_sql, proxy_sql = at_node.read(), at_proxy.read()
    for node in range(1, NODES + 1):
        name = "node%d" % node
        servers.execute(name, "CREATE DATABASE observer")
        servers.execute(name, "CREATE EXTENSION pgfairq")
        servers.execute(name, "SELECT fairq.set_node(%d)" % node)
        servers.execute(name, node_sql)
    for n in range(1, NODES + 1):
        servers.execute("proxy", "CREATE DATABASE %s" % proxy_of(n))
        with servers.connect("proxy", proxy_of(n)) as conn:
            conn.execute("CREATE EXTENSION pgfairq_cluster CASCADE")
            for node in range(1, n + 1):
                conn.execute("SELECT fairq.add_node(%s, %s)" % (node, psycopg.sql.quote(node_connection(servers, node))))
            if n in (1, 2, 4):      # PL/Proxy wants a power of two
                conn.execute("CREATE SERVER skip FOREIGN DATA WRAPPER plproxy OPTIONS (%s)" % ", ".join(
                    "p%d '%s'" % (node - 1, node_connection(servers, node)) for node in range(1, n + 1)))
                conn.execute(proxy_sql, prepare=False)


def node_connection(servers, node):
    return "host=%s/node%d/socket dbname=postgres" % (servers.work, node)


def create_queue(servers, n, queue, more=""):
    servers.execute("proxy", "SELECT fairq.create_queue('%s', max_ready => 100000000, max_ready_per_group => 100000000%s)"
                    % (queue, more), proxy_of(n))


def drop_queue(servers, n, queue):
    servers.execute("proxy", "SELECT fairq.drop_queue('%s')" % queue, proxy_of(n))


# -- work at the nodes --------------------------------------------------------

def work_of_nodes(servers, n):
    """WAL bytes, buffers and transactions of the nodes so far, summed; looked at from another database."""
    sums = [0, 0, 0]
    for node in range(1, n + 1):
        with servers.connect("node%d" % node, "observer") as conn:
            # What a session did is counted when it ends, at the latest.
            while conn.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres'"
                               " AND backend_type = 'client backend'").fetchone()[0] > 0:
                time.sleep(0.05)
            row = conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read, xact_commit + xact_rollback"
                               " FROM pg_stat_database WHERE datname = 'postgres'").fetchone()
        sums = [had + int(more) for had, more in zip(sums, row)]
    return sums


def lives(client, batch, cycles, backlog):
    """So many enqueues, claims and acks. Ends when as many are done as were enqueued, or with nothing left if there is
    no backlog. Returns the number of tasks, and of claims that found nothing."""
    enqueued = done = empty = 0
    for cycle in range(cycles):
        enqueued += len(client.enqueue(batch))
        # SKIP LOCKED behind RUN ON ANY asks one node: whoever finds nothing there asks again
        while True:
            receipts = client.claim(batch)
            if receipts:
                client.ack(batch, receipts)
                done += len(receipts)
            else:
                empty += 1
            if receipts and (cycle < cycles - 1 or done >= enqueued):
                break
    return enqueued, empty


def count_work(servers, system, n, kind, cycles):
    """A task's part of the nodes' work, through the proxy of n nodes."""
    batch = 100 if kind == "hundred" else 1
    queue = "w%d" % n
    if system == "pgfairq":
        create_queue(servers, n, queue)
    else:
        for node in range(1, n + 1):
            servers.execute("node%d" % node, "TRUNCATE skip.task")
    with servers.connect("proxy", proxy_of(n)) as conn:
        client = Client(conn, system, queue)
        for _ in range(8 * n if kind != "empty" else 0):
            client.enqueue(100)
        lives(client, batch, 3 * n, kind != "empty")
    before = work_of_nodes(servers, n)
    with servers.connect("proxy", proxy_of(n)) as conn:
        tasks, empty = lives(Client(conn, system, queue), batch, cycles * n, kind != "empty")
    after = work_of_nodes(servers, n)
    if system == "pgfairq":
        drop_queue(servers, n, queue)
    wal, buffers, transactions = ((b - a) / tasks for a, b in zip(before, after))
    print("%-8s %-8s %d nodes: %6d tasks, WAL %6.1f B, buffers %6.2f, transactions %6.3f a task"
          % (system, kind, n, tasks, wal, buffers, transactions), flush=True)
    return {"system": system, "kind": kind, "nodes": n, "tasks": tasks, "wal": wal, "buffers": buffers,
            "transactions": transactions, "empty_claims": empty / tasks}


# -- times --------------------------------------------------------------------

def wall_of_enqueue(servers, rounds):
    """Medians of an enqueue of one with fsync, in milliseconds, all ways in turn."""
    for node in range(1, NODES + 1):
        with servers.connect("node%d" % node) as conn:
            conn.execute("ALTER SYSTEM SET fsync = on")
            conn.execute("SELECT pg_reload_conf()")
            while conn.execute("SHOW fsync").fetchone()[0] != "on":
                time.sleep(0.05)
    create_queue(servers, NODES, "wall")
    ways = {
        "direct, prepared": Client(servers.connect("node1"), queue="wall"),
        "direct, unnamed": Client(servers.connect("node1"), queue="wall", prepare=False),
        "proxy of 1": Client(servers.connect("proxy", proxy_of(1)), queue="wall"),
        "proxy of 4": Client(servers.connect("proxy", proxy_of(4)), queue="wall"),
    }
    times = {way: [] for way in ways}
    order = list(ways)
    for i in range(rounds + 20):
        random.shuffle(order)
        for way in order:
            start = time.perf_counter()
            ways[way].enqueue(1)
            if i >= 20:
                times[way].append(time.perf_counter() - start)
    for client in ways.values():
        client.conn.close()
    drop_queue(servers, NODES, "wall")
    for node in range(1, NODES + 1):
        with servers.connect("node%d" % node) as conn:
            conn.execute("ALTER SYSTEM RESET fsync")
            conn.execute("SELECT pg_reload_conf()")
    result = {way: 1000 * statistics.median(values) for way, values in times.items()}
    result["rounds"] = rounds
    result["load"] = os.getloadavg()[0]
    print("enqueue of one with fsync:", ", ".join("%s %.2f ms" % (way, result[way]) for way in ways), flush=True)
    return result


# Of so many claims, at least one in a hundred backends' meets a node of four.
FIRST = 16


def claims_of(client, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        if not client.claim(1):
            raise SystemExit("a claim found nothing")
        times.append(1000 * (time.perf_counter() - start))
    return times


def dead_node(servers, backends):
    """What a claim of one takes longer when one of four nodes is dead, in milliseconds. The longest of a backend's first
    claims is that which has tried the dead node; the longest of as many before says what the machine makes of it."""
    create_queue(servers, NODES, "dead")
    clients = [Client(servers.connect("proxy", proxy_of(NODES)), queue="dead") for _ in range(backends)]
    for _ in range(8 * backends):
        clients[0].enqueue(100)
    before = [claims_of(client, 3 * FIRST)[-FIRST - 24:] for client in clients]
    servers.kill("node%d" % NODES)
    after = [claims_of(client, FIRST + 24) for client in clients]
    for client in clients:
        client.conn.close()
    once = [max(b[:FIRST]) - max(a[:FIRST]) for a, b in zip(before, after)]
    result = {
        "claim": statistics.median(t for a in before for t in a),
        "longest_before": statistics.median(max(a[:FIRST]) for a in before),
        "longest_after": statistics.median(max(b[:FIRST]) for b in after),
        "once": statistics.median(max(b[:FIRST]) for b in after) - statistics.median(t for a in before for t in a),
        "afterwards": statistics.median(t for b in after for t in b[FIRST:]) - statistics.median(t for a in before for t in a),
        "once_difference": statistics.median(once),
        "backends": backends,
        "load": os.getloadavg()[0],
    }
    print("a node dead: claim %(claim).2f ms, once %(once).1f more (the longest of %(first)d before: %(longest_before).1f),"
          " afterwards %(afterwards)+.2f" % dict(result, first=FIRST), flush=True)
    return result


class Load(threading.Thread):
    """Enqueues, claims and acknowledges; notes when each enqueue began, and its node."""

    def __init__(self, servers, database, queue):
        super().__init__(daemon=True)
        self.client = Client(servers.connect("proxy", database), queue=queue)
        self.stopping, self.enqueues, self.errors = False, [], []

    def run(self):
        while not self.stopping:
            try:
                for _ in range(8):
                    start = time.monotonic()
                    self.enqueues.append((start, self.client.enqueue(1)[0] >> NODE_SHIFT))
                receipts = self.client.claim(100)
                if receipts:
                    self.client.ack(100, receipts)
            except psycopg.Error as error:
                self.errors.append(str(error))


def new_node(servers, enough):
    """A node more under load: errors at the clients, and its part of the enqueues from a second later on."""
    n = NODES - 1
    create_queue(servers, n, "grow")
    load = [Load(servers, proxy_of(n), "grow") for _ in range(3)]
    for thread in load:
        thread.start()
    time.sleep(2)
    start = time.monotonic()
    with servers.connect("proxy", proxy_of(n)) as conn:
        conn.execute("SET client_min_messages = error")
        conn.execute("SELECT fairq.add_node(%d, %s)" % (NODES, psycopg.sql.quote(node_connection(servers, NODES))))
    added = time.monotonic()

    def those(first, last):
        return [node for thread in load for when, node in list(thread.enqueues) if first <= when < last]

    while len(those(added + 1, time.monotonic())) < enough and time.monotonic() < added + 120:
        time.sleep(0.2)
    for thread in load:
        thread.stopping = True
    for thread in load:
        thread.join()
        thread.client.conn.close()
    later, second = those(added + 1, time.monotonic()), those(added, added + 1)
    part = later.count(NODES) / len(later)
    result = {
        "errors": sum(len(thread.errors) for thread in load), "first_error": next((e for t in load for e in t.errors), ""),
        "part": part, "of": len(later), "standard_error": (part * (1 - part) / len(later)) ** 0.5,
        "part_in_first_second": second.count(NODES) / max(1, len(second)), "of_first_second": len(second),
        "took": added - start, "enqueues": sum(len(thread.enqueues) for thread in load), "nodes": NODES,
        "load": os.getloadavg()[0],
    }
    drop_queue(servers, n, "grow")
    print("a node added in %(took).2f s: %(errors)d errors in %(enqueues)d enqueues; its part a second later"
          " %(part).3f of %(of)d" % result, flush=True)
    return result


# -- instructions -------------------------------------------------------------

class Counts:
    """Of sessions at a proxy of one node and at that node, all under callgrind."""

    def __init__(self, servers, quick):
        self.servers = servers
        # Calls counted, of one task and of a hundred: in one session so many, in another three times as many.
        self.lengths = {1: 60, 100: 8} if quick else {1: 200, 100: 20}
        self.start = {1: 10, 100: 3}    # calls before: caches, plans, the connection to the node
        self.control = servers.connect("node1", "observer")
        self.known = set()

    def backends_of_node(self):
        return {row[0] for row in self.control.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = 'postgres' AND backend_type = 'client backend'").fetchall()}

    def of_process(self, pid):
        """What it executed. It is written while the process ends."""
        path = os.path.join(self.servers.work, "counts", str(pid))
        patience = time.monotonic() + 120
        while time.monotonic() < patience:
            if not os.path.exists("/proc/%d" % pid) and os.path.exists(path):
                with open(path) as counts:
                    found = re.findall(r"^totals: (\d+)", counts.read(), re.M)
                if found:
                    return sum(int(n) for n in found)
            time.sleep(0.05)
        raise SystemExit("callgrind left no count of the session with pid %d" % pid)

    def session(self, way, make, calls):
        """Executed by a session that does this, and by the session that it has at the node."""
        place = ("proxy", proxy_of(1)) if way == "proxy" else ("node1", "postgres")
        before = self.backends_of_node()
        with self.servers.connect(*place) as conn:
            pid = conn.info.backend_pid
            call = make(conn)
            for _ in range(calls):
                call()
            new = self.backends_of_node() - before
        if len(new) != 1:
            raise SystemExit("%d new sessions at the node instead of 1" % len(new))
        node = self.of_process(new.pop())
        return (self.of_process(pid) if way == "proxy" else 0), node

    def count(self, way, make, batch):
        few = self.lengths[batch]
        totals = [self.session(way, make, self.start[batch] + calls) for calls in (few, 3 * few)]
        return [(more - less) / (2 * few) for less, more in zip(*totals)]

    def of_system(self, system, way, batch):
        """Enqueue, claim and ack, each of the tasks of the one before."""
        queue = "i_%s_%s_%d" % (system, way, batch)
        receipts = []

        def enqueue(conn):
            client = Client(conn, system, queue, prepare=way != "unnamed")
            return lambda: client.enqueue(batch)

        def claim(conn):
            client = Client(conn, system, queue, prepare=way != "unnamed")

            def one():
                got = client.claim(batch)
                if len(got) != batch:
                    raise SystemExit("a claim of %d got %d" % (batch, len(got)))
                receipts.append(got)
            return one

        def ack(conn):
            client = Client(conn, system, queue, prepare=way != "unnamed")
            return lambda: client.ack(batch, receipts.pop(0))

        if system != "skip":
            # One bucket: a claim reads ahead now and then, and not in all buckets in the same run.
            create_queue(self.servers, 1, queue, ", buckets => 1, lease => '1 day'")
        with self.servers.connect("node1") as conn:
            client = Client(conn, system, queue)
            for _ in range(6):
                client.enqueue(100)     # so that the end of the queue is not met
        rows = []
        for name, make in (("enqueue", enqueue), ("claim", claim), ("ack", ack)):
            proxy, node = self.count(way, make, batch)
            rows.append({"system": system, "call": name, "batch": batch, "way": way, "node": node, "proxy": proxy,
                         "calls": self.lengths[batch]})
            print("%-8s %-8s of %3d, %-8s: %12s at the node, %12s at the proxy"
                  % (system, name, batch, way, "{:,.0f}".format(node), "{:,.0f}".format(proxy)), flush=True)
        return rows

    def front(self):
        create_queue(self.servers, 1, "front")

        def make(conn):
            return lambda: conn.execute(FRONT, ("front",), prepare=False).fetchall()
        _, node = self.count("unnamed", make, 1)
        print("front: %s at the node" % "{:,.0f}".format(node), flush=True)
        return {"system": "pgfairq", "call": "front", "batch": 1, "way": "unnamed", "node": node, "proxy": 0,
                "calls": self.lengths[1]}


def count_instructions(servers, quick):
    counts = Counts(servers, quick)
    rows = []
    for batch in (1, 100):
        for way in ("proxy", "prepared", "unnamed"):
            rows += counts.of_system("pgfairq", way, batch)
        rows += counts.of_system("narrow", "prepared", batch)
    rows.append(counts.front())
    for batch in (1, 100):
        for way in ("proxy", "prepared"):
            rows += counts.of_system("skip", way, batch)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("step", choices=("counts", "instructions"))
    arguments = parser.parse_args()
    servers = Servers(arguments.work)
    path = os.path.join(arguments.work, "measured.json")
    quick = arguments.quick

    if arguments.step == "counts":
        setup(servers)
        with servers.connect("proxy") as conn:
            measured = {"server": conn.execute("SHOW server_version").fetchone()[0], "quick": quick,
                        "plproxy": conn.execute("SELECT default_version FROM pg_available_extensions"
                                                " WHERE name = 'plproxy'").fetchone()[0],
                        "citus": conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'citus'").fetchone()[0],
                        "loads": []}
        cycles = {"hundred": 40 if quick else 100, "single": 250 if quick else 1000, "empty": 100 if quick else 400}
        measured["work"] = [count_work(servers, system, n, kind, cycles[kind])
                            for kind in cycles for system in ("pgfairq", "skip") for n in (1, 2, 4)]
        measured["wall"] = wall_of_enqueue(servers, 150 if quick else 600)
        measured["new_node"] = new_node(servers, 3000 if quick else 12000)
        measured["dead"] = dead_node(servers, 8 if quick else 24)
    else:
        with open(path) as source:
            measured = json.load(source)
        measured["instructions"] = count_instructions(servers, quick)
    measured["loads"].append(os.getloadavg()[0])
    with open(path, "w") as target:
        json.dump(measured, target)


if __name__ == "__main__":
    main()
