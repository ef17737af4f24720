"""W5: a steady mix. Producers enqueue one task after the other, claimers claim up to ten and acknowledge them.

Autovacuum is on. First in short rounds, in which systems take turns, for the
ratios; then for longer, to see whether anything grows; then the same while
another session holds a snapshot.
"""

import collections
import contextlib
import os
import re
import statistics
import time

from clients import chosen
from measure import BenchError, HeldSnapshot, flush_ms
from report import count, ratio_text, table
from stream import Stream

NAME = "W5"
TITLE = "a steady mix: 8 clients enqueue one, 8 claim up to 10 and acknowledge them; without and with a snapshot held"
# turns: who takes turns in rounds of round_seconds; with a word after a colon when its claimers rest at another
# time (RESTS), in the first round only. seconds, held_seconds: of pgfairq without and with the snapshot held;
# peer_...: of the others.
PLANS = {
    "quick": {"seconds": 8, "held_seconds": 8, "peer_seconds": 6, "peer_held_seconds": 8, "window": 2,
              "systems": ["pgfairq", "skip"]},
    "full": {"rounds": 3, "round_seconds": 10, "turns": ["pgfairq", "pgq", "pgfairq:empty", "skip:empty"],
             "seconds": 90, "held_seconds": 60, "peer_seconds": 10, "peer_held_seconds": 30, "window": 5,
             "systems": ["pgfairq", "skip", "pgq", "goodman", "hatchet_idx", "graphile"]},
    "long": {"rounds": 5, "round_seconds": 20, "turns": ["pgfairq", "pgq", "pgfairq:empty", "skip:empty"],
             "seconds": 600, "held_seconds": 300, "peer_seconds": 60, "peer_held_seconds": 120, "window": 10,
             "systems": ["pgfairq", "skip", "pgq", "goodman", "hatchet_idx", "graphile"]},
}
CLIENTS = 8
BATCH = 10

# When a claimer asks again after 10 ms, and not at once. Who got fewer tasks than it asked for has seen the end of
# the queue, and what it would claim at once is one or two tasks, with a commit for them.
RESTS = {"short": ":got < %d" % BATCH, "empty": ":got = 0"}
REST = "short"

# end: seconds since the start. enqueued, done, claims: a second. depth: tasks not finished. producing, claiming:
# processor seconds of sessions since the start. flush_ms: what a flush of WAL took.
Point = collections.namedtuple("Point", "end enqueued done claims depth table_bytes index_bytes producing claiming flush_ms")


def consume(bench, one, rest):
    """The system's own consume.sql, or the step claim_many for ten, and a rest."""
    if one.has("consume"):
        return one.script("consume", batch=BATCH)
    text, found = re.subn(r" AS (\w+) FROM ((?:(?! AS ).)*?) \\gset", r" AS \1, count(*) AS got FROM \2 \\gset",
                          one.text("claim_many", "", BATCH))
    if found != 1:
        raise BenchError("its claim does not say how much it got")
    text += "\\if %s\n\\sleep 10 ms\n\\endif\n" % RESTS[rest]
    path = os.path.join(bench.cluster.work, "scripts", "%s-consume-%s.sql" % (one.name, rest))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as target:
        target.write(text)
    return path


def variables(one, step):
    values = {"n": 0, "clients": one.consumers or CLIENTS}
    values.update(one.variables(step))
    return values


def sizes(bench, one):
    """Bytes of the tables, with what is out of line, and of their indexes."""
    row = [bench.cluster.sql("SELECT pg_table_size('%s'), pg_indexes_size('%s')" % (name, name))[0] for name in one.tables()]
    return sum(int(each[0]) for each in row), sum(int(each[1]) for each in row)


def mix(bench, one, seconds, window, rest=REST):
    """A Point for each window."""
    points, looks = [], []
    before, then = one.depth(), 0.0
    consumers = one.consumers or CLIENTS
    one.before("claim_many", consumers)
    with contextlib.ExitStack() as stack:
        stack.callback(one.after, "claim_many", consumers)
        for application in ("pgbench", "producer", "claimer"):
            stack.callback(bench.cluster.end_sessions, application)
        # What has to be done regularly for it.
        if one.has("beside"):
            stack.enter_context(Stream(bench.cluster, one.script("beside"), 1, seconds + 1, window))
        with Stream(bench.cluster, one.script("enqueue"), CLIENTS, seconds + 1, window, variables(one, "enqueue"),
                    threads=1, environment=dict(one.environment, PGAPPNAME="producer")) as producers, \
                Stream(bench.cluster, consume(bench, one, rest), consumers, seconds + 1, window, variables(one, "claim_many"),
                       threads=1, environment=dict(one.environment, PGAPPNAME="claimer")) as claimers:
            start, flushed = time.monotonic(), bench.cluster.flushes()
            for number in range(1, seconds // window + 1):
                time.sleep(max(0, start + number * window - time.monotonic()))
                producers.check()
                claimers.check()
                flushed_before, flushed = flushed, bench.cluster.flushes()
                looks.append((time.monotonic() - start, one.depth()) + sizes(bench, one) +
                             (bench.cluster.session_cpu("producer"), bench.cluster.session_cpu("claimer"),
                              flush_ms(flushed_before, flushed)))
            producers.wait()
            claimers.wait()
    # The rate of producers is pgbench's; what they enqueued and is not there any more was done.
    for (end, rate), (_, claims), (at, depth, *rest_of_look) in zip(producers.intervals, claimers.intervals, looks):
        points.append(Point(round(end), rate, max(0.0, rate - (depth - before) / (at - then)), claims, depth, *rest_of_look))
        before, then = depth, at
    if not points:
        raise BenchError("pgbench reported no progress")
    return points


def measured(bench, plan):
    return [one for one in bench.systems("enqueue", "claim_many", postgres=True)
            if one.name != "floor" and chosen(bench, plan, one)]


def run(bench, plan):
    bench.cluster.sql("ALTER SYSTEM SET autovacuum = on", "ALTER SYSTEM SET track_wal_io_timing = on", "SELECT pg_reload_conf()")
    try:
        rounds(bench, plan)
        for held in (False, True):
            for one in measured(bench, plan):
                if not bench.has_failed(NAME, one.name):
                    try:
                        series(bench, plan, one, held)
                    except BenchError as error:
                        bench.fail(NAME, one.name, error)
    finally:
        bench.cluster.sql("ALTER SYSTEM RESET autovacuum", "ALTER SYSTEM RESET track_wal_io_timing", "SELECT pg_reload_conf()")


def rounds(bench, plan):
    """Systems in turn, each round beginning with another one."""
    turns = [each.partition(":") for each in plan.get("turns", ())]
    turns = [(bench.system(name), rest) for name, _, rest in turns if bench.system(name) in measured(bench, plan)]
    seconds = plan.get("round_seconds", plan["seconds"])
    for number in range(1, plan.get("rounds", 0) + 1):
        first = (number - 1) % max(1, len(turns))
        for one, rest in turns[first:] + turns[:first]:
            label = one.name + ("_" + rest if rest else "")
            if (rest and number > 1) or bench.has_failed(NAME, label):
                continue
            try:
                points = fresh(bench, one, seconds, min(plan["window"], max(1, seconds // 2)), rest or REST)
            except BenchError as error:
                bench.fail(NAME, label, error)
                continue
            bench.results.data.setdefault(NAME + " rounds", []).append((label, number, points))
            note(bench, "W5 round %d" % number, label, points)


def fresh(bench, one, seconds, window, rest=REST):
    one.empty()
    one.vacuum()
    bench.checkpoint()
    points = mix(bench, one, seconds, window, rest)
    one.empty()
    return points


def note(bench, workload, label, points):
    """For the CSV, and for who looks on."""
    cpu = (0.0, 0.0)
    for point in points:
        seconds = point.end / (points.index(point) + 1)
        bench.results.add_raw(workload, label, clients=2 * CLIENTS, seconds=point.end,
                              enqueued_per_s=round(point.enqueued, 1), done_per_s=round(point.done, 1), depth=point.depth,
                              table_bytes=point.table_bytes, index_bytes=point.index_bytes,
                              claims_per_s=round(point.claims, 1), flush_ms=round(point.flush_ms, 3),
                              producers_cpu=round((point.producing - cpu[0]) / seconds, 3),
                              claimers_cpu=round((point.claiming - cpu[1]) / seconds, 3))
        cpu = point.producing, point.claiming
    bench.progress("%-12s %-14s %s done/s" % (workload, label, " ".join("%.1fk" % (point.done / 1000) for point in points)))


def series(bench, plan, one, held):
    peer = "" if one.name == "pgfairq" else "peer_"
    seconds = plan.get(peer + "seconds", plan["seconds"])
    if held:
        seconds = plan.get(peer + "held_seconds", seconds)
        with HeldSnapshot(bench.cluster) as snapshot:
            points = fresh(bench, one, seconds, plan["window"])
            snapshot.check()
    else:
        points = fresh(bench, one, seconds, plan["window"])
    bench.results.data.setdefault(NAME, []).append((one.name, held, points))
    note(bench, "W5 snapshot held" if held else "W5 steady", one.name, points)


def done(points):
    """Tasks done a second, of all windows."""
    return statistics.mean(point.done for point in points)


def compared(results, label, reference="pgfairq"):
    """Tasks done a second beside the reference's of the same round: the median, and the ratio's."""
    rates = {}
    for name, number, points in results.data.get(NAME + " rounds", []):
        rates.setdefault(name, {})[number] = done(points)
    ours, theirs = rates.get(label, {}), rates.get(reference, {})
    ratios = [ours[number] / max(1, theirs[number]) for number in ours if number in theirs]
    return (statistics.median(ours.values()) if ours else None), (statistics.median(ratios) if ratios else None)


def rounds_section(results):
    rows = []
    labels = list(dict.fromkeys(label for label, _, _ in results.data.get(NAME + " rounds", [])))
    for label in labels:
        found = [points for name, _, points in results.data[NAME + " rounds"] if name == label]
        rate, ratio = compared(results, label)
        every = [point for points in found for point in points]
        tasks = sum(done(points) * points[-1].end for points in found)
        producing, claiming = (sum(points[-1][each] for points in found) * 1e6 / max(1, tasks) for each in (7, 8))
        claims = statistics.mean(point.claims for point in every)
        waiting = statistics.mean(point.depth for point in every)
        rows.append([label, count(rate), "%s … %s" % tuple(count(f(map(done, found))) for f in (min, max)),
                     "" if label == "pgfairq" or ratio is None else ratio_text(ratio), "%.1f" % (rate / max(1, claims)),
                     "%.0f" % producing, "%.0f" % claiming, "%.0f" % waiting, "%.1f" % (1000 * waiting / max(1, rate))])
    if not rows:
        return ""
    return ("In turn, each in rounds by itself. A claimer that got fewer than ten tasks asks again after 10 ms (`_empty`: only one that"
            " got none). A claim of PgQ is a look for the next batch, ticks are 100 ms apart.\n\n" +
            table(["system", "tasks done a second (median)", "lowest … highest", "/ pgfairq", "tasks a claim",
                   "producers' sessions, CPU µs a task", "claimers' sessions", "tasks not finished, mean",
                   "their time in the queue by that, ms"], rows) + "\n")


def report(results, plan):
    text = rounds_section(results)
    for held in (False, True):
        rows = []
        for name, was_held, points in results.data.get(NAME, []):
            if was_held != held:
                continue
            # The first window has the start in it, when tables and indexes are new.
            rows.append([name, count(done(points)), " ".join("%.1fk" % (point.done / 1000) for point in points),
                         "%.2f" % (min(point.done for point in points) / max(1, done(points))),
                         "%.2f" % (points[-1].done / max(1, points[0].done)),
                         " ".join("%.2f" % point.flush_ms for point in points),
                         " ".join("%.0f" % (point.table_bytes / 1e6) for point in points),
                         " ".join("%.0f" % (point.index_bytes / 1e6) for point in points), count(points[-1].depth)])
        if rows:
            text += "%s:\n\n" % ("With a snapshot held by another session" if held else "No snapshot held")
            text += table(["system", "tasks done a second", "in each %d s" % plan["window"], "lowest / mean", "last / first",
                           "ms a flush of WAL takes", "tables, MB", "indexes, MB", "tasks waiting at the end"], rows) + "\n"
    return text


def ahead(results):
    """Beside pgfairq: (label, where, kind of work, ratio)."""
    figures = {(name, held): done(points) for name, held, points in results.data.get(NAME, [])}
    for name, held in figures:
        if name == "pgfairq" or ("pgfairq", held) not in figures:
            continue
        ratio = None if held else compared(results, name)[1]
        yield (name, "W5 a steady mix%s" % (", snapshot held" if held else ""), "mix",
               ratio or figures[name, held] / max(1, figures["pgfairq", held]))


def goals(results):
    figures = {(name, held): points for name, held, points in results.data.get(NAME, [])}
    ours = figures.get(("pgfairq", False))
    if not ours:
        return
    clients = 2 * CLIENTS
    theirs = compared(results, "pgq")[1]
    if theirs or ("pgq", False) in figures:
        ratio = 1 / theirs if theirs else done(ours) / max(1, done(figures["pgq", False]))
        yield NAME, clients, "pgfairq / pgq, tasks done", "%.2f" % ratio, "above 1", ratio > 1
    ratio = ours[-1].done / max(1, ours[0].done)
    yield NAME, clients, "last window / first", "%.2f" % ratio, "at least 0.90", ratio >= 0.9
    sizes_ = [point.table_bytes + point.index_bytes for point in ours]
    minute = [size for size, point in zip(sizes_, ours) if point.end >= 60]
    if len(minute) > 1:
        ratio = minute[-1] / minute[0]
        yield NAME, clients, "table and indexes, at the end / after a minute", "%.2f" % ratio, "at most 1.25", ratio <= 1.25
    held = figures.get(("pgfairq", True))
    if held:
        lowest = min(point.done for point in held)
        for what, without in (("without it", done(ours)), ("lowest without it", min(point.done for point in ours))):
            ratio = lowest / max(1, without)
            yield (NAME, clients, "lowest window with the snapshot held / %s" % what, "%.2f" % ratio, "at least 0.90",
                   ratio >= 0.9)
        for name in ("skip", "pgq"):
            if (name, True) in figures:
                ratio = held[-1].done / max(1, figures[name, True][-1].done)
                yield NAME, clients, "pgfairq / %s, last window with the snapshot held" % name, "%.2f" % ratio, "above 1", ratio > 1
