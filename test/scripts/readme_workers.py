#!/usr/bin/env python3
"""The worker of the pages that is in SQL, with tasks that take half a lease each; in TAP.

It is run as it is in doc/drivers.md: two processes, twenty tasks, batches of
ten. A process that has claimed ten needs five leases for them. All twenty must
be done at the first attempt, none in vain and none dead. The libraries have
such a test of their own.

Seen to fail: with one fixed lease instead of the session; without the heartbeat.

usage: readme_workers.py CHECKOUT, with PGHOST and so on
"""

import os
import subprocess
import sys

import psycopg

import readme_commands

LEASE = 10  # seconds; a machine has to be late by half of it for a heartbeat to come too late
TASKS = 20
TIME_LIMIT = 300

PAGE = "doc/drivers.md"
EXAMPLE = "a worker in SQL"
DATABASE = "worker"
COMMAND = ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", f"CALL send_emails(stay => false, ttl => '{LEASE} s')"]


def prepare(checkout):
    """Sets up a database and starts the processes."""
    with open(os.path.join(checkout, PAGE), encoding="utf-8") as lines:
        block, = (block for block in readme_commands.blocks_of(lines) if block.verb == "test" and block.name == EXAMPLE)
    with psycopg.connect(dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    environment = dict(os.environ, PGDATABASE=DATABASE)
    with psycopg.connect(dbname=DATABASE, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pgfairq")
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"], input="\n".join(block.text), text=True,
                       env=environment, check=True, stdout=subprocess.DEVNULL)
        connection.execute("CREATE FUNCTION take_half_a_lease() RETURNS trigger LANGUAGE plpgsql AS "
                           f"'BEGIN PERFORM pg_sleep({LEASE} / 2.0); RETURN NEW; END'")
        connection.execute("CREATE TRIGGER slow BEFORE INSERT ON sent FOR EACH ROW EXECUTE FUNCTION take_half_a_lease()")
        connection.execute("SELECT fairq.enqueue('emails', jsonb_build_object('to', n)) FROM generate_series(1, %s) n", (TASKS,))
    return [subprocess.Popen(COMMAND, env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]


def result():
    with psycopg.connect(dbname=DATABASE) as connection:
        done, = connection.execute("SELECT count(*) FROM sent").fetchone()
        claimed, acked, lost, dead, left = connection.execute(
            "SELECT claimed, acked, nacked + released + expired, dead, ready + leased + scheduled "
            "FROM fairq.queue_stats WHERE queue = 'emails'").fetchone()
    return {"done": done, "acknowledged": acked, "claimed": claimed, "put back": lost, "dead": dead, "left": left}


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: readme_workers.py CHECKOUT")
    wanted = {"done": TASKS, "acknowledged": TASKS, "claimed": TASKS, "put back": 0, "dead": 0, "left": 0}
    notes = []
    for process in prepare(sys.argv[1]):
        try:
            output, _ = process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            notes.append(f"not finished after {TIME_LIMIT} s")
        if process.returncode:
            notes += [f"exit code {process.returncode}", *output.decode("utf-8", "replace").splitlines()]
    got = result()
    if got != wanted:
        notes.append(", ".join(f"{what} {number}" for what, number in got.items()))
    print(f"{'not ok' if notes else 'ok'} 1 - {TASKS} tasks of half a lease, two workers in SQL: all done, none repeated, none dead")
    for note in notes:
        print(f"#   {note}")
    print("1..1")
    return 1 if notes else 0


if __name__ == "__main__":
    sys.exit(main())
