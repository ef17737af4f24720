"""What the workloads that measure tasks a second share."""

from measure import BenchError
from report import count, like, ratio_text, table
import system as systems

import statistics


def enqueue(bench, workload, plan, step, tasks):
    """A time, into an empty queue."""
    for round_number, clients, entry in bench.rounds(workload, plan, bench.entries(step)):
        try:
            entry.system.empty()
            bench.checkpoint()
            bench.cell(workload, entry, clients, round_number, tasks, seconds=seconds_of(plan, entry), warmup=1)
        except BenchError as error:
            bench.fail(workload, entry.label, error)
    for one in bench.systems(step):
        bench.results.note_row_width(one)
    empty_all(bench, workload, bench.systems(step))


def seconds_of(plan, entry):
    return plan["seconds"] if entry.core else plan.get("peer_seconds", plan["seconds"])


def empty_all(bench, workload, systems):
    for one in systems:
        try:
            one.empty()
        except BenchError as error:
            bench.fail(workload, one.name, error)
    bench.checkpoint()


def drain(bench, workload, plan, step, tasks):
    """A number of tasks, from a backlog that is filled up again before each measurement.

    Systems differ by a factor of thousands; the slow ones get as many as they
    finish in plan["seconds"], going by their last measurement or, the first
    time, by a run of a second. (Core systems need none; and the bare table
    cannot be run by time, which leaves gaps in what it deletes next.)
    """
    rates = {}
    entries = list(bench.entries(step))
    empty_all(bench, workload, [entry.system for entry in entries])
    for round_number, clients, entry in bench.rounds(workload, plan, entries):
        one = entry.system
        try:
            fill_up(one, plan["backlog"], clients, tasks)
            if (entry.label, clients) not in rates:
                known = [rates[key] for key in rates if key[0] == entry.label]
                if known or entry.core:
                    rates[entry.label, clients] = known[-1] if known else plan["drain"]
                else:
                    run = one.run(step, entry.variant, min(4, clients), tasks, seconds=1, warmup=0, patience=60)
                    rates[entry.label, clients] = run["transactions"] / max(1, run["taken"])
                    fill_up(one, plan["backlog"], clients, tasks)
            transactions = min(plan["drain"] // tasks, int(rates[entry.label, clients] * plan["seconds"]))
            if transactions < 20 * clients and not entry.core:
                run = bench.cell(workload, entry, clients, round_number, tasks, seconds=plan["seconds"])
            else:
                run = bench.cell(workload, entry, clients, round_number, tasks, transactions=transactions)
            rates[entry.label, clients] = run["rate"]
        except BenchError as error:
            bench.fail(workload, entry.label, error)
    empty_all(bench, workload, [entry.system for entry in entries])


def fill_up(one, backlog, clients, batch):
    # no checkpoint here: it would make the first change of each page dear
    missing = backlog - one.depth()
    if missing > 0:
        one.fill(missing, clients=clients, batch=batch)
        one.vacuum()


# -- the report ----------------------------------------------------------------

def section(results, workload):
    """Clients by systems: median, range, ratios, WAL and processor time a task."""
    rows = []
    references = [name for name in ("floor", "skip", "pgfairq", "skip_binary") if name in results.systems_of(workload)]
    for clients in results.clients_of(workload):
        for system in results.systems_of(workload):
            cells = results.select(workload, system, clients).values()
            if not cells:
                continue
            rates = [cell["tasks_per_s"] for cell in cells]
            ratios = []
            for reference in references:
                ratio = results.ratio(workload, system, reference, clients) if like(system, reference) else None
                ratios.append("" if ratio is None or system == reference else ratio_text(ratio))
            wal = [cell["wal_bytes_per_task"] for cell in cells if cell["wal_bytes_per_task"] is not None]
            rows.append([clients, system, count(statistics.median(rates)),
                         "%s … %s" % (count(min(rates)), count(max(rates)))] + ratios +
                        ["%.0f" % statistics.median(wal) if wal else "–",
                         "%.1f" % statistics.median(cell["server_us_per_task"] for cell in cells),
                         "%.0f %%" % (100 * max(cell["foreign_cpu"] for cell in cells))])
    return table(["clients", "system", "tasks/s (median)", "lowest … highest"] +
                 ["/ " + reference for reference in references] +
                 ["WAL bytes a task", "server CPU µs a task", "others' CPU, most"], rows)


def ratio_goals(results, workload, goals):
    """goals: (system, reference, numbers of clients, at least)."""
    for system, reference, clients, least in goals:
        for number in clients:
            ratio = results.ratio(workload, system, reference, number)
            if ratio is not None or wanted(results, workload, (system, reference), (number,)):
                yield (workload, number, "%s / %s" % (system, reference),
                       "not measured" if ratio is None else "%.2f" % ratio,
                       "at least %.2f" % least, ratio is not None and ratio >= least)


def wanted(results, workload, labels, clients):
    """Should these have been measured: has nobody left out the systems, or these numbers of clients?"""
    # What no system is called by is a form of pgfairq's queue.
    owners = [next((name for name in (label, label.split("_")[0]) if name in systems.names()), "pgfairq")
              for label in labels]
    return (not results.only or all(owner in results.only for owner in owners)) and \
        all(number in results.plans[workload].get("clients", ()) for number in clients)
