"""W6: enqueue 100, claim 100, ack 100 while another session holds a snapshot, in windows of some seconds."""

import collections
import statistics

from measure import BenchError, HeldSnapshot
from report import count, table
from system import Entry

NAME = "W6"
TITLE = "enqueue 100 + claim 100 + ack 100 while another session holds a snapshot"
# seconds: of the series with the snapshot held; without: of the one before it
PLANS = {
    "full": {"clients": [4], "seconds": 30, "without": 15, "window": 5, "systems": ["pgfairq", "floor", "skip"]},
    "long": {"clients": [4], "seconds": 300, "without": 40, "window": 10,
             "systems": ["pgfairq", "floor", "skip", "goodman", "hatchet_idx", "pgq", "graphile"]},
}
LEAST = 0.9

# without: tasks a second in each window without the snapshot, and the milliseconds of a flush. windows: tasks a second
# with it, the processor microseconds a task took in the clients' sessions, and again a flush. size: bytes. left: tasks left by short claims.
Series = collections.namedtuple("Series", "system clients window without windows size left")


def run(bench, plan):
    clients = plan["clients"][0]
    bench.cluster.sql("ALTER SYSTEM SET autovacuum = on", "ALTER SYSTEM SET track_wal_io_timing = on", "SELECT pg_reload_conf()")
    try:
        for one in bench.systems("cycle", postgres=True):
            if bench.only or one.name in plan["systems"]:
                try:
                    series(bench, plan, one, clients)
                except BenchError as error:
                    bench.fail(NAME, one.name, error)
    finally:
        bench.cluster.sql("ALTER SYSTEM RESET autovacuum", "ALTER SYSTEM RESET track_wal_io_timing", "SELECT pg_reload_conf()")


def series(bench, plan, one, clients):
    entry = Entry(one, "cycle")
    window = plan["window"]
    one.empty()
    bench.checkpoint()
    one.fill(10000, clients=clients)
    one.vacuum()
    seconds = min(plan["without"], plan["seconds"])
    run = bench.cell(NAME, entry, clients, 0, 100, False, seconds=seconds + 1, interval=window, flushes=True)
    share = run["tasks_per_s"] / run["rate"]
    without = [(max(1, each.tps * share), each.flush_ms) for each in run["intervals"]][:seconds // window]
    with HeldSnapshot(bench.cluster) as snapshot:
        run = bench.cell(NAME, entry, clients, 1, 100, False, seconds=plan["seconds"] + 1, interval=window, flushes=True)
        snapshot.check()
        size = one.size()
    left = one.depth() - 10000
    share = run["tasks_per_s"] / run["rate"]
    windows = [(max(1, each.tps * share), each.session_cpu * 1e6 / max(1, each.tps * share * window), each.flush_ms)
               for each in run["intervals"]][:plan["seconds"] // window]
    if not without or not windows:
        raise BenchError("pgbench reported no progress")
    bench.results.data.setdefault(NAME, []).append(
        Series(one.name, clients, window, without, windows, size, left))
    for number, (rate, flush) in enumerate(without):
        bench.results.add_raw("W6 without the snapshot", one.name, clients=clients, round=number + 1,
                              tasks_per_s=round(rate, 1), flush_ms=round(flush, 3))
    for number, (rate, cpu, flush) in enumerate(windows):
        bench.results.add_raw("W6 window of %d s" % window, one.name, clients=clients, round=number + 1,
                              tasks_per_s=round(rate, 1), session_us_per_task=round(cpu, 2), flush_ms=round(flush, 3))
    one.empty()
    bench.checkpoint()


def rates_of(one):
    """Tasks a second in each window, and their mean without the snapshot."""
    return [window[0] for window in one.windows], statistics.mean(rate for rate, _ in one.without)


def beside_floor(results, one):
    """Each window divided by the same window of the bare statements, each as a part of what it is without the snapshot."""
    floor = next((other for other in results.data[NAME] if other.system == "floor" and other.clients == one.clients), None)
    if floor is None or floor is one:
        return []
    (ours, before), (theirs, their_before) = rates_of(one), rates_of(floor)
    return [(rate / before) / (other / their_before) for rate, other in zip(ours, theirs)]


def report(results, plan):
    rows, costs = [], []
    for one in results.data.get(NAME, []):
        rates, without = rates_of(one)
        cpu = [window[1] for window in one.windows]
        beside = beside_floor(results, one)
        rows.append([one.system, one.clients, count(without), " ".join("%.0fk" % (rate / 1000) for rate, _ in one.without),
                     " ".join("%.0fk" % (rate / 1000) for rate in rates),
                     "%.2f" % (rates[-1] / rates[0]), "%.2f" % (rates[-1] / without), "%.2f" % (min(rates) / without),
                     "%.2f" % (statistics.mean(rates) / without), "%.1f GB" % (one.size / 1e9), count(one.left)])
        costs.append([one.system, one.clients, " ".join("%.1f" % each for each in cpu), "%.2f" % (cpu[-1] / cpu[0]),
                      " ".join("%.2f" % flush for _, flush in one.without), " ".join("%.2f" % window[2] for window in one.windows),
                      " ".join("%.2f" % each for each in beside) or "–"])
    if not rows:
        return ""
    each = "each %d s" % plan["window"]
    return table(["system", "clients", "tasks/s without the snapshot", each,
                  "tasks/s with it, " + each, "last / first", "last / without", "lowest / without", "mean / without",
                  "table and indexes", "tasks left by short claims"], rows) + "\n" + table(
                      ["system", "clients", "sessions' CPU µs a task, " + each, "last / first",
                       "ms a flush of WAL takes, without the snapshot", "with it",
                       "what is left of tasks/s / what is left of the floor's, " + each], costs)


def goals(results):
    for one in results.data.get(NAME, []):
        if one.system == "pgfairq" and one.windows:
            rates, without = rates_of(one)
            figures = [("lowest window / without the snapshot", min(rates) / without),
                       ("lowest window / lowest without the snapshot", min(rates) / min(rate for rate, _ in one.without))]
            beside = beside_floor(results, one)
            if beside:
                figures.append(("the same as a part of the floor's in that window, lowest", min(beside)))
            for what, ratio in figures:
                yield NAME, one.clients, what, "%.2f" % ratio, "at least %.2f" % LEAST, ratio >= LEAST
    # It takes minutes until the rows that cannot be removed tell.
    last = {one.system: one.windows[-1][0] for one in results.data.get(NAME, []) if one.window * len(one.windows) >= 300}
    for system in last:
        if "pgfairq" in last and system in ("skip", "goodman", "hatchet_idx", "graphile"):
            ratio = last["pgfairq"] / last[system]
            yield NAME, 4, "pgfairq / %s, last window" % system, "%.1f" % ratio, "at least 20", ratio >= 20
