#!/usr/bin/python3
"""Holders of durable leases, for test/t/faults_durable_leases.pl.

Each thread claims, extends, acks, nacks and releases at random until its
connection is lost, and notes what it has been told. Printed when all have lost
theirs: one JSON object with

    held    receipts whose claim was committed and that nobody tried to settle:
            {receipt: [task, the earliest deadline it may have, the latest]}
    tried   receipts that are being settled, nobody knows with what result
    over    receipts that were settled
    unknown claims of which no answer came: how many tasks they may have taken

A line "going" says that each thread has claimed something.
"""

import json
import logging
import random
import sys
import threading

import psycopg

conninfo, queue, threads, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
# That a connection is lost in the middle of something is what is wanted.
logging.disable()
held, tried, over, unknown = {}, {}, [], 0
lock = threading.Lock()
going = threading.Barrier(threads + 1)


def claim(conn):
    global unknown
    with lock:
        unknown += batch
    rollback = random.random() < 0.1
    with conn.transaction(force_rollback=rollback):
        tasks = conn.execute("SELECT receipt::text, id, extract(epoch FROM lease_until)::float8 FROM fairq.claim(%s, %s, lease => '1 h')",
                             (queue, batch)).fetchall()
    with lock:
        unknown -= batch
        if not rollback:
            held.update((receipt, [task, until, until]) for receipt, task, until in tasks)
    return [] if rollback else [task[0] for task in tasks]


def extend(conn, receipt):
    # In force at once, but safe only when it is committed.
    with lock:
        held[receipt][2] = 1e18
    until = conn.execute("SELECT extract(epoch FROM fairq.extend(%s, '2 h'))::float8", (receipt,)).fetchone()[0]
    assert until is not None, receipt
    with lock:
        held[receipt][1:] = [until, until]


def settle(conn, receipt):
    call = random.choice(["ack(%s)", "nack(%s, delay => '0')", "nack(%s, delay => '1 h')", "release(%s)"])
    rollback = random.random() < 0.2
    with lock:
        lease = held.pop(receipt)
        tried[receipt] = lease
    with conn.transaction(force_rollback=rollback):
        done = conn.execute("SELECT fairq." + call, (receipt,)).fetchone()[0]
        assert done, (call, receipt)
    with lock:
        del tried[receipt]
        if rollback:
            held[receipt] = lease
        else:
            over.append(receipt)


def holder():
    mine = []
    first = True
    try:
        with psycopg.connect(conninfo, autocommit=True) as conn:
            while True:
                mine = [receipt for receipt in mine if receipt in held]
                if not mine or random.random() < 0.4:
                    mine += claim(conn)
                elif random.random() < 0.3:
                    extend(conn, random.choice(mine))
                else:
                    settle(conn, random.choice(mine))
                if first:
                    going.wait()
                    first = False
    except psycopg.OperationalError:
        pass


workers = [threading.Thread(target=holder) for _ in range(threads)]
for worker in workers:
    worker.start()
going.wait()
print("going", flush=True)
for worker in workers:
    worker.join()
print(json.dumps({"held": held, "tried": tried, "over": over, "unknown": unknown}))
