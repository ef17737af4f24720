"""W9: fairness.

Shares: three tenants with weights 1 : 2 : 5 who always have work, and claimers
side by side. At each claim the difference between what two of them have had,
each in proportion to its weight, beside the bound that doc/fairness.md states.

Waiting: bob has enqueued a hundred thousand tasks and claimers work on them.
Then alice enqueues ten. How long until hers are claimed, and how many others
before them?
"""

import multiprocessing
import time

from clients import Crowd, Session, callable_systems
from measure import BenchError
from report import count, table

NAME = "W9"
TITLE = "fairness: shares of tenants with weights, and a newcomer behind %(backlog)d tasks of another"
PLANS = {
    "quick": {"claimers": 8, "batch": 10, "limit": 20000, "backlog": 100000, "workers": 4, "hers": 10, "patience": 3,
              "systems": ["pgfairq", "skip", "pgq", "hatchet_idx"]},
    "full": {"claimers": 8, "batch": 10, "limit": 100000, "backlog": 100000, "workers": 4, "hers": 10, "patience": 15},
}

WEIGHTS = {"small": 1, "medium": 2, "big": 5}
# Each claimer waits so long when there is nothing, before it looks again.
IDLE = 0.001


def claimer(number, barrier, stop, calls, batch, watched, seen, limit):
    """Claims and acknowledges; returns (time, groups) of each claim. watched: stop after so many of a group."""
    claims = []
    with Session() as session:
        consumer = calls.consumer(session, batch)
        barrier.wait()
        while not stop.is_set():
            groups = consumer.take()
            now = time.monotonic()
            if groups:
                claims.append((now, groups))
                count = len(groups) if watched is None else groups.count(watched)
                if count:
                    with seen.get_lock():
                        seen.value += count
                        if seen.value >= limit:
                            stop.set()
            consumer.finish()
            if not groups:
                time.sleep(IDLE)
    return claims


def in_order(answers):
    """All claims by the time they returned, as (time, group) a task."""
    claims = sorted((claim for claims in answers for claim in claims), key=lambda claim: claim[0])
    return [(now, group) for now, groups in claims for group in groups]


# -- shares ---------------------------------------------------------------------


def bound(first, second, claimers, batch):
    return 1 / first + 1 / second + claimers * batch * max(1 / first, 1 / second)


def unfairness(order, claimers, batch, slices=200):
    """Points (claimed, difference, part of the bound, share error) of slices of the order, each the largest in it.

    difference: |served_f / w_f - served_m / w_m|, the pair for which it is the
    largest part of its bound. share error: the largest |share - fair share| in
    the last 10,000 claims.
    """
    served = dict.fromkeys(WEIGHTS, 0)
    pairs = [(f, m, bound(WEIGHTS[f], WEIGHTS[m], claimers, batch))
             for f in WEIGHTS for m in WEIGHTS if f < m]
    total, window, recent = sum(WEIGHTS.values()), 10000, dict.fromkeys(WEIGHTS, 0)
    points, worst = [], (0, 0)
    error, width = None, max(1, len(order) // slices)
    for at, (_, group) in enumerate(order):
        served[group] += 1
        recent[group] += 1
        if at >= window:
            recent[order[at - window][1]] -= 1
        for f, m, limit in pairs:
            difference = abs(served[f] / WEIGHTS[f] - served[m] / WEIGHTS[m])
            worst = max(worst, (difference / limit, difference))
        if at + 1 >= window:
            error = max(error or 0, max(abs(recent[g] / window - WEIGHTS[g] / total) for g in WEIGHTS))
        if (at + 1) % width == 0:
            points.append((at + 1, worst[1], worst[0], error))
            worst, error = (0, 0), None
    return points


def shares(calls, claimers, batch, limit):
    """Claims at least `limit` tasks and returns them in order; the queue is empty before."""
    with Session() as session:
        for group, weight in WEIGHTS.items():
            session.rows("SELECT fairq.set_group('bench', $1, weight => $2)", group, weight)
            left = int(limit * 1.3 * weight / sum(WEIGHTS.values())) + 2 * claimers * batch
            while left > 0:
                n = min(1000, left)
                calls.put(session, [group] * n)
                left -= n
    with Crowd(claimer, claimers, calls, batch, None, multiprocessing.Value("q", 0), limit) as crowd:
        crowd.begin()
        crowd.stop.wait(120)
        return in_order(crowd.end())


# -- waiting ----------------------------------------------------------------------


def newcomer(calls, claimers, batch, hers, patience):
    """After a while of work on bob's backlog alice enqueues; for each of hers (seconds since she asked, claimed before it)."""
    seen = multiprocessing.Value("q", 0)
    with Session() as alice, Crowd(claimer, claimers, calls, batch, "alice", seen, hers) as crowd:
        calls.put(alice, ["bob"])
        crowd.begin()
        time.sleep(0.5)
        # All ten at once, as soon as the commit is through.
        before = time.monotonic()
        calls.put(alice, ["alice"] * hers)
        crowd.stop.wait(patience)
        stopped = time.monotonic()
        order = in_order(crowd.end())
    after = [(now, group) for now, group in order if now > before]
    found = [(max(0.0, now - before), at - number) for number, (at, now) in enumerate(
        (at, now) for at, (now, group) in enumerate(after) if group == "alice")]
    return found, len(after), stopped - before


def run(bench, plan):
    for one, calls in callable_systems(bench, plan):
        try:
            if one.weights:
                one.empty()
                order = shares(calls, plan["claimers"], plan["batch"], plan["limit"])
                points = unfairness(order, plan["claimers"], plan["batch"])
                bench.results.data.setdefault("W9 shares", []).append((one.name, len(order), points))
                for claimed, difference, part, error in points:
                    bench.results.add_raw("W9 shares", one.name, clients=plan["claimers"], tasks=claimed,
                                          difference=round(difference, 3), part_of_bound=round(part, 4),
                                          share_error=None if error is None else round(error, 5))
                bench.progress("%s  %-14s weights 1:2:5: %.2f of the bound at most, after %d claims" % (
                    NAME, one.name, max(part for _, _, part, _ in points), len(order)))
            one.empty()
            one.fill(plan["backlog"], groups=1, clients=plan["workers"], batch=plan["batch"])
            one.vacuum()
            bench.checkpoint()
            one.before("claim_many", plan["workers"])
            try:
                found, others, waited = newcomer(calls, plan["workers"], plan["batch"], plan["hers"], plan["patience"])
            finally:
                one.after("claim_many", plan["workers"])
            one.empty()
        except BenchError as error:
            bench.fail(NAME, one.name, error)
            continue
        bench.results.data.setdefault(NAME, []).append((one.name, one.fair, found, others, waited))
        for number, (seconds, ahead) in enumerate(found):
            bench.results.add_raw("W9 newcomer", one.name, clients=plan["workers"], number=number + 1,
                                  seconds=round(seconds, 4), ahead=ahead)
        if len(found) < plan["hers"]:
            bench.results.add_raw("W9 newcomer waits", one.name, clients=plan["workers"], number=len(found) + 1,
                                  seconds=round(waited, 4), ahead=others - len(found))
        bench.progress("%s  %-14s %s" % (NAME, one.name, "alice's first after %.0f ms, %d before it; last after %.0f ms, %d before it" % (
            1000 * found[0][0], found[0][1], 1000 * found[-1][0], found[-1][1]) if len(found) >= plan["hers"]
            else "only %d of alice's tasks in %.0f s, in which %d others were done" % (len(found), waited, others)))


def report(results, plan):
    text = ""
    rows = []
    for name, claimed, points in results.data.get("W9 shares", []):
        errors = [error for _, _, _, error in points if error is not None]
        rows.append([name, count(claimed), "%.1f" % max(difference for _, difference, _, _ in points),
                     "%.2f" % max(part for _, _, part, _ in points),
                     "%.2f %%" % (100 * max(errors)) if errors else "–"])
    if rows:
        text += ("%d claimers of %d, three tenants of weights 1 : 2 : 5 who always have work. Unfairness is the largest"
                 " difference of what two of them had, each divided by its weight; the bound is that of doc/fairness.md.\n\n"
                 % (plan["claimers"], plan["batch"]))
        text += table(["system", "claims", "unfairness, largest at a claim", "part of the bound",
                       "share error in any 10,000 claims, largest"], rows) + "\n"
    rows = []
    for name, fair, found, others, waited in sorted(results.data.get(NAME, []), key=lambda each: -len(each[2])):
        complete = len(found) >= plan["hers"]
        rows.append([name, "yes" if fair else "no"] + [
            cell for seconds, ahead in ([found[0]] if found else [(None, None)]) + ([found[-1]] if complete else [(None, None)])
            for cell in (("%s ms" % count(1000 * seconds), count(ahead)) if seconds is not None
                         else ("> %s s" % count(waited), "> %s" % count(others)))])
    if rows:
        text += ("`bob` has %s tasks waiting and %d claimers of %d are at work on them. Then `alice` enqueues %d: how long"
                 " until they are claimed, and how many of his before them.\n\n"
                 % (count(plan["backlog"]), plan["workers"], plan["batch"], plan["hers"]))
        text += table(["system", "says it is fair", "her first", "his before it", "her last", "his before it"], rows)
    return text


def goals(results):
    for name, _, points in results.data.get("W9 shares", []):
        part = max(part for _, _, part, _ in points)
        yield NAME, 8, "unfairness / bound, weights 1:2:5", "%.2f" % part, "at most 1", part <= 1
        errors = [error for _, _, _, error in points if error is not None]
        if errors:
            yield (NAME, 8, "share error in any 10,000 claims", "%.2f %%" % (100 * max(errors)), "at most 1 %",
                   max(errors) <= 0.01)
    for name, _, found, _, _ in results.data.get(NAME, []):
        if name == "pgfairq":
            plan = results.plans[NAME]
            # One of bob's before each, and what the claimers have in hand.
            most = plan["hers"] + 2 * plan["workers"] * plan["batch"]
            ahead = found[-1][1] if len(found) == plan["hers"] else 10 ** 9
            yield NAME, plan["workers"], "tasks of bob's before alice's last", count(ahead), "at most %d" % most, ahead <= most
