"""The application of the bench on Celery; BENCH_BROKER says where its broker is.

Set for speed as the page on optimizing of Celery's documentation says: prefetching for short tasks, no results, no
events, no gossip. Tasks are acknowledged before they run, which is Celery's default.
"""

import os

from celery import Celery

from recorder import Recorder

if os.environ["BENCH_BROKER"].startswith("fairq:"):
    import pgfairq.celery  # noqa: F401  it makes the scheme known

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(task_default_queue="bench", task_ignore_result=True, task_store_errors_even_if_ignored=False,
                worker_send_task_events=False, worker_hijack_root_logger=False,
                worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "4")))
recorder = Recorder(os.environ["BENCH_NOTES"]) if "BENCH_NOTES" in os.environ else None


@app.task(name="job")
def job(data):
    recorder.handle(data)
