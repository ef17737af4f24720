"""Remote control, events and broadcasts: they go by NOTIFY, and leave nothing in the database.
"""

import threading

from kombu import Consumer
from kombu.common import Broadcast

from part_server import wait_until


def test_remote_control(server, pool):
    tasks = server.app()
    worker = server.worker(pool, concurrency=2)
    inspect = tasks.app.control.inspect(timeout=60, limit=1)
    worker.wait_ready()
    wait_until(lambda: inspect.ping() == {"w1@test": {"ok": "pong"}}, "an answer")
    assert [queue["name"] for queue in inspect.active_queues()["w1@test"]] == ["celery"]
    assert inspect.stats()["w1@test"]["broker"]["transport"] == "fairq"
    assert len(str(inspect.registered()["w1@test"])) > 100
    tasks.app.control.add_consumer("more", reply=True, timeout=60, limit=1)
    tasks.work.apply_async(("of another queue",), queue="more")
    server.wait_notes(1, "work")
    tasks.app.control.cancel_consumer("more", reply=True, timeout=60, limit=1)
    tasks.work.apply_async(("nobody takes it",), queue="more")
    tasks.work.delay("of the first queue")
    assert server.wait_notes(2, "work")[1].words[1:] == ["of", "the", "first", "queue"]
    assert server.tasks("more") == {"ready": 1}
    tasks.app.control.broadcast("shutdown")
    assert worker.wait() == 0
    assert server.sql("SELECT queue FROM fairq.queues ORDER BY queue") == [("celery",), ("more",)]


def test_revoke(server):
    tasks = server.app()
    worker = server.worker().wait_ready()
    task = tasks.work.apply_async(("never",), countdown=20)
    tasks.app.control.revoke(task.id, reply=True, timeout=60, limit=1)
    server.wait_empty()
    assert server.notes("work") == [] and "revoked" in worker.log()


def test_events(server):
    tasks = server.app()
    got, wanted = [], ["task-received", "task-started", "task-succeeded"]

    def listen():
        with tasks.app.connection_for_read() as connection:
            receiver = tasks.app.events.Receiver(connection)

            def hear(event):
                got.append(event["type"])
                receiver.should_stop = set(wanted) <= set(got)

            receiver.handlers = {"*": hear}
            receiver.capture(timeout=120)

    listener = threading.Thread(target=listen)
    listener.start()
    server.worker(arguments=["-E"])
    wait_until(lambda: "worker-online" in got or "worker-heartbeat" in got, "it hears of the worker")
    tasks.work.delay("x")
    listener.join(120)
    assert [event for event in got if event in wanted][:3] == wanted


def test_a_broadcast_goes_to_all_who_listen(server):
    tasks = server.app()
    got = []
    with tasks.app.connection_for_write() as connection, tasks.app.connection_for_write() as other:
        consumers = [Consumer(one.channel(), [Broadcast("everywhere")], accept=["json"],
                              callbacks=[lambda body, message: (got.append(body), message.ack())]) for one in (connection, other)]
        for consumer in consumers:
            consumer.consume()
        exchange = consumers[0].queues[0].exchange
        connection.Producer().publish({"n": 1}, exchange=exchange, declare=[exchange])
        connection.drain_events(timeout=120)
        other.drain_events(timeout=120)
    assert got == [{"n": 1}] * 2
    assert server.sql("SELECT queue FROM fairq.queues") == []
