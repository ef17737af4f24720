"""W10: from a producer's commit to the row in the hands of a waiting claimer.

A producer enqueues one task every few milliseconds, in a transaction: its COMMIT
is sent at one moment and answered at another. Claimers wait for it in one of
these ways, and note when they have the row:

  wait      claim(wait => ...)
  listen    the producer's transaction has a NOTIFY; claim when it comes
  notify    the same with alter_queue(notify => true), without the producer's NOTIFY
  poll      claim, and if there is nothing sleep for 100 ms
"""

import random
import select
import time

from clients import Crowd, Session, percentile
from measure import BenchError
from report import table

NAME = "W10"
TITLE = "from a producer's COMMIT to the row at the waiting claimer"
PLANS = {
    "quick": {"tasks": {"wait": 300, "listen": 200, "poll": 30}, "claimers": [1], "pause": 0.005},
    "full": {"tasks": {"wait": 2000, "listen": 1000, "notify": 1000, "poll": 200}, "claimers": [1, 16], "pause": 0.005},
}
WORDS = {"wait": "claim(wait => …)", "listen": "NOTIFY by the producer, LISTEN + claim",
         "notify": "notify => true, LISTEN + claim", "poll": "claim every 100 ms"}
CLAIM = "SELECT payload->>'n', receipt FROM fairq.claim('%s', 1)"
WAIT = "SELECT payload->>'n', receipt FROM fairq.claim('%s', 1, wait => '1 s')"
ACK = "SELECT fairq.ack($1)"


def waiting(number, barrier, stop, way, queue):
    got = []
    claim = (WAIT if way == "wait" else CLAIM) % queue
    with Session() as session:
        session.prepare(claim)
        session.prepare(ACK)
        if way in ("listen", "notify"):
            session.run('LISTEN "%s"' % ("fairq_" + queue if way == "notify" else "w10"))
        barrier.wait()
        while not stop.is_set():
            rows = session.rows(claim)
            now = time.monotonic()
            for n, receipt in rows:
                got.append((int(n), now))
                session.rows(ACK, receipt)
            if rows or way == "wait":
                continue
            if way == "poll":
                time.sleep(0.1)
                continue
            while True:
                # What has come with the answers is with libpq, not in the socket.
                session.conn.consume_input()
                heard = False
                while session.conn.notifies():
                    heard = True
                if heard or stop.is_set():
                    break
                select.select([session.conn.socket], [], [], 0.2)
    return got


def produce(queue, way, count, pause):
    """Returns for each task when its COMMIT was sent and when it was answered."""
    times = []
    enqueue = "SELECT fairq.enqueue('%s', jsonb_build_object('n', $1::int))" % queue
    source = random.Random(1)
    with Session() as session:
        for n in range(count):
            time.sleep(pause * (0.5 + source.random()))
            session.run("BEGIN")
            session.rows(enqueue, n)
            if way == "listen":
                session.run("NOTIFY w10")
            sent = time.monotonic()
            session.run("COMMIT")
            times.append((sent, time.monotonic()))
    return times


def measure(queue, way, claimers, count, pause):
    """Milliseconds from the COMMIT's being sent, and from its answer, to the row; one pair a task."""
    with Crowd(waiting, claimers, way, queue) as crowd:
        crowd.begin()
        time.sleep(0.3)
        times = produce(queue, way, count, pause)
        time.sleep(0.5)
        got = dict(pair for answer in crowd.end() for pair in answer)
    return [(1000 * (got[n] - sent), 1000 * (got[n] - answered))
            for n, (sent, answered) in enumerate(times) if n in got], count - len(got)


def run(bench, plan):
    if not bench.system("pgfairq"):
        return
    queue = "w10"
    for way, tasks in plan["tasks"].items():
        for claimers in plan["claimers"]:
            bench.cluster.sql("SELECT fairq.create_queue('%s', notify => %s)" % (queue, "true" if way == "notify" else "false"))
            try:
                pairs, lost = measure(queue, way, claimers, tasks, plan["pause"])
                if lost:
                    raise BenchError("%d of %d tasks did not arrive" % (lost, tasks))
            except BenchError as error:
                bench.fail(NAME, "pgfairq_" + way, error)
                continue
            finally:
                bench.cluster.sql("SELECT fairq.drop_queue('%s')" % queue)
            sent, answered = zip(*pairs)
            row = [percentile(values, share) for values in (sent, answered) for share in (0.5, 0.99)]
            bench.results.data.setdefault(NAME, []).append((way, claimers, len(pairs), row))
            bench.results.add_raw(NAME, "pgfairq", clients=claimers, what=WORDS[way], tasks=len(pairs),
                                  median_ms=round(row[0], 3), p99_ms=round(row[1], 3),
                                  median_after_answer_ms=round(row[2], 3), p99_after_answer_ms=round(row[3], 3))
            bench.progress("%s  %-8s %2d claimers  median %7.2f ms, p99 %7.2f ms; after the COMMIT's answer %7.2f, %7.2f"
                           % ((NAME, way, claimers) + tuple(row)))


def report(results, plan):
    rows = [[WORDS[way], claimers, number] + ["%.2f" % value for value in row]
            for way, claimers, number, row in results.data.get(NAME, [])]
    return table(["how claimers wait", "claimers", "tasks", "COMMIT sent to row, median ms", "p99 ms",
                  "COMMIT answered to row, median ms", "p99 ms"], rows) if rows else ""


def goals(results):
    for way, claimers, _, row in results.data.get(NAME, []):
        if way == "wait":
            yield NAME, claimers, "COMMIT sent to row, median", "%.2f ms" % row[0], "below 1 ms", row[0] < 1
            yield NAME, claimers, "COMMIT sent to row, p99", "%.2f ms" % row[1], "below 5 ms", row[1] < 5
