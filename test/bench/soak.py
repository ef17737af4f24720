"""A queue in steady use, and what may not grow meanwhile. Started by soak.sh."""

import argparse
import bisect
import csv
import os
import random
import sys
import time

from clients import PAYLOAD, Crowd, Session, array, median
from measure import TICK, BenchError, Cluster, HeldSnapshot

WORKERS = 4
PACE = 20           # cycles a second of each
BATCH = 10          # tasks enqueued a cycle
CLAIM = "SELECT receipt, attempt FROM fairq.claim('soak', 20, lease => $1::interval)"
ENQUEUE = ("SELECT cardinality(fairq.enqueue_many('soak', $1::jsonb[], $2::text[],"
           " run_ats => ARRAY(SELECT now() + i * interval '100 ms' FROM unnest($3::int[]) i)))")
SETTLE = {
    "ack": "SELECT count(*) FROM fairq.ack_many($1::uuid[])",
    "nack": "SELECT count(*) FROM fairq.nack_many($1::uuid[], ARRAY['no luck'])",
    "release": "SELECT count(*) FROM fairq.release_many($1::uuid[])",
}


def worker(number, barrier, stop):
    """Enqueues, a quarter of it for later; claims, and lets go of it in every way."""
    source = random.Random(number)
    counts = dict.fromkeys(("enqueued", "ack", "nack", "release", "expire"), 0)
    with Session() as session:
        for sql in [CLAIM, ENQUEUE] + list(SETTLE.values()):
            session.prepare(sql)
        barrier.wait()
        start, cycle = time.monotonic(), 0
        while not stop.is_set():
            cycle += 1
            groups = ["g%d" % source.randrange(1000) for _ in range(BATCH)]
            delays = [source.randrange(1, 50) if source.random() < 0.25 else 0 for _ in range(BATCH)]
            session.rows(ENQUEUE, array([PAYLOAD] * BATCH), array(groups), "{%s}" % ",".join(map(str, delays)))
            counts["enqueued"] += BATCH
            how = source.random()
            # One claim in twenty is left to run out.
            rows = session.rows(CLAIM, "1 s" if how < 0.05 else "30 s")
            if how < 0.05:
                counts["expire"] += len(rows)
            else:
                ways = {"ack": [], "nack": [], "release": []}
                for receipt, _ in rows:
                    chance = source.random()
                    ways["nack" if chance < 0.1 else "release" if chance < 0.15 else "ack"].append(receipt)
                for way, receipts in ways.items():
                    if receipts:
                        session.rows(SETTLE[way], array(receipts))
                        counts[way] += len(receipts)
            time.sleep(max(0, start + cycle / PACE - time.monotonic()))
    return counts


def anonymous(pid):
    """Bytes of memory of its own of a process; not the shared memory, which it comes to know bit by bit."""
    try:
        with open("/proc/%s/smaps_rollup" % pid) as rollup:
            for line in rollup:
                if line.startswith("Anonymous:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def cpu(pid):
    with open("/proc/%s/stat" % pid) as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Horizon:
    """How many seconds the oldest snapshot of the server is behind."""

    def __init__(self):
        self.times, self.next = [], []

    def look(self, session):
        oldest, following = (int(value) for value in session.rows(
            "SELECT following - (SELECT coalesce(max(age(backend_xmin)), 0) FROM pg_stat_activity), following"
            " FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS following) s")[0])
        now = time.monotonic()
        self.times.append(now)
        self.next.append(following)
        # When that transaction id was the next one.
        at = bisect.bisect_right(self.next, oldest) - 1
        return now - self.times[max(0, at)] if oldest < following else 0.0


def worker_pid(session):
    rows = session.rows("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = current_database()")
    if len(rows) != 1:
        raise BenchError("there are %d background workers" % len(rows))
    return rows[0][0]


def watch(session, crowd, seconds, every):
    """A sample each so often: seconds, the worker's memory, the largest session's, horizon, tasks, processor share."""
    horizon, samples = Horizon(), []
    pid = worker_pid(session)
    start = time.monotonic()
    used, at, oldest = cpu(pid), start, 0.0
    while time.monotonic() < start + seconds and not crowd.stop.is_set():
        oldest = max(oldest, horizon.look(session))
        now = time.monotonic()
        if now - at >= every:
            if worker_pid(session) != pid:
                raise BenchError("the background worker is another one now: the server's log says why")
            clients = [anonymous(row[0]) for row in session.rows(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")]
            tasks = session.value("SELECT count(*) FROM fairq.q_soak")
            share = (cpu(pid) - used) / (now - at)
            samples.append((now - start, anonymous(pid), max([c for c in clients if c] or [0]), oldest, int(tasks), share))
            print("%5.0f s  worker %6d kB  sessions %6d kB  horizon %4.1f s  tasks %6d  worker's CPU %5.2f %%" % (
                samples[-1][0], samples[-1][1] / 1024, samples[-1][2] / 1024, oldest, int(tasks), 100 * share), flush=True)
            used, at, oldest = cpu(pid), now, 0.0
        time.sleep(0.2)
    return samples


def parts(samples, column):
    """The median of the first and of the last third; the beginning, when caches fill, does not count."""
    settled = samples[len(samples) // 10:]
    third = max(1, len(settled) // 3)
    return (median([each[column] for each in settled[:third]]), median([each[column] for each in settled[-third:]]))


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def judge(samples, held):
    """Rows: what, first third, last third, what is allowed, whether it is so."""
    rows = []

    def row(what, first, last, allowed, text, unit):
        rows.append((what, text % first + unit, text % last + unit, text % allowed + unit, last <= allowed))

    for what, column in (("memory of the background worker", 1), ("memory of the largest session", 2)):
        first, last = (value / 1024 for value in parts(samples, column))
        row(what, first, last, first * 1.02 + 256, "%.0f", " kB")
    row("age of the oldest snapshot, the largest of all", parts(samples, 3)[0], max(each[3] for each in samples), 15,
        "%.1f", " s")
    first, last = parts(samples, 4)
    row("tasks in the queue", first, last, first * 1.2 + 1000, "%.0f", "")
    if held:
        first, last = parts(held, 5)
        row("share of a processor of the background worker, snapshot held", 100 * first, 100 * last,
            100 * first * 1.25 + 0.5, "%.2f", " %")
    return rows


def main():
    parser = argparse.ArgumentParser()
    for name in ("--bindir", "--data", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--held", type=float, default=120)
    parser.add_argument("--results")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.bindir, arguments.data, arguments.work)
    seconds = arguments.minutes * 60
    every = max(2.0, min(10.0, seconds / 12))
    with Session() as session:
        session.run("SELECT fairq.create_queue('soak', backoff_base => '200 ms', backoff_max => '2 s', max_ready_per_group => 1000)")
        session.rows("SELECT count(fairq.set_group('soak', 'g' || i, weight => 1 + i % 3, max_leased => 50)) FROM generate_series(0, 99) i")
        with Crowd(worker, WORKERS) as crowd:
            crowd.begin()
            print("%g minutes of use" % arguments.minutes, flush=True)
            samples = watch(session, crowd, seconds, every)
            held = []
            if arguments.held:
                print("%g seconds with a snapshot held" % arguments.held, flush=True)
                with HeldSnapshot(cluster) as snapshot:
                    held = watch(session, crowd, arguments.held, max(2.0, min(10.0, arguments.held / 12)))
                    snapshot.check()
            counts = crowd.end()
        rows = judge(samples, held)
        text = "# Soak, %g minutes, and %g seconds with a snapshot held\n\n%s\n" % (
            arguments.minutes, arguments.held, "%s, PostgreSQL %s; %s.\n" % (
                time.strftime("%Y-%m-%d", time.gmtime()), session.value("SHOW server_version"),
                ", ".join("%s %d" % (what, sum(each[what] for each in counts)) for what in counts[0])))
    text += table(["", "first third", "last third", "allowed", "flat"],
                  [row[:4] + ("yes" if row[4] else "**no**",) for row in rows])
    if held:
        text += "\nThe background worker's share of a processor while the snapshot was held: %s %%\n" % " ".join(
            "%.2f" % (100 * each[5]) for each in held)
    print("\n" + text)
    if arguments.results:
        os.makedirs(arguments.results, exist_ok=True)
        with open(os.path.join(arguments.results, "soak.md"), "w") as target:
            target.write(text)
        with open(os.path.join(arguments.results, "soak.csv"), "w", newline="") as target:
            writer = csv.writer(target, lineterminator="\n")
            writer.writerow(["phase", "seconds", "worker_bytes", "session_bytes", "horizon_seconds", "tasks", "worker_cpu_share"])
            for phase, some in (("use", samples), ("held", held)):
                writer.writerows([phase] + [round(value, 4) for value in each] for each in some)
    sys.exit(0 if all(row[4] for row in rows) else 1)


if __name__ == "__main__":
    main()
