"""The Celery app of the tests. Workers import it; what their tasks do is written to a file, a line each."""

import json
import os
import time

import pgfairq.celery  # noqa: F401
from celery import Celery

app = Celery("tasks")
app.conf.update(json.loads(os.environ.get("TEST_SETTINGS", "{}")))


def note(*words):
    with open(os.environ["TEST_NOTES"], "ab", buffering=0) as file:
        file.write((" ".join(map(str, (time.monotonic(), os.getpid()) + words)) + "\n").encode())


def group_of(task, args, kwargs, headers):
    """As an application would name the tenant."""
    return kwargs.get("tenant") or (args[0] if args else None)


@app.task
def work(*words, tenant=None):
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
def parent(self, word):
    note("parent", word)
    work.delay("child of", word)


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
