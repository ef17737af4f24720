"""W5: a steady mix. Producers enqueue one task after the other, claimers claim up to ten and acknowledge them.

Autovacuum is on. Then the same while another session holds a snapshot.
"""

import contextlib
import os
import re
import statistics
import time

from clients import chosen
from measure import BenchError, HeldSnapshot
from report import count, table
from stream import Stream

NAME = "W5"
TITLE = "a steady mix: 8 clients enqueue one, 8 claim up to 10 and acknowledge them; without and with a snapshot held"
# seconds, held_seconds: of pgfairq without and with the snapshot held; peer_...: of the others
PLANS = {
    "quick": {"seconds": 8, "held_seconds": 8, "peer_seconds": 6, "peer_held_seconds": 8, "window": 2,
              "systems": ["pgfairq", "skip"]},
    "full": {"seconds": 90, "held_seconds": 60, "peer_seconds": 10, "peer_held_seconds": 30, "window": 5,
             "systems": ["pgfairq", "skip", "pgq", "goodman", "hatchet_idx", "graphile"]},
    "long": {"seconds": 600, "held_seconds": 300, "peer_seconds": 60, "peer_held_seconds": 120, "window": 10,
             "systems": ["pgfairq", "skip", "pgq", "goodman", "hatchet_idx", "graphile"]},
}
CLIENTS = 8
BATCH = 10


def consume(bench, one):
    """The system's own consume.sql, or the step claim_many for ten; who finds nothing asks again after 10 ms."""
    if one.has("consume"):
        return one.script("consume", batch=BATCH)
    text, found = re.subn(r" AS (\w+) FROM ((?:(?! AS ).)*?) \\gset", r" AS \1, count(*) AS got FROM \2 \\gset",
                          one.text("claim_many", "", BATCH))
    if found == 1:
        text += "\\if :got = 0\n\\sleep 10 ms\n\\endif\n"
    path = os.path.join(bench.cluster.work, "scripts", one.name + "-consume.sql")
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


def mix(bench, one, seconds, window):
    """One point a window: its end, tasks enqueued and done a second, depth, bytes of tables and of indexes."""
    points, looks = [], []
    before, then = one.depth(), 0.0
    consumers = one.consumers or CLIENTS
    one.before("claim_many", consumers)
    with contextlib.ExitStack() as stack:
        stack.callback(one.after, "claim_many", consumers)
        stack.callback(bench.cluster.end_sessions, "pgbench")
        # What has to be done regularly for it.
        if one.has("beside"):
            stack.enter_context(Stream(bench.cluster, one.script("beside"), 1, seconds + 1, window))
        with Stream(bench.cluster, one.script("enqueue"), CLIENTS, seconds + 1, window, variables(one, "enqueue"),
                    threads=1, environment=one.environment) as producers, \
                Stream(bench.cluster, consume(bench, one), consumers, seconds + 1, window, variables(one, "claim_many"),
                       threads=1, environment=one.environment) as claimers:
            start = time.monotonic()
            for number in range(1, seconds // window + 1):
                time.sleep(max(0, start + number * window - time.monotonic()))
                producers.check()
                claimers.check()
                looks.append((time.monotonic() - start, one.depth()) + sizes(bench, one))
            producers.wait()
            claimers.wait()
    # The rate of producers is pgbench's; what they enqueued and is not there any more was done.
    for (end, rate), (at, depth, table_bytes, index_bytes) in zip(producers.intervals, looks):
        points.append((round(end), rate, max(0.0, rate - (depth - before) / (at - then)), depth, table_bytes, index_bytes))
        before, then = depth, at
    if not points:
        raise BenchError("pgbench reported no progress")
    return points


def run(bench, plan):
    bench.cluster.sql("ALTER SYSTEM SET autovacuum = on", "SELECT pg_reload_conf()")
    try:
        for held in (False, True):
            for one in bench.systems("enqueue", "claim_many", postgres=True):
                if one.name == "floor" or bench.has_failed(NAME, one.name) or not chosen(bench, plan, one):
                    continue
                try:
                    series(bench, plan, one, held)
                except BenchError as error:
                    bench.fail(NAME, one.name, error)
    finally:
        bench.cluster.sql("ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")


def series(bench, plan, one, held):
    one.empty()
    one.vacuum()
    bench.checkpoint()
    seconds = plan[("" if one.name == "pgfairq" else "peer_") + ("held_seconds" if held else "seconds")]
    if held:
        with HeldSnapshot(bench.cluster) as snapshot:
            points = mix(bench, one, seconds, plan["window"])
            snapshot.check()
    else:
        points = mix(bench, one, seconds, plan["window"])
    bench.results.data.setdefault(NAME, []).append((one.name, held, points))
    for end, enqueued, done, depth, table_bytes, index_bytes in points:
        bench.results.add_raw("W5 snapshot held" if held else "W5 steady", one.name, clients=2 * CLIENTS, seconds=end,
                              enqueued_per_s=round(enqueued, 1), done_per_s=round(done, 1), depth=depth,
                              table_bytes=table_bytes, index_bytes=index_bytes)
    bench.progress("%s  %-14s %s done/s %s" % (NAME, one.name, "held    " if held else "not held",
                                             " ".join("%.1fk" % (point[2] / 1000) for point in points)))
    one.empty()


def done(points):
    """Tasks done a second, of all windows."""
    return statistics.mean(point[2] for point in points)


def report(results, plan):
    text = ""
    for held in (False, True):
        rows = []
        for name, was_held, points in results.data.get(NAME, []):
            if was_held != held:
                continue
            # The first window has the start in it, when tables and indexes are new.
            rows.append([name, count(done(points)), " ".join("%.1fk" % (point[2] / 1000) for point in points),
                         "%.2f" % (points[-1][2] / max(1, points[0][2])), " ".join("%.0f" % (point[4] / 1e6) for point in points),
                         " ".join("%.0f" % (point[5] / 1e6) for point in points), count(points[-1][3])])
        if rows:
            text += "%s:\n\n" % ("With a snapshot held by another session" if held else "No snapshot held")
            text += table(["system", "tasks done a second", "in each %d s" % plan["window"], "last / first",
                           "tables, MB", "indexes, MB", "tasks waiting at the end"], rows) + "\n"
    return text


def goals(results):
    figures = {(name, held): points for name, held, points in results.data.get(NAME, [])}
    ours = figures.get(("pgfairq", False))
    if not ours:
        return
    clients = 2 * CLIENTS
    if ("pgq", False) in figures:
        ratio = done(ours) / max(1, done(figures["pgq", False]))
        yield NAME, clients, "pgfairq / pgq, tasks done", "%.2f" % ratio, "above 1", ratio > 1
    ratio = ours[-1][2] / max(1, ours[0][2])
    yield NAME, clients, "last window / first", "%.2f" % ratio, "at least 0.90", ratio >= 0.9
    sizes_ = [point[4] + point[5] for point in ours]
    minute = [size for size, point in zip(sizes_, ours) if point[0] >= 60]
    if len(minute) > 1:
        ratio = minute[-1] / minute[0]
        yield NAME, clients, "table and indexes, at the end / after a minute", "%.2f" % ratio, "at most 1.25", ratio <= 1.25
    held = figures.get(("pgfairq", True))
    if held:
        ratio = min(point[2] for point in held) / done(ours)
        yield NAME, clients, "lowest window with the snapshot held / without it", "%.2f" % ratio, "at least 0.90", ratio >= 0.9
        for name in ("skip", "pgq"):
            if (name, True) in figures:
                ratio = held[-1][2] / max(1, figures[name, True][-1][2])
                yield NAME, clients, "pgfairq / %s, last window with the snapshot held" % name, "%.2f" % ratio, "above 1", ratio > 1
