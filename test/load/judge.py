"""The judge of a load: from the journals and the tables; what the engine says of itself is not asked.

lost        committed by a producer, and neither done, nor removed on purpose, nor there;
            or done for certain, and the transaction that did it is not in the database
doubled     enqueued or ended twice; or in two hands for certain at the same time (so also:
            two tasks of one unique key)
nowhere     seen without having been enqueued
stuck       there at the end, though all was to be done
broken      ack was refused although nothing can have ended the lease
errors      what no fault explains, and how often

Seen to fail: test/load/judged.py shows it each of these.
"""

import bisect
import collections
import math
import os

import journal

# A task is named by what identifies it for good. None of these has a unique index: a double
# must show, not be prevented.
TABLES = """
CREATE TABLE produced (queue text, ident text, n text, task bigint);
CREATE TABLE results (queue text, ident text, receipt uuid, client text, x int, task bigint);
CREATE TABLE removed (queue text, ident text, how text);
CREATE INDEX ON results (ident);
CREATE INDEX ON removed (ident);
"""

# Each task that was produced has ended once, or is there once.
FATES = """
WITH p AS (SELECT DISTINCT queue, ident FROM produced),
    fate AS (SELECT queue, ident, 'acked' AS how FROM results UNION ALL SELECT queue, ident, how FROM removed%s),
    fates AS (SELECT queue, ident, count(*) AS n, string_agg(how, ' and ' ORDER BY how) AS how FROM fate GROUP BY 1, 2)
SELECT queue, ident, p.ident IS NOT NULL AS known, coalesce(n, 0) AS n, how
FROM p FULL JOIN fates USING (queue, ident)
WHERE p.ident IS NULL OR n IS DISTINCT FROM 1
"""

# Where the name of a task says which it is: none is enqueued twice, or has the id of another one.
NAMES = """
SELECT queue || ' ' || ident || ': enqueued ' || count(*) || ' times' FROM produced GROUP BY queue, ident HAVING count(*) > 1
UNION ALL
SELECT queue || ' ' || string_agg(ident, ', ') || ': all of them are task ' || task FROM produced GROUP BY queue, task HAVING count(*) > 1
UNION ALL
SELECT p.queue || ' ' || ident || ': enqueued as task ' || p.task || ', done as task ' || r.task
FROM produced p JOIN results r USING (queue, ident) WHERE r.task <> p.task
"""


def there(queue, ident="payload->>'n'"):
    """A queue whose tasks are not done yet, as a source of fates."""
    return "SELECT '%s', %s, 'there' FROM fairq.\"q_%s\"" % (queue, ident, queue)


class Findings:
    def __init__(self):
        self.lost, self.doubled, self.nowhere, self.stuck, self.broken, self.errors = [], [], [], [], [], {}
        self.counts = {}

    def wrong(self):
        return self.lost + self.doubled + self.nowhere

    def good(self):
        return not (self.wrong() or self.stuck or self.broken or self.errors)

    def lines(self, most=20):
        """What is wrong, to be printed."""
        for title, some in (("lost", self.lost), ("doubled", self.doubled), ("from nowhere", self.nowhere), ("stuck", self.stuck),
                            ("refused without reason, or another's", self.broken)):
            yield from ("%s: %s" % (title, line) for line in some[:most])
            if len(some) > most:
                yield "%s: and %d more" % (title, len(some) - most)
        for error, times in sorted(self.errors.items()):
            yield "unexpected, %d times: %s" % (times, error[:500])

    def as_json(self):
        """For a test to look at, and to show."""
        errors = ["%d times: %s" % (times, error) for error, times in sorted(self.errors.items())]
        some = {"lost": self.lost, "doubled": self.doubled, "nowhere": self.nowhere, "broken": self.broken, "errors": errors}
        return dict(self.counts, wrong={what: [len(lines)] + [str(line) for line in lines[:8]] for what, lines in some.items()})


def compare(conn, sources, found):
    """The tables by themselves, which say what came of what is unknown, too.  A source is
    SQL: queue, ident and how it ended, or 'there'."""
    for queue, name, known, number, how in conn.execute(FATES % "".join(" UNION ALL " + source for source in sources)):
        if not known:
            found.nowhere.append("%s %s: %s, but no enqueue of it committed" % (queue, name, how))
        elif number == 0:
            found.lost.append("%s %s" % (queue, name))
        else:
            found.doubled.append("%s %s: %s" % (queue, name, how))


class Hold:
    """From begin to end a client had the task for certain."""

    def __init__(self, client, begin, pid, session, task):
        self.queue, self.ident, self.receipt, self.key, self.attempt, self.asked, self.end, durable = task
        self.client, self.begin, self.pid, self.session = client, begin, pid, session
        self.durable = durable and not session

    def __str__(self):
        return "%s with %s (%.3f to %.3f)" % (self.client, self.receipt, self.begin, self.end)


class Lease:
    """All holds with one receipt, and what became of it."""

    def __init__(self, hold, in_transaction):
        self.client, self.queue, self.ident, self.receipt = hold.client, hold.queue, hold.ident, hold.receipt
        self.attempt, self.begin, self.asked, self.session = hold.attempt, hold.begin, hold.asked, hold.session
        self.durable = hold.durable
        self.in_transaction = in_transaction
        self.until = None       # when it runs out
        self.unsure = None      # since when its holder was about to end it
        self.ended = None       # when it was known to be over


class Log:
    """What one client wrote."""

    def __init__(self, path):
        self.client = os.path.basename(path)
        self.holds = []
        self.leases = {}        # receipt -> Lease
        self.produced = []      # names of enqueues that are known to be committed
        self.in_doubt = []      # those of which it is not known
        self.acked = []         # (queue, ident, receipt), known to be committed
        self.refused = []       # (sent, answered, queue, ident, receipt, until)
        self.beats = {}         # session -> [(sent, answered, ttl)]
        self.lost = {}          # connections and sessions
        self.actions = []
        self.errors = []
        self.calls = []         # (sent, answered, node, [(name, id)]): what a proxy was told
        self.outcomes = {"c": 0, "r": 0, "u": 0}
        self.running = {}       # receipt -> Hold
        self.begun = {}         # transaction -> (what, names, receipts that were claimed in it)
        for line in journal.read(path):
            getattr(self, "line_" + line[0])(*line[1:])
        self.outcomes["u"] += len(self.begun)
        for hold in self.holds:
            if hold.session in self.beats:
                sent, _, ttl = self.beats[hold.session][-1]
                hold.end = min(sent + ttl, hold.end or sent + ttl)
                self.leases[hold.receipt].until = sent + ttl
            elif hold.end is None:      # it was killed, and had it until then
                hold.end = hold.begin
        for lease in self.leases.values():
            lease.until = math.inf if lease.until is None else lease.until

    def line_I(self, x, _, what, names):
        self.begun[x] = (what, names, [])

    def line_O(self, x, at, outcome, acked):
        self.outcomes[outcome] += 1
        what, names, claimed = self.begun.pop(x)
        if what == "enqueue" and outcome == "u":
            self.in_doubt += names
        if outcome == "c":
            self.acked += [tuple(task) for task in acked]
            if what == "enqueue":
                self.produced += names
            else:
                self.over(names, at)
        self.over(claimed, at)

    def over(self, receipts, at):
        for receipt in receipts:
            if receipt in self.leases and self.leases[receipt].ended is None:
                self.leases[receipt].ended = at

    def line_H(self, at, pid, session, tasks):
        for task in tasks:
            hold = Hold(self.client, at, pid, session, task)
            in_transaction = bool(pid and not session)
            lease = self.leases.setdefault(hold.receipt, Lease(hold, in_transaction))
            lease.until, lease.unsure = hold.end, None
            if in_transaction:
                for _, _, claimed in self.begun.values():
                    claimed.append(hold.receipt)
            before = self.running.get(hold.receipt)
            if before and before.end is not None:
                before.end = min(before.end, at)
            self.running[hold.receipt] = hold
            self.holds.append(hold)

    def line_D(self, at, receipts):
        for receipt in receipts:
            hold = self.running.pop(receipt, None)
            if hold:
                hold.end = at if hold.end is None else min(hold.end, at)
                self.leases[receipt].unsure = at

    def line_B(self, sent, session, ttl, answered):
        self.beats.setdefault(session, []).append((sent, answered, ttl))

    def line_F(self, answered, sent, queue, ident, receipt, until):
        self.refused.append((sent, answered, queue, ident, receipt, until))
        self.over([receipt], answered)

    def line_L(self, at, what):
        self.lost[what] = self.lost.get(what, 0) + 1
        self.over(list(self.leases), at)

    def line_C(self, sent, answered, node, tasks):
        self.calls.append((sent, answered, node, tasks))

    def line_N(self, what):
        self.actions.append(what)

    def line_X(self, _, sqlstate, message):
        self.errors.append("%s: %s" % (sqlstate, message.strip()))


class Ends:
    """When leases may have ended, other than by their holder or with time."""

    def __init__(self, path):
        self.by_reach = {}
        for _, _, begin, end, (what, which) in journal.read(path):
            self.by_reach.setdefault((what, which), []).append((begin, end))
        for spans in self.by_reach.values():
            spans.sort()

    def first(self, reach, begin, end):
        """Of those that meet the time from begin to end the first."""
        spans = self.by_reach.get(reach, [])
        i = bisect.bisect_left(spans, begin, key=lambda span: span[1])
        return spans[i] if i < len(spans) and spans[i][0] <= end else None

    def reaches(self, durable, client, pid):
        yield ("all", 0)
        if not durable:
            yield ("memory", 0)
        if pid:
            yield ("connections", 0)
            yield ("pid", pid)
            yield ("client", client)

    def cut(self, hold):
        for reach in self.reaches(hold.durable, hold.client, hold.pid):
            span = self.first(reach, hold.asked, hold.end)
            if span:
                hold.end = min(hold.end, span[0])


def overlaps(holds, name):
    """Two of different receipts at once, of those with one name."""
    by_name = {}
    for hold in holds:
        if hold.end > hold.begin and name(hold) is not None:
            by_name.setdefault(name(hold), []).append(hold)
    for what, some in by_name.items():
        some.sort(key=lambda hold: hold.begin)
        last = some[0]
        for hold in some[1:]:
            if hold.begin < last.end and hold.receipt != last.receipt:
                yield "%s: %s and %s" % (" ".join(what), last, hold)
            if hold.end > last.end:
                last = hold


def actions(logs):
    """What was done, and how often."""
    return sum((collections.Counter(log.actions) for log in logs), collections.Counter())


def read_logs(directory):
    return [Log(os.path.join(directory, name)) for name in sorted(os.listdir(directory))]


def check(conn, logs, driver, sources=(), names=True):
    """Findings: what clients know for certain is in the tables, and nothing else is.  names: that of a task says which it is."""
    found = Findings()
    compare(conn, sources, found)
    if names:
        found.doubled += [line for line, in conn.execute(NAMES)]
    produced = {n for (n,) in conn.execute("SELECT n FROM produced")}
    results = {(queue, ident, receipt) for queue, ident, receipt in
               conn.execute("SELECT queue, ident, receipt::text FROM results")}
    removed = {(queue, ident) for queue, ident in conn.execute("SELECT queue, ident FROM removed")}
    found.lost += ["the committed transaction that enqueued %s" % n
                   for log in logs for n in log.produced if n not in produced]
    acked = [done for log in logs for done in log.acked]
    found.lost += ["the committed transaction that acknowledged %s %s (%s)" % done for done in acked if done not in results]
    seen = set()
    for queue, ident, receipt in acked:
        if (queue, ident) in seen:
            found.doubled.append("%s %s: acknowledged twice, as clients know" % (queue, ident))
        seen.add((queue, ident))

    # One holder
    ends = Ends(driver)
    holds = [hold for log in logs for hold in log.holds]
    for hold in holds:
        ends.cut(hold)
    found.doubled += overlaps(holds, lambda hold: (hold.queue, hold.ident))
    # (Who has a task that is truncated meanwhile does not keep its key from the next one.)
    found.doubled += overlaps(holds, lambda hold: (hold.queue, hold.key) if hold.key and (hold.queue, hold.ident) not in removed else None)

    # Leases that should have been good
    refusals = 0
    for log in logs:
        for _, answered, queue, ident, receipt, until in log.refused:
            refusals += 1
            lease = log.leases.get(receipt)
            if lease and until is not None and answered < until and (queue, ident) not in removed and not any(
                    ends.first(reach, lease.asked, answered) for reach in ends.reaches(lease.durable, log.client, 0)):
                found.broken.append("%s %s: %s's receipt %s was refused %.3f s before its end" % (
                    queue, ident, log.client, receipt, until - answered))
        for error in log.errors:
            found.errors[error] = found.errors.get(error, 0) + 1

    found.counts = {
        "clients": len(logs),
        "tasks": len({n for log in logs for n in log.produced} | produced),
        "enqueued": len(produced),
        "known to be enqueued": sum(len(log.produced) for log in logs),
        "acknowledged": len(results),
        "known to be acknowledged": len(acked),
        "removed on purpose": len(removed),
        "of a later attempt": sum((lease.attempt or 0) > 1 for log in logs for lease in log.leases.values()),
        "claims held": sum(hold.end > hold.begin for hold in holds),
        "acks refused": refusals,
        "transactions committed": sum(log.outcomes["c"] for log in logs),
        "rolled back": sum(log.outcomes["r"] for log in logs),
        "of unknown outcome": sum(log.outcomes["u"] for log in logs),
        "connections lost": sum(log.lost.get("connection", 0) for log in logs),
    }
    return found
