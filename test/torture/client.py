"""One client of the load: a process that produces, or claims and settles.

What it is about to do and what came of it is in its journal, see journal.py.
"""

import multiprocessing
import os
import random
import sys
import time
import traceback

import psycopg

from journal import Journal, now
from queues import BY_ID, DURABLE, FOREVER, GROUPS, KEYS, LEASE, QUEUES, SUBGROUPS, TTL, ident, table

KINDS = ("producer", "producer", "producer", "lease", "lease", "lease", "session", "bound", "transaction", "pop")

# More tasks than these in a queue, and producers leave it alone.
ENOUGH = 600

LEVELS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

# What a client may be told when faults are about. Class 08 is a connection that is
# lost, 53 a disk or something else that is full, 57 the administrator.
EXPECTED = {None, "40001", "40P01", "55P03", "25006", "58030", "3D000", "55000"}


class Rollback(Exception):
    """Leaves a transaction the other way."""


class Shared:
    """Without locks: who is killed would keep them."""

    def __init__(self, number):
        self.stop = multiprocessing.RawValue("i", 0)
        self.drain = multiprocessing.RawValue("i", 0)
        self.calm = multiprocessing.RawValue("i", 0)    # nothing is to be prepared
        self.away = multiprocessing.RawValue("i", 0)    # nobody is to connect
        self.acked = multiprocessing.RawArray("q", number)
        self.holds = multiprocessing.RawArray("i", number)


class Client:
    def __init__(self, shared, options, number, incarnation):
        self.shared = shared
        self.options = options
        self.number = number
        self.kind = KINDS[number]
        self.tag = "%s.%d.%d" % (self.kind, number, incarnation)
        self.random = random.Random("%s %s" % (options.seed, self.tag))
        self.journal = Journal(os.path.join(options.journals, self.tag))
        self.parent = os.getppid()
        self.counter = 0
        self.x = 0
        self.conn = None
        self.pid = 0
        self.session = None
        self.alive_at = 0
        self.held = {}      # receipt -> (queue, ident, key, asked, until)

    def chance(self, p):
        return self.random.random() < p

    def connect(self):
        while not self.over():
            if self.shared.away.value:
                time.sleep(0.05)
                continue
            try:
                self.conn = psycopg.connect(self.options.conninfo, autocommit=True, connect_timeout=10,
                                            application_name="torture " + self.tag)
                self.pid = self.conn.info.backend_pid
                return
            except psycopg.OperationalError:
                time.sleep(0.05)

    def over(self):
        return self.shared.stop.value or os.getppid() != self.parent

    def rows(self, query, *params):
        return self.conn.execute(query, params).fetchall()

    def one(self, query, *params):
        return self.rows(query, *params)[0][0]

    def work(self):
        time.sleep(self.random.uniform(0.001, 0.03))

    def a_queue(self):
        names = list(QUEUES)
        return self.random.choices(names, [QUEUES[name][1] for name in names])[0]

    # -- transactions ------------------------------------------------------

    def transaction(self, what, names, body, prepare=False):
        """body(acked) does the work and may raise Rollback.  True if it
        committed, and this is known."""
        self.x += 1
        x, acked, outcome = self.x, [], "r"
        self.journal.write("I", x, now(), what, names)
        try:
            self.conn.execute("BEGIN ISOLATION LEVEL " + self.random.choice(LEVELS))
            try:
                body(acked)
            except Rollback:
                self.conn.execute("ROLLBACK")
                return False
            # From here on it may be committed when the connection is lost.
            outcome = "u"
            try:
                if prepare:
                    self.two_phases("%s.%d" % (self.tag, x))
                elif self.conn.execute("COMMIT").statusmessage != "COMMIT":
                    raise RuntimeError("COMMIT answered with something else")
            except Rollback:
                outcome = "r"
                return False
            except psycopg.Error:
                if not self.conn.closed and not prepare:
                    outcome = "r"
                raise
            outcome = "c"
            return True
        finally:
            self.journal.write("O", x, now(), outcome, acked)

    def two_phases(self, name):
        # The driver ends what nobody else will: then neither of the two is there.
        self.conn.execute("PREPARE TRANSACTION '%s'" % name)
        time.sleep(self.random.choice((0, 0.05, 0.3)))
        commit = self.chance(0.7)
        self.conn.execute("%s PREPARED '%s'" % ("COMMIT" if commit else "ROLLBACK", name))
        if not commit:
            raise Rollback()

    # -- producers ---------------------------------------------------------

    def names(self, number):
        self.counter += number
        return ["%s.%d" % (self.tag, self.counter - i) for i in range(number)]

    def enqueue_expiring(self, names):
        """Some expire soon, some when they have been claimed, some never."""
        return self.rows(
            "SELECT fairq.enqueue('expiring', jsonb_build_object('n', n), group_key => %s, delay => %s::interval,"
            " expires_at => clock_timestamp() + %s::interval), n FROM unnest(%s::text[]) n",
            self.random.choice(GROUPS), self.random.choice((None, None, "200 ms")),
            self.random.choice((None, "300 ms", "1 s", "4 s", "1 year")), names)

    def enqueue_once(self):
        """A key that is remembered: whoever asks gets the same task, for ever."""
        key = self.random.choice(FOREVER)
        task = self.one("SELECT fairq.enqueue('keys', jsonb_build_object('n', %s::text, 'key', %s::text), unique_key => %s,"
                        " on_duplicate => %s, unique_for => '1 year')", key, key, key, self.random.choice(("keep", "replace")))
        self.conn.execute("INSERT INTO once VALUES (%s, %s)", (key, str(task)))
        return task, key

    def enqueue_after(self, names):
        """The last of some waits for all others, or each for the one before it."""
        members = names[:1] if self.chance(0.3) else names[:-1] or names
        tasks = self.rows(
            "SELECT fairq.enqueue('after', jsonb_build_object('n', n), group_key => %s), n FROM unnest(%s::text[]) n",
            self.random.choice(GROUPS), members)
        for name in names[len(members):]:
            before = tasks if len(members) > 1 else tasks[-1:]
            tasks = tasks + self.rows(
                "SELECT fairq.enqueue('after', jsonb_build_object('n', %s::text), group_key => %s, after => %s::bigint[], on_dead => 'run'), %s",
                name, self.random.choice(GROUPS), [task for task, _ in before], name)
            self.conn.execute("INSERT INTO callbacks SELECT %s, unnest(%s::text[])", (name, [n for _, n in before]))
        return tasks

    def check_callbacks(self, names):
        """What a task waits for has ended when it can be claimed. (With an older
        snapshot that is not to be seen.) Seen to fail: when waits_for_less() of
        successors.c does not ask whether others are left."""
        if not names or self.one("SELECT current_setting('transaction_isolation')") != "read committed":
            return
        for name, member in self.rows(
                "SELECT n, member FROM callbacks c WHERE n = ANY (%s)"
                " AND NOT EXISTS (SELECT FROM results r WHERE r.queue = 'after' AND r.ident = c.member)"
                " AND NOT EXISTS (SELECT FROM removed r WHERE r.queue = 'after' AND r.ident = c.member)", names):
            self.journal.write("X", now(), "client", "task %s was claimed before %s had ended" % (name, member))

    def enqueue(self, queue, names):
        if queue == "expiring":
            return self.enqueue_expiring(names)
        if queue == "after":
            return self.enqueue_after(names)
        number = len(names)
        keys = self.random.choices(KEYS, k=number) if queue == "keys" else None
        # In an order that all keep to, or they wait for each other in a circle.
        keys = keys and sorted(keys)
        return self.rows(
            "SELECT i, n FROM unnest(fairq.enqueue_many(%s, ARRAY(SELECT jsonb_build_object('n', n, 'key', k) FROM"
            " unnest(%s::text[], %s::text[]) WITH ORDINALITY u(n, k, o) ORDER BY o), group_keys => %s::text[],"
            " priorities => %s::bigint[], run_ats => ARRAY[clock_timestamp() + %s::float8 * interval '1 s'],"
            " unique_keys => %s::text[], on_duplicate => %s, unique_for => %s::interval,"
            " subgroup_keys => %s::text[]), %s::text[]) v(i, n)",
            queue, names, keys, self.random.choices(GROUPS, k=number), self.random.choices((0, 1, 4), k=number),
            self.random.uniform(0.05, 1) if self.chance(0.1) else None, keys,
            self.random.choice(("keep", "replace")), self.random.choice((None, "1 ms", "300 ms")) if keys else None,
            self.random.choices(SUBGROUPS, k=number) if queue == "users" else None, names)

    def produce(self):
        queue = self.a_queue()
        if self.one("SELECT count(*) FROM (SELECT FROM %s LIMIT %d) t" % (table(queue), ENOUGH)) >= ENOUGH:
            time.sleep(0.05)
            return
        names = self.names(self.random.choice((1, 1, 1, 5, 20)))
        void = self.names(3)
        prepare = self.chance(0.05) and not self.shared.calm.value
        way = self.random.random()

        def body(acked):
            if way < 0.1:           # what is enqueued here must never be seen
                self.conn.execute("SAVEPOINT a")
                self.enqueue(queue, void)
                self.conn.execute("ROLLBACK TO a")
            tasks = self.enqueue(queue, names)
            if queue == "keys" and way > 0.8:
                tasks.append(self.enqueue_once())
            self.conn.execute("INSERT INTO produced SELECT %s, i, n FROM unnest(%s::text[], %s::text[]) u(i, n)",
                              (queue, [ident(queue, task, n) for task, n in tasks], [n for _, n in tasks]))
            if way > 0.97 and queue not in BY_ID and not prepare:
                if self.one("SELECT fairq.cancel(%s, %s)", queue, tasks[0][0]):
                    self.conn.execute("INSERT INTO removed VALUES (%s, %s, 'cancelled')", (queue, tasks[0][1]))
            if self.chance(0.03):
                time.sleep(0.3)     # commits when others are ahead
            if self.chance(0.1):
                raise Rollback()

        if self.transaction("enqueue", names, body, prepare) and queue == "expiring" and self.chance(0.2):
            self.await_end(names[0])
        time.sleep(self.random.uniform(0, 0.03))

    def await_end(self, name):
        """What it says of a task is so."""
        found = self.rows("SELECT id FROM fairq.q_expiring WHERE payload->>'n' = %s", name)
        if not found:
            return
        outcome = self.rows("SELECT state, result->>'of' FROM fairq.await('expiring', %s, '2 s')", found[0][0])[0]
        if outcome[0] == "acked" and not (outcome[1] == name and self.rows(
                "SELECT FROM results WHERE queue = 'expiring' AND ident = %s", name)) and not self.rows(
                "SELECT FROM results WHERE queue = 'expiring' AND ident = %s AND receipt IS NULL", name):
            self.journal.write("X", now(), "client", "await: task %s ended as %s" % (name, outcome))

    # -- those who claim, and settle later -----------------------------------

    def hold(self, receipts, pid=0):
        """From now on, for certain."""
        def kind(receipt):
            queue, _, _, asked, until = self.held[receipt]
            return asked, until, "d" if queue in DURABLE else ""

        for asked, until, flags in {kind(receipt) for receipt in receipts}:
            tasks = [(r, self.held[r]) for r in receipts if kind(r) == (asked, until, flags)]
            self.journal.write("H", now(), asked, until, flags, pid, self.session,
                               [[task[0], task[1], r, task[2]] for r, task in tasks])

    def unsure(self, receipts):
        self.journal.write("D", now(), list(receipts))

    def claim(self, queue, limit):
        sent = now()
        queues = [queue, *self.random.sample([name for name in QUEUES if name != queue], 2)] if self.chance(0.3) else [queue]
        try:
            tasks = self.rows(
                "SELECT queue, id, receipt::text, payload->>'n', payload->>'key', expires_at < statement_timestamp() FROM fairq.claim_any(%s, %s,"
                " lease => %s * interval '1 s', session => %s)", queues, limit, None if self.session else LEASE, self.session) if len(
                queues) > 1 else self.rows(
                "SELECT %s, id, receipt::text, payload->>'n', payload->>'key', expires_at < statement_timestamp() FROM fairq.claim(%s, %s,"
                " lease => %s * interval '1 s', session => %s)", queue, queue, limit, None if self.session else LEASE, self.session)
            self.check_callbacks([task[3] for task in tasks if task[0] == "after"])
        except psycopg.Error:
            # What it may have got, unknown to us, must not live on with the session.
            self.session = None
            raise
        for queue, task, _, n, _, expired in tasks:
            if expired:
                self.journal.write("X", now(), "client", "task %s %s was claimed when it had expired" % (queue, ident(queue, task, n)))
        return {receipt: (queue, ident(queue, task, n), key, sent, None if self.session else sent + LEASE)
                for queue, task, receipt, n, key, _ in tasks}

    def alive(self):
        """False: its session is over, and all that it held is lost."""
        if self.kind not in ("session", "bound"):
            return True
        sent = now()
        if self.session is None:
            self.session = self.one("SELECT fairq.open_session(%s, %s * interval '1 s', %s)::text", self.tag, TTL,
                                    self.kind == "bound")
        elif sent < self.alive_at + TTL / 4:
            return True
        elif not self.one("SELECT fairq.heartbeat(%s)", self.session):
            self.session = None
            self.held = {}
            return False
        self.alive_at = sent
        self.journal.write("B", sent, self.session, TTL)
        return True

    def consume(self):
        if not self.alive():
            return
        if not self.held:
            self.held = self.claim(self.a_queue(), self.random.choice((1, 2, 5, 20)))
            if not self.held:
                time.sleep(0.02)
                return
            self.hold(list(self.held), self.pid if self.kind == "bound" else 0)
        self.shared.holds[self.number] = len(self.held)
        self.work()
        self.settle()
        self.shared.holds[self.number] = len(self.held)

    def settle(self):
        receipts = list(self.held)[:self.random.choice((1, 1, 2, 10))]
        way = self.random.random()
        if way < 0.03 and not self.session:
            sent = now()
            if self.one("SELECT fairq.extend(%s, %s * interval '1 s')", receipts[0], LEASE) is None:
                del self.held[receipts[0]]
            else:
                self.held[receipts[0]] = self.held[receipts[0]][:3] + (sent, sent + LEASE)
                self.unsure(receipts[:1])
                self.hold(receipts[:1])
            return
        tasks = {receipt: self.held[receipt] for receipt in receipts}
        self.unsure(receipts)

        def ack(acked):
            for receipt in receipts:
                task = tasks[receipt]
                sent = now()
                if self.acknowledged(task[0], task[1], receipt):
                    self.result(task[0], task[1], receipt, acked)
                elif task[4] is not None:
                    self.journal.write("F", now(), sent, task[0], task[1], receipt, task[4])

        def body(acked):
            if way < 0.08:
                self.rows("SELECT fairq.nack_many(%s::uuid[], ARRAY['once more'])", receipts)
            elif way < 0.13:
                self.rows("SELECT fairq.release_many(%s::uuid[], %s)", receipts, self.random.choice(("0", "100 ms", "1 s")))
            elif way < 0.2:
                self.conn.execute("SAVEPOINT a")
                ack([])
                self.conn.execute("ROLLBACK TO a")
                ack(acked)
            elif way < 0.27:
                ack([])
                raise Rollback()
            else:
                ack(acked)
            if self.chance(0.1):
                self.work()

        try:
            done = self.transaction("settle", receipts, body)
        except psycopg.Error:
            # The leases go on if nothing was committed. They are tried again, but nothing is sure of them.
            for receipt in receipts:
                self.held[receipt] = self.held[receipt][:4] + self.held[receipt][3:4]
            raise
        if done:
            for receipt in receipts:
                del self.held[receipt]
            self.shared.acked[self.number] += 1
        else:
            self.hold(receipts, self.pid if self.kind == "bound" else 0)

    def acknowledged(self, queue, name, receipt):
        if queue != "expiring":
            return self.one("SELECT fairq.ack(%s)", receipt)
        return self.one("SELECT fairq.ack(%s, jsonb_build_object('of', %s::text))", receipt, name)

    def result(self, queue, name, receipt, acked):
        """In the transaction of the ack."""
        self.conn.execute("INSERT INTO results VALUES (%s, %s, %s, %s, %s)", (queue, name, receipt, self.tag, self.x))
        acked.append([queue, name, receipt])

    # -- those who claim in the transaction of the work ------------------------

    def take_ticks(self):
        """What schedules have enqueued."""
        def body(acked):
            self.conn.execute("INSERT INTO ticks SELECT headers->>'schedule', (headers->>'tick')::timestamptz FROM fairq.pop('ticks', 50)")
            if self.chance(0.1):
                raise Rollback()

        self.transaction("ticks", [], body)

    def in_one_transaction(self):
        if self.kind == "pop" and self.chance(0.1):
            self.take_ticks()
        queue = self.a_queue()
        limit = self.random.choice((1, 2, 5))
        found = []

        def body(acked):
            if self.kind == "pop":
                tasks = self.rows("SELECT id, payload->>'n' FROM fairq.pop(%s, %s)", queue, limit)
                self.check_callbacks([n for _, n in tasks] if queue == "after" else [])
                for task, n in tasks:
                    self.result(queue, ident(queue, task, n), None, acked)
                    found.append(n)
                self.work()
            else:
                self.held = self.claim(queue, limit)
                found.extend(self.held)
                self.shared.holds[self.number] = len(self.held)
                if found:
                    self.hold(found, self.pid)
                    self.work()
                    self.unsure(found)
                for receipt in found:
                    if not self.acknowledged(*self.held[receipt][:2], receipt):
                        raise Rollback()
                    self.result(*self.held[receipt][:2], receipt, acked)
            if self.chance(0.15):
                raise Rollback()

        try:
            if self.transaction("work", [], body) and found:
                self.shared.acked[self.number] += 1
        finally:
            self.held = {}
            self.shared.holds[self.number] = 0
        if not found:
            time.sleep(0.02)

    # -- the loop ----------------------------------------------------------

    def run(self):
        step = {"producer": self.produce, "transaction": self.in_one_transaction,
                "pop": self.in_one_transaction}.get(self.kind, self.consume)
        self.connect()
        while not self.over() and not (self.kind == "producer" and self.shared.drain.value):
            try:
                step()
            except psycopg.Error as error:
                state = error.sqlstate
                if state not in EXPECTED and state[:2] not in ("08", "53", "57") and not (
                        state == "42704" and "prepared transaction" in str(error)):
                    self.journal.write("X", now(), state, str(error))
                if state == "55000":
                    self.session = None     # over
                    self.held = {}
                self.recover()
            except Exception:
                self.journal.write("X", now(), "client", traceback.format_exc(limit=-3))
                self.conn.close()
                self.recover()

    def recover(self):
        if not self.conn.closed:
            try:
                self.conn.execute("ROLLBACK")
            except psycopg.Error:
                self.conn.close()
        if self.conn.closed:
            if self.kind == "bound":
                self.session = None
                self.held = {}
            self.connect()


def client_process(shared, options, number, incarnation):
    sys.stdin.close()
    Client(shared, options, number, incarnation).run()
