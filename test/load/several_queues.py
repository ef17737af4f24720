#!/usr/bin/python3
"""Waiters of several queues each, for test/t/waiting_any.pl.

several_queues.py wakes CONNINFO NUMBER
    NUMBER sessions wait, each for three of six queues, and tasks come: one, then some
    to each queue in one transaction, then some from many transactions at once. Which
    processes are woken, and who gets what? Printed: one JSON object.

several_queues.py rounds CONNINFO SECONDS
    Claimers of all kinds, each of queues of its own choice: those of several queues
    at once, of one, and clients that only wait. A few tasks are enqueued to queues at
    random while the claimers fall asleep, some of which are cancelled; then no others
    until these have all been acknowledged. So a waiter that was overlooked is not
    woken by another task. It takes SECONDS, and FEWEST rounds at least. Printed: one
    JSON object.
"""

import json
import random
import sys
import threading
import time

import psycopg

from waiters import FEWEST, Watch, connect, results

QUEUES = ["one", "two", "three", "four", "five", "six"]


def create(control):
    for queue in QUEUES:
        control.execute("SELECT fairq.create_queue(%s, buckets => 1, backoff_base => '0', max_attempts => 0)", (queue,))


# --- wakes --------------------------------------------------------------------

class Wakes:
    def __init__(self, conninfo, number):
        self.conninfo = conninfo
        self.waiters = [connect(conninfo, options="-c statement_timeout=0") for _ in range(number)]
        self.facts = {}
        for i, waiter in enumerate(self.waiters):
            queues = [QUEUES[(i + j) % len(QUEUES)] for j in (0, 1, 3)]
            sql = "SELECT queue, id FROM fairq.claim_any('{%s}', wait => '10 min')" % ",".join(queues)
            waiter.pgconn.send_query(sql.encode())
            waiter.pgconn.flush()

    def asleep(self, control):
        deadline = time.monotonic() + 150
        while control.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                              " AND wait_event_type = 'Extension' AND query ~ 'wait'").fetchone()[0] < len(self.waiters):
            if time.monotonic() > deadline:
                raise SystemExit("they do not all wait")
            time.sleep(0.05)
        time.sleep(0.5)

    def come(self, name, enqueue, tasks):
        """So many tasks come; who is woken?"""
        pids = [waiter.info.backend_pid for waiter in self.waiters]
        watch = Watch(pids)
        enqueue()
        got, done = results(self.waiters, tasks)
        time.sleep(0.3)  # whoever was woken besides has been by now
        served = [waiter.info.backend_pid for waiter in done]
        self.facts[name] = {"tasks": tasks, "got": got, "served": len(served), "others": watch.others(served)}
        for waiter in done:
            self.waiters.remove(waiter)

    def from_many(self, number):
        """A producer for each of many tasks, all at once."""
        start = threading.Barrier(number)

        def produce(queue):
            with connect(self.conninfo) as connection:
                start.wait()
                connection.execute("SELECT fairq.enqueue(%s, '{}')", (queue,))
        threads = [threading.Thread(target=produce, args=(QUEUES[i % len(QUEUES)],)) for i in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def wakes(conninfo, number):
    with connect(conninfo) as control:
        create(control)
        w = Wakes(conninfo, number)
        w.asleep(control)
        w.come("one", lambda: control.execute("SELECT fairq.enqueue('three', '{}')"), 1)
        w.come("each", lambda: control.execute("SELECT fairq.enqueue(q, '{}') FROM unnest(%s::text[]) q, generate_series(1, 4)", (QUEUES,)),
               4 * len(QUEUES))
        w.come("many", lambda: w.from_many(24), 24)
        left = sum(control.execute("SELECT count(*) FROM fairq.tasks(%s, 'ready')", (queue,)).fetchone()[0] for queue in QUEUES)
        w.facts["left"] = left
        for waiter in w.waiters:
            control.execute("SELECT pg_cancel_backend(%s)", (waiter.info.backend_pid,))
        for queue in QUEUES:
            control.execute("SELECT fairq.drop_queue(%s)", (queue,))
    print(json.dumps(w.facts))


# --- rounds -------------------------------------------------------------------

class Rounds:
    def __init__(self, conninfo, seconds):
        self.conninfo = conninfo
        self.end = time.monotonic() + seconds
        self.over = False
        self.open = 0
        self.changed = threading.Condition()
        self.facts = {"rounds": 0, "tasks": 0, "longest": 0.0, "stuck": None, "failed": []}
        self.pids = []
        self.threads = []

    def going(self):
        return not self.over and self.facts["stuck"] is None and not self.facts["failed"]

    def start(self, function, *args):
        def run():
            try:
                with connect(self.conninfo) as connection:
                    function(connection, *args)
            except Exception as error:  # for the report
                self.facts["failed"].append(repr(error))
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def settle(self, connection, receipts):
        """Acknowledge, however often that is cancelled."""
        acked = []
        while True:
            try:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
                if receipts:
                    acked = connection.execute("SELECT fairq.ack_many(%s)", (receipts,)).fetchall()
                break
            except psycopg.errors.QueryCanceled:
                pass
        if acked:
            with self.changed:
                self.open -= len(acked)
                self.changed.notify_all()

    def claim(self, connection, sql, queues):
        """Claim, waiting, and acknowledge; a few claims are rolled back or released."""
        self.pids.append(connection.info.backend_pid)
        rng = random.Random()
        while self.going():
            receipts = []
            wait = rng.choice(["1 ms", "3 ms", "20 ms"]) if rng.random() < 0.1 else "100 s"
            try:
                connection.execute("BEGIN")
                tasks = [t[0] for t in connection.execute(sql, (queues, rng.randint(1, 3), wait)).fetchall()]
                if tasks and rng.random() < 0.1:
                    connection.execute("ROLLBACK")
                    tasks = []
                else:
                    receipts = tasks
                    connection.execute("COMMIT")
                if receipts and rng.random() < 0.1:
                    connection.execute("SELECT count(*) FROM fairq.release_many(%s)", (receipts,))
                    receipts = []
            except psycopg.errors.QueryCanceled:
                pass
            self.settle(connection, receipts)

    def call(self, connection, queues):
        """Wait, then claim without."""
        self.pids.append(connection.info.backend_pid)
        while self.going():
            receipts = []
            try:
                connection.execute("CALL fairq.wait_any(%s, '100 s')", (queues,))
                receipts = [t[0] for t in connection.execute("SELECT receipt FROM fairq.claim_any(%s, 2)", (queues,)).fetchall()]
            except psycopg.errors.QueryCanceled:
                pass
            self.settle(connection, receipts)

    def cancel(self, connection):
        rng = random.Random()
        while self.going():
            time.sleep(rng.random() * 0.02)
            connection.execute("SELECT pg_cancel_backend(%s)", (rng.choice(self.pids or [0]),))

    def left(self, connection):
        return "; ".join("%s: %s" % (queue, connection.execute(
            "SELECT t.id, t.state, t.address, l.pid, l.state, a.query FROM fairq.tasks(%s) t"
            " LEFT JOIN fairq.leases l ON l.id = t.id AND l.queue = %s LEFT JOIN pg_stat_activity a ON a.pid = l.pid",
            (queue, queue)).fetchall()) for queue in QUEUES)

    def produce(self, connection):
        rng = random.Random()
        while self.going() and (self.facts["rounds"] < FEWEST or time.monotonic() < self.end):
            to = [rng.choice(QUEUES) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
            begin = time.monotonic()
            with self.changed:
                self.open = len(to)
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.003)
            if rng.random() < 0.5:
                connection.execute("SELECT fairq.enqueue(q, '{}') FROM unnest(%s::text[]) q", (to,))
            else:
                for queue in to:
                    connection.execute("SELECT fairq.enqueue(%s, '{}')", (queue,))
            with self.changed:
                if not self.changed.wait_for(lambda: self.open <= 0, timeout=60):
                    self.facts["stuck"] = "%d of %s were left: %s" % (self.open, to, self.left(connection))
            self.facts["longest"] = round(max(self.facts["longest"], time.monotonic() - begin), 3)
            self.facts["rounds"] += 1
            self.facts["tasks"] += len(to)
        self.over = True


def rounds(conninfo, seconds):
    rng = random.Random()
    with connect(conninfo) as control:
        create(control)
    r = Rounds(conninfo, seconds)
    several = "SELECT receipt FROM fairq.claim_any(%s, %s, wait => %s)"
    # Each queue has two that claim from it and others.
    for i in range(len(QUEUES)):
        queues = [QUEUES[i], QUEUES[(i + 1) % len(QUEUES)]] + rng.sample(QUEUES, rng.randrange(4))
        rng.shuffle(queues)
        r.start(r.claim, several, queues)
    r.start(r.claim, several, QUEUES)
    r.start(r.claim, "SELECT receipt FROM fairq.claim(%s, %s, wait => %s)", "two")
    r.start(r.call, ["five", "one"])
    r.start(r.call, QUEUES[::-1])
    r.start(r.cancel)
    r.start(r.produce)
    # Their waits are longer than a round may take, so at the end they are cancelled.
    with connect(conninfo) as control:
        for thread in r.threads:
            while thread.is_alive():
                if not r.going():
                    control.execute("SELECT pg_cancel_backend(pid) FROM unnest(%s::int[]) pid", (r.pids,))
                thread.join(0.1)
    print(json.dumps(r.facts))


if __name__ == "__main__":
    {"wakes": lambda: wakes(sys.argv[2], int(sys.argv[3])),
     "rounds": lambda: rounds(sys.argv[2], float(sys.argv[3]))}[sys.argv[1]]()
