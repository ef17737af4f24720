"""The servers under torture: at most two at a time, one of them the primary.

They share a clock and a log, may have the WAL and a tablespace on small disks, and are told
apart by port.
"""

import os
import shutil

from servers import Clock, Pair, Place, Server

DATABASE = "app"
PORTS = (5432, 5433)

SETTINGS = """
shared_preload_libraries = 'pgfairq'
shared_buffers = 64MB
min_wal_size = 8MB
max_wal_size = 48MB
wal_keep_size = 32MB
checkpoint_timeout = 1min
wal_sender_timeout = 0
wal_receiver_timeout = 0
restart_after_crash = on
log_line_prefix = '%m [%p] %q%a '
log_checkpoints = off
max_worker_processes = 8
autovacuum_naptime = 5s
pgfairq.max_leases = 20000
pgfairq.max_groups = 20000
pgfairq.max_limits = 1000
pgfairq.sweep_interval = 5s
"""


class Node(Server):
    def __init__(self, stage, port, bindir):
        stage.nodes += 1
        super().__init__(stage, "node%d" % stage.nodes, port)
        self.bindir = bindir
        self.log = stage.log
        self.clock = stage.one_clock
        self.wal = os.path.join(stage.wal, self.name)
        self.space = os.path.join(stage.space, self.name)
        os.makedirs(self.space, 0o700)

    def init(self, settings=SETTINGS):
        self.initdb(self.data, "--wal-segsize=1", "--waldir=" + self.wal)
        self.configure_first(settings)

    def moved(self, primary):
        return "--waldir=" + self.wal, "-T", "%s=%s" % (primary.space, self.space)

    def remove(self):
        if self.running():
            self.kill()
        for directory in (self.data, self.wal, self.space):
            shutil.rmtree(directory, ignore_errors=True)


class Stage(Place):
    def __init__(self, options):
        super().__init__(options.work, options.bindir, clock=options.clock)
        self.wal = options.wal or os.path.join(self.work, "wal")
        self.space = options.space or os.path.join(self.work, "space")
        self.log = os.path.join(self.work, "log")
        self.nodes = 0
        for directory in (self.wal, self.space):
            os.makedirs(directory, 0o700, exist_ok=True)
        with open(self.log, "ab"):
            pass
        self.one_clock = Clock(os.path.join(self.work, "clock"), options.clock)
        self.pair = Pair(Node(self, PORTS[0], self.bindir))
        self.pairs.append(self.pair)

    def begin(self):
        self.pair.primary.init()
        self.pair.primary.start()

    def another(self, bindir=None):
        """Beside the primary."""
        primary = self.pair.primary
        return Node(self, next(port for port in PORTS if port != primary.port), bindir or primary.bindir)

    def attach(self):
        """A new standby of the primary, that runs."""
        self.pair.standby = self.another()
        self.pair.attach()
        return self.pair

    def detach(self):
        """The standby is gone, whichever server that is."""
        self.pair.standby.remove()
        self.pair.standby = None

    def conninfo(self):
        """Of whoever is the primary."""
        return "host=%s,%s port=%d,%d dbname=%s user=postgres target_session_attrs=read-write" % (
            self.sockets, self.sockets, *PORTS, DATABASE)

    def log_size(self):
        return os.path.getsize(self.log)

    def log_since(self, offset):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            log.seek(offset)
            return log.read()
