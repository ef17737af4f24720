"""The faults of a cluster, each a method: makes it, and ends it.  What it returns are the
numbers of the nodes that are concerned; all others are to go on.

The first line of its text is what the table says.  NEEDS has those that need something
that not every machine has."""

import os
import shutil
import signal
import subprocess
import time

import psycopg

from cluster_servers import wait_for

NEEDS = {"drop_answers": "network", "drop_all": "network", "reset": "network", "clock": "clock", "upgrade": "old_bindir"}

FULL = """
CREATE OR REPLACE FUNCTION disk(bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE SQLSTATE '53100' USING MESSAGE = 'could not extend file: No space left on device';
END
$$;
"""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as words:
        return [int(word) for word in words.read().split()]


class Faults:
    """What Cluster has of them."""

    def number_of(self, node):
        return next(number for number in self.nodes if self.nodes[number] is node)

    def listed(self):
        return [number for number, in self.proxy.primary.execute("SELECT node FROM fairq.node WHERE state = 'active' ORDER BY 1")]

    def a_node(self, standby=False):
        return self.nodes[self.random.choice([number for number in self.listed() if self.nodes[number].standby or not standby])]

    def kill(self):
        """kill -9 of a node, which is started again"""
        node = self.a_node()
        node.primary.kill()
        time.sleep(self.random.uniform(0, 1))
        node.primary.start()
        return {self.number_of(node)}

    def promote(self):
        """kill -9 of a node, and its standby is promoted"""
        node = self.a_node(standby=True)
        node.fail_over()
        self.goes_on()
        node.attach()
        return {self.number_of(node)}

    def switch(self):
        """planned switchover to the standby, and back"""
        node = self.a_node(standby=True)
        node.switch_over()
        self.goes_on()
        node.switch_over()
        return {self.number_of(node)}

    def kill_proxy(self):
        """kill -9 of a proxy, which is started again"""
        server = self.random.choice(self.proxy.both())
        server.kill()
        time.sleep(self.random.uniform(0, 0.5))
        server.start()
        return set()

    def add_drain(self):
        """a node is added, another one drained and dropped"""
        return self.replace()

    def replace(self, between=lambda old: None):
        """The spare node takes the place of another one.  What is called between may harm it."""
        self.add(self.spare)
        self.goes_on()
        others = [number for number in self.listed() if number != self.spare]
        # One with a standby stays, for the faults that need it.
        old = self.random.choice([number for number in others if not self.nodes[number].standby] or others)

        def dropped():
            between(old)
            with self.proxy.primary.connect() as conn:
                # A call that was not answered may have been done.
                state = conn.execute("SELECT state FROM fairq.node WHERE node = %s", (old,)).fetchone()
                if not state:
                    return True
                if state[0] == "active":
                    conn.execute(f"SELECT fairq.drain_node({old})")
                try:
                    conn.execute(f"SELECT fairq.move_tasks({old})")
                    conn.execute(f"SELECT fairq.drop_node({old})")
                except psycopg.errors.ObjectNotInPrerequisiteState:
                    pass
            return False
        wait_for(f"node {old} to be dropped", dropped, self.patience)
        self.spare = old
        return {old}

    # -- sick, not dead -----------------------------------------------------

    def nothing(self):
        """nothing, to compare with"""
        self.a_while()
        return set()

    def a_while(self):
        time.sleep(self.random.uniform(min(3, self.longest), self.longest))

    def stopped(self, number, which):
        """Processes are stopped for a while; which says them anew, until there are no others."""
        pids = []
        try:
            while True:
                others = [pid for pid in which() if pid not in pids]
                if not others:
                    break
                pids += others
                for pid in others:
                    self.tell(pid, signal.SIGSTOP)
            self.a_while()
        finally:
            for pid in pids:
                self.tell(pid, signal.SIGCONT)
        return {number}

    def tell(self, pid, what):
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass

    def backends(self, server, kind):
        """Those there are now: new ones work."""
        pids = [pid for pid, in server.execute(
            f"SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}' AND pid <> pg_backend_pid()")]
        return lambda: pids

    def stop_node(self):
        """SIGSTOP of all processes of a node"""
        node = self.a_node()
        postmaster = node.primary.process.pid
        return self.stopped(self.number_of(node), lambda: [postmaster] + children(postmaster))

    def stop_backends(self):
        """SIGSTOP of a node's backends"""
        node = self.a_node()
        return self.stopped(self.number_of(node), self.backends(node.primary, "client backend"))

    def stop_walwriter(self):
        """SIGSTOP of a node's WAL writer"""
        node = self.a_node()
        return self.stopped(self.number_of(node), self.backends(node.primary, "walwriter"))

    def packets(self, *rules):
        """Rules for the packets of one node, for a while."""
        number = self.number_of(self.a_node())
        address = self.nodes[number].primary.address()
        self.nft("".join(f"add rule ip torture input ip {rule.format(address)}\n" for rule in rules))
        try:
            self.a_while()
        finally:
            self.nft("flush chain ip torture input\n")
        return {number}

    def nft(self, commands):
        # Made again each time, which does no harm.
        subprocess.run(["nft", "-f", "-"], check=True, text=True, input="add table ip torture\n"
                       "add chain ip torture input { type filter hook input priority 0; }\n" + commands)

    def drop_answers(self):
        """packets from a node dropped"""
        return self.packets("saddr {} drop")

    def drop_all(self):
        """packets from and to a node dropped"""
        return self.packets("saddr {} drop", "daddr {} drop")

    def reset(self):
        """TCP resets at a node"""
        return self.packets("daddr {} meta l4proto tcp reject with tcp reset")

    def full_disk(self):
        """no room for tasks at a node"""
        node = self.a_node()
        node.primary.execute(FULL + "".join(
            f"ALTER TABLE fairq.q_{queue} ADD CONSTRAINT full_disk CHECK (disk(id)) NOT VALID;" for queue in ("local", "inbox")))
        self.a_while()
        node.primary.execute("".join(f"ALTER TABLE fairq.q_{queue} DROP CONSTRAINT full_disk;" for queue in ("local", "inbox")))
        return {self.number_of(node)}

    def clock(self):
        """the clock of a node or a proxy an hour off, and right again"""
        pair = self.random.choice([self.proxy] + [self.nodes[number] for number in self.listed()])
        ahead = self.random.choice((-3600, 3600))
        self.furthest = max(self.furthest, ahead)
        pair.primary.set_clock(ahead)
        self.a_while()
        pair.primary.set_clock(0)
        return set() if pair is self.proxy else {self.number_of(pair)}

    # -- versions -----------------------------------------------------------

    def upgrade(self):
        """a server of an earlier version upgraded"""
        for number, node in sorted(self.nodes.items()):
            if node.primary.bindir != self.place.bindir:
                node.upgrade("pgfairq")
                return {number}
        if self.proxy.primary.bindir != self.place.bindir:
            # Its standby has calls, too, and does not take its place.
            for server in self.proxy.standby, self.proxy.primary:
                server.upgrade()
                server.stop()
                server.start()
            self.proxy.update("pgfairq_cluster")
            self.proxy.primary.execute("SELECT fairq.check_cluster(repair => true)")
        return set()

    # -- administration -----------------------------------------------------

    def drain_kills(self):
        """a node drained, with kill -9 of nodes and of the proxy in the middle"""
        killers = []

        def harm(old):
            for _ in range(self.random.choice((1, 2))):
                time.sleep(self.random.uniform(0, 0.15))
                server = self.random.choice([self.proxy, self.nodes[old]] + [self.nodes[number] for number in self.listed()]).primary
                server.kill()
                time.sleep(self.random.uniform(0, 0.3))
                server.start()

        def between(old):
            if not killers:
                killers.append(self.clients.start(harm, old))
        sick = self.replace(between)
        killers[0].join()
        return sick

    def lag(self):
        """the standby of the proxy does not replay while a node is added, another one drained and dropped"""
        standby = self.proxy.standby
        standby.execute("SELECT pg_wal_replay_pause()", "postgres")
        self.lagging = True
        for server in self.proxy.both():
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'app' AND pid <> pg_backend_pid()")
        try:
            sick = self.replace()
            self.a_while()
        finally:
            self.lagging = False
            standby.execute("SELECT pg_wal_replay_resume()", "postgres")
        end = self.proxy.primary.execute("SELECT pg_current_wal_lsn()", "postgres")[0][0]
        wait_for("the standby of the proxy to have replayed", lambda: standby.execute(
            f"SELECT pg_last_wal_replay_lsn() >= '{end}'", "postgres")[0][0])
        return sick

    def restore(self):
        """a node restored from a base backup"""
        node = self.a_node()
        number = self.number_of(node)
        server = node.primary
        begin = time.monotonic()
        backup = server.data + ".backup"
        server.back_up(backup)
        time.sleep(self.random.uniform(0, 2))
        server.kill()
        if node.standby:
            node.standby.end()
        shutil.rmtree(server.data)
        os.rename(backup, server.data)
        server.recover()
        end = time.monotonic()
        server.start()
        wait_for(f"{server.name} to be restored", lambda: not server.execute("SELECT pg_is_in_recovery()", "postgres")[0][0])
        if node.standby:
            node.attach()
        # What it was given since is gone, as is documented.
        self.clients.gone(number, begin, end)
        self.clients.count(self.waiting())
        return {number}
