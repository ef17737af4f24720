"""The subject of the adversary (clients/conformance.md): the library with threads.

    threads.py work|enqueue|transact|await QUEUE [commit|rollback]
"""

import json
import os
import signal
import sys
import time

import psycopg

from pgfairq import Queue, TaskFailed, Worker

queue = Queue("", sys.argv[2])


def write(table, key):
    """On a connection of its own: whatever becomes of the task."""
    with psycopg.connect(autocommit=True) as connection:
        connection.execute(f"INSERT INTO conformance.{table} (key, pid) VALUES (%s, %s)", (key, os.getpid()))


def begin(payload):
    """Whether it is the first time."""
    write("started", payload["key"])
    with psycopg.connect(autocommit=True) as connection:
        began = connection.execute("SELECT count(*) FROM conformance.started WHERE key = %s", (payload["key"],)).fetchone()
    return began == (1,)


def wait_for(path):
    while path and not os.path.exists(path):
        time.sleep(0.02)


def wait(payload):
    time.sleep(payload.get("ms", 0) / 1000)
    wait_for(payload.get("until"))


def end(payload, context):
    """The row and the acknowledgement are one transaction."""
    context.connection.execute("INSERT INTO conformance.effects (key, pid) VALUES (%s, %s)", (payload["key"], os.getpid()))
    wait_for(payload.get("hold"))
    return {"key": payload["key"]}


@queue.task("effect")
def effect(payload, context):
    begin(payload)
    wait(payload)
    return end(payload, context)


@queue.task("plain")
def plain(payload, context):
    begin(payload)
    wait(payload)
    write("effects", payload["key"])
    wait_for(payload.get("hold"))
    return {"key": payload["key"]}


@queue.task("compute")
def compute(payload, context):
    begin(payload)
    until = time.monotonic() + payload["ms"] / 1000
    while time.monotonic() < until:
        pass
    return end(payload, context)


@queue.task("block")
def block(payload, context):
    first = begin(payload)
    while first and not os.path.exists(payload["until"]):
        pass
    return end(payload, context)


@queue.task("fail")
def fail(payload, context):
    begin(payload)
    raise RuntimeError(payload["message"])


@queue.task("final")
def final(payload, context):
    begin(payload)
    context.fail(payload["message"])


@queue.task("poison")
def poison(payload, context):
    begin(payload)
    os.kill(os.getpid(), signal.SIGKILL)


@queue.task("snooze")
def snooze(payload, context):
    if begin(payload):
        context.snooze(payload["ms"] / 1000)
    write("effects", payload["key"])
    return {"key": payload["key"]}


def enqueue(task, connection=None):
    payload = task.pop("payload")
    return queue.enqueue(payload, name=payload["do"], connection=connection, **task)


def main(verb, *rest):
    if verb == "work":
        Worker(queue, concurrency=int(os.environ.get("CONCURRENCY", 2)), ttl=float(os.environ.get("LEASE", 2))).run()
        return
    tasks = [json.loads(line) for line in sys.stdin]
    if verb == "enqueue":
        for task in tasks:
            print(json.dumps(enqueue(task)))
    elif verb == "transact":
        with psycopg.connect() as connection, connection.transaction(force_rollback=rest == ("rollback",)):
            for task in tasks:
                connection.execute("INSERT INTO conformance.orders (key) VALUES (%s)", (task["payload"]["key"],))
                enqueue(task, connection)
    elif verb == "await":
        try:
            print(json.dumps(queue.await_result(enqueue(tasks[0]), float(os.environ.get("TIMEOUT", 60)))))
        except TaskFailed as error:
            print(json.dumps({"failed": str(error).splitlines()[0]}))


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[3:])
