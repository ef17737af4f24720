#!/usr/bin/python3
"""Many leases that run out at the same moment: for test/t/time_many_leases.pl
and test/bench/million_leases.sh.

Eight tenths of the tasks are in a queue without a backoff, one in a queue whose
tasks wait before they come back, one in a queue with one attempt.  All are
leased, up to one and the same time.  Before that, while nothing runs out, the
CPU time of the background worker is measured; before and after it, two
processes use a queue of their own and the queue of the crowd, enqueue, claim
and acknowledge one task after the other, and take the time of each.

The result is a JSON object, or with --markdown what a reader wants to know of it.
"""

import argparse
import json
import multiprocessing
import os
import time

import psycopg

SHARES = {"crowd": 0.8, "waiting": 0.1, "final": 0.1}
BATCH = 10000


def connect(args):
    return psycopg.connect(args.conninfo, autocommit=True)


def one(conn, sql, *params):
    return conn.execute(sql, params).fetchone()[0]


def user(args, queue, end, answers):
    """Enqueue, claim and acknowledge, and how long it took."""
    times = []
    acked = []
    errors = []
    try:
        with connect(args) as conn:
            while not end.is_set():
                for what, sql in (
                        ("enqueue", "SELECT fairq.enqueue(%s, '{}', group_key => 'new')"),
                        ("claim", "SELECT id, receipt, attempt FROM fairq.claim(%s)")):
                    begin = time.time()
                    rows = conn.execute(sql, (queue,)).fetchall()
                    times.append((what, begin, time.time() - begin))
                if not rows:
                    errors.append("a claim found nothing")
                for task, receipt, attempt in rows:
                    if one(conn, "SELECT fairq.ack(%s)", receipt):
                        acked.append((task, attempt))
                    else:
                        errors.append("a lease was lost")
                time.sleep(args.pause)
    except psycopg.Error as error:
        errors.append(str(error))
    answers.put((queue, times, acked, errors))


def summary(times):
    """Number, and median, 99th percentile and maximum in milliseconds."""
    times = sorted(times)
    if not times:
        return {"n": 0, "median": None, "p99": None, "max": None}
    return {"n": len(times), "median": times[len(times) // 2] * 1000,
            "p99": times[min(len(times) - 1, len(times) * 99 // 100)] * 1000, "max": times[-1] * 1000}


def cpu_seconds(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def markdown(report):
    def number(value, unit=""):
        return "–" if value is None else "%.3g%s" % (value, unit)

    lines = ["%s leases that run out in the same moment" % format(report["leases"], ","), "",
             "| | |", "|---|---:|",
             "| to claim them, 10,000 at a time | %s |" % number(report["claim_seconds"], " s"),
             "| background worker while they are in flight and nothing runs out | %s of a core |" % (
                 number(report["idle_cpu"] * 100, " %") if "idle_cpu" in report else "–"),
             "| until all were put back | %s |" % number(report["back"], " s"),
             "| background worker meanwhile | %s of a core |" % (
                 number(report["busy_cpu"] * 100, " %") if "busy_cpu" in report else "–"),
             "| errors of the others meanwhile | %d |" % len(report["errors"]), "",
             "Others meanwhile, one task after the other, in milliseconds:", "",
             "| | | times | median | p99 | max |", "|---|---|---:|---:|---:|---:|"]
    names = {"crowd": "the same queue", "other": "another queue"}
    for what, latency in sorted(report["latency"].items()):
        queue, verb = what.split()
        for when, name in ("before", "nothing runs out"), ("meanwhile", "all run out"):
            l = latency[when]
            lines.append("| %s, %s | %s | %d | %s | %s | %s |" % (
                verb, names[queue], name, l["n"], number(l["median"]), number(l["p99"]), number(l["max"])))
    lines += ["", "What became of the tasks (%d more were acknowledged at their second attempt):" % report["acked_again"], "",
              "| | |", "|---|---:|"]
    lines += ["| %s | %s |" % (name, format(n, ",")) for name, n in sorted(report["tasks"].items())]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--leases", type=int, required=True)
    parser.add_argument("--hold", type=float, required=True,
                        help="seconds from the first claim to the end of all leases; claims must be done by then")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds, between two tasks of a user")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--patience", type=float, default=120, help="seconds until all must be back")
    args = parser.parse_args()
    report = {"leases": args.leases, "errors": []}
    counts = {queue: int(args.leases * share) for queue, share in SHARES.items()}

    conn = connect(args)
    conn.execute("SELECT fairq.create_queue('crowd', backoff_base => '0'), fairq.create_queue('other', backoff_base => '0'),"
                 " fairq.create_queue('waiting', backoff_base => '1 h'), fairq.create_queue('final', max_lost => 1)")
    for queue, count in counts.items():
        for first in range(0, count, BATCH):
            conn.execute("SELECT count(*) FROM unnest(fairq.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s::int]),"
                         " group_keys => ARRAY(SELECT 'g' || i %% 100 FROM generate_series(1, %s::int) i)))",
                         (queue, min(BATCH, count - first), min(BATCH, count - first)))
    conn.execute("CHECKPOINT")
    deadline = time.time() + args.hold
    begin = time.time()
    # To the same instant: what remains until then, from the time of the claim.
    for queue, count in counts.items():
        claimed = 0
        while claimed < count:
            number = one(conn, "SELECT count(*) FROM fairq.claim(%s, %s, lease => to_timestamp(%s) - clock_timestamp())",
                         queue, BATCH, deadline)
            if number == 0:
                raise SystemExit("%d tasks of %s cannot be claimed" % (count - claimed, queue))
            claimed += number
    report["claim_seconds"] = time.time() - begin
    first, last = conn.execute(
        "SELECT extract(epoch FROM min(lease_until))::float8, extract(epoch FROM max(lease_until))::float8 FROM fairq.leases").fetchone()
    report["spread"] = last - first
    report["in_flight"] = one(conn, "SELECT count(*) FROM fairq.leases")

    # In flight, and nothing runs out.
    worker = one(conn, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity"
                 " WHERE backend_type = 'pgfairq worker' AND datname = current_database()")
    begin, used = time.time(), cpu_seconds(worker)
    idle = (first - begin) / 2
    if idle < 0.5:
        raise SystemExit("claims took too long, %.1f s: --hold more" % report["claim_seconds"])
    time.sleep(idle)
    if used is not None:
        report["idle_cpu"] = (cpu_seconds(worker) - used) / (time.time() - begin)

    end = multiprocessing.Event()
    answers = multiprocessing.Queue()
    users = [multiprocessing.Process(target=user, args=(args, queue, end, answers)) for queue in ("crowd", "other")]
    for process in users:
        process.start()

    time.sleep(max(0, last - time.time()))
    used, begin = cpu_seconds(worker), time.time()
    back = None
    while time.time() < last + args.patience:
        # Attempts that ended this way; counted at commit.
        if one(conn, "SELECT sum(expired) FROM fairq.queue_stats") >= sum(counts.values()):
            back = time.time()
            break
        time.sleep(max(0.02, args.leases / 4e6))
    report["back"] = None if back is None else back - last
    if used is not None and back is not None:
        report["busy_cpu"] = (cpu_seconds(worker) - used) / (back - begin)
    time.sleep(0.3)
    end.set()
    acked = []
    report["latency"] = {}
    for _ in users:
        queue, times, done, errors = answers.get(timeout=60)
        report["errors"] += errors
        if queue == "crowd":
            acked = done
        for what in "enqueue", "claim":
            report["latency"]["%s %s" % (queue, what)] = {
                "before": summary([t[2] for t in times if t[0] == what and t[1] + t[2] < first]),
                "meanwhile": summary([t[2] for t in times if t[0] == what and first <= t[1] + t[2] and t[1] < (back or 1e99)])}
    for process in users:
        process.join()

    # Everything is there once, with one attempt.
    report["tasks"] = {}
    for queue in counts:
        for state, attempts, lost, error, number in conn.execute(
                "SELECT state, attempts, lost, history->-1->>'error', count(*) FROM fairq.tasks(%s) WHERE group_key <> 'new' GROUP BY 1, 2, 3, 4", (queue,)):
            report["tasks"]["%s: %s, %s attempts, %s lost, %s" % (queue, state, attempts, lost, error)] = number
    new = {row[0] for row in conn.execute("SELECT id FROM fairq.tasks('crowd') WHERE group_key = 'new'")}
    report["acked_twice"] = len(acked) - len({task for task, _ in acked})
    report["acked_again"] = sum(attempt == 2 for _, attempt in acked)
    report["acked_odd"] = sum(attempt not in (1, 2) for _, attempt in acked)
    report["new_left"] = len(new)
    report["leased"] = one(conn, "SELECT count(*) FROM fairq.leases")
    print(markdown(report) if args.markdown else json.dumps(report))


if __name__ == "__main__":
    main()
