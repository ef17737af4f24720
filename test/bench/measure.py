"""psql, pgbench and the processor time of one throwaway cluster."""

import collections
import glob
import os
import re
import resource
import shlex
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TICK = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    pass


class Cluster:
    def __init__(self, bindir, data, work):
        self.bindir, self.data, self.work = bindir, data, work
        self._version = None
        with open(os.path.join(data, "postmaster.pid")) as pidfile:
            self.postmaster = int(pidfile.readline())

    def psql_command(self):
        return [os.path.join(self.bindir, "psql"), "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1"]

    def sql(self, *statements):
        """Runs each statement by itself; returns the rows of all as lists of text."""
        command = self.psql_command()
        for statement in statements:
            command += ["-c", statement]
        return self._psql(command)

    def sql_file(self, path):
        return self._psql(self.psql_command() + ["-f", path])

    def _psql(self, command):
        try:
            run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise BenchError("psql cannot be run: %s" % error)
        if run.returncode != 0:
            raise BenchError("psql failed: %s" % run.stderr.strip())
        return [line.split("\t") for line in run.stdout.splitlines()]

    def value(self, statement):
        return self.sql(statement)[0][0]

    def number(self, statement):
        return int(self.value(statement))

    def version(self):
        if self._version is None:
            self._version = self.number("SHOW server_version_num")
        return self._version

    def end_sessions(self, application):
        """Of a program that was killed: they would go on until they next read from it."""
        self.sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_catalog.pg_stat_activity"
                 " WHERE application_name = '%s'" % application)

    def server_cpu(self):
        """Processor seconds of the server: what ended and what runs."""
        total = 0
        for stat in self._stats():
            if int(stat[0]) == self.postmaster:
                total += sum(int(field) for field in stat[13:17])
            elif int(stat[3]) == self.postmaster:
                total += int(stat[13]) + int(stat[14])
        return total / TICK

    def session_cpu(self, application=None):
        """Processor seconds of the clients' sessions that run, or of those of a program; not those of autovacuum."""
        total = 0
        pids = None if application is None else {row[0] for row in self.sql(
            "SELECT pid FROM pg_catalog.pg_stat_activity WHERE application_name = '%s'" % application)}
        for stat in self._stats():
            if int(stat[3]) == self.postmaster and (stat[0] in pids if pids is not None else
                                                    "[local]" in self._title(stat[0])):
                total += int(stat[13]) + int(stat[14])
        return total / TICK

    def flushes(self):
        """How often WAL was flushed, and the milliseconds that took, with track_wal_io_timing on."""
        row = self.sql("SELECT sum(fsyncs), sum(fsync_time) FROM pg_catalog.pg_stat_io WHERE object = 'wal'"
                       if self.version() >= 180000 else "SELECT wal_sync, wal_sync_time FROM pg_catalog.pg_stat_wal")[0]
        return int(row[0]), float(row[1])

    @staticmethod
    def _title(pid):
        try:
            with open("/proc/%s/cmdline" % pid) as title:
                return title.read()
        except OSError:
            return ""

    @staticmethod
    def _stats():
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as stat:
                    text = stat.read()
            except OSError:
                continue  # it has ended since
            pid, rest = text.split(" (", 1)
            yield [pid, ""] + rest.rsplit(")", 1)[1].split()


def machine_cpu():
    """Busy processor seconds of the whole machine since it started."""
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / TICK


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# What pgbench tells of its progress; its sessions' processor seconds meanwhile; milliseconds of a flush of WAL, if asked for.
Interval = collections.namedtuple("Interval", "end tps session_cpu flush_ms", defaults=[None])


def flush_ms(before, after):
    """What a flush took, between two looks at Cluster.flushes()."""
    return (after[1] - before[1]) / max(1, after[0] - before[0])


class HeldSnapshot:
    """Another session, idle in a REPEATABLE READ transaction."""

    def __init__(self, cluster):
        self.cluster = cluster

    def __enter__(self):
        self.session = subprocess.Popen(self.cluster.psql_command(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.session.stdin.write("SET application_name = 'held snapshot';\n"
                                 "BEGIN ISOLATION LEVEL REPEATABLE READ;\n"
                                 "SELECT count(*) FROM pg_catalog.pg_class;\n")
        self.session.stdin.flush()
        self.session.stdout.readline()
        self.check()
        return self

    def check(self):
        if self.cluster.number("SELECT count(*) FROM pg_catalog.pg_stat_activity"
                               " WHERE application_name = 'held snapshot' AND backend_xmin IS NOT NULL") != 1:
            raise BenchError("the other session does not hold its snapshot")

    def __exit__(self, *_):
        self.session.stdin.close()
        self.session.wait()
        self.session.stdout.close()


def checkpoints_done(cluster):
    """How many there were since the statistics began; PostgreSQL 17 has them in a view of their own."""
    return cluster.number(
        "SELECT coalesce((v->>'checkpoints_timed')::bigint + (v->>'checkpoints_req')::bigint,"
        " (v->>'num_timed')::bigint + (v->>'num_requested')::bigint) FROM (SELECT to_jsonb(s) AS v FROM pg_catalog.%s s) x"
        % ("pg_stat_checkpointer" if cluster.version() >= 170000 else "pg_stat_bgwriter"))


def pgbench(cluster, script, clients, seconds=None, transactions=None, interval=1, warmup=0,
            variables=None, environment=None, patience=None, flushes=False):
    """One run of pgbench. script: a path, or several, each with '@' and its weight.

    seconds: by time; the rate is the mean of the progress intervals after
    `warmup` seconds, in which sessions fill their caches.
    transactions: a fixed number over all clients; the rate is taken between
    the completion of the first fifth and of 95 %, from the log of every
    transaction: neither start-up nor the last stragglers count.
    patience: seconds after which it is given up; what was not finished then
    is rolled back.
    """
    command = [os.path.join(cluster.bindir, "pgbench"), "-n", "-M", "prepared",
               "-c", str(clients), "-j", str(min(clients, os.cpu_count() or 1, 8))]
    for path in [script] if isinstance(script, str) else script:
        command += ["-f", path]
    for name, value in (variables or {}).items():
        command += ["-D", "%s=%s" % (name, value)]
    log = None if seconds else log_prefix(cluster)
    if seconds:
        command += ["-T", str(seconds + warmup), "-P", str(interval)]
    else:
        command += ["-t", str(transactions_of_each(transactions, clients)), "-l", "--log-prefix", log]
    intervals, cpu = [], 0
    flushed = cluster.flushes() if flushes else None

    def progress(line):
        nonlocal cpu, flushed
        found = re.match(r"progress: ([\d.]+) s, ([\d.]+) tps", line)
        if found:
            cpu_then, cpu = cpu, cluster.session_cpu()
            then, flushed = flushed, cluster.flushes() if flushes else None
            intervals.append(Interval(float(found.group(1)), float(found.group(2)), cpu - cpu_then,
                                      flush_ms(then, flushed) if flushes else None))
        return found

    if patience is None:
        patience = patience_for((seconds or 0) + warmup, transactions)
    run = observed(cluster, command, clients, log, patience, environment, progress)
    run["intervals"] = intervals
    # A machine may be too busy to report in time; and of few transactions it is the rate of all, see observed().
    counted = [each.tps for each in intervals if each.end > warmup + 0.5 * interval]
    if seconds and counted and run["transactions"] >= 20 * clients:
        run["rate"] = sum(counted) / len(counted)
    return run


def binary(cluster, program, statements, clients, transactions, patience=None):
    """As pgbench() with a fixed number of transactions, by the program of binary.c: claims and acks in the binary format.

    statements: the claim and the ack, see binary.c.
    """
    log = log_prefix(cluster)
    command = [program, str(clients), str(transactions_of_each(transactions, clients)), log + ".0"] + list(statements)
    run = observed(cluster, command, clients, log, patience or patience_for(0, transactions))
    run["intervals"] = []
    return run


def build_client(pg_config, work):
    """The path of the program of binary.c, which is built into a directory, with the libpq and the compiler of a server."""
    program = os.path.join(work, "binary")
    try:
        found = {}
        for what in ("cc", "cflags", "includedir", "libdir"):
            run = subprocess.run([pg_config, "--" + what], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if run.returncode != 0:
                raise BenchError("%s --%s failed: %s" % (pg_config, what, run.stderr.strip()))
            found[what] = run.stdout.strip()
        # The warnings are those of the Makefile.
        command = shlex.split(found["cc"]) + shlex.split(found["cflags"]) + [
            "-Wall", "-Wextra", "-Wno-unused-parameter", "-I" + found["includedir"], "-o", program,
            os.path.join(HERE, "binary.c"), "-L" + found["libdir"], "-Wl,-rpath," + found["libdir"], "-lpq", "-pthread"]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, LC_ALL="C"))
    except OSError as error:
        raise BenchError("binary.c cannot be built: %s" % error)
    if run.returncode != 0:
        raise BenchError("binary.c cannot be built: %s" % run.stdout.strip()[:300])
    return program


def transactions_of_each(transactions, clients):
    return max(1, transactions // clients)


def patience_for(seconds, transactions):
    return 60 + 3 * seconds + (240 if transactions else 0)


def log_prefix(cluster):
    """Of pgbench's logs of every transaction, whose names go on with a dot."""
    return os.path.join(cluster.work, "pgbench_log")


def observed(cluster, command, clients, log, patience, environment=None, progress=None):
    """Runs pgbench, or what reports as it does, and sees what the server and the machine do meanwhile.

    log: the prefix of its logs of every transaction, if it writes them: the
    rate is taken from these. Otherwise it is that of the whole run.
    progress: is told each line of its messages, and says if that is all that
    is to be done with it; otherwise it is part of a complaint.
    """
    program = os.path.basename(command[0])
    wal = cluster.value("SELECT pg_catalog.pg_current_wal_insert_lsn()")
    checkpoints = checkpoints_done(cluster)
    server, children, machine, start = cluster.server_cpu(), children_cpu(), machine_cpu(), time.monotonic()
    messages = []
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, **(environment or {}))) as run:
            late = threading.Timer(patience, run.kill)
            late.start()
            try:
                for line in run.stderr:
                    if not (progress and progress(line)):
                        messages.append(line.rstrip())
                output = run.stdout.read()
                run.wait()
            finally:
                late.cancel()
                if run.poll() is None:
                    run.kill()
        taken, machine, children = time.monotonic() - start, machine_cpu() - machine, children_cpu() - children
        if run.returncode != 0:
            cluster.end_sessions(program)
            if run.returncode < 0:
                raise BenchError("%s was given up after %d s" % (program, taken))
            raise BenchError("%s failed: %s" % (program, "; ".join(messages[:3])))
        wal = cluster.number("SELECT pg_catalog.pg_current_wal_insert_lsn() - '%s'::pg_lsn" % wal)
        checkpointed = checkpoints_done(cluster) - checkpoints
        server = cluster.server_cpu() - server

        processed = int(re.search(r"actually processed: (\d+)", output).group(1))
        # So slow that its ends say little: all of it, after the connections were made.
        rate = rate_between(finished_in_logs(log)) if log and processed >= 20 * clients \
            else float(re.search(r"tps = ([\d.]+)", output).group(1))
    finally:
        for path in glob.glob(log + ".*") if log else []:
            os.unlink(path)
    return {
        "rate": rate,
        "taken": taken,
        "transactions": processed,
        "latency_ms": float(re.search(r"latency average = ([\d.]+)", output).group(1)),
        "wal": wal,
        "server_cpu": server,
        "foreign_cpu": max(0.0, (machine - server - children) / (taken * os.cpu_count())),
        "checkpoints": checkpointed,
    }


def finished_in_logs(prefix):
    """When each transaction was finished, in order; of one that failed pgbench says so in place of the time it took."""
    finished = []
    for path in glob.glob(prefix + ".*"):
        with open(path) as log:
            for line in log:
                fields = line.split()
                if not fields[2].isdigit():
                    continue
                finished.append(int(fields[4]) + int(fields[5]) / 1e6)
    return sorted(finished)


def rate_between(finished):
    """Between the first fifth of those times and 95 %."""
    first, last = len(finished) // 5, len(finished) * 95 // 100 - 1
    if last <= first or finished[last] <= finished[first]:
        raise BenchError("too few transactions for a rate")
    return (last - first) / (finished[last] - finished[first])
