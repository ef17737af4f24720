#!/usr/bin/python3
"""Claimers that wait, for test/t/waiting_claims.pl.

waiters.py idle CONNINFO NUMBER SECONDS
    NUMBER sessions wait for tasks of queue "idle", and nothing comes for SECONDS;
    then one task, then five in one transaction. How much processor time did they
    take, and how many processes were woken? Printed: one JSON object.

waiters.py rounds CONNINFO SECONDS
    Producers and waiting claimers of many kinds, round after round, for SECONDS but
    for FEWEST rounds at least, however slow the machine is: a few tasks
    are enqueued at the moment when the claimers fall asleep, and then no others
    until these have all been acknowledged. So nobody who was overlooked is woken
    by somebody else's task. Printed: one JSON object with the number of rounds,
    of tasks, and the longest that a round took.

waiters.py latency CONNINFO NUMBER
    From the producer's commit to the waiting claimer's row, NUMBER times. Printed:
    median and 99th percentile in microseconds, waiting with fairq.claim, with
    fairq.wait, and with LISTEN.
"""

import json
import random
import select
import statistics
import sys
import threading
import time

import psycopg

FEWEST = 20


def connect(conninfo, **more):
    return psycopg.connect(conninfo, autocommit=True, **more)


# --- idle ---------------------------------------------------------------------

def cpu(pid):
    """Processor time of a process in clock ticks."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def switches(pid):
    """How often a process has gone to sleep."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])


class Watch:
    """Which of the processes were woken since the last look."""

    def __init__(self, pids):
        self.pids = pids
        self.before = {pid: switches(pid) for pid in pids}

    def woken(self):
        return self.others([])

    def others(self, pids):
        """How many but for these."""
        return sum(switches(pid) != self.before[pid] for pid in self.pids if pid not in pids)


def results(waiters, wanted, seconds=60):
    """Read the results of those that have some, until there are as many as wanted."""
    tasks = 0
    done = []
    deadline = time.monotonic() + seconds
    while tasks < wanted and time.monotonic() < deadline:
        ready, _, _ = select.select([w for w in waiters if w not in done], [], [], 1)
        for waiter in ready:
            waiter.pgconn.consume_input()
            while not waiter.pgconn.is_busy():
                result = waiter.pgconn.get_result()
                if result is None:
                    done.append(waiter)
                    break
                tasks += result.ntuples
    return tasks, done


def idle(conninfo, number, seconds):
    facts = {}
    with connect(conninfo) as control:
        # Nor may a time limit end their wait, or wake them.
        waiters = [connect(conninfo, options="-c statement_timeout=0") for _ in range(number)]
        pids = [w.info.backend_pid for w in waiters]
        for waiter in waiters:
            waiter.pgconn.send_query(b"SELECT id FROM fairq.claim('idle', wait => '10 min')")
            waiter.pgconn.flush()
        deadline = time.monotonic() + 150
        while True:
            asleep = control.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                                     " AND wait_event_type = 'Extension' AND query ~ 'wait'").fetchone()[0]
            if asleep >= number:
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"only {asleep} of {number} wait")
            time.sleep(0.05)
        time.sleep(0.5)

        watch = Watch(pids)
        before = sum(map(cpu, pids))
        time.sleep(seconds)
        facts["idle_cpu"] = (sum(map(cpu, pids)) - before) / 100
        facts["idle_woken"] = watch.woken()

        for name, tasks in (("one", 1), ("five", 5)):
            watch = Watch(pids)
            control.execute("SELECT fairq.enqueue_many('idle', array_fill('{}'::jsonb, ARRAY[%s]))", (tasks,))
            got, done = results(waiters, tasks)
            time.sleep(0.3)  # whoever was woken besides has been by now
            facts[name + "_got"] = got
            # Whoever has a task was woken, though he may not have gone to sleep again yet.
            served = [waiter.info.backend_pid for waiter in done]
            facts[name + "_woken"] = watch.others(served) + len(served)
            for waiter in done:
                pids.remove(waiter.info.backend_pid)
                waiters.remove(waiter)
        control.execute("SELECT pg_cancel_backend(pid) FROM unnest(%s) pid", (pids,))
    print(json.dumps(facts))


# --- rounds -------------------------------------------------------------------

class Rounds:
    """Claimers of one queue, and a producer that goes on when all is done."""

    def __init__(self, conninfo, queue, end):
        self.conninfo = conninfo
        self.queue = queue
        self.end = end
        self.over = False  # nothing more is going to be enqueued
        self.open = 0  # tasks of this round that have not been acknowledged
        self.changed = threading.Condition()
        self.rounds = 0
        self.tasks = 0
        self.longest = 0.0
        self.stuck = None
        self.pids = []
        self.failed = []
        self.threads = []

    def going(self):
        return not self.over and self.stuck is None and not self.failed

    def start(self, function, *args):
        def run():
            try:
                with connect(self.conninfo) as connection:
                    function(connection, *args)
            except Exception as error:  # for the report
                self.failed.append(repr(error))
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def acknowledged(self, number):
        if number == 0:
            return
        with self.changed:
            self.open -= number
            self.changed.notify_all()

    def claim(self, connection, arguments, chaos):
        """Claim, waiting, and acknowledge; with a few accidents."""
        self.pids.append(connection.info.backend_pid)
        rng = random.Random()
        while self.going():
            wait = rng.choice(["1 ms", "3 ms", "20 ms"]) if rng.random() < 0.2 * chaos else "100 s"
            receipts = tasks = []
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.settle(connection, [])
            try:
                # Without psycopg's transaction(), which a cancel at the wrong moment confuses.
                connection.execute("BEGIN")
                tasks = connection.execute(
                    f"SELECT receipt FROM fairq.claim(%s, %s, wait => %s{arguments})",
                    (self.queue, rng.randint(1, 3), wait)).fetchall()
                if tasks and chaos and rng.random() < 0.1:
                    connection.execute("ROLLBACK")
                else:
                    receipts = [t[0] for t in tasks]
                    connection.execute("COMMIT")
                tasks = []
                if receipts and chaos and rng.random() < 0.1:
                    connection.execute("SELECT count(*) FROM fairq.release_many(%s)", (receipts,))
                elif receipts and chaos and rng.random() < 0.1:
                    connection.execute("SELECT count(*) FROM fairq.nack_many(%s, delay => %s)", (receipts, rng.choice(["0", "5 ms"])))
                elif receipts:
                    tasks = connection.execute("SELECT fairq.ack_many(%s)", (receipts,)).fetchall()
            except psycopg.errors.QueryCanceled:
                tasks = self.settle(connection, receipts)
            self.acknowledged(len(tasks))

    def settle(self, connection, receipts):
        """Was cancelled, in a commit, rollback or acknowledgement perhaps: try until it is sure."""
        while True:
            try:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
                elif receipts:
                    return connection.execute("SELECT fairq.ack_many(%s)", (receipts,)).fetchall()
                else:
                    return []
            except psycopg.errors.QueryCanceled:
                pass

    def call(self, connection):
        """Wait with fairq.wait, then claim."""
        self.pids.append(connection.info.backend_pid)
        while self.going():
            receipts = []
            try:
                connection.execute("CALL fairq.wait(%s, '100 s')", (self.queue,))
                receipts = [t[0] for t in connection.execute("SELECT receipt FROM fairq.claim(%s, 2)", (self.queue,)).fetchall()]
            except psycopg.errors.QueryCanceled:
                pass
            self.acknowledged(len(self.settle(connection, receipts)))

    def cancel(self, connection):
        """Cancel one of the claimers now and then."""
        rng = random.Random()
        while self.going():
            time.sleep(rng.random() * 0.02)
            connection.execute("SELECT pg_cancel_backend(%s)", (rng.choice(self.pids or [0]),))

    def produce(self, connection, groups):
        rng = random.Random()
        while self.going() and (self.rounds < FEWEST or time.monotonic() < self.end):
            number = rng.choice([1, 1, 1, 2, 3, 5])
            begin = time.monotonic()
            with self.changed:
                self.open = number
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.003)
            with connection.transaction():
                connection.execute(
                    "SELECT fairq.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s]), group_keys => %s)",
                    (self.queue, number, [rng.choice(groups) for _ in range(number)]))
            with self.changed:
                if not self.changed.wait_for(lambda: self.open <= 0, timeout=60):
                    self.stuck = f"{self.open} of {number} tasks were left: " + str(connection.execute(
                        "SELECT t.id, t.state, t.group_key, t.address, l.pid, l.state, a.state, a.query, (SELECT count(*) FROM fairq.peek(%s))"
                        " FROM fairq.tasks(%s) t LEFT JOIN fairq.leases l ON l.id = t.id AND l.queue = %s LEFT JOIN pg_stat_activity a ON a.pid = l.pid",
                        (self.queue, self.queue, self.queue)).fetchall())
            self.longest = max(self.longest, time.monotonic() - begin)
            self.rounds += 1
            self.tasks += number
        self.over = True


def rounds(conninfo, seconds):
    end = time.monotonic() + seconds
    queues = []

    def add(queue, claimers, groups=("",), chaos=False, calls=0):
        r = Rounds(conninfo, queue, end)
        for arguments in claimers:
            r.start(r.claim, arguments, chaos)
        for _ in range(calls):
            r.start(r.call)
        if chaos:
            r.start(r.cancel)
        r.start(r.produce, groups)
        queues.append(r)

    with connect(conninfo) as control:
        for queue in ("any", "groups", "buckets", "calls", "chaos"):
            control.execute("SELECT fairq.create_queue(%s, buckets => 2, backoff_base => '0', max_attempts => 0)", (queue,))
    add("any", [""] * 4)
    add("groups", [", group_keys => '{a}'", ", group_keys => '{b}'", ", group_keys => '{a,b}'"], groups=("a", "b"))
    add("buckets", [", buckets => '{0}'", ", buckets => '{1}'", ", buckets => '{1}'", ""], groups=("a", "b", "c"))
    add("calls", [], calls=3)
    add("chaos", ["", ", buckets => '{0}'", ", buckets => '{1}'", ", group_keys => '{a}'", ", group_keys => '{b}'"],
        groups=("a", "b"), chaos=True, calls=1)
    # Who waits, waits for longer than a round may take: nobody looks again who was
    # not told. So at the end they are cancelled.
    with connect(conninfo) as control:
        for r in queues:
            for thread in r.threads:
                while thread.is_alive():
                    if not r.going():
                        control.execute("SELECT pg_cancel_backend(pid) FROM unnest(%s) pid", (r.pids,))
                    thread.join(0.1)
    print(json.dumps({r.queue: {"rounds": r.rounds, "tasks": r.tasks, "longest": round(r.longest, 3),
                                "stuck": r.stuck, "failed": r.failed} for r in queues}))


# --- latency ------------------------------------------------------------------

def latency(conninfo, number):
    facts = {}
    with connect(conninfo) as control:
        control.execute("SELECT fairq.create_queue('latency', notify => true)")

    def by_claim(connection):
        return connection.execute("SELECT receipt FROM fairq.claim('latency', wait => '100 s')").fetchone()

    def by_wait(connection):
        while True:
            connection.execute("CALL fairq.wait('latency', '10 s')")
            task = connection.execute("SELECT receipt FROM fairq.claim('latency')").fetchone()
            if task:
                return task

    told = []

    def by_listen(connection):
        while True:
            told.clear()
            task = connection.execute("SELECT receipt FROM fairq.claim('latency')").fetchone()
            if task:
                return task
            # One that came with that answer is told to the handler, and not to notifies().
            if told:
                continue
            notifications = connection.notifies()
            next(notifications)
            notifications.close()

    def by_polling(connection):
        while True:
            task = connection.execute("SELECT receipt FROM fairq.claim('latency')").fetchone()
            if task:
                return task
            time.sleep(0.1)

    for name, wait in (("claim", by_claim), ("wait", by_wait), ("listen", by_listen), ("polling_100_ms", by_polling)):
        took = []
        committed = []
        again = threading.Semaphore(0)

        def consume():
            with connect(conninfo) as connection:
                if wait is by_listen:
                    connection.add_notify_handler(told.append)
                    connection.execute("LISTEN fairq_latency")
                for _ in range(number):
                    again.release()
                    receipt = wait(connection)[0]
                    took.append(time.perf_counter())
                    connection.execute("SELECT fairq.ack(%s)", (receipt,))

        thread = threading.Thread(target=consume)
        thread.start()
        with connect(conninfo) as producer:
            for i in range(number):
                again.acquire()
                time.sleep(0.01 + random.random() * (0.1 if wait is by_polling else 0.002))
                producer.execute("BEGIN")
                producer.execute("SELECT fairq.enqueue('latency', '1')")
                committed.append(time.perf_counter())
                producer.execute("COMMIT")
        thread.join()
        usecs = sorted((t - c) * 1e6 for t, c in zip(took, committed))
        facts[name] = {"median": round(statistics.median(usecs)), "p99": round(usecs[int(len(usecs) * 0.99)])}
    print(json.dumps(facts))


def main():
    what, conninfo = sys.argv[1:3]
    if what == "idle":
        idle(conninfo, int(sys.argv[3]), float(sys.argv[4]))
    elif what == "rounds":
        rounds(conninfo, float(sys.argv[3]))
    elif what == "latency":
        latency(conninfo, int(sys.argv[3]))


if __name__ == "__main__":
    main()
