"""What the bench has Celery do: send one at a time, or fill the queue.

    celery_driver.py ROLE OPTIONS

To enqueue is to call as fast as one producer can, which writes down how many calls it made a second.

To fill, one message is sent and taken back, and its copies are put into the broker with new ids: the time of
a hundred thousand calls is not measured, so it is not spent.
"""

import json
import os
import sys
import time
import uuid

from celery_app import app, job

BATCH = 5000


def call(data, **options):
    return job.apply_async((data,), headers={"fairq_group": data["tenant"]}, **options)


def setup(_):
    with app.connection_for_write() as connection:
        app.amqp.queues["bench"](connection.default_channel).declare()


def send(options):
    with app.producer_pool.acquire() as producer:
        for _ in range(options["count"]):
            call({"ms": 0, "tenant": options["tenant"], "t": str(time.monotonic_ns())}, producer=producer)
            time.sleep(options["gap"] / 1000)


def enqueue(options):
    with app.producer_pool.acquire() as producer:
        for count in (50, options["count"]):    # the first are not counted
            began = time.monotonic()
            for _ in range(count):
                call({"ms": 0, "tenant": options["tenant"]}, producer=producer)
        rate = count / (time.monotonic() - began)
    with open(os.path.join(options["notes"], "calls"), "w", encoding="ascii") as file:
        file.write(str(rate))


def fill(options):
    sent = call({"ms": options["ms"], "tenant": options["tenant"]}).id
    {"redis+socket": fill_redis, "amqp": fill_amqp, "fairq": fill_fairq}[app.conf.broker_url.split(":")[0]](sent, options)


def copies(text, sent, count):
    return [text.replace(sent, str(uuid.uuid4())) for _ in range(count)]


def batches(jobs):
    while jobs > 0:
        yield min(jobs, BATCH)
        jobs -= BATCH


def fill_redis(sent, options):
    import redis
    client = redis.Redis(unix_socket_path=options["redis"])
    text = client.rpop("bench").decode()
    tag = json.loads(text)["properties"]["delivery_tag"]
    for size in batches(options["jobs"]):
        client.lpush("bench", *(copy.replace(tag, str(uuid.uuid4())) for copy in copies(text, sent, size)))


def fill_fairq(sent, options):
    import psycopg
    with psycopg.connect(options["conninfo"], autocommit=True) as connection:
        text, group, priority = connection.execute(
            "SELECT payload::text, group_key, priority FROM fairq.pop('bench', 10) WHERE payload->'headers'->>'id' = %s", (sent,)).fetchone()
        for size in batches(options["jobs"]):
            connection.execute("SELECT cardinality(fairq.enqueue_many('bench', %s::jsonb[], group_keys => %s::text[],"
                               " priorities => %s::bigint[]))", (copies(text, sent, size), [group], [priority]))


def fill_amqp(sent, options):
    import amqp
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        template = None
        while template is None:
            template = channel.basic_get("bench", no_ack=True)
        body = template.body if isinstance(template.body, bytes) else template.body.encode()
        properties = json.dumps(template.properties)
        for size in batches(options["jobs"]):
            for copy in copies(properties, sent, size):
                channel.basic_publish(amqp.Message(body, **json.loads(copy)), exchange="", routing_key="bench")


if __name__ == "__main__":
    {"setup": setup, "fill": fill, "send": send, "enqueue": enqueue}[sys.argv[1]](json.loads(sys.argv[2]))
