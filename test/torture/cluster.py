"""Faults of a cluster under load, and a checker: every task whose enqueue was answered is
done once.

Producers enqueue through the proxies.  The tasks of queue "local" are done by workers at
the nodes, which write the result there in the transaction that acknowledges the task.
Those of queue "inbox" are done by workers through the proxies: the result is written to
another server, keyed by the task's id, and then the task is acknowledged.  One claim in a
hundred is forgotten.  What is compared at the end is what producers were told, and workers at
the nodes, with the results.

Started by test/scripts/torture-cluster.sh and by test/t/cluster_checker.pl."""

import bisect
import contextlib
import multiprocessing
import os
import sys
import time

import psycopg
from psycopg.types.json import Jsonb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "load"))
import cluster_faults  # noqa: E402,F401  pylint: disable=unused-import
import driver  # noqa: E402
import judge  # noqa: E402
from clients import Connected, Rollback, Task, connect_patiently  # noqa: E402
from faults import FAULTS  # noqa: E402
from journal import now  # noqa: E402
from servers import Place, Trouble  # noqa: E402

LEASE = "2 s"
LONG = 20           # work that stands still so long is reported, with what waits for what
BACKLOG = 500       # tasks that are enqueued and not done, about
TABLES = judge.TABLES + "CREATE UNIQUE INDEX keyed ON results (task);"


class Client(Connected):
    """A producer, a worker through the proxies, or a worker of node n, of kind node<n>."""

    prefix = "cluster"
    results = None          # a connection to where they are written once

    def step(self):
        return {"producer": self.produce, "proxy": self.work_by_proxy}.get(self.kind, self.work_at_node)

    def is_expected(self, error):
        # The node is not added yet, and has no queue.
        return isinstance(error, psycopg.OperationalError) or self.at_node() and isinstance(error, psycopg.errors.UndefinedObject)

    def at_node(self):
        return self.kind.startswith("node")

    def stays(self, _):
        return not self.at_node()

    def recover(self, sqlstate):
        time.sleep(0.05)
        super().recover(sqlstate)

    def conninfo(self):
        if self.at_node():
            return self.options.nodes_conninfo[self.kind]
        ports = list(self.options.proxy_ports)
        if not self.shared.lagging.value:
            self.random.shuffle(ports)
        elif self.kind == "producer":
            ports.reverse()         # who produces has an old list,
        else:
            ports = ports[:1]       # who works does not go where it has put tasks
        return "host=%s port=%s dbname=app user=postgres" % (
            ",".join([self.options.sockets] * len(ports)), ",".join(map(str, ports)))

    def move_on(self):
        """The next call goes to any proxy."""
        if self.chance(0.01):
            self.conn.close()
            self.connect()

    def call(self, query, *params):
        """At a proxy.  When it was sent, and what came."""
        sent = now()
        try:
            return sent, self.rows(query, *params)
        except psycopg.OperationalError:
            if not self.at_node():
                self.journal.write("C", sent, now(), None, [])
            raise

    def remembers(self):
        """One claim in a hundred is forgotten."""
        if self.chance(0.01):
            self.journal.write("N", "forgotten")
            return False
        return True

    def produce(self):
        if sum(self.shared.made) - sum(self.shared.acked) + self.shared.surplus.value > BACKLOG:
            time.sleep(0.02)
            return
        names = self.names(self.random.choice((1, 1, 1, 5, 250)))
        queue, groups = self.random.choice(self.options.queues), ["group %d" % self.random.randrange(8) for _ in names]
        self.x += 1
        outcome = "u"
        self.journal.write("I", self.x, now(), "enqueue", names)
        try:
            if self.options.plant == "unanswered" and self.x % 10 == 1:
                outcome = "c"
                raise psycopg.OperationalError("as if no proxy were there")
            if len(names) == 1:
                sent, ids = self.call("SELECT fairq.enqueue(%s, %s, %s)", queue, Jsonb({"n": names[0]}), groups[0])
            else:
                sent, ids = self.call("SELECT unnest(fairq.enqueue_many(%s, %s, %s))", queue, [Jsonb({"n": name}) for name in names], groups)
            outcome = "c"
            tasks = [(name, task) for name, (task,) in zip(names, ids)]
            for node in {task >> 48 for _, task in tasks}:
                self.journal.write("C", sent, now(), node, [(name, task) for name, task in tasks if task >> 48 == node])
            self.shared.made[self.number] += len(names)
        except psycopg.OperationalError as error:
            # Of a batch some may be there, whatever is said of the rest.
            if len(names) == 1 and "Nothing was done" in str(error.diag.message_hint):
                outcome = "r"
            raise
        finally:
            self.journal.write("O", self.x, now(), outcome, [])
        self.move_on()
        time.sleep(0.01 * len(names) ** 0.5)

    def claim(self, queue, wait):
        """[Task], at a proxy or a node."""
        sent, rows = self.call("SELECT id, receipt::text, payload->>'n' FROM fairq.claim(%s, %s, lease => %s, wait => %s)",
                               queue, self.random.choice((1, 10, 50)), LEASE, wait)
        tasks = [Task(queue, name, receipt, asked=sent, task=task) for task, receipt, name in rows]
        if not self.at_node():
            self.journal.write("C", sent, now(), tasks[0].task >> 48 if tasks else None, [])
        return [task for task in tasks if self.remembers()]

    def work_at_node(self):
        """Result and acknowledgement in one transaction."""
        for task in self.claim("local", "0.2 s"):
            if self.options.plant == "ack-first":
                self.acknowledge_first(task)
                continue

            def body(acked, task=task):
                self.result(task, acked=acked)
                if not self.one("SELECT fairq.ack(%s)", task.receipt):
                    raise Rollback()
            self.transaction("settle", [task.receipt], body)

    def acknowledge_first(self, task):
        # Whose lease has run out meanwhile leaves the task to the next one.
        if self.one("SELECT fairq.ack(%s)", task.receipt):
            self.shared.acked[self.number] += 1
            if self.shared.acked[self.number] % 20 == 9:
                raise psycopg.OperationalError("as if killed")
            self.result(task, acked=[])

    def work_by_proxy(self):
        """The result where it is written once, and then the acknowledgement."""
        self.results = self.results or connect_patiently(self.options.results)
        tasks = self.claim("inbox", "0.5 s")
        if not tasks:
            return
        with self.results.transaction():
            self.results.cursor().executemany("INSERT INTO results VALUES (%s, %s, %s, %s, 0, %s) ON CONFLICT DO NOTHING", [
                (task.queue, task.ident, task.receipt, self.tag, task.task) for task in tasks])
        self.shared.acked[self.number] += len(tasks)
        self.call("SELECT count(*) FROM fairq.ack_many(%s::uuid[])", [task.receipt for task in tasks])
        self.move_on()


class Cluster(driver.Driver):
    client = Client
    patience = 120
    columns = ("others: longest time without a call", "longest call")
    queues = ("local", "inbox")

    def __init__(self, options):
        self.faults = options.faults.split()
        self.spare = options.nodes + 1
        spare = any(FAULTS[name].needs == "spare" for name in self.faults)
        self.numbers = range(1, options.nodes + spare + 1)
        super().__init__(options, ["producer", "producer", "proxy", "proxy", *("node%d" % number for number in self.numbers)])
        options.queues = self.queues
        self.shared.lagging = multiprocessing.RawValue("i", 0)  # the proxy's standby is
        self.shared.surplus = multiprocessing.RawValue("q", 0)  # results of tasks that came again, less what is gone
        self.shared.made = multiprocessing.RawArray("q", len(options.kinds))
        self.means = {"network": (options.network, "needs root, nft, and a network namespace"), "clock": (options.clock, "needs clock.c, compiled"),
                      "old_bindir": (options.old_bindir, "needs a server with an earlier version")}
        self.place = Place(options.work, options.bindir, options.network, options.clock, options.old_bindir)
        self.nodes = {}         # number -> Pair
        self.restored = []      # (node, from, until): it does not know what it was given between
        self.sick = set()       # those that the fault is about
        self.made = []          # (fault, begin, end, nodes that it was about)
        self.calls = []

    def begin(self):
        self.results = self.place.pair("results", "shared_preload_libraries = ''\n").primary
        self.results.execute(TABLES)
        self.proxy = self.place.proxy()
        for number in self.numbers:
            self.new_node(number)
            if number != self.spare:
                self.add(number)
        self.proxy.attach(synchronous=False)
        for queue in self.queues:
            self.proxy.primary.execute(f"SELECT fairq.create_queue('{queue}', max_attempts => 0)")
        self.options.sockets = self.place.sockets
        self.options.proxy_ports = [server.port for server in self.proxy.both()]
        self.options.nodes_conninfo = {f"node{number}": node.conninfo() + " user=postgres" for number, node in self.nodes.items()}
        self.options.results = self.results.conninfo()
        self.crew.begin()
        self.goes_on(5)

    def new_node(self, number):
        node = self.nodes[number] = self.place.node(number, standby=number <= self.options.standbys)
        # No key: what is there twice is to be seen.
        node.primary.execute(judge.TABLES)
        if self.options.plant == "unmarked":
            node.primary.execute(
                "CREATE OR REPLACE FUNCTION fairq_internal.set_membership(membership text) RETURNS void LANGUAGE sql AS ''")
        if node.standby:
            node.attach()

    def add(self, number):
        self.proxy.primary.execute(f"SELECT fairq.add_node({number}, $${self.nodes[number].conninfo()}$$)")

    def listed(self):
        return [number for number, in self.proxy.primary.execute("SELECT node FROM fairq.node WHERE state = 'active' ORDER BY 1")]

    def a_node(self, standby=False):
        number = self.random.choice([number for number in self.listed() if self.nodes[number].standby or not standby])
        self.sick.add(number)
        return self.nodes[number]

    def wait_up(self):
        """Those who call see to that."""

    # -- the run ------------------------------------------------------------

    def goes_on(self, number=5):
        try:
            super().goes_on(number, LONG)
        except Trouble:
            with contextlib.suppress(psycopg.OperationalError):
                self.say_what_waits()
            super().goes_on(number)

    def later(self, fault, undo):
        try:
            time.sleep(self.random.uniform(min(3, self.options.longest), self.options.longest))
        finally:
            undo()

    def run(self):
        deadline = now() + self.options.seconds
        faults = list(self.possible(self.faults))
        for turn in range(self.options.rounds):
            for name in faults:
                if now() > deadline:
                    return
                self.sick = set()
                begin = now()
                self.harm(name)
                self.made.append((name, begin, now(), self.sick))
            if turn % 10 == 9:
                print(f"{turn + 1} rounds, {sum(self.shared.made)} tasks enqueued", flush=True)

    def more_of(self, name):
        """Meanwhile: the longest time between two calls that others completed, and the longest call."""
        if not self.calls:
            self.calls = sorted((answered, sent, node) for log in judge.read_logs(self.options.journals) for sent, answered, node, _ in log.calls)
        held_up = [0, 0]
        for fault, begin, end, sick in self.made:
            if fault == name:
                calls = self.calls[bisect.bisect(self.calls, (begin,)):bisect.bisect(self.calls, (end,))]
                times = [begin, *(answered for answered, _, node in calls if node is not None and node not in sick), end]
                held_up[0] = max(held_up[0], *(b - a for a, b in zip(times, times[1:])))
                held_up[1] = max(held_up[1], *(answered - sent for answered, sent, _ in calls if sent > begin), 0)
        return held_up

    def with_queues(self):
        return ((number, node.primary) for number, node in self.nodes.items()
                if node.primary.execute("SELECT to_regclass('fairq.q_inbox') IS NOT NULL")[0][0])

    def say_what_waits(self):
        for number, server in self.with_queues():
            for queue in self.queues:
                states = server.execute(
                    "SELECT state, to_jsonb(t)->>'lost', count(*), min(run_at) - clock_timestamp(), max(run_at) - clock_timestamp()"
                    f" FROM fairq.tasks('{queue}') t GROUP BY 1, 2 ORDER BY 1, 2")
                print(f"node {number}, {queue}: " + ("; ".join(f"{n} {state}, lost {lost} times, due in {first} to {last}"
                                                               for state, lost, n, first, last in states) or "nothing"), flush=True)

    def waiting(self):
        """Tasks that are there."""
        return sum(server.execute("SELECT (SELECT count(*) FROM fairq.q_local) + (SELECT count(*) FROM fairq.q_inbox)")[0][0]
                   for _, server in self.with_queues())

    def count(self):
        """Tasks that are open are those that are there now."""
        self.shared.surplus.value = self.waiting() - (sum(self.shared.made) - self.crew.acked())

    # -- the end --------------------------------------------------------------

    def finish(self):
        """All that is there is done, and the clients end.  What is left is stuck."""
        # What was put off by a clock that was ahead is due then, too.
        furthest = max(server.clock.furthest for pair in self.place.pairs for server in pair.both())
        for node in self.nodes.values():
            node.primary.clock.set(furthest)
        self.drained(lambda: self.waiting() == 0, self.patience)
        found = self.judged_by_names()
        found.stuck += ["a task at the nodes"] * self.waiting()
        return found

    def judged_by_names(self):
        """What producers were told, and whatever else is done: its producer was not told."""
        logs = judge.read_logs(self.options.journals)
        told = {name: (sent, answered, task >> 48) for log in logs for sent, answered, _, tasks in log.calls for name, task in tasks}
        done = [row for pair in self.place.pairs if pair is not self.proxy
                for row in pair.primary.execute("SELECT ident, receipt::text, task FROM results")]
        seen = {name for name, _, _ in done}
        gone = {name for name, (sent, answered, node) in told.items() if name not in seen and any(
            node == restored and sent <= end and answered >= begin for restored, begin, end in self.restored)}
        known, unknown = set(), set()
        for log in logs:
            log.produced = [name for name in log.produced if name not in gone]
            known.update(log.produced)
            unknown.update(log.in_doubt)
            # What it had acknowledged may be gone, too, and is done again.
            if any(log.client.startswith("node%d." % node) for node, _, _ in self.restored):
                log.acked = []
        with self.results.connect() as conn:
            conn.execute("TRUNCATE results; DROP INDEX keyed")
            for rows, values in (("produced (queue, ident, n)", [("", name, name) for name in known | unknown & seen]),
                                 ("results (queue, ident, receipt, task)", [("", *row) for row in done])):
                with conn.cursor().copy(f"COPY {rows} FROM STDIN") as copy:
                    for row in values:
                        copy.write_row(row)
            for log in logs:
                log.acked = [("", name, receipt) for _, name, receipt in log.acked]
            found = judge.check(conn, logs, self.journal_path, names=False)
        found.counts.update({"gone with a node that was restored, as is documented": len(gone), "of which the producer was not told": len(unknown),
                             "of these done": len(unknown & seen), "claims forgotten": judge.actions(logs)["forgotten"],
                             "calls lost": sum(node is None for log in logs for _, _, node, _ in log.calls)})
        return found

    def close(self):
        self.place.end()


def main():
    parser = driver.arguments(plants=("ack-first", "unanswered", "unmarked"))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--standbys", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--faults", default=" ".join(name for name in FAULTS if name != "upgrade"))
    parser.add_argument("--longest", type=float, default=10, help="seconds that a node is sick")
    parser.add_argument("--network", action="store_true", help="there is a network namespace for this alone, and the right to change it")
    parser.add_argument("--old-bindir", help="of a server with an earlier version of pgfairq, with which all begin")
    parser.set_defaults(seed="1")
    return Cluster(parser.parse_args()).main()


if __name__ == "__main__":
    sys.exit(main())
