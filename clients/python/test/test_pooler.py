"""Behind PgBouncer in transaction mode, with two connections to the server.

Seen to fail: a prepare_threshold other than None in connections.SETTINGS (the pooler's
other connections do not know the prepared statements); the session through the pooler
with bound=True (it ends when the pooler lets its connection go).
"""

import asyncio
import os
import shutil
import subprocess
import tempfile

import part_server
import psycopg
import pytest
from conftest import running

from pgfairq import AsyncQueue, AsyncWorker, Queue, Worker


@pytest.fixture(scope="module")
def pooler(database):
    """A connection string that leads through PgBouncer."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    directory = tempfile.mkdtemp(prefix="pgb")
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with open(f"{directory}/ini", "w", encoding="ascii") as file:
        file.write(f"""
[databases]
{name} = host={os.environ['PGHOST']} user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
server_reset_query_always = 0
ignore_startup_parameters = extra_float_digits
logfile = {directory}/log
""")
    process = subprocess.Popen([program, "-q", f"{directory}/ini"], stdin=subprocess.DEVNULL)
    conninfo = f"host={directory} port=6432 dbname={name} user=postgres"

    def answers():
        assert process.poll() is None, open(f"{directory}/log", encoding="utf-8").read()
        try:
            psycopg.connect(conninfo).close()
            return True
        except psycopg.Error:
            return False

    part_server.wait_until(answers, "the pooler answers")
    yield conninfo
    process.kill()      # at SIGTERM PgBouncer waits for all clients to go, from 1.23 on
    process.wait(60)
    shutil.rmtree(directory)


def work(conninfo, name, **options):
    """1000 tasks through the pooler, half of them with a transaction, and some that come to an idle worker."""
    queue, seen = Queue(conninfo, name, backoff_base=0, keep_done=3600), []

    @queue.task("write")
    def write(payload, context):
        for _ in range(3):      # several statements on one connection of the server
            context.connection.execute("INSERT INTO written VALUES (%s, %s)", (name, payload))
        seen.append(payload)

    @queue.task("plain")
    def plain(payload, context):
        seen.append(payload)
        return payload

    write.enqueue_many(list(range(500)))
    plain.enqueue_many(list(range(500, 1000)))
    worker = Worker(queue, concurrency=10, **options)
    with running(worker):
        part_server.wait_until(lambda: queue.stats().acked == 1000, "all are done")
        for n in range(1000, 1010):
            write.enqueue(n)
        part_server.wait_until(lambda: queue.stats().acked == 1010, "those that came later")
    assert sorted(seen) == list(range(1010))
    return queue.stats()


def test_with_one_direct_connection(database, pooler):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS written (queue text, n int)")
        stats = work(pooler, "direct", direct=database)
        assert (stats.expired, stats.nacked) == (0, 0)
        counts = connection.execute("SELECT count(*), count(DISTINCT n) FROM written WHERE queue = 'direct'").fetchone()
    assert counts == (510 * 3, 510)


def test_without_one(database, pooler):
    """All through the pooler: the session is not bound, and outlives its connections."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS written (queue text, n int)")
        stats = work(pooler, "unbound", bound=False, ttl=60)
        assert (stats.expired, stats.nacked) == (0, 0)
        counts = connection.execute("SELECT count(*), count(DISTINCT n) FROM written WHERE queue = 'unbound'").fetchone()
    assert counts == (510 * 3, 510)


def test_with_asyncio(database, pooler):
    async def main():
        queue, seen = AsyncQueue(pooler, "async pooled", backoff_base=0), []

        @queue.task()
        async def handle(payload, context):
            if payload % 2:
                connection = await context.connection()
                for _ in range(2):
                    await connection.execute("SELECT %s", (payload,))
            seen.append(payload)

        await queue.enqueue_many(list(range(500)))
        await AsyncWorker(queue, concurrency=10, direct=database).run(drain=True)
        assert sorted(seen) == list(range(500)) and (await queue.stats()).expired == 0

    asyncio.run(main())
