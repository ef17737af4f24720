"""The proof, from the journals and the tables; what the engine says of itself is not asked.

lost        committed by a producer, and neither done, nor removed on purpose, nor there;
            or done for certain, and the transaction that did it is not in the database
doubled     ended twice; or seen without having been enqueued; or in two hands for
            certain at the same time (so also: two tasks of one unique key)
broken      ack was refused although nothing can have ended the lease
"""

import bisect
import os

import journal
from queues import TICKS, judge


class Hold:
    """From begin to end somebody had the task for certain."""

    def __init__(self, line, client, task):
        _, self.begin, self.asked, self.end, flags, self.pid, self.session, _ = line
        self.queue, self.ident, self.receipt, self.key = task
        self.client = client
        self.durable = "d" in flags and not self.session

    def __str__(self):
        return "%s with %s (%.3f to %.3f)" % (self.client, self.receipt, self.begin, self.end)


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


class Log:
    """What one client wrote."""

    def __init__(self, path):
        self.client = os.path.basename(path)
        self.holds = []
        self.produced = []      # names of enqueues that are known to be committed
        self.acked = []         # (queue, ident, receipt), known to be committed
        self.refused = []       # (sent, answered, queue, ident, receipt, until, since)
        self.errors = []
        self.outcomes = {"c": 0, "r": 0, "u": 0}
        names, running, beats, since = {}, {}, {}, {}
        for line in journal.read(path):
            what = line[0]
            if what == "I":
                names[line[1]] = line[4] if line[3] == "enqueue" else []
            elif what == "O":
                _, x, _, outcome, acked = line
                self.outcomes[outcome] += 1
                enqueued = names.pop(x)
                if outcome == "c":
                    self.acked += [tuple(a) for a in acked]
                    self.produced += enqueued
            elif what == "H":
                for task in line[7]:
                    hold = Hold(line, self.client, task)
                    since.setdefault(hold.receipt, hold.asked)
                    running[hold.receipt] = hold
                    self.holds.append(hold)
            elif what == "D":
                for receipt in line[2]:
                    hold = running.pop(receipt, None)
                    if hold:
                        hold.end = line[1] if hold.end is None else min(hold.end, line[1])
            elif what == "B":
                beats[line[2]] = line[1] + line[3]
            elif what == "F":
                self.refused.append((line[2], line[1]) + tuple(line[3:]) + (since[line[5]],))
            elif what == "X":
                self.errors.append("%s: %s" % (line[2], line[3].strip()))
        self.outcomes["u"] += len(names)
        for hold in self.holds:
            if hold.session:
                hold.end = min(beats[hold.session], hold.end or beats[hold.session])


class Findings:
    def __init__(self):
        self.lost, self.doubled, self.broken, self.errors = [], [], [], {}
        self.counts = {}


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


def check(conn, journals, driver):
    found = Findings()
    logs = [Log(os.path.join(journals, name)) for name in sorted(os.listdir(journals))]
    ends = Ends(driver)

    # The tables by themselves, which say what came of what is unknown, too
    lost, doubled, nowhere = judge(conn)
    found.lost += lost
    found.doubled += doubled + nowhere

    # What clients know for certain is in the tables
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
    holds = [hold for log in logs for hold in log.holds]
    for hold in holds:
        ends.cut(hold)
    found.doubled += overlaps(holds, lambda hold: (hold.queue, hold.ident))
    # (Who has a task that is truncated meanwhile does not keep its key from the next one.)
    found.doubled += overlaps(holds, lambda hold: (hold.queue, hold.key) if hold.key and (hold.queue, hold.ident) not in removed else None)

    # Leases that should have been good
    durable = {hold.receipt: hold.durable for hold in holds}
    refusals = 0
    for log in logs:
        for sent, answered, queue, ident, receipt, until, since in log.refused:
            refusals += 1
            if answered < until and (queue, ident) not in removed and not any(
                    ends.first(reach, since, answered) for reach in ends.reaches(durable[receipt], log.client, 0)):
                found.broken.append("%s %s: %s's receipt %s was refused %.3f s before its end" % (
                    queue, ident, log.client, receipt, until - answered))
        for error in log.errors:
            found.errors[error] = found.errors.get(error, 0) + 1

    # Results are those of their tasks
    found.broken += ["the result of %s is %s" % (n, result) for n, result in conn.execute(
        "SELECT payload->>'n', result FROM fairq.done_expiring WHERE outcome = 'acked' AND result->>'of' IS DISTINCT FROM payload->>'n'"
        " AND result IS NOT NULL")]
    ticks = {schedule: (number, gaps) for schedule, _, number, gaps in conn.execute(TICKS)}
    found.counts = {
        "clients": len(logs),
        "tasks": len({n for log in logs for n in log.produced} | produced),
        "enqueued": len(produced),
        "acknowledged": len(results),
        "removed on purpose": len(removed),
        "claims held": len(holds),
        "acks refused": refusals,
        "expired": conn.execute("SELECT count(*) FROM fairq.done_expiring WHERE outcome = 'expired'").fetchone()[0],
        "results": conn.execute("SELECT count(result) FROM fairq.done_expiring").fetchone()[0],
        "calls with a key that is remembered for ever": conn.execute("SELECT count(*) FROM once").fetchone()[0],
        "run after all that they wait for": conn.execute(
            "SELECT count(DISTINCT n) FROM callbacks JOIN results ON queue = 'after' AND ident = n").fetchone()[0],
        "ticks of a schedule": ticks.get("all", (0, 0))[0],
        "seconds without a tick": ticks.get("all", (0, 0))[1],
        "transactions committed": sum(log.outcomes["c"] for log in logs),
        "rolled back": sum(log.outcomes["r"] for log in logs),
        "of unknown outcome": sum(log.outcomes["u"] for log in logs),
    }
    return found
