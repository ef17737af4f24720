"""Servers of a cluster on one machine: nodes, each with a synchronous standby if it is to
have one, and a proxy with a hot standby.  For the torture of a cluster, and its demo.

A server listens on a socket only, or on an address of the loopback as well, if it has a
network namespace for itself.  Its postmaster is a child of this process, so that one
that was killed is gone, and its pid is not taken for alive."""

import os
import shutil
import signal
import struct
import subprocess
import time

import psycopg

SETTINGS = """
listen_addresses = '{address}'
unix_socket_directories = '{sockets}'
port = {port}
fsync = off
shared_buffers = 16MB
max_connections = 60
max_worker_processes = 6
max_wal_senders = 4
wal_keep_size = 64MB
wal_retrieve_retry_interval = 200ms
min_wal_size = 32MB
wal_level = replica
hot_standby = on
autovacuum_naptime = 10
log_min_messages = log
max_prepared_transactions = 20
"""
NODE_SETTINGS = """
shared_preload_libraries = 'pgfairq'
pgfairq.max_leases = 20000
pgfairq.max_groups = 10000
"""


class Trouble(Exception):
    """What a run cannot go on from."""


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except psycopg.OperationalError:
            pass
        if time.monotonic() > deadline:
            raise Trouble(f"waited in vain for {what}")
        time.sleep(0.02)


class Server:
    """One server, in a directory of its own."""

    def __init__(self, place, name, port):
        self.place = place      # of sockets, programs and directories
        self.bindir = place.old_bindir or place.bindir
        self.name = name
        self.port = port
        self.data = os.path.join(place.work, name)
        self.log = os.path.join(place.work, name + ".log")
        self.process = None
        self.clock = os.path.join(place.work, name + ".clock")
        self.set_clock(0)

    def address(self):
        """That of the node; its standby, with another port, has the same."""
        return f"127.0.1.{int(self.name.strip('nodeb'))}" if self.place.network and self.name.startswith("node") else ""

    def host(self):
        return self.address() or self.place.sockets

    def set_clock(self, seconds):
        """It is so much ahead.  In place, as the server has it mapped; see clock.c."""
        clock = os.open(self.clock, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(clock, struct.pack("=q", seconds))
        os.close(clock)

    def init(self, settings):
        """A copy of a cluster that is made once."""
        if not os.path.isdir(self.place.template):
            self.place.run("initdb", "-D", self.place.template, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        shutil.copytree(self.place.template, self.data, symlinks=True)
        self.configure(SETTINGS.format(sockets=self.place.sockets, port=self.port, address=self.address()) + settings)
        with open(os.path.join(self.data, "pg_hba.conf"), "a", encoding="utf-8") as hba:
            hba.write("host all all 127.0.0.0/8 trust\n")

    def configure(self, settings):
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as conf:
            conf.write(settings)

    def copy_of(self, primary):
        """Become a standby of a server."""
        shutil.rmtree(self.data, ignore_errors=True)
        primary.back_up(self.data)
        self.follow(primary)

    def back_up(self, data):
        self.place.run("pg_basebackup", "-h", self.place.sockets, "-p", str(self.port), "-U", "postgres", "-D", data,
                       "-X", "stream", "-c", "fast", "--no-sync")

    def recover(self):
        """From its next start on it has a timeline of its own, and waits for no standby."""
        self.configure("restore_command = 'false'\n")
        with open(os.path.join(self.data, "recovery.signal"), "w", encoding="utf-8"):
            pass
        with open(os.path.join(self.data, "postgresql.auto.conf"), "a", encoding="utf-8") as conf:
            conf.write("synchronous_standby_names = ''\n")

    def follow(self, primary):
        self.configure(f"port = {self.port}\nprimary_conninfo = 'host={self.place.sockets} port={primary.port} user=postgres"
                       f" application_name={self.name}'\n")
        with open(os.path.join(self.data, "standby.signal"), "w", encoding="utf-8"):
            pass

    def running(self):
        return self.process is not None and self.process.poll() is None

    def spawn(self):
        environment = dict(os.environ, **({"LD_PRELOAD": self.place.clock, "TORTURE_CLOCK": self.clock} if self.place.clock else {}))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(self.bindir, "postgres"), "-D", self.data], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True, env=environment)

    def start(self, seconds=90):
        """Until it takes connections.  Processes of a killed postmaster may still be there."""
        self.spawn()

        def up():
            if not self.running():
                self.spawn()
            with self.connect("postgres"):
                return True
        wait_for(f"server {self.name} to start, see {self.log}", up, seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.process.wait(60)

    def upgrade(self):
        """From its next start on it has the new library."""
        self.bindir = self.place.bindir

    def promote(self):
        with self.connect("postgres") as conn:
            if not conn.execute("SELECT pg_promote(true, 60)").fetchone()[0]:
                raise Trouble(f"{self.name} is not promoted")

    def conninfo(self, database="app"):
        return f"host={self.place.sockets} port={self.port} dbname={database} user=postgres connect_timeout=10"

    def connect(self, database="app"):
        return psycopg.connect(self.conninfo(database), autocommit=True)

    def execute(self, query, database="app"):
        with self.connect(database) as conn:
            done = conn.execute(query)
            return done.fetchall() if done.description else []

    def end(self):
        if self.running():
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


class Pair:
    """A node, or a proxy: a primary and, if it has one, a standby."""

    def __init__(self, primary, standby=None):
        self.primary = primary
        self.standby = standby

    def both(self):
        return [server for server in (self.primary, self.standby) if server]

    def conninfo(self, attributes="read-write", database="app"):
        """Of whoever is the primary."""
        servers = self.both()
        return "host=%s port=%s dbname=%s target_session_attrs=%s" % (
            ",".join(server.host() for server in servers), ",".join(str(server.port) for server in servers), database, attributes)

    def attach(self, synchronous=True):
        """Give the primary its standby anew."""
        self.standby.copy_of(self.primary)
        self.standby.start()
        wait_for(f"{self.standby.name} to stream", lambda: self.primary.execute(
            "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'", "postgres"))
        if synchronous:
            self.wait_for_standby()

    def wait_for_standby(self):
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '\"{self.standby.name}\"'", "postgres")
        self.primary.execute("SELECT pg_reload_conf()", "postgres")
        wait_for(f"{self.standby.name} to be synchronous", lambda: self.primary.execute(
            "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'", "postgres"))

    def alone(self, server):
        """A server that waits for no standby."""
        with server.connect("postgres") as conn:
            conn.execute("SET synchronous_commit = local")
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            conn.execute("SELECT pg_reload_conf()")

    def fail_over(self):
        """The primary is killed, and the standby takes its place."""
        self.primary.kill()
        self.take_over()

    def take_over(self):
        self.standby.promote()
        self.alone(self.standby)
        self.primary, self.standby = self.standby, self.primary

    def switch_over(self):
        """The primary is stopped as is due, and becomes the standby of its standby."""
        # One that is not there now would not have all that the primary has.
        self.wait_for_standby()
        self.primary.stop()
        self.take_over()
        self.standby.follow(self.primary)
        self.standby.start()
        self.wait_for_standby()

    def upgrade(self, extension):
        """As doc/cluster.md says: the standby first, which then takes the place of its primary."""
        for server in self.both():
            server.upgrade()
        if self.standby:
            self.standby.stop()
            self.standby.start()
            self.switch_over()
        else:
            self.primary.stop()
            self.primary.start()
        self.update(extension)

    def update(self, extension):
        """The SQL of the new library, which runs."""
        version = f"SELECT extversion FROM pg_extension WHERE extname = '{extension}'"
        old, = self.primary.execute(version)[0]
        self.primary.execute(f"ALTER EXTENSION {extension} UPDATE")
        new, = self.primary.execute(version)[0]
        print(f"{self.primary.name}: {extension} {old} is now {new}", flush=True)

    def end(self):
        for server in self.both():
            server.end()


class Place:
    """Where all of them are."""

    def __init__(self, work, bindir, network=False, clock=None, old_bindir=None):
        self.network = network  # with a namespace for itself
        self.clock = clock      # what makes a server's clock another one
        self.work = work
        self.bindir = bindir
        self.old_bindir = old_bindir    # of an earlier version, with which servers begin
        self.sockets = os.path.join(work, "s")
        self.template = os.path.join(work, "template")
        self.ports = iter(range(6001, 6100))
        self.pairs = []
        os.makedirs(self.sockets, 0o700, exist_ok=True)

    def run(self, program, *arguments):
        done = subprocess.run([os.path.join(self.bindir, program), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=self.work, check=False)
        if done.returncode != 0:
            raise Trouble(f"{program} failed: {done.stdout.decode(errors='replace')[-2000:]}")

    def pair(self, name, settings, extensions, standby):
        """A primary with a database app, and its standby."""
        primary = Server(self, name, next(self.ports))
        pair = Pair(primary, Server(self, name + "b", next(self.ports)) if standby else None)
        self.pairs.append(pair)
        primary.init(settings)
        primary.start()
        primary.execute("CREATE DATABASE app", "postgres")
        for extension in extensions:
            primary.execute(f"CREATE EXTENSION {extension} CASCADE")
        return pair

    def node(self, number, standby=True):
        """Its standby is attached by the caller: until then it waits for none."""
        pair = self.pair(f"node{number}", NODE_SETTINGS, ["pgfairq"], standby)
        pair.primary.execute(f"SELECT fairq.set_node({number})")
        return pair

    def proxy(self, name="proxy", standby=True):
        return self.pair(name, "shared_preload_libraries = 'pgfairq'\n", ["pgfairq_cluster"], standby)

    def end(self):
        for pair in self.pairs:
            pair.end()
