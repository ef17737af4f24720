"""W11: what a task's life takes from the server: WAL, pages looked at, processor time.

One client, one call after the other: every task is enqueued, then every task is
claimed, then every task is acknowledged. full_page_writes is off meanwhile, so
that the WAL is that of the changes alone, not that of when a checkpoint was.
"""

import time

from clients import PAYLOAD, Session, array, callable_systems
from measure import BenchError
from report import count, table

NAME = "W11"
TITLE = "WAL, pages and processor time of a task's life: enqueue, claim, ack"
PLANS = {
    "quick": {"tasks": {1: 500, 100: 5000}, "slow": 300, "systems": ["pgfairq", "skip", "pgq", "hatchet_idx"]},
    "full": {"tasks": {1: 8000, 100: 40000}, "slow": 1000},
}
GROUPS = 1000
SLOW = 20       # seconds
PHASES = ("enqueue", "claim", "ack", "life")
GOAL_WAL = 410
COUNTERS = ("SELECT pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read FROM pg_stat_database"
            " WHERE datname = current_database()")


class Meter:
    """WAL bytes, pages and processor seconds since it was made; the session's statistics are flushed for it."""

    def __init__(self, cluster, session):
        self.cluster, self.session = cluster, session
        self.start = self._look()

    def _look(self):
        cpu = self.cluster.server_cpu()
        self.session.run("SELECT pg_stat_force_next_flush()")
        self.session.run("SELECT pg_stat_clear_snapshot()")
        row = self.cluster.sql("SELECT pg_stat_clear_snapshot()", COUNTERS)[-1]
        return int(row[0].split(".")[0]), int(row[1]), cpu

    def per(self, tasks):
        now = self._look()
        return [(after - before) / tasks for after, before in zip(now, self.start)]


def life(bench, one, calls, tasks, few, batch):
    """WAL bytes, pages and seconds a task, for each phase."""
    one.empty()
    with Session() as session:
        def enqueue(count):
            for number in range(0, count, batch):
                groups = ["g%d" % ((number + i) * 7919 % GROUPS) for i in range(batch)]
                if batch == 1:
                    session.rows(calls.enqueue, PAYLOAD, groups[0])
                else:
                    calls.put(session, groups)

        def claim(count):
            got, empty = [], 0
            if one.consumer:
                return count    # its claim cannot be told from the ack
            while len(got) < count:
                rows = session.rows(calls.claim(batch))
                # Some look into one of their parts at a time, and it may be an empty one.
                empty = 0 if rows else empty + 1
                if empty > 500:
                    raise BenchError("%d of %d tasks were claimed, then none" % (len(got), count))
                got += [row[0] for row in rows]
            return got

        def ack(handles):
            if one.consumer:
                consumer, left = calls.consumer(session, batch), handles
                while left > 0:
                    got = len(consumer.take())
                    consumer.finish()
                    left -= got
                    if not got:
                        raise BenchError("%d tasks were not found" % left)
                return
            for number in range(0, len(handles), batch):
                if batch == 1 and calls.ack_one:
                    session.rows(calls.ack_one, handles[number])
                else:
                    session.rows(calls.ack, array(handles[number:number + batch]))

        # First without being counted: plans, caches, the relations' first pages. Who is very slow gets less to do.
        begun = time.monotonic()
        enqueue(10 * batch)
        ack(claim(10 * batch))
        if (time.monotonic() - begun) / 10 / batch * tasks > SLOW:
            tasks = few
        phases = {}
        bench.checkpoint()
        meter = Meter(bench.cluster, session)
        enqueue(tasks)
        phases["enqueue"] = meter.per(tasks)
        bench.checkpoint()
        meter = Meter(bench.cluster, session)
        handles = claim(tasks)
        phases["claim"] = meter.per(tasks)
        bench.checkpoint()
        meter = Meter(bench.cluster, session)
        ack(handles)
        phases["ack"] = meter.per(tasks)
        left = one.depth()
        if left:
            raise BenchError("%d tasks are left after they were acknowledged" % left)
    phases["life"] = [sum(figures) for figures in zip(*phases.values())]
    return phases


def run(bench, plan):
    bench.cluster.sql("ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
    try:
        for one, calls in callable_systems(bench, plan):
            for batch, tasks in plan["tasks"].items():
                one.before("claim_many" if batch > 1 else "claim_one", 1)
                try:
                    phases = life(bench, one, calls, tasks, plan["slow"], batch)
                    one.empty()
                except BenchError as error:
                    bench.fail(NAME, one.name, error)
                    break
                finally:
                    one.after("claim_many" if batch > 1 else "claim_one", 1)
                bench.results.data.setdefault(NAME, []).append((one.name, batch, phases))
                for phase, (wal, pages, cpu) in phases.items():
                    bench.results.add_raw(NAME, one.name, clients=1, what=phase, number=batch,
                                          wal_bytes_per_task=round(wal, 1), pages_per_task=round(pages, 2),
                                          server_us_per_task=round(1e6 * cpu, 2))
                bench.progress("%s  %-14s %3d at a time: %s" % (NAME, one.name, batch, ", ".join(
                    "%s %.0f bytes %.1f pages %.0f us" % (phase, phases[phase][0], phases[phase][1], 1e6 * phases[phase][2])
                    for phase in PHASES)))
    finally:
        bench.cluster.sql("ALTER SYSTEM RESET full_page_writes", "SELECT pg_reload_conf()")


def report(results, plan):
    text = ""
    if any(name == "pgq" for name, _, _ in results.data.get(NAME, [])):
        text = "A batch of `pgq` is claimed and acknowledged in one; all of that is in the column of the ack.\n\n"
    for batch in plan["tasks"]:
        rows = [[name] + [count(phases[phase][0]) for phase in PHASES]
                + ["%.1f" % phases[phase][1] for phase in PHASES] + ["%.0f" % (1e6 * phases[phase][2]) for phase in PHASES]
                for name, number, phases in results.data.get(NAME, []) if number == batch]
        if rows:
            text += "%s a call, for each task:\n\n" % ("One task" if batch == 1 else "%d tasks" % batch)
            text += table(["system"] + ["WAL bytes: enqueue", "claim", "ack", "**life**"]
                          + ["pages: enqueue", "claim", "ack", "**life**"]
                          + ["CPU µs: enqueue", "claim", "ack", "**life**"], rows) + "\n"
    return text


def ahead(results):
    """Beside pgfairq: (label, where, kind of work, how many times less)."""
    figures = {(name, batch): phases["life"][0] for name, batch, phases in results.data.get(NAME, [])}
    for name, batch in figures:
        if ("pgfairq", batch) in figures:
            yield (name, "W11 WAL of a task's life, %d a call" % batch, "wal",
                   figures["pgfairq", batch] / max(1, figures[name, batch]))


def goals(results):
    for name, batch, phases in results.data.get(NAME, []):
        if name == "pgfairq":
            wal = phases["life"][0]
            yield NAME, 1, "WAL bytes of a life, %d a call" % batch, "%.0f" % wal, "at most %d" % GOAL_WAL, wal <= GOAL_WAL
            claim = phases["claim"][0]
            yield NAME, 1, "WAL bytes of a claim, %d a call" % batch, "%.1f" % claim, "0", claim < 0.5
