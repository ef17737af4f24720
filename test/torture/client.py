"""One client of the load: see clients.py of test/load.  What is its own is what the queues are
for, see queues.py."""

import psycopg

import clients
from clients import Rollback
from journal import now
from queues import BY_ID, DURABLE, FOREVER, GROUPS, KEYS, QUEUES, SUBGROUPS, ident

KINDS = ("producer", "producer", "producer", "lease", "lease", "lease", "session", "bound", "transaction", "pop")


class Client(clients.Client):
    prefix = "torture"
    levels = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    # Class 08 is a connection that is lost, 53 a disk or something else that is full, 57 the administrator.
    expected = ("08", "53", "57", "40001", "40P01", "55P03", "25006", "58030", "3D000", "55000")
    queues = {queue: weight for queue, (_, weight) in QUEUES.items()}
    COLUMNS = clients.Client.COLUMNS + ", expires_at < statement_timestamp()"
    prepares = 0.05

    def is_expected(self, error):
        return super().is_expected(error) or error.sqlstate == "42704" and "prepared transaction" in str(error)

    ident = staticmethod(ident)

    # -- producers ---------------------------------------------------------

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
            self.wrong("task %s was claimed before %s had ended" % (name, member))

    def enqueue(self, queue, names, keys=None, more="", params=()):
        if queue == "expiring":
            return self.enqueue_expiring(names)
        if queue == "after":
            return self.enqueue_after(names)
        number = len(names)
        keys = self.random.choices(KEYS, k=number) if queue == "keys" else None
        # In an order that all keep to, or they wait for each other in a circle.
        keys = keys and sorted(keys)
        tasks = super().enqueue(
            queue, names, keys, ", priorities => %s::bigint[], unique_keys => %s::text[], on_duplicate => %s, unique_for => %s::interval,"
            " subgroup_keys => %s::text[]", (
                self.random.choices((0, 1, 4), k=number), keys, self.random.choice(("keep", "replace")),
                self.random.choice((None, "1 ms", "300 ms")) if keys else None,
                self.random.choices(SUBGROUPS, k=number) if queue == "users" else None))
        if queue == "keys" and self.chance(0.2):
            tasks.append(self.enqueue_once())
        return tasks

    def besides(self, queue, tasks, way):
        if way > 0.97 and queue not in BY_ID:
            if self.one("SELECT fairq.cancel(%s, %s)", queue, tasks[0][0]):
                self.conn.execute("INSERT INTO removed VALUES (%s, %s, 'cancelled')", (queue, tasks[0][1]))

    def enqueued(self, queue, names):
        """What await says of a task is so."""
        if queue != "expiring" or not self.chance(0.2):
            return
        name = names[0]
        found = self.rows("SELECT id FROM fairq.q_expiring WHERE payload->>'n' = %s", name)
        if not found:
            return
        outcome = self.rows("SELECT state, result->>'of' FROM fairq.await('expiring', %s, '2 s')", found[0][0])[0]
        # Who pops gives no result.
        if outcome[0] == "acked" and not self.rows(
                "SELECT FROM results WHERE queue = 'expiring' AND ident = %s AND (client LIKE 'pop.%%' OR %s)", name, outcome[1] == name):
            self.wrong("await: task %s ended as %s" % (name, outcome))

    # -- workers -----------------------------------------------------------

    def tasks(self, rows, asked, until=None):
        self.check_callbacks([row[3] for row in rows if row[0] == "after"])
        tasks = super().tasks(rows, asked, until)
        for task, row in zip(tasks, rows):
            task.durable = task.queue in DURABLE and until is not None
            if self.kind != "pop" and row[-1]:
                self.wrong("task %s %s was claimed when it had expired" % (task.queue, task.ident))
        return tasks

    def claim(self, queue, limit):
        try:
            if self.chance(0.7):
                return super().claim(queue, limit)
            asked = now()
            rows = self.rows("SELECT queue, " + self.COLUMNS + " FROM fairq.claim_any(%s, %s, lease => %s * interval '1 s', session => %s)",
                             [queue, *self.random.sample([name for name in QUEUES if name != queue], 2)], limit,
                             None if self.session else self.lease, self.session)
            return self.claimed(self.tasks(rows, asked, None if self.session else asked + self.lease), limit)
        except psycopg.Error:
            # What it may have got, unknown to us, must not live on with the session.
            self.session = None
            raise

    def acked(self, task):
        if task.queue != "expiring":
            return super().acked(task)
        return self.one("SELECT fairq.ack(%s, jsonb_build_object('of', %s::text))", task.receipt, task.ident)

    def in_one_transaction(self):
        if self.kind == "pop" and self.chance(0.1):
            self.take_ticks()
        super().in_one_transaction()

    def take_ticks(self):
        """What schedules have enqueued."""
        def body(_):
            self.conn.execute("INSERT INTO ticks SELECT headers->>'schedule', (headers->>'tick')::timestamptz FROM fairq.pop('ticks', 50)")
            if self.chance(0.1):
                raise Rollback()

        self.transaction("ticks", [], body)
