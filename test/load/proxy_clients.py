"""The Python library and a cluster: producers at the proxy, workers at its nodes.

usage: proxy_clients.py PROXY TASKS

A worker at the proxy is refused, for its session would be of one node. Then one
worker after the other asks the proxy for a node, until all tasks are done. Ends
with "done N, repeated N, nodes N".
"""

import collections
import sys
import threading

import psycopg
from pgfairq import FairqError, Queue, Worker

proxy, count = sys.argv[1], int(sys.argv[2])
queue = Queue(proxy, "jobs", create=True)
queue.task()(print)
try:
    Worker(queue).run()
except FairqError as error:
    print(error)

half = count // 2
queue.enqueue_many([{"n": n} for n in range(half)], group=[f"g{n % 7}" for n in range(half)])
for n in range(half, count):
    queue.enqueue({"n": n}, group=n % 7)

done = collections.Counter()
all_done = threading.Event()


def note(payload, context):
    done[payload["n"]] += 1
    if len(done) == count:
        all_done.set()


workers = []
nodes = set()
while len(nodes) < 2:
    with psycopg.connect(proxy, autocommit=True) as connection:
        node, conninfo = connection.execute("SELECT node, connection FROM fairq.worker_node('jobs')").fetchone()
    nodes.add(node)
    at_node = Queue(conninfo, "jobs")
    at_node.task()(note)
    workers.append(Worker(at_node, concurrency=4))
    threading.Thread(target=workers[-1].run).start()
all_done.wait(120)
for worker in workers:
    worker.stop()
print(f"done {len(done)}, repeated {sum(done.values()) - len(done)}, nodes {len(nodes)}")
