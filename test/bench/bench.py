"""Measures pgfairq beside the bare statements and the SKIP LOCKED table.

Started by run.sh on a throwaway cluster. What each workload does and how the
figures are computed is told in README.md.
"""

import argparse
import os
import sys
import time

from measure import BenchError, Cluster, HeldSnapshot, pgbench
from report import Results

HERE = os.path.dirname(os.path.abspath(__file__))
NIL = "00000000-0000-0000-0000-000000000000"
GROUPS = 1000

SYSTEMS = {
    "W1": ["pgfairq", "floor", "skip"],
    "W2": ["pgfairq", "floor", "floor_arrays", "skip"],
    "W3": ["pgfairq", "pgfairq_fused", "skip", "skip_fused", "floor"],
    "W4": ["pgfairq", "skip", "floor"],
    "W5": ["ready", "overflow"],
    "W6": ["pgfairq", "skip", "floor"],
    "W7": ["pgfairq", "skip"],
}

# seconds: of one cell (W1 to W3) or of the whole series (W6).
PLANS = {
    "quick": {
        "W1": {"clients": [1, 4, 16, 64], "rounds": 3, "seconds": 2},
        "W2": {"clients": [4, 16], "rounds": 3, "seconds": 2},
        "W3": {"clients": [16], "rounds": 3, "seconds": 2},
        "W4": {"clients": [4, 16, 64], "rounds": 3, "backlog": 1000000, "drain": 300000},
        "W5": {"clients": [4], "rounds": 3, "backlog": 1000000, "drains": {1: 60000, 10: 200000, 100: 500000}},
        "W6": {"clients": [4], "seconds": 40, "without": 10, "window": 5},
        "W7": {"repeats": 100, "rounds": 5, "small": 10000, "large": 1000000, "backlog": 1000000},
    },
    "full": {
        "W1": {"clients": [1, 4, 16, 64], "rounds": 5, "seconds": 4},
        "W2": {"clients": [1, 4, 16, 64], "rounds": 5, "seconds": 4},
        "W3": {"clients": [16, 64], "rounds": 5, "seconds": 4},
        "W4": {"clients": [4, 16, 64], "rounds": 5, "backlog": 1000000, "drain": 500000},
        "W5": {"clients": [4, 16], "rounds": 5, "backlog": 1000000, "drains": {1: 100000, 10: 300000, 100: 500000}},
        "W6": {"clients": [4], "seconds": 120, "without": 30, "window": 10},
        "W7": {"repeats": 200, "rounds": 10, "small": 10000, "large": 5000000, "backlog": 1000000},
    },
}

# WAL made before the first measurement, in GB: more than lies between two checkpoints.
WAL = {"quick": 4, "full": 12}


class Bench:
    def __init__(self, cluster, results, plans, wal, only_systems):
        self.cluster, self.results, self.plans, self.wal = cluster, results, plans, wal
        self.only_systems = only_systems
        self.scripts = os.path.join(cluster.work, "scripts")
        self.queue_options = ""
        self.floor_next = 0

    def systems(self, workload):
        return [name for name in SYSTEMS[workload]
                if not self.only_systems or name in self.only_systems]

    # -- tables ------------------------------------------------------------

    def setup(self):
        progress("setup: %d GB of WAL files" % self.wal)
        self.make_wal_files()
        self.cluster.sql("CREATE EXTENSION pgfairq")
        self.find_queue_options()
        self.create_queue("bench")
        progress("setup: a million tasks for the addresses of the bare table")
        self.cluster.sql_file(os.path.join(HERE, "setup.sql"))
        self.write_scripts()
        self.recreate("pgfairq")

    def make_wal_files(self):
        """Writing to a new WAL file is slower than to a recycled one; make what will be needed."""
        segments = self.wal * 1024 // self.cluster.number(
            "SELECT setting::bigint / 1048576 FROM pg_catalog.pg_settings WHERE name = 'wal_segment_size'")
        self.cluster.sql(
            "ALTER SYSTEM SET min_wal_size = '%dGB'" % (self.wal + 1), "SELECT pg_reload_conf()",
            "SET wal_init_zero = off",
            "DO $$ BEGIN FOR i IN 1 .. %d LOOP PERFORM pg_logical_emit_message(false, '', '');"
            " PERFORM pg_switch_wal(); END LOOP; END $$" % segments,
            "CHECKPOINT")

    def find_queue_options(self):
        """Backlogs here are above the default limits, in versions that have limits."""
        options = ", max_ready => 100000000, max_ready_per_group => 100000000"
        try:
            self.cluster.sql("SELECT fairq.create_queue('probe'%s)" % options)
        except BenchError:
            return
        self.cluster.sql("SELECT fairq.drop_queue('probe')")
        self.queue_options = options

    def create_queue(self, queue):
        self.cluster.sql("SELECT fairq.create_queue('%s'%s)" % (queue, self.queue_options))

    def write_scripts(self):
        """Gives the bare table's inserts the values a task's row has."""
        columns = self.cluster.sql(
            "SELECT quote_ident(attname), format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute"
            " WHERE attrelid = 'fairq.q_bench'::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attgenerated = '' AND attname NOT IN ('id', 'address', 'group_key', 'payload') ORDER BY attnum")
        names, values = "", ""
        for column, kind in columns:
            literal = self.cluster.value("SELECT pg_catalog.quote_nullable(%s::text) FROM fairq.q_bench LIMIT 1" % column)
            names += ", " + column
            values += ", now()" if column == "enqueued_at" else ", %s::%s" % (literal, kind)
        self.bare_columns, self.bare_values = names, values
        os.mkdir(self.scripts)
        for script in os.listdir(os.path.join(HERE, "scripts")):
            with open(os.path.join(HERE, "scripts", script)) as source:
                text = source.read().replace("@COLUMNS@", names).replace("@VALUES@", values)
            with open(os.path.join(self.scripts, script), "w") as target:
                target.write(text)

    @staticmethod
    def table(system):
        return {"skip": "bench.skip", "floor": "bench.floor"}.get(system.split("_")[0], "fairq.q_bench")

    def depth(self, system):
        return self.cluster.number("SELECT count(*) FROM " + self.table(system))

    def recreate(self, system):
        """An empty table, and a checkpoint behind it."""
        if system.startswith("pgfairq"):
            self.cluster.sql("SELECT fairq.drop_queue('bench')")
            self.create_queue("bench")
        else:
            self.cluster.sql("TRUNCATE " + self.table(system))
        self.floor_next = 0
        self.cluster.sql("CHECKPOINT")

    def fill(self, system, count):
        if system.startswith("pgfairq"):
            self.cluster.sql("CALL bench.fill_pgfairq('bench', %d, %d)" % (count, GROUPS))
        elif system.startswith("skip"):
            self.cluster.sql("CALL bench.fill_skip('skip', %d, %d)" % (count, GROUPS))
        else:
            top = self.cluster.number("SELECT coalesce(max(id) + 1, 0) FROM bench.floor")
            for first in range(0, count, 100000):
                self.cluster.sql(
                    "INSERT INTO bench.floor (id, address, group_key, payload%s)"
                    " SELECT %d + i, s.address, s.group_key, bench.payload()%s FROM generate_series(%d, %d) i"
                    " JOIN bench.source s ON s.n = i %% 1000000"
                    % (self.bare_columns, top, self.bare_values, first, min(first + 100000, count) - 1))

    # -- one measurement ---------------------------------------------------

    def cell(self, workload, system, clients, round_number, tasks, changes, variables=None, short=False, **options):
        """Runs one script and checks that the table changed by what was counted (short: by no more)."""
        before = self.depth(system)
        values = {"n": 0, "clients": clients, "base": 0}
        values.update(variables or {})
        script = os.path.join(self.scripts, "w5.sql" if workload == "W5" else "%s_%s.sql" % (workload.lower(), system))
        run = pgbench(self.cluster, script, clients, variables=values,
                      generic=(workload == "W1" and system == "floor"), **options)
        expected = run["transactions"] * tasks
        after = self.depth(system)
        # A cycle enqueues as many as it should finish: what the table grew by was not finished.
        done = abs(after - before) if changes else expected - (after - before)
        # 2 %: a fused call holds its last task when it ends.
        if changes and not (1 if short else 0.98 * expected) <= done <= 1.02 * expected:
            raise BenchError("%s %s, %d clients: %d transactions should be %d tasks, the table says %d"
                             % (workload, system, clients, run["transactions"], expected, done))
        run["tasks"] = done
        run["tasks_per_s"] = run["rate"] * tasks * done / expected
        self.results.add(workload, system, clients, round_number, run)
        progress("%s  %2d clients  round %d  %-14s %10.0f tasks/s" %
                 (workload, clients, round_number, system, run["tasks_per_s"]))
        return run

    def rounds(self, workload):
        """Every system once a round, each round beginning with another one."""
        plan, systems = self.plans[workload], self.systems(workload)
        for round_number in range(1, plan["rounds"] + 1):
            for clients in plan["clients"]:
                first = (round_number - 1) % len(systems)
                for system in systems[first:] + systems[:first]:
                    yield round_number, clients, system

    # -- workloads ---------------------------------------------------------

    def enqueue(self, workload, tasks):
        seconds = self.plans[workload]["seconds"]
        for round_number, clients, system in self.rounds(workload):
            self.recreate(system)
            self.cell(workload, system, clients, round_number, tasks, True, seconds=seconds, warmup=1)
        for system in self.systems(workload):
            self.results.note_row_width(self.cluster, system, self.table(system))
        for system in self.systems(workload):
            self.recreate(system)

    def w1(self):
        self.enqueue("W1", 1)

    def w2(self):
        self.enqueue("W2", 100)

    def w3(self):
        seconds = self.plans["W3"]["seconds"]
        for round_number, clients, system in self.rounds("W3"):
            self.recreate(system)
            self.fill(system, 75000 * (seconds + 1))
            self.cluster.sql("VACUUM ANALYZE " + self.table(system))
            self.cell("W3", system, clients, round_number, 1, True, {"receipt": NIL, "id": -1},
                      seconds=seconds, warmup=1)
        for system in self.systems("W3"):
            self.recreate(system)

    def w4(self):
        plan = self.plans["W4"]
        for system in self.systems("W4"):
            self.recreate(system)
        for round_number, clients, system in self.rounds("W4"):
            # no checkpoint here: it would make the first change of each page dear
            self.fill(system, plan["backlog"] - self.depth(system))
            self.cluster.sql("VACUUM ANALYZE " + self.table(system))
            base = self.cluster.number("SELECT min(id) FROM " + self.table(system))
            self.cell("W4", system, clients, round_number, 100, True, {"base": base},
                      transactions=plan["drain"] // 100)
        for system in self.systems("W4"):
            self.recreate(system)

    def w5(self):
        """One group's backlog, all of it ready or most of it in the overflow; and another group with ten tasks."""
        plan = self.plans["W5"]
        for round_number, clients, system in self.rounds("W5"):
            self.recreate("pgfairq")
            if system == "overflow":
                self.cluster.sql("SELECT fairq.alter_queue('bench', max_ready_per_group => 10000)")
            self.cluster.sql("CALL bench.fill_pgfairq('bench', %d, 1)" % plan["backlog"],
                             "SELECT fairq.enqueue_many('bench', bench.payloads(10), '{alice}')",
                             "VACUUM ANALYZE fairq.q_bench", "CHECKPOINT")
            for batch, tasks in plan["drains"].items():
                # A claim returns what is ready, which may be less than it asked for.
                self.cell("W5", "%s_%d" % (system, batch), clients, round_number, batch, True, {"n": batch},
                          short=True, transactions=tasks // batch)
        self.recreate("pgfairq")

    def w6(self):
        plan = self.plans["W6"]
        clients = plan["clients"][0]
        self.cluster.sql("ALTER SYSTEM SET autovacuum = on", "SELECT pg_reload_conf()")
        for system in self.systems("W6"):
            self.recreate(system)
            self.fill(system, 10000)
            self.cluster.sql("VACUUM ANALYZE " + self.table(system))
            base = 1000000000
            without = self.cell("W6", system, clients, 0, 100, False, {"base": base},
                                seconds=plan["without"], warmup=1)
            with HeldSnapshot(self.cluster) as snapshot:
                run = self.cell("W6", system, clients, 1, 100, False, {"base": 2 * base},
                                seconds=plan["seconds"] + 1, interval=plan["window"])
                snapshot.check()
                size = self.cluster.number("SELECT pg_total_relation_size('%s')" % self.table(system))
            left = self.depth(system) - 10000
            share = run["tasks_per_s"] / run["rate"]
            windows = [(each.tps * share, each.session_cpu * 1e6 / max(1, each.tps * share * plan["window"]))
                       for each in run["intervals"]][:plan["seconds"] // plan["window"]]
            self.results.add_series(system, clients, plan["window"], windows, without["tasks_per_s"], size, left)
            self.recreate(system)
        self.cluster.sql("ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")

    def w7(self):
        plan = self.plans["W7"]
        subjects = [("backlog_%d" % plan["small"], plan["small"], GROUPS),
                    ("backlog_%d" % plan["large"], plan["large"], GROUPS),
                    ("groups_10000", plan["backlog"], 10000),
                    ("groups_100000", plan["backlog"], 100000)]
        for system in self.systems("W7"):
            # the classic table knows no groups
            mine = subjects if system == "pgfairq" else subjects[:2]
            for name, backlog, groups in mine:
                progress("W7  %s: fill %s with %d tasks" % (system, name, backlog))
                if system == "pgfairq":
                    self.create_queue(name)
                    self.cluster.sql("CALL bench.fill_pgfairq('%s', %d, %d)" % (name, backlog, groups))
                    self.cluster.sql('VACUUM ANALYZE fairq."q_%s"' % name)
                else:
                    self.cluster.sql("CALL bench.create_skip('%s')" % name,
                                     "CALL bench.create_measure_skip('%s')" % name)
                    self.cluster.sql("CALL bench.fill_skip('%s', %d, %d)" % (name, backlog, groups))
                    self.cluster.sql("VACUUM ANALYZE bench." + name)
            self.cluster.sql("CHECKPOINT")
            for _ in range(plan["rounds"]):
                for name, _backlog, groups in mine:
                    repeats = plan["repeats"] // plan["rounds"]
                    if system == "pgfairq":
                        self.cluster.sql("CALL bench.measure_pgfairq('%s', %d, %d)" % (name, repeats, groups))
                    else:
                        self.cluster.sql("CALL bench.measure_%s(%d, %d)" % (name, repeats, groups))
            for name, _backlog, _groups in mine:
                median, p95, measured, claimed = self.cluster.sql(
                    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY microseconds),"
                    " percentile_cont(0.95) WITHIN GROUP (ORDER BY microseconds), count(*), min(claimed)"
                    " FROM bench.claim_cost WHERE system = '%s' AND subject = '%s'" % (system, name))[0]
                if int(claimed) != 100:
                    raise BenchError("W7 %s %s: a claim of 100 got %s" % (system, name, claimed))
                self.results.add_cost(system, name, float(median), float(p95), int(measured))
                progress("W7  %s  %-16s median %8.0f us" % (system, name, float(median)))
            for name, _backlog, _groups in mine:
                self.cluster.sql("SELECT fairq.drop_queue('%s')" % name if system == "pgfairq"
                                 else "DROP TABLE bench." + name)


STARTED = time.monotonic()


def progress(text):
    seconds = int(time.monotonic() - STARTED)
    print("[%3d:%02d] %s" % (seconds // 60, seconds % 60, text), flush=True)


def override(plans):
    """BENCH_CLIENTS, BENCH_ROUNDS and BENCH_SECONDS change every workload that has the like."""
    for plan in plans.values():
        if os.environ.get("BENCH_CLIENTS") and "clients" in plan:
            plan["clients"] = [int(count) for count in os.environ["BENCH_CLIENTS"].replace(",", " ").split()]
        if os.environ.get("BENCH_ROUNDS") and "rounds" in plan:
            plan["rounds"] = int(os.environ["BENCH_ROUNDS"])
        if os.environ.get("BENCH_SECONDS") and "seconds" in plan:
            plan["seconds"] = max(2, int(os.environ["BENCH_SECONDS"]))
        if "window" in plan:
            plan["window"] = min(plan["window"], plan["seconds"] // 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=sorted(PLANS), required=True)
    for name in ("--bindir", "--data", "--work", "--results"):
        parser.add_argument(name, required=True)
    parser.add_argument("workloads", nargs="*")
    arguments = parser.parse_args()
    plans = PLANS[arguments.mode]
    override(plans)
    workloads = arguments.workloads or sorted(SYSTEMS)
    unknown = [name for name in workloads if name not in SYSTEMS]
    if unknown:
        sys.exit("bench: no workload %s; there are %s" % (unknown[0], " ".join(sorted(SYSTEMS))))
    only_systems = os.environ.get("BENCH_SYSTEMS", "").replace(",", " ").split()
    known = {system for systems in SYSTEMS.values() for system in systems}
    for system in only_systems:
        if system not in known:
            sys.exit("bench: no system %s; there are %s" % (system, " ".join(sorted(known))))

    cluster = Cluster(arguments.bindir, arguments.data, arguments.work)
    results = Results(arguments.mode, cluster, plans)
    bench = Bench(cluster, results, plans, WAL[arguments.mode], only_systems)
    name = arguments.mode + ("-" + "-".join(workloads) if arguments.workloads else "")
    try:
        bench.setup()
        for workload in workloads:
            getattr(bench, workload.lower())()
    except KeyboardInterrupt:
        sys.exit(130)
    except BenchError as error:
        if results.any():
            results.write(arguments.results, name + "-incomplete")
        sys.exit("bench: %s" % error)
    text, path = results.write(arguments.results, name)
    print("\n" + text)
    progress("written to %s.md and .csv" % path)


if __name__ == "__main__":
    main()
