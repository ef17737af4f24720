"""Tasks that wait in their group's line: out of the overflow, of limited groups, of users.

Beside the same tasks when all of them are ready. What is measured is the
processor time of the server for a task, claimed and acknowledged.
"""

import rates
from measure import BenchError
from report import ratio_text, table
from system import Entry

import statistics
from dataclasses import dataclass

NAME = "overflow"
TITLE = "claim n + ack n from a backlog of %(backlog)d tasks that are ready, in the overflow, limited, or of users"
PLANS = {
    "full": {"clients": [4, 16, 64], "rounds": 6, "many_rounds": 3, "backlog": 400000,
             "drains": {1: 20000, 10: 60000, 100: 200000}, "budget": 5400},
}
BATCHES = (1, 10, 100)


@dataclass
class Shape:
    """A backlog, and what its queue is altered to."""
    state: str
    groups: int
    alter: str = ""
    defaults: str = ""
    users: int = 0  # of each group

    @property
    def label(self):
        return "%s_%d" % (self.state, self.groups)


# Of a group with max_ready_per_group of 1 all but its first task is in the overflow.
SHAPES = [shape for groups in (1, 1000, 100000) for shape in (
    Shape("ready", groups), Shape("overflow", groups, alter="max_ready_per_group => 1"))] + [
    Shape("users", 1000, alter="subgroups => true", users=100),
    Shape("ready", 10000), Shape("limited", 10000, defaults="max_leased => 1")]
GOALS = {"overflow": 0.9, "limited": 0.9, "users": 0.8}


def run(bench, plan):
    queue = bench.system("pgfairq")
    if queue is None:
        return
    entries = []
    for shape in SHAPES:
        entry = Entry(queue, "claim_many")
        entry.label, entry.shape = shape.label, shape
        entries.append(entry)
    for round_number, clients, entry in bench.rounds(NAME, plan, entries):
        if clients > 4 and round_number > plan["many_rounds"]:
            continue
        try:
            fill(bench, queue, entry.shape, plan["backlog"])
            for batch, tasks in plan["drains"].items():
                # A claim returns what is ready, which may be less than it asked for.
                bench.cell(NAME, entry, clients, round_number, batch, short=True,
                           label="%s_%d" % (entry.label, batch), transactions=tasks // batch)
        except BenchError as error:
            bench.fail(NAME, entry.label, error)
    queue.empty()


def fill(bench, queue, shape, backlog):
    queue.empty()
    bench.checkpoint()
    if shape.alter:
        bench.cluster.sql("SELECT fairq.alter_queue('bench', %s)" % shape.alter)
    if shape.defaults:
        bench.cluster.sql("SELECT fairq.set_group_defaults('bench', %s)" % shape.defaults)
    bench.cluster.sql("CALL bench_pgfairq.fill('bench', %d, %d, %d)" % (backlog, shape.groups, shape.users))
    if shape.groups == 100000:
        # the first task of each, which has an address; of a ready backlog as many
        bench.cluster.sql("CALL bench_pgfairq.finish('bench', %d)" % shape.groups)
    queue.vacuum()


def report(results, plan):
    return rates.section(results, NAME) + "\n\nProcessor time of the server, beside that of ready tasks of as many " \
        "groups (medians, and the lowest and highest round):\n\n" + costs(results)


def costs(results):
    rows = []
    for shape, batch, clients in compared(results):
        own = micros(results, shape, batch, clients)
        ready = micros(results, ready_of(shape), batch, clients)
        rows.append([shape.label, batch, clients, "%.1f" % statistics.median(own), "%.1f … %.1f" % (min(own), max(own)),
                     "%.1f" % statistics.median(ready), ratio_text(statistics.median(ready) / statistics.median(own))])
    return table(["tasks", "by", "clients", "µs a task", "lowest … highest", "ready", "ready / these"], rows)


def compared(results):
    for shape in SHAPES:
        if shape.state == "ready":
            continue
        for batch in BATCHES:
            for clients in results.clients_of(NAME):
                if micros(results, shape, batch, clients) and micros(results, ready_of(shape), batch, clients):
                    yield shape, batch, clients


def ready_of(shape):
    return Shape("ready", shape.groups)


def micros(results, shape, batch, clients):
    cells = results.select(NAME, "%s_%d" % (shape.label, batch), clients).values()
    return [cell["server_us_per_task"] for cell in cells]


def goals(results):
    for shape, batch, clients in compared(results):
        if clients != 4:
            continue
        ratio = statistics.median(micros(results, ready_of(shape), batch, clients)) / \
            statistics.median(micros(results, shape, batch, clients))
        least = GOALS[shape.state]
        yield (NAME, clients, "%s by %d, server time" % (shape.label, batch), "%.2f" % ratio,
               "at least %.2f" % least, ratio >= least)
