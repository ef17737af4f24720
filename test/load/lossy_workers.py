#!/usr/bin/python3
"""Workers that die of what they hold, for test/t/faults_lost.pl.

    lossy_workers.py CONNINFO QUEUE WORKERS BATCH SECONDS

Each worker is a process with a bound session. It claims BATCH tasks at a time, and a
second batch before it has ended the first, as one that works ahead does. A task whose
payload is "poison" kills it with SIGKILL when its turn comes; another worker takes its
place. All end when the queue has nothing but dead tasks, or after SECONDS.

Printed at the end: one JSON object with

    killed     how many workers died
    done       how many tasks were acknowledged
    together   claims, or holdings, of a task that was lost twice beside others
    seconds    how long it took
    normal     when the last task was done that was never lost
"""

import json
import os
import signal
import sys
import time

import psycopg

conninfo, queue, workers, batch, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
CLAIM = "SELECT receipt, payload, attempt FROM fairq.claim(%s, %s, session => %s, wait => %s)"
ALONE = 3       # the attempt of a task that was lost twice and has never failed


def work(report):
    """A worker, until the queue is empty; a line for each batch goes to the report."""
    conn = psycopg.connect(conninfo, autocommit=True)
    session = conn.execute("SELECT fairq.open_session('lossy', '1 h', true)").fetchone()[0]
    held = []
    end = time.time() + seconds
    while time.time() < end:
        tasks = conn.execute(CLAIM, (queue, batch, session, "0" if held else "200 ms")).fetchall()
        alone = any(task[2] >= ALONE for task in tasks)
        together = int(alone and len(tasks) + len(held) > 1 or bool(tasks) and any(task[2] >= ALONE for task in held))
        # The first half of what is held, so that a part of it is there at the next claim.
        held += tasks
        now, held = (held, []) if alone or not tasks else (held[:batch], held[batch:])
        for _, payload, _ in now:
            if payload == "poison":
                os.kill(os.getpid(), signal.SIGKILL)
        acked = conn.execute("SELECT count(*) FROM fairq.ack_many(%s)", ([task[0] for task in now],)).fetchone()[0]
        os.write(report, b"%d %d %d %f\n" % (acked, together, not alone, time.time()))
        if not tasks and not now and conn.execute("SELECT NOT EXISTS (SELECT FROM fairq.tasks(%s) WHERE state <> 'dead')", (queue,)).fetchone()[0]:
            break
    conn.execute("SELECT fairq.close_session(%s)", (session,))
    conn.close()


def start(report):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work(report)
            status = 0
        finally:
            os._exit(status)
    return pid


begun = time.time()
output, report = os.pipe()
running = {start(report) for _ in range(workers)}
killed = failed = 0
lines = b""
os.set_blocking(output, False)


def read():
    global lines
    try:
        while chunk := os.read(output, 65536):
            lines += chunk
    except BlockingIOError:
        pass


while running:
    read()
    pid, status = os.waitpid(-1, os.WNOHANG)
    if pid == 0:
        time.sleep(0.01)
        continue
    running.discard(pid)
    if os.WIFSIGNALED(status):
        killed += 1
        running.add(start(report))
    elif os.waitstatus_to_exitcode(status) != 0:
        failed += 1
read()
rows = [line.split() for line in lines.splitlines()]
print(json.dumps({
    "killed": killed, "failed": failed, "done": sum(int(row[0]) for row in rows), "together": sum(int(row[1]) for row in rows),
    "seconds": time.time() - begun,
    "normal": max([float(row[3]) - begun for row in rows if int(row[0]) and int(row[2])], default=0)}))
