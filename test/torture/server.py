"""The servers under torture: at most two at a time, one of them the primary.

A server is a child of ours and is started without pg_ctl, which compares clocks
with it. They share a directory for their sockets and are told apart by port.
"""

import os
import shutil
import signal
import struct
import subprocess
import time

import psycopg

DATABASE = "torture"
PORTS = (5432, 5433)

SETTINGS = """
listen_addresses = ''
shared_preload_libraries = 'pgfairq'
fsync = off
max_connections = 60
max_prepared_transactions = 30
max_wal_senders = 5
wal_level = replica
hot_standby = on
shared_buffers = 64MB
min_wal_size = 8MB
max_wal_size = 48MB
wal_keep_size = 32MB
checkpoint_timeout = 1min
wal_sender_timeout = 0
wal_receiver_timeout = 0
wal_retrieve_retry_interval = 200ms
restart_after_crash = on
log_min_messages = log
log_line_prefix = '%m [%p] %q%a '
log_checkpoints = off
autovacuum_naptime = 5s
pgfairq.max_leases = 20000
pgfairq.max_groups = 20000
pgfairq.max_limits = 1000
pgfairq.sweep_interval = 5s
"""


class Trouble(Exception):
    """The server does not do what it must."""


class Node:
    """A data directory, and the server in it if it runs."""

    def __init__(self, stage, number, port, bindir):
        self.stage = stage
        self.number = number
        self.port = port
        self.bindir = bindir
        self.directory = os.path.join(stage.work, "node%d" % number)
        self.data = os.path.join(self.directory, "data")
        self.wal = os.path.join(stage.wal, "node%d" % number)
        self.space = os.path.join(stage.space, "node%d" % number)
        self.log = os.path.join(stage.work, "log")
        self.process = None
        os.makedirs(self.directory, 0o700)
        os.makedirs(self.space, 0o700)

    def initdb(self):
        self.stage.run(self.bindir, "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                       "--no-locale", "--no-sync", "--wal-segsize=1", "--waldir=" + self.wal)
        self.configure()

    def configure(self, more=""):
        with open(os.path.join(self.data, "postgresql.conf"), "w", encoding="utf-8") as conf:
            conf.write(SETTINGS + "port = %d\nunix_socket_directories = '%s'\n%s" % (
                self.port, self.stage.sockets, more))

    def follow(self, primary):
        """From its next start on it is a standby."""
        self.configure("primary_conninfo = '%s'\n" % primary.conninfo("postgres"))
        with open(os.path.join(self.data, "standby.signal"), "w", encoding="ascii"):
            pass

    def replicate(self, standby):
        """No commit is answered before the standby has it."""
        self.configure("synchronous_standby_names = '*'\n")
        self.process.send_signal(signal.SIGHUP)
        with self.connect("postgres") as conn:
            self.stage.wait_for("replication to be synchronous", lambda: conn.execute(
                "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone() is not None)
            # Those who are committing just now may not have heard of it.
            time.sleep(0.3)
            place = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
            self.stage.wait_for("the standby to have everything", lambda: conn.execute(
                "SELECT FROM pg_stat_replication WHERE flush_lsn >= %s", (place,)).fetchone() is not None)

    def promote(self):
        with self.connect("postgres") as conn:
            if not conn.execute("SELECT pg_promote(true, 60)").fetchone()[0]:
                raise Trouble("the standby is not promoted")

    def conninfo(self, database=DATABASE):
        return "host=%s port=%d dbname=%s user=postgres" % (self.stage.sockets, self.port, database)

    def connect(self, database=DATABASE):
        return psycopg.connect(self.conninfo(database), autocommit=True, connect_timeout=10, application_name="driver")

    def postmaster(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def spawn(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.bindir, "postgres"), "-D", self.data], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=self.stage.server_environment(), start_new_session=True)

    def start(self, standby=False, seconds=120):
        """Until it takes connections; for a primary, until it is one."""
        deadline = time.monotonic() + seconds
        self.spawn()
        while True:
            if not self.running():
                # Processes of a killed postmaster may still be there.
                if time.monotonic() > deadline or not self.stage.log_says("still in use", 2000):
                    raise Trouble("the server does not start")
                time.sleep(0.1)
                self.spawn()
            try:
                with self.connect("postgres") as conn:
                    if standby or not conn.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
                        return
            except psycopg.OperationalError:
                pass
            if time.monotonic() > deadline:
                raise Trouble("the server did not come up within %d s" % seconds)
            time.sleep(0.02)

    def wait_end(self, seconds=60):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Trouble("the server did not end within %d s" % seconds) from None

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.wait_end()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        if self.running():
            self.kill()
        for directory in (self.directory, self.wal, self.space):
            shutil.rmtree(directory, ignore_errors=True)


class Stage:
    def __init__(self, options):
        self.work = options.work
        self.bindir = options.bindir
        self.newer_bindir = options.newer_bindir
        self.wal = options.wal or os.path.join(self.work, "wal")
        self.space = options.space or os.path.join(self.work, "space")
        self.small_disks = bool(options.wal and options.space)
        self.sockets = os.path.join(self.work, "s")
        self.log = os.path.join(self.work, "log")
        self.clock_file = os.path.join(self.work, "clock")
        self.clock = options.clock
        self.nodes = 0
        self.furthest = 0       # how far the clock has been ahead
        for directory in (self.wal, self.space, self.sockets):
            os.makedirs(directory, 0o700, exist_ok=True)
        self.set_clock(0)
        self.primary = self.node(PORTS[0])
        self.primary.initdb()
        self.primary.start()

    def node(self, port, bindir=None):
        self.nodes += 1
        return Node(self, self.nodes, port, bindir or self.bindir)

    def other_port(self):
        return next(port for port in PORTS if port != self.primary.port)

    def standby(self):
        """A new one of the primary, that runs."""
        standby = self.node(self.other_port(), self.primary.bindir)
        self.run(standby.bindir, "pg_basebackup", "-h", self.sockets, "-p", str(self.primary.port), "-U", "postgres",
                 "-D", standby.data, "-X", "stream", "-c", "fast", "--no-sync", "--waldir=" + standby.wal,
                 "-T", "%s=%s" % (self.primary.space, standby.space))
        standby.follow(self.primary)
        standby.start(standby=True)
        return standby

    def wait_for(self, what, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Trouble("waited in vain for %s" % what)
            time.sleep(0.01)

    def conninfo(self):
        """Of whoever is the primary."""
        return "host=%s,%s port=%d,%d dbname=%s user=postgres target_session_attrs=read-write" % (
            self.sockets, self.sockets, *PORTS, DATABASE)

    def server_environment(self):
        environment = dict(os.environ)
        if self.clock:
            environment.update(LD_PRELOAD=self.clock, TORTURE_CLOCK=self.clock_file)
        return environment

    def set_clock(self, seconds):
        self.furthest = max(self.furthest, seconds)
        # In place, as the server has it mapped; see clock.c.
        clock = os.open(self.clock_file, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(clock, struct.pack("=q", seconds))
        os.close(clock)

    def run(self, bindir, program, *arguments, cwd=None):
        done = subprocess.run([os.path.join(bindir, program), *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd or self.work, check=False)
        if done.returncode != 0:
            raise Trouble("%s failed: %s" % (program, done.stdout.decode(errors="replace")[-2000:]))
        return done.stdout.decode(errors="replace")

    def log_size(self):
        return os.path.getsize(self.log)

    def log_since(self, offset):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            log.seek(offset)
            return log.read()

    def log_says(self, text, last):
        return text in self.log_since(max(0, self.log_size() - last))

    def end(self):
        if self.primary.running():
            self.primary.kill()
