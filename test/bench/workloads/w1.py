import rates

NAME = "W1"
TITLE = "enqueue one task"
PLANS = {
    "quick": {"clients": [16], "rounds": 2, "seconds": 1, "peer_rounds": 1, "budget": 45},
    "full": {"clients": [1, 4, 16, 64], "rounds": 7, "seconds": 2, "peer_clients": [16, 64], "peer_rounds": 1,
             "peer_seconds": 3, "also": {"pgq": [16, 64]}, "budget": 500},
}


def run(bench, plan):
    rates.enqueue(bench, NAME, plan, "enqueue", 1)


def report(results, plan):
    return rates.section(results, NAME)


def goals(results):
    return rates.ratio_goals(results, NAME, [("pgfairq", "floor", (1, 4, 16, 64), 0.95)])
