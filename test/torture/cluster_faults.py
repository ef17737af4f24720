"""The faults of a cluster, as plug-ins of its driver (cluster.py).  Nodes that a fault is about are
had with a_node(); all others are to go on."""

import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

from faults import fail_over, fault, kill_again, simple, stop, switch_over
from journal import now
from servers import wait_for

FULL = """
CREATE OR REPLACE FUNCTION disk(bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE SQLSTATE '53100' USING MESSAGE = 'could not extend file: No space left on device';
END
$$;"""


simple(
    ("nothing", "nothing, to compare with", 1, lambda _: lambda: None),
    ("kill", "kill -9 of a node, which is started again", 1, lambda driver: kill_again(driver, driver.a_node().primary, 1)),
    ("kill_proxy", "kill -9 of a proxy, which is started again", 1, lambda driver: kill_again(driver, driver.random.choice(driver.proxy.both()), 0.5)))


@fault("kill -9 of a node, and its standby is promoted")
def promote(driver):
    node = driver.a_node(standby=True)
    fail_over(driver, node)
    node.attach()


@fault("planned switchover to the standby, and back")
def switch(driver):
    node = driver.a_node(standby=True)
    for _ in range(2):
        switch_over(driver, node)
        node.rejoin()


def replace(driver, between=lambda old: None):
    """The spare node takes the place of another one.  What is called between may harm it."""
    driver.add(driver.spare)
    driver.goes_on(5)
    others = [number for number in driver.listed() if number != driver.spare]
    # One with a standby stays, for the faults that need it.
    old = driver.random.choice([number for number in others if not driver.nodes[number].standby] or others)

    def dropped():
        between(old)
        with driver.proxy.primary.connect() as conn:
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
    wait_for(f"node {old} to be dropped", dropped, driver.patience)
    driver.spare = old
    driver.sick.add(old)


simple(("add_drain", "a node is added, another one drained and dropped", 1, replace), needs="spare")


@fault("a node drained, with kill -9 of nodes and of the proxy in the middle", needs="spare")
def drain_kills(driver):
    killers = []

    def harm(old):
        for _ in range(driver.random.choice((1, 2))):
            time.sleep(driver.random.uniform(0, 0.15))
            kill_again(driver, driver.random.choice(
                [driver.proxy, driver.nodes[old]] + [driver.nodes[number] for number in driver.listed()]).primary, 0.3)

    with ThreadPoolExecutor(1) as pool:
        replace(driver, lambda old: killers or killers.append(pool.submit(harm, old)))
    killers[0].result()


@fault("the standby of the proxy does not replay while a node is added, another one drained and dropped", needs="spare")
def lag(driver):
    primary, standby = driver.proxy.both()
    standby.execute("SELECT pg_wal_replay_pause()", "postgres")
    driver.shared.lagging.value = 1

    def undo():
        driver.shared.lagging.value = 0
        standby.execute("SELECT pg_wal_replay_resume()", "postgres")
        end, = primary.execute("SELECT pg_current_wal_lsn()", "postgres")[0]
        wait_for("the standby of the proxy to have replayed", lambda: standby.execute(
            f"SELECT pg_last_wal_replay_lsn() >= '{end}'", "postgres")[0][0])

    for server in primary, standby:
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'app' AND pid <> pg_backend_pid()")
    try:
        replace(driver)
    except BaseException:
        undo()
        raise
    return undo


# -- sick, not dead ---------------------------------------------------------------

def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as words:
        return [int(word) for word in words.read().split()]


def backends(server, kind):
    """Those there are now: new ones work."""
    pids = [pid for pid, in server.execute(
        f"SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}' AND pid <> pg_backend_pid()")]
    return lambda: pids


@fault("SIGSTOP of all processes of a node")
def stop_node(driver):
    postmaster = driver.a_node().primary.process.pid
    return stop(lambda: [postmaster] + children(postmaster))


simple(
    ("stop_backends", "SIGSTOP of a node's backends", 1, lambda driver: stop(backends(driver.a_node().primary, "client backend"))),
    ("stop_walwriter", "SIGSTOP of a node's WAL writer", 1, lambda driver: stop(backends(driver.a_node().primary, "walwriter"))))


def packets(driver, *rules):
    """Rules for the packets of one node, for a while."""
    address = driver.a_node().primary.address()

    def nft(commands):
        # Made again each time, which does no harm.
        subprocess.run(["nft", "-f", "-"], check=True, text=True, input="add table ip torture\n"
                       "add chain ip torture input { type filter hook input priority 0; }\n" + commands)
    nft("".join(f"add rule ip torture input ip {rule.format(address)}\n" for rule in rules))
    return lambda: nft("flush chain ip torture input\n")


simple(
    ("drop_answers", "packets from a node dropped", 1, lambda driver: packets(driver, "saddr {} drop")),
    ("drop_all", "packets from and to a node dropped", 1, lambda driver: packets(driver, "saddr {} drop", "daddr {} drop")),
    ("reset", "TCP resets at a node", 1, lambda driver: packets(driver, "daddr {} meta l4proto tcp reject with tcp reset")),
    needs="network")


@fault("no room for tasks at a node")
def full_disk(driver):
    server = driver.a_node().primary

    def alter(change):
        return "".join(f"ALTER TABLE fairq.q_{queue} {change};" for queue in driver.queues)
    server.execute(FULL + alter("ADD CONSTRAINT full_disk CHECK (disk(id)) NOT VALID"))
    return lambda: server.execute(alter("DROP CONSTRAINT full_disk"))


@fault("the clock of a node or a proxy an hour off, and right again", needs="clock")
def clock(driver):
    number = driver.random.choice([0, *driver.listed()])    # 0: the proxy
    server = driver.nodes.get(number, driver.proxy).primary
    driver.sick.add(number)
    server.clock.set(driver.random.choice((-3600, 3600)))
    return lambda: server.clock.set(0)


# -- versions and copies ------------------------------------------------------------

@fault("a server of an earlier version upgraded", needs="old_bindir")
def upgrade(driver):
    for number, node in sorted(driver.nodes.items()):
        if node.primary.bindir != driver.place.bindir:
            driver.sick.add(number)
            node.upgrade("pgfairq")
            return
    if driver.proxy.primary.bindir != driver.place.bindir:
        # Its standby has calls, too, and does not take its place.
        for server in driver.proxy.standby, driver.proxy.primary:
            server.upgrade()
            server.stop()
            server.start()
        driver.proxy.update("pgfairq_cluster")
        driver.proxy.primary.execute("SELECT fairq.check_cluster(repair => true)")


@fault("a node restored from a base backup")
def restore(driver):
    node = driver.a_node()
    server = node.primary
    begin = now()
    backup = server.data + ".backup"
    server.back_up(backup)
    time.sleep(driver.random.uniform(0, 2))
    server.kill()
    if node.standby:
        node.standby.end()
    shutil.rmtree(server.data)
    os.rename(backup, server.data)
    server.recover()
    end = now()
    server.start()
    if node.standby:
        node.attach()
    # What it was given since is gone, as is documented.
    number, = driver.sick
    driver.restored.append((number, begin, end))
    driver.count()
