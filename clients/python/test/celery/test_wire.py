"""Statements without cursors: their values, errors and ends.

Seen to fail: _value() without its look at zero bytes, for libpq takes what is before the first one; _numbered() that
counts a name twice; transact() that says what it has begun after the commit, and that keeps an error of the commit to
itself; is_direct() of whatever is a socket of this machine, of nothing, and of 0; what is told without _tell_all();
_next() with select(), which takes no descriptor beyond 1,023; _to_its_end() that does not close (the answer is still to
come when the next statement is sent).
"""

import os
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgfairq.celery import wire
from pgfairq.celery.database import Database
from pgfairq.celery.errors import ConnectionLost, Refused
from part_server import conninfo, wait_until
from psycopg.conninfo import conninfo_to_dict

HOSTILE = ["'; DROP TABLE t; --", "\\", "\\'; SELECT 1; --", "a'b''c", "%s %(name)s %%", "\u00e4\U0001f600", "E'x'", "$1 $$", "x" * 5_000_000, ""]


@pytest.fixture
def database():
    database = Database({**conninfo_to_dict(conninfo("postgres")), "client_encoding": "utf8"})
    yield database
    database.close()


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_a_text_comes_back_as_it_was(database, value):
    assert database.call("SELECT %(value)s::text, 'after'", {"value": value}) == (value, "after")
    assert database.transact("SELECT %(value)s::text", {"value": value}, lambda begun, row: None) == (value,)


def test_values_of_other_types(database):
    at = datetime(2026, 3, 29, 1, 2, 3, 456789, tzinfo=timezone(timedelta(hours=2)))
    row = database.call("SELECT %(none)s::text, %(int)s::bigint, %(float)s::float8 = 0.1::float8, %(at)s::timestamptz = %(same)s::timestamptz",
                        {"none": None, "int": -(2**62), "float": 0.1, "at": at, "same": at.astimezone(timezone.utc)})
    assert row == (None, str(-(2**62)), "t", "t")


def test_a_zero_byte_is_refused(database):
    with pytest.raises(Refused, match="zero byte"):
        database.call("SELECT %(value)s::text", {"value": "a\0b"})
    assert database.call("SELECT 1", {}) == ("1",)


@pytest.mark.parametrize("direct", [False, True])
def test_an_error_is_of_its_statement_and_the_connection_is_good_after_it(database, direct):
    database._direct = direct
    for run in (database.call, lambda *call: database.transact(*call, lambda begun, row: None)):
        with pytest.raises(Refused, match="division by zero") as error:
            run("SELECT 1 / %(n)s::int", {"n": 0})
        assert error.value.sqlstate == "22012"
        assert database.call("SELECT pg_current_xact_id_if_assigned()", {}) == (None,)
        assert database.execute("SELECT %s::int", (1,)) == [(1,)]


def test_statements_are_prepared_once_where_that_holds(database):
    statements = "SELECT count(*), count(DISTINCT statement) FROM pg_prepared_statements"
    for n in (1, 2, 3):
        assert database.transact("SELECT %(n)s::int + 1", {"n": n}, lambda begun, row: None) == (str(n + 1),)
    assert database.transact("SELECT %(n)s::int + 2", {"n": 1}, lambda begun, row: None) == ("3",)
    assert database.execute(statements) == [(2, 2)]
    for _ in range(2):
        with pytest.raises(Refused, match="nowhere"):
            database.transact("SELECT max(n) FROM nowhere", {}, lambda begun, row: None)
    assert database.execute(statements) == [(2, 2)]
    database.execute("CREATE TEMP TABLE nowhere (n int)")
    assert database.transact("SELECT max(n) FROM nowhere", {}, lambda begun, row: None) == (None,)
    database._direct = False
    assert database.transact("SELECT %(n)s::int + 4", {"n": 1}, lambda begun, row: None) == ("5",)
    assert database.execute(statements) == [(3, 3)]


@pytest.mark.parametrize("direct", [False, True])
def test_an_error_of_the_commit(database, direct):
    """Of a deferred constraint, which is looked at then."""
    database._direct = direct
    database.execute("CREATE TEMP TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    begun = []
    insert = "WITH i AS (INSERT INTO once VALUES (1), (%(n)s) RETURNING n) SELECT max(n) FROM i"
    with pytest.raises(Refused, match="once_n_key"):
        database.transact(insert, {"n": 1}, lambda named, row: begun.append((named, row)))
    assert [row for _, row in begun] == [("1",)] and not database.was_committed(begun[0][0])
    assert database.transact(insert, {"n": 2}, lambda named, row: begun.append((named, row))) == ("2",)
    assert database.was_committed(begun[1][0]) and database.execute("SELECT count(*) FROM once") == [(2,)]


@pytest.mark.parametrize("direct", [False, True])
def test_what_has_begun_is_said_before_the_commit(database, direct, monkeypatch):
    database._direct = direct
    order = []
    sync = wire._sync
    monkeypatch.setattr(wire, "_sync", lambda pgconn: order.append("end") or sync(pgconn))
    database.transact("SELECT %(a)s || %(b)s || %(a)s", {"a": "x", "b": "y"}, lambda named, row: order.append(row))
    assert order == [("xyx",), "end"]


@pytest.fixture
def sockets():
    """A directory whose path leaves room: that of a socket has 107 bytes, and tmp_path may have as many."""
    with tempfile.TemporaryDirectory(prefix="wire") as directory:
        yield Path(directory)


def test_who_is_at_the_other_end(database, sockets):
    """The server itself, or something between that passes everything on."""
    assert wire.is_direct(database.connection)
    between, info = socket.socket(socket.AF_UNIX), database.connection.info
    target = f"{info.host}/.s.PGSQL.{info.port}"
    between.bind(str(sockets / f".s.PGSQL.{info.port}"))
    between.listen()

    def carry(source, sink):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    def accept():
        client, server = between.accept()[0], socket.socket(socket.AF_UNIX)
        server.connect(target)
        for ends in ((client, server), (server, client)):
            threading.Thread(target=carry, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    other = Database({**conninfo_to_dict(conninfo("postgres")), "host": str(sockets)})
    assert not wire.is_direct(other.connection)
    assert other.transact("SELECT %(n)s::int", {"n": 7}, lambda begun, row: None) == ("7",)
    other.close()


def test_the_other_end_in_another_container(database, monkeypatch):
    """It has no number here, and neither has the parent of the first process."""
    monkeypatch.setattr(wire, "PEER", SimpleNamespace(size=12, unpack=lambda _: (0, 0, 0)))
    pgconn = SimpleNamespace(socket=database.fileno(), backend_pid=1)
    assert not wire.is_direct(SimpleNamespace(pgconn=pgconn))


@pytest.fixture
def pooler(sockets):
    """Where PgBouncer is, in transaction mode, with two connections to the server."""
    (sockets / "ini").write_text(f"""
[databases]
postgres = host={os.environ['PGHOST']} user={os.environ['PGUSER']}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {sockets}
auth_type = any
pool_mode = transaction
default_pool_size = 2
logfile = {sockets}/log
""")
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    process = subprocess.Popen([program, "-q", str(sockets / "ini")], stdin=subprocess.DEVNULL)
    address = str(sockets / ".s.PGSQL.6432")

    def listens():
        with socket.socket(socket.AF_UNIX) as end:    # the file is there before it listens
            return end.connect_ex(address) == 0

    wait_until(lambda: listens() or process.poll() is not None, "PgBouncer listens")
    assert process.poll() is None, (sockets / "log").read_text()
    yield {**conninfo_to_dict(conninfo("postgres")), "host": str(sockets), "port": "6432"}
    process.terminate()
    process.wait()


def test_producers_share_the_connections_of_a_pooler(pooler):
    databases, done, failed = [Database(pooler) for _ in range(8)], [], []

    def produce(database, number):
        try:
            for n in range(20):
                done.append(database.transact("SELECT %(a)s::text || pg_sleep(0.001)", {"a": f"{number}.{n}"}, lambda begun, row: None))
                with pytest.raises(Refused):
                    database.transact("SELECT 1 / %(n)s::int", {"n": 0}, lambda begun, row: None)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=produce, args=(database, number)) for number, database in enumerate(databases)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and sorted(done) == sorted((f"{number}.{n}",) for number in range(8) for n in range(20))
    assert not any(wire.is_direct(database.connection) for database in databases)
    for database in databases:
        database.close()


@pytest.mark.parametrize("how", ["call", "transact", "transact at once"])
def test_a_connection_that_is_gone(database, how):
    database._direct = how.endswith("at once")
    [(pid,)] = database.execute("SELECT pg_backend_pid()")
    other = Database(conninfo_to_dict(conninfo("postgres")))
    other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    wait_until(lambda: not other.execute("SELECT pid FROM pg_stat_activity WHERE pid = %s", (pid,)), "it is gone")
    with pytest.raises(ConnectionLost):
        database.call("SELECT 1", {}) if how == "call" else database.transact("SELECT 1", {}, lambda begun, row: None)
    assert database.closed
    other.close()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_connection_that_goes_while_it_waits(database, at_once):
    other = Database(conninfo_to_dict(conninfo("postgres")))
    [(pid,)] = database.execute("SELECT pg_backend_pid()")
    database._direct = at_once
    asleep = "SELECT pid FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"

    def cut():
        wait_until(lambda: other.execute(asleep, (pid,)), "it sleeps")
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))

    thread = threading.Thread(target=cut)
    thread.start()
    with pytest.raises(ConnectionLost):
        database.transact("SELECT 'x' || pg_sleep(600)", {}, lambda begun, row: None)
    thread.join()
    other.close()


def test_what_is_told_meanwhile_is_heard(database):
    heard = []
    database.on_notify = lambda channel, payload: heard.append((channel, payload))
    database.execute("LISTEN news")
    database.call("SELECT pg_notify('news', %(text)s)", {"text": "by a call"})
    database.transact("SELECT pg_notify('news', %(text)s)", {"text": "by a transaction"}, lambda begun, row: None)
    assert heard == [("news", "by a call"), ("news", "by a transaction")]


def test_many_open_files():
    """As in a server that has a thousand clients of its own."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most if most == resource.RLIM_INFINITY else min(4096, most), most))
    files = []
    try:
        while not files or files[-1] < 1024:
            files.append(os.open(os.devnull, os.O_RDONLY))
        database = Database(conninfo_to_dict(conninfo("postgres")))
        assert database.fileno() > 1024
        for value in ("a", "x" * 5_000_000):
            assert database.call("SELECT %(value)s::text", {"value": value}) == (value,)
            assert database.transact("SELECT %(value)s::text", {"value": value}, lambda begun, row: None) == (value,)
        database.close()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@pytest.mark.parametrize("how", ["call", "transact", "transact at once"])
def test_a_statement_that_is_interrupted(database, how, monkeypatch):
    """As by the soft time limit of the task that sends a message."""
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    database._direct = how.endswith("at once")
    with monkeypatch.context() as patch:
        patch.setattr(wire, "_next", interrupt)
        with pytest.raises(Interrupt):
            database.call("SELECT 1", {}) if how == "call" else database.transact("SELECT 1", {}, lambda begun, row: None)
    with pytest.raises(ConnectionLost, match="closed"):
        database.call("SELECT 1", {})
