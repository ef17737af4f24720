#!/usr/bin/python3
"""The load behind test/t/faults_stress.pl.

Many processes use one queue in every way there is, while backends are
terminated, clients are killed and the table is rewritten.  At the end the
queue is drained and what happened is compared with what must have happened.
The result is one JSON object on standard output; the caller judges it.

The clients write down when they were certain to hold a lease, what was committed, and
what they saw that is wrong (journal.py): more tasks than asked for, a task of another
group or bucket, a receipt that was refused too early, an error nobody announced. It is
compared with tables that are written in the transaction that enqueued, acknowledged or
cancelled the task (judge.py).
"""

import json
import multiprocessing
import random
import sys
import threading
import time
import traceback

import psycopg

import client_faults  # pylint: disable=unused-import
import judge
from clients import Connected, Rollback, Task
from driver import Driver, arguments
from journal import now, since_boot

QUEUE = "stress"
TABLE = 'fairq."q_stress"'
GROUPS = ["g%d" % i for i in range(40)]
LEASE_SECONDS = 2
LEASE = "%d s" % LEASE_SECONDS
BUCKETS = 4

# For crashes that there have not been when the time is over.
MORE_SECONDS = 60

# A client that was terminated, or finds the connection gone, goes on with a
# new connection.  Every other error is a finding.
EXPECTED_SQLSTATES = ("57P01",)
# With --crash-every the server goes down under it as well.
CRASH_SQLSTATES = ("57P01", "57P02", "57P03")


class Client(Connected):
    prefix = "stress"
    pause = 0.02

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.expected = CRASH_SQLSTATES if self.options.crash_every else EXPECTED_SQLSTATES
        self.held = {}      # receipt -> Task
        self.stale = {}     # receipt -> (Task, whether an ack may be true)
        self.settling = []  # tasks whose fate an error leaves open
        self.in_doubt = set()   # receipts that were refused
        self.seen = []      # ids of tasks
        self.cancellable = []   # (id, name)

    def over(self):
        return super().over() or time.time() >= self.options.deadline.value

    def stays(self, _):
        return False

    def disconnected(self):
        self.forget(self.settling, may_ack=True)

    def maybe_roll_back(self, p):
        if self.chance(p):
            raise Rollback()

    def settles(self, body, tasks=()):
        return self.transaction("settle", [task.receipt for task in tasks], body)

    # -- leases -----------------------------------------------------------

    def check_claimed(self, rows, asked, limit, buckets=None, groups=None):
        """[Task]"""
        tasks = []
        for task, receipt, group, payload, attempt, lease_until, bucket in rows:
            if groups is not None and group not in groups:
                self.wrong("group %s is none of %s" % (group, groups))
            if buckets is not None and bucket not in buckets:
                self.wrong("bucket %s is none of %s" % (bucket, buckets))
            if payload["g"] != group:
                self.wrong("task %s of group %s has the payload of %s" % (task, group, payload["g"]))
            if attempt < 1:
                self.wrong("attempt %s" % attempt)
            until = lease_until and since_boot(lease_until.timestamp())
            tasks.append(Task(QUEUE, payload["n"], receipt, None, attempt, asked, until, task=task, payload=payload))
        return self.claimed(tasks, limit)

    CLAIM_COLUMNS = "id, receipt::text, group_key, payload, attempt, lease_until, fairq.bucket(address)"

    def claim(self, limit):
        buckets = groups = None
        if self.chance(0.15):
            buckets = self.random.sample(range(BUCKETS), self.random.randint(1, BUCKETS))
        if self.chance(0.1):
            groups = self.random.sample(GROUPS, self.random.randint(1, 10))
        asked = now()
        rows = self.rows(
            "SELECT " + self.CLAIM_COLUMNS + " FROM fairq.claim(%s, %s, lease => %s::interval,"
            " buckets => %s::int[], group_keys => %s::text[])",
            QUEUE, limit, LEASE, buckets, groups)
        return self.check_claimed(rows, asked, limit, buckets, groups)

    def holds(self, tasks):
        """These leases are committed: they are mine until their deadline."""
        self.hold(tasks)
        self.held.update((task.receipt, task) for task in tasks)
        self.seen += [task.task for task in tasks]
        del self.seen[:-200]

    def holds_again(self, tasks):
        """The transaction that gave them up was rolled back."""
        self.hold([task for task in tasks if task.receipt in self.held and task.until > now()])

    # A lease has ended for certain when this client ended it. One that was refused may
    # be in force again: the answer is false as well while somebody else is about to end
    # it, a cancel or the pass that puts back what has run out, and that may be rolled
    # back. Then an ack is true, until the task is somebody else's.

    def is_over(self, task, may_ack=False):
        self.stale[task.receipt] = (task, may_ack)
        if len(self.stale) > 200:
            del self.stale[next(iter(self.stale))]

    def forget(self, tasks, may_ack=False):
        for task in tasks:
            if self.held.pop(task.receipt, None):
                self.is_over(task, may_ack or task.receipt in self.in_doubt)
            self.in_doubt.discard(task.receipt)

    def are_over(self, tasks):
        for task in tasks:
            self.is_over(task)

    def refused(self, tasks, asked):
        """These answered false. A lease that has not run out by now was lost
        too early, unless somebody cancels the task."""
        self.in_doubt.update(task.receipt for task in tasks)
        for task in tasks:
            self.journal.write("F", now(), asked, task.queue, task.ident, task.receipt, None if "c" in task.payload else task.until)

    def pick(self, limit):
        tasks = list(self.held.values())
        self.random.shuffle(tasks)
        return tasks[:limit]

    def payload(self, name, group, **more):
        return json.dumps({"n": name, "g": group, **more})

    # -- what a client does -----------------------------------------------

    def enqueue_one(self):
        group = self.random.choice(GROUPS)
        names = self.names(1)
        cancellable = self.chance(0.2)
        payload = self.payload(names[0], group, c=1) if cancellable else self.payload(names[0], group)
        tasks = []

        def body(_):
            tasks.append((self.one(
                "SELECT fairq.enqueue(%s, %s::jsonb, group_key => %s, priority => %s, cost => %s::real)",
                QUEUE, payload, group, self.random.choice([0, 0, 0, 1, 9]), self.random.choice([1, 1, 0.25, 7])), names[0]))
            self.produced(QUEUE, tasks)
            self.maybe_roll_back(0.1)

        if self.transaction("enqueue", names, body) and cancellable:
            self.cancellable += tasks
            del self.cancellable[:-20]

    def insert_many(self, names):
        groups = [self.random.choice(GROUPS) for _ in names]
        self.produced(QUEUE, self.rows(
            "SELECT i, n FROM unnest(fairq.enqueue_many(%s, %s::text[]::jsonb[], group_keys => %s), %s::text[]) AS u(i, n)",
            QUEUE, [self.payload(name, group) for name, group in zip(names, groups)], groups, names))

    def enqueue_many(self):
        names = self.names(self.random.choice([2, 10, 50, 200]))

        def body(_):
            self.insert_many(names)
            self.maybe_roll_back(0.15)

        self.transaction("enqueue", names, body)

    def enqueue_slowly(self):
        """A transaction that commits when the others are far ahead."""
        names = self.names(25)

        def body(_):
            self.insert_many(names[:20])
            time.sleep(self.random.uniform(0.2, 2))
            self.insert_many(names[20:])
            self.maybe_roll_back(0.2)

        self.transaction("enqueue", names, body)

    def claim_and_hold(self):
        self.holds(self.claim(self.random.choice([1, 1, 3, 10, 50])))

    def claim_in_transaction(self):
        tasks = []

        def body(_):
            tasks.extend(self.claim(self.random.choice([1, 5, 30])))
            begin = now()
            if self.chance(0.3):
                time.sleep(self.random.uniform(0, 0.3))
            # That the backend still answers proves that it held them until
            # the question was sent.
            asked = now()
            self.conn.execute("SELECT 1")
            self.journal.write("H", begin, 0, None, [task.line(min(asked, task.until)) for task in tasks])
            self.maybe_roll_back(0.5)

        if self.settles(body):
            self.holds(tasks)
        else:
            self.are_over(tasks)

    def settle(self, function):
        """Run function(tasks, acked) in a transaction that may be rolled back."""
        tasks = self.pick(self.random.choice([1, 1, 5, 50]))
        if not tasks:
            return
        self.unsure(tasks)
        self.settling = tasks

        def body(acked):
            function(tasks, acked)
            if self.chance(0.03):
                time.sleep(self.random.uniform(0, 2.5))
            self.maybe_roll_back(0.2)

        if self.settles(body, tasks):
            self.forget(tasks)
        else:
            self.holds_again(tasks)

    def single(self, call, task):
        """One receipt; true if it was settled."""
        asked = now()
        if self.one("SELECT " + call, task.receipt):
            return True
        self.refused([task], asked)
        return False

    def plural(self, call, tasks):
        """Many receipts; the tasks that were settled."""
        if not tasks:
            return []
        asked = now()
        receipts = [task.receipt for task in tasks]
        done = [row[0] for row in self.rows("SELECT r::text FROM " + call + " r", receipts)]
        if not set(done) <= set(receipts) or len(done) != len(set(done)):
            self.wrong("%s of %s answered %s" % (call, receipts, done))
        self.refused([task for task in tasks if task.receipt not in done], asked)
        return [task for task in tasks if task.receipt in done]

    def ack(self, tasks, acked):
        for task in tasks:
            if self.single("fairq.ack(%s)", task):
                self.result(task, acked=acked, how="ack")

    def ack_many(self, tasks, acked):
        self.result(*self.plural("fairq.ack_many(%s::uuid[])", tasks), acked=acked, how="ack_many")

    def nack(self, tasks, _):
        self.single("fairq.nack(%s, 'once more', '0')", tasks[0])
        self.plural("fairq.nack_many(%s::uuid[], delay => '0')", tasks[1:])

    def release(self, tasks, _):
        self.single("fairq.release(%s)", tasks[0])
        self.plural("fairq.release_many(%s::uuid[])", tasks[1:])

    def settle_ack(self):
        self.settle(self.ack)

    def settle_ack_many(self):
        self.settle(self.ack_many)

    def settle_nack(self):
        self.settle(self.nack)

    def settle_release(self):
        self.settle(self.release)

    def ack_and_claim(self):
        """It does not say which receipts were good. In one snapshot the rows
        that disappear are those this transaction deleted."""
        tasks = self.pick(self.random.choice([0, 1, 10]))
        limit = self.random.choice([1, 10])
        claimed = []
        self.unsure(tasks)
        self.settling = tasks

        def present():
            return {r[0] for r in self.rows("SELECT id FROM " + TABLE + " WHERE id = ANY (%s)", [task.task for task in tasks])}

        def body(acked):
            self.conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = present()
            asked = now()
            rows = self.rows(
                "SELECT " + self.CLAIM_COLUMNS + " FROM fairq.ack_and_claim(%s, %s::uuid[], %s,"
                " lease => %s::interval)", QUEUE, [task.receipt for task in tasks], limit, LEASE)
            gone = before - present()
            claimed.extend(self.check_claimed(rows, asked, limit))
            # Of a task whose lease ran out this client may hold two receipts.
            self.result(*{task.task: task for task in tasks if task.task in gone}.values(), acked=acked, how="ack_and_claim")
            self.refused([task for task in tasks if task.task not in gone], asked)
            self.maybe_roll_back(0.2)

        if self.settles(body, tasks):
            self.forget(tasks)
            self.holds(claimed)
        else:
            self.holds_again(tasks)
            self.are_over(claimed)

    def pop(self):
        def body(acked):
            limit = self.random.choice([1, 5, 20, 100])
            asked = now()
            tasks = self.check_claimed(self.rows("SELECT " + self.CLAIM_COLUMNS + " FROM fairq.pop(%s, %s)", QUEUE, limit), asked, limit)
            self.result(*tasks, acked=acked, how="pop")
            if self.chance(0.1):
                time.sleep(self.random.uniform(0, 0.5))
            self.maybe_roll_back(0.3)

        self.settles(body)

    def extend(self):
        tasks = self.pick(5)
        if not tasks:
            return
        first = tasks[0]
        asked = now()
        until = self.one("SELECT fairq.extend(%s, %s::interval)", first.receipt, LEASE)
        if until is None:
            self.refused([first], asked)
            self.forget([first])
        else:
            first.until = since_boot(until.timestamp())
            self.hold([first])
        good = self.plural("fairq.extend_many(%%s::uuid[], '%s'::interval)" % LEASE, tasks[1:])
        self.forget([task for task in tasks[1:] if task not in good])

    def cancel(self):
        if not self.cancellable:
            return
        # Mostly the newest, which is likely to be there still; some of them twice.
        task, name = self.cancellable.pop() if self.chance(0.7) else self.random.choice(self.cancellable)

        def body(_):
            if self.one("SELECT fairq.cancel(%s, %s)", QUEUE, task):
                self.conn.execute("INSERT INTO removed VALUES (%s, %s, 'cancelled')", (QUEUE, name))
            self.maybe_roll_back(0.3)

        self.settles(body)

    def savepoints(self):
        kept = []
        names = self.names(6)

        def ack(task):
            if self.one("SELECT fairq.ack(%s)", task.receipt):
                return True
            if task.until > now() and "c" not in task.payload:
                self.wrong("ack in the transaction of the claim: false")
            return False

        def body(acked):
            self.conn.execute("SAVEPOINT a")
            self.insert_many(names[:3])
            lost = self.claim(3)
            self.conn.execute("ROLLBACK TO a")
            self.are_over(lost)
            self.insert_many(names[3:])
            self.conn.execute("SAVEPOINT b")
            tasks = self.claim(4)
            self.conn.execute("SAVEPOINT c")
            for task in tasks:
                ack(task)
            self.conn.execute("ROLLBACK TO c")
            for task in tasks[:2]:
                if ack(task):
                    self.result(task, acked=acked, how="savepoint")
            self.conn.execute("RELEASE b")
            kept.extend(tasks[2:])
            self.maybe_roll_back(0.3)

        if self.transaction("enqueue", names[3:], body):
            self.holds(kept)
        else:
            self.are_over(kept)

    def walk_away(self):
        """As a worker that hangs: the leases run out."""
        self.forget(self.pick(20), may_ack=True)

    def try_stale(self):
        """A receipt of a lease that has ended settles nothing, unless the
        lease has run out and nobody took the task over."""
        if not self.stale:
            return
        task, may_ack = self.stale[self.random.choice(list(self.stale))]
        done = []

        def body(acked):
            if self.one("SELECT fairq.ack(%s)", task.receipt):
                self.result(task, acked=acked, how="late")
                done.append(True)
                if not may_ack:
                    self.wrong("ack of task %s, receipt %s whose lease has ended: true" % (task.ident, task.receipt))

        self.settles(body)
        self.is_over(task, may_ack and not done)

    def share(self):
        """Let anybody acknowledge what this client has claimed."""
        tasks = self.claim(self.random.choice([1, 10]))
        if tasks:
            self.conn.execute("INSERT INTO shared SELECT * FROM unnest(%s::bigint[], %s::uuid[], %s::text[])", (
                [task.task for task in tasks], [task.receipt for task in tasks], [task.ident for task in tasks]))
            self.holds(tasks)
            for task in tasks:
                del self.held[task.receipt]

    def ack_shared(self):
        """Several clients may try the same receipt at the same time."""
        rows = self.rows("SELECT task, receipt::text, n FROM shared ORDER BY task DESC LIMIT 3")
        if not rows:
            return
        task, receipt, n = self.random.choice(rows)

        def body(acked):
            if self.one("SELECT fairq.ack(%s)", receipt):
                self.result(Task(QUEUE, n, receipt, task=task), acked=acked, how="shared")
                time.sleep(self.random.uniform(0, 0.02))
            self.maybe_roll_back(0.3)
            self.conn.execute("DELETE FROM shared WHERE receipt = %s", (receipt,))

        self.settles(body)

    def look(self):
        """Look at things, which must disturb nobody."""
        self.rows("SELECT count(*) FROM fairq.peek(%s, 10)", QUEUE)
        self.rows("SELECT * FROM fairq.queue_stats")
        self.rows("SELECT count(*) FROM fairq.leases")
        if self.seen:
            self.rows("SELECT * FROM fairq.get_task(%s, %s)", QUEUE, self.random.choice(self.seen))

    ACTIONS = [
        ("enqueue_one", 12), ("enqueue_many", 7), ("enqueue_slowly", 1),
        ("claim_and_hold", 14), ("claim_in_transaction", 6),
        ("settle_ack", 12), ("settle_ack_many", 8), ("ack_and_claim", 8),
        ("settle_nack", 4), ("settle_release", 4), ("pop", 6), ("extend", 4),
        ("cancel", 3), ("savepoints", 4), ("walk_away", 1), ("try_stale", 3), ("share", 3), ("ack_shared", 6),
        ("look", 1),
    ]

    def weights(self, left):
        """In turn: more comes than goes, more goes than comes, and only a
        few come, so that the queue is deep, gets empty and stays so."""
        phase = int(left / 5) % 3
        result = []
        for name, weight in self.ACTIONS:
            if phase != 0 and name == "enqueue_many":
                weight = 0
            elif phase == 1 and name == "enqueue_one":
                weight /= 4
            elif phase == 1 and name in ("settle_ack_many", "claim_and_hold", "pop"):
                weight *= 3
            result.append(weight)
        return result

    def step(self):
        names = [name for name, _ in self.ACTIONS]

        def act():
            name = self.random.choices(names, self.weights(self.options.deadline.value - time.time()))[0]
            self.settling = []
            getattr(self, name)()
            self.journal.write("N", name)

        return act


# -- the disturbances ---------------------------------------------------------

class Stress(Driver):
    client = Client

    def __init__(self, options):
        super().__init__(options, ["client"] * options.clients)
        self.deadline = options.deadline = multiprocessing.RawValue("d", 0)
        self.maintenance, self.errors = {}, []

    def goes_on(self, number=1, seconds=None):
        """By the clock."""

    def begin(self):
        with self.connect() as conn:
            conn.execute("SELECT fairq.create_queue(%s, buckets => %s, lease => %s::interval, max_attempts => 0, max_lost => 0, backoff_base => '0')",
                         (QUEUE, BUCKETS, LEASE))
            conn.execute(judge.TABLES + "CREATE TABLE shared (task bigint, receipt uuid, n text)")
        self.deadline.value = time.time() + self.options.seconds
        self.crew.begin()

    def times(self, name):
        return len(self.done.get(name, ()))

    def run(self):
        """Terminates backends, kills clients, which are replaced, or the server."""
        maintenance = threading.Thread(target=self.maintain, args=(time.time(), self.deadline.value))
        maintenance.start()
        next_kill = time.time() + 2
        next_crash = time.time() + (self.options.crash_every or self.options.seconds + 1)
        end = self.deadline.value
        most = time.time() + MORE_SECONDS
        while time.time() < self.deadline.value - 0.5:
            # Until there have been as many crashes as there are to be, on a busy machine.
            if self.options.crashes:
                missing = self.times("backend_killed") < self.options.crashes
                self.deadline.value = max(end, most if missing else min(self.deadline.value, time.time() + 3))
            time.sleep(0.3)
            if time.time() >= next_crash:
                self.harm("backend_killed")
                next_crash = time.time() + self.options.crash_every
            else:
                self.harm("terminated")
            if time.time() >= next_kill:
                next_kill = time.time() + 2
                self.harm("client_killed")
        self.crew.end()
        maintenance.join()

    def maintain(self, begin, deadline):
        """A thread: what a database administrator does to the table meanwhile."""
        if self.options.crash_every:
            return
        plan = [(0, "VACUUM " + TABLE), (0, "ANALYZE " + TABLE), (0.2, "VACUUM FULL " + TABLE), (0.4, "CLUSTER " + TABLE + " USING id_of_stress"), (0.6, "REINDEX TABLE CONCURRENTLY " + TABLE)]
        try:
            with self.connect() as conn:
                while plan or time.time() < deadline - 1:
                    if plan and time.time() >= begin + plan[0][0] * (deadline - begin):
                        command = plan.pop(0)[1]
                    else:
                        command = random.choice(["VACUUM ", "ANALYZE "]) + TABLE
                    conn.execute(command)
                    word = command.split(" fairq")[0]
                    self.maintenance[word] = self.maintenance.get(word, 0) + 1
                    time.sleep(0.5)
        except psycopg.Error:
            self.errors.append(traceback.format_exc(limit=-2))

    def finish(self):
        """The report."""
        logs = judge.read_logs(self.options.journals)
        last_deadline = max((hold.end for log in logs for hold in log.holds), default=0)
        with self.connect() as conn:
            # The backends of killed clients end when they notice.
            while one(conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'stress %%'"):
                time.sleep(0.05)
            before = now()
            # A claim whose answer was lost with its connection holds a lease too.
            drained = drain(conn, max(last_deadline, before + LEASE_SECONDS))
            return dict(
                reckon(conn), **self.judged(conn, [judge.there(QUEUE)]).as_json(), actions=judge.actions(logs), seed=self.options.seed,
                drained=drained, drain_seconds=round(now() - before, 2), broken=self.crew.broken, terminated=self.times("terminated"),
                killed=self.times("client_killed"), crashes=self.times("backend_killed"), maintenance=self.maintenance, maintenance_errors=self.errors)


# -- the reckoning ------------------------------------------------------------

def drain(conn, last_deadline):
    """Claim until nothing is left. Rows of which no claim gives any for half a
    minute, after the last lease has run out, are lost; nothing finds them later.
    Suspects come a few at a time (suspects.c)."""
    drained = 0
    last = last_deadline
    while True:
        asked = now()
        with conn.transaction():
            tasks = conn.execute(
                "SELECT id, receipt, payload->>'n' FROM fairq.claim(%s, 1000)", (QUEUE,)).fetchall()
            acked = {r[0] for r in conn.execute(
                "SELECT * FROM fairq.ack_many(%s)", ([t[1] for t in tasks],))}
            conn.cursor().executemany(
                "INSERT INTO results VALUES (%s, %s, %s, 'drain', 0, %s)",
                [(QUEUE, n, receipt, task) for task, receipt, n in tasks if receipt in acked])
        drained += len(tasks)
        if tasks:
            last = max(last, asked)
        else:
            empty = one(conn, "SELECT count(*) FROM " + TABLE) == 0
            if asked > last + (1 if empty else 30):
                return drained
            time.sleep(0.05)


def one(conn, sql, *params):
    return conn.execute(sql, params).fetchone()[0]


def reckon(conn):
    result = {}
    result["left"] = one(conn, "SELECT count(*) FROM " + TABLE)
    result["left_rows"] = [str(r) for r in conn.execute(
        "SELECT id, address, state, group_key, attempts, ctid, xmin, xmax FROM " + TABLE + " LIMIT 10")]
    result["leases"] = one(conn, "SELECT count(*) FROM fairq.leases")
    result["receipts_again"] = one(
        conn, "SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM results WHERE receipt IS NOT NULL))")
    columns = "ready leased dead enqueued claimed acked nacked released expired cancelled".split()
    stats = conn.execute("SELECT " + ", ".join(columns) + " FROM fairq.queue_stats WHERE queue = %s", (QUEUE,)).fetchone()
    result["stats"] = dict(zip(columns, [None if s is None else int(s) for s in stats]))
    result["how"] = dict(conn.execute("SELECT client, count(*) FROM results GROUP BY client").fetchall())
    return result


def main():
    parser = arguments()
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--crash-every", type=float, default=0,
                        help="seconds between two crashes of the server (must be local, and of the same user)")
    parser.add_argument("--crashes", type=int, default=0, help="at least so many, though it take longer")
    stress = Stress(parser.parse_args())
    stress.begin()
    stress.run()
    json.dump(stress.finish(), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
