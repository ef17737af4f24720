"""Some of the steps of model_run.py: how tasks have ended, keys that are remembered,
what groups are given. And what all steps choose from."""

import json

from model import Transaction
from model_compare import ENDS, GROUPS, SUBGROUPS, Compared, ends
from schedules import PICK, percent, pick

PAST = "2020-01-01"

# Connections and queues are numbers in a schedule, and the things themselves when
# the step is taken.
C = range(3)
OF_GROUP = [None] * 4 + SUBGROUPS       # None: of the group itself
QUEUE = [0] * 7 + [1] * 3
PICKS = [(number,) * n for n in (1, 2, 3) for number in range(20)]
RESULTS = [{"sum": 42}, [], 0, "", None]

STEPS = {}


def step(weight, /, **values):
    def known(method):
        STEPS[method.__name__] = weight, values
        return method
    return known


class Steps(Compared):
    def leases(self, tx, *picks):
        """Some that tx may settle."""
        return pick((t for t in self.model.tasks() if t.lease and t.lease.good_for(tx) and t.writer in (None, tx)), *picks)

    # --- results, and how a task has ended --------------------------------

    @step(12, c=C, lease=PICK, result=RESULTS)
    def ack_with_result(self, c, lease, result):
        with self.within(c) as tx:
            for task in self.leases(tx, lease):
                args = "SELECT fairq.ack(%s, %s::jsonb)", task.lease.receipt, json.dumps(result)
                if not task.queue.archives:
                    self.refused(c, "55000", *args)
                    continue
                self.expect("ack", self.value(c, *args), True)
                self.model.remove(tx, task, "acked", (result,))

    def outcome(self, queue, id, tx):
        """What await answers, without done_at, and the row."""
        task = queue.tasks.get(id)
        row = task and task.seen(tx)
        if row is not None:
            return task.shown(tx), None, row, False
        done = queue.archive.get(id)
        if done is not None and done.writer in (None, tx):
            return done.outcome, done.result, done.row, True
        return None

    @step(24, c=C, queue=QUEUE, ended=percent(50), task=PICK, timeout=["0", "0", "0", "2 ms"])
    def await_task(self, c, queue, ended, task, timeout):
        tx = c.tx or Transaction(c)
        ids = list(queue.ids) if ended else list(queue.tasks)
        for id in pick(ids[::-1], task):
            should = self.outcome(queue, id, tx)
            present = queue.tasks.get(id)
            if timeout != "0" and should and not should[3] and should[0] != "dead" and present.writer is tx:
                self.refused(c, "25001", "SELECT * FROM fairq.await(%s, %s, %s)", queue.name, id, timeout)
                continue
            state, result, null, error, done = self.call(
                c, "SELECT state, result, result IS NULL, last_error, done_at IS NOT NULL FROM fairq.await(%s, %s, %s)",
                queue.name, id, timeout)[0]
            if should is None:
                self.expect("outcome of %d" % id, (state, null, error, done), (None, True, None, False))
                continue
            self.expect("outcome of %d" % id, (state, None if null else (result,), done), (should[0], should[1], should[3]))
            row = should[2]
            name, *runs = self.call(c, "SELECT name, " + ENDS + " FROM fairq." + ("get_done_task" if done else "get_task") + "(%s, %s)", queue.name, id)[0]
            self.expect("of %d" % id, (name, ends(*runs), error), (row.name, row.ends(), runs[2]))

    # --- keys that are remembered -----------------------------------------

    @step(6, c=C, queue=QUEUE, key=PICK)
    def forget(self, c, queue, key):
        """With SQL: the time of a key is over."""
        c = self.idle(c)
        for one in pick((r for r in queue.remembered if r.writer is None), key) if c else []:
            done = self.call(c, "UPDATE fairq_internal.remembered_key SET until = '" + PAST + "' "
                             "WHERE queue = %s AND unique_key = %s AND until > now() RETURNING task", queue.name, one.key)
            self.expect("task that the key is remembered with", done, [(one.id,)])
            queue.remembered.remove(one)

    # --- settings ---------------------------------------------------------

    def admin(self, c, rolled_back, text, *args, should=None):
        """Settings change by themselves; or not, if they are rolled back. Returns
        whether they have."""
        if rolled_back:
            self.call(c, "BEGIN")
        is_ = self.value(c, text, *args)
        if should is not None:
            self.expect(text, is_, should)
        if rolled_back:
            self.call(c, "ROLLBACK")
        return not rolled_back

    def of_level(self, c, queue, whose, rolled_back, text, *args, should=None):
        """A call of a function for groups, or of its twin for subgroups. Returns whether it holds."""
        group, subgroup = whose
        if subgroup is None:
            return self.admin(c, rolled_back, "SELECT fairq." + text % ("group", ""), queue.name, group, *args, should=should)
        text = "SELECT fairq." + text % ("subgroup", ", %s")
        if queue.subgroups:
            return self.admin(c, rolled_back, text, queue.name, group, subgroup, *args, should=should)
        self.refused(c, "55000", text, queue.name, group, subgroup, *args)
        return False

    @step(9, c=C, queue=QUEUE, group=GROUPS, subgroup=OF_GROUP, limit=[None, 0, 0, 1, 2, 5],
          weight=[None, 1, 0.5, 7], rolled_back=percent(20))
    def set_group(self, c, queue, group, subgroup, limit, weight, rolled_back):
        c, whose = self.idle(c), (group, subgroup)
        if c and self.of_level(c, queue, whose, rolled_back, "set_%s(%%s, %%s%s, max_leased => %%s, weight => %%s)", limit, weight):
            queue.give(whose, weight, limit)

    @step(9, c=C, queue=QUEUE, group=GROUPS, subgroup=OF_GROUP, rolled_back=percent(20))
    def reset_group(self, c, queue, group, subgroup, rolled_back):
        c = self.idle(c)
        if c:
            self.take_away(c, queue, (group, subgroup), rolled_back)

    def take_away(self, c, queue, whose, rolled_back=False):
        if self.of_level(c, queue, whose, rolled_back, "reset_%s(%%s, %%s%s)", should=queue.has_own(whose)):
            queue.take_away(whose)

    @step(6, c=C, queue=QUEUE, subgroups=percent(50), limit=[None, 0, 0, 0, 1, 2, 5], weight=[None, 1, 0.5], rolled_back=percent(20))
    def set_defaults(self, c, queue, subgroups, limit, weight, rolled_back):
        c = self.idle(c)
        text = "SELECT fairq.set_%s_defaults(%%s, max_leased => %%s, weight => %%s)" % ("subgroup" if subgroups else "group")
        if c and subgroups and not queue.subgroups:
            self.refused(c, "55000", text, queue.name, limit, weight)
        elif c and self.admin(c, rolled_back, text, queue.name, limit, weight):
            queue.give_defaults(int(subgroups), weight, limit)

    @step(4, c=C, queue=QUEUE, rolled_back=percent(20))
    def divide(self, c, queue, rolled_back):
        """Groups are divided from now on, or are not any more: that waits for all who use the queue,
        and is not undone while there are tasks."""
        if any(c.tx is not None for c in self.connections):
            return
        text = "SELECT fairq.alter_queue(%s, subgroups => %s)"
        if queue.subgroups and queue.tasks:
            self.refused(c, "55000", text, queue.name, False)
        elif self.admin(c, rolled_back, text, queue.name, not queue.subgroups):
            queue.subgroups = not queue.subgroups
            queue.room_is_exact = False

    @step(4, c=C, queue=QUEUE)
    def create_again(self, c, queue):
        """There is one of that name: it stays as it is."""
        c = self.idle(c)
        if c:
            self.value(c, "SELECT fairq.create_queue(%s, buckets => 7, max_attempts => 1, if_not_exists => true)", queue.name)
