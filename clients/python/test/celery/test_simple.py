"""Messages that are text alone: what is put into them is a value, whatever it is.

Seen to fail: literal() without libpq's quoting, and without its look at zero bytes, for libpq takes what is before the
first one; query() that answers with the first row there is, and that keeps an error to itself.
"""

from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from pgfairq.celery import simple
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


def test_an_error_is_of_its_statement_and_the_connection_is_good_after_it(database):
    for run in (database.call, lambda *call: database.transact(*call, lambda begun, row: None)):
        with pytest.raises(Refused, match="division by zero") as error:
            run("SELECT 1 / %(n)s::int", {"n": 0})
        assert error.value.sqlstate == "22012"
        assert database.call("SELECT pg_current_xact_id_if_assigned()", {}) == (None,)
    assert simple.query(database.connection, "SELECT 1; SELECT 2; SET search_path = public") == ("2",)
    with pytest.raises(psycopg.errors.DivisionByZero):
        simple.query(database.connection, "SELECT 1; SELECT 1 / 0")


def test_a_connection_that_is_gone(database):
    [(pid,)] = database.execute("SELECT pg_backend_pid()")
    other = Database(conninfo_to_dict(conninfo("postgres")))
    other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    wait_until(lambda: not other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)), "it is gone")
    with pytest.raises(ConnectionLost):
        database.call("SELECT 1", {})
    other.close()


def test_what_is_told_meanwhile_is_heard(database):
    heard = []
    database.on_notify = lambda channel, payload: heard.append((channel, payload))
    database.execute("LISTEN news")
    database.call("SELECT pg_notify('news', %(text)s)", {"text": "by a call"})
    database.transact("SELECT pg_notify('news', %(text)s)", {"text": "by a transaction"}, lambda begun, row: None)
    assert heard == [("news", "by a call"), ("news", "by a transaction")]
