"""Throwaway servers, on one machine: pairs of a primary and, if it has one, a standby; nodes and
proxies of a cluster.  For the loads that restart them, and for the demo of a cluster.

A postmaster is a child of ours, so that one that was killed is gone and its pid is not taken for
alive, and is started without pg_ctl, which compares clocks with it.  It listens on a socket only,
or on an address of the loopback as well, if it has a network namespace for itself."""

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
max_prepared_transactions = 30
max_wal_senders = 5
wal_level = replica
hot_standby = on
wal_keep_size = 64MB
min_wal_size = 32MB
wal_retrieve_retry_interval = 200ms
autovacuum_naptime = 10s
log_min_messages = log
"""
NODE_SETTINGS = """
shared_preload_libraries = 'pgfairq'
pgfairq.max_leases = 20000
pgfairq.max_groups = 10000
"""


class Trouble(Exception):
    """What a run cannot go on from."""


def wait_for(what, condition, seconds=60):
    """The condition's value, once it is true."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            value = condition()
            if value:
                return value
        except psycopg.OperationalError:
            pass
        if time.monotonic() > deadline:
            raise Trouble(f"waited in vain for {what}")
        time.sleep(0.02)


def run(work, command, text="", **environment):
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=work, check=False,
                          timeout=600, env={**os.environ, **environment})
    output = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise Trouble(f"{' '.join(command)} failed: {output[-2000:]}")
    return output


def end(process, how=signal.SIGTERM, seconds=30):
    """In good order, or not."""
    if process and process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Clock:
    """That of some servers: so much ahead; see clock.c, which needs to be a library."""

    def __init__(self, path, library):
        self.path = path
        self.library = library
        self.furthest = 0       # how far it has been ahead
        self.set(0)

    def set(self, seconds):
        self.furthest = max(self.furthest, seconds)
        # In place, as the server has it mapped.
        clock = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(clock, struct.pack("=q", seconds))
        os.close(clock)

    def environment(self):
        return dict(os.environ, **({"LD_PRELOAD": self.library, "TORTURE_CLOCK": self.path} if self.library else {}))


class Server:
    """A data directory, and the server in it if it runs."""

    def __init__(self, place, name, port=None):
        self.place = place      # of sockets, programs and directories
        self.name = name
        self.bindir = place.old_bindir or place.bindir
        self.data = os.path.join(place.work, name)
        self.log = os.path.join(place.work, name + ".log")
        self.port = port or next(place.ports)
        self.clock = Clock(os.path.join(place.work, name + ".clock"), place.clock)
        self.process = None

    def address(self):
        """That of the node; its standby, with another port, has the same."""
        return f"127.0.1.{int(self.name.strip('nodeb'))}" if self.place.network and self.name.startswith("node") else ""

    def host(self):
        return self.address() or self.place.sockets

    # -- its directory -------------------------------------------------------

    def initdb(self, data, *more):
        self.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", *more)

    def init(self, settings):
        """A copy of a cluster that is made once."""
        if not os.path.isdir(self.place.template):
            self.initdb(self.place.template)
        shutil.copytree(self.place.template, self.data, symlinks=True)
        self.configure_first(settings)

    def configure_first(self, settings):
        self.configure(SETTINGS.format(sockets=self.place.sockets, port=self.port, address=self.address()) + settings)
        with open(os.path.join(self.data, "pg_hba.conf"), "a", encoding="utf-8") as hba:
            hba.write("host all all 127.0.0.0/8 trust\n")

    def configure(self, settings):
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as conf:
            conf.write(settings + "\n")

    def signal_file(self, name):
        return os.path.join(self.data, name + ".signal")

    def enters(self, name):
        """At its next start."""
        with open(self.signal_file(name), "w", encoding="utf-8"):
            pass

    def copy_of(self, primary):
        """Become a standby of a server."""
        shutil.rmtree(self.data, ignore_errors=True)
        primary.back_up(self.data, *self.moved(primary))
        self.follow(primary)

    def moved(self, _):
        """Options of pg_basebackup: what is elsewhere than at that server."""
        return ()

    def back_up(self, data, *more):
        self.run("pg_basebackup", "-h", self.place.sockets, "-p", str(self.port), "-U", "postgres", "-D", data,
                 "-X", "stream", "-c", "fast", "--no-sync", *more)

    def follow(self, primary):
        self.configure(f"port = {self.port}\nprimary_conninfo = 'host={self.place.sockets} port={primary.port} user=postgres"
                       f" application_name={self.name}'\nsynchronous_standby_names = ''")
        self.enters("standby")

    def recover(self):
        """From its next start on it has a timeline of its own, and waits for no standby."""
        self.configure("restore_command = 'false'\nsynchronous_standby_names = ''")
        self.enters("recovery")

    def waits_for(self, names):
        """Standbys whose answer a commit waits for."""
        self.configure(f"synchronous_standby_names = '{names}'")
        self.process.send_signal(signal.SIGHUP)

    def run(self, program, *arguments):
        return run(self.place.work, [os.path.join(self.bindir, program), *arguments])

    # -- asking it -------------------------------------------------------------

    def conninfo(self, database="app"):
        return f"host={self.place.sockets} port={self.port} dbname={database} user=postgres connect_timeout=10"

    def connect(self, database="app"):
        return psycopg.connect(self.conninfo(database), autocommit=True, application_name="driver")

    def execute(self, query, database="app", params=(), settings=None):
        with self.connect(database) as conn:
            if settings:
                conn.execute("SET " + settings)
            done = conn.execute(query, params or None)
            return done.fetchall() if done.description else []

    # -- its process -------------------------------------------------------------

    def running(self):
        return self.process is not None and self.process.poll() is None

    def spawn(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(self.bindir, "postgres"), "-D", self.data], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True, env=self.clock.environment())

    def start(self):
        """Until it takes connections; for no standby, until it is a primary.  Processes of a killed
        postmaster may still be there."""
        self.spawn()

        def up():
            if not self.running():
                self.spawn()
            recovers, = self.execute("SELECT pg_is_in_recovery()", "postgres")[0]
            return not recovers or os.path.exists(self.signal_file("standby"))
        wait_for(f"the server in {self.data} to start, see {self.log}", up, 120)

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            raise Trouble(f"the server in {self.data} did not end") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def promote(self):
        if not self.execute("SELECT pg_promote(true, 60)", "postgres")[0][0]:
            raise Trouble(f"the server in {self.data} is not promoted")

    def upgrade(self):
        """From its next start on it has the new library."""
        self.bindir = self.place.bindir

    def end(self):
        end(self.process, signal.SIGQUIT)


class Pair:
    """A primary and, if it has one, a standby."""

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
        """From now on no commit is answered before the standby has it, and it has all there is."""
        self.primary.waits_for(f'"{self.standby.name}"')

        def wait(what, condition):
            wait_for(f"{self.standby.name} {what}", lambda: self.primary.execute(
                f"SELECT 1 FROM pg_stat_replication WHERE {condition}", "postgres"))
        wait("to be synchronous", "sync_state = 'sync'")
        # Those who are committing just now may not have heard of it.
        time.sleep(0.3)
        place, = self.primary.execute("SELECT pg_current_wal_insert_lsn()", "postgres")[0]
        wait("to have everything", f"flush_lsn >= '{place}'")

    def fail_over(self):
        """The primary is killed, and the standby takes its place."""
        self.primary.kill()
        self.take_over()

    def take_over(self):
        self.standby.promote()
        self.standby.waits_for("")
        self.primary, self.standby = self.standby, self.primary

    def rejoin(self):
        """The one that was the primary is the standby."""
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
            self.wait_for_standby()
            self.primary.stop()
            self.take_over()
            self.rejoin()
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

    def pair(self, name, settings, extensions=(), standby=False):
        """A primary with a database app.  Its standby is attached by the caller: until then it waits for none."""
        pair = Pair(Server(self, name), Server(self, name + "b") if standby else None)
        self.pairs.append(pair)
        pair.primary.init(settings)
        pair.primary.start()
        pair.primary.execute("CREATE DATABASE app", "postgres")
        for extension in extensions:
            pair.primary.execute(f"CREATE EXTENSION {extension} CASCADE")
        return pair

    def node(self, number, standby=True):
        pair = self.pair(f"node{number}", NODE_SETTINGS, ["pgfairq"], standby)
        pair.primary.execute(f"SELECT fairq.set_node({number})")
        return pair

    def proxy(self, standby=True):
        return self.pair("proxy", "shared_preload_libraries = 'pgfairq'\n", ["pgfairq_cluster"], standby)

    def end(self):
        for pair in self.pairs:
            pair.end()
