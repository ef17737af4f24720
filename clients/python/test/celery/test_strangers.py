"""A NOTIFY is a stranger's letter: any role that may connect sends it to all who listen.

Fails without the bounds of Mailboxes._whole() and room_for(), without unfit(), or without the handlers of errors in
Mailboxes.receive() and Channel._tell().
"""

import base64
import json
import os
import pickle
import random
import tracemalloc
import uuid
import zlib

import psycopg
import pytest
from kombu import Consumer
from kombu.common import Broadcast
from psycopg.conninfo import make_conninfo

from part_server import wait_until
from pgfairq.celery import broadcast, topics

PIDBOX, EVENTS = topics.channel("celery.pidbox"), topics.channel("celeryev")
NAME = "0123456789abcdef" * 2

# What the parser has to stand: numbers of 5,000 digits, nesting without end, digits and text of other kinds.
LETTERS = [
    "", " ", "  ", "\n", "x", "x 0 1", f"{NAME} 0 1", f"{NAME} 0 1 ", "x " + "1" * 5000 + " 1 a", f"{NAME} " + "1" * 5000 + " 1 a",
    f"{NAME} 0 " + "9" * 5000 + " a", f"{NAME} 0 1 " + "[" * 7700, f"{NAME} 0 1 " + '{"":' * 1900, f"{NAME} 0 1 " + "1" * 7700,
    f"{NAME} 0 1 \u0661", f"{NAME} \u0661 \u0662 a", f"{NAME} \u00b2 1 a", f"{NAME} -1 1 a", f"{NAME} 0 0 a", f"{NAME} 1 1 a",
    f"{NAME} 0 1 \"\ud7ff\"", f'{NAME} 0 1 ["\\ud800", "\\udfff"]', f"{NAME} 0 1 [1, 2]", f'{NAME} 0 1 ["a"]', f"{NAME} 0 1 NaN",
    f"{NAME} 0 1 null", f'{NAME} 0 1 ["celery." , "{{}}"]', f'{NAME} 0 1 ["celery.{"." * 7000}", "{{}}"]',
]


def boxes(heard):
    mailboxes = broadcast.Mailboxes(lambda queue, message: heard.append((queue, message)))
    mailboxes.add("q")
    mailboxes.bind("q", "celery.pidbox", "fanout", "")
    return mailboxes


def whole(mailboxes, heard, message="{}"):
    del heard[:]
    for part in broadcast.parts(topics.topic("celery.pidbox", ""), message):
        mailboxes.receive(PIDBOX, part)
    return heard == [("q", message)]


def test_no_letter_ends_the_reader():
    heard = []
    mailboxes = boxes(heard)
    for letter in LETTERS:
        mailboxes._receive(PIDBOX, letter)
        assert whole(mailboxes, heard), letter


def test_letters_of_chance():
    seed = int(os.environ.get("SEED", random.randrange(2 ** 32)))
    print("SEED =", seed)
    chance, heard = random.Random(seed), []
    mailboxes = boxes(heard)
    long = broadcast.parts(topics.topic("celery.pidbox", ""), "x" * 40000)
    for _ in range(20000):
        letter = chance.choice(LETTERS + long)
        for _ in range(chance.randrange(4)):
            at, count = chance.randrange(len(letter) + 1), chance.randrange(40)
            letter = chance.choice([letter[:at] + letter[at + count:], letter[:at] + letter[at:at + count] * 2 + letter[at:],
                                    letter[:at] + chance.choice(" 0129afxé٣[]{}\",:\\\0\x1f\U0001f600") + letter[at:]])
        mailboxes._receive(PIDBOX, letter[:8000])
    assert whole(mailboxes, heard, "y" * 40000)


def test_what_never_ends_takes_no_room():
    heard = []
    mailboxes = boxes(heard)
    tracemalloc.start()
    for number in range(20000):
        mailboxes.receive(PIDBOX, f"{number:032x} 0 2 " + "j" * 7700)
    for number in range(5000):
        mailboxes.receive(PIDBOX, f"{NAME} {number % 1000} 1000 " + "j" * 7700)
    for number in range(20000):
        mailboxes.keep("q", "k" * 20000)
    taken = sum(mailboxes.room_for("r" * 20000) for _ in range(20000))
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken == broadcast.KEPT_LETTERS // 20000
    assert memory < 2 * broadcast.KEPT_LETTERS, memory
    with pytest.raises(ValueError, match="letters at most"):
        broadcast.parts("t", "x" * (broadcast.PART * broadcast.MOST_PARTS))


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def envelope(body="{}", exchange="celery.pidbox", content="application/json", headers=None, **properties):
    delivery = {"exchange": exchange, "routing_key": properties.pop("routing_key", "")}
    return {"body": body, "content-type": content, "content-encoding": properties.pop("encoding", "utf-8"), "headers": headers or {},
            "properties": {"delivery_info": delivery, "delivery_tag": str(uuid.uuid4()), **properties}}


def wrong_letters(path):
    """(exchange, routing key, message): of the right form, and with what no sender of Celery's would put into it."""
    evil = base64.b64encode(pickle.dumps(Evil(path))).decode()
    for content in ("application/x-python-serialize", "pickle", "application/data", "application/x-yaml", None, [], {}):
        yield "celery.pidbox", "", envelope(evil, content=content, encoding="binary", body_encoding="base64")
    bomb = base64.b64encode(zlib.compress(b"x" * 100)).decode()
    yield "celery.pidbox", "", envelope(bomb, content="text/plain", encoding="zlib", body_encoding="base64")
    yield "celery.pidbox", "", envelope(bomb, headers={"compression": "application/x-gzip"}, body_encoding="base64")
    for body in ("", "[", "[" * 100000, "null", "[]", "1", '"x"', '{"method": 1}', '{"method": "shutdown", "arguments": 1}', '{"method": "ping", "reply_to": 1}',
                 '{"method": "revoke", "arguments": {"task_id": [[]]}}', '{"method": "no such"}', '{"destination": 3, "method": "ping"}', "1" * 5000):
        yield "celery.pidbox", "", envelope(body)
        yield "celeryev", "worker.heartbeat", envelope(body, exchange="celeryev", routing_key="worker.heartbeat")
        yield "celeryev", "worker.online", envelope(body, exchange="celeryev", routing_key="worker.online")
    for headers in ({"clock": "x"}, {"hostname": []}, {"clock": {}}, {"expires": "never"}, []):
        yield "celery.pidbox", "", envelope('{"method": "ping"}', headers=headers)
        yield "celeryev", "worker.heartbeat", envelope('{"hostname": 1}', exchange="celeryev", headers=headers)
    for properties in ({"body_encoding": "rot13"}, {"body_encoding": 7}, {"delivery_info": 1}, {"delivery_info": {}}, {"priority": "x"}):
        yield "celery.pidbox", "", {**envelope(), "properties": properties}
        yield "celeryev", "worker.heartbeat", {**envelope(exchange="celeryev"), "properties": properties}
    for message in (1, [], {}, {"task": "tasks.work"}, {"encoded": "x"}, {"encoded": base64.b64encode(b"[" * 100000).decode()}, {"body": 1, "properties": []}):
        yield "celery.pidbox", "", message


def test_a_worker_stands_them_all(server, pool):
    path = os.path.join(server.directory, "pickled")
    tasks = server.app()
    worker = server.worker(pool, accept_content=["json", "pickle", "yaml"]).wait_ready()
    if not server.sql("SELECT 1 FROM pg_roles WHERE rolname = 'nothing_but_connect'"):
        server.sql("CREATE ROLE nothing_but_connect LOGIN")
    tasks.work.delay("before")
    server.wait_notes(1, "work")
    session = server.sql("SELECT session FROM fairq.sessions")
    with psycopg.connect(make_conninfo(server.conninfo, user="nothing_but_connect"), autocommit=True) as stranger:
        def send(channel, parts):
            with stranger.transaction():
                for part in parts:
                    stranger.execute("SELECT pg_notify(%s, %s)", (channel, part))

        for letter in LETTERS:
            send(PIDBOX, [letter.encode("utf-8", "replace").decode().replace("\0", "")[:7900]])
        send(PIDBOX, [f"{number:032x} 0 2 j" for number in range(3000)])
        for exchange, key, message in wrong_letters(path):
            send(topics.channel(exchange), broadcast.parts(topics.topic(exchange, key), json.dumps(message)))
    wait_until(lambda: tasks.app.control.inspect(timeout=60, limit=1).ping() == {"w1@test": {"ok": "pong"}}, "it answers")
    tasks.work.delay("after")
    server.wait_notes(2, "work")
    assert worker.process.poll() is None
    assert server.sql("SELECT session FROM fairq.sessions") == session, worker.log()
    log = worker.log()
    assert not os.path.exists(path), "a pickle of a stranger was read"
    assert "broadcasts are JSON, or text" in log and "ConnectionLost" not in log and "Unrecoverable" not in log, log


def test_a_listener_of_ours_stands_them_too(server):
    """A consumer of an application's, with pickles and all in its accept: they are not even shown to it."""
    path, got = os.path.join(server.directory, "pickled"), []
    tasks = server.app()
    with tasks.app.connection_for_write() as connection:
        consumer = Consumer(connection.channel(), [Broadcast("everywhere")], accept=["json", "pickle"],
                            callbacks=[lambda body, message: (got.append(body), message.ack())])
        consumer.consume()
        exchange = consumer.queues[0].exchange
        evil = base64.b64encode(pickle.dumps(Evil(path))).decode()
        message = envelope(evil, "everywhere", "application/x-python-serialize", encoding="binary", body_encoding="base64")
        for part in broadcast.parts(topics.topic("everywhere", ""), json.dumps(message)):
            server.sql("SELECT pg_notify(%s, %s)", (topics.channel("everywhere"), part))
        connection.Producer().publish({"n": 1}, exchange=exchange, declare=[exchange], serializer="pickle")
        connection.Producer().publish({"n": 2}, exchange=exchange, declare=[exchange])
        wait_until(lambda: connection.drain_events(timeout=60) or got, "what is JSON arrives")
    assert got == [{"n": 2}] and not os.path.exists(path)
