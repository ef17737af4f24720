import rates
from measure import BenchError

NAME = "W3"
TITLE = "claim 1 + ack 1"
PLANS = {
    "quick": {"clients": [16], "rounds": 2, "seconds": 1, "peer_rounds": 1, "budget": 75},
    "full": {"clients": [16], "rounds": 8, "seconds": 2, "peer_rounds": 1, "peer_seconds": 3,
             "also": {"pgq": [16]}, "budget": 240},
}


def run(bench, plan):
    """A time, from a queue that stays full."""
    entries = list(bench.entries("claim_one"))
    for round_number, clients, entry in bench.rounds(NAME, plan, entries):
        one, seconds = entry.system, rates.seconds_of(plan, entry)
        try:
            one.empty()
            # not after it is filled: the first change of each page would be dear
            bench.checkpoint()
            one.fill(one.tasks_for("claim_one", seconds + 1), clients=clients, batch=1)
            one.vacuum()
            bench.cell(NAME, entry, clients, round_number, 1, seconds=seconds, warmup=1)
        except BenchError as error:
            bench.fail(NAME, entry.label, error)
    rates.empty_all(bench, NAME, [entry.system for entry in entries])


def report(results, plan):
    return rates.section(results, NAME)


def goals(results):
    return rates.ratio_goals(results, NAME, [("pgfairq", "skip", (16,), 3.0), ("pgfairq_fused", "skip", (16,), 4.5)])
