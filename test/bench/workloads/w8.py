"""W8: a producer's transaction is left open. How long do other producers wait?

One session enqueues into a group that has tasks and into one that has not, and
leaves its transaction open. Meanwhile others enqueue one task after the other,
each committed by itself: into the same group, into another, into the same new
group, and into new groups of their own. What counts is the longest that one of
them waited; who waits for the transaction to end waited for all of it.
"""

import time

from clients import PAYLOAD, Crowd, Session, callable_systems
from measure import BenchError
from report import count, table

NAME = "W8"
TITLE = "how long producers wait while another one's transaction is open for %(hold)g seconds"
PLANS = {"quick": {"hold": 1, "systems": ["pgfairq", "skip", "pgq", "hatchet_idx"]}, "full": {"hold": 3}}
ROLES = [("the same group", "g1"), ("another group", "g2"), ("the same new group", "w8 new"), ("new groups", None)]


def producer(number, barrier, stop, calls):
    role, group = ROLES[number]
    waits, failures = [], []
    with Session() as session:
        session.prepare(calls.enqueue)
        barrier.wait()
        while not stop.is_set():
            begun = time.monotonic()
            try:
                session.rows(calls.enqueue, PAYLOAD, group or "w8 own %d" % len(waits))
            except BenchError as error:
                failures.append(str(error))
            waits.append(time.monotonic() - begun)
            time.sleep(0.005)
    return waits, failures


def measure(calls, hold):
    """For each role: how many were enqueued, the longest wait in seconds, and errors."""
    with Session() as holder:
        for _, group in ROLES[:2]:
            holder.rows(calls.enqueue, PAYLOAD, group)
        holder.run("BEGIN")
        for group in ("g1", "w8 new"):
            holder.rows(calls.enqueue, PAYLOAD, group)
        with Crowd(producer, len(ROLES), calls) as crowd:
            crowd.begin()
            time.sleep(hold)
            holder.run("COMMIT")
            answers = crowd.end()
    return [(role, len(waits), max(waits), failures)
            for (role, _), (waits, failures) in zip(ROLES, answers)]


def run(bench, plan):
    for one, calls in callable_systems(bench, plan):
        try:
            one.empty()
            rows = measure(calls, plan["hold"])
            one.empty()
        except BenchError as error:
            bench.fail(NAME, one.name, error)
            continue
        bench.results.data.setdefault(NAME, []).append((one.name, rows))
        for role, number, longest, failures in rows:
            bench.results.add_raw(NAME, one.name, what=role, tasks=number, longest_ms=round(1000 * longest, 2),
                                  failed=len(failures))
        bench.progress("%s  %-14s %s" % (NAME, one.name, ", ".join(
            "%s %.0f ms%s" % (role, 1000 * longest, " (failed)" if failures else "")
            for role, _, longest, failures in rows)))


def report(results, plan):
    rows = []
    for name, answers in results.data.get(NAME, []):
        rows.append([name] + ["%s ms%s" % (count(1000 * longest), " (%d failed)" % len(failures) if failures else "")
                              for _, _, longest, failures in answers])
    if not rows:
        return ""
    text = "The longest that one enqueue took, of a producer that enqueues one task after the other into ...\n\n"
    text += table(["system"] + [role for role, _ in ROLES], rows)
    errors = ["%s, %s: %s" % (name, role, failures[0].partition("ERROR:")[2].strip() or failures[0]) for name, answers in results.data[NAME]
              for role, _, _, failures in answers if failures]
    return text + ("\nThe first error of each that failed:\n\n" + "".join("- `%s`\n" % " ".join(
        error.replace("`", "'").split())[:200] for error in errors) if errors else "")


def goals(results):
    for name, answers in results.data.get(NAME, []):
        if name == "pgfairq":
            # Who waits for a transaction waits for most of it; a busy disk takes less.
            worst = max(longest for _, _, longest, _ in answers)
            limit = results.plans[NAME]["hold"] / 3
            failed = any(failures for _, _, _, failures in answers)
            yield (NAME, len(ROLES), "longest wait, a transaction being open", "%.0f ms" % (1000 * worst),
                   "no producer waits for it", worst < limit and not failed)
