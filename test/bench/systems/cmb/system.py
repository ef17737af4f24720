"""Coffee Meets Bagel's priority queue in Redis ("A Brief History of Priority Queues at CMB", 2017).

A sorted set, a lock with an expiry for each item in progress, and a Lua script
for each operation. The first part of the article was at hand; the scripts here
are written from that.

Redis is this machine's, on a socket of its own, without snapshots, and with an
append-only file that is synced before an answer goes out (appendfsync always),
which is what a commit is to the others. load.c takes the place of pgbench.
"""

import os
import shutil
import signal
import socket
import subprocess
import time

import measure
from measure import BenchError
from system import System

STEPS = ("enqueue", "enqueue_many", "claim_one", "claim_many", "cycle")


class Peer(System):
    title = "Coffee Meets Bagel's priority queue in Redis: a sorted set, a lock for each item in progress, Lua scripts"
    ahead = dict.fromkeys(("enqueue", "claim", "mix"), "everything is in memory, and what one thread logs for all clients is"
                          " synced at once; no rows, no indexes, no snapshots")
    postgres = False
    notes = ("all in memory, in one thread; no transaction with the database's; no fairness. appendfsync always, to be"
             " compared with commits. Driven by load.c instead of pgbench; WAL bytes: what its append-only file grew by")
    server = None

    def missing(self):
        # Debian has the server's program in redis-tools, too, under the name of one of its
        # tools; what it is called decides what it does. redis-server would start a daemon.
        self.program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        if not self.program:
            return "there is no redis-server (Debian: redis-tools)"
        self.home = os.path.join(self.cluster.work, "redis")
        self.load = os.path.join(self.home, "load")
        os.makedirs(self.home, exist_ok=True)
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            return "there is no C compiler for its load generator"
        run = subprocess.run([compiler, "-O2", "-Wall", "-o", self.load, os.path.join(self.directory, "load.c"), "-lpthread"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return "load.c cannot be compiled: %s" % run.stdout[-300:] if run.returncode else None

    def setup(self):
        # The path of a socket has room for a hundred bytes only; it is relative to where the server is.
        self.socket = os.path.join(self.home, "s")
        if len(self.socket) > 100:
            raise BenchError("the path %s is too long" % self.socket)
        options = {"port": "0", "unixsocket": self.socket, "dir": self.home, "save": "", "appendonly": "yes",
                   "appendfsync": "always", "daemonize": "no", "logfile": os.path.join(self.home, "log")}
        command = ["redis-server"]
        for name, value in options.items():
            command += ["--" + name, value]
        self.server = subprocess.Popen(command, executable=self.program, cwd=self.home, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                self.ask("PING")
                return
            except OSError:
                if self.server.poll() is not None or time.monotonic() > deadline:
                    raise BenchError("redis-server does not start")
                time.sleep(0.05)

    def close(self):
        if self.server and self.server.poll() is None:
            self.server.terminate()
            try:
                self.server.wait(10)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()

    def version(self):
        return "Redis " + self.info("server")["redis_version"]

    def ask(self, *words):
        """One command; its reply as far as it is a line or a string."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(self.socket)
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%s\r\n" % (len(each.encode()), each.encode()) for each in words))
            reply = connection.makefile("rb")
            line = reply.readline().decode().rstrip()
            if line.startswith("-"):
                raise BenchError("redis: " + line[1:])
            return reply.read(int(line[1:])).decode() if line.startswith("$") else line[1:]

    def info(self, section):
        return dict(line.split(":", 1) for line in self.ask("INFO", section).splitlines() if ":" in line)

    # -- tasks ---------------------------------------------------------------

    def empty(self):
        # A new append-only file, which would otherwise be rewritten some time or other.
        self.ask("FLUSHALL")
        self.ask("BGREWRITEAOF")
        while self.info("persistence")["aof_rewrite_in_progress"] != "0" or \
                self.info("persistence")["aof_rewrite_scheduled"] != "0":
            time.sleep(0.02)

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        # Without a sync for each command; the next is on again before the measurement.
        self.ask("CONFIG", "SET", "appendfsync", "no")
        try:
            self.start_load("enqueue_many", 1, 500, 0, tasks // 500)
            if tasks % 500:
                self.start_load("enqueue", 1, 1, 0, tasks % 500)
        finally:
            self.ask("CONFIG", "SET", "appendfsync", "always")

    def depth(self):
        return int(self.ask("HLEN", "bench:payload"))

    def tables(self):
        return []

    def vacuum(self):
        pass

    def size(self):
        return int(self.info("memory")["used_memory"])

    # -- measuring -----------------------------------------------------------

    def has(self, step, variant=""):
        return step in STEPS and not variant

    def start_load(self, step, clients, batch, seconds, transactions, patience=600):
        """What load.c printed, and the processor seconds it took."""
        children = measure.children_cpu()
        with subprocess.Popen([self.load, self.socket, self.directory, step, str(clients), str(batch), str(seconds),
                               str(transactions)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as run:
            try:
                output, messages = run.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                raise BenchError("load was given up after %d s" % patience)
            finally:
                if run.poll() is None:
                    run.send_signal(signal.SIGKILL)
        if run.returncode != 0:
            raise BenchError(messages.strip()[:300] or "load failed")
        return sorted(int(line) / 1e6 for line in output.split()), messages, measure.children_cpu() - children

    def server_cpu(self):
        with open("/proc/%d/stat" % self.server.pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / measure.TICK

    def run(self, step, variant, clients, batch, seconds=None, transactions=None, warmup=0, interval=1,
            variables=None, patience=None, **options):
        written = int(self.info("persistence")["aof_current_size"])
        server, machine, start = self.server_cpu(), measure.machine_cpu(), time.monotonic()
        ended, messages, children = self.start_load(step, clients, batch, (seconds or 0) + warmup, transactions or 0,
                                                    patience or 300)
        taken, machine, server = time.monotonic() - start, measure.machine_cpu() - machine, self.server_cpu() - server
        if not ended:
            raise BenchError("nothing was done")
        if seconds:
            rate = len([each for each in ended if warmup <= each < warmup + seconds]) / seconds
        else:
            rate = measure.rate_between(ended)
        windows = [measure.Interval((number + 1) * interval, len([each for each in ended if int(each // interval) == number]) / interval, 0)
                   for number in range(((seconds or 0) + warmup) // interval)]
        return {"rate": rate, "taken": taken, "intervals": windows, "transactions": len(ended),
                "latency_ms": round(float(messages.split()[-1]), 3),
                "wal": int(self.info("persistence")["aof_current_size"]) - written, "server_cpu": server,
                "foreign_cpu": max(0.0, (machine - server - children) / (taken * os.cpu_count())), "checkpoints": 0}
