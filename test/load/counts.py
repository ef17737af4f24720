#!/usr/bin/python3
"""Several clients at once do everything to a queue with a busy overflow; then they
pause, and every count of every view is compared with the tasks that there are.

A round is a burst of transactions of each client: enqueue, claim, pop, ack, nack,
release, leases that run out, cancel, purge, revive, unique keys, DELETE and UPDATE with
SQL, with savepoints and rollbacks; beside them groups are paused, limited and given
weights, buckets change, transactions are prepared. Some rounds end with a restart of the
server, clean or not, or with VACUUM FULL. At the end all is claimed, and no group may be
left.

What the worker is doing is waited for: counts have to agree in the end, and once they
do they are right. Prints what was done, as JSON. Ends with 1 at the first difference.

Usage: counts.py CONNINFO [--seconds N] [--rounds N] [--seed N] [--clients N]
           [--pg-ctl PATH --data DIRECTORY --log FILE]     (to restart the server now and then)
"""

import argparse
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

GROUPS = ["g%d" % n for n in range(8)]
KEYS = ["k%d" % n for n in range(12)]
# Deadlocks of transactions with several keys, limits, and rows that others have locked.
EXPECTED = ("40P01", "40001", "53400", "55P03", "57014")
VARIANTS = [
    "buckets => 1, max_ready_per_group => 3, max_ready => 12",
    "buckets => 4, max_ready_per_group => 20, max_ready => 60",
    "buckets => 4, max_ready_per_group => 5",
    "buckets => 2, max_ready => 15",
    "buckets => 3, max_ready_per_group => 20, durable_leases => true",
]


class Client:
    def __init__(self, run, number):
        self.run = run
        self.r = random.Random("%d %d" % (run.options.seed, number))
        self.held = []
        self.counts = {}
        self.connect()

    def connect(self):
        self.db = psycopg.connect(self.run.options.conninfo, options="-c deadlock_timeout=100ms -c lock_timeout=5s")

    def step(self, claimed):
        r, db, q = self.r, self.db, self.run.queue
        names = ("enqueue", "claim", "pop", "settle", "cancel", "sql", "keys")
        what = r.choices(names, (28, 22, 4, 30, 8, 3, 5))[0]
        if what == "enqueue":
            n = r.choice([1, 1, 1, 5, 20, 60])
            db.execute("SELECT fairq.enqueue_many(%s, array_fill('1'::jsonb, ARRAY[%s::int]), group_keys => %s::text[],"
                       " priorities => %s::bigint[], costs => %s::real[], run_ats => %s::timestamptz[])",
                       (q, n, [r.choice(GROUPS[:r.choice([2, 8])]) for _ in range(n)], [r.choice([0, 0, 1]) for _ in range(n)],
                        [r.choice([1.0, 2.0]) for _ in range(n)],
                        None if r.random() < .9 else [time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(time.time() + r.random()))]))
        elif what == "keys":
            db.execute("SELECT fairq.enqueue(%s, '1', %s, unique_key => %s, on_duplicate => %s)",
                       (q, r.choice(GROUPS), r.choice(KEYS), r.choice(["keep", "replace"])))
        elif what == "claim":
            got = db.execute("SELECT receipt FROM fairq.claim(%s, %s, lease => %s::interval, group_keys => %s::text[])",
                             (q, r.choice([1, 1, 5, 30]), "30 ms" if r.random() < .1 else "10 min",
                              None if r.random() < .85 else r.sample(GROUPS, 2))).fetchall()
            claimed += [x[0] for x in got]
        elif what == "pop":
            db.execute("SELECT count(*) FROM fairq.pop(%s, %s)", (q, r.choice([1, 10])))
        elif what == "settle":
            pool = self.held + claimed
            if not pool:
                return
            what = r.choices(("ack", "nack", "release"), (5, 3, 3))[0]
            receipts = r.sample(pool, min(len(pool), r.choice([1, 5, 20])))
            db.execute("SELECT count(*) FROM fairq.%s_many(%%s::uuid[]%s)" % (what, ", NULL, '%s'" % r.choice(["0", "0", "50 ms"])
                                                                          if what == "nack" else ""), (receipts,))
        elif what == "cancel":
            what = r.choices(("cancel", "purge", "revive"), (6, 2, 2))[0]
            if what == "cancel":
                db.execute("SELECT fairq.cancel(%s, id) FROM (SELECT id FROM fairq.tasks(%s) OFFSET %s LIMIT %s) t",
                           (q, q, r.randrange(100), r.choice([1, 3])))
            elif what == "purge":
                db.execute("SELECT fairq.purge_group(%s, %s)", (q, r.choice(GROUPS)))
            else:
                db.execute("SELECT fairq.revive_all(%s)", (q,))
        else:
            what = r.choice(["delete", "update"])
            where = "WHERE id IN (SELECT id FROM fairq.q_%s ORDER BY id OFFSET %d LIMIT 2)" % (q, r.randrange(100))
            # A lease outlives the row that was deleted with SQL.
            db.execute(("DELETE FROM fairq.q_%s %s AND state IN ('s', 'd')" if what == "delete" else
                        "UPDATE fairq.q_%s SET payload = '2' %s") % (q, where))
        self.counts[what] = self.counts.get(what, 0) + 1

    def transaction(self):
        """One transaction, of some steps, with savepoints."""
        claimed = []
        for _ in range(self.r.choice([1, 1, 2, 4])):
            if self.r.random() < .25:
                inner = list(claimed)
                self.db.execute("SAVEPOINT s")
                self.step(inner)
                if self.r.random() < .5:
                    self.db.execute("ROLLBACK TO s")
                    self.counts["rollback to"] = self.counts.get("rollback to", 0) + 1
                else:
                    claimed = inner
            else:
                self.step(claimed)
        if self.r.random() < .15:
            self.db.rollback()
            self.counts["rollback"] = self.counts.get("rollback", 0) + 1
        else:
            self.db.commit()
            self.held = (self.held + claimed)[-60:]

    def administer(self):
        r, q = self.r, self.run.queue
        what = r.choice(["pause", "resume", "resume", "weight", "limit", "limit", "buckets", "prepare"])
        if what in ("pause", "resume"):
            self.db.execute("SELECT fairq.%s_group(%%s, %%s)" % what, (q, r.choice(GROUPS)))
        elif what == "weight":
            self.db.execute("SELECT fairq.set_group(%s, %s, weight => %s::real)", (q, r.choice(GROUPS), r.choice([.5, 1, 8])))
        elif what == "limit":
            self.db.execute("SELECT fairq.set_group(%s, %s, max_leased => %s)", (q, r.choice(GROUPS), r.choice([0, 0, 1, 5])))
        elif what == "buckets":
            self.db.execute("SELECT fairq.alter_queue(%s, buckets => %s)", (q, r.choice([1, 4, 7])))
        else:
            name = "p%d" % id(self)
            self.db.execute("SELECT fairq.enqueue_many(%s, array_fill('3'::jsonb, ARRAY[7]), group_keys => %s)",
                            (q, [r.choice(GROUPS)]))
            self.db.execute("PREPARE TRANSACTION '%s'" % name)
            self.db.commit()
            self.db.autocommit = True
            self.db.execute("%s PREPARED '%s'" % (r.choice(["COMMIT", "COMMIT", "ROLLBACK"]), name))
            self.db.autocommit = False
        self.db.commit()
        self.counts[what] = self.counts.get(what, 0) + 1

    def burst(self):
        for _ in range(self.r.choice([1, 3, 6])):
            try:
                if self.r.random() < .08:
                    self.administer()
                else:
                    self.transaction()
            except psycopg.Error as error:
                self.db.rollback()
                if error.sqlstate not in EXPECTED:
                    raise
                self.counts[error.sqlstate] = self.counts.get(error.sqlstate, 0) + 1


class Run:
    def __init__(self, options):
        self.options = options
        self.r = random.Random(options.seed)
        self.queue = "counts"
        self.db = psycopg.connect(options.conninfo, autocommit=True)
        self.counts = {}
        self.clients = [Client(self, n) for n in range(options.clients)]

    def restart(self, mode):
        o = self.options
        for c in self.clients:
            c.db.close()
        self.db.close()
        subprocess.run([o.pg_ctl, "-D", o.data, "-l", o.log, "-m", mode, "-w", "-s", "restart"],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.db = psycopg.connect(o.conninfo, autocommit=True)
        for c in self.clients:
            c.connect()

    def difference(self):
        """What the views say, and what there is, where they differ; None if nowhere."""
        q = self.queue
        with self.db.transaction():
            stats = self.db.execute("SELECT ready, leased, scheduled, overflow, held, dead FROM fairq.queue_stats WHERE queue = %s",
                                    (q,)).fetchone()
            groups = {x[0]: x[1:] for x in self.db.execute(
                "SELECT group_key, ready, leased, overflow FROM fairq.group_stats WHERE queue = %s", (q,))}
            rows = self.db.execute("SELECT group_key, state, count(*) FROM fairq.tasks(%s) GROUP BY 1, 2", (q,)).fetchall()
            table, = self.db.execute("SELECT count(*) FROM fairq.q_%s" % q).fetchone()
            leases, = self.db.execute("SELECT count(*) FROM fairq.leases l WHERE queue = %%s AND EXISTS (SELECT FROM fairq.q_%s t WHERE t.id = l.id)"
                                      % q, (q,)).fetchone()
            some = self.db.execute("SELECT t.id, t.state, g.state FROM fairq.tasks(%s) t, fairq.get_task(%s, t.id) g"
                                   " WHERE t.state <> g.state LIMIT 3", (q, q)).fetchall() if self.r.random() < .1 else []
        total = {}
        truth = {}
        for group, state, n in rows:
            total[state] = total.get(state, 0) + n
            if state in ("ready", "leased", "overflow"):
                truth.setdefault(group, {})[state] = n
        truth = {g: tuple(x.get(s, 0) for s in ("ready", "leased", "overflow")) for g, x in truth.items()}
        wanted = tuple(total.get(s, 0) for s in ("ready", "leased", "scheduled", "overflow", "held", "dead"))
        if stats == wanted and groups == truth and table == sum(wanted) and leases == wanted[1] and not some:
            return None
        return dict(queue_stats=(stats, wanted), rows=(table, sum(wanted)), leases=(leases, wanted[1]), get_task=some,
                    groups={g: (groups.get(g), truth.get(g)) for g in {*groups, *truth} if groups.get(g) != truth.get(g)})

    def compare(self, when):
        end = time.time() + 90     # a recount may rest for a minute (recovery_recount)
        while (found := self.difference()) is not None:
            if time.time() > end:
                raise SystemExit("%s: %s (seed %d)\nbut the views and the tasks: %s"
                                 % (self.counts, when, self.options.seed, found))
            time.sleep(.02)

    def drain(self):
        q = self.queue
        for group in GROUPS:
            self.db.execute("SELECT fairq.resume_group(%s, %s), fairq.set_group(%s, %s, max_leased => 0)", (q, group, q, group))
        for c in self.clients:
            self.db.execute("SELECT count(*) FROM fairq.release_many(%s::uuid[])", (c.held,))
            c.held = []
        end = time.time() + 60
        while self.db.execute("SELECT count(*) FROM fairq.q_%s" % q).fetchone()[0] > 0:
            if time.time() > end:
                raise SystemExit("tasks are left: %s (seed %d)" % (self.db.execute(
                    "SELECT t.id, t.state, r.state AS row, r.address, t.group_key, t.unique_key, r.ctid::text FROM fairq.tasks(%s) t"
                    " JOIN fairq.q_{} r USING (id) ORDER BY 1 LIMIT 5".format(q), (q,)).fetchall(), self.options.seed))
            self.db.execute("SELECT fairq.revive_all(%s)", (q,))
            self.db.execute("SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = %s))", (q,))
            self.db.execute("SELECT count(fairq.ack(receipt)) FROM fairq.claim(%s, 500, wait => '50 ms')", (q,))
        self.compare("after all tasks were done")

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def round(self, pool):
        for future in [pool.submit(c.burst) for c in self.clients]:
            future.result()
        self.compare("after a round")
        self.count("rounds")
        x = self.r.random()
        if x < .015:
            self.db.execute("VACUUM FULL fairq.q_%s" % self.queue)
            self.count("vacuum full")
            self.compare("after VACUUM FULL")
        elif x < .035 and self.options.pg_ctl:
            mode = self.r.choice(["fast", "immediate"])
            self.restart(mode)
            self.count(mode)
            # Some do not look at once, but let claims and others count.
            if self.r.random() < .5:
                self.compare("after a restart, " + mode)

    def run(self):
        end = time.time() + self.options.seconds
        with ThreadPoolExecutor(len(self.clients)) as pool:
            while time.time() < end and self.counts.get("rounds", 0) < self.options.rounds:
                settings = VARIANTS[self.counts.get("queues", 0) % len(VARIANTS)]
                self.db.execute("SELECT fairq.create_queue(%s, max_attempts => 3, backoff_base => '50 ms', {})".format(settings),
                                (self.queue,))
                self.count("queues")
                for _ in range(self.options.rounds_each):
                    if time.time() > end or self.counts.get("rounds", 0) >= self.options.rounds:
                        break
                    self.round(pool)
                self.drain()
                swept, = self.db.execute("SELECT swept FROM fairq.queue_stats WHERE queue = %s", (self.queue,)).fetchone()
                if swept > 0:
                    raise SystemExit("%d tasks were swept (seed %d)" % (swept, self.options.seed))
                self.db.execute("SELECT fairq.drop_queue(%s)", (self.queue,))
        for c in self.clients:
            for what, n in c.counts.items():
                self.counts[what] = self.counts.get(what, 0) + n
        print(json.dumps(self.counts, sort_keys=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("conninfo")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=1000000)
    parser.add_argument("--rounds-each", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--pg-ctl")
    parser.add_argument("--data")
    parser.add_argument("--log")
    Run(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
