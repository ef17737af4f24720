#!/usr/bin/python3
"""Schedules with a tick each second: for thousand_schedules.sh, which see.

The worker's processor time is that of /proc/PID/stat.  A tick is late by the time
from the second that it is for (the task's headers have it) to the commit of the
task, as track_commit_timestamp has it.
"""

import argparse
import time

import psycopg

from many_leases import cpu_seconds, one

QUEUES = 10


def wait_for(conn, condition, seconds=60):
    end = time.monotonic() + seconds
    while not one(conn, condition):
        if time.monotonic() > end:
            raise SystemExit("still not: %s" % condition)
        time.sleep(0.1)


def measure(conn, seconds):
    """What the next so many seconds are like: share of a core, ticks, lateness."""
    worker = one(conn, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'pgfairq worker'")
    wal = one(conn, "SELECT pg_current_wal_insert_lsn()")
    began, cpu = time.time(), cpu_seconds(worker)
    time.sleep(seconds)
    share = (cpu_seconds(worker) - cpu) / (time.time() - began)
    ended = time.time()
    wal = one(conn, "SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", wal)
    tables = " UNION ALL ".join("SELECT xmin, headers FROM fairq.q_s%d" % i for i in range(QUEUES))
    # Whole seconds only: of these each schedule is to have had each.
    ticks, seconds, due, p50, p99, last = conn.execute(
        "SELECT count(*), count(DISTINCT tick), %%s * count(DISTINCT tick),"
        " percentile_cont(0.5) WITHIN GROUP (ORDER BY late), percentile_cont(0.99) WITHIN GROUP (ORDER BY late), max(late)"
        " FROM (SELECT (headers->>'tick')::timestamptz AS tick,"
        "   extract(epoch FROM pg_xact_commit_timestamp(xmin) - (headers->>'tick')::timestamptz) AS late FROM (%s) t) t"
        " WHERE tick >= to_timestamp(ceil(%%s)) AND tick < to_timestamp(floor(%%s) - 1)" % tables,
        (one(conn, "SELECT count(*) FROM fairq.schedules"), began, ended)).fetchone()
    return {"share": share, "ticks": ticks, "due": due, "seconds": seconds, "p50": p50, "p99": p99, "last": last,
            "wal": float(wal) / max(ticks, 1)}


def measure_idle(conn):
    worker = one(conn, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'pgfairq worker'")
    cpu = cpu_seconds(worker)
    time.sleep(5)
    return (cpu_seconds(worker) - cpu) / 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--schedules", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        for i in range(QUEUES):
            conn.execute("SELECT fairq.create_queue(%s, max_ready_per_group => 10000000, max_ready => 10000000)", ("s%d" % i,))
        wait_for(conn, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'pgfairq worker'")
        idle = measure_idle(conn)
        conn.execute("SELECT fairq.schedule('every second ' || i, 's' || i %% %s, '* * * * * *', overlap => true)"
                     " FROM generate_series(1, %s) i", (QUEUES, args.schedules))
        time.sleep(5)
        got = measure(conn, args.seconds)
        print("| schedules with a tick each second | %s |\n|---|---:|" % format(args.schedules, ","))
        print("| the background worker before there were any | %.1f %% of a core |" % (100 * idle))
        print("| with them | %.1f %% of a core, %.0f µs a tick |" % (
            100 * got["share"], 1e6 * got["share"] * args.seconds / max(got["ticks"], 1)))
        print("| ticks of %d seconds, of those that were due | %d of %d |" % (got["seconds"], got["ticks"], got["due"]))
        print("| late by, from the second to the commit: median, 99 %%, last | %.2f, %.2f, %.2f s |" % (
            got["p50"], got["p99"], got["last"]))
        print("| WAL a tick, task included | %.0f bytes |" % got["wal"])


if __name__ == "__main__":
    main()
