"""What is compared: how each library is started, told to send and to work, and how its queue is emptied."""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, "..", "..", "..", "clients")
AHEAD = 500         # jobs that a worker may fetch ahead: what graphile-worker's page on performance has for localQueue
CELERY_AHEAD = 500  # of all slots together; a slot has this many, at least 4
PREFORK = 10        # up to so many slots Celery has processes, beyond that threads


class System:
    """A library with a broker. rate: about so many jobs a second, to know how many to have waiting the first time."""

    name = title = notes = library = ""
    rate = 10000
    ahead = AHEAD
    works = True        # it is measured with workers
    enqueues = False    # and without them, how many calls one producer makes

    def __init__(self, bench):
        self.bench = bench
        self.known = {}     # jobs a second by shape, and half as many again: how many to have waiting the next time

    def prepare(self):
        """Once. Raises an error with the reason when the system cannot be had."""

    def clear(self):
        """Leaves an empty queue, without what killed workers had."""

    def counting(self, processes, concurrency):
        """How many processes handle jobs."""
        return processes

    def options(self, **more):
        return {"modules": self.bench.modules, "pg": self.bench.url, "conninfo": self.bench.conninfo,
                "clients": os.path.join(CLIENTS, "node"), "notes": self.bench.notes, "ahead": self.ahead, **more}

    def command(self, role, **more):
        raise NotImplementedError

    def environment(self):
        return {}

    def version(self):
        return ""


class Node(System):
    file = package = ""

    @property
    def library(self):
        return self.package

    def command(self, role, **more):
        node = os.path.join(self.bench.modules, ".bin", "node")     # some want a newer one than Debian's
        return [node if os.path.exists(node) else "node",
                os.path.join(HERE, "driver.mjs"), self.file, role, json.dumps(self.options(**more))]

    def prepare(self):
        package = os.path.join(self.bench.modules, self.package, "package.json")
        if not os.path.exists(package):
            raise LookupError(f"npm has not brought {self.package}")
        with open(package, encoding="utf-8") as file:
            self.number = json.load(file)["version"]
        self.bench.call(self, "setup")

    def version(self):
        return self.number


def new_queue(bench):
    bench.sql("SELECT fairq.drop_queue('bench')")
    bench.sql("SELECT fairq.create_queue('bench')")


class Ours:
    """A library of this repository, on a queue."""

    library = "pgfairq"

    def version(self):
        return "0.3.0"

    def clear(self):
        new_queue(self.bench)


class PgfairqNode(Ours, Node):
    name, title, file, package = "pgfairq-node", "**pgfairq, Node**", "pgfairq", "pg"
    rate = 20000


class Graphile(Node):
    name, title, file, package = "graphile", "graphile-worker", "graphile", "graphile-worker"
    rate = 10000
    notes = "localQueue 500, completeJobBatchDelay 0, as its page on performance has them"

    def clear(self):
        self.bench.sql("TRUNCATE graphile_worker._private_jobs, graphile_worker._private_job_queues")


class PgBoss(Node):
    name, title, file, package = "pgboss", "pg-boss", "pgboss", "pg-boss"
    rate = 5000
    notes = "batches of 500, burstWhenBatchFull, LISTEN; jobs of a batch are handled side by side"

    def clear(self):
        self.bench.sql("TRUNCATE pgboss.job")


class BullMQ(Node):
    file, package, rate = "bullmq", "bullmq", 8000
    fsync = None

    def prepare(self):
        self.bench.redis(self.fsync)
        super().prepare()

    def options(self, **more):
        return super().options(redis=self.bench.redis(self.fsync).socket, **more)

    def clear(self):
        self.bench.redis(self.fsync).client().flushall()


class BullMQMemory(BullMQ):
    name, title = "bullmq", "BullMQ, Redis in memory only"
    notes = "what is not in a file is lost with Redis"


class BullMQFile(BullMQ):
    name, title, fsync = "bullmq-aof", "BullMQ, Redis with appendonly", "everysec"
    notes = "appendfsync everysec, as its page on production has it: the last second is lost with the machine"


class Python(Ours, System):
    rate = 15000

    def command(self, role, **more):
        return [sys.executable, os.path.join(HERE, "driver.py"), self.name.removeprefix("pgfairq-"), role, json.dumps(self.options(**more))]

    def environment(self):
        return {"PYTHONPATH": os.path.join(CLIENTS, "python")}


class Threads(Python):
    name, title = "pgfairq-threads", "**pgfairq, Python, threads**"


class Asyncio(Python):
    name, title = "pgfairq-asyncio", "**pgfairq, Python, asyncio**"


class Go(Ours, System):
    name, title = "pgfairq-go", "**pgfairq, Go**"
    rate = 20000

    def prepare(self):
        if shutil.which("go") is None or not os.path.isdir("/usr/share/gocode/src/github.com/lib/pq"):
            raise LookupError("there is no Go with lib/pq")
        self.program = os.path.join(self.bench.work, "go-driver")
        environment = dict(os.environ, GO111MODULE="on", GOFLAGS="-mod=mod", GOPROXY="off",
                           GOCACHE=os.path.join(self.bench.work, "gocache"), GOPATH=os.path.join(self.bench.work, "gopath"))
        subprocess.run(["go", "build", "-o", self.program, "."], cwd=os.path.join(HERE, "go"), env=environment, check=True)

    def command(self, role, **more):
        return [self.program, role, json.dumps(self.options(**more))]


class Celery(System):
    """Pool: prefork up to ten at a time, threads for more: a hundred processes are not what anyone would start."""

    library = "celery"
    rate = 2000
    fsync = None    # of Redis
    enqueues = True

    def prepare(self):
        import celery
        self.number = celery.__version__
        self.clear()
        self.bench.call(self, "setup")

    def version(self):
        return self.number

    def url(self):
        raise NotImplementedError

    def environment(self):
        return {"BENCH_BROKER": self.url(), "BENCH_NOTES": self.bench.notes, "PYTHONPATH": f"{HERE}:{CLIENTS}/python"}

    def options(self, **more):
        return super().options(redis=self.bench.redis(self.fsync).socket, **more)

    def counting(self, processes, concurrency):
        return processes * (concurrency if concurrency <= PREFORK else 1)

    def command(self, role, **more):
        if role != "work":
            return [sys.executable, os.path.join(HERE, "celery_driver.py"), role, json.dumps(self.options(**more))]
        slots = more["concurrency"]
        return ["env", f"BENCH_PREFETCH={max(4, CELERY_AHEAD // slots)}",
                sys.executable, "-m", "celery", "--quiet", "--workdir", HERE, "-A", "celery_app", "worker", "--loglevel", "ERROR",
                "--without-gossip", "--without-mingle", "--without-heartbeat", "--hostname", f"{os.urandom(4).hex()}@bench",
                "--pool", "prefork" if slots <= PREFORK else "threads", "--concurrency", str(slots)]


class CeleryRedis(Celery):
    name, title = "celery-redis", "Celery, Redis in memory only"

    def prepare(self):
        self.bench.redis(self.fsync)
        super().prepare()

    def url(self):
        return f"redis+socket://{self.bench.redis(self.fsync).socket}"

    def clear(self):
        self.bench.redis(self.fsync).client().flushall()


class CeleryRedisAlways(CeleryRedis):
    """What a producer waits for is on disk, as with a commit."""

    name, title, fsync = "celery-redis-always", "Celery, Redis with appendfsync always", "always"
    works = False


class CeleryRabbit(Celery):
    name, title = "celery-rabbitmq", "Celery, RabbitMQ"

    def prepare(self):
        self.bench.rabbit()
        super().prepare()

    def url(self):
        return self.bench.rabbit().url

    def clear(self):
        self.bench.rabbit().purge()


class CeleryPgfairq(Celery):
    name, title = "celery-pgfairq", "**Celery, pgfairq**"

    def url(self):
        return self.bench.url.replace("postgresql://", "fairq://")

    def clear(self):
        new_queue(self.bench)


ALL = (PgfairqNode, Graphile, PgBoss, BullMQMemory, BullMQFile, Threads, Asyncio, Go, CeleryPgfairq, CeleryRedis, CeleryRedisAlways, CeleryRabbit)
