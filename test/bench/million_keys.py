#!/usr/bin/python3
"""Remembered keys: for million_keys.sh, which see.

    million_keys.py fill|count|forget CONNINFO NUMBER [COUNTS]

Queue "many" has them all, queue "few" has none until the last two calls that are
counted.  A call is made 200 times in one session and 600 times in another; the
figure is the difference divided by 400.
"""

import os
import re
import sys
import time

import psycopg

from many_leases import cpu_seconds, one

FEW = 200


def fill(conn, number):
    for queue in "few", "many":
        conn.execute("SELECT fairq.create_queue(%s, max_ready_per_group => 1000000)", (queue,))
        conn.execute("SELECT fairq.enqueue(%s, '{}')", (queue,))
    conn.execute("INSERT INTO fairq_internal.remembered_key"
                 " SELECT 'many', 'key ' || i, i, now() + '1 day' FROM generate_series(1, %s) i", (number,))
    conn.execute("VACUUM ANALYZE fairq_internal.remembered_key")
    print("| %s remembered keys: table, indexes | %s |" % (format(number, ","), one(
        conn, "SELECT pg_size_pretty(pg_table_size(t)) || ', ' || pg_size_pretty(pg_indexes_size(t))"
              " FROM (SELECT 'fairq_internal.remembered_key'::regclass AS t) t")))
    print("|---|---:|")


def session(conninfo, counts, sql, keys):
    """What a session executed that made these calls."""
    with psycopg.connect(conninfo, autocommit=True, prepare_threshold=0) as conn:
        pid = conn.info.backend_pid
        for key in keys:
            conn.execute(sql, (key,) if "%s" in sql else None)
    path = os.path.join(counts, str(pid))
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        if not os.path.exists("/proc/%d" % pid) and os.path.exists(path):
            with open(path) as lines:
                found = re.findall(r"^totals: (\d+)", lines.read(), re.M)
            if found:
                return sum(map(int, found))
        time.sleep(0.02)
    raise SystemExit("valgrind wrote no %s" % path)


def count(conninfo, number, counts):
    new = iter(range(1, 1000000))
    old = iter(range(1, number + 1, max(1, number // 2000)))
    calls = [
        ("without a key", "few", "", None), ("without a key", "many", "", None),
        ("with a new key", "few", ", unique_key => %s", new), ("with a new key", "many", ", unique_key => %s", new),
        ("with a key that is remembered", "many", ", unique_key => %s", old),
        ("with a new key and unique_for", "few", ", unique_key => %s, unique_for => '1 day'", new),
        ("with a new key and unique_for", "many", ", unique_key => %s, unique_for => '1 day'", new),
    ]
    for queue in "few", "many":  # who comes first after a start reads what there is
        session(conninfo, counts, "SELECT fairq.enqueue('%s', '{}')" % queue, [None] * 10)
    for name, queue, arguments, keys in calls:
        totals = [session(conninfo, counts, "SELECT fairq.enqueue('%s', '{}'%s)" % (queue, arguments),
                          ["%skey %d" % ("" if keys is old else "new ", next(keys)) if keys else None
                           for _ in range(calls)]) for calls in (FEW, 3 * FEW)]
        print("| enqueue %s, in the queue with %s | %s instructions |" % (
            name, "them" if queue == "many" else "none before", format((totals[1] - totals[0]) // (2 * FEW), ",")),
            flush=True)


def forget(conn, number):
    # A pass at the start looks at what there is; it is not to be in the figure.
    time.sleep(3)
    conn.execute("UPDATE fairq_internal.remembered_key SET until = now()")
    rows = one(conn, "SELECT count(*) FROM fairq_internal.remembered_key")
    worker = one(conn, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'pgfairq worker'")
    began, cpu = time.monotonic(), cpu_seconds(worker)
    left = rows
    times = []
    while left and time.monotonic() - began < 900:
        for _ in range(20):
            asked = time.monotonic()
            conn.execute("SELECT fairq.enqueue('many', '{}')")
            times.append(time.monotonic() - asked)
            time.sleep(0.025)
        left = one(conn, "SELECT count(*) FROM fairq_internal.remembered_key")
    took = time.monotonic() - began
    times.sort()
    print("| to forget %s of them | %.1f s, %s a second; the worker %.0f %% of a core |" % (
        format(rows - left, ","), took, format(int((rows - left) / took), ","), 100 * (cpu_seconds(worker) - cpu) / took))
    print("| an enqueue into the queue meanwhile: median, 99 %%, longest | %.2f, %.2f, %.2f ms |" % (
        1000 * times[len(times) // 2], 1000 * times[len(times) * 99 // 100], 1000 * times[-1]))


def main():
    step, conninfo, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if step == "count":
        count(conninfo, number, sys.argv[4])
        return
    with psycopg.connect(conninfo, autocommit=True) as conn:
        {"fill": fill, "forget": forget}[step](conn, number)


if __name__ == "__main__":
    main()
