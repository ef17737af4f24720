"""Whom a message counts for, what it costs, what its task is called, and where the server is.

Seen to fail: _task_name() without its cut, that cuts in a character, and that keeps a NUL; Lease.__str__() without the name;
ENQUEUE in place of ENQUEUE_HANDED_ON, _subgroup_of() without its look at the group, and always false.
"""

import uuid

import pytest
from kombu import Connection, Exchange, Queue

import pgfairq.celery  # noqa: F401
from pgfairq.celery import address


def row(server):
    return server.sql("SELECT group_key, cost FROM fairq.q_celery ORDER BY id DESC LIMIT 1")[0]


@pytest.mark.parametrize("group, key", [("acme", "acme"), (42, "42"), ("", ""), (None, ""),
                                        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"), ("'; --\"ä", "'; --\"ä")])
def test_groups_of_simple_types(server, group, key):
    tasks = server.app()
    headers = {"fairq_group": str(group) if isinstance(group, uuid.UUID) else group, "fairq_cost": 2.5}
    tasks.work.apply_async(("x",), headers=headers)
    assert row(server) == (key, 2.5)


@pytest.mark.parametrize("headers, text", [({"fairq_group": 1.5}, "fairq_group is 1.5; give a text"), ({"fairq_group": True}, "fairq_group is True"),
                                           ({"fairq_group": "a\0"}, "zero byte"), ({"fairq_cost": [1]}, "fairq_cost is")])
def test_groups_and_costs_that_are_none(server, headers, text):
    tasks = server.app()
    with pytest.raises(ValueError, match=text):
        tasks.work.apply_async(("x",), headers=headers)


@pytest.mark.parametrize("options", [{}, {"serializer": "pickle"}, {"compression": "zlib"}])
def test_a_function_names_the_group(server, options):
    tasks = server.app(broker_transport_options={"group": "tasks:group_of"})
    tasks.work.apply_async(("first",), **options)
    assert row(server)[0] == "first"
    tasks.work.apply_async(("first",), {"tenant": "second"}, **options)
    assert row(server)[0] == "second"
    tasks.work.apply_async(("first",), headers={"fairq_group": "third"}, **options)
    assert row(server)[0] == "third"
    tasks = server.app(broker_transport_options={"group": tasks.group_of})
    tasks.work.apply_async((), {"tenant": 5}, **options)
    assert row(server)[0] == "5"


def test_retries_and_children_count_for_the_same_group(server, pool):
    tasks = server.app()
    tasks.fail.apply_async(("x",), headers={"fairq_group": "acme", "fairq_cost": 3})
    tasks.parent.apply_async(("y",), headers={"fairq_group": "shop"})
    server.worker(pool)
    assert [note.words for note in server.wait_notes(3, "fail")] == [["fail", "x", "acme", "3.0"]] * 3
    server.wait_notes(1, "work")
    server.wait_empty()


def test_a_task_that_is_started_by_another_is_of_its_group(server):
    tasks = server.app()
    tasks.parent.apply_async(("y",), headers={"fairq_group": "shop", "fairq_cost": 5}, queue="parents")
    server.worker("solo", arguments=["-Q", "parents"])
    server.wait_notes(1, "parent")
    server.wait_empty("parents")
    assert row(server) == ("shop", 1)


def keys(server, queue="celery"):
    return server.sql("SELECT group_key, subgroup_key, payload->'headers'->>'fairq_subgroup' FROM fairq.tasks(%s) ORDER BY id", (queue,))


DIVIDED = {"queue_options": {"subgroups": True}}


@pytest.mark.parametrize("subgroup, key", [("ann", "ann"), (42, "42"), ("", None), (None, None), ("'; --\"ä", "'; --\"ä")])
def test_subgroups_of_simple_types(server, subgroup, key):
    tasks = server.app(broker_transport_options=DIVIDED)
    tasks.work.apply_async(("x",), headers={"fairq_group": "acme", "fairq_subgroup": subgroup})
    assert keys(server) == [("acme", key, key if subgroup != "" else "")]


@pytest.mark.parametrize("subgroup, text", [(1.5, "fairq_subgroup is 1.5; give a text"), (True, "fairq_subgroup is True"), ("a\0", "zero byte")])
def test_subgroups_that_are_none(server, subgroup, text):
    tasks = server.app(broker_transport_options=DIVIDED)
    with pytest.raises(ValueError, match=text):
        tasks.work.apply_async(("x",), headers={"fairq_group": "acme", "fairq_subgroup": subgroup})


@pytest.mark.parametrize("function", ["tasks:subgroup_of", None])
def test_a_function_names_the_subgroup(server, function):
    tasks = server.app()
    tasks = server.app(broker_transport_options={**DIVIDED, "subgroup": function or tasks.subgroup_of, "group": "tasks:group_of"})
    tasks.work.apply_async(("acme",), {"user": "ann"})
    tasks.work.apply_async(("acme",), {"user": "ann"}, headers={"fairq_subgroup": "bob"})
    tasks.work.apply_async(("acme",))
    assert keys(server) == [("acme", "ann", "ann"), ("acme", "bob", "bob"), ("acme", None, None)]


def test_a_queue_without_subgroups_refuses_one(server):
    tasks = server.app()
    with pytest.raises(Exception, match="subgroup_key"):
        tasks.work.apply_async(("x",), headers={"fairq_group": "acme", "fairq_subgroup": "ann"}, retry=False)


def test_users_of_a_group_take_turns(server):
    tasks = server.app(broker_transport_options=DIVIDED)
    for user, n in (("ann", 1), ("ann", 2), ("ann", 3), ("bob", 1), ("eve", 1)):
        tasks.work.apply_async((user, n), headers={"fairq_group": "acme", "fairq_subgroup": user})
    server.sql("SELECT fairq.pause_subgroup('celery', 'acme', 'eve')")
    server.worker("solo", worker_prefetch_multiplier=1)
    served = [tuple(note.words[1:]) for note in server.wait_notes(4, "work")]
    assert sorted(served[:2]) == [("ann", "1"), ("bob", "1")] and served[2:] == [("ann", "2"), ("ann", "3")]
    server.sql("SELECT fairq.resume_subgroup('celery', 'acme', 'eve')")
    server.wait_notes(5, "work")
    server.wait_empty()


@pytest.mark.parametrize("late", [False, True])
def test_a_retry_is_of_the_same_subgroup(server, late):
    tasks = server.app(broker_transport_options=DIVIDED)
    tasks.again.apply_async(("x",), headers={"fairq_group": "acme", "fairq_subgroup": "ann"})
    server.worker("solo", task_acks_late=late)
    assert [note.words for note in server.wait_notes(2, "again")] == [["again", "x", "ann"]] * 2
    server.wait_empty()


@pytest.mark.parametrize("divided, headers, expected", [
    (True, None, ("shop", "ann", "ann")),
    (False, None, ("shop", None, "ann")),       # it does not know the queue, and goes on with the header
    (True, {"fairq_group": "other"}, ("other", None, None)),
    (True, {"fairq_subgroup": "bob"}, ("shop", "bob", "bob")),
])
def test_a_task_that_is_started_by_another_is_of_its_subgroup(server, divided, headers, expected):
    tasks = server.app(broker_transport_options=DIVIDED)
    server.sql("SELECT fairq.create_queue('children', subgroups => %s)", (divided,))
    options = {"queue": "children", **({"headers": headers} if headers else {})}
    tasks.parent.apply_async(("y",), options, headers={"fairq_group": "shop", "fairq_subgroup": "ann"}, queue="parents")
    server.worker("solo", arguments=["-Q", "parents"])
    server.wait_notes(1, "parent")
    server.wait_empty("parents")
    assert keys(server, "children") == [expected]


@pytest.mark.parametrize("url, expected", [
    ("fairq://app@db/shop", {"user": "app", "host": "db", "dbname": "shop"}),
    ("fairq://app:p%40ss@db:6000/shop?sslmode=require", {"user": "app", "password": "p@ss", "host": "db", "port": "6000", "sslmode": "require"}),
    ("fairq://app@/shop?host=/var/run/postgresql", {"user": "app", "host": "/var/run/postgresql", "dbname": "shop"}),
    ("fairq://app@%2Fvar%2Frun%2Fpostgresql/shop", {"host": "/var/run/postgresql", "dbname": "shop"}),
    ("fairq://a,b:5433/shop?target_session_attrs=read-write&keepalives_idle=60", {"host": "a,b", "target_session_attrs": "read-write", "keepalives_idle": "60"}),
    ("fairq://", {}),
])
def test_urls(url, expected):
    found = address.parameters(url, 4)
    assert {name: found[name] for name in expected} == expected
    assert found["tcp_user_timeout"] == 10000 and found["connect_timeout"] == 4 and found["client_encoding"] == "utf8"


@pytest.mark.parametrize("url, text", [("redis://x", "is not a URL of this transport; give fairq://"), ("fairq://u:secret@h/d?x=1", "invalid URI query parameter")])
def test_urls_that_are_wrong(url, text):
    with pytest.raises(ValueError, match=text) as error:
        address.parameters(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("url, shown", [("fairq://u:s3cr:et@h/d", "fairq://u:**@h/d"), ("fairq://u@h/d?password=s3cret&a=b", "fairq://u@h/d?password=**&a=b"),
                                        ("fairq://u@/d?host=/x", "fairq://u@/d?host=/x")])
def test_passwords_are_not_shown(url, shown):
    assert address.hide_password(url) == shown
    assert Connection(url).as_uri() == shown


def test_a_server_that_is_not_there(server):
    with pytest.raises(Exception, match="nowhere"):
        Connection("fairq://u@/d?host=/nowhere").connect()
    with pytest.raises(ValueError, match="sslmode"):
        Connection(server.url, ssl=True).connect()
    Queue("q")(Connection(server.url).channel()).declare()


@pytest.mark.parametrize("options", [{}, {"serializer": "pickle"}, {"compression": "zlib"}])
def test_the_task_is_the_name(server, options):
    tasks = server.app()
    tasks.work.apply_async(("x",), **options)
    assert server.sql("SELECT name, headers FROM fairq.tasks('celery')") == [("tasks.work", None)]


@pytest.mark.parametrize("task, name", [("ä" * 60, "ä" * 50), ("x" + "ä" * 60, "x" + "ä" * 49), ("a" * 100, "a" * 100), ("a\0b", "ab"), ("\ud800x", "x"),
                                        ("", None), ("\0", None)])
def test_names_that_the_server_does_not_take(server, task, name):
    tasks = server.app()
    tasks.app.send_task(task, ("x",))
    [(found, payload)] = server.sql("SELECT name, payload FROM fairq.tasks('celery')")
    assert found == name
    assert "encoded" in payload or payload["headers"]["task"] == task


def test_messages_of_no_task_have_no_name(server):
    with Connection(server.url) as connection:
        for headers in ({}, {"task": 5}):
            connection.Producer().publish({"n": 1}, routing_key="q", headers=headers, declare=[Queue("q")])
        exchange = Exchange("e", "topic")
        Queue("bound", exchange, "a.*")(connection.channel()).declare()
        connection.Producer().publish({"n": 1}, exchange=exchange, routing_key="a.b", headers={"task": "published"})
    assert server.sql("SELECT name FROM fairq.tasks('q')") == [(None,), (None,)]
    assert server.sql("SELECT name FROM fairq.tasks('bound')") == [("published",)]


def test_the_log_names_the_task(server, caplog):
    with Connection(server.url, transport_options={"queue_options": {"max_lost": 3}}) as connection:
        channel = connection.channel()
        Queue("q")(channel).declare()
        assert server.sql("SELECT max_lost FROM fairq.queues") == [(3,)]
        for name in ("shop.invoice", None):
            server.sql("SELECT fairq.enqueue('q', '[]', name => %s)", (name,))
        assert Queue("q")(channel).get() is None and Queue("q")(channel).get() is None
    said = [record.getMessage() for record in caplog.records if "no message of Celery" in record.getMessage()]
    assert [line.split(":")[0] for line in said] == ["task 1 ('shop.invoice') of queue q", "task 2 of queue q"]
