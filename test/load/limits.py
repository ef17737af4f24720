#!/usr/bin/python3
"""Claimers of groups with limits, for test/t/limits_groups.pl.

Each process claims, holds what it got for a few milliseconds, and lets go of
it in one of many ways: some are rolled back, some run out, in some the backend
or the client is killed. Of each lease it notes from when to when it was held at
least: from after the claim has returned to before it began to let go. So if
more of these overlap than the limit, it was broken; there is no moment at which
that could be overlooked for want of a look.

An observer looks at fairq.leases all the time. One look may see leases that
were not there at the same time, so it counts those that two looks in turn saw.

Printed: one JSON object, see judge().
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import time

import psycopg

KEY = "group_key || coalesce('/' || subgroup_key, '')"
CLAIM = f"SELECT id, receipt, {KEY}, extract(epoch FROM lease_until)::float8 FROM fairq.claim(%s, %s, lease => %s)"
POP = f"SELECT id, receipt, {KEY}, 0 FROM fairq.pop(%s, %s)"
WAYS = ["ack", "ack", "ack", "ack many", "nack", "nack later", "release", "expire", "rollback", "savepoint",
        "pop", "pop rolled back", "ack rolled back", "cancel", "session"]


class Claimer:
    def __init__(self, args, number, stop, kills):
        self.args, self.stop, self.kills = args, stop, kills
        self.random = random.Random(args.seed * 1000 + number)
        self.held = []              # group, from, until
        self.calls = []             # begun, ended, groups of the tasks it got
        self.ways = {}
        self.first = list(kills)    # these are rare: each once to begin with
        self.connect()

    def connect(self):
        self.conn = psycopg.connect(self.args.conninfo, autocommit=True)

    def claim(self, conn, n, query=CLAIM, lease="60 s"):
        begun = time.time()
        arguments = (self.args.queue, n) if query == POP else (self.args.queue, n, lease)
        tasks = conn.execute(query, arguments).fetchall()
        now = time.time()
        self.calls.append([begun, now, [t[2] for t in tasks]])
        for t in tasks:
            if t[2] in self.args.claimed:
                with self.args.claimed[t[2]].get_lock():
                    self.args.claimed[t[2]].value += 1
        return tasks, now

    def end(self, tasks, begun):
        now = time.time()
        self.held.extend([t[2], begun, now] for t in tasks)

    def hold(self):
        time.sleep(self.random.random() * self.args.hold)

    def once(self):
        way = self.first.pop() if self.first else self.random.choice(WAYS + self.kills)
        n = self.random.choice([1, 1, 2, 5])
        conn = self.conn
        self.ways[way] = self.ways.get(way, 0) + 1
        if way == "client":
            self.lose_client(n)
        elif way in ("rollback", "savepoint", "pop", "pop rolled back", "backend"):
            conn.execute("BEGIN")
            if way == "savepoint":
                conn.execute("SAVEPOINT a")
            tasks, begun = self.claim(conn, n, POP if way.startswith("pop") else CLAIM)
            self.hold()
            self.end(tasks, begun)
            if way == "backend":
                with psycopg.connect(self.args.conninfo, autocommit=True) as other:
                    other.execute("SELECT pg_terminate_backend(%s, 10000)", (conn.info.backend_pid,))
                conn.close()
                self.connect()
            elif way == "savepoint":
                conn.execute("ROLLBACK TO a")
                conn.execute("COMMIT")
            else:
                conn.execute("COMMIT" if way == "pop" else "ROLLBACK")
        elif way == "session":
            session = conn.execute("SELECT fairq.open_session(ttl => '60 s')").fetchone()[0]
            begun = time.time()
            tasks = conn.execute(f"SELECT id, receipt, {KEY} FROM fairq.claim(%s, %s, session => %s)",
                                 (self.args.queue, n, session)).fetchall()
            now = time.time()
            self.calls.append([begun, now, [t[2] for t in tasks]])
            self.hold()
            self.end(tasks, now)
            conn.execute("SELECT fairq.close_session(%s)", (session,))
        elif way == "expire":
            tasks, begun = self.claim(conn, n, lease="20 ms")
            for t in tasks:
                self.held.append([t[2], begun, max(begun, t[3])])
        else:
            tasks, begun = self.claim(conn, n)
            self.hold()
            self.end(tasks, begun)
            receipts = [t[1] for t in tasks]
            if way == "ack rolled back":
                conn.execute("BEGIN")
                conn.execute("SELECT fairq.ack_many(%s)", (receipts,))
                conn.execute("ROLLBACK")
                self.held[-len(tasks):] = [[t[2], begun, time.time()] for t in tasks] if tasks else []
                way = "ack"
            if way == "ack many":
                conn.execute("SELECT fairq.ack_many(%s)", (receipts,))
            for t in tasks:
                if way == "ack":
                    conn.execute("SELECT fairq.ack(%s)", (t[1],))
                elif way == "nack":
                    conn.execute("SELECT fairq.nack(%s, delay => '0')", (t[1],))
                elif way == "nack later":
                    conn.execute("SELECT fairq.nack(%s, delay => '50 ms')", (t[1],))
                elif way == "release":
                    conn.execute("SELECT fairq.release(%s)", (t[1],))
                elif way == "cancel":
                    conn.execute("SELECT fairq.cancel(%s, %s)", (self.args.queue, t[0]))
        time.sleep(self.args.pause * self.random.random())

    def lose_client(self, n):
        """A client that is killed with tasks in an open transaction."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self.held, self.calls = [], []
            self.connect()
            self.conn.execute("BEGIN")
            tasks, begun = self.claim(self.conn, n)
            self.hold()
            self.end(tasks, begun)
            os.write(writer, json.dumps([self.held, self.calls]).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(writer)
        with open(reader) as pipe:
            held, calls = json.loads(pipe.read() or "[[], []]")
        os.waitpid(child, 0)
        self.held.extend(held)
        self.calls.extend(calls)


def claimer(args, number, barrier, stop, queue):
    kills = ["backend", "client"] if number % 4 == 0 else []
    me = Claimer(args, number, stop, kills)
    barrier.wait()
    while not stop.is_set():
        me.once()
    queue.put(["claimer", me.held, me.calls, me.ways])


def taker(args, number, barrier, stop, queue):
    """Takes as fast as it can, for rates."""
    me = Claimer(args, number, stop, [])
    me.conn.execute("SELECT count(*) FROM fairq.peek(%s, 1)", (args.queue,))
    barrier.wait()
    while not stop.is_set():
        me.claim(me.conn, args.batch, POP)
        time.sleep(args.pause)
    queue.put(["claimer", [], me.calls, {}])


def observer(args, barrier, stop, queue):
    worst, looks, before = {}, 0, set()
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        groups = {}
        barrier.wait()
        while not stop.is_set():
            now = {r: i for r, i in conn.execute("SELECT receipt, id FROM fairq.leases")}
            unknown = [i for i in now.values() if i not in groups]
            if unknown:
                groups.update(conn.execute(
                    f"SELECT id, {KEY} FROM fairq.\"q_%s\" WHERE id = ANY (%%s)" % args.queue, (unknown,)).fetchall())
            both = {}
            for receipt in before & set(now):
                group = groups.get(now[receipt], "")
                both[group] = both.get(group, 0) + 1
            for group, n in both.items():
                worst[group] = max(worst.get(group, 0), n)
            before = set(now)
            looks += 1
    queue.put(["observer", worst, looks])


def producer(args, barrier, stop, queue):
    """Keeps every group supplied; what was there is never used up."""
    with psycopg.connect(args.conninfo, autocommit=True) as conn:
        barrier.wait()
        while not stop.is_set():
            for key in args.groups.split(","):
                group, _, subgroup = key.partition("/")
                n = conn.execute(f"SELECT count(*) FROM fairq.\"q_%s\" WHERE {KEY} = %%s" % args.queue, (key,)).fetchone()[0]
                if n < args.backlog:
                    conn.execute("SELECT fairq.enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s::int]), group_keys => ARRAY[%s],"
                                 " subgroup_keys => ARRAY[%s])",
                                 (args.queue, args.backlog - n, group, subgroup or None))
            time.sleep(0.1)
    queue.put(["producer"])


def judge(args, results):
    held = [h for r in results if r[0] == "claimer" for h in r[1] if h[2] > h[1]]
    calls = sorted(c for r in results if r[0] == "claimer" for c in r[2])
    ways = {}
    for r in results:
        if r[0] == "claimer":
            for way, n in r[3].items():
                ways[way] = ways.get(way, 0) + n
    overlap, gaps, leases = {}, {}, {}
    # Of subgroups, "group/subgroup", and of groups as a whole.
    for group in {h[0] for h in held} | {h[0].partition("/")[0] for h in held}:
        of = [h for h in held if h[0] == group or h[0].partition("/")[0] == group]
        # What ends at a moment ends before what begins then.
        events = sorted([h[1], 1] for h in of)
        events = sorted(events + [[h[2], -1] for h in of])
        n = worst = 0
        for _, change in events:
            n += change
            worst = max(worst, n)
        overlap[group] = worst
        leases[group] = len(events) // 2
        # From each end to the next beginning.
        gap, last = [], None
        for at, change in events:
            if change < 0 and last is None:
                last = at
            elif change > 0 and last is not None:
                gap.append(at - last)
                last = None
        gap.sort()
        gaps[group] = [gap[len(gap) // 2], gap[-1]] if gap else [1e9, 1e9]
    empty = sum(1 for c in calls if not c[2])
    observed = [r for r in results if r[0] == "observer"]
    return {"overlap": overlap, "gaps": gaps, "leases": leases, "calls": len(calls), "empty": empty, "ways": ways,
            "observed": observed[0][1] if observed else {}, "looks": observed[0][2] if observed else 0}


def judge_rate(args, results):
    """The most claims in any window beyond rate * its length, and how many in all."""
    calls = sorted((c for r in results for c in r[2] if args.rated in c[2]), key=lambda c: c[0])
    claims = [[c[0], c[1], c[2].count(args.rated)] for c in calls]
    worst = 0.0
    for i, first in enumerate(claims):
        inside = sorted((c for c in claims[i:]), key=lambda c: c[1])
        n = 0
        for c in inside:
            n += c[2]
            worst = max(worst, n - args.rate * (c[1] - first[0]))
    groups = {}
    for r in results:
        for c in r[2]:
            for g in c[2]:
                groups[g] = groups.get(g, 0) + 1
    return {"excess": worst, "claimed": groups,
            "seconds": args.seconds, "calls": sum(len(r[2]) for r in results)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--claimers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10, help="0: until standard input ends")
    parser.add_argument("--hold", type=float, default=0.03)
    parser.add_argument("--pause", type=float, default=0.01)
    parser.add_argument("--groups", default="")
    parser.add_argument("--leases", type=int, default=0,
                        help="go on, for a minute at most, until each of the groups has had more")
    parser.add_argument("--backlog", type=int, default=300)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--rated")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.claimed = {group: multiprocessing.Value("l", 0) for group in args.groups.split(",")}

    others = [] if args.rated else [observer, producer]
    barrier = multiprocessing.Barrier(args.claimers + len(others) + 1)
    stop, queue = multiprocessing.Event(), multiprocessing.Queue()
    target = taker if args.rated else claimer
    processes = [multiprocessing.Process(target=target, args=(args, i, barrier, stop, queue))
                 for i in range(args.claimers)]
    processes += [multiprocessing.Process(target=o, args=(args, barrier, stop, queue)) for o in others]
    for p in processes:
        p.start()
    barrier.wait(120)
    if args.seconds:
        time.sleep(args.seconds)
    else:
        sys.stdin.read()
    until = time.time() + 60
    while args.leases and time.time() < until and any(n.value <= args.leases for n in args.claimed.values()):
        time.sleep(0.1)
    stop.set()
    results = [queue.get(timeout=120) for _ in processes]
    for p in processes:
        p.join()
        if p.exitcode != 0:
            sys.exit("a process ended with %s" % p.exitcode)
    json.dump((judge_rate if args.rated else judge)(args, results), sys.stdout)


if __name__ == "__main__":
    main()
