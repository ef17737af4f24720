"""The application that test_celery.py moves: tasks that note what they were given."""

import os
import time

from celery import Celery

if os.environ["BROKER"].startswith("fairq:"):
    import pgfairq.celery  # noqa: F401  it makes the scheme known

app = Celery("mail", broker=os.environ["BROKER"])
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True,
                worker_send_task_events=False, task_ignore_result=True)
app.conf.broker_transport_options = {"visibility_timeout": 3600}


def tenant(task, args, kwargs, headers):
    return kwargs.get("tenant")


def user(task, args, kwargs, headers):
    return f"user {args[0]}"


@app.task(name="send", bind=True)
def send(self, number, tenant=None):
    note = os.environ.get("NOTES")
    if note:
        with open(note, "a", encoding="utf-8") as file:
            file.write(f"{number} {self.request.id}\n")
    if number < 0:          # one that is being worked on when its worker is killed
        time.sleep(3600)
