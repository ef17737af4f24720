import rates
from measure import BenchError
from system import Entry

NAME = "overflow"
TITLE = "claim n + ack n from a backlog of %(backlog)d tasks in one group, ready or in the overflow"
PLANS = {
    "full": {"clients": [4], "rounds": 2, "backlog": 300000, "drains": {1: 20000, 10: 60000, 100: 200000},
             "budget": 45},
}
# 10,000 is the default of max_ready_per_group
STATES = {"ready": None, "overflow": 10000}


def run(bench, plan):
    """One group's backlog, all of it ready or most of it in the overflow; and another group with ten tasks."""
    queue = bench.system("pgfairq")
    if queue is None:
        return
    entries = []
    for state in STATES:
        entry = Entry(queue, "claim_many")
        entry.label = state
        entries.append(entry)
    for round_number, clients, entry in bench.rounds(NAME, plan, entries):
        try:
            queue.empty()
            bench.checkpoint()
            if STATES[entry.label]:
                bench.cluster.sql("SELECT fairq.alter_queue('bench', max_ready_per_group => %d)" % STATES[entry.label])
            queue.fill(plan["backlog"], groups=1)
            bench.cluster.sql("SELECT fairq.enqueue_many('bench', bench.payloads(10), '{alice}')")
            queue.vacuum()
            for batch, tasks in plan["drains"].items():
                # A claim returns what is ready, which may be less than it asked for.
                bench.cell(NAME, entry, clients, round_number, batch, short=True,
                           label="%s_%d" % (entry.label, batch), transactions=tasks // batch)
        except BenchError as error:
            bench.fail(NAME, entry.label, error)
    queue.empty()


def report(results, plan):
    return rates.section(results, NAME)


def goals(results):
    return rates.ratio_goals(results, NAME, [
        ("overflow_%d" % batch, "ready_%d" % batch, (4, 16), 0.7) for batch in (1, 10, 100)])
