"""W7: what a claim of 100 costs as a queue grows, in five directions.

One client; only the claim is timed, from the message to the answer. Its tasks
are acknowledged and as many enqueued again outside of that, so that the queue
stays as it is. The queues of an axis take turns.
"""

import time

from clients import PAYLOAD, Session, array, callable_systems, median, percentile
from measure import BenchError, HeldSnapshot
from report import count, table

NAME = "W7"
TITLE = "a claim of 100, one client, as the queue grows"
# base: the backlog where another thing grows. dead_seconds: how long a peer may take to leave dead rows behind.
PLANS = {
    "quick": {"rounds": 4, "repeats": 10, "base": 20000,
              "axes": {"backlog": [10000, 100000], "groups": [10, 1000, 20000], "in flight": [0, 100000], "dead": [0, 100000]},
              "systems": ["skip"], "peer_backlog": [10000, 100000], "peer_repeats": 10, "dead_seconds": 3},
    "full": {"rounds": 10, "repeats": 10, "base": 100000,
             "axes": {"backlog": [10000, 100000, 1000000, 5000000], "groups": [10, 1000, 100000, 1000000],
                      "in flight": [0, 10000, 100000, 1000000], "dead": [0, 10000, 100000, 1000000]},
             "peer_backlog": [10000, 100000, 1000000], "peer_repeats": 20, "dead_seconds": 8},
}
MOST = 1.2
WORDS = {"backlog": "tasks waiting, in 1000 groups", "groups": "groups, with at least one task each",
         "in flight": "tasks in flight", "dead": "finished rows that cannot be vacuumed, a snapshot being held"}
TASKS = 100
GROUPS = 1000
CLAIM = "SELECT array_agg(receipt) FROM fairq.claim('%s', 100)"
ENQUEUE = "SELECT cardinality(fairq.enqueue_many('%s', $1::jsonb[], $2::text[]))"
ACK = "SELECT count(*) FROM fairq.ack_many($1::uuid[])"


class Subject:
    """A queue of pgfairq at one point of an axis."""

    def __init__(self, bench, axis, value):
        self.bench, self.axis, self.value = bench, axis, value
        self.queue = "w7 %s %d" % (axis, value)
        self.number, self.times, self.rounds = 0, [], []

    def create(self, base):
        one = self.bench.system("pgfairq")
        one.create_queue(self.queue)
        backlog = self.value if self.axis == "backlog" else base
        self.groups = GROUPS
        if self.axis == "groups":
            self.groups = self.value
            backlog = max(base, self.value)
        one.fill_queue(self.queue, backlog, self.groups)

    def grow(self, session):
        """Tasks in flight, or rows that are dead, beside the backlog."""
        left = self.value if self.axis in ("in flight", "dead") else 0
        while left > 0:
            n = min(10000, left)
            got = session.value("SELECT count(*) FROM fairq.claim('%s', %d, lease => '1 h')" % (self.queue, n)
                                if self.axis == "in flight" else
                                "SELECT count(*) FROM fairq.pop('%s', %d)" % (self.queue, n))
            if int(got) != n:
                raise BenchError("W7 %s: a claim of %d got %s" % (self.queue, n, got))
            self.bench.system("pgfairq").fill_queue(self.queue, n, self.groups)
            left -= n

    def vacuum(self):
        self.bench.cluster.sql('VACUUM ANALYZE fairq."q_%s"' % self.queue)

    def measure(self, session, repeats):
        for _ in range(repeats + 2):
            begun = time.perf_counter()
            result = session.result(CLAIM % self.queue)
            taken = time.perf_counter() - begun
            receipts = result.get_value(0, 0)
            if receipts is None or receipts.count(b",") != TASKS - 1:
                raise BenchError("W7 %s: a claim of 100 got fewer" % self.queue)
            session.rows(ACK, receipts.decode())
            groups = ["g%d" % ((self.number + i) * 7919 % self.groups) for i in range(TASKS)]
            self.number += TASKS
            session.rows(ENQUEUE % self.queue, array([PAYLOAD] * TASKS), array(groups))
            self.times.append(taken * 1e6)
        # The first ones load caches.
        del self.times[-repeats - 2:-repeats]
        self.rounds.append(median(self.times[-repeats:]))

    def drop(self):
        self.bench.cluster.sql("SELECT fairq.drop_queue('%s')" % self.queue)


def axis(bench, name, values, plan):
    """(value, median, 95th percentile, number of claims, ratio to the first value) for each value."""
    subjects = [Subject(bench, name, value) for value in values]
    try:
        return points_of(bench, name, subjects, plan)
    finally:
        for subject in subjects:
            subject.drop()


def points_of(bench, name, subjects, plan):
    with Session() as session:
        for subject in subjects:
            bench.progress("W7  pgfairq: fill '%s'" % subject.queue)
            subject.create(plan["base"])
            if name != "dead":
                subject.grow(session)
            subject.vacuum()
        bench.checkpoint()

        def rounds():
            for _ in range(plan["rounds"]):
                for subject in subjects:
                    subject.measure(session, plan["repeats"])
        if name == "dead":
            with HeldSnapshot(bench.cluster) as snapshot:
                for subject in subjects:
                    subject.grow(session)
                rounds()
                snapshot.check()
        else:
            rounds()
    # The machine drifts; within a round it does less.
    return [(subject.value, median(subject.times), percentile(subject.times, 0.95), len(subject.times),
             median([ours / first for ours, first in zip(subject.rounds, subjects[0].rounds)]))
            for subject in subjects]


def peer_claims(calls, session, repeats, patience=20):
    """Microseconds of claims of 100, each acknowledged and enqueued again."""
    times, until = [], time.monotonic() + patience
    consumer = calls.consumer(session, TASKS)
    groups = ["g%d" % (i * 7919 % GROUPS) for i in range(TASKS)]
    while len(times) < repeats + 2 and (len(times) < 5 or time.monotonic() < until):
        begun = time.perf_counter()
        got = len(consumer.take())
        times.append((time.perf_counter() - begun) * 1e6)
        # Some have buckets that run empty, and then less is asked of them.
        if not got:
            raise BenchError("a claim of %d found nothing" % TASKS)
        consumer.finish()
        calls.put(session, groups[:got])
    return times[2:]


def peer(bench, one, calls, plan):
    """The backlog's axis, and rows that are dead, as many as come about in some seconds."""
    axes = {"backlog": [], "dead": []}
    one.before("claim_many", 1)
    try:
        for backlog in plan["peer_backlog"]:
            one.empty()
            one.fill(backlog, GROUPS)
            one.vacuum()
            bench.checkpoint()
            with Session() as session:
                times = peer_claims(calls, session, plan["peer_repeats"])
            axes["backlog"].append((backlog, median(times), percentile(times, 0.95), len(times)))
        one.empty()
        one.fill(plan["peer_backlog"][0], GROUPS)
        one.vacuum()
        with HeldSnapshot(bench.cluster) as snapshot, Session() as session:
            finished, until = 0, 0
            consumer = calls.consumer(session, TASKS)
            for seconds in (0, plan["dead_seconds"]):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    got = len(consumer.take())
                    consumer.finish()
                    finished += got
                    calls.put(session, ["g%d" % (i * 7919 % GROUPS) for i in range(got)])
                times = peer_claims(calls, session, plan["peer_repeats"])
                axes["dead"].append((finished, median(times), percentile(times, 0.95), len(times)))
                finished += len(times) * TASKS
            snapshot.check()
    finally:
        one.after("claim_many", 1)
        one.empty()
    return {name: [point + (point[1] / points[0][1],) for point in points] for name, points in axes.items()}


def note(bench, name, axis_name, points):
    bench.results.data.setdefault(NAME, []).append((name, axis_name, points))
    for value, middle, high, number, ratio in points:
        bench.results.add_raw("W7 " + axis_name, name, clients=1, number=value, tasks=TASKS * number,
                              latency_ms=round(middle / 1000, 4), p95_ms=round(high / 1000, 4), ratio=round(ratio, 3))
    bench.progress("%s  %-14s %-9s %s" % (NAME, name, axis_name, "  ".join(
        "%d: %.0f us" % (value, middle) for value, middle, _, _, _ in points)))


def run(bench, plan):
    if bench.system("pgfairq"):
        for name, values in plan["axes"].items():
            try:
                note(bench, "pgfairq", name, axis(bench, name, values, plan))
            except BenchError as error:
                bench.fail(NAME, "pgfairq", error)
                break
    for one, calls in callable_systems(bench, plan):
        if one.name == "pgfairq":
            continue
        try:
            for name, points in peer(bench, one, calls, plan).items():
                note(bench, one.name, name, points)
        except BenchError as error:
            bench.fail(NAME, one.name, error)


def report(results, plan):
    text = ""
    for name in plan["axes"]:
        rows = []
        for system, axis_name, points in results.data.get(NAME, []):
            if axis_name == name:
                for value, middle, high, _, ratio in points:
                    rows.append([system, count(value), count(middle), count(high), "%.2f" % ratio])
        if rows:
            text += "By the number of %s:\n\n" % WORDS[name]
            text += table(["system", "number", "median µs", "p95 µs", "/ the first"], rows) + "\n"
    return text


def goals(results):
    for system, name, points in results.data.get(NAME, []):
        if system == "pgfairq":
            ratios = [ratio for _, _, _, _, ratio in points]
            ratio = max(ratios) / min(ratios)
            yield (NAME, 1, "claim of 100 by %s, dearest / cheapest" % WORDS[name].split(",")[0], "%.2f" % ratio,
                   "at most %.2f" % MOST, ratio <= MOST)
