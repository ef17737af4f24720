"""Carries rows of an ordinary table to queues of a pgfairq server, and results back.

The origin needs no pgfairq: outbox.sql makes its tables. target.sql makes those at the
server with the queues. README.md says what travels and what is promised.

Exactly once. The target writes, in the transaction that enqueues a row, that it has moved
it; the origin removes the row when that is committed. So a row that is there again, because
a relay, a server or a connection was lost in between, is known to the target. What the
target knows it forgets when the origin has not had the row for a while. A result takes the
row of "awaited" away that waits for it, in the transaction that writes it to the inbox.

Order and fairness. What has an order is a line: the rows of a group for a queue. The relay
knows which lines have rows, not which rows, and takes a few of each line in turn. It finds
lines by reading ids upwards, each row once. An id may become visible after higher ones, so
what is not settled is read again: an id is settled when all transactions of its time are
over. No read begins at the front of the table, where rows that were removed may be in the
way for as long as a snapshot is held.

One relay at a time carries a batch, and has the row of "origin" locked meanwhile: so a line
is never in two hands, and the next relay goes on when one is lost.
"""

import collections
import logging
import os
import select
import socket
import threading
import time

import psycopg

from connecting import back_off, connect, first_line
from outbox_lines import CHUNK, SWEEP, Lines, Reading

log = logging.getLogger("pgfairq-relay")

BATCH_BYTES = 8 << 20   # of payloads, as they are stored
BUSY = 0.02             # seconds until another relay is asked again whether it is done
RESULTS = 0.05          # seconds between two looks for results, while some are awaited
RESULT_BATCH = 200
OVERLAP = "1 s"         # a task is done at a time, and visible a little later
FORGET = 10             # seconds between two looks for what may be forgotten
FORGET_BATCH = 5000
BROUGHT = ("acked", "dead", "cancelled", "expired")
UNREADABLE = ("locked", "unreadable")

COLUMNS = """id, created_at, queue, payload, group_key, subgroup_key, name, priority, cost, run_at, delay, expires_at, unique_key,
    on_duplicate, unique_for, max_attempts, max_lost, lease, headers, after, on_dead, wants_result"""

# Lines with rows whose ids are in a range, from its beginning. What is called outside of a
# transaction with SETTINGS is named with its schema, where other roles create no functions.
LINES = """(SELECT pg_catalog.json_build_object('rows', pg_catalog.sum(rows), 'last', pg_catalog.max(last),
        'lines', pg_catalog.json_agg(pg_catalog.json_build_array(queue, group_key, first)))
    FROM (SELECT queue, group_key, pg_catalog.count(*) AS rows, pg_catalog.min(id) AS first, pg_catalog.max(id) AS last
        FROM (SELECT id, queue, group_key FROM fairq_relay.outbox WHERE id > %s AND id <= %s ORDER BY id LIMIT %s) o
        GROUP BY queue, group_key) l)"""

# What is new, and a part of what is read again.
LOOK = "SELECT pg_catalog.txid_snapshot_xmin(pg_catalog.txid_current_snapshot()), %s, %s" % (LINES, LINES)
NO_END = 2 ** 63 - 1

# Errors of the origin while it writes that are no row's own: a transaction to be tried again, a
# privilege, no room, a lock, a timeout, a disk.
OF_ALL = ("40", "42", "53", "55", "57", "58")

# A result that the origin cannot keep: its encoding, what jsonb holds, a constraint.
NOT_KEPT = ("22", "54", "23514")

# Of a transaction: no plan that reads a whole table, whatever statistics say of it; and a
# relay that is stopped does not stop the others for longer.
SETTINGS = """pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true),
    pg_catalog.set_config('enable_hashjoin', 'off', true), pg_catalog.set_config('enable_mergejoin', 'off', true), pg_catalog.set_config('lock_timeout', '5s', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', %s, true), pg_catalog.set_config('intervalstyle', 'postgres', true),
    pg_catalog.set_config('synchronous_commit', pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), true)"""

# After these: others do not wait for long where one statement may be done later.
SHORTLY = "SELECT pg_catalog.set_config('lock_timeout', '250ms', true)"

# The lock of a batch is on a row, for an advisory lock may be held by who has no privilege.
BEGIN = "SELECT (SELECT true FROM fairq_relay.origin FOR UPDATE SKIP LOCKED), pg_catalog.txid_current()::text::bigint, " + SETTINGS

# Some rows of each line in turn, without those that are locked. Of rows beyond the bytes of
# a batch only the ids.
PICK = """
WITH turn AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[]) WITH ORDINALITY AS t(queue, group_key, first, turn)
), picked AS MATERIALIZED (
    SELECT t.turn, o AS one, o.id, pg_column_size(o.payload) + coalesce(pg_column_size(o.headers), 0) AS size
    FROM turn t, LATERAL (
        SELECT * FROM fairq_relay.outbox b WHERE b.queue = t.queue AND b.group_key = t.group_key AND b.id >= t.first
        ORDER BY b.id LIMIT %s FOR UPDATE SKIP LOCKED) o
)
SELECT turn::int - 1, id, CASE WHEN before <= %s THEN
    (CASE WHEN (one).delay IS NULL THEN to_jsonb(one) ELSE to_jsonb(one)
        || jsonb_build_object('delay', nullif(greatest((one).delay - (clock_timestamp() - (one).created_at), '0'), '0')) END)::text END
FROM (SELECT *, sum(size) OVER (ORDER BY turn, id) - size AS before FROM picked) p ORDER BY turn, id
"""

FIRST = """
SELECT id FROM fairq_relay.outbox WHERE queue = %s AND group_key = %s AND id >= %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
"""

REMOVE = """
WITH gone AS (DELETE FROM fairq_relay.outbox WHERE id = ANY (%s) RETURNING id, created_at, queue, group_key, name, wants_result)
INSERT INTO fairq_relay.awaited SELECT id, created_at, queue, group_key, name FROM gone WHERE wants_result
ON CONFLICT DO NOTHING RETURNING queue
"""

# Not in place of one that is there already, for the two may differ: then this fails.
SET_ASIDE = """
WITH gone AS (DELETE FROM fairq_relay.outbox WHERE id = ANY (%%s) RETURNING *)
INSERT INTO fairq_relay.refused (%(columns)s, code, error)
    SELECT %(columns)s, why.code, why.error FROM gone JOIN unnest(%%s::bigint[], %%s::text[], %%s::text[]) AS why(row_id, code, error) ON row_id = id
""" % {"columns": COLUMNS}

# What is known of rows that others come after.
WHERE_ARE = """
SELECT id, 'waits' FROM fairq_relay.outbox WHERE id = ANY (%s) UNION ALL SELECT id, 'refused' FROM fairq_relay.refused WHERE id = ANY (%s)
"""

# A constraint of an owner may say so, too.
READ_ONLY = "SELECT pg_catalog.current_setting('transaction_read_only')"

TAKE = "SELECT id, outcome, code, message, missing FROM fairq_relay.take(%s, %s::jsonb)"

# Awaited tasks that were done just now; and a part of all that are awaited, of which some
# were done in a transaction that has taken long to commit, or are dead.
DONE_NOW = """
SELECT e.id, e.created_at::text, o.state, o.result::text, o.last_error, o.done_at::text
FROM fairq_relay.done_since(%s, %s, %s::timestamptz - %s::interval, %s) e, LATERAL fairq_relay.outcome(%s, e.task) o
"""
AWAITED = """
SELECT m.id, m.created_at::text, o.state, o.result::text, o.last_error, o.done_at::text, m.queue, m.task
FROM (SELECT * FROM fairq_relay.moved WHERE source = %s AND awaited AND (queue, task, id) > (%s, %s, %s) ORDER BY queue, task, id LIMIT %s) m,
    LATERAL fairq_relay.outcome(m.queue, m.task) o
"""

# In one snapshot a row is in the outbox, or awaited, or its result has been brought.
DELIVER = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::jsonb[], %s::text[], %s::timestamptz[])
        AS g(id, created_at, state, result, error, done_at)
), taken AS (
    DELETE FROM fairq_relay.awaited a USING given g WHERE a.id = g.id AND a.created_at = g.created_at
    RETURNING g.*, a.queue, a.group_key, a.name
), put AS (
    INSERT INTO fairq_relay.inbox (id, queue, group_key, name, state, result, error, done_at)
    SELECT id, queue, group_key, name, state, result, error, done_at FROM taken ORDER BY done_at, id
)
SELECT id, created_at::text FROM given g
WHERE NOT EXISTS (SELECT FROM fairq_relay.outbox o WHERE o.id = g.id AND o.created_at = g.created_at)
"""
DELIVERED = """
UPDATE fairq_relay.moved m SET awaited = false FROM unnest(%s::bigint[], %s::timestamptz[]) AS g(id, created_at)
WHERE m.source = %s AND m.id = g.id AND m.created_at = g.created_at
"""

# now(), which an index is read up to, as it is not to clock_timestamp().
OLD = """
SELECT id FROM fairq_relay.moved WHERE NOT awaited AND moved_at < now() - %s::interval AND source = %s ORDER BY moved_at LIMIT %s
"""
STILL_THERE = "SELECT id FROM fairq_relay.outbox WHERE id = ANY (%s)"
FORGOTTEN = """
DELETE FROM fairq_relay.moved
WHERE source = %s AND id = ANY (%s) AND NOT awaited AND moved_at < clock_timestamp() - %s::interval
"""


class Trouble(Exception):
    """One of the databases is not to be had just now."""

    def __init__(self, which, error):
        super().__init__("the %s: %s" % (which, error if isinstance(error, str) else first_line(error)))
        self.which = which


class TooMuch(Trouble):
    """These rows took the target longer than --timeout, or the connection was lost with them."""

    def __init__(self, error, rows):
        super().__init__("target", error)
        self.rows = rows


class NoText(Exception):
    """The origin cannot make texts of all rows that were picked: a delay out of range, more than jsonb holds."""


def lost(connection, error):
    """It is of no use after this error, or leads to a standby."""
    return connection.closed or not error.sqlstate or error.sqlstate.startswith(("08", "25", "57P"))


class Results:
    """Which queues have tasks whose results are awaited, and how far they were looked for."""

    START = ("", 0, 0)

    def __init__(self):
        self.queues = {}            # queue: since when the done tasks are to be read
        self.place = self.START     # of the look at all
        self.met = set()            # queues that the look has met
        self.next_look = self.next_all = 0.0
        self.unreadable = {}        # queue: what was said of it
        self.stuck = set()          # (id, time) of rows whose results the origin does not take, until they are tried again
        self.next_try = 0.0

    def awaited(self, queue):
        self.queues.setdefault(queue, None)


class TableRelay:
    def __init__(self, options):
        self.options = options
        self.stop = threading.Event()
        self.name = "pgfairq-relay --from-table %s.%d" % (socket.gethostname(), os.getpid())
        self.timeout = "%dms" % (options.timeout * 1000)
        self.target_timeout = "%dms" % (options.timeout * 800)  # so that the origin's transaction, which has begun before, survives it
        self.origin = self.target = None
        self.source = None      # the number of this outbox at the target
        self.backoff = 0
        self.lines, self.reading, self.results = Lines(), Reading(), Results()
        self.next_forget = 0.0
        self.has_moved = False  # a row, since lines were paused
        self.batch = options.batch      # less where that takes longer than --timeout
        self.suspect = None     # a row, alone, with which the connection was lost
        self.woken, self.waker = os.pipe()

    # -- connections -----------------------------------------------------------

    def open(self):
        if self.target is None or self.target.closed:
            self.source = None
            try:
                self.target = connect(self.options.to, self.name)
                self.target.prepare_threshold = None    # of a pooler each transaction may have another connection
                self.target.execute("SELECT pg_catalog.set_config('synchronous_commit', 'on', false) WHERE pg_catalog.current_setting('synchronous_commit') = 'off'")
                # No compiler for statements that take a millisecond, whatever the planner thinks of functions.
                self.target.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false), pg_catalog.set_config('statement_timeout', %s, false),"
                                    " pg_catalog.set_config('jit', 'off', false)", (self.target_timeout,))
                target, = self.one(self.target, "SELECT name FROM fairq_relay.target", "target", "target.sql")
                if not self.target.execute("SELECT %s::interval >= '0'", (self.options.remember,)).fetchone()[0]:
                    raise Trouble("target", "--remember must not be below 0, and is %s" % self.options.remember)
            except psycopg.Error as error:
                raise Trouble("target", error) from error
            self.target_name = target
        if self.origin is None or self.origin.closed:
            self.source = None
            self.lines, self.reading = Lines(self.lines.slow), Reading()    # a failover may have brought rows back
            try:
                self.origin = connect(self.options.source, self.name)
                self.origin.prepare_threshold = None
                if self.origin.execute("SELECT pg_catalog.current_setting('server_encoding')").fetchone()[0] == "SQL_ASCII":
                    raise Trouble("origin", "its encoding is SQL_ASCII: its texts may be in any")
                self.origin.execute("LISTEN fairq_relay_outbox")
            except psycopg.Error as error:
                raise Trouble("origin", error) from error
        if self.source is None:
            self.bind()

    @staticmethod
    def one(connection, query, which, file):
        try:
            row = connection.execute(query).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise Trouble(which, "it has no tables of the relay: run clients/relay/%s there" % file) from error
        if row is None:
            raise Trouble(which, "it does not know its own name: run clients/relay/%s there" % file)
        return row

    def bind(self):
        """An outbox has one target: another one would not know what was moved already."""
        try:
            self.origin.execute("UPDATE fairq_relay.origin SET target = %s WHERE target IS NULL", (self.target_name,))
            name, target = self.one(self.origin, "SELECT name, target FROM fairq_relay.origin", "origin", "outbox.sql")
        except psycopg.Error as error:
            raise Trouble("origin", error) from error
        if target != self.target_name:
            raise Trouble("target", "this outbox belongs to another server, %r, and this is %r: rows could arrive at both. If it is to change,"
                          " stop all relays, let what was moved be done there, and UPDATE fairq_relay.origin SET target = NULL"
                          % (target, self.target_name))
        self.at_target("INSERT INTO fairq_relay.source (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
        self.source, = self.at_target("SELECT number FROM fairq_relay.source WHERE name = %s", (name,)).fetchone()
        self.results = Results()

    def close(self, which):
        for name in ("origin", "target"):
            connection = getattr(self, name)
            if which in (name, "both") and connection is not None:
                connection.close()
                setattr(self, name, None)

    def at_target(self, query, arguments):
        try:
            return self.target.execute(query, arguments)
        except psycopg.Error as error:
            raise Trouble("target", error) from error

    # -- what there is to do ---------------------------------------------------

    def look(self):
        """Find lines. One statement, for what is new and a part of what is not settled."""
        reading, now = self.reading, time.monotonic()
        began = reading.begin(now)
        again = reading.again
        oldest, new, old = self.origin.execute(
            LOOK, (reading.seen, NO_END, CHUNK, again or 0, -1 if again is None else reading.end, CHUNK)).fetchone()
        for part in (new, old):
            for queue, group, first in part["lines"] or ():
                self.lines.found((queue, group), first)
        if new["last"] is not None:
            reading.seen = new["last"]
        if again is not None:
            if began:
                reading.oldest = oldest
            reading.read_again(old, time.monotonic() - now)
        return new["rows"] == CHUNK or reading.again is not None

    # -- one batch -------------------------------------------------------------

    def take(self, rows):
        """Have the target take rows, each (id, line, text); return what it has not taken. Where not even the statement
        can be made of them (a character that the target's encoding has not, more than jsonb holds) half of them is tried."""
        try:
            return self.target.execute(TAKE, (self.source, "[%s]" % ",".join(text for _, _, text in rows))).fetchall()
        except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex) as error:
            if len(rows) == 1:
                return [(rows[0][0], "refused", error.sqlstate or "22000", first_line(error), None)]
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate.startswith(("57014", "08")):
                raise TooMuch(error, rows) from error
            raise Trouble("target", error) from error
        half = len(rows) // 2
        not_taken = self.take(rows[:half])
        waiting = {row for row, outcome, *_ in not_taken if outcome != "refused"}
        stopped = {line for row, line, _ in rows if row in waiting}
        not_taken += [(row, "later", None, None, None) for row, line, _ in rows[half:] if line in stopped]
        rest = [row for row in rows[half:] if row[1] not in stopped]
        return not_taken + (self.take(rest) if rest else [])

    def judge_missing(self, not_taken):
        """Rows that come after rows which the target does not know: are these still to come?"""
        ids = sorted({one for row in not_taken if row[1] == "missing" for one in row[4]})
        known = dict(self.origin.execute(WHERE_ARE, (ids, ids)).fetchall()) if ids else {}
        for row, outcome, code, message, missing in not_taken:
            if outcome == "missing":
                gone = [one for one in missing if known.get(one) != "waits"]
                if gone:
                    outcome, code = "refused", "22023"
                    message = ("row %d, which it comes after, was refused" if known.get(gone[0]) == "refused"
                               else "row %d, which it comes after, is not known, or was moved longer ago than --remember") % gone[0]
                else:
                    outcome, message = "later", "row %d, which it comes after, is still to be moved" % missing[0]
            yield row, outcome, code, message

    def begin(self):
        """Whether it is this relay's turn, in the transaction that has begun."""
        mine, transaction = self.origin.execute(BEGIN, (self.timeout,)).fetchone()[:2]
        self.reading.mark(transaction)
        return mine

    def pick(self, turn, each):
        try:
            return self.origin.execute(PICK, (
                [line[0] for line, _ in turn], [line[1] for line, _ in turn], [first for _, first in turn],
                each, BATCH_BYTES)).fetchall()
        except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            raise NoText from error

    def narrow(self, turn):
        """One of the rows has no text. Half of them are tried, until it is the first; that one is refused."""
        if self.batch > 1:
            self.batch //= 2
            return
        (queue, group), first = turn[0]
        with self.origin.transaction():
            row = self.begin() and self.origin.execute(FIRST, (queue, group, self.reading.lowest(first))).fetchone()
            if not row:
                return
            try:
                with self.origin.transaction():
                    self.pick([((queue, group), row[0])], 1)
            except NoText as error:
                why = error.__cause__
                if self.settle([], [(row[0], why.sqlstate, first_line(why))]):
                    self.lines.pause((queue, group), row[0], time.monotonic())

    def carry(self):
        """A batch, in a transaction of the origin."""
        began = time.monotonic()
        turn, each = self.lines.next(self.batch, began)
        if not turn:
            return
        try:
            self.carry_lines(turn, each)
        except NoText:
            self.narrow(turn)
        except TooMuch as error:
            self.try_fewer(error, turn, time.monotonic() - began)
            if self.target.closed:
                raise
            log.warning("%s", error)

    def try_fewer(self, error, turn, spent):
        """A quarter of the rows, until it is one."""
        if len(error.rows) > 1:
            self.batch = max(1, len(error.rows) // 4)
            return
        row, place, _ = error.rows[0]
        (queue, group), _ = turn[place]
        if self.target.closed and row != self.suspect:
            self.suspect = row      # it may have been for another reason
            return
        seconds = self.lines.rest((queue, group), row, time.monotonic(), spent)
        log.warning("row %d holds up the target, or has it close the connection: queue %r rests for %d s, and group %r of it for twice that",
                    row, queue, seconds, group)

    def carry_lines(self, turn, each):
        with self.origin.transaction():
            if not self.begin():
                self.stop.wait(BUSY)
                return
            picked = self.pick([(line, self.reading.lowest(first)) for line, first in turn], each)
            # By id: what others come after is before them.
            rows = sorted((row, place, text) for place, row, text in picked if text is not None)
            not_taken = {row: rest for row, *rest in self.judge_missing(self.take(rows) if rows else [])}
            not_taken.update(self.settle([row for row, _, _ in rows if row not in not_taken],
                                         [(row, *rest[1:]) for row, rest in not_taken.items() if rest[0] == "refused"]))
        self.batch = min(self.options.batch, 2 * self.batch)
        self.turn_over(turn, picked, not_taken)
        if any(code == "25006" for _, code, _ in not_taken.values()) and self.at_target(READ_ONLY, ()).fetchone()[0] == "on":
            raise Trouble("target", "it is a standby")

    def settle(self, taken, refused):
        """Returns those that are refused and have to stay, as not taken."""
        if taken:
            for queue, in self.origin.execute(REMOVE, (taken,)).fetchall():
                self.results.awaited(queue)
        for row, code, message in refused:
            log.warning("row %d is refused, %s: %s", row, code, message)
        staying = self.set_aside(refused) if refused else {}
        self.has_moved |= bool(taken) or len(staying) < len(refused)
        return staying

    def set_aside(self, refused):
        """In a part of the transaction: what was taken is removed, whatever becomes of these. What is wrong with one of
        them is found by halves."""
        try:
            with self.origin.transaction():
                self.origin.execute(SHORTLY)
                self.origin.execute(SET_ASIDE, ([row[0] for row in refused],) + tuple(list(column) for column in zip(*refused)))
            return {}
        except psycopg.Error as error:
            if lost(self.origin, error):
                raise
            row, code, message = refused[0]
            plain = message.encode("ascii", "backslashreplace").decode()
            if len(refused) > 1 and not error.sqlstate.startswith(OF_ALL):
                half = len(refused) // 2
                return {**self.set_aside(refused[:half]), **self.set_aside(refused[half:])}
            if len(refused) == 1 and isinstance(error, psycopg.DataError) and plain != message:
                return self.set_aside([(row, code, plain)])     # the origin's encoding has not all of it
            return {row: ["later", error.sqlstate, "it cannot be moved to fairq_relay.refused: %s" % first_line(error)] for row, *_ in refused}

    def turn_over(self, turn, picked, not_taken):
        """What is known of the lines after their turn."""
        now = time.monotonic()
        of_line = collections.defaultdict(list)
        for place, row, text in picked:
            of_line[place].append((row, text))
        for place, (line, _) in enumerate(turn):
            rows = of_line[place]
            later = [row for row, _ in rows if not_taken.get(row, ("",))[0] == "later"]
            left = [row for row, text in rows if text is None]
            why = not_taken[later[0]] if later else (None, None, None)
            if later and why[1:] == [None, None]:
                self.lines.served(line, later[0])   # it was not tried, for another line has met a lock
            elif later:
                self.lines.pause(line, later[0], now)
                if why[2]:
                    log.warning("row %d must wait%s: %s", later[0], ", " + why[1] if why[1] else "", why[2])
            elif not rows:
                self.lines.is_empty(line)
            else:
                self.lines.served(line, left[0] if left else rows[-1][0] + 1)

    # -- results ---------------------------------------------------------------

    def bring_results(self):
        """False: there was none."""
        results, now = self.results, time.monotonic()
        if now < results.next_look:
            return False
        results.next_look = now + RESULTS
        if now >= results.next_try:
            results.next_try = now + SWEEP
            results.stuck.clear()
        ended = {}
        clock, = self.at_target("SELECT clock_timestamp()::text", ()).fetchone()
        for queue, since in list(results.queues.items()):
            found = self.at_target(DONE_NOW, (self.source, queue, since or clock, OVERLAP, RESULT_BATCH, queue)).fetchall()
            found = [row for row in found if row[:2] not in results.stuck]
            ended.update((row[:2], row[2:]) for row in found)
            if len(found) < RESULT_BATCH:
                results.queues[queue] = clock
            else:
                results.next_look = now
        if now >= results.next_all:
            self.look_at_all(ended, now)
        outcomes = [(*key, *outcome) for key, outcome in ended.items() if outcome[0] in BROUGHT or outcome[0] is None]
        self.deliver(outcomes)
        return bool(outcomes)

    def look_at_all(self, ended, now):
        """A part of all that are awaited. It takes a twentieth of the time at the most, unless it finds something."""
        results, known = self.results, len(ended)
        rows = self.at_target(AWAITED, (self.source, *results.place, RESULT_BATCH)).fetchall()
        for *row, queue, task in rows:
            results.met.add(queue)
            results.awaited(queue)
            results.place = (queue, task, row[0])
            if row[2] in BROUGHT or row[2] is None:
                if tuple(row[:2]) not in results.stuck:
                    ended[tuple(row[:2])] = tuple(row[2:])
            elif row[2] in UNREADABLE:
                if row[2] == "locked":
                    results.place = (queue, NO_END, NO_END)     # behind all of them
                if results.unreadable.get(queue) != row[4]:
                    results.unreadable[queue] = row[4]
                    log.warning("results of queue %r cannot be looked for: %s", queue, row[4])
        if len(rows) < RESULT_BATCH:
            for queue in [queue for queue in results.queues if queue not in results.met]:
                del results.queues[queue]
            results.place, results.met = Results.START, set()
        spent = time.monotonic() - now
        if len(ended) > known:
            results.next_all = results.next_look = now
        else:
            results.next_all = now + max(RESULTS if len(rows) == RESULT_BATCH else 1, 20 * spent)

    def deliver(self, outcomes):
        """To the inbox. What the origin does not take is found by halves: a result that it cannot keep comes as an error;
        a row that it refuses without it, too, stays awaited. That takes a tenth of the time at the most."""
        parts, began, failed = [outcomes] if outcomes else [], time.monotonic(), False
        bare = set()    # rows that are tried without their results
        while parts:
            part = parts.pop()
            try:
                self.bring(part)
                continue
            except psycopg.Error as error:
                if lost(self.origin, error):
                    raise
                failed, code, why = True, error.sqlstate, first_line(error)
            row, created, state, *_, done = part[0]
            key = (row, created)
            if code.startswith(OF_ALL):
                log.warning("results must wait, %s: %s", code, why)
                break
            if len(part) > 1:
                parts += [part[len(part) // 2:], part[:len(part) // 2]]
                continue
            log.warning("the result of row %d cannot be brought, %s: %s", row, code, why)
            if code.startswith(NOT_KEPT) and key not in bare:
                bare.add(key)
                parts.append([(row, created, state, None, "the result cannot be brought: %s" % code, done)])
                continue
            self.results.stuck.add(key)
            if time.monotonic() > began + 1:
                break   # the others by the next look
        if failed:
            now = time.monotonic()
            self.results.next_look = self.results.next_all = now + 10 * (now - began)

    def bring(self, outcomes):
        """Or none of them; and then let the target know."""
        outcomes = [(row, created, state or "gone", result, error, done) for row, created, state, result, error, done in outcomes]
        with self.origin.transaction():
            self.origin.execute("SELECT " + SETTINGS, (self.timeout,))
            self.origin.execute(SHORTLY)
            delivered = self.origin.execute(DELIVER, tuple(list(column) for column in zip(*outcomes))).fetchall()
        if delivered:
            self.at_target(DELIVERED, ([row for row, _ in delivered], [created for _, created in delivered], self.source))

    # -- forgetting ------------------------------------------------------------

    def forget(self):
        """What the origin has not had for a while, the target need not know."""
        if time.monotonic() < self.next_forget:
            return
        self.next_forget = time.monotonic() + FORGET    # also where it fails
        old = [row for row, in self.at_target(OLD, (self.options.remember, self.source, FORGET_BATCH))]
        there = {row for row, in self.origin.execute(STILL_THERE, (old,))} if old else set()
        gone = [row for row in old if row not in there]
        if gone:
            self.at_target(FORGOTTEN, (self.source, gone, self.options.remember))
        if len(old) == FORGET_BATCH:
            self.next_forget = time.monotonic() + 0.1

    # -- the loop --------------------------------------------------------------

    def step(self):
        """False: there is nothing to do just now."""
        try:
            self.open()
            self.lines.resume(time.monotonic())
            more = self.look()
            if self.lines.turn:
                self.carry()
                more = True
            more |= self.bring_results()
            self.forget()
            self.backoff = 0
            return more
        except Trouble as error:
            log.warning("%s", error)
            self.close(error.which)
        except psycopg.Error as error:
            log.warning("the origin: %s", first_line(error))
            self.close("origin")
        back_off(self)
        return True

    def wait(self):
        """Until something is written to the outbox, or it is time to look."""
        seconds = self.options.poll
        if self.results.queues:
            seconds = min(seconds, RESULTS)
        now = time.monotonic()
        if self.reading.marks:
            seconds = min(seconds, max(RESULTS, self.reading.due - now))
        if self.lines.paused:
            seconds = min(seconds, max(0, min(until for until, _, _ in self.lines.paused.values()) - now))
        select.select([self.origin.fileno(), self.woken], [], [], seconds)
        try:
            self.origin.pgconn.consume_input()
        except psycopg.Error:
            self.close("origin")
            return
        while self.origin.pgconn.notifies():
            pass

    def try_again(self):
        """What was moved may be what a row has waited for."""
        again = bool(self.has_moved and self.lines.paused)
        self.lines.resume(float("inf"))
        self.has_moved = False
        return again

    def run(self):
        try:
            while not self.stop.is_set():
                if self.step():
                    continue
                if not self.options.once:
                    self.wait()
                elif self.results.place != Results.START:
                    self.results.next_look = self.results.next_all = 0.0    # to the end of all that are awaited
                elif not self.try_again():
                    break
        finally:
            self.close("both")

    def end(self, *_):
        """After the batch that is under way; at once when asked again."""
        if self.stop.is_set():
            os._exit(1)
        self.stop.set()
        os.write(self.waker, b"x")
