"""Limits: claims with max_leased set for each of the thousand groups, beside the same without."""

import rates
from measure import BenchError
from system import Entry

NAME = "limits"
TITLE = "claims with a limit (max_leased) set for each of 1000 groups, beside none"
PLANS = {
    "full": {"clients": [16], "rounds": 4, "seconds": 3, "backlog": 400000, "drain": 300000, "budget": 120},
}
LEAST = 0.7
GROUPS = 1000
# step, tasks of a transaction, by time
STEPS = {"claim_one": (1, True), "claim_many": (100, False)}


def run(bench, plan):
    queue = bench.system("pgfairq")
    if queue is None:
        return
    entries = []
    for step in STEPS:
        for label in ("none", "limits"):
            entry = Entry(queue, step)
            entry.label = "%s_%d" % (label, STEPS[step][0])
            entries.append(entry)
    for round_number, clients, entry in bench.rounds(NAME, plan, entries):
        tasks, timed = STEPS[entry.step]
        try:
            queue.empty()
            if entry.label.startswith("limits"):
                # So high that none is ever met: what it costs to count.
                bench.cluster.sql("SELECT count(fairq.set_group('bench', 'g' || i, max_leased => 1000000))"
                                  " FROM generate_series(0, %d) i" % (GROUPS - 1))
            queue.fill(plan["backlog"], GROUPS)
            queue.vacuum()
            bench.checkpoint()
            options = {"seconds": plan["seconds"], "warmup": 1} if timed else {"transactions": plan["drain"] // tasks}
            bench.cell(NAME, entry, clients, round_number, tasks, **options)
        except BenchError as error:
            bench.fail(NAME, entry.label, error)
    queue.empty()


def report(results, plan):
    return rates.section(results, NAME)


def goals(results):
    return rates.ratio_goals(results, NAME, [("limits_%d" % tasks, "none_%d" % tasks, (4, 16, 64), LEAST)
                                             for tasks, _ in STEPS.values()])
