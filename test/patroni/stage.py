"""Throwaway servers under Patroni, with an etcd of their own.

What configures them is what doc/high-availability.md shows: its blocks are read
out of the page, and only the names of hosts, ports, directories and passwords
are others. A block that lacks what is to be replaced stops the test.

All listen on 127.0.0.1 only. Whatever is started has its pid in the file pids,
so that the script can end it if this program cannot.
"""

import ctypes
import functools
import http.client
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

import psycopg

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", other) for other in ("scripts", "load")]
import readme_commands  # noqa: E402
import servers  # noqa: E402
from servers import Trouble  # noqa: E402

MARK = "make check-patroni: "
MEMBERS = ("db1", "db2")
HOST = "127.0.0.1"
LONG = 300      # seconds; a machine that has other things to do
PR_SET_CHILD_SUBREAPER = 36
wait_for = functools.partial(servers.wait_for, seconds=LONG)


def blocks_of(page):
    """What the page has to say, by name."""
    with open(page, encoding="utf-8") as lines:
        return {block.name[len(MARK):]: "\n".join(block.text) + "\n"
                for block in readme_commands.blocks_of(lines.readlines())
                if block.verb == "no-test" and block.name.startswith(MARK)}


def replaced(text, pairs):
    """With each of the words replaced, which all must be there."""
    for old, new in pairs:
        if old not in text:
            raise Trouble("the page does not say '%s' any more" % old)
        text = text.replace(old, new)
    return text


def free_ports(number):
    """Below those that the kernel gives to whoever connects."""
    ports = []
    while len(ports) < number:
        port = random.randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class Reaper(threading.Thread):
    """Ends the zombies of servers whose Patroni was killed: a postmaster's pid must be
    free before the next one can start, and not every container has an init for that.
    Our own children are other programs."""

    def __init__(self):
        super().__init__(daemon=True)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self):
        me = str(os.getpid())
        while True:
            for name in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open("/proc/%s/stat" % name, encoding="ascii", errors="replace") as stat:
                        command, _, rest = stat.read().rpartition(")")
                    if command.endswith("(postgres") and rest.split()[:2] == ["Z", me]:
                        os.waitpid(int(name), os.WNOHANG)
                except OSError:
                    pass
            time.sleep(0.1)


class Member:
    """A Patroni, and the server that it runs."""

    def __init__(self, stage, name, port, rest):
        self.stage = stage
        self.name = name
        self.port = port
        self.rest = rest
        self.home = os.path.join(stage.work, name)
        self.data = os.path.join(self.home, "data")
        self.config = os.path.join(self.home, "patroni.yml")
        self.process = None
        os.makedirs(os.path.join(self.home, "socket"), 0o700)
        text = replaced(stage.blocks["member"], [
            ("name: db1", "name: " + name),
            ("10.0.0.1:8008", "%s:%d" % (HOST, rest)),
            ("10.0.0.11:2379,10.0.0.12:2379,10.0.0.13:2379", "%s:%d" % (HOST, stage.etcd_port)),
            ("10.0.0.1:5432", "%s:%d" % (HOST, port)),
            ("10.0.0.0/24", HOST + "/32"),
            ("/var/lib/postgresql/15/queues", self.data),
            ("/usr/lib/postgresql/15/bin", stage.bindir),
            ("/var/run/postgresql", os.path.join(self.home, "socket")),
        ] + [(word, stage.passwords[word]) for word in ("secret-1", "secret-2", "secret-3")])
        with open(self.config, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(text)

    def start(self):
        self.process = self.stage.spawn(["patroni", self.config], os.path.join(self.home, "log"), HOME=self.home)

    def ask(self, path):
        """What its Patroni answers, or None."""
        connection = http.client.HTTPConnection(HOST, self.rest, timeout=10)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def connect(self, database="app"):
        return psycopg.connect(host=HOST, port=self.port, dbname=database, user="postgres", connect_timeout=10,
                               password=self.stage.passwords["secret-1"], autocommit=True)

    def postmaster(self):
        """Its pid; None: there is none."""
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
                return int(file.readline())
        except (OSError, ValueError):
            return None

    def kill_postmaster(self):
        os.kill(self.postmaster(), signal.SIGKILL)

    def kill_patroni(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        servers.end(self.process, seconds=60)
        postmaster = self.postmaster()
        if postmaster and self.stage.is_ours(postmaster):
            os.kill(postmaster, signal.SIGQUIT)
            wait_for("the server of %s to end" % self.name, lambda: not self.stage.is_ours(postmaster), seconds=60)


class Stage:
    def __init__(self, options):
        self.work = options.work
        self.bindir = options.bindir
        self.blocks = blocks_of(options.page)
        self.passwords = {"secret-%d" % n: secrets.token_hex(16) for n in range(1, 5)}
        self.etcd_port, self.peer_port, *ports = free_ports(2 + 2 * len(MEMBERS))
        Reaper().start()
        self.etcd = None
        self.asynchronous = False
        self.members = {name: Member(self, name, ports.pop(), ports.pop()) for name in MEMBERS}

    def spawn(self, command, log, **environment):
        with open(log, "ab") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.work,
                                       env={**os.environ, **environment}, start_new_session=True)
        with open(os.path.join(self.work, "pids"), "a", encoding="ascii") as pids:
            pids.write("%d\n" % process.pid)
        return process

    def is_ours(self, pid):
        """A live process of this test."""
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as command:
                return self.work.encode() in command.read()
        except OSError:
            return False

    # -- beginning and end --------------------------------------------------

    def begin(self):
        url, peer = "http://%s:%d" % (HOST, self.etcd_port), "http://%s:%d" % (HOST, self.peer_port)
        self.etcd = self.spawn(["etcd", "--name", "e", "--data-dir", os.path.join(self.work, "etcd"),
                                "--listen-client-urls", url, "--advertise-client-urls", url,
                                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                                "--initial-cluster", "e=" + peer], os.path.join(self.work, "etcd.log"))
        wait_for("etcd", lambda: self.answers(self.etcd_port))
        first, *others = self.members.values()
        first.start()
        wait_for("a primary", self.leader)
        for member in others:
            member.start()
        self.wait_until_whole()
        block = replaced(self.blocks["database"], [("secret-4", self.passwords["secret-4"])])
        self.run([os.path.join(self.bindir, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                  "host=%s port=%d dbname=postgres user=postgres" % (HOST, self.leader().port)], block,
                 PGPASSWORD=self.passwords["secret-1"])

    @staticmethod
    def answers(port):
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    def end(self):
        for member in self.members.values():
            member.end()
        servers.end(self.etcd)

    # -- looking ------------------------------------------------------------

    def cluster(self):
        """The members as Patroni sees them, by name."""
        for member in self.members.values():
            answer = member.ask("/cluster")
            if answer and "members" in answer:
                return {one["name"]: one for one in answer["members"]}
        return {}

    def leader(self):
        """The member that is the primary, and says so itself."""
        for member in self.members.values():
            answer = member.ask("/primary")
            if answer and answer.get("role") in ("master", "primary") and answer.get("state") == "running":
                with_lock = self.cluster().get(member.name, {})
                return member if with_lock.get("role") == "leader" else None
        return None

    def other(self, member):
        return next(other for other in self.members.values() if other is not member)

    def is_whole(self):
        """One is the primary, and the other one its synchronous standby, also as etcd has it:
        without that Patroni would not promote it."""
        leader = self.leader()
        wanted = "replica" if self.asynchronous else "sync_standby"
        if not leader or self.cluster().get(self.other(leader).name, {}).get("role") != wanted:
            return None
        with leader.connect("postgres") as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND (sync_state = 'sync' OR %s)", (self.asynchronous,)).fetchone()
        return found and leader

    def make_asynchronous(self):
        """Only to see the test fail."""
        self.asynchronous = True
        self.run(["patronictl", "-c", self.members[MEMBERS[0]].config, "edit-config", "queues", "--force",
                  "-s", "synchronous_mode=false"])
        with self.wait_until_whole().connect() as connection:
            wait_for("replication to be asynchronous", lambda: connection.execute(
                "SHOW synchronous_standby_names").fetchone() == ("",))

    def wait_until_whole(self):
        return wait_for("a primary with a synchronous standby", self.is_whole)

    # -- doing ----------------------------------------------------------------

    def run(self, command, text="", **environment):
        return servers.run(self.work, command, text, **environment)

    def command(self, block, *pairs):
        """One of patronictl that the page shows."""
        config = ("/etc/patroni/queues.yml", self.members[MEMBERS[0]].config)
        return self.run(["bash", "-eu", "-c", replaced(self.blocks[block], [config, *pairs])])

    def switch_over(self, leader):
        other = self.other(leader)
        self.command("switchover", ("--leader db1", "--leader " + leader.name), ("--candidate db2", "--candidate " + other.name))

    def restart(self, member):
        self.command("restart", ("queues db2", "queues " + member.name))

    def conninfo(self):
        """What the page gives to clients."""
        return replaced(self.blocks["connection"].strip(), [
            ("10.0.0.1,10.0.0.2", ",".join([HOST] * len(MEMBERS))),
            ("port=5432,5432", "port=" + ",".join(str(member.port) for member in self.members.values())),
            ("secret-4", self.passwords["secret-4"])])
