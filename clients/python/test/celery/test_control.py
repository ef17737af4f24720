"""Remote control, events and broadcasts: they go by NOTIFY, and leave nothing in the database.

Seen to fail: with the notifications that come with an answer not told (psycopg tells a handler only).
"""

import threading

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
    task = tasks.work.apply_async(("never",), countdown=2)
    tasks.app.control.revoke(task.id, reply=True, timeout=60, limit=1)
    server.wait_empty()
    assert server.notes("work") == [] and "revoked" in worker.log()


def test_events(server, pool):
    tasks = server.app()
    got, ready = [], threading.Event()
    wanted = ["task-received", "task-started", "task-succeeded"]

    def listen():
        with tasks.app.connection_for_read() as connection:
            receiver = tasks.app.events.Receiver(connection, handlers={"*": lambda event: got.append(event["type"])})
            with receiver.consumer_context():
                ready.set()
                while not set(wanted) <= set(got):
                    receiver.connection.drain_events(timeout=120)

    listener = threading.Thread(target=listen)
    listener.start()
    ready.wait()
    server.worker(pool, arguments=["-E"])
    tasks.work.delay("x")
    listener.join(120)
    assert [event for event in got if event in wanted][:3] == wanted
    assert "worker-online" in got


def test_a_broadcast_goes_to_each_worker(server):
    tasks = server.app()
    queues = {"task_queues": [{"name": "celery"}]}
    del queues
    for name in ("w1", "w2"):
        server.worker("solo", name=name, arguments=["-Q", "celery"], worker_broadcast_test=True).wait_ready()
    with tasks.app.connection_for_write() as connection:
        queue = Broadcast("everywhere")
        channels = [connection.channel(), connection.channel()]
        got = []
        for channel in channels:
            from kombu import Consumer
            consumer = Consumer(channel, [Broadcast("everywhere")], callbacks=[lambda body, message: (got.append(body), message.ack())], accept=["json"])
            consumer.consume()
        connection.Producer().publish({"n": 1}, exchange=queue.exchange, declare=[queue.exchange])
        while len(got) < 2:
            connection.drain_events(timeout=120)
    assert got == [{"n": 1}] * 2
