#!/usr/bin/env python3
"""The workers of the pages, with tasks that take half a lease each; in TAP.

Each of them (SQL in README.md, Python and Node in doc/drivers.md) is run as it
is in the page: two processes, twenty tasks, batches of ten. A process that has
claimed ten needs five leases for them. All twenty must be done at the first
attempt, none in vain and none dead.

Seen to fail: with one fixed lease instead of the session; in each worker
without the heartbeat.

usage: readme_workers.py CHECKOUT, with PGHOST and so on
"""

import os
import subprocess
import sys
import tempfile

import psycopg

import readme_commands

LEASE = 10  # seconds; a machine has to be late by half of it for a heartbeat to come too late
TASKS = 20
TIME_LIMIT = 300

# page, example, file of it, queue, table of results, what the page does not do outside its example, a process
WORKERS = {
    "sql": ("README.md", "a worker in SQL", "worker.sql", "emails", "sent", None,
            lambda directory: ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", f"CALL send_emails(stay => false, ttl => '{LEASE} s')"]),
    "python": ("doc/drivers.md", "a worker in Python", "letters.py", "letters", "letter",
               "CREATE TABLE letter (task bigint PRIMARY KEY, text text)",
               lambda directory: [sys.executable, "-c", "import letters; "
                                  f"letters.work('letters', letters.write_letter, stay=False, ttl={LEASE})"]),
    "node": ("doc/drivers.md", "a worker in Node", "drawing.js", "thumbnails", "thumbnail",
             "CREATE TABLE thumbnail (task bigint PRIMARY KEY, file text)",
             lambda directory: ["node", "-e", f"const w = require('{directory}/drawing.js'); "
                                f"w.work('thumbnails', w.draw, 10, {LEASE})"
                                ".catch((error) => { console.error(error); process.exit(1); })"]),
}


def prepare(language, checkout, directory):
    """Sets up a database and starts the processes."""
    page, example, file, queue, table, setup, command = WORKERS[language]
    with open(os.path.join(checkout, page), encoding="utf-8") as lines:
        block, = (block for block in readme_commands.blocks_of(lines) if block.verb == "test" and block.name == example)
    with open(os.path.join(directory, file), "w", encoding="utf-8") as out:
        out.write("\n".join(block.text) + "\n")

    database = language
    with psycopg.connect(dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    environment = dict(os.environ, PGDATABASE=database)
    with psycopg.connect(dbname=database, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pgfairq")
        if setup:
            connection.execute(setup)
            connection.execute("SELECT fairq.create_queue(%s, max_attempts => 3, backoff_base => '0')", (queue,))
        else:
            subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", os.path.join(directory, file)],
                           env=environment, check=True, stdout=subprocess.DEVNULL)
        connection.execute("CREATE FUNCTION take_half_a_lease() RETURNS trigger LANGUAGE plpgsql AS "
                           f"'BEGIN PERFORM pg_sleep({LEASE} / 2.0); RETURN NEW; END'")
        connection.execute(f"CREATE TRIGGER slow BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION take_half_a_lease()")
        connection.execute("SELECT fairq.enqueue(%s, jsonb_build_object('to', n, 'name', n, 'file', n)) "
                           "FROM generate_series(1, %s) n", (queue, TASKS))
    return [subprocess.Popen(command(directory), cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]


def result(language):
    queue, table = WORKERS[language][3:5]
    with psycopg.connect(dbname=language) as connection:
        done, = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        claimed, acked, lost, dead, left = connection.execute(
            "SELECT claimed, acked, nacked + released + expired, dead, ready + leased + scheduled "
            "FROM fairq.queue_stats WHERE queue = %s", (queue,)).fetchone()
    return {"done": done, "acknowledged": acked, "claimed": claimed, "put back": lost, "dead": dead, "left": left}


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: readme_workers.py CHECKOUT")
    wanted = {"done": TASKS, "acknowledged": TASKS, "claimed": TASKS, "put back": 0, "dead": 0, "left": 0}
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        processes = {language: prepare(language, sys.argv[1], directory) for language in WORKERS}
        for count, (language, started) in enumerate(processes.items(), 1):
            notes = []
            for process in started:
                try:
                    output, _ = process.communicate(timeout=TIME_LIMIT)
                except subprocess.TimeoutExpired:
                    process.kill()
                    output, _ = process.communicate()
                    notes.append(f"not finished after {TIME_LIMIT} s")
                if process.returncode:
                    notes += [f"exit code {process.returncode}", *output.decode("utf-8", "replace").splitlines()]
            got = result(language)
            if got != wanted:
                notes.append(", ".join(f"{what} {number}" for what, number in got.items()))
            failed += bool(notes)
            print(f"{'not ok' if notes else 'ok'} {count} - {TASKS} tasks of half a lease, two workers in {language}: "
                  f"all done, none repeated, none dead")
            for note in notes:
                print(f"#   {note}")
    print(f"1..{len(WORKERS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
