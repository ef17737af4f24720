"""The subject of the adversary (clients/conformance.md): Celery, with pgfairq as its broker and its result backend.

    celery_app.py work|enqueue|transact|await QUEUE [commit|rollback]

Messages are acknowledged when their tasks have ended, and are put back when their process dies. Those whose task
has failed are kept, as dead.
"""

import json
import os
import signal
import sys
import time
from contextlib import contextmanager

import psycopg
from celery import Celery
from celery.exceptions import Reject

import pgfairq.celery  # noqa: F401

URL = f"fairq://{os.environ['PGUSER']}@/{os.environ['PGDATABASE']}"
QUEUE = sys.argv[2]

app = Celery("conformance", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, task_acks_on_failure_or_timeout=False, task_default_queue=QUEUE,
    worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True, broker_connection_max_retries=None,
    broker_transport_options={"session_ttl": float(os.environ.get("LEASE", 2))})


@contextmanager
def or_again():
    """Without a database the task goes back to its place."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise Reject(error, requeue=True) from error


def write(table, key):
    with or_again(), psycopg.connect(autocommit=True) as connection:
        connection.execute(f"INSERT INTO conformance.{table} (key, pid) VALUES (%s, %s)", (key, os.getpid()))


def begin(payload):
    """Whether it is the first time."""
    write("started", payload["key"])
    with or_again(), psycopg.connect(autocommit=True) as connection:
        began = connection.execute("SELECT count(*) FROM conformance.started WHERE key = %s", (payload["key"],)).fetchone()
    return began == (1,)


def wait_for(path):
    while path and not os.path.exists(path):
        time.sleep(0.02)


def end(payload):
    """Celery acknowledges after the task: so it is done at least once."""
    write("effects", payload["key"])
    wait_for(payload.get("hold"))
    return {"key": payload["key"]}


def effect(payload):
    begin(payload)
    time.sleep(payload.get("ms", 0) / 1000)
    wait_for(payload.get("until"))
    return end(payload)


app.task(name="effect")(effect)
app.task(name="plain")(effect)


@app.task(name="compute")
def compute(payload):
    begin(payload)
    until = time.monotonic() + payload["ms"] / 1000
    while time.monotonic() < until:
        pass
    return end(payload)


@app.task(name="block")
def block(payload):
    first = begin(payload)
    while first and not os.path.exists(payload["until"]):
        pass
    return end(payload)


@app.task(name="fail", bind=True)
def fail(self, payload):
    begin(payload)
    raise self.retry(exc=RuntimeError(payload["message"]), countdown=2 ** self.request.retries, max_retries=payload["attempts"] - 1)


@app.task(name="final")
def final(payload):
    begin(payload)
    raise Reject(RuntimeError(payload["message"]), requeue=False)


@app.task(name="poison")
def poison(payload):
    begin(payload)
    os.killpg(0, signal.SIGKILL)    # as where a machine has no memory left: the worker and all of its pool


@app.task(name="snooze")
def snooze(payload):
    if begin(payload):
        raise Reject("not yet", requeue=True)
    return end(payload)


def send(task):
    payload = task["payload"]
    headers = {"fairq_group": task["group"]} if "group" in task else None
    return app.tasks[payload["do"]].apply_async((payload,), headers=headers)


def send_with_sql(connection, task):
    """In the transaction of the data; also what Celery has no word for."""
    message = {"task": task["payload"]["do"], "args": [task["payload"]]}
    return connection.execute("SELECT fairq.enqueue(%s, %s, unique_key => %s, group_key => %s)",
                              (QUEUE, json.dumps(message), task.get("unique_key"), task.get("group", ""))).fetchone()[0]


def transact(tasks, end_as):
    with psycopg.connect() as connection, connection.transaction(force_rollback=end_as == "rollback"):
        for task in tasks:
            connection.execute("INSERT INTO conformance.orders (key) VALUES (%s)", (task["payload"]["key"],))
            send_with_sql(connection, task)


def main(verb, *rest):
    if verb == "work":
        app.worker_main(["worker", "-P", "prefork", "-c", os.environ.get("CONCURRENCY", "2"), "-Q", QUEUE,
                         "-n", f"conformance-{os.getpid()}@%h", "-l", "WARNING"])
        return
    tasks = [json.loads(line) for line in sys.stdin]
    if verb == "enqueue":
        with psycopg.connect(autocommit=True) as connection:
            for task in tasks:
                print(json.dumps(send_with_sql(connection, task) if "unique_key" in task else send(task).id))
    elif verb == "transact":
        transact(tasks, *rest)
    elif verb == "await":
        try:
            print(json.dumps(send(tasks[0]).get(timeout=float(os.environ.get("TIMEOUT", 60)))))
        except RuntimeError as error:
            print(json.dumps({"failed": str(error)}))


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[3:])
