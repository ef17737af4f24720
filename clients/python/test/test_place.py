"""Where a worker of a cluster works, without one: what it asks, and what it makes of the answer.
test/t/cluster_clients.pl has the cluster.

Seen to fail: with the own host let stand in conninfo_at(); without the pop in found(); without the
shutdown in hang_up().
"""

import time

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgfairq import Queue, Worker, place
from pgfairq.attendance import Attendance
from pgfairq.place import GuideBase, Node, Watch, conninfo_at

NODE = Node(2, "dbname=two", 3)


def test_the_connection_to_a_node():
    own = {"host": "proxy", "hostaddr": "10.0.0.9", "port": "7", "dbname": "px", "user": "ann", "password": "it's",
           "sslmode": "verify-full", "connect_timeout": "10", "target_session_attrs": "any", "application_name": "pgfairq"}
    found = conninfo_to_dict(conninfo_at("host=a,b dbname=app target_session_attrs=read-write connect_timeout=2 sslmode=prefer", own))
    assert found == {"host": "a,b", "dbname": "app", "target_session_attrs": "read-write", "connect_timeout": "2", "user": "ann",
                     "password": "it's", "sslmode": "verify-full", "application_name": "pgfairq"}


def test_when_to_ask():
    guide = GuideBase(Attendance(["emails"], "claimed from"))
    assert guide.due_in() == float("inf")       # not known to be at a proxy
    guide.is_proxy = True
    assert guide.due_in() == 0
    guide.pause = 40.0
    guide.postpone()
    assert 25 < guide.due_in() <= 50
    guide.found(NODE, 0)
    assert guide.due_in() > 25                  # it was empty before
    guide.found(NODE, 5)
    guide.found(NODE, 0)
    assert guide.due_in() <= 15


def test_nodes_that_are_not_reached():
    guide = GuideBase(Attendance(["emails"], "claimed from"))
    assert guide.question("s", ["emails"]).parameters == (["emails"], "s", [])
    guide.unreached(NODE)
    assert guide.question(None, ["emails"]).parameters == (["emails"], None, [2])
    first = guide._unreached[2][0] - time.monotonic()
    for _ in range(10):
        guide.unreached(NODE)
    assert first <= 5 and 29 < guide._unreached[2][0] - time.monotonic() <= 60
    guide.found(NODE, 0)
    assert guide.question(None, ["emails"]).parameters == (["emails"], None, [])


def test_a_call_that_is_not_answered(database, monkeypatch):
    monkeypatch.setattr(place, "PATIENCE", 0.2)
    watch = Watch()
    with psycopg.connect(database) as other, watch.within(other):
        other.execute("SELECT 1")
    connection = psycopg.connect(database)
    with pytest.raises(psycopg.OperationalError), watch.within(connection):
        connection.execute("SELECT pg_sleep(600)")
    assert connection.closed


def test_a_database_that_is_no_proxy(make_queue):
    queue = make_queue()
    queue.task("x")(lambda payload, context: None)
    queue.enqueue(1, name="x")
    worker = Worker(queue)
    worker.run(drain=True)
    assert queue.stats().acked == 1
