"""Messages, queues and exchanges: what kombu asks of any transport, asked of this one.

Seen to fail: a claim that begins in the turn of a delivery, with _claim_is_put_off() that says no, and one that never
does, with one that does not wake the loop; the requeue with a claim that does not wait until the task is back in its place.
"""

import contextlib
import json
import socket
import threading

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.asynchronous import Hub
from kombu.exceptions import ChannelError, OperationalError

import pgfairq.celery  # noqa: F401
from pgfairq.celery.claimer import Claimer
from part_server import wait_until


@pytest.fixture
def connect(server):
    with contextlib.ExitStack() as stack:
        def connect(**options):
            options = {"claim_wait": 600, **options}
            return stack.enter_context(Connection(server.url, transport_options=options))
        yield connect


def send(connection, queue, *bodies, **options):
    producer = connection.Producer()
    for body in bodies:
        producer.publish(body, routing_key=queue, declare=[Queue(queue)], **options)


class Receiver:
    """A consumer that keeps what it gets."""

    def __init__(self, connection, *queues, prefetch=0, **options):
        self.connection, self.messages = connection, []
        self.channel = connection.channel()
        self.channel.basic_qos(0, prefetch, False)
        queues = [Queue(queue) if isinstance(queue, str) else queue for queue in queues]
        self.consumer = Consumer(self.channel, queues, callbacks=[lambda body, message: self.messages.append(message)],
                                 accept=["json", "pickle", "text/plain", "application/data"], **options)
        self.consumer.consume()

    def get(self, count=1):
        while len(self.messages) < count:
            self.connection.drain_events(timeout=120)
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken

    def nothing(self):
        """Nothing more, as far as the server has said by now."""
        with pytest.raises(socket.timeout):
            while True:
                self.connection.drain_events(timeout=0.3)
        assert self.messages == []


def leases(server):
    return server.sql("SELECT count(*) FROM fairq.leases")[0][0]


def test_a_message_is_gone_when_it_is_acknowledged(server, connect):
    connection = connect()
    send(connection, "q", {"n": 1}, headers={"h": [1, "ä"]})
    [message] = Receiver(connection, "q").get()
    assert message.payload == {"n": 1} and message.headers["h"] == [1, "ä"] and not message.delivery_info["redelivered"]
    assert server.tasks("q") == {"leased": 1}
    message.ack()
    wait_until(lambda: server.tasks("q") == {}, "the ack")


def test_get_and_a_simple_queue(server, connect):
    connection = connect()
    assert Queue("q")(connection.channel()).declare() and Queue("q")(connection.channel()).get() is None
    with connection.SimpleQueue("q") as queue:
        queue.put({"a": 1})
        queue.put({"a": 2})
        assert queue.qsize() == 2
        assert queue.get(timeout=120).payload == {"a": 1}
    # What the queue's consumer had claimed ahead goes back a moment after it has ended.
    message = wait_until(lambda: Queue("q")(connection.channel()).get(accept=["json"]), "the second message")
    message.ack()
    wait_until(lambda: server.tasks("q").get("leased", 0) <= 1, "the ack of what was got")


def test_reject(server, connect):
    connection = connect()
    send(connection, "q", 1, 2, 3)
    receiver = Receiver(connection, "q", prefetch=1)
    [message] = receiver.get()
    message.requeue()  # it keeps its place, and no attempt is counted
    [message] = receiver.get()
    assert message.payload == 1 and not message.delivery_info["redelivered"]
    message.reject()  # it is dead, for somebody to look at
    [message] = receiver.get()
    assert message.payload == 2
    wait_until(lambda: server.tasks("q") == {"dead": 1, "leased": 1, "ready": 1}, "one is dead")
    assert server.sql("SELECT payload->>'body', last_error FROM fairq.dead_tasks") == [("1", "rejected")]
    assert server.sql("SELECT fairq.revive_all('q')") == [(1,)]
    assert [message.payload for message in [message] if message.ack() is None] == [2]
    assert sorted(receiver.get()[0].payload for _ in range(1)) == [3]


def test_no_more_than_the_prefetch_count_is_claimed(server, connect):
    connection = connect()
    send(connection, "q", *range(10))
    receiver = Receiver(connection, "q", prefetch=3)
    first = receiver.get(3)
    receiver.nothing()
    assert server.tasks("q") == {"leased": 3, "ready": 7}
    first[0].ack()
    assert receiver.get()[0].payload == 3
    receiver.nothing()
    wait_until(lambda: server.tasks("q") == {"leased": 3, "ready": 6}, "one more")
    first[2].ack(multiple=True)  # and the one before it
    assert [message.payload for message in receiver.get(2)] == [4, 5]
    receiver.channel.basic_qos(0, 0, False)  # no limit
    assert [message.payload for message in receiver.get(4)] == [6, 7, 8, 9]


def test_what_is_not_acknowledged_is_back_when_the_connection_closes(server, connect):
    connection = connect()
    send(connection, "q", 1, 2, 3)
    Receiver(connection, "q").get(3)[0].ack()
    connection.release()
    assert server.tasks("q") == {"ready": 2}
    assert {attempts for attempts, in server.sql("SELECT attempts FROM fairq.tasks('q')")} == {0}
    assert server.sql("SELECT count(*) FROM fairq.sessions") == [(0,)]


def test_in_an_event_loop_the_next_claim_leaves_a_turn_to_what_was_delivered(server, connect, monkeypatch):
    """In which a worker gives it to its pool."""
    connection = connect()
    send(connection, "q", 1, 2, 3)
    receiver = Receiver(connection, "q")
    happened, turn, start = [], 0, Claimer.start

    def noted(claimer, *arguments):
        happened.append((turn, "claim"))
        start(claimer, *arguments)

    monkeypatch.setattr(Claimer, "start", noted)
    receiver.consumer.callbacks.append(lambda body, message: happened.append((turn, body)))
    hub = Hub()
    connection.transport.register_with_event_loop(connection, hub)
    loop = hub.create_loop()
    sent = False
    while len(happened) < 7:
        turn += 1
        next(loop)
        if len(happened) == 5 and not sent:  # a claim, three messages, and the next claim, which waits
            send(connect(), "q", 4)
            sent = True
    turns = {what: when for when, what in reversed(happened)}
    assert [what for _, what in happened] == ["claim", 1, 2, 3, "claim", 4, "claim"]
    assert [when for when, what in happened if what == "claim"][1:] == [turns[3] + 2, turns[4] + 2]
    hub.close()


def test_a_wait_is_ended_by_a_message(server, connect):
    connection, other = connect(), connect()
    receiver = Receiver(connection, "q")
    receiver.nothing()
    timer = threading.Timer(0.2, send, (other, "q", "hello"))
    timer.start()
    connection.drain_events(timeout=300)  # less than a claim waits, more than the patience of a test
    timer.join()
    assert [message.payload for message in receiver.messages] == ["hello"]


def test_a_consumer_without_acks(server, connect):
    connection = connect()
    send(connection, "q", 1, 2)
    assert [message.payload for message in Receiver(connection, "q", no_ack=True).get(2)] == [1, 2]
    wait_until(lambda: server.tasks("q") == {}, "gone with the delivery")


def test_a_cancelled_consumer_gets_nothing(server, connect):
    connection = connect()
    receiver = Receiver(connection, "a", "b")
    receiver.nothing()  # a claim of both is under way
    receiver.consumer.cancel_by_queue("a")
    send(connect(), "a", 1)
    send(connect(), "b", 2)
    assert [message.payload for message in receiver.get()] == [2]
    receiver.nothing()
    assert server.tasks("a") == {"ready": 1}
    receiver.consumer.add_queue(Queue("a"))
    receiver.consumer.consume()
    assert [message.payload for message in receiver.get()] == [1]


def test_queues_have_their_turns(server, connect):
    connection = connect()
    for queue in "abc":
        send(connection, queue, *(f"{queue}{n}" for n in range(3)))
    receiver = Receiver(connection, "a", "b", "c", prefetch=1)
    order = []
    for _ in range(9):
        [message] = receiver.get()
        order.append(message.payload)
        message.ack()
    assert order == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_or_the_first_queue_goes_first(server, connect):
    connection = connect(queue_order_strategy="priority")
    send(connection, "low", *"xy")
    send(connection, "high", *"ab")
    receiver = Receiver(connection, "high", "low", prefetch=1)
    order = []
    for _ in range(4):
        [message] = receiver.get()
        order.append(message.payload)
        message.ack()
    assert order == ["a", "b", "x", "y"]


def test_too_many_queues(server, connect):
    connection = connect()
    Receiver(connection, *(f"q{n}" for n in range(33)))
    with pytest.raises(ChannelError, match="32 queues at most, not from 33"):
        connection.drain_events(timeout=1)


@pytest.mark.parametrize("order, urgent", [("amqp", [9, 5, 0]), ("redis", [0, 5, 9])])
def test_priorities(server, connect, order, urgent):
    connection = connect(priority_order=order)
    for priority in (5, 9, 0):
        send(connection, "q", priority, priority=priority)
    assert [message.payload for message in Receiver(connection, "q").get(3)] == urgent


def test_exchanges(server, connect):
    """The bindings are the server's: another connection publishes."""
    connection, other = connect(), connect()
    for kind, key in [("direct", "eu.orders"), ("topic", "*.orders.#"), ("fanout", "")]:
        channel = connection.channel()
        Queue(f"q-{kind}", Exchange(f"x.{kind} *", kind), routing_key=key)(channel).declare()
    for kind in ("direct", "topic", "fanout"):
        producer = other.Producer()
        for key in ("eu.orders", "eu.orders.new", "orders", "eu..orders", "#", ""):
            producer.publish(key, exchange=Exchange(f"x.{kind} *", kind), routing_key=key)
    got = {kind: [row for row, in server.sql("SELECT payload->>'body' FROM fairq.peek(%s)", (f"q-{kind}",))] for kind in ("direct", "topic", "fanout")}
    assert got["direct"] == ["eu.orders"]
    assert got["topic"] == ["eu.orders", "eu.orders.new"]
    assert len(got["fanout"]) == 6
    bindings = {(binding["destination"], binding["source"], binding["routing_key"]) for binding in connection.transport.get_manager().get_bindings()}
    assert bindings == {("q-direct", "x.direct *", "eu.orders"), ("q-topic", "x.topic *", "*.orders.#"), ("q-fanout", "x.fanout *", "#")}
    Queue("q-direct", Exchange("x.direct *", "direct"), routing_key="eu.orders")(connection.channel()).unbind_from(Exchange("x.direct *", "direct"), "eu.orders")
    Exchange("x.topic *", "topic")(connection.channel()).delete()
    assert server.sql("SELECT queue FROM fairq.topics") == [("q-fanout",)]
    with pytest.raises(ChannelError, match="'headers'; this transport has direct, topic and fanout"):
        Exchange("h", "headers")(connection.channel()).declare()


def test_transient_queues(server, connect):
    """Those that are deleted with their consumer: they hear what is sent while they are there, and leave nothing."""
    connection, other = connect(), connect()
    events = Exchange("events", "topic", durable=False)
    receivers = [Receiver(connection, Queue(name, events, routing_key=key, auto_delete=True)) for name, key in [("all", "#"), ("eu", "eu.*")]]
    large = "x" * 100_000
    for key, body in [("eu.new", "1"), ("us.new", large), ("eu.old", "3")]:
        other.Producer().publish(body, exchange=events, routing_key=key)
    assert [message.payload for message in receivers[0].get(3)] == ["1", large, "3"]
    assert [message.payload for message in receivers[1].get(2)] == ["1", "3"]
    for receiver in receivers:
        receiver.consumer.cancel()
    other.Producer().publish("late", exchange=events, routing_key="eu.new")
    assert server.sql("SELECT queue FROM fairq.queues") == []
    assert connection.default_channel.connection.mailboxes.channels() == set()


def test_what_a_queue_says_of_itself(server, connect):
    connection = connect()
    channel = connection.channel()
    with pytest.raises(ChannelError, match="NOT_FOUND - no queue 'q'"):
        Queue("q")(channel).queue_declare(passive=True)
    send(connection, "q", 1, 2, 3)
    assert Queue("q")(channel).queue_declare(passive=True).message_count == 3
    assert Queue("q")(channel).purge() == 3
    Queue("q")(channel).delete()
    Queue("q")(channel).delete()
    assert server.sql("SELECT queue FROM fairq.queues") == []
    with pytest.raises((ChannelError, OperationalError), match="there is no queue 'q'; declare it"):
        Producer(channel).publish(1, routing_key="q")


def test_options_of_queues(server, connect):
    connection = connect(queue_options={"max_attempts": 3, "keep_done": "1 day", "backoff_base": "5 s", "class_weights": [4, 2.5]})
    Queue('a "queue"', message_ttl=60, queue_arguments={"x-message-ttl": 60000})(connection.channel()).declare()
    assert server.sql("SELECT queue, max_attempts, keep_done::text, backoff_base::text, expire_after::text, class_weights FROM fairq.queues") == [
        ('a "queue"', 3, "1 day", "00:00:05", "00:01:00", [4, 2.5])]


@pytest.mark.parametrize("body, options", [
    (b"\x00\xff\x80", {"content_type": "application/data", "content_encoding": "binary"}),
    ({"a": b"\0"}, {"serializer": "pickle"}),
    ({"text": "\0 \ud83d \U0001f600"}, {}),
    ({"long": "ab" * 10000}, {"compression": "zlib"}),
    ([], {"headers": {"zero\0": "\0", "half": "\udc00", "back": "\\u0000"}}),
])
def test_bodies_come_as_they_were(server, connect, body, options):
    connection = connect()
    send(connection, "q", body, **options)
    [message] = Receiver(connection, "q").get()
    assert message.payload == body
    for name, value in options.get("headers", {}).items():
        assert message.headers[name] == value


def test_what_is_no_message_is_dead_and_the_others_go_on(server, connect):
    connection = connect()
    send(connection, "q", "before")
    bad = ["null", "[]", '{"body": 1}', '{"body": 1, "properties": {"delivery_info": 7}}', '{"task": "t", "args": 1}', '{"encoded": "%"}',
           '"' + "[" * 5 + '"', "[" * 3000 + "]" * 3000]
    for payload in bad:
        server.sql("SELECT fairq.enqueue('q', %s::jsonb)", (payload,))
    send(connection, "q", "after")
    assert [message.payload for message in Receiver(connection, "q").get(2)] == ["before", "after"]
    wait_until(lambda: server.tasks("q") == {"leased": 2, "dead": len(bad)}, "they are dead")
    errors = {error for error, in server.sql("SELECT last_error FROM fairq.dead_tasks")}
    assert all("payload" in error or "headers" in error or "arguments are a list" in error for error in errors), errors


def test_a_message_that_expires(server, connect):
    connection = connect()
    send(connection, "q", "short", expiration=0.001)
    send(connection, "q", "long", expiration=3600)
    [message] = Receiver(connection, "q").get()
    assert message.payload == "long"
    wait_until(lambda: server.tasks("q") == {"leased": 1}, "the other has expired")


def test_options_that_are_wrong(server, connect, caplog):
    for options, text in [({"session_ttl": 0}, "session_ttl is 0.0; give seconds"), ({"priority_order": "x"}, "give 'amqp'"),
                          ({"queue_order_strategy": "x"}, "give one of round_robin"), ({"queue_options": {"x": 1}}, "queue_options has 'x'"),
                          ({"group": 7}, "^group is 7"), ({"subgroup": 7}, "^subgroup is 7"), ({"claim_wait": 0}, "claim_wait is 0.0")]:
        with pytest.raises(ValueError, match=text):
            connect(**options).connect()
    connect(visibility_timeout=3600).connect()
    assert "visibility_timeout has no effect" in caplog.text


def test_who_may_only_enqueue(server, connect, caplog):
    send(connect(), "q", 1)
    server.sql("CREATE ROLE web LOGIN; GRANT INSERT ON fairq.q_q TO web")
    try:
        url = server.url.replace("postgres@", "web@")
        with Connection(url) as connection:
            send(connection, "q", 2)
            receiver = Receiver(connection, "q")
            while "permission denied" not in caplog.text:
                with contextlib.suppress(socket.timeout):
                    connection.drain_events(timeout=0.1)
            assert receiver.messages == []
    finally:
        server.sql("DROP OWNED BY web; DROP ROLE web")
    assert server.tasks("q") == {"ready": 2}


def test_messages_of_sql(server, connect):
    send(connect(), "q", 1)
    server.sql("""SELECT fairq.purge('q'), fairq.enqueue('q', '{"task": "tasks.add", "args": [1, 2], "id": "one"}', group_key => 'acme')""")
    [message] = Receiver(connect(), "q").get()
    assert message.headers["task"] == "tasks.add" and message.headers["id"] == "one" and message.headers["fairq_group"] == "acme"
    assert json.loads(message.body)[:2] == [[1, 2], {}] and "fairq_subgroup" not in message.headers


def test_messages_of_sql_with_a_subgroup(server, connect):
    server.sql("SELECT fairq.create_queue('q', subgroups => true)")
    for _ in range(2):
        server.sql("""SELECT fairq.enqueue('q', '{"task": "tasks.add"}', group_key => 'acme', subgroup_key => 'ann')""")
    one = Queue("q")(connect().channel()).get()
    [other] = Receiver(connect(), "q").get()
    assert [message.headers["fairq_subgroup"] for message in (one, other)] == ["ann", "ann"]
