import os

from measure import BenchError
from report import count, table

NAME = "W7"
TITLE = "a claim of 100 in the server, one client"
PLANS = {
    "full": {"repeats": 100, "small": 10000, "large": 1000000, "backlog": 1000000, "groups": [10000, 100000]},
}
MOST = 1.2


def run(bench, plan):
    bench.cluster.sql_file(os.path.join(os.path.dirname(os.path.abspath(__file__)), "w7.sql"))
    # The classic table knows no groups.
    backlogs = [("backlog_%d" % each, each, 1000) for each in (plan["small"], plan["large"])]
    groups = [("groups_%d" % each, plan["backlog"], each) for each in plan["groups"]]
    for name, subjects in (("pgfairq", backlogs + groups), ("skip", backlogs)):
        if bench.system(name):
            try:
                costs(bench, plan, bench.system(name), subjects)
            except BenchError as error:
                bench.fail(NAME, name, error)


def costs(bench, plan, one, subjects):
    for subject, backlog, groups in subjects:
        bench.progress("%s  %s: %d tasks in %d groups" % (NAME, one.name, backlog, groups))
        if one.name == "pgfairq":
            one.create_queue(subject)
            one.fill_queue(subject, backlog, groups)
            bench.cluster.sql('VACUUM ANALYZE fairq."q_%s"' % subject)
        else:
            one.empty()
            one.fill(backlog, groups)
            one.vacuum()
        bench.checkpoint()
        bench.cluster.sql("CALL bench.measure_%s('%s', %d, %d)" % (one.name, subject, plan["repeats"], groups))
        median, p95, measured, claimed = bench.cluster.sql(
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY microseconds),"
            " percentile_cont(0.95) WITHIN GROUP (ORDER BY microseconds), count(*), min(claimed)"
            " FROM bench.claim_cost WHERE system = '%s' AND subject = '%s'" % (one.name, subject))[0]
        if int(claimed) != 100:
            raise BenchError("%s: a claim of 100 got %s" % (subject, claimed))
        bench.results.data.setdefault(NAME, []).append((one.name, subject, float(median), float(p95), int(measured)))
        bench.results.add_raw("W7 " + subject, one.name, clients=1, tasks=100 * int(measured),
                              latency_ms=round(float(median) / 1000, 4))
        bench.progress("%s  %s  %-16s median %8.0f us" % (NAME, one.name, subject, float(median)))
        if one.name == "pgfairq":
            bench.cluster.sql("SELECT fairq.drop_queue('%s')" % subject)
        else:
            one.empty()


def ratios(results):
    data = results.data.get(NAME, [])
    for system in dict.fromkeys(each[0] for each in data):
        for kind in ("backlog", "groups"):
            pair = [each for each in data if each[0] == system and each[1].startswith(kind)]
            if len(pair) == 2:
                slow, fast = max(pair[0][2], pair[1][2]), min(pair[0][2], pair[1][2])
                yield system, "%s, slower / faster" % " : ".join(each[1].replace("_", " ") for each in pair), slow / fast


def report(results, plan):
    data = results.data.get(NAME, [])
    if not data:
        return ""
    text = table(["system", "queue", "claims", "median µs", "p95 µs"],
                 [[system, subject.replace("_", " "), measured, count(median), count(p95)]
                  for system, subject, median, p95, measured in data])
    return text + "\n" + table(["pair", "system", "ratio"],
                               [[what, system, "%.2f" % ratio] for system, what, ratio in ratios(results)])


def goals(results):
    for system, what, ratio in ratios(results):
        if system == "pgfairq":
            yield NAME, 1, what, "%.2f" % ratio, "at most %.2f" % MOST, ratio <= MOST
