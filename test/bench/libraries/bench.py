"""Measures libraries for workers, from enqueue to handler. Started by libraries.sh, which says what for.

    bench.py --work DIRECTORY --modules DIRECTORY [--quick] [--only SYSTEMS] --out FILE

Writes all that was measured as JSON, of which report.py makes tables.
"""

import argparse
import contextlib
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import psycopg

import servers
import systems

STARTUP = 60        # seconds that workers may take to begin
TRICKLE = 1.2       # seconds within which the processes of a cell have all begun, or the window begins without the last
SHORT = 0.4         # of the time asked for: a window that ends sooner had too little waiting, and is measured again with more
BUDGET = 38 * 60    # seconds: no further round is begun that would end later
SEND_SAMPLES = 100

# (handler's milliseconds, processes, slots of each)
SHAPES = [(0, processes, slots) for processes in (1, 4) for slots in (1, 10, 100)] + [(1, 1, 1), (1, 1, 10), (1, 1, 100), (1, 4, 10)]
QUICK_SHAPES = [(0, 1, 1), (0, 1, 10), (0, 1, 100), (0, 4, 10), (1, 1, 10)]


class Cell:
    """One figure: jobs a second of a system, with so many processes and slots and this handler."""

    def __init__(self, system, processes, concurrency, ms):
        self.system, self.processes, self.concurrency, self.ms = system, processes, concurrency, ms

    def jobs(self, seconds):
        """So many that they last: by what was measured before, or guessed."""
        most = self.system.known.get(self.shape())
        if most is None:
            most = self.system.rate * (1.5 if self.processes > 1 else 1)
            if self.ms:
                most = min(most, 1000 / self.ms * self.processes * self.concurrency)
        return int(most * (seconds + TRICKLE)) + 100

    def shape(self):
        return self.ms, self.processes, self.concurrency


class Bench:
    def __init__(self, work, modules, quick):
        self.work, self.modules, self.quick = work, modules, quick
        self.notes = os.path.join(work, "notes")
        self.socket = os.environ["PGHOST"]
        self.conninfo = f"host={self.socket} user=postgres dbname=postgres"
        self.url = f"postgresql://postgres@/postgres?host={self.socket}"
        self.started = {}
        self.connection = psycopg.connect(self.conninfo, autocommit=True)
        self.begun = time.monotonic()
        self.log = open(os.path.join(work, "libraries.log"), "ab")      # what they say; shown of what fails
        self.seen = 0

    def close(self):
        for server in self.started.values():
            server.stop()

    def sql(self, statement):
        return self.connection.execute(statement)

    def redis(self, fsync):
        return self.server(("redis", fsync), lambda: servers.Redis(self.work, fsync))

    def rabbit(self):
        return self.server("rabbit", lambda: servers.Rabbit(self.work))

    def server(self, key, start):
        if key not in self.started:
            self.started[key] = start()
        return self.started[key]

    def progress(self, text):
        print(f"{int(time.monotonic() - self.begun):5d} s  {text}", file=sys.stderr, flush=True)

    # -- processes ------------------------------------------------------------

    def start(self, system, role, **options):
        return subprocess.Popen(system.command(role, **options), env=dict(os.environ, **system.environment()),
                                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def call(self, system, role, **options):
        process = self.start(system, role, **options)
        try:
            status = process.wait(180)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{system.name}: {role} took more than 180 s") from None
        finally:
            kill(process)
        if status:
            raise RuntimeError(f"{role} ended with {status}: {self.said()}")

    def said(self):
        """The line that says most, of what was written to the log for the figure that is being taken."""
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            log.seek(self.seen)
            lines = [line.strip() for line in log if line.strip()]
        errors = [line for line in lines if "Error" in line or "error:" in line]
        return (errors or lines or ["nothing"])[-1][:300]

    @contextlib.contextmanager
    def workers(self, system, processes, concurrency):
        """Processes that work, and their counts, which begin at none."""
        shutil.rmtree(self.notes, ignore_errors=True)
        os.makedirs(self.notes)
        running = []
        try:
            for _ in range(processes):
                running.append(self.start(system, "work", concurrency=concurrency))
            yield running
        finally:
            for process in running:
                kill(process)

    def counts(self):
        found = {}
        for path in glob.glob(os.path.join(self.notes, "count-*")):
            with open(path, "rb") as file:
                text = file.read(8)
            if len(text) == 8:
                found[path] = struct.unpack("q", text)[0]
        return found

    def count(self):
        return sum(self.counts().values())

    def samples(self):
        path = os.path.join(self.notes, "samples")
        if not os.path.exists(path):
            return []
        with open(path, encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return [(tenant, int(sent) / 1e9, int(waited) / 1e9) for tenant, sent, waited in lines]

    def wait(self, running, condition, patience):
        """True when it holds; false when it does not in that time. Workers do not end by themselves."""
        end = time.monotonic() + patience
        while not condition():
            for process in running:
                if process.poll() is not None:
                    raise RuntimeError(f"a worker has ended with {process.returncode}: {self.said()}")
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    # -- what is measured -----------------------------------------------------

    def throughput(self, cell, seconds):
        """Jobs a second from a backlog, once all processes have begun, for some seconds."""
        jobs = cell.jobs(seconds)
        while True:
            rate, took = self.drain(cell, jobs, seconds)
            if took >= SHORT * seconds or jobs >= 1000000:
                cell.system.known[cell.shape()] = rate * 1.5
                return rate
            jobs *= 3

    def drain(self, cell, jobs, seconds):
        """(jobs a second, seconds), until the time is over or the backlog nearly so."""
        system = cell.system
        system.clear()
        self.call(system, "fill", jobs=jobs, ms=cell.ms, tenant="a")
        with self.workers(system, cell.processes, cell.concurrency) as running:
            if not self.wait(running, self.count, STARTUP):
                raise RuntimeError(f"nothing was done in {STARTUP} s: {self.said()}")
            enough = int(jobs * 0.95)
            everyone = system.counting(cell.processes, cell.concurrency)
            self.wait(running, lambda: sum(n > 0 for n in self.counts().values()) >= everyone or self.count() > enough // 2, TRICKLE)
            first, began = self.count(), time.monotonic()
            self.wait(running, lambda: self.count() >= enough, seconds)
            done, took = self.count() - first, time.monotonic() - began
        return (done / took if took else 0.0), took

    def latency(self, system, processes, concurrency, count):
        """Seconds from the call that enqueues to the handler, one job at a time, for workers that have nothing to do."""
        system.clear()
        with self.workers(system, processes, concurrency) as running:
            time.sleep(0.5)
            self.call(system, "send", count=5, gap=20, tenant="warm")
            if not self.wait(running, lambda: len(self.samples()) >= 5, STARTUP):
                raise RuntimeError("nothing arrived")
            self.call(system, "send", count=count, gap=15, tenant="a")
            self.wait(running, lambda: len(self.samples()) >= count + 5, 30)
            return sorted(waited for tenant, _, waited in self.samples() if tenant == "a")

    def enqueue(self, system, count):
        """Calls a second of a producer that does nothing else."""
        system.clear()
        shutil.rmtree(self.notes, ignore_errors=True)
        os.makedirs(self.notes)
        self.call(system, "enqueue", count=count, tenant="a")
        with open(os.path.join(self.notes, "calls"), encoding="ascii") as file:
            return float(file.read())

    def fairness(self, system, backlog, patience):
        """How long the one job of b waits behind the backlog of a, and how many of a's are done meanwhile."""
        system.clear()
        self.call(system, "fill", jobs=backlog, ms=1, tenant="a")
        with self.workers(system, 1, 10) as running:
            if not self.wait(running, lambda: self.count() >= min(1000, backlog // 10), STARTUP):
                raise RuntimeError(f"nothing was done in {STARTUP} s: {self.said()}")
            history = [(time.monotonic(), self.count())]        # how many were done, when
            sender = self.start(system, "send", count=1, gap=0, tenant="b")
            try:
                arrived = self.wait(running, lambda: history.append((time.monotonic(), self.count())) or self.sample_of("b"), patience)
            finally:
                kill(sender)
            sample = self.sample_of("b")
        if arrived:
            sent, waited = sample
            return {"waited": waited, "behind": done_by(history, sent + waited) - done_by(history, sent)}
        (began, before), (ended, after) = history[0], history[-1]
        rate = (after - before) / (ended - began)
        return {"waited": None, "rate": rate, "computed": (backlog - before) / rate if rate else None}

    def sample_of(self, tenant):
        return next(((sent, waited) for whose, sent, waited in self.samples() if whose == tenant), None)


def done_by(history, moment):
    """How many were done at a moment: between two looks it is in proportion."""
    before = max((look for look in history if look[0] <= moment), default=history[0])
    after = min((look for look in history if look[0] > moment), default=history[-1])
    if after[0] <= before[0]:
        return before[1]
    return round(before[1] + (after[1] - before[1]) * (moment - before[0]) / (after[0] - before[0]))


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Run:
    def __init__(self, bench, only, rounds):
        self.bench, self.rounds = bench, rounds
        self.results = {"quick": bench.quick, "rounds": rounds, "systems": [], "left_out": {}, "throughput": [], "latency": [],
                        "fairness": [], "enqueue": [], "failed": [], "load": os.getloadavg()[0], "when": time.strftime("%Y-%m-%d"),
                        "processors": os.cpu_count(), "server": bench.sql("SHOW server_version").fetchone()[0],
                        "settings": dict(bench.sql("SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit')").fetchall())}
        self.systems = []
        for kind in systems.ALL:
            if not only or kind.name in only:
                self.prepare(kind(bench))

    def prepare(self, system):
        self.bench.progress(f"{system.name}: set up")
        try:
            system.prepare()
        except Exception as error:      # it is left out, whatever the reason
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
            self.results["left_out"][system.name] = reason
            self.bench.progress(f"{system.name} is left out: {reason}")
            return
        self.systems.append(system)
        self.results["systems"].append({"name": system.name, "title": system.title, "library": system.library,
                                        "version": system.version(), "notes": system.notes, "works": system.works})

    def attempt(self, kind, what, measure, **keys):
        """A figure that cannot be had is noted, and the run goes on."""
        self.bench.log.flush()
        self.bench.seen = os.path.getsize(self.bench.log.name)
        try:
            value = measure()
        except Exception as error:
            self.results["failed"].append({"what": what, "why": str(error)[-600:], **keys})
            self.bench.progress(f"{what}: failed: {str(error).strip().splitlines()[-1]}")
            return
        self.results[kind].append({**keys, "value": value})
        shown = f"{value:,.0f} a second" if kind in ("throughput", "enqueue") and value else f"median {value[len(value) // 2] * 1000:.2f} ms" \
            if kind == "latency" and value else str(value)
        self.bench.progress(f"{what}: {shown}")

    def all(self):
        quick, began = self.bench.quick, time.monotonic()
        self.fairness(10000 if quick else 100000)
        self.latency(1, 50 if quick else SEND_SAMPLES)
        self.enqueue(2000)
        for round in range(1, self.rounds + 1):
            now = time.monotonic()
            if round > 1 and now - self.bench.begun + (now - began) / (round - 1) > BUDGET:
                self.bench.progress(f"no time for round {round} of {self.rounds}")
                break
            if round == 1:
                began = now
            self.throughput(round, 1 if quick else 1.5)

    def throughput(self, round, seconds):
        for ms, processes, concurrency in QUICK_SHAPES if self.bench.quick else SHAPES:
            for system in self.working():
                cell = Cell(system, processes, concurrency, ms)
                self.attempt("throughput", f"round {round} of {self.rounds}, handler {ms} ms, {processes} x {concurrency}, {system.name}",
                             lambda: self.bench.throughput(cell, seconds),
                             system=system.name, round=round, ms=ms, processes=processes, concurrency=concurrency)

    def latency(self, round, count):
        for processes, concurrency in ((1, 10),) if self.bench.quick else ((1, 1), (1, 10), (1, 100), (4, 10)):
            for system in self.working():
                self.attempt("latency", f"latency, {processes} x {concurrency}, {system.name}",
                             lambda: self.bench.latency(system, processes, concurrency, count),
                             system=system.name, round=round, processes=processes, concurrency=concurrency)

    def working(self):
        """Those that are measured with workers."""
        return [system for system in self.systems if system.works]

    def enqueue(self, count):
        for system in self.systems:
            if system.enqueues:
                self.attempt("enqueue", f"enqueue, {system.name}", lambda: self.bench.enqueue(system, count), system=system.name)

    def fairness(self, backlog):
        self.results["backlog"] = backlog
        for system in self.working():
            self.attempt("fairness", f"one behind {backlog:,}, {system.name}",
                         lambda: self.bench.fairness(system, backlog, 10 if self.bench.quick else 45), system=system.name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--modules", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(arguments.work, arguments.modules, arguments.quick)
    try:
        run = Run(bench, arguments.only.replace(",", " ").split(), 1 if arguments.quick else 3)
        run.all()
        run.results["servers"] = sorted({server.version() for server in bench.started.values()})
        run.results["seconds"] = time.monotonic() - bench.begun
        with open(arguments.out, "w", encoding="utf-8") as out:
            json.dump(run.results, out)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
