"""A worker whose broker is a proxy of a cluster: here a database beside those of its nodes."""

import os

import psycopg
import pytest
from harness import Server
from part_server import conninfo, new_database, wait_until
from psycopg.conninfo import conninfo_to_dict


class Cluster(Server):
    """Its database is the proxy."""

    def __init__(self, count):
        super().__init__()
        self.sql("DROP EXTENSION pgfairq")
        self.sql("CREATE EXTENSION pgfairq_cluster CASCADE")
        self.settings["broker_transport_options"] = {"claim_wait": 600, "publish_once": False}
        self.nodes = []
        for _ in range(count):
            self.add_node()
        self.sql("SELECT fairq.create_queue('celery', backoff_base => '0')")

    def add_node(self):
        node = new_database()
        self.nodes.append(node)
        self.at(node, "SELECT fairq.set_node(%s)", len(self.nodes))
        self.sql("SELECT fairq.add_node(%s, %s)", (len(self.nodes), node.replace("user=postgres ", "")))
        return node

    @staticmethod
    def at(node, statement, *values):
        with psycopg.connect(node, autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall()[0][0]

    def acked(self):
        return [self.at(node, "SELECT sum(acked)::int FROM fairq.queue_stats") or 0 for node in self.nodes]

    def close(self):
        super().close()
        with psycopg.connect(conninfo("postgres"), autocommit=True) as connection:
            for node in self.nodes:
                connection.execute(f"DROP DATABASE {conninfo_to_dict(node)['dbname']} WITH (FORCE)")


@pytest.fixture
def cluster():
    server = Cluster(2)
    yield server
    server.close()


def test_a_worker_follows_the_cluster(cluster, pool):
    tasks = cluster.app()
    worker = cluster.worker(pool)
    for number in range(30):
        tasks.work.apply_async((number,), headers={"fairq_group": f"t{number}"})
    cluster.wait_notes(30, "work")
    wait_until(lambda: sum(cluster.acked()) == 30, "all are acknowledged")
    assert all(cluster.acked())
    added = cluster.add_node()
    for number in range(30, 60):
        tasks.work.apply_async((number,), headers={"fairq_group": f"t{number}"})
    notes = cluster.wait_notes(60, "work")
    assert sorted(int(note.words[1]) for note in notes) == list(range(60))
    wait_until(lambda: sum(cluster.acked()) == 60, "all are acknowledged")
    assert cluster.acked()[2]
    cluster.sql("SELECT fairq.drain_node(1)")
    wait_until(lambda: cluster.at(cluster.nodes[0], "SELECT count(*) FROM fairq.sessions") == 0, "the drained one is left")
    assert tasks.app.control.ping(timeout=10) == [{"w1@test": {"ok": "pong"}}]
    worker.stop()
    assert [cluster.at(node, "SELECT count(*) FROM fairq.sessions") for node in cluster.nodes] == [0, 0, 0]
    del added


def test_it_goes_to_another_node_while_a_task_runs(cluster, pool):
    tasks = cluster.app(task_acks_late=True)
    cluster.sql("SELECT fairq.drain_node(2)")
    worker = cluster.worker(pool, concurrency=2, task_acks_late=True)
    path = os.path.join(cluster.directory, "go")
    tasks.until.delay(path, "long")
    cluster.wait_notes(1, "begin")
    cluster.sql("SELECT fairq.undrain_node(2)")
    cluster.sql("SELECT fairq.drain_node(1)")
    tasks.work.delay("short")
    cluster.wait_notes(1, "work")
    assert cluster.at(cluster.nodes[1], "SELECT count(*) FROM fairq.sessions") == 1
    with open(path, "w", encoding="ascii"):
        pass
    cluster.wait_notes(1, "end")
    wait_until(lambda: cluster.acked() == [1, 1], "both are acknowledged, each at its node")
    assert len(cluster.notes("begin")) == 1
    worker.stop()
