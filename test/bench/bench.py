"""Measures pgfairq beside its peers.

Started by run.sh on a throwaway cluster. What each workload does, how the
figures are computed, and how to add a system or a workload: README.md.
"""

import argparse
import importlib
import os
import signal
import sys
import time
import traceback

import plots as pictures
import system as systems
from measure import BenchError, Cluster, build_client
from report import Results

HERE = os.path.dirname(os.path.abspath(__file__))

# WAL made before the first measurement, in GB: more than lies between two checkpoints. (In five minutes of W6 it is 20 and more.)
WAL = {"quick": 3, "full": 12, "long": 26}


class Bench:
    """What a workload is given: the cluster, the systems, where its figures go."""

    def __init__(self, mode, cluster, results, only, pg_config):
        self.mode, self.cluster, self.results, self.only, self.pg_config = mode, cluster, results, only, pg_config
        self.all = []
        self.client = None
        self.failed = set()
        self.ends = None

    # -- systems -------------------------------------------------------------

    def setup(self):
        progress("setup: %d GB of WAL files" % WAL[self.mode])
        self.make_wal_files()
        self.cluster.sql("CREATE SCHEMA bench")
        for name in systems.names():
            # What all share is made with the queue; it is set up in any case.
            if name != "pgfairq" and self.only and name not in self.only:
                continue
            one = systems.load(name, self)
            reason = one.missing()
            if not reason:
                progress("setup: %s" % name)
                try:
                    self.all.append(one)
                    one.setup()
                    if name == "pgfairq":
                        progress("setup: a million tasks, whose groups and addresses all systems are given")
                        self.cluster.sql_file(os.path.join(HERE, "setup.sql"))
                except BenchError as error:
                    if name == "pgfairq":
                        raise
                    reason = str(error)
            if reason:
                progress("%s is left out: %s" % (name, reason))
                self.results.left_out.append((name, "all", reason))
                self.all = [other for other in self.all if other is not one]
                one.close()
                continue
            self.results.add_system(one, one.version())
        self.system("pgfairq").empty()
        if self.only and "pgfairq" not in self.only:
            self.all = [one for one in self.all if one.name != "pgfairq"]

    def make_wal_files(self):
        """Writing to a new WAL file is slower than to a recycled one; make what will be needed."""
        segments = WAL[self.mode] * 1024 // self.cluster.number(
            "SELECT setting::bigint / 1048576 FROM pg_catalog.pg_settings WHERE name = 'wal_segment_size'")
        self.cluster.sql(
            "ALTER SYSTEM SET min_wal_size = '%dGB'" % (WAL[self.mode] + 1),
            # The server makes a checkpoint after a good half of it.
            "ALTER SYSTEM SET max_wal_size = '%dGB'" % max(24, 5 * WAL[self.mode] // 2), "SELECT pg_reload_conf()",
            "SET wal_init_zero = off",
            "DO $$ BEGIN FOR i IN 1 .. %d LOOP PERFORM pg_logical_emit_message(false, '', '');"
            " PERFORM pg_switch_wal(); END LOOP; END $$" % segments,
            "CHECKPOINT")

    def close(self):
        for one in self.all:
            try:
                one.close()
            except (BenchError, OSError) as error:
                progress("%s: %s" % (one.name, error))
        self.all = []

    def system(self, name):
        """The system of that name, or None when it is not there."""
        return next((one for one in self.all if one.name == name), None)

    def systems(self, *steps, postgres=False):
        """Those that have a script for each of these steps (and, asked for, whose tasks are rows of the cluster)."""
        return [one for one in self.all
                if all(one.has(step) for step in steps) and (one.postgres or not postgres)]

    def entries(self, step):
        """Those systems, and after each its other forms of the step."""
        for one in self.systems(step):
            yield systems.Entry(one, step)
            for variant in one.variants(step):
                yield systems.Entry(one, step, variant)

    def binary_client(self):
        """The path of the program of binary.c; where it cannot be built it is empty, and the report says why."""
        if self.client is None:
            try:
                self.client = build_client(self.pg_config, self.cluster.work)
            except BenchError as error:
                progress("the binary format is left out: %s" % error)
                self.results.left_out.append(("the binary format", "all", str(error)))
                self.client = ""
        return self.client

    # -- measuring -----------------------------------------------------------

    progress = staticmethod(lambda text: progress(text))

    def fail(self, workload, label, error):
        """Says so, in the report too, and measures it no more in this workload."""
        progress("%s  %s FAILED: %s" % (workload, label, error))
        self.failed.add((workload, label))
        self.results.left_out.append((label, workload, str(error)))

    def has_failed(self, workload, label):
        return (workload, label) in self.failed

    def rounds(self, workload, plan, entries):
        """(round, clients, entry): every entry once a round, each round beginning with another one.

        Entries that are not core take part in the first plan["peer_rounds"]
        rounds, and with the numbers of clients plan["peer_clients"]; those in
        plan["also"] in all rounds with the numbers of clients given there. When
        plan["budget"] seconds are over those that have been measured are left
        out, and the core entries when half as many more are over.
        """
        entries = list(entries)
        start = time.monotonic()
        budget = plan.get("budget", 3600)
        told, measured = False, set()
        for round_number in range(1, plan["rounds"] + 1):
            for clients in plan["clients"]:
                first = (round_number - 1) % max(1, len(entries))
                for entry in entries[first:] + entries[:first]:
                    if self.has_failed(workload, entry.label):
                        continue
                    always = entry.core or clients in plan.get("also", {}).get(entry.label, ())
                    if not always and (round_number > plan.get("peer_rounds", plan["rounds"])
                                           or clients not in plan.get("peer_clients", plan["clients"])):
                        continue
                    late = time.monotonic() - start
                    if late > budget * (1.5 if always else 1) and entry.label in measured:
                        if not told:
                            progress("%s  %d seconds are over; what is left is left out" % (workload, budget))
                            self.results.remarks.append(
                                "%s: its time was over in round %d of %d." % (workload, round_number, plan["rounds"]))
                        told = True
                        continue
                    measured.add(entry.label)
                    yield round_number, clients, entry

    def cell(self, workload, entry, clients, round_number, tasks, changes=True, short=False, label=None, **options):
        """Runs one script and checks that as many tasks came or went as were counted.

        tasks: of one transaction. changes: false for a cycle, which enqueues as
        many as it should finish. short: a claim may return fewer than asked for.
        """
        one = entry.system
        label = label or entry.label
        before = one.depth()
        run = one.run(entry.step, entry.variant, clients, tasks, **options)
        expected = run["transactions"] * tasks
        after = one.depth()
        # What the table grew by in a cycle was not finished.
        done = abs(after - before) if changes else expected - (after - before)
        # 2 %: a fused call holds its last task when it ends.
        if changes and not (1 if short else 0.98 * expected) <= done <= 1.02 * expected:
            raise BenchError("%d clients: %d transactions should be %d tasks, the table says %d"
                             % (clients, run["transactions"], expected, done))
        if done < 1:
            raise BenchError("%d clients: nothing was done" % clients)
        run["tasks"] = done
        run["tasks_per_s"] = run["rate"] * tasks * done / expected
        self.results.add(workload, label, clients, round_number, run)
        progress("%s  %2d clients  round %d  %-14s %10.0f tasks/s" %
                 (workload, clients, round_number, label, run["tasks_per_s"]))
        return run

    def checkpoint(self):
        self.cluster.sql("CHECKPOINT")


STARTED = time.monotonic()


def progress(text):
    seconds = int(time.monotonic() - STARTED)
    print("[%3d:%02d] %s" % (seconds // 60, seconds % 60, text), flush=True)


def workload_names():
    return sorted(name[:-3] for name in os.listdir(os.path.join(HERE, "workloads")) if name.endswith(".py"))


def order(name):
    """W1 before W2 before W10, and what has no number at the end."""
    return (0, int(name[1:]), name) if name[1:].isdigit() else (1, 0, name)


def override(plan):
    """BENCH_CLIENTS, BENCH_ROUNDS and BENCH_SECONDS change every workload that has the like."""
    if os.environ.get("BENCH_CLIENTS") and "clients" in plan:
        plan["clients"] = [int(count) for count in os.environ["BENCH_CLIENTS"].replace(",", " ").split()]
        plan.pop("peer_clients", None)
    if os.environ.get("BENCH_ROUNDS") and "rounds" in plan:
        plan["rounds"] = int(os.environ["BENCH_ROUNDS"])
        plan.pop("peer_rounds", None)
    if os.environ.get("BENCH_SECONDS") and "seconds" in plan:
        plan["seconds"] = max(2, int(os.environ["BENCH_SECONDS"]))
        for key in [key for key in plan if key.endswith("_seconds")]:
            plan.pop(key)
    if any(os.environ.get("BENCH_" + name) for name in ("CLIENTS", "ROUNDS", "SECONDS")):
        plan.pop("budget", None)
    if "window" in plan and "seconds" in plan:
        plan["window"] = min(plan["window"], plan["seconds"] // 2)


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=sorted(WAL), required=True)
    for name in ("--pg-config", "--bindir", "--data", "--work", "--results"):
        parser.add_argument(name, required=True)
    parser.add_argument("workloads", nargs="*")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)

    known = workload_names()
    chosen = sorted(known, key=order) if not arguments.workloads else [name.lower() for name in arguments.workloads]
    for name in chosen:
        if name not in known:
            sys.exit("bench: no workload %s; there are %s" % (name, " ".join(sorted(known, key=order))))
    only = os.environ.get("BENCH_SYSTEMS", "").replace(",", " ").split()
    for name in only:
        if name not in systems.names():
            sys.exit("bench: no system %s; there are %s" % (name, " ".join(systems.names())))
    modules, plans = {}, {}
    for name in chosen:
        module = importlib.import_module("workloads." + name)
        plan = module.PLANS.get(arguments.mode)
        # Asked for by name, it is measured even if it is no part of such a run.
        if plan is None and arguments.workloads:
            plan = module.PLANS["full"]
        if plan is not None:
            modules[module.NAME], plans[module.NAME] = module, dict(plan)
            override(plans[module.NAME])

    cluster = Cluster(arguments.bindir, arguments.data, arguments.work)
    results = Results(arguments.mode, cluster, modules, plans)
    results.only = only
    bench = Bench(arguments.mode, cluster, results, only, arguments.pg_config)
    name = arguments.mode + ("-" + "-".join(arguments.workloads) if arguments.workloads else "")
    try:
        bench.setup()
        for workload, module in modules.items():
            progress(results.title(workload))
            try:
                module.run(bench, plans[workload])
            except Exception as error:  # whatever it is, the others' figures are not to be lost
                if not isinstance(error, BenchError):
                    traceback.print_exc()
                bench.fail(workload, "the workload", error)
    except KeyboardInterrupt:
        sys.exit(130)
    except BenchError as error:
        sys.exit("bench: %s" % error)
    finally:
        # once more would leave behind what this ends
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bench.close()
    ours = [row for row in results.left_out if row[0].split("_")[0] in ("pgfairq", "floor", "the workload")]
    text, path = results.write(arguments.results, name + ("-incomplete" if ours else ""))
    print("\n" + text)
    progress("written to %s.md and .csv" % path)
    try:
        # Those in the pages are of a full run.
        drawn = pictures.write(path + ".csv", arguments.results, "" if name == "full" and not ours else name + "-")
        progress("drawn: %s" % (", ".join(os.path.basename(each) for each in drawn) or "nothing"))
    except (OSError, ValueError) as error:
        progress("the plots could not be drawn: %s" % error)
    if ours:
        sys.exit("bench: %s failed in %s: %s" % ours[0])


if __name__ == "__main__":
    main()
