#!/usr/bin/python3
"""Newcomers among the users of a tenant, beside claimers at work, for
test/t/subgroups_order.pl.

Claimers pop tasks of a queue with subgroups, some at a time, all the while; a producer
enqueues one task after the other, each of a user who had none, of a tenant where a
colleague has a long backlog. A newcomer waits for nothing but other newcomers and what is
in the hands of claims that are under way: no claim that has begun when its enqueue had
returned may end, with a task of the colleague, before the claim that has it begins.

Printed as JSON: how many newcomers were claimed, how many claims there were, how many
of the colleague's tasks a newcomer has waited for at most (beside those of the claims that
were under way), and the first that had to wait for a claim as above.
"""

import argparse
import json
import sys
import threading
import time

import psycopg


def claimer(options, stop, claims):
    with psycopg.connect(options.conninfo, autocommit=True) as db:
        while not stop.is_set():
            begun = time.monotonic()
            got = db.execute("SELECT group_key, subgroup_key FROM fairq.pop(%s, %s)", (options.queue, options.batch)).fetchall()
            claims.append((begun, time.monotonic(), [user for tenant, user in got if tenant == options.tenant]))
            if not got:
                return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--claimers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--newcomers", type=int, default=300)
    options = parser.parse_args()
    stop = threading.Event()
    claims = [[] for _ in range(options.claimers)]
    threads = [threading.Thread(target=claimer, args=(options, stop, own)) for own in claims]
    for thread in threads:
        thread.start()
    came = {}
    with psycopg.connect(options.conninfo, autocommit=True) as db:
        for i in range(options.newcomers):
            user = "new %d" % i
            db.execute("SELECT fairq.enqueue(%s, '1', group_key => %s, subgroup_key => %s)", (options.queue, options.tenant, user))
            came[user] = time.monotonic()
    until = time.monotonic() + 30
    while time.monotonic() < until and left(came, claims):
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    done = sorted(one for own in claims for one in own)
    judge(came, done)


def left(came, claims):
    """Newcomers that have not been claimed."""
    return set(came) - {user for own in claims for _, _, users in list(own) for user in users}


def judge(came, done):
    claimed = {user: (begun, ended) for begun, ended, users in done for user in users if user in came}
    colleague = [(begun, ended, sum(user not in came for user in users)) for begun, ended, users in done]
    waited, wrong = [], []
    for user, (own, _) in claimed.items():
        before = [n for begun, ended, n in colleague if begun > came[user] and ended < own]
        waited.append(sum(before))
        wrong += [user] * any(before)
    json.dump({"newcomers": len(claimed), "claims": len(done), "waited": max(waited, default=0), "wrong": wrong[:1]}, sys.stdout)


if __name__ == "__main__":
    main()
