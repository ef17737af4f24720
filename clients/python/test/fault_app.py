"""The queues of test_faults.py, as an application has them; run by pgfairq worker fault_app:…"""

import os
import time

from pgfairq import AsyncQueue, Queue

CONNINFO = os.environ["APP_CONNINFO"]
steady = Queue(CONNINFO, "steady")
patient = Queue(CONNINFO, "patient")
asynchronous = AsyncQueue(CONNINFO, "asynchronous")
both = [steady, patient]


@steady.task("count")
def count(payload, context):
    """Its row is in the transaction of the acknowledgement: as many rows as there are acknowledgements."""
    context.connection.execute("INSERT INTO counted VALUES (%s)", (payload,))


@steady.task("plain")
def plain(payload, context):
    return payload


@asynchronous.task("count")
async def count_async(payload, context):
    await (await context.connection()).execute("INSERT INTO counted VALUES (%s)", (payload,))


@patient.task("sleep")
def sleep(payload, context):
    """Leaves a row at once, of a transaction of its own, then takes its time."""
    note(context, "began")
    end = time.monotonic() + payload
    while time.monotonic() < end:
        time.sleep(0.01)
    note(context, "ended")


@steady.task("hang")
def hang(payload, context):
    """The first attempt takes its time, within its transaction."""
    context.connection.execute("INSERT INTO counted VALUES (%s)", (context.attempt,))
    note(context, "began")
    if context.attempt == 1:
        time.sleep(payload)


def note(context, what):
    with patient.source.connection() as connection:
        connection.execute("INSERT INTO noted VALUES (%s, %s, %s, %s, clock_timestamp())", (context.id, os.getpid(), context.attempt, what))
