#!/usr/bin/python3
"""Claimers side by side, for test/t/engine_fair_order.pl and engine_shares.pl.

Each process claims again and again until the queue gives nothing, and
acknowledges nothing, so that what comes out is the order of claims alone.
With --fail GROUP tasks are acknowledged, but those of GROUP fail, with --delay.
Printed: one JSON list of [time, task, group, cost, claimer, begin], in the order
in which the claims returned; group has "/" and the subgroup behind it. The time is taken by the server after the claim has
returned, per row, so rows of one claim stay in their order; begin is when it
gave the lease.

With --newcomer GROUP NUMBER AFTER a further session enqueues NUMBER tasks of
GROUP once about AFTER tasks have been claimed, and the list has one more
entry [time, null, GROUP, 0, null, null] for the moment before.
"""

import argparse
import json
import multiprocessing
import sys
import time

import psycopg

CLAIM = ("WITH c AS MATERIALIZED (SELECT * FROM fairq.claim(%s, %s, lease => '1 h'))"
         " SELECT extract(epoch FROM clock_timestamp())::float8, id, group_key || coalesce('/' || subgroup_key, ''),"
         " coalesce((payload->>'cost')::float8, 1), receipt,"
         " extract(epoch FROM lease_until - interval '1 h')::float8 FROM c")


def claimer(args, number, barrier, count, queue):
    result = []
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        conn.execute("SELECT count(*) FROM fairq.peek(%s, 1)", (args.queue,))
        barrier.wait()
        while args.limit == 0 or count.value < args.limit:
            tasks = conn.execute(CLAIM, (args.queue, args.batch)).fetchall()
            if not tasks:
                break
            with count.get_lock():
                count.value += len(tasks)
            result.extend(list(t[:4]) + [number, t[5]] for t in tasks)
            if args.fail:
                failed = [t[4] for t in tasks if t[2] == args.fail]
                done = [t[4] for t in tasks if t[2] != args.fail]
                conn.execute("SELECT (SELECT count(*) FROM fairq.ack_many(%s)), (SELECT count(*) FROM fairq.nack_many(%s, delay => %s))",
                             (done, failed, args.delay))
    queue.put(result)


def newcomer(args, barrier, count, queue):
    group, number, after = args.newcomer[0], int(args.newcomer[1]), int(args.newcomer[2])
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        # So that nothing has to be loaded when it is her turn.
        conn.execute("BEGIN")
        conn.execute("SELECT fairq.enqueue(%s, '{}')", (args.queue,))
        conn.execute("ROLLBACK")
        barrier.wait()
        while count.value < after:
            time.sleep(0.001)
        at = conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]
        conn.execute("SELECT fairq.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s]), group_keys => ARRAY[%s])",
                     (args.queue, number, group))
    queue.put([[at, None, group, 0, None, None]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--claimers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--newcomer", nargs=3)
    parser.add_argument("--fail")
    parser.add_argument("--delay")
    args = parser.parse_args()

    barrier = multiprocessing.Barrier(args.claimers + (args.newcomer is not None))
    count = multiprocessing.Value("q", 0)
    queue = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=claimer, args=(args, i, barrier, count, queue))
                 for i in range(args.claimers)]
    if args.newcomer:
        processes.append(multiprocessing.Process(target=newcomer, args=(args, barrier, count, queue)))
    for p in processes:
        p.start()
    order = []
    for p in processes:
        order.extend(queue.get(timeout=300))
    for p in processes:
        p.join()
        if p.exitcode != 0:
            sys.exit("a process ended with %s" % p.exitcode)
    order.sort(key=lambda row: row[0])
    json.dump(order, sys.stdout)


if __name__ == "__main__":
    main()
