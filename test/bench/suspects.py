#!/usr/bin/python3
"""Sessions that always have work, beside suspects: for suspects.sh, which see.

A worker is a process with a bound session and some slots.  A task is in its slot
for a time; when it has ended it is acknowledged, and as many are claimed as slots
are free.  So a worker never empties itself, unless it drains for a suspect.

The suspects are of as many tenants that have no other tasks: so those that may have a
place (16 of a queue at a time) are what claims come to first, all the time.
"""

import argparse
import multiprocessing
import statistics
import sys
import time

import psycopg

SHAPES = ((4, 10, 0.010), (10, 1, 0.020), (1, 20, 0.010))   # sessions, slots of each, seconds of a task
SUSPECTS = (0, 1, 100, 1000)
TENANTS = 10
LONGEST = 300           # seconds of a measurement
BACKLOG, BATCH = 10000, 1000    # so much of other work is there at least; so much is enqueued at a time
CLAIM = "SELECT receipt, attempt FROM fairq.claim('work', %s, session => %s)"
FIRST_AS_SUSPECT = 3    # the attempt of a task that was lost twice and has never failed
FILL = ("SELECT cardinality(fairq.enqueue_many('work', array_agg(to_jsonb(n)), array_agg(%s || n %% %s), run_ats => ARRAY[now() + %s]))"
        " FROM generate_series(1, %s) n")


class Worker(multiprocessing.Process):
    """What it has done is in shared memory, for the one that measures."""

    def __init__(self, conninfo, slots, length, context):
        super().__init__(daemon=True)
        self.conninfo, self.slots, self.length = conninfo, slots, length
        self.ready, self.go, self.stop = context
        self.ordinary = multiprocessing.Value("q", 0, lock=False)
        self.suspects = multiprocessing.Value("q", 0, lock=False)
        self.last = multiprocessing.Value("d", 0, lock=False)
        self.wrong = multiprocessing.Value("q", 0, lock=False)

    def run(self):
        conn = psycopg.connect(self.conninfo, autocommit=True)
        session = conn.execute("SELECT fairq.open_session('bench', '1 h', bound => true)").fetchone()[0]
        self.ready.release()
        self.go.wait()
        running = []            # (when it ends, receipt, suspect), the earliest first
        while not self.stop.is_set():
            now = time.monotonic()
            ended = [one for one in running if one[0] <= now]
            if ended:
                running = running[len(ended):]
                self.settle(conn, ended)
            free = self.slots - len(running)
            tasks = conn.execute(CLAIM, (free, session)).fetchall() if free else []
            if any(attempt >= FIRST_AS_SUSPECT for _, attempt in tasks) and len(tasks) + len(running) > 1:
                self.wrong.value += 1
            now = time.monotonic()
            running += [(now + self.length, receipt, attempt >= FIRST_AS_SUSPECT) for receipt, attempt in tasks]
            # A session that drains answers nothing; it is asked again when a slot is free, as a worker does.
            time.sleep(max(0, (running[0][0] if running else now + 0.002) - time.monotonic()))
        conn.close()

    def settle(self, conn, ended):
        conn.execute("SELECT count(*) FROM fairq.ack_many(%s)", ([receipt for _, receipt, _ in ended],))
        suspects = sum(suspect for _, _, suspect in ended)
        self.ordinary.value += len(ended) - suspects
        if suspects:
            self.last.value = time.monotonic()
            self.suspects.value += suspects


def fill(conn, suspects):
    conn.execute("SELECT fairq.drop_queue(queue) FROM fairq.queues")
    conn.execute("SELECT fairq.create_queue('work', lease => '1 h', max_ready => 10000000, max_ready_per_group => 10000000)")
    if suspects:
        conn.execute(FILL, ("other", TENANTS, "1 h", suspects))
        conn.execute("UPDATE fairq.q_work SET lost = 2")
        conn.execute("UPDATE fairq.q_work SET run_at = now()")
    conn.execute(FILL, ("tenant", TENANTS, "0", BACKLOG))


def measure(conninfo, conn, shape, suspects, seconds):
    """Ordinary tasks a second, and seconds until the last suspect had run."""
    sessions, slots, length = shape
    fill(conn, suspects)
    enqueued = BACKLOG
    ready, go, stop = multiprocessing.Semaphore(0), multiprocessing.Event(), multiprocessing.Event()
    workers = [Worker(conninfo, slots, length, (ready, go, stop)) for _ in range(sessions)]
    for worker in workers:
        worker.start()
    for _ in workers:
        if not ready.acquire(timeout=60):
            raise SystemExit("a worker has not come up")
    begun = time.monotonic()
    go.set()
    while True:
        now, done = time.monotonic() - begun, sum(worker.ordinary.value for worker in workers)
        run = sum(worker.suspects.value for worker in workers)
        if now >= seconds and run >= suspects or now > LONGEST or not all(worker.is_alive() for worker in workers):
            break
        if enqueued - done < BACKLOG:
            enqueued += conn.execute(FILL, ("tenant", TENANTS, "0", BATCH)).fetchone()[0]
        else:
            time.sleep(0.02)
    stop.set()
    for worker in workers:
        worker.join()
        if worker.exitcode != 0 or worker.wrong.value:
            raise SystemExit("a worker has failed, or had a suspect beside other tasks")
    if run < suspects:
        print("%d of %d suspects have not run in %d s" % (suspects - run, suspects, LONGEST), file=sys.stderr)
    last = max(worker.last.value for worker in workers) - begun if run else 0
    if enqueued - done < 0.5 * BACKLOG:
        raise SystemExit("the work has nearly ended: a larger BATCH is needed")
    return done / now, last if run >= suspects else float("inf")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    figures = {(shape, suspects): [] for shape in SHAPES for suspects in SUSPECTS}
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        for number in range(args.rounds):
            for (shape, suspects), some in figures.items():
                some.append(measure(args.conninfo, conn, shape, suspects, args.seconds))
                print("round %d: %s, %d suspects: %.0f tasks/s, the last suspect after %.2f s" % (number + 1, shape, suspects, *some[-1]),
                      file=sys.stderr)
    print("| sessions × slots, a task takes | none: tasks a second | %s |" % " | ".join(format(n, ",") + " suspects" for n in SUSPECTS[1:]))
    print("|---|---:|%s" % ("---:|" * len(SUSPECTS[1:])))
    for shape in SHAPES:
        none = [rate for rate, _ in figures[shape, 0]]
        cells = ["%.0f %%, the last after %.2f s" % (
            100 * statistics.median(rate / without for (rate, _), without in zip(figures[shape, n], none)),
            statistics.median(last for _, last in figures[shape, n])) for n in SUSPECTS[1:]]
        print("| %d × %d, %d ms | %.0f | %s |" % (*shape[:2], 1000 * shape[2], statistics.median(none), " | ".join(cells)))


if __name__ == "__main__":
    main()
