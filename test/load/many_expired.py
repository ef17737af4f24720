#!/usr/bin/python3
"""Many tasks that expire at the same moment: for test/t/time_many_expired.pl and
test/bench/million_expired.sh.

Seven tenths of the tasks are ready, in a thousand groups; the others are of one
group, and so in the overflow.  Before and after the moment two processes use
a queue of their own and the queue of the crowd: enqueue, claim and acknowledge one
task after the other, and take the time of each.

The result is a JSON object, or with --markdown what a reader wants to know of it.
"""

import argparse
import json
import multiprocessing
import time

import psycopg

from many_leases import BATCH, connect, cpu_seconds, one, summary

CLAIM = ("SELECT id, receipt, group_key, coalesce(expires_at <= statement_timestamp(), false)"
         " FROM fairq.claim(%s)")


def user(args, queue, end, answers):
    """Enqueue, claim and acknowledge, and how long it took."""
    times = []
    errors = []
    late = 0
    new = 0
    try:
        with connect(args) as conn:
            while not end.is_set():
                rows = []
                for what, sql in (("enqueue", "SELECT fairq.enqueue(%s, '{}', group_key => 'new')"), ("claim", CLAIM)):
                    begin = time.time()
                    rows = conn.execute(sql, (queue,)).fetchall()
                    times.append((what, begin, time.time() - begin))
                if not rows:
                    errors.append("a claim found nothing")
                for _, receipt, group, expired in rows:
                    late += expired
                    new += (group == "new")
                    if not one(conn, "SELECT fairq.ack(%s)", receipt):
                        errors.append("a lease was lost")
                time.sleep(args.pause)
    except psycopg.Error as error:
        errors.append(str(error))
    answers.put((queue, times, late, new, errors))


def markdown(report):
    def number(value, unit=""):
        return "–" if value is None else "%.3g%s" % (value, unit)

    lines = ["%s tasks that expire in the same moment" % format(report["tasks"], ","), "",
             "| | |", "|---|---:|",
             "| until all had ended | %s |" % number(report["ended"], " s"),
             "| background worker meanwhile | %s of a core |" % (
                 number(report["busy_cpu"] * 100, " %") if "busy_cpu" in report else "–"),
             "| claimed after their expires_at | %d |" % report["late"],
             "| errors of the others meanwhile | %d |" % len(report["errors"]), "",
             "Others meanwhile, one task after the other, in milliseconds:", "",
             "| | | times | median | p99 | max |", "|---|---|---:|---:|---:|---:|"]
    names = {"crowd": "the same queue", "other": "another queue"}
    for what, latency in sorted(report["latency"].items()):
        queue, verb = what.split()
        for when, name in ("before", "none expires"), ("meanwhile", "all expire"):
            l = latency[when]
            lines.append("| %s, %s | %s | %d | %s | %s | %s |" % (
                verb, names[queue], name, l["n"], number(l["median"]), number(l["p99"]), number(l["max"])))
    return "\n".join(lines)


def fill(conn, args, moment):
    ready = args.tasks * 7 // 10
    for count, groups in (ready, "'g' || i %% 1000"), (args.tasks - ready, "'overflow'"):
        for first in range(0, count, BATCH):
            conn.execute("SELECT count(fairq.enqueue('crowd', '{}', " + groups + ", expires_at => to_timestamp(%s)))"
                         " FROM generate_series(%s::int, %s::int) i",
                         (moment, first, min(first + BATCH, count) - 1))
    conn.execute("CHECKPOINT")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--hold", type=float, required=True,
                        help="seconds from the first enqueue to the moment; the tasks must be there by then")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds, between two tasks of a user")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--patience", type=float, default=120, help="seconds until all must have ended")
    args = parser.parse_args()
    report = {"tasks": args.tasks, "errors": [], "late": 0, "new": 0}

    conn = connect(args)
    conn.execute("SELECT fairq.create_queue('crowd', keep_done => '1 day'), fairq.create_queue('other')")
    moment = time.time() + args.hold
    fill(conn, args, moment)
    if moment - time.time() < 1:
        raise SystemExit("to enqueue them took too long: --hold more")
    worker = one(conn, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity"
                 " WHERE backend_type = 'pgfairq worker' AND datname = current_database()")

    end = multiprocessing.Event()
    answers = multiprocessing.Queue()
    users = [multiprocessing.Process(target=user, args=(args, queue, end, answers)) for queue in ("crowd", "other")]
    time.sleep(max(0, moment - time.time() - 5))
    for process in users:
        process.start()
    time.sleep(max(0, moment - time.time()))
    used = cpu_seconds(worker)
    ended = None
    while time.time() < moment + args.patience:
        if one(conn, "SELECT count(*) = 0 FROM (SELECT FROM fairq.q_crowd WHERE expires_at IS NOT NULL LIMIT 1) t"):
            ended = time.time()
            break
        time.sleep(0.1)
    report["ended"] = None if ended is None else ended - moment
    if used is not None and ended is not None:
        report["busy_cpu"] = (cpu_seconds(worker) - used) / (ended - moment)
    time.sleep(0.3)
    end.set()
    report["latency"] = {}
    for _ in users:
        queue, times, late, new, errors = answers.get(timeout=60)
        report["errors"] += errors
        report["late"] += late
        report["new"] += new
        for what in "enqueue", "claim":
            report["latency"]["%s %s" % (queue, what)] = {
                "before": summary([t[2] for t in times if t[0] == what and t[1] + t[2] < moment]),
                "meanwhile": summary([t[2] for t in times if t[0] == what and moment <= t[1] + t[2] and t[1] < (ended or 1e99)])}
    for process in users:
        process.join()
    report["outcomes"] = dict(conn.execute("SELECT outcome, count(*) FROM fairq.done_crowd WHERE group_key <> 'new' GROUP BY 1").fetchall())
    report["stats"] = conn.execute("SELECT ready, leased, overflow, expired_tasks::int, swept::int FROM fairq.queue_stats WHERE queue = 'crowd'").fetchone()
    print(markdown(report) if args.markdown else json.dumps(report))


if __name__ == "__main__":
    main()
