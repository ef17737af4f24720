"""charge => 'seconds': tenants of long tasks and of short ones get equal time of workers.

A model of start-time fair queueing with the charges the queue makes, in plain
Python and in no time; and workers on a real queue that sleep for as long as a
task "takes". Each with charge => 'cost' beside it, where a task counts for one
however long it takes.
"""

import heapq
import time

from clients import Crowd, Session, array
from measure import BenchError
from report import table

NAME = "charge"
TITLE = "charge => 'seconds': time of workers that tenants of long and of short tasks get"
PLANS = {
    "full": {"workers": 8, "seconds": 20, "durations": {"videos": 0.2, "thumbnails": 0.01}},
}
# Tasks of a group that have their place, and so their charge, ahead of time.
READY = 20
# The average over some ten tasks of what they took.
WEIGHT_OF_NEW = 0.1


def simulate(workers, seconds, durations, charge):
    """Seconds of workers that each tenant got, in a queue that always has READY tasks of each in their place."""
    finish = dict.fromkeys(durations, 0.0)      # where the group's track ends
    average = dict.fromkeys(durations, None)    # what its tasks took of late
    places, got = [], dict.fromkeys(durations, 0.0)

    def enqueue(group):
        cost = 1.0 if charge == "cost" or average[group] is None else average[group]
        heapq.heappush(places, (finish[group], group))
        finish[group] += cost

    for group in durations:
        for _ in range(READY):
            enqueue(group)
    free = [(0.0, number, None) for number in range(workers)]
    while True:
        now, number, group = heapq.heappop(free)
        if now >= seconds:
            return got
        if group is not None:
            taken = durations[group]
            average[group] = taken if average[group] is None else \
                average[group] + WEIGHT_OF_NEW * (taken - average[group])
        _, group = heapq.heappop(places)
        enqueue(group)
        got[group] += min(durations[group], seconds - now)
        heapq.heappush(free, (now + durations[group], number, group))


def worker(number, barrier, stop, durations):
    got = dict.fromkeys(durations, 0.0)
    claim = "SELECT receipt, group_key FROM fairq.claim('w charge', 1, lease => '1 min')"
    ack = "SELECT fairq.ack($1::uuid)"
    with Session() as session:
        session.prepare(claim)
        session.prepare(ack)
        barrier.wait()
        while not stop.is_set():
            for receipt, group in session.rows(claim):
                begun = time.monotonic()
                time.sleep(durations[group])
                # The work; not how long it takes to say that it is done, on a slow disk.
                got[group] += time.monotonic() - begun
                session.rows(ack, receipt)
    return got


def really(bench, workers, seconds, durations, charge):
    """The same on a queue with more tasks than can be done."""
    bench.cluster.sql("SELECT fairq.create_queue('w charge', charge => '%s', max_ready_per_group => %d)"
                      % (charge, READY))
    try:
        with Session() as session:
            for group, duration in durations.items():
                left = int(workers * seconds / duration) + 1000
                while left > 0:
                    n = min(1000, left)
                    session.rows("SELECT cardinality(fairq.enqueue_many('w charge', $1::jsonb[], $2::text[]))",
                                 array(["{}"] * n), array([group] * n))
                    left -= n
        with Crowd(worker, workers, durations) as crowd:
            crowd.begin()
            time.sleep(seconds)
            answers = crowd.end()
    finally:
        bench.cluster.sql("SELECT fairq.drop_queue('w charge')")
    return {group: sum(answer[group] for answer in answers) for group in durations}


def run(bench, plan):
    if not bench.system("pgfairq"):
        return
    for charge in ("cost", "seconds"):
        for how, function in (("model", lambda *arguments: simulate(*arguments)),
                              ("workers", lambda *arguments: really(bench, *arguments))):
            try:
                # The model takes no time, so it may run for long.
                seconds = plan["seconds"] * (20 if how == "model" else 1)
                got = function(plan["workers"], seconds, plan["durations"], charge)
            except BenchError as error:
                bench.fail(NAME, "pgfairq", error)
                continue
            share = {group: value / sum(got.values()) for group, value in got.items()}
            bench.results.data.setdefault(NAME, []).append((charge, how, share))
            for group in share:
                bench.results.add_raw("charge", "pgfairq", clients=plan["workers"], what="%s, %s, %s" % (charge, how, group),
                                      seconds=round(got[group], 2), share=round(share[group], 4))
            bench.progress("charge => '%s' (%s): %s of the workers' time" % (charge, how, ", ".join(
                "%s %.0f %%" % (group, 100 * part) for group, part in share.items())))


def report(results, plan):
    data = results.data.get(NAME, [])
    if not data:
        return ""
    text = "%d workers; %s. Shares of the workers' time:\n\n" % (plan["workers"], ", ".join(
        "a task of `%s` takes %g ms" % (group, 1000 * duration) for group, duration in plan["durations"].items()))
    return text + table(["charge", "of"] + list(plan["durations"]), [
        [charge, "the model" if how == "model" else "workers that sleep"] + ["%.1f %%" % (100 * part) for part in share.values()]
        for charge, how, share in data])


def goals(results):
    for charge, how, share in results.data.get(NAME, []):
        if charge == "seconds" and how == "workers":
            most = max(share.values())
            yield NAME, results.plans[NAME]["workers"], "largest share of the workers' time, of two tenants", \
                "%.1f %%" % (100 * most), "at most 55 %", most <= 0.55
