#!/usr/bin/python3
"""Whatever may be done to the tables of queues, at random, beside producers,
workers, sessions and those who look; backends are cancelled and ended now and
then.

In the end every queue is put in order, and each of its tasks has to come out:
nothing may be left but the dead, and the figures have to say so, too. The
result is one JSON object on standard output: calls, errors by SQLSTATE and
violations. The exit code is 1 if there are violations.

    tables.py --dsn "host=… dbname=…" --seed 1 --seconds 10
"""

import argparse
import collections
import json
import random
import re
import sys
import threading
import time
import traceback

import psycopg

QUEUES = ["t1", "t2", "t3"]
PATIENCE = 60  # seconds until the last task has come out

# What may be answered where tables come and go, locks are waited for, and
# somebody ends what others are at.
EXPECTED = {
    "40001", "40P01", "55P03",  # serialization, deadlock, lock timeout
    "42704", "42710", "42P01", "42P07",  # not there, or there already
    "53400",  # max_depth
    "55000",  # the session is over, or the bucket another's
    "57014", "57P01",  # cancelled, ended
}

CREATE = ("SELECT fairq.create_queue('{q}', backoff_base => '0', max_attempts => 3, lease => '1 s', "
          "durable_leases => random() < 0.3), fairq.subscribe('t.#', '{q}')")

CHANGES = [
    "ALTER TABLE fairq.q_{q} ADD COLUMN IF NOT EXISTS x int DEFAULT 3",
    "ALTER TABLE fairq.q_{q} DROP COLUMN IF EXISTS x",
    "CREATE INDEX IF NOT EXISTS more_of_{q} ON fairq.q_{q} (enqueued_at)",
    "DROP INDEX IF EXISTS fairq.more_of_{q}",
    "VACUUM FULL fairq.q_{q}", "VACUUM fairq.q_{q}", "ANALYZE fairq.q_{q}", "CLUSTER fairq.q_{q} USING id_of_{q}",
    "REINDEX TABLE fairq.q_{q}", "REINDEX TABLE CONCURRENTLY fairq.q_{q}", "VACUUM FULL fairq.durable_lease",
    "VACUUM FULL fairq.dependency", "VACUUM FULL fairq_internal.remembered_key",
    "REINDEX TABLE CONCURRENTLY fairq.dependency", "REINDEX TABLE CONCURRENTLY fairq_internal.remembered_key",
    "DELETE FROM fairq.dependency WHERE queue = '{q}' AND random() < 0.2",
    "UPDATE fairq.dependency SET failed = NOT failed WHERE queue = '{q}' AND random() < 0.2",
    "DELETE FROM fairq_internal.remembered_key WHERE queue = '{q}' AND random() < 0.3",
    "UPDATE fairq_internal.remembered_key SET until = clock_timestamp() + random() * interval '1 s' WHERE queue = '{q}'",
    "UPDATE fairq.q_{q} SET expires_at = clock_timestamp() + random() * interval '1 s' WHERE random() < 0.1",
    "UPDATE fairq.q_{q} SET expires_at = NULL WHERE random() < 0.5",
    "TRUNCATE fairq.q_{q}",
    "UPDATE fairq.q_{q} SET payload = '2' WHERE random() < 0.2",
    "DELETE FROM fairq.q_{q} WHERE random() < 0.05",
    "SELECT fairq.alter_queue('{q}', buckets => (1 + random() * 9)::int, max_ready_per_group => (5 + random() * 100)::int,"
    " keep_done => CASE WHEN random() < 0.5 THEN '1 d' ELSE '0' END::interval)",
    "SELECT fairq.alter_queue('{q}', durable_leases => random() < 0.5, notify => random() < 0.5)",
    "SELECT fairq.pause_group('{q}', 'g1'), fairq.set_group('{q}', 'g2', max_leased => 3)",
    "SELECT fairq.resume_group('{q}', 'g1'), fairq.set_group('{q}', 'g2', max_leased => 0, rate => 100)",
    "SELECT fairq.purge('{q}')", "SELECT fairq.revive_all('{q}')",
    "BEGIN; DROP TABLE fairq.q_{q}; ROLLBACK",
    "BEGIN; TRUNCATE fairq.q_{q}; SELECT fairq.enqueue('{q}', '1'); ROLLBACK",
    "BEGIN; ALTER TABLE fairq.q_{q} RENAME TO q_other; SELECT pg_sleep(0.02); ALTER TABLE fairq.q_other RENAME TO q_{q}; COMMIT",
    "SELECT fairq.drop_queue('{q}'), " + CREATE[len("SELECT "):],
]

VIEWS = ["queue_stats", "group_stats", "bucket_stats", "leases", "dead_tasks", "done_tasks", "sessions", "topics", "group_settings", "queues",
         "dependencies"]


class Party:
    """One of those who are at it: a thread with a connection and a random generator of its own."""

    def __init__(self, dsn, seed, name):
        self.dsn, self.name = dsn, name
        self.random = random.Random(f"{seed} {name}")
        self.calls = 0
        self.errors = collections.Counter()
        self.violations = []

    def queue(self):
        return self.random.choice(QUEUES)

    def call(self, query, *arguments):
        self.calls += 1
        done = self.connection.execute(query, arguments or None)
        return done.fetchall() if done.description else []

    def run(self, end):
        self.connection = None
        while time.time() < end:
            try:
                if self.connection is None:
                    self.connection = psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None)
                    self.call("SET lock_timeout = '4 s'")
                getattr(self, self.name.split()[0])()
            except psycopg.Error as error:
                lost = self.connection is None or self.connection.broken
                self.errors[error.sqlstate or "connection lost"] += 1
                if error.sqlstate not in EXPECTED and not (error.sqlstate is None and lost):
                    self.violations.append(f"{self.name}: {error.sqlstate} {error}")
                if lost:
                    self.connection = None
                    time.sleep(0.1)
                elif self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    self.connection.execute("ROLLBACK")
            except Exception:  # a mistake of this program
                self.violations.append(traceback.format_exc())
                return

    def produce(self):
        kind, queue = self.random.random(), self.queue()
        group = f"g{self.random.randint(0, 5)}"
        if kind < 0.1:
            self.produce_after(queue, group)
        elif kind < 0.2:
            self.call("SELECT fairq.enqueue(%s, '1', group_key => %s, unique_key => %s, unique_for => %s, expires_at => clock_timestamp() + %s::interval)",
                      queue, group, f"k{self.random.randint(0, 30)}", self.random.choice(["1 ms", "0.3 s", "1 h"]),
                      self.random.choice([None, "-1 s", "0.1 s", "1 h"]))
        elif kind < 0.5:
            key = self.random.choice([None, f"k{self.random.randint(0, 30)}"])
            self.call("SELECT fairq.enqueue(%s, '1', group_key => %s, unique_key => %s, on_duplicate => %s)",
                      queue, group, key, self.random.choice(["keep", "replace"]))
        elif kind < 0.7:
            self.call("SELECT fairq.enqueue_many(%s, array_fill('1'::jsonb, ARRAY[30]), group_keys => ARRAY[%s])", queue, group)
        elif kind < 0.8:
            self.call("SELECT fairq.enqueue(%s, '1', run_at => now() + interval '0.3 s')", queue)
        elif kind < 0.9:
            self.call("SELECT fairq.publish('t.x', '1')")
        else:
            self.call("BEGIN")
            self.call("SELECT fairq.enqueue(%s, '1')", queue)
            self.call(self.random.choice(["COMMIT", "ROLLBACK"]))

    def produce_after(self, queue, group):
        """One that waits for some that are there, or have been."""
        before = [task for task, in self.call("SELECT id FROM fairq.tasks(%s) ORDER BY random() LIMIT %s", queue, self.random.choice([1, 3, 30]))]
        key = self.random.choice([None, None, f"k{self.random.randint(0, 30)}"])
        try:
            self.call("SELECT fairq.enqueue(%s, '1', group_key => %s, unique_key => %s, on_duplicate => %s, after => %s::bigint[], on_dead => %s)",
                      queue, group, key, self.random.choice(["keep", "replace"]), before, self.random.choice(["hold", "cancel", "run"]))
        except psycopg.errors.InvalidParameterValue as error:
            # Ids of a queue that was made anew since; one of a key for which others wait.
            if not re.search("cannot wait for task|cannot be replaced", str(error)):
                raise

    def work(self):
        queue = self.queue()
        tasks = self.call("SELECT receipt FROM fairq.claim(%s, %s, lease => %s)",
                          queue, self.random.randint(1, 20), self.random.choice(["0.2 s", "1 s"]))
        for receipt, in tasks:
            verb = self.random.choice(["ack"] * 7 + ["nack", "release", "extend", None])
            if verb:
                self.call(f"SELECT fairq.{verb}(%s)", receipt)
        if not tasks and self.random.random() < 0.3:
            self.call("SELECT count(*) FROM fairq.claim(%s, wait => '0.3 s')", queue)
        if self.random.random() < 0.1:
            self.call("CALL fairq.wait(%s, '0.2 s')", queue)

    def meet(self):
        session, = self.call("SELECT fairq.open_session(ttl => '0.5 s', bound => %s)", self.random.random() < 0.5)[0]
        for _ in range(5):
            queue = self.queue()
            if self.random.random() < 0.5:
                self.call("SELECT fairq.ack(receipt) FROM fairq.claim(%s, 3, session => %s)", queue, session)
            else:
                self.call("SELECT count(*) FROM fairq.claim(%s, 3, session => %s, buckets => fairq.my_buckets(%s, %s))",
                          queue, session, queue, session)
            self.call("SELECT fairq.heartbeat(%s)", session)
        if self.random.random() < 0.7:
            self.call("SELECT fairq.close_session(%s)", session)

    def change(self):
        for statement in self.random.choice(CHANGES).format(q=self.queue()).split("; "):
            self.call(statement)
        time.sleep(0.05)

    def look(self):
        for view in VIEWS:
            self.call(f"SELECT count(*) FROM fairq.{view}")
        self.call("SELECT fairq.maintain(%s)", self.queue())
        for task, in self.call("SELECT id FROM fairq.tasks(%s) LIMIT 3", queue := self.queue()):
            self.call("SELECT fairq.get_task_position(%s, %s)", queue, task)
        time.sleep(0.2)

    def disturb(self):
        time.sleep(0.5)
        self.call(f"SELECT {self.random.choice(['pg_cancel_backend', 'pg_cancel_backend', 'pg_terminate_backend'])}(pid) FROM pg_stat_activity"
                  " WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY md5(pid || %s::text) LIMIT 1", self.random.random())


def come_out(connection, queue):
    """Put a queue in order and take all its tasks; what is wrong."""
    for statement in ["SELECT fairq.resume_group('{q}', 'g1')", "SELECT fairq.set_group('{q}', 'g2', max_leased => 0, rate => 0)",
                      "SELECT fairq.alter_queue('{q}', max_ready_per_group => 100000, keep_done => '0')"]:
        connection.execute(statement.format(q=queue))
    until = time.time() + PATIENCE
    while True:
        connection.execute("SELECT count(fairq.ack(receipt)) FROM fairq.claim(%s, 10000, wait => '0.5 s')", (queue,))
        # What is held because another one has failed stays so until it is cancelled.
        connection.execute("SELECT fairq.cancel(queue, task) FROM (SELECT DISTINCT queue, task FROM fairq.dependencies WHERE queue = %s AND failed) d", (queue,))
        left = connection.execute("SELECT state, count(*) FROM fairq.tasks(%s) WHERE state <> 'dead' GROUP BY 1", (queue,)).fetchall()
        figures = connection.execute("SELECT ready, leased, scheduled, overflow, held FROM fairq.queue_stats WHERE queue = %s", (queue,)).fetchone()
        if not left and not any(figures):
            return []
        if time.time() > until:
            return [f"queue {queue}: left over {left}; ready, leased, scheduled, overflow, held: {figures}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()

    with psycopg.connect(options.dsn, autocommit=True) as connection:
        for queue in QUEUES:
            connection.execute(CREATE.format(q=queue))
    end = time.time() + options.seconds
    parties = [Party(options.dsn, options.seed, name) for name in
               ["produce 1", "produce 2", "work 1", "work 2", "work 3", "meet", "change", "look", "disturb"]]
    threads = [threading.Thread(target=party.run, args=(end,)) for party in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    violations = [violation for party in parties for violation in party.violations]
    try:
        with psycopg.connect(options.dsn, autocommit=True) as connection:
            for queue in QUEUES:
                violations += come_out(connection, queue)
            for queue in QUEUES:
                connection.execute("SELECT fairq.drop_queue(%s)", (queue,))
    except psycopg.Error as error:
        violations.append(f"in the end: {error.sqlstate} {error}")
    json.dump({"calls": sum(party.calls for party in parties),
               "errors": dict(sum((party.errors for party in parties), collections.Counter())),
               "violations": violations[:20]}, sys.stdout)
    print()
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
