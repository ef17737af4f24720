#!/usr/bin/python3
"""Sessions that await tasks, for test/t/waiting_outcomes.pl and
test/bench/thousand_awaiters.sh.

awaiters.py many CONNINFO NUMBER SECONDS STRIDE
    NUMBER sessions await a task each, one in STRIDE of queue "many", and for SECONDS nothing
    happens. Then each task is acknowledged with a result of its own. Printed:
    one JSON object with the answers that were wrong, how many processes were
    woken while nothing happened or by the end of another one's task, and the
    time from the end of the ack to the answer in microseconds.

awaiters.py burst CONNINFO NUMBER
    The same, but all tasks are acknowledged with one statement. Printed: the answers
    that were wrong, and the time from the end of that statement to each answer.

awaiters.py rounds CONNINFO SECONDS
    A task is acknowledged in the moment in which somebody begins to await it, again
    and again, in queue "rounds", which has an archive: so the answer is always the
    result, also if the ack was first. Printed: the number of rounds, the answers
    that were none, and how often the ack was before, and after, the await began.
"""

import json
import random
import select
import statistics
import sys
import threading
import time

import psycopg


def connect(conninfo, **more):
    return psycopg.connect(conninfo, autocommit=True, **more)


def switches(pid):
    """How often a process has gone to sleep."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])


def until_asleep(control, number):
    deadline = time.monotonic() + 150
    while True:
        asleep = control.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                                 " AND wait_event_type = 'Extension' AND query ~ 'fairq.await'").fetchone()[0]
        if asleep >= number:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"only {asleep} of {number} wait")
        time.sleep(0.05)


# --- many -----------------------------------------------------------------------

def answer(waiter):
    """The row that a session got, which is ready to be read."""
    row = None
    while True:
        result = waiter.pgconn.get_result()
        if result is None:
            return row
        if result.ntuples != 1:
            raise SystemExit("no answer: %s" % result.error_message)
        row = [None if result.get_value(0, i) is None else result.get_value(0, i).decode() for i in range(2)]


def await_many(control, conninfo, number, stride):
    """The receipts of tasks that are leased, and the sessions that sleep for one in STRIDE of them."""
    ids = control.execute("SELECT fairq.enqueue_many('many', array_agg(to_jsonb(i))) FROM generate_series(1, %s) i", (number * stride,)).fetchone()[0]
    tasks = dict(control.execute("SELECT id, receipt FROM fairq.claim('many', %s, '1 h')", (number * stride,)).fetchall())
    if sorted(tasks) != sorted(ids):
        raise SystemExit(f"{len(tasks)} of {number * stride} tasks were claimed")
    # Nor may a time limit end their wait, or wake them.
    waiters = {task: connect(conninfo, options="-c statement_timeout=0") for task in ids[::stride]}
    for task, waiter in waiters.items():
        waiter.pgconn.send_query(b"SELECT o.state, o.result FROM fairq.await('many', %d, '10 min') o" % task)
        waiter.pgconn.flush()
    until_asleep(control, number)
    time.sleep(0.5)
    return tasks, waiters


def quantiles(facts, latencies):
    latencies.sort()
    facts["p50"] = round(statistics.median(latencies))
    facts["p99"] = round(latencies[int(len(latencies) * 0.99)])
    facts["last"] = round(latencies[-1])


def burst(conninfo, number):
    facts = {"number": number, "wrong": []}
    with connect(conninfo) as control:
        tasks, waiters = await_many(control, conninfo, number, 1)
        sleeping = {waiter.fileno(): task for task, waiter in waiters.items()}
        poll = select.poll()
        for file in sleeping:
            poll.register(file, select.POLLIN)
        control.execute("SELECT count(*) FROM fairq.ack_many(%s::uuid[])", (list(tasks.values()),))
        acked = time.monotonic()
        latencies = []
        while sleeping:
            ready = poll.poll(60000)
            now = time.monotonic()
            if not ready:
                facts["wrong"] += [[task, "no answer"] for task in sleeping.values()]
                break
            for file, _ in ready:
                task = sleeping.pop(file)
                poll.unregister(file)
                latencies.append((now - acked) * 1e6)
                waiters[task].pgconn.consume_input()
                row = answer(waiters[task])
                if row != ["acked", None]:
                    facts["wrong"].append([task, row])
        quantiles(facts, latencies)
    print(json.dumps(facts))


def many(conninfo, number, seconds, stride):
    facts = {"number": number, "wrong": []}
    with connect(conninfo) as control:
        tasks, waiters = await_many(control, conninfo, number, stride)
        ids = list(waiters)
        pids = {task: waiter.info.backend_pid for task, waiter in waiters.items()}

        before = {task: switches(pid) for task, pid in pids.items()}
        time.sleep(seconds)
        facts["idle_woken"] = sum(switches(pid) != before[task] for task, pid in pids.items())

        latencies = []
        first_half = ids[:number // 2]
        for task in ids:
            control.execute("SELECT fairq.ack(%s, to_jsonb(%s::bigint))", (tasks[task], task))
            acked = time.monotonic()
            waiter = waiters[task]
            if not select.select([waiter], [], [], 60)[0]:
                facts["wrong"].append([task, "no answer"])
                continue
            waiter.pgconn.consume_input()
            row = answer(waiter)
            latencies.append((time.monotonic() - acked) * 1e6)
            if row != ["acked", str(task)]:
                facts["wrong"].append([task, row])
            if task == first_half[-1]:
                facts["others_woken"] = sum(switches(pids[other]) != before[other] for other in ids[number // 2:])
        quantiles(facts, latencies)
    print(json.dumps(facts))


# --- rounds ---------------------------------------------------------------------

class Pair:
    """One who acknowledges, and one who awaits, over and over."""

    def __init__(self, conninfo, end):
        self.conninfo = conninfo
        self.end = end
        self.start = threading.Barrier(2)
        self.task = None
        self.rounds = self.acks_first = self.awaits_first = 0
        self.wrong = []
        self.times = {}

    def ack(self):
        with connect(self.conninfo) as conn:
            chance = random.Random()
            while time.monotonic() < self.end:
                conn.execute("SELECT fairq.enqueue('rounds', '1')")
                rows = conn.execute("SELECT id, receipt FROM fairq.claim('rounds')").fetchall()
                if not rows:
                    continue        # another pair has it
                self.task, receipt = rows[0]
                self.start.wait()
                time.sleep(chance.random() * 0.001)
                conn.execute("SELECT fairq.ack(%s, to_jsonb(%s::bigint))", (receipt, self.task))
                self.times["acked"] = time.monotonic()
                self.start.wait()
            self.task = None
            self.start.wait()

    def await_(self):
        with connect(self.conninfo) as conn:
            chance = random.Random()
            while True:
                self.start.wait()
                if self.task is None:
                    break
                time.sleep(chance.random() * 0.001)
                began = time.monotonic()
                row = conn.execute("SELECT o.state, o.result::text FROM fairq.await('rounds', %s, '1 min') o", (self.task,)).fetchone()
                self.rounds += 1
                # Who was overlooked sees for himself when his time is up.
                if row != ("acked", str(self.task)) or time.monotonic() - began > 50:
                    self.wrong.append([self.task, row])
                self.start.wait()
                if self.times["acked"] < began:
                    self.acks_first += 1
                else:
                    self.awaits_first += 1


def rounds(conninfo, seconds):
    pairs = [Pair(conninfo, time.monotonic() + seconds) for _ in range(4)]
    threads = [threading.Thread(target=work) for pair in pairs for work in (pair.ack, pair.await_)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({
        "rounds": sum(pair.rounds for pair in pairs),
        "acks_first": sum(pair.acks_first for pair in pairs),
        "awaits_first": sum(pair.awaits_first for pair in pairs),
        "wrong": [wrong for pair in pairs for wrong in pair.wrong][:10],
    }))


if __name__ == "__main__":
    if sys.argv[1] == "burst":
        burst(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "many":
        many(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
    else:
        rounds(sys.argv[2], float(sys.argv[3]))
