import rates

NAME = "W4"
TITLE = "claim 100 + ack 100 from a backlog of %(backlog)d tasks in 1000 groups"
PLANS = {
    "quick": {"clients": [4], "rounds": 2, "seconds": 1, "backlog": 200000, "drain": 150000, "peer_rounds": 1,
              "also": {"pgq": [4]}, "budget": 75},
    "full": {"clients": [4, 16, 64], "rounds": 5, "seconds": 3, "backlog": 1000000, "drain": 800000,
             "peer_rounds": 1, "also": {"pgq": [4, 16]}, "budget": 900},
}


def run(bench, plan):
    rates.drain(bench, NAME, plan, "claim_many", 100)


def report(results, plan):
    return rates.section(results, NAME)


def goals(results):
    yield from rates.ratio_goals(results, NAME, [
        ("pgfairq", "skip", (4,), 4.0), ("pgfairq", "skip", (16,), 6.0), ("pgfairq", "skip", (64,), 8.0),
        ("pgfairq_binary", "skip_binary", (4,), 4.0), ("pgfairq_binary", "skip_binary", (16,), 6.0),
        ("pgfairq_binary", "skip_binary", (64,), 8.0), ("pgfairq", "pgq", (4,), 1.5)])
    few, many = results.rate(NAME, "pgfairq", 16), results.rate(NAME, "pgfairq", 64)
    if few and many:
        yield (NAME, 64, "pgfairq, 64 clients / 16", "%.2f" % (many / few), "at least 0.80", many >= 0.8 * few)
    elif rates.wanted(results, NAME, ("pgfairq",), (16, 64)):
        yield (NAME, 64, "pgfairq, 64 clients / 16", "not measured", "at least 0.80", False)
