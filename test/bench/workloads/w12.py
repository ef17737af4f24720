"""W12: 500 connections with jobs of one second: claim one, sleep, acknowledge it."""

import glob
import os

from clients import chosen, median, percentile
from measure import BenchError
from report import count, table
from stream import Stream

NAME = "W12"
TITLE = "500 connections with jobs of one second: from the claim to the answer of the ack"
PLANS = {
    "full": {"connections": 500, "seconds": 20, "systems": ["pgfairq", "skip", "pachot"]},
}


def script(one, bench):
    """The step claim_one with a second's sleep before its last statement, which is the ack.

    The clients begin spread over a second, as those of a real crowd would: a
    first transaction only sleeps.
    """
    lines = [line for line in one.text("claim_one", "", 1).splitlines() if line.strip()]
    at = max(number for number, line in enumerate(lines) if not line.startswith("\\"))
    lines.insert(at, "\\sleep 1 s")
    text = "\n".join(["\\if :begun"] + lines + [
        "\\else", "\\set begun 1", "\\set spread random(1, 1000)", "\\sleep :spread ms", "\\endif"]) + "\n"
    path = os.path.join(bench.cluster.work, "scripts", one.name + "-w12.sql")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as target:
        target.write(text)
    return path


def jobs(prefix):
    """Milliseconds of each client's first job, and those of all the others.

    Before its first job a client has slept (see script). In the first a session
    loads its caches, all of them within the same second: no part of steady use.
    """
    clients = {}
    for path in glob.glob(prefix + ".*"):
        with open(path) as log:
            for line in log:
                client, number, taken = line.split()[:3]
                clients.setdefault(client, []).append((int(number), float(taken) / 1000))
        os.unlink(path)
    in_order = [[taken for _, taken in sorted(each)[1:]] for each in clients.values()]
    return [each[0] for each in in_order if each], [taken for each in in_order for taken in each[1:]]


def measure(bench, one, plan):
    connections, seconds = plan["connections"], plan["seconds"]
    one.empty()
    one.fill(connections * (seconds + 10))
    one.vacuum()
    bench.checkpoint()
    before = one.depth()
    values = {"n": 0, "clients": connections, "begun": 0}
    values.update(one.variables("claim_one"))
    prefix = os.path.join(bench.cluster.work, "w12_log")
    cpu = bench.cluster.server_cpu()
    with Stream(bench.cluster, script(one, bench), connections, seconds, 1, values, log=prefix,
                environment=one.environment) as stream:
        stream.wait(seconds + 60)
    cpu = bench.cluster.server_cpu() - cpu
    first, taken = jobs(prefix)
    finished, counted = before - one.depth(), len(first) + len(taken)
    if abs(finished - counted) > 0.02 * counted:
        raise BenchError("%d jobs, but %d tasks are gone" % (counted, finished))
    if not taken:
        raise BenchError("no connection came to a second job")
    return {"jobs": len(taken), "mean": sum(taken) / len(taken), "median": median(taken),
            "p99": percentile(taken, 0.99), "worst": max(taken), "first": sum(first) / len(first), "cpu": cpu / seconds}


def run(bench, plan):
    for one in bench.systems("claim_one", postgres=True):
        if one.name == "floor" or not chosen(bench, plan, one):
            continue
        try:
            figures = measure(bench, one, plan)
            one.empty()
        except BenchError as error:
            bench.cluster.end_sessions("pgbench")
            bench.fail(NAME, one.name, error)
            continue
        bench.results.data.setdefault(NAME, []).append((one.name, figures))
        bench.results.add_raw(NAME, one.name, clients=plan["connections"], tasks=figures["jobs"],
                              mean_ms=round(figures["mean"], 2), median_ms=round(figures["median"], 2),
                              p99_ms=round(figures["p99"], 2), server_cpu_share=round(figures["cpu"], 3))
        bench.progress("%s  %-14s %d jobs, mean %.1f ms, p99 %.1f ms" % (
            NAME, one.name, figures["jobs"], figures["mean"], figures["p99"]))


def report(results, plan):
    rows = [[name, count(figures["jobs"]), "%.1f" % figures["mean"], "%.1f" % figures["median"], "%.1f" % figures["p99"],
             "%.1f" % figures["worst"], "%.1f" % figures["first"], "%.0f %%" % (100 * figures["cpu"])] for name, figures in results.data.get(NAME, [])]
    return table(["system", "jobs", "mean ms", "median ms", "p99 ms", "longest ms", "mean of each connection's first job",
                  "server, of a processor"], rows) if rows else ""


def goals(results):
    for name, figures in results.data.get(NAME, []):
        if name == "pgfairq":
            yield (NAME, 500, "mean time of a job of one second", "%.3f s" % (figures["mean"] / 1000), "at most 1.020 s",
                   figures["mean"] <= 1020)
