"""What a schedule of model_run.py compares: the answers of real queues with the
model of them (model.py). Every difference is an error."""

import re
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import psycopg
from psycopg import sql

from model import COUNTED, Difference, Model, Transaction
from model_levels import NOTHING

LOG = 20000         # calls that are shown of a schedule that fails
GROUPS = ["a", "b", "c", "", "ü"]
SUBGROUPS = ["", "x", "y", "ü"]
END = None, None    # of rows
COLUMNS = "id, receipt, group_key, subgroup_key, payload, attempt, name"
IN_FORCE = ", weight, coalesce(max_leased, 0), paused"
ENDS = "attempts, coalesce(lost, 0), last_error, history"
LOSS = re.compile(r"^lost (\d+) times?, the last time by (.*) after [\d.]+ s: (session over|lease expired)$", re.M)


def short(error):
    """An error, without what cannot be known of it."""
    return error and LOSS.sub(r"lost \1 by \2: \3", error)


def ends(attempts, lost, error, history):
    """The same of how the runs of a task have ended."""
    for end in history or []:
        if set(end) - {"error"} != {"at", "attempt", "end", "worker", "seconds"} or not 0 <= end["seconds"] < 86400:
            raise Difference("end of a run: %r" % end)
    return attempts, lost, short(error), tuple((end["attempt"], end["end"], end["worker"], end.get("error")) for end in history or [])


class Connection:
    def __init__(self, name):
        self.name = name
        self.db = None
        self.pid = None
        self.tx = None

    def connect(self, conninfo):
        """After a crash that a schedule has caused the next one waits for the server."""
        deadline = time.time() + 60
        while True:
            try:
                self.db = psycopg.connect(conninfo, autocommit=True,
                                          options="-c lock_timeout=2s -c statement_timeout=30s")
                self.pid = self.db.info.backend_pid
                return
            except psycopg.OperationalError:
                if time.time() > deadline:
                    raise
                time.sleep(0.1)


class Compared:
    """Queues, three connections to them, and the model."""

    def __init__(self):
        self.connections = [Connection(name) for name in "ABC"]
        self.model = Model({})
        self.log = []
        self.counts = Counter()
        self.compared = 0       # counts that were
        self.patience = 20      # seconds for what maintain has to move, on a busy machine

    # --- talking to the server --------------------------------------------

    def call(self, c, text, *args):
        entry = [c.name, text, args, None]
        self.log.append(entry)
        del self.log[:-LOG]
        cursor = c.db.execute(text, args)
        entry[3] = cursor.fetchall() if cursor.description else []
        return entry[3]

    def value(self, c, text, *args):
        return self.call(c, text, *args)[0][0]

    def expect(self, what, is_, should):
        if is_ != should:
            raise Difference("%s: is %r, should be %r" % (what, is_, should))

    def refused(self, c, state, text, *args):
        """It is refused, and nothing else happens."""
        if c.tx:
            self.call(c, "SAVEPOINT refused")
        try:
            self.call(c, text, *args)
        except psycopg.Error as e:
            self.expect("SQLSTATE", e.sqlstate, state)
        else:
            raise Difference("it is not refused")
        if c.tx:
            self.call(c, "ROLLBACK TO SAVEPOINT refused")

    @contextmanager
    def within(self, c):
        """The transaction that a statement is in: the open one, or its own."""
        tx = c.tx or Transaction(c)
        yield tx
        self.resolve(c)
        if c.tx is None:
            self.model.commit(tx)
            self.resolve(c)     # what was held may run
            passed, self.passed = self.passed, []
            for queue in passed:
                with self.within(c) as tx:
                    self.catch_up(c, tx, queue)

    def resolve(self, c):
        """Whether there was room for tasks that got their places, the queue says."""
        self.resolve_freed(c)
        for queue in self.model.queues.values():
            placed = [t for t in queue.tasks.values() if t.row and t.row.state == "placed"]
            if not placed:
                continue
            states = dict(self.call(c, "SELECT id, state FROM fairq.tasks(%s)", queue.name))
            for task in placed:
                state = states.get(task.id)
                # It has a place beside its lease, until the nack before is committed.
                queue.placed(task, self.state_of_row(c, queue, task) if state == "leased" else state)

    def resolve_freed(self, c):
        """What has waited for others runs, at once or after a pass."""
        for queue in self.model.queues.values():
            freed = {t.id: t for t in queue.tasks.values() if t.freed}
            if not freed:
                continue
            states = self.call(c, "SELECT id, state FROM fairq.tasks(%s) WHERE id = ANY (%s) ORDER BY address IS NULL, "
                               "fairq.block(address), fairq.slot(address), id", queue.name, list(freed))
            for id, state in states:
                task = freed[id]
                sure, task.freed = task.freed == "now" and all(other.tx is None for other in self.connections), None
                if task.row.state != "held" or (state == "held" and not sure):
                    continue
                if state not in (("scheduled",) if task.row.later else queue.places()):
                    raise Difference("task %d, which waits for nothing, is %r" % (id, state))
                placed = "scheduled" if task.row.later else queue.place()
                task.row = task.committed = replace(task.row, state=placed, turn=queue.next_turn())
                if placed == "placed":
                    queue.placed(task, state, task.left)

    def state_of_row(self, c, queue, task):
        table = sql.Identifier("q_" + queue.name).as_string(c.db)
        return self.value(c, "SELECT CASE state WHEN 'r' THEN 'ready' WHEN 'o' THEN 'overflow' END FROM fairq."
                          + table + " WHERE id = %s", task.id)

    # --- comparing --------------------------------------------------------

    def take(self, tx, queue, rows, n, chosen=None, leased=True, session=None, beside=False):
        """Check what a claim or pop gave, and note it. beside: the call has tasks of another queue."""
        queue.room_is_exact &= chosen is None
        lines = self.admitted(queue, queue.lines(chosen), rows, session, beside)
        if lines is not None:
            self.take_from(tx, queue, lines, rows, n, leased, session)
        # Without a worker a claim makes a pass, if it finds nothing, or what has expired.
        if not rows or queue.ever_expired:
            if tx.connection.tx is None:
                self.passed.append(queue)   # its commit has also let run what waited for the tasks
            else:
                self.catch_up(c=tx.connection, tx=tx, queue=queue)

    def take_from(self, tx, queue, lines, rows, n, leased, session):
        lines = {place: line for place, line in lines.items() if line}
        left = {whose: queue.room(whose) for line in lines.values() for whose in queue.whose(line[0].row)}
        # A suspect that is passed over may be what a group with a limit is offered.
        held_up = {t.row.group for t in queue.suspects() if t.row and queue.ever_limited(t.row)}
        sure = [[t for t in line if not t.in_doubt] for line in lines.values()]
        most = sum(self.wanted(queue, lines.values(), left).values())
        least = sum(n for group, n in self.wanted(queue, filter(None, sure), left).items() if group not in held_up)
        if self.is_alone(queue, rows):
            most = least = 1
        if not min(n, least) <= len(rows) <= min(n, most):
            raise Difference("number of tasks: is %d, should be from %d to %d, at most %d" % (len(rows), least, most, n))
        klass_before = -1
        self.counts["claimed_of_subgroups"] += len(rows) * queue.subgroups
        for id, receipt, group, subgroup, payload, attempt, name in rows:
            task = queue.tasks.get(id)
            line = lines.get(task.row.line, []) if task and task.row else []
            if task not in line:
                raise Difference("task %d should not come: %r" % (id, task))
            row = task.row
            self.expect("group, subgroup, payload, attempt, name", (group, subgroup, payload, attempt, name),
                        (row.group, row.subgroup, row.payload, row.attempt, row.name))
            if row.klass < klass_before and group not in held_up:
                raise Difference("class %d after %d" % (row.klass, klass_before))
            klass_before = row.klass
            for (klass, other, _), others in lines.items():
                if klass < row.klass and not all(t.in_doubt for t in others) and other not in held_up and all(left[w] > 0 for w in queue.whose(others[0].row)):
                    raise Difference("class %d while %r has class %d" % (row.klass, other, klass))
            for whose in queue.whose(row):
                if left[whose] <= 0:
                    raise Difference("%r above its limit" % (whose,))
                left[whose] -= 1
            if queue.in_order(task):
                self.expect("first of %r" % (row.line,), id, min((t for t in line if queue.in_order(t) and t.row.state == row.state and (t is task or not t.in_doubt)),
                                                           key=queue.order).id)
            line.remove(task)
            self.model.claim(tx, task, receipt, session)
            if not leased:
                self.model.remove(tx, task, "acked")

    @staticmethod
    def wanted(queue, lines, left):
        """How many tasks of each group may come, by the limits at both levels."""
        waiting, want = Counter(), Counter()
        for line in lines:
            waiting[tuple(queue.whose(line[0].row))] += len(line)
        for (group, *subgroup), n in waiting.items():
            want[group[0]] += min([n] + [left[whose] for whose in subgroup])
        return {group: min(n, left[group, None]) for group, n in want.items()}

    @staticmethod
    def is_alone(queue, rows):
        return any(row[0] in queue.tasks and queue.tasks[row[0]].row and queue.tasks[row[0]].row.suspect for row in rows)

    def admitted(self, queue, lines, rows, session, beside):
        """The lines that a claim has its tasks from: with a suspect that it has alone, or
        without any. None: it has nothing, and need not."""
        held = [t.lease for t in self.model.tasks() if t.lease and session and t.lease.session is session]
        for one in self.model.queues.values():
            one.has_suspects |= bool(one.suspects())
        if self.is_alone(queue, rows):
            self.expect("tasks beside a suspect", len(rows) - 1, 0)
            self.expect("leases of the session of a suspect", len(held), 0)
            return lines
        if any(lease.alone for lease in held):
            self.expect("tasks of a session with a suspect", len(rows), 0)
            return None
        # It may be draining: for one of this queue until its leases have ended.
        if session and not rows and any(one.has_suspects and (held or one is not queue) for one in self.model.queues.values()):
            return None
        plain = {place: [t for t in line if not t.row.suspect] for place, line in lines.items()}
        plain = {place: line for place, line in plain.items() if line}
        # Without a session nothing else to do is reason enough.
        return plain if rows or session or beside or any(
            all(queue.room(whose) for whose in queue.whose(line[0].row)) for line in plain.values()) else lines

    def not_mine(self, c, receipt, what):
        for function in ["ack", "nack", "release"]:
            self.expect(what + function, self.value(c, "SELECT fairq." + function + "(%s)", receipt), False)
        self.expect(what + "extend", self.value(c, "SELECT fairq.extend(%s, '1 day')", receipt), None)

    def check_position(self, queue, task, ahead):
        """As far as the order is known."""
        before = after = 0
        me = task.row
        for other in queue.tasks.values():
            row = other.row
            if other is task or row.state not in ("ready", "overflow") or other.lease:
                continue
            ordered = row.line == me.line and row.state == me.state and \
                queue.in_order(task) and queue.in_order(other)
            # What was set aside, of others at their limits, is not counted; what has
            # expired may be.
            before += not row.expired and (row.line[1:] == me.line[1:] or not queue.ever_limited(row)) and (
                row.klass < me.klass or (ordered and queue.order(other) < queue.order(task)))
            after += row.klass > me.klass or (ordered and queue.order(other) > queue.order(task))
        ready = sum(t.row.state in ("ready", "overflow") and t.lease is None for t in queue.tasks.values())
        if not before <= ahead <= ready - 1 - after:
            self.compare(self.connections[0])
            raise Difference("ahead of %d: %d, should be from %d to %d" % (task.id, ahead, before, ready - 1 - after))

    def catch_up(self, c, tx, queue, passes=True):
        """What tasks there are. passes: a pass of maintain may have moved some.
        Returns whether it has."""
        rows = self.call(c, "SELECT id, state, group_key, subgroup_key, payload, unique_key, priority, max_attempts, max_lost, name, " + ENDS +
                         " FROM fairq.tasks(%s) ORDER BY lease_until IS NULL, address IS NULL, "
                         "fairq.block(address), fairq.slot(address), id", queue.name)
        rows = [(*row[:-4], ends(*row[-4:])) for row in rows]
        should = {t.id: t for t in queue.tasks.values() if t.seen(tx) is not None}
        moved = self.excused(c, tx, queue) if passes else []
        for task in queue.tasks.values() if passes else []:
            task.in_doubt &= task.writer is not None
        # What is held may run because the one before it has died.
        rows.sort(key=lambda row: row[0] not in queue.tasks or queue.tasks[row[0]].lease is None)
        # What has expired goes first: then what is held behind it may run.
        there = {row[0] for row in rows}
        for id in [id for id in should if id not in there] if passes else []:
            if should[id].may_end(tx):
                self.model.remove(tx, should[id], "expired")
            elif self.expires_with_lease(tx, should[id]):
                self.model.remove(tx, should[id], "expired", row=self.model.ran_out(tx, should[id])[0])
            else:
                continue
            moved.append(should.pop(id))
        for id, state, *rest in rows + [END] * passes:
            if passes and (id not in queue.tasks or queue.tasks[id].lease is None):
                self.cancelled(tx, should, there, moved)
            if (id, state) == END:
                break
            task = should.pop(id, None)
            if task is None:
                raise Difference("task %d is there" % id)
            if passes and (task.shown(tx), task.seen(tx).ends()) != (state, rest[-1]):
                moved.append(task)
                self.model.passes(tx, task, state, rest[-1])
            row = task.seen(tx)
            self.expect("task %d" % id, (state, *rest),
                        (state if task in moved else task.shown(tx), row.group, row.subgroup, row.payload, row.key, row.klass,
                         queue.attempts_of(row), queue.losses_of(row), row.name, row.ends()))
        if should:
            raise Difference("there is no task %r" % list(should))
        return bool(moved)

    def excused(self, c, tx, queue):
        """What a pass in an open transaction has put back as it was: nothing of the task shows it
        before that ends, but its lease does."""
        if c.tx is None:
            return []
        settling = {x[0] for x in self.call(c, "SELECT id FROM fairq.leases WHERE queue = %s AND state = 'settling'", queue.name)}
        back = [t for t in queue.tasks.values() if t.lease and t.lease.runs_out() and t.lease.excused() and t.free(tx)
                and t.id in settling and t.seen(tx) is not None and not t.seen(tx).expired]
        for task in back:
            self.model.ran_out(tx, task)
            self.model.settle(tx, task)
        return back

    def cancelled(self, tx, should, there, moved):
        """What a pass may have ended, for one before it has failed; then others for that one."""
        while gone := [id for id in should if id not in there and self.model.is_cancelled(tx, should[id])]:
            for id in gone:
                self.model.remove(tx, should[id], "cancelled")
                moved.append(should.pop(id))

    def expires_with_lease(self, tx, task):
        """A pass may put a task back and, as it has expired, end it."""
        row, lease = task.seen(tx), task.lease
        return row is not None and row.expired and task.free(tx) and lease is not None and \
            lease.runs_out()

    def compare(self, c):
        for queue in self.model.queues.values():
            self.catch_up(c, c.tx or Transaction(c), queue, passes=False)

    def maintain_queue(self, c, queue):
        with self.within(c) as tx:
            n = self.value(c, "SELECT fairq.maintain(%s)", queue.name)
            self.expect("maintain did something", n > 0, self.catch_up(c, tx, queue))

    def compare_depths(self):
        """With no transaction open: what has to be moved is, and what is counted."""
        c = self.connections[0]
        for queue in self.model.queues.values():
            deadline = time.time() + self.patience
            self.maintain_queue(c, queue)
            while self.model.must_pass(queue) or self.waits_differ(queue):
                if time.time() > deadline:
                    raise Difference("maintain leaves %r, %r" % (self.model.must_pass(queue), self.waits_differ(queue)))
                self.maintain_queue(c, queue)
                time.sleep(0.02)
            queue.has_suspects = bool(queue.suspects())
        self.compare_counts()

    def waits_differ(self, queue):
        """With no transaction open: what waits for what, and has failed. What is there, and
        what should be, if that is not the same."""
        is_ = self.call(self.connections[0], "SELECT task, predecessor, on_dead, failed FROM fairq.dependencies "
                        "WHERE queue = %s ORDER BY 1, 2", queue.name)
        should = []
        for task in sorted(queue.tasks.values(), key=lambda t: t.id):
            for wait in sorted(task.waits, key=lambda w: w.task.id) if task.row.state == "held" else []:
                row, look = wait.task.row, self.model.look_at(None, wait, task.on_dead)
                should += [(task.id, wait.task.id, task.on_dead, row is None or row.state == "dead")] if look != "done" else []
        # One that was revived has failed, if that was noted before.
        alive = {(t.id, w.task.id) for t in queue.tasks.values() for w in t.waits if w.task.row and w.task.row.state != "dead"}
        is_ = [(*row[:3], row[3] and row[:2] not in alive) for row in is_]
        return None if is_ == should else (is_, should)

    def compare_counts(self):
        """With no transaction open: what the views count. Nothing has to come by first."""
        c = self.connections[0]
        for queue in self.model.queues.values():
            states = ["ready", "leased", "scheduled", "overflow", "held", "dead"]
            shown = [(t.row.group, t.shown(None)) for t in queue.tasks.values()]
            divided = [(t.row.group, t.row.subgroup or "", t.shown(None)) for t in queue.tasks.values()]
            is_ = self.call(c, "SELECT " + ", ".join(states) + ", swept FROM fairq.queue_stats WHERE queue = %s", queue.name)
            self.expect("depths, and 0 swept", is_, [(*([s for _, s in shown].count(s) for s in states), 0)])
            is_ = self.call(c, "SELECT " + ", ".join(COUNTED) + " FROM fairq.queue_stats WHERE queue = %s", queue.name)[0]
            if queue.counted is None:       # a restart may have kept them or not
                queue.counted = dict(zip(COUNTED, is_))
            self.expect("counted of queue", dict(zip(COUNTED, is_)), queue.counted)
            self.compare_settings(c, queue)
            states = ["ready", "leased", "overflow"]
            is_ = self.call(c, "SELECT group_key, " + ", ".join(states) + IN_FORCE + " FROM fairq.group_stats WHERE queue = %s", queue.name)
            groups = {g for g, state in shown if state in states}
            self.expect("counts of groups", sorted(is_), sorted(
                (g, *(shown.count((g, s)) for s in states), *self.in_force(queue, (g, None))) for g in groups))
            is_ = self.call(c, "SELECT group_key, subgroup_key, overflow, leased" + IN_FORCE + " FROM fairq.subgroup_stats WHERE queue = %s", queue.name)
            subgroups = {(g, s) for g, s, state in divided if state in states} if queue.subgroups else {}
            self.expect("counts of subgroups", sorted(is_), sorted(
                (*whose, *(sum(divided.count((*whose, s)) for s in counted) for counted in (("ready", "overflow"), ("leased",))),
                 *self.in_force(queue, whose)) for whose in subgroups))
        self.compared += 1

    @staticmethod
    def in_force(queue, whose):
        weight, limit = queue.in_force(whose)
        return weight, limit or 0, whose in queue.stopped

    def compare_settings(self, c, queue):
        """What is remembered, and what groups and subgroups were given: what says nothing has no row."""
        given = {whose: queue.given.get(whose, NOTHING) + (whose in queue.stopped,) for whose in {*queue.given, *queue.stopped}}
        is_ = self.call(c, "SELECT group_key, NULL, weight, max_leased, paused FROM fairq.group_settings WHERE queue = %s UNION ALL "
                        "SELECT group_key, subgroup_key, weight, max_leased, paused FROM fairq.subgroup_settings WHERE queue = %s", queue.name, queue.name)
        keys = self.call(c, "SELECT unique_key, task FROM fairq_internal.remembered_key WHERE queue = %s AND until > now()", queue.name)
        self.expect("keys that are remembered", sorted(keys), sorted((r.key, r.id) for r in queue.remembered))
        self.expect("settings of groups and subgroups", {(g, s): tuple(rest) for g, s, *rest in is_}, given)
        is_ = self.call(c, "SELECT subgroups, group_weight, group_max_leased, subgroup_weight, subgroup_max_leased FROM fairq.queues WHERE queue = %s", queue.name)
        self.expect("defaults", is_, [(queue.subgroups, *queue.defaults[0], *queue.defaults[1])])
