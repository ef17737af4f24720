"""A model of queues: what their functions promise, and nothing of how.

A task has a row and perhaps a lease. The row is written in transactions: until
the writer's ends, others see what was committed before, and nobody claims the
task. The lease is seen by all at once.

Each transaction keeps what its end owes, as pairs of functions: one for its
commit, one for its rollback, whole or to a savepoint. Rolling back undoes in
reverse order.

A task that waits for others knows them until they have ended. The commit that ends
the last one lets it run; where that could not know, a pass does.

A lease that ends without an answer is a loss, unless it is excused: then the task is as it
was. What fails or is lost has that in its history. What was lost twice is a suspect: a claim has it alone, and so has a session. Which claims may have it, and
when, is left open; what a claim may not have beside it is not.

Where groups are divided into subgroups all that waits is in the overflow, each subgroup's
tasks in their order, and what a task may have is said at both levels (model_levels.py).

A task of the overflow whose row is being written is passed over; if it is as it was in the
end, the next pass at the latest finds it again.

What is not said here: the order between groups (engine_fair_order.pl), and between
subgroups (subgroups_order.pl), and times.
What is scheduled is so for ever, until a schedule makes it due; leases end, and
tasks expire, when a schedule says so.
"""

from dataclasses import dataclass, field, replace

from model_levels import Levels


class Difference(Exception):
    pass


# What is between the errors of a task that has failed and is dead of its losses.
IT_FAILED = "\nbefore that it failed: "

# So many suspects of a queue have a place.
SUSPECTS = 16

# So many ends are in a history.
HISTORY = 10


@dataclass(frozen=True)
class Row:
    """One version. State: ready, scheduled, overflow, held, dead; or placed:
    ready or in the overflow, as the queue has room."""
    state: str
    group: str
    klass: int
    payload: object
    attempts: int = 0           # that were answered
    max_attempts: int = None    # None: the queue's
    lost: int = 0
    max_lost: int = None        # None: the queue's
    later: bool = False         # its run_at is far away
    key: str = None
    expired: bool = False       # its expires_at has come: it is not begun any more
    error: str = None           # last_error
    history: tuple = ()         # of ends: attempt, failed or lost, worker, error
    name: str = None
    subgroup: str = None
    turn: int = 0               # first in, first out within group, subgroup and class

    WAITS = ("ready", "scheduled", "overflow", "placed")

    @property
    def line(self):
        """Within which the order is known."""
        return self.klass, self.group, self.subgroup

    @property
    def suspect(self):
        return self.lost >= 2

    @property
    def attempt(self):
        """Which run the next one is."""
        return self.attempts + self.lost + 1

    def ends(self):
        """What is known of its runs."""
        return self.attempts, self.lost, self.error, self.history

    def ended(self, lease, end, error):
        """With one run more in its history."""
        return replace(self, history=(*self.history, (lease.attempt, end, lease.worker(), error))[-HISTORY:])

    def failure(self):
        """The error of the last failure, as far as the last error tells."""
        if self.error is None or not self.error.startswith("lost "):
            return self.error
        return self.error.partition(IT_FAILED)[2] or None


@dataclass(eq=False)
class Lease:
    receipt: object
    attempt: int
    pid: int                    # of who claimed it; None: that was before a restart
    session: object = None
    claimer: object = None      # the transaction that claimed it, while that is open
    settler: object = None      # the one that is ending it
    durable: bool = False
    nobodys: bool = False       # its claim was rolled back
    restored: bool = False      # after a restart, and not extended since
    alone: bool = False         # it is that of a suspect
    extender: object = None     # of a durable lease: the one that has written its row
    expired: bool = False       # its time has passed; good until it is put back
    kept_expired: bool = False  # so says its row, if it is durable

    def lost(self):
        return self.session is not None and self.session.over

    def worker(self):
        if self.session is not None:
            return self.session.worker()
        return "a worker of before the restart" if self.pid is None else "process %d" % self.pid

    def runs_out(self):
        """A pass puts the task back."""
        return (self.expired or self.lost()) and self.settler is None

    def excused(self):
        """Should it run out, that counts as nothing."""
        if self.session is not None and (self.session.excused or self.session.unseen):
            return True
        return self.nobodys or (self.restored and self.session is None)

    def good_for(self, tx):
        """Whether tx, who knows the receipt, may settle it."""
        return self.settler is None and not self.lost() and not self.nobodys and self.claimer in (None, tx) and self.extender in (None, tx)


@dataclass(eq=False)
class Done:
    """A row of an archive."""
    outcome: str
    result: object
    row: Row
    writer: object              # the transaction that wrote it, while that is open


@dataclass(eq=False)
class Remembered:
    """A key that is remembered, with its task."""
    key: str
    id: int
    writer: object


@dataclass(eq=False)
class Wait:
    """A task that is held waits for this one."""
    task: object = field(repr=False)
    failed: bool = False        # it has, while it was waited for


@dataclass(eq=False)
class Session:
    uuid: object
    name: str
    pid: int                    # of who opened it; None: that was before a restart
    opener: object = None       # the connection, if it is bound to it
    over: bool = False
    excused: bool = False       # closed in order, or by the server
    unseen: bool = False        # its worker has not come again after a restart
    members: set = field(default_factory=set)   # queues it asked for buckets of

    def worker(self):
        return 'session "%s"' % self.name + ("" if self.pid is None else ", process %d" % self.pid)


@dataclass(eq=False)
class Task:
    queue: object = field(repr=False)
    id: int
    key: str = None
    row: Row = None             # the newest version
    before: Row = None          # the version before that
    committed: Row = None       # what all but its writer see; None: there is no task
    writer: object = None       # the transaction that wrote row
    lease: Lease = None
    in_doubt: bool = False      # of the overflow, and a change was undone: a claim may have passed it
    was_leased: bool = False    # it may not be counted in the room of its group any more
    waits: list = field(default_factory=list, repr=False)
    on_dead: str = "hold"
    late: bool = False          # one may have been about to end, and not tell it
    freed: str = None           # None; "now": a commit lets it run; "soon": or a pass after it
    left: list = field(default_factory=list, repr=False)    # by the transaction that lets it run
    end: str = None             # how tx has ended it: "done" or "failed"

    def seen(self, tx):
        return self.row if self.writer is tx else self.committed

    def shown(self, tx):
        """The state that tasks() has for tx."""
        state = self.seen(tx).state
        # A task that was nacked to its death and revived in one transaction is in flight
        # until that ends, also if its place is in the overflow.
        return "leased" if state in ("ready", "overflow") and self.lease else state

    def free(self, tx):
        """Nobody else has it in hand."""
        lease = self.lease
        return self.writer in (None, tx) and \
            (lease is None or (lease.settler in (None, tx) and lease.extender in (None, tx) and
                               not (lease.durable and lease.claimer not in (None, tx))))

    def removable(self, tx):
        """Whoever removes it, or changes it with SQL, does not have to wait for who ends what it waits for."""
        return self.free(tx) and all(wait.task.writer in (None, tx) for wait in self.waits)

    def claimable(self):
        return self.writer is None and self.lease is None and self.row.state in ("ready", "overflow") and not self.row.expired

    def may_end(self, tx):
        """A pass in tx may end it, for it has expired."""
        row = self.seen(tx)
        return row is not None and row.expired and row.state != "dead" and self.free(tx) and self.lease is None


# Of queue_stats.
COUNTED = ("expired_tasks", "deduplicated", "snoozed", "expired", "released", "nacked", "dead_total")


class Queue(Levels):
    def __init__(self, name, **settings):
        super().__init__()
        self.name = name
        self.tasks = {}
        self.last_turn = 0
        self.max_attempts = 3
        self.max_lost = 5
        self.buckets = 1
        self.max_ready = None           # no overflow
        self.max_ready_per_group = None
        self.durable = False
        self.paused = False
        self.room_is_exact = True       # until a claim may have passed by groups with work
        self.ever_expired = False       # then any claim may end in a pass
        self.has_suspects = False       # or had, and no pass was since
        self.ever_overflowed = set()    # groups and classes that had an overflow
        self.purged = {}                # groups: what has a turn before is out of order
        self.default_priority = 4
        self.archives = False           # keep_done
        self.archive = {}               # ids: what is done
        self.remembered = []
        self.ids = []                   # of all tasks there ever were
        self.counted = dict.fromkeys(COUNTED, 0)    # None: not known since a restart
        self.__dict__.update(settings)

    def next_turn(self):
        self.last_turn += 1
        return self.last_turn

    def place(self):
        return "overflow" if self.subgroups else "ready" if self.max_ready is None else "placed"

    def places(self, first=False):
        """Where a pass may have put a task. first: a suspect that was scheduled, whose place is the first."""
        return ("ready", "overflow") if not self.subgroups else ("ready",) if first else ("overflow",)

    def again(self):
        """Where a task is that has failed and waits for nothing."""
        return "overflow" if self.subgroups else "ready"

    def in_order(self, task):
        """Is its place behind those of its group that came before? A suspect's is the first, from
        when it was put back as one."""
        row = task.row
        return not self.ever_limited(row) and row.turn > self.purged.get(row.group, 0) and not row.suspect

    @staticmethod
    def order(task):
        """Of tasks of a group, class and state: those of the overflow are in the order of their ids."""
        return task.id if task.row.state == "overflow" else task.row.turn

    def attempts_of(self, row):
        return self.max_attempts if row.max_attempts is None else row.max_attempts

    def losses_of(self, row):
        return self.max_lost if row.max_lost is None else row.max_lost

    def suspects(self):
        return [t for t in self.tasks.values() for row in (t.row, t.committed) if row is not None and row.suspect]

    def lines(self, chosen=None):
        """The tasks that may be claimed, by class, group and subgroup, in order."""
        lines = {}
        for task in self.tasks.values():
            if not self.paused and task.claimable() and (chosen is None or chosen(task)):
                lines.setdefault(task.row.line, []).append(task)
        for line in lines.values():
            line.sort(key=lambda t: t.row.turn)
        return lines

    def placed(self, task, state, left=()):
        """A task that got a place is ready or, as it was full, in the overflow. left: places
        that the transaction has left that let it run."""
        place = task.row.group, task.row.klass

        def ready(row, here):
            return row is not None and row.state == "ready" and (not here or (row.group, row.klass) == place)
        others = [t for t in self.tasks.values() if t is not task]
        if state == "ready":
            if any(t.row.state == "overflow" and (t.row.group, t.row.klass) == place for t in others
                   if t.writer is None and t.lease is None and not t.was_leased):
                raise Difference("task %d overtakes the overflow" % task.id)
            sure = [t.row for t in others if t.writer is None and not t.was_leased]
            if self.room_is_exact and not self.ever_limited() and (
                    sum(ready(r, True) for r in sure) >= self.max_ready_per_group or
                    sum(ready(r, False) for r in sure) >= self.max_ready):
                raise Difference("task %d is ready without room" % task.id)
        elif state == "overflow":
            # A place that is left counts until that is committed.
            maybe = [r for t in self.tasks.values()
                     for r in {t.committed, t.before if t.writer else None, t.row if t is not task else None}] + list(left)
            if place not in self.ever_overflowed and \
                    sum(ready(r, True) for r in maybe) < self.max_ready_per_group and \
                    sum(ready(r, False) for r in maybe) < self.max_ready:
                raise Difference("task %d is in the overflow, with room" % task.id)
            self.ever_overflowed.add(place)
        else:
            raise Difference("task %d is %r, should be ready or in the overflow" % (task.id, state))
        was, task.row = task.row, replace(task.row, state=state)
        if task.committed is was:
            task.committed = task.row

    def of_key(self, key, tx):
        """The first task of a key and the one that is held, as tx finds them. What
        another transaction ends is there still; what it has in hand is not counted
        unless it is in flight."""
        first = held = None
        for task in self.tasks.values():
            free = task.writer in (None, tx)
            for row in (task.row,) if free else (task.row, task.committed):
                if row is None or row.key != key:
                    continue
                if row.state in Row.WAITS and (free or task.lease is not None):
                    first = task
                elif row.state == "held" and free:
                    held = task
        return first, held

    def task_remembered(self, key, tx):
        """The id of the task that a key is remembered with, or None."""
        return next((r.id for r in self.remembered if r.key == key and r.writer in (None, tx)), None)

    def key_is_busy(self, key, tx):
        """Whether who needs to know of a key has to wait for another transaction."""
        return any(r.key == key and r.writer not in (None, tx) for r in self.remembered) or any(task.key == key and task.writer not in (None, tx) and
                   (task.lease is None or (task.row is not None and task.row.state == "held"))
                   for task in self.tasks.values())


class Transaction:
    """What its end owes. The model's, open or of a single statement."""

    def __init__(self, connection):
        self.connection = connection
        self.owed = []
        self.savepoints = []
        self.gone = []          # tasks with keys that it ends
        self.ended = []         # tasks, and how

    def owes(self, commit=None, undo=None):
        self.owed.append((commit, undo))

    def roll_back_to(self, mark):
        while len(self.owed) > mark:
            undo = self.owed.pop()[1]
            if undo:
                undo()


class Model:
    def __init__(self, events):
        self.events = events        # counts what a schedule has come to
        self.queues = {}
        self.sessions = []
        self.subscriptions = set()
        self.old_receipts = []

    def tasks(self):
        return [t for q in self.queues.values() for t in q.tasks.values()]

    # --- rows and leases --------------------------------------------------

    def write(self, tx, task, row):
        """row None: the task is removed."""
        task.queue.ever_expired |= row is not None and row.expired
        before = task.row, task.writer
        task.before, task.row, task.writer = task.row, row, tx

        def commit():
            task.committed, task.writer = task.row, None
            self.forget_if_gone(task)

        def undo():
            task.row, task.writer = before
            task.in_doubt = task.row is not None and task.row.state == "overflow"
            self.forget_if_gone(task)
        tx.owes(commit, undo)

    @staticmethod
    def forget_if_gone(task):
        if task.row is None and task.committed is None:
            task.queue.tasks.pop(task.id, None)

    def add(self, tx, queue, id, row):
        if id in queue.tasks:
            raise Difference("id %d is there twice" % id)
        queue.ids.append(id)
        task = queue.tasks[id] = Task(queue, id, row.key)
        self.write(tx, task, replace(row, turn=queue.next_turn()))
        return task

    def change(self, tx, task, **values):
        self.write(tx, task, replace(task.row, **values))

    def drop_lease(self, task, lease):
        self.old_receipts.append(lease.receipt)
        if task.lease is lease:
            task.lease = None

    def claim(self, tx, task, receipt, session=None):
        lease = task.lease = Lease(receipt, task.row.attempt, tx.connection.pid, session, tx, durable=task.queue.durable, alone=task.row.suspect)
        task.was_leased = True
        self.events["alone"] += lease.alone
        if session is not None:
            session.unseen = False

        def commit():
            lease.claimer = None

        def undo():
            if task.lease is lease and lease.settler not in (None, tx):
                # Somebody cancels the task: should that be rolled back, it is put back.
                lease.nobodys = lease.expired = True
            else:
                self.drop_lease(task, lease)
        tx.owes(commit, undo)

    def settle(self, tx, task):
        lease = task.lease
        lease.settler = tx

        def undo():
            lease.settler = None
        tx.owes(lambda: self.drop_lease(task, lease), undo)

    def extend(self, tx, task):
        """At once; only a durable lease's row is written in the transaction."""
        lease = task.lease
        lease.expired = lease.restored = False
        if lease.session is not None:
            lease.session.unseen = False
        if lease.durable and tx is not None:
            lease.extender = tx
            tx.owes(lambda: (setattr(lease, "extender", None), setattr(lease, "kept_expired", False)),
                    lambda: setattr(lease, "extender", None))

    def remove(self, tx, task, outcome, result=None, row=None):
        """ack, pop, cancel, or it has expired. row: what it has become by that."""
        if task.row.key is not None and task.row.state not in ("held", "dead"):
            tx.gone.append((task.queue, task.row.key))
        if task.lease is not None and task.lease.settler is None:
            self.settle(tx, task)
        if outcome == "expired":
            self.count(tx, task.queue, "expired_tasks")
        self.ends(tx, task, outcome, result, row or task.row)

    def ends(self, tx, task, outcome, result, row):
        """It is gone, and the archive has it."""
        archive, id = task.queue.archive, task.id
        self.note_end(tx, task, "done" if outcome == "acked" else "failed")
        if task.queue.archives:
            row = replace(row, attempts=row.attempts + (outcome == "acked"))
            archive[id] = done = Done(outcome, result, row, tx)
            tx.owes(lambda: setattr(done, "writer", None), lambda: archive.pop(id))
        self.write(tx, task, None)

    @staticmethod
    def note_end(tx, task, end):
        """What waits for it learns of it at the commit."""
        was, task.end = task.end, end
        tx.owes(lambda: tx.ended.append((task, end)), lambda: setattr(task, "end", was))

    @staticmethod
    def count(tx, queue, what):
        def commit():
            if queue.counted is not None:
                queue.counted[what] += 1
        tx.owes(commit)

    def release(self, tx, task, later=False):
        self.count(tx, task.queue, "released")
        if later:
            self.count(tx, task.queue, "snoozed")
        if task.row.expired:
            self.remove(tx, task, "expired")
        else:
            self.settle(tx, task)
            if later:
                self.change(tx, task, state="scheduled", later=True, turn=task.queue.next_turn())

    def failed(self, tx, task, later=False, error=None, final=False):
        """nack: an attempt is over, and the task if it has expired. error: None leaves the last one."""
        queue, row = task.queue, task.row
        most = queue.attempts_of(row)
        row = replace(row.ended(task.lease, "failed", error), attempts=row.attempts + 1, error=row.error if error is None else error)
        self.count(tx, queue, "nacked")
        self.events["full_history"] += len(row.history) == HISTORY
        self.settle(tx, task)
        if final or (most and row.attempts >= most):
            state = "dead"
            self.dies(tx, task)
        elif row.expired:
            return self.remove(tx, task, "expired", row=row)
        else:
            # A suspect waits for a place.
            state = "scheduled" if later or row.suspect else queue.again()
        self.write(tx, task, replace(row, state=state, later=later, turn=queue.next_turn()))

    def dies(self, tx, task):
        self.count(tx, task.queue, "dead_total")
        self.note_end(tx, task, "failed")
        if task.row.key is not None:
            tx.gone.append((task.queue, task.row.key))

    def ran_out(self, tx, task):
        """What that makes of a row, but for its state; and whether it is dead."""
        queue, row, lease = task.queue, task.row, task.lease
        self.events["excused" if lease.excused() else "lost"] += 1
        self.count(tx, queue, "released" if lease.excused() else "expired")
        if lease.excused():
            return row, False
        reason = "session over" if lease.lost() else "lease expired"
        lost, most = row.lost + 1, queue.losses_of(row)
        dead = lost >= most > 0
        error, failure = "lost %d by %s: %s" % (lost, lease.worker(), reason), row.failure()
        if failure is not None:
            error = error + IT_FAILED + failure if dead else failure
        self.events["lost_dead"] += dead
        self.events["full_history"] += len(row.history) == HISTORY
        return replace(row.ended(lease, "lost", reason), lost=lost, error=error), dead

    # --- unique keys ------------------------------------------------------

    def enqueue(self, tx, queue, id, row, replaces=False, remembers=False):
        """id is what the queue answered; None: it did not say. remembers: unique_for"""
        if row.klass is None:
            row = replace(row, klass=queue.default_priority)
        known = None if row.key is None else queue.task_remembered(row.key, tx)
        id = self.take_key(tx, queue, id, row, replaces, known)
        # What has expired already will not be done, and keeps nothing from being done.
        if remembers and row.key is not None and known is None and not row.expired:
            one = Remembered(row.key, id, tx)
            queue.remembered.append(one)
            tx.owes(lambda: setattr(one, "writer", None), lambda: queue.remembered.remove(one))

    def take_key(self, tx, queue, id, row, replaces, known):
        """Returns the id of the task. known: of that which the key is remembered with"""
        while True:
            first, held = queue.of_key(row.key, tx) if row.key is not None else (None, None)
            waiting = held or (first if first is not None and first.lease is None else None)
            if waiting is None or not waiting.row.expired:
                break
            self.remove(tx, waiting, "expired")
        if waiting is not None or known is not None:
            self.count(tx, queue, "deduplicated")
            wanted = known if waiting is None else waiting.id
            if id not in (None, wanted):
                raise Difference("key %r: is %d, should be %d" % (row.key, id, wanted))
        if waiting is None and known is not None:
            return known
        if waiting is None:
            state = "held" if first is not None else "scheduled" if row.later else queue.place()
            if id is None:
                raise Difference("there is no new task in %r" % queue.name)
            self.add(tx, queue, id, replace(row, state=state))
            return id

        old = waiting.row
        if not replaces:
            if waiting.writer is not tx:
                self.write(tx, waiting, old)
        elif old.state == "held":
            self.write(tx, waiting, replace(row, state="held", turn=old.turn))
        elif old.state in ("ready", "overflow", "placed") and not row.later and \
                old.line == row.line:
            self.write(tx, waiting, replace(row, state=old.state, turn=old.turn))
        else:
            self.write(tx, waiting, replace(row, state="scheduled" if row.later else queue.place(),
                                            turn=queue.next_turn()))
        return waiting.id

    # --- what waits for others --------------------------------------------

    def enqueue_after(self, tx, queue, id, row, predecessors, on_dead):
        if row.klass is None:
            row = replace(row, klass=queue.default_priority)
        # What tx itself has ended has gone before it was waited for, however it ended.
        there = [t for t in predecessors if t.row is not None or t.writer not in (None, tx)]
        waits = [Wait(t) for t in there if self.look_at(tx, Wait(t), on_dead) != "done"]
        state = "held" if waits else "scheduled" if row.later else queue.place()
        task = self.add(tx, queue, id, replace(row, state=state))
        task.waits, task.on_dead = waits, on_dead
        task.late = any(wait.task.writer not in (None, tx) for wait in waits)

    @staticmethod
    def look_at(tx, wait, on_dead):
        """What tx finds of a predecessor: done, open, or a reason to cancel."""
        before = wait.task
        if not wait.failed:
            if before.writer not in (None, tx):
                return "open"
            if before.row is None:
                # It had gone before it was waited for, unless tx is ending it.
                wait_failed = tx is not None and before.writer is tx and before.end == "failed"
            elif before.row.state == "dead":
                wait_failed = True
            else:
                return "open"
            if not wait_failed or on_dead == "run":
                return "done"
        return "cancel" if on_dead == "cancel" else "open"

    def looks(self, tx, task):
        return [self.look_at(tx, wait, task.on_dead) for wait in task.waits]

    def is_cancelled(self, tx, task):
        """A pass ends it, for one that it waits for has failed."""
        row = task.seen(tx)
        return row is not None and row.state == "held" and task.free(tx) and "cancel" in self.looks(tx, task)

    def tell(self, before, end, left):
        """A task has ended, or is dead: those that wait for it, and that have been
        committed, learn of it. A later one is looked at by a pass."""
        if end == "failed" and before.row is not None and before.row.state != "dead":
            return              # it was revived
        for task in before.queue.tasks.values():
            if task.committed is None:
                continue
            for wait in [w for w in task.waits if w.task is before]:
                if end == "failed" and task.on_dead != "run":
                    wait.failed = True
                    continue
                task.waits.remove(wait)
                if task.row is not None and task.row.state == "held" and task.writer is None and self.may_run(None, task):
                    task.freed, task.left = "soon" if task.waits or task.late else "now", left

    def let_run(self, tx, task):
        later = task.row.later
        self.change(tx, task, state="scheduled" if later else task.queue.place(),
                    turn=task.queue.next_turn())

    @staticmethod
    def purged(tx, queue, group):
        return [t for t in queue.tasks.values() if t.writer in (None, tx) and t.row is not None
                and t.lease is None and group in (None, t.row.group)]

    def purge(self, tx, queue, group):
        """Returns how many go. What is left is in flight, or in somebody's hands,
        and its group begins anew."""
        gone = self.purged(tx, queue, group)
        for task in gone:
            self.ends(tx, task, "dead" if task.row.state == "dead" else "cancelled", None, task.row)
        turn, groups = queue.last_turn, {t.row.group for t in queue.tasks.values() if t.row} | {group}
        tx.owes(lambda: queue.purged.update((g, turn) for g in groups if group in (None, g)))
        return len(gone)

    def revive(self, tx, task):
        """Returns whether it does."""
        queue, row = task.queue, task.row
        first, held = queue.of_key(row.key, tx) if row.key is not None else (None, None)
        if held is not None or (first is not None and first.lease is None):
            return False
        state = "held" if first is not None else queue.place()
        self.change(tx, task, state=state, attempts=0, lost=2 if row.suspect else 0, later=False, expired=False,
                    turn=queue.next_turn())
        return True

    # --- the end of transactions ------------------------------------------

    def commit(self, tx):
        left = [row for t in self.tasks() if t.writer is tx for row in {t.committed, t.before}]
        for queue, key in tx.gone:
            first, held = queue.of_key(key, tx)
            if first is None and held is not None:
                self.let_run(tx, held)
        for commit, _ in tx.owed:
            if commit:
                commit()
        tx.owed = []
        for task, end in tx.ended:
            self.tell(task, end, left)
        tx.ended = []

    def roll_back(self, tx):
        tx.roll_back_to(0)

    def restart(self, crash):
        """After all connections were lost, and rolled back. A clean restart keeps
        sessions, but those that are bound, and all leases: those of sessions that
        are over have run out. A crash keeps durable leases. What is kept, and runs out
        before its worker is seen again, counts as nothing."""
        for queue in self.queues.values():
            queue.counted = None
        for session in self.sessions:
            session.members.clear()
            session.over |= crash or session.opener is not None
            session.unseen, session.pid = True, None
        for task in self.tasks():
            lease = task.lease
            if crash and lease is not None and not lease.durable:
                self.drop_lease(task, lease)
            elif lease is not None:
                lease.restored, lease.pid = True, None
                lease.expired = lease.kept_expired if crash else lease.expired

    # --- what may change by itself ----------------------------------------

    def passes(self, tx, task, state, ends):
        """A pass of maintain in tx made this of a task, so it says: apply it, or
        raise an error if it must not."""
        queue, row, lease = task.queue, task.seen(tx), task.lease
        if state == "overflow":
            queue.ever_overflowed.add((row.group, row.klass))
        if row is not None and task.free(tx):
            if lease is not None and lease.runs_out():
                if self.put_back(tx, task, state, ends):
                    return
            elif row.state == "scheduled" and not row.later and state in queue.places(row.suspect):
                return self.change(tx, task, state=state, turn=queue.next_turn())
            elif row.state == "held" and self.may_run(tx, task):
                if state in (("scheduled",) if row.later else queue.places()):
                    return self.change(tx, task, state=state, turn=queue.next_turn())
        raise Difference("task %d is %r after %r, should be %r: %r, %r" % (task.id, state, ends, row and task.shown(tx), row, lease))

    def put_back(self, tx, task, state, ends):
        """A pass has, for its lease has run out. Returns whether what it says is right."""
        queue, row, excused = task.queue, task.row, task.lease.excused()
        after, dead = self.ran_out(tx, task)
        wanted = {row.state, queue.again()} if excused else {"dead"} if dead else \
            {"scheduled", "leased", *queue.places(True)} if after.suspect else {queue.again(), "leased"}
        if ends != after.ends() or state not in wanted:
            return False
        self.settle(tx, task)
        if excused:
            if state != row.state:          # out of the overflow
                self.change(tx, task, state=state, turn=queue.next_turn())
            return True
        if dead:
            self.dies(tx, task)
        # Leased, until the pass is committed: then it is where it has its place.
        place = queue.again() if not after.suspect else "ready" if queue.subgroups else queue.place()
        self.write(tx, task, replace(after, state=place if state == "leased" else state, later=False, turn=queue.next_turn()))
        return True

    def may_run(self, tx, held):
        """Nothing is before a held task."""
        return all(look == "done" for look in self.looks(tx, held)) and \
            (held.row.key is None or held.queue.of_key(held.row.key, tx)[0] is None)

    def must_pass(self, queue):
        """With no transaction open: what maintain has to move."""
        full = sum(t.row.suspect and t.row.state in ("ready", "overflow") for t in queue.tasks.values()) >= SUSPECTS
        due = [t for t in queue.tasks.values()
               if (t.lease is not None and (t.lease.expired or t.lease.lost()))
               or t.may_end(None)
               or (t.row.state == "scheduled" and not t.row.later and not (t.row.suspect and full))
               or (t.row.state == "held" and self.may_run(None, t))
               or self.is_cancelled(None, t)]
        return due

    # --- topics -----------------------------------------------------------

    def subscribed(self, topic):
        words = topic.split(".")
        return {queue for pattern, queue in self.subscriptions if matches(pattern.split("."), words)}


def matches(pattern, words):
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(matches(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])
