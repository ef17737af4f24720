import rates

NAME = "W2"
TITLE = "enqueue 100 tasks with one statement"
PLANS = {
    "quick": {"clients": [16], "rounds": 2, "seconds": 1, "peer_rounds": 1, "budget": 45},
    "full": {"clients": [1, 4, 16, 64], "rounds": 5, "seconds": 2, "peer_clients": [16], "peer_rounds": 1,
             "peer_seconds": 3, "also": {"pgq": [16]}, "budget": 350},
}


def run(bench, plan):
    rates.enqueue(bench, NAME, plan, "enqueue_many", 100)


def report(results, plan):
    return rates.section(results, NAME)


def goals(results):
    return rates.ratio_goals(results, NAME, [("pgfairq", "floor", (1, 4, 16, 64), 1.3)])
