"""Pairs of what may happen to a task, the second while the commit of the first is held up.

The first has committed for all to see, and has not carried out yet what it owes (held_commit.c of
test/t/lib holds it up there).  The second is done meanwhile, or waits for the first.  Then both end.
Or (WAYS) the first was done in a savepoint, or both are done in one transaction.
Each pair has a queue of its own.  Checked for each: what the views count is what the tasks are; each
task can be worked on to its end, once; and nothing is counted when all are gone.
"""

import argparse
import itertools
import os
import time

import psycopg

# Of a task with an id ({id}); of a leased one also with a receipt ({receipt}).
ROW = {
    "DELETE": "DELETE FROM fairq.q_q WHERE id = {id}",
    "payload": "UPDATE fairq.q_q SET payload = '3' WHERE id = {id}",
    "group": "UPDATE fairq.q_q SET group_key = 'b' WHERE id = {id}",
    "priority": "UPDATE fairq.q_q SET priority = 1 WHERE id = {id}",
    "again": "WITH was AS (DELETE FROM fairq.q_q WHERE id = {id} RETURNING *) INSERT INTO fairq.q_q SELECT * FROM was",
    "later": "UPDATE fairq.q_q SET state = 's', run_at = now() + '1 day', address = NULL WHERE id = {id}",
    "soon": "UPDATE fairq.q_q SET state = 's', run_at = now() WHERE id = {id}",
    "hold": "UPDATE fairq.q_q SET state = 'h', address = NULL WHERE id = {id}",
    "kill": "UPDATE fairq.q_q SET state = 'd', address = NULL WHERE id = {id}",
    "cancel": "SELECT fairq.cancel('q', {id})",
    "purge": "SELECT fairq.purge('q')",
    "purge_group": "SELECT fairq.purge_group('q', 'a')",
    "claim": "SELECT fairq.claim('q', 2)",
}
WAITING = {
    **ROW,
    "pop": "SELECT fairq.pop('q', 1)",
    "enqueue": "SELECT fairq.enqueue('q', '5', group_key => 'a')",
    "replace": "SELECT fairq.enqueue('q', '6', group_key => 'b', unique_key => 'k', on_duplicate => 'replace')",
}
LEASED = {
    **ROW,
    "ack": "SELECT fairq.ack('{receipt}')",
    "nack": "SELECT fairq.nack('{receipt}')",
    "nack_later": "SELECT fairq.nack('{receipt}', delay => '1 h')",
    "nack_final": "SELECT fairq.nack('{receipt}', final => true)",
    "release": "SELECT fairq.release('{receipt}')",
    "release_later": "SELECT fairq.release('{receipt}', delay => '1 h')",
    "extend": "SELECT fairq.extend('{receipt}')",
    "expire": "SELECT fairq.extend('{receipt}', '1 microsecond'); SELECT pg_sleep(.11); SELECT fairq.maintain('q')",
    "revive": "SELECT fairq.revive_all('q'); COMMIT; SELECT fairq.claim('q', 5)",
    "progress": "SELECT fairq.set_progress('{receipt}', '1')",
    "replace": "SELECT fairq.enqueue('q', '6', group_key => 'b', unique_key => 'k', on_duplicate => 'replace')",
}
# Settings of the queue, and of its groups.
QUEUES = {
    "addressed": ("", "SELECT 1"),
    "overflow": (", max_ready_per_group => 1", "SELECT 1"),
    "limited": ("", "SELECT fairq.set_group_defaults('q', max_leased => 1)"),
    "durable": (", durable_leases => true, keep_done => '1 h'", "SELECT 1"),
    "subgroups": (", subgroups => true", "SELECT fairq.set_subgroup_defaults('q', max_leased => 1)"),
}
# How the first of a pair is sent, or both are.
WAYS = {
    "held": "{first}",
    "savepoint": "BEGIN; SAVEPOINT s; {first}; RELEASE s; COMMIT",
    "together": "BEGIN; {first}; {second}; COMMIT",
}
GONE = """SELECT count(*) FROM fairq.leases l WHERE queue = 'q'
  AND NOT EXISTS (SELECT FROM fairq.tasks('q') t WHERE t.id = l.id AND t.state = 'leased')"""
STATES = ("ready", "leased", "scheduled", "overflow", "held", "dead")


class Pairs:
    def __init__(self, options):
        self.options = options
        self.db, self.slow, self.other = (psycopg.connect(options.conninfo, autocommit=True) for _ in range(3))
        self.slow.execute("LOAD '%s'" % options.module)
        self.met = 0
        self.wrong = 0

    def one(self, statement, *values):
        return self.db.execute(statement, values).fetchone()[0]

    def difference(self):
        """What the views say, and what there is, where they differ; None if nowhere."""
        with self.db.transaction():
            said = self.db.execute("SELECT %s FROM fairq.queue_stats WHERE queue = 'q'" % ", ".join(STATES)).fetchone()
            groups = {x[0]: x[1:] for x in self.db.execute(
                "SELECT group_key, ready, leased, overflow FROM fairq.group_stats WHERE queue = 'q'") if any(x[1:])}
            rows = self.db.execute("SELECT group_key, state, count(*) FROM fairq.tasks('q') GROUP BY 1, 2").fetchall()
        total, truth = dict.fromkeys(STATES, 0), {}
        for group, state, n in rows:
            total[state] += n
            if state in ("ready", "leased", "overflow"):
                truth.setdefault(group, {})[state] = n
        truth = {g: tuple(x.get(s, 0) for s in ("ready", "leased", "overflow")) for g, x in truth.items()}
        if said == tuple(total.values()) and groups == truth:
            return None
        return "views %s %s, tasks %s %s" % (said, groups, tuple(total.values()), truth)

    def lasting_difference(self):
        """The worker may be at it: a task that it gives back is counted twice for a moment."""
        end = time.monotonic() + self.options.patience
        while (found := self.difference()) is not None and time.monotonic() < end:
            time.sleep(.05)
        return found

    def queue(self, leased):
        """A queue with three tasks of a group, the first with a key.  Returns its id, and its receipt."""
        settings, limits = QUEUES[self.options.queue]
        if self.one("SELECT count(*) FROM fairq.queues WHERE queue = 'q'"):
            self.one("SELECT fairq.drop_queue('q')")
        self.one("SELECT fairq.create_queue('q', lease => '1 h', buckets => 1, max_attempts => 0, backoff_base => '0'%s)"
                 % settings)
        self.db.execute(limits)
        task = self.one("SELECT fairq.enqueue('q', '1', group_key => 'a', unique_key => 'k')")
        self.one("SELECT fairq.enqueue_many('q', '{2,3}', group_keys => '{a}')")
        receipt = None
        if leased:
            first, receipt = self.db.execute("SELECT id, receipt FROM fairq.claim('q', 1)").fetchone()
            assert first == task
        return task, receipt

    def hold(self, connection, statement):
        held = self.options.hold + ".held"
        if os.path.exists(held):
            os.unlink(held)
        open(self.options.hold, "w").close()
        connection.pgconn.send_query(statement.encode())
        while not os.path.exists(held) and self.busy(connection.pgconn):
            time.sleep(.001)

    @staticmethod
    def busy(pgconn):
        pgconn.consume_input()
        return pgconn.is_busy()

    def send(self, connection, statement):
        """Until it has ended, or waits for a lock."""
        connection.pgconn.send_query(statement.encode())
        while self.busy(connection.pgconn) and not self.one(
                "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", connection.info.backend_pid):
            time.sleep(.001)

    @staticmethod
    def ended(connection):
        error = None
        while (result := connection.pgconn.get_result()) is not None:
            if result.error_message:
                error = result.error_message.decode()
        return error

    def drain(self):
        for _ in range(6):
            self.db.execute("UPDATE fairq.q_q SET run_at = now() WHERE state = 's'")
            self.db.execute("SELECT fairq.revive_all('q')")
            self.db.execute("SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = 'q'))")
            self.db.execute("SELECT count(fairq.ack(receipt)) FROM fairq.claim('q', 10)")

    def pair(self, leased, first, second):
        task, receipt = self.queue(leased)
        way = self.options.way
        statements = {n: (LEASED if leased else WAITING)[verb].format(id=task, receipt=receipt)
                      for n, verb in (("first", first), ("second", second))}
        what = "%s %s: %s, then %s" % ("leased" if leased else "waiting", way, first, second)
        if way == "together":
            self.slow.pgconn.send_query(WAYS[way].format(**statements).encode())
        else:
            self.hold(self.slow, WAYS[way].format(**statements))
            self.send(self.other, statements["second"])
            os.unlink(self.options.hold)
        for connection in (self.slow, self.other):
            if (error := self.ended(connection)) is not None:
                self.say("%s: %s" % (what, error))
        # What SQL has deleted or put off while it was leased counts as leased until its lease is over.
        if not self.one(GONE) and (found := self.lasting_difference()) is not None:
            self.say("%s: %s" % (what, found))
        end = time.monotonic() + self.options.patience
        while True:
            self.drain()
            left = self.db.execute("SELECT id, state, group_key FROM fairq.tasks('q')").fetchall()
            found = self.difference()
            if not left and found is None:
                break
            if time.monotonic() > end:
                self.say("%s, and drained: left %s, %s" % (what, left, found))
                break
            time.sleep(.05)
        self.met += 1

    def met_elsewhere(self):
        """A claim that reads the index again meets the row of a leased task where the first has moved it, while that is
        held up: then the lease knows where it is.  Whoever settles it has to wait all the same."""
        task, receipt = self.queue(True)
        self.one("SELECT fairq.ack('%s')" % receipt)
        self.db.execute("SELECT fairq.enqueue('q', '4', group_key => 'z')")
        (_, before, group), (task, receipt, _) = self.db.execute("SELECT id, receipt, group_key FROM fairq.claim('q', 2)").fetchall()
        assert group == "z"
        self.one("SELECT fairq.release('%s')" % before)
        self.hold(self.slow, LEASED["group"].format(id=task))
        self.send(self.other, "BEGIN; SELECT fairq.purge_group('q', 'z'); ROLLBACK; SELECT fairq.claim('q', 5)")
        errors = [self.ended(self.other)]
        self.send(self.other, LEASED["ack"].format(receipt=receipt))
        os.unlink(self.options.hold)
        errors += map(self.ended, (self.slow, self.other))
        if any(errors) or (found := self.lasting_difference()) is not None:
            self.say("a claim has met the row: %s" % (errors if any(errors) else found))

    def say(self, line):
        self.wrong += 1
        print(line, flush=True)

    def run(self):
        pairs = [(leased, *pair) for leased, verbs in enumerate((WAITING, LEASED)) for pair in itertools.product(verbs, verbs)
                 # What commits in between is in no savepoint.
                 if self.options.way != "savepoint" or "COMMIT" not in verbs[pair[0]]]
        for pair in pairs[::self.options.every]:
            self.pair(*pair)
        if self.options.queue == "addressed" and self.options.way == "held":
            self.met_elsewhere()
        print("%d pairs, %d wrong" % (self.met, self.wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("conninfo")
    parser.add_argument("--module", required=True, help="held_commit.so")
    parser.add_argument("--hold", required=True, help="the file named by FAIRQ_HOLD at the server")
    parser.add_argument("--way", choices=WAYS, default="held", help="how the two are done")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N pairs")
    parser.add_argument("--patience", type=float, default=75, help="with the worker, in seconds: it may rest for a minute")
    parser.add_argument("--queue", choices=QUEUES, default="addressed", help="its settings")
    Pairs(parser.parse_args()).run()


if __name__ == "__main__":
    main()
