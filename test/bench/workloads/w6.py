from measure import BenchError, HeldSnapshot
from report import count, table
from system import Entry

NAME = "W6"
TITLE = "enqueue 100 + claim 100 + ack 100 while another session holds a snapshot"
# seconds: of the series with the snapshot held
PLANS = {
    "full": {"clients": [4], "seconds": 30, "without": 6, "window": 5, "systems": ["pgfairq", "floor", "skip"]},
    "long": {"clients": [4], "seconds": 300, "without": 20, "window": 10,
             "systems": ["pgfairq", "floor", "skip", "goodman", "hatchet_idx", "pgq", "graphile"]},
}
LEAST = 0.9


def run(bench, plan):
    clients = plan["clients"][0]
    bench.cluster.sql("ALTER SYSTEM SET autovacuum = on", "SELECT pg_reload_conf()")
    try:
        for one in bench.systems("cycle", postgres=True):
            if bench.only or one.name in plan["systems"]:
                try:
                    series(bench, plan, one, clients)
                except BenchError as error:
                    bench.fail(NAME, one.name, error)
    finally:
        bench.cluster.sql("ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")


def series(bench, plan, one, clients):
    entry = Entry(one, "cycle")
    window = plan["window"]
    one.empty()
    bench.checkpoint()
    one.fill(10000, clients=clients)
    one.vacuum()
    without = bench.cell(NAME, entry, clients, 0, 100, False, seconds=plan["without"], warmup=1)
    with HeldSnapshot(bench.cluster) as snapshot:
        run = bench.cell(NAME, entry, clients, 1, 100, False, seconds=plan["seconds"] + 1, interval=window)
        snapshot.check()
        size = one.size()
    left = one.depth() - 10000
    share = run["tasks_per_s"] / run["rate"]
    windows = [(each.tps * share, each.session_cpu * 1e6 / max(1, each.tps * share * window))
               for each in run["intervals"]][:plan["seconds"] // window]
    bench.results.data.setdefault(NAME, []).append(
        (one.name, clients, window, windows, without["tasks_per_s"], size, left))
    for number, (rate, cpu) in enumerate(windows):
        bench.results.add_raw("W6 window of %d s" % window, one.name, clients=clients, round=number + 1,
                              tasks_per_s=round(rate, 1), session_us_per_task=round(cpu, 2))
    one.empty()
    bench.checkpoint()


def report(results, plan):
    rows, costs = [], []
    for system, clients, window, windows, without, size, left in results.data.get(NAME, []):
        rates_, cpu = [each[0] for each in windows], [each[1] for each in windows]
        rows.append([system, clients, count(without), " ".join("%.0fk" % (rate / 1000) for rate in rates_),
                     "%.2f" % (rates_[-1] / rates_[0]), "%.2f" % (rates_[-1] / without),
                     "%.1f GB" % (size / 1e9), count(left)])
        costs.append([system, clients, " ".join("%.1f" % each for each in cpu), "%.2f" % (cpu[-1] / cpu[0])])
    if not rows:
        return ""
    return table(["system", "clients", "tasks/s without the snapshot",
                  "tasks/s with it, each %d s" % plan["window"], "last / first", "last / without",
                  "table and indexes", "tasks left by short claims"], rows) + "\n" + table(
                      ["system", "clients", "sessions' CPU µs a task, each %d s" % plan["window"], "last / first"], costs)


def goals(results):
    for system, clients, _window, windows, without, _size, _left in results.data.get(NAME, []):
        if system == "pgfairq" and windows:
            ratio = min(each[0] for each in windows) / without
            yield (NAME, clients, "lowest window / without the snapshot", "%.2f" % ratio, "at least %.2f" % LEAST,
                   ratio >= LEAST)
    # It takes minutes until the rows that cannot be removed tell.
    last = {system: windows[-1][0] for system, _clients, window, windows, *_ in results.data.get(NAME, [])
            if window * len(windows) >= 300}
    for system in last:
        if "pgfairq" in last and system in ("skip", "goodman", "hatchet_idx", "graphile"):
            ratio = last["pgfairq"] / last[system]
            yield NAME, 4, "pgfairq / %s, last window" % system, "%.1f" % ratio, "at least 20", ratio >= 20
