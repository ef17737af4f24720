"""The Celery app of the tests. Workers import it; what their tasks do is written to a file, a line each."""

import json
import os
import signal
import time

import pgfairq.celery  # noqa: F401
from celery import Celery
from celery.exceptions import Ignore, Reject

app = Celery("tasks")
app.conf.update(json.loads(os.environ.get("TEST_SETTINGS", "{}")))


def note(*words):
    with open(os.environ["TEST_NOTES"], "ab", buffering=0) as file:
        file.write((" ".join(map(str, (time.monotonic(), os.getpid()) + words)) + "\n").encode())


def group_of(task, args, kwargs, headers):
    """As an application would name the tenant."""
    return kwargs.get("tenant") or (args[0] if args else None)


def subgroup_of(task, args, kwargs, headers):
    return kwargs.get("user")


@app.task
def work(*words, tenant=None, user=None):
    note("work", *words)
    return list(words)


@app.task
def long(seconds, *words):
    note("begin", *words)
    time.sleep(seconds)
    note("end", *words)


@app.task
def until(path, *words):
    """Runs until the file is there."""
    note("begin", *words)
    while not os.path.exists(path):
        time.sleep(0.02)
    note("end", *words)


@app.task(bind=True, max_retries=2)
def fail(self, word):
    note("fail", word, self.request.get("fairq_group"), self.request.get("fairq_cost"))
    raise self.retry(countdown=0.1)


@app.task(bind=True)
def parent(self, word, **options):
    note("parent", word)
    work.apply_async(("child of", word), **options)


@app.task(bind=True, max_retries=1)
def again(self, word):
    note("again", word, self.request.get("fairq_subgroup"))
    raise self.retry(countdown=0)


@app.task(acks_late=True)
def end_as(how):
    """As Celery's exceptions say."""
    note("end_as", how)
    if how == "requeued" and not os.path.exists(os.environ["TEST_NOTES"] + how):   # for once
        open(os.environ["TEST_NOTES"] + how, "w", encoding="ascii").close()
        raise Reject("not here", requeue=True)
    if how == "rejected":
        raise Reject("no such mailbox", requeue=False)
    if how == "ignored":
        raise Ignore
    if how == "failed":
        raise ValueError(how)
    return how


@app.task(acks_late=True, acks_on_failure_or_timeout=False)
def keep_failures():
    note("keep_failures")
    raise ValueError("no address")


@app.task(acks_late=True)
def die():
    note("die")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(acks_late=True)
def reject_as(how):
    if how == "error":
        try:
            raise LookupError("no mailbox of ann")
        except LookupError as error:
            raise Reject(error)
    if how == "odd":
        raise Reject(ValueError("a\0\ud800"))
    raise Reject({"nothing": None, "long": "a" * 20000}[how])


@app.task
def reject_early():
    note("reject_early")
    raise Reject("acknowledged before", requeue=False)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def divide(a, b):
    return a / b


@app.task(bind=True)
def group(self):
    return self.request.get("fairq_group")
