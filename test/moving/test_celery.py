"""Celery on Redis: what an application sent with Celery is moved with clients/moving, and back.

Seen to fail: "killed between the commit and Redis" with ON CONFLICT in place of NOT EXISTS (each message is two tasks),
"killed anywhere" with RPOP in place of RPOPLPUSH, "back can be killed" without the set of what was put back, "there and
back" with what is leased.
"""

import base64
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys

import part_server
import psycopg
import pytest
import redis

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "clients", "moving", "pgfairq-from-celery-redis")


def listens(socket):
    """Its socket is there a moment before it listens."""
    try:
        return redis.Redis(unix_socket_path=socket).ping()
    except redis.ConnectionError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Redis on a socket of its own."""
    directory = tmp_path_factory.mktemp("redis")
    program = shutil.which("redis-server")
    if program is None:     # the same program, which does what its name says
        program = directory / "redis-server"
        program.symlink_to(shutil.which("redis-check-rdb"))
    socket = f"{directory}/r.sock"
    with subprocess.Popen([program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory],
                          stdout=subprocess.DEVNULL) as process:
        part_server.wait_until(lambda: listens(socket), "Redis listens")
        yield socket
        process.kill()


class Celery:
    """The application, in processes of its own."""

    def __init__(self, socket, directory):
        self.socket = socket
        self.notes = f"{directory}/notes"
        self.log = f"{directory}/log"
        self.client = redis.Redis(unix_socket_path=socket)
        self.client.flushall()
        self.environment = dict(os.environ, BROKER=f"redis+socket://{socket}", NOTES=self.notes,
                                PYTHONPATH=f"{HERE}:{os.environ['PYTHONPATH']}")

    def send(self, *calls):
        """Each call: args and options of apply_async. The ids."""
        code = ("import sys, json, mail_app\n"
                "print(json.dumps([mail_app.send.apply_async(**call).id for call in json.load(sys.stdin)]))")
        done = subprocess.run([sys.executable, "-c", code], input=json.dumps(calls), env=self.environment, text=True,
                              capture_output=True, check=True)
        return json.loads(done.stdout)

    def worker(self, broker=None):
        return subprocess.Popen([sys.executable, "-m", "celery", "-A", "mail_app", "worker", "--pool", "threads",
                                 "--concurrency", "1", "--without-gossip", "--without-mingle", "--without-heartbeat",
                                 "--loglevel", "info", "--logfile", self.log],
                                env=dict(self.environment, **({"BROKER": broker} if broker else {})),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def logged(self, text):
        if not os.path.exists(self.log):
            return False
        with open(self.log, encoding="utf-8") as file:
            return text in file.read()

    def noted(self):
        if not os.path.exists(self.notes):
            return []
        with open(self.notes, encoding="utf-8") as file:
            return [int(line.split()[0]) for line in file]

    def waiting(self):
        """How many messages are in lists or with workers."""
        return sum(self.client.llen(key) for key in self.client.scan_iter() if self.client.type(key) == b"list") + \
            self.client.hlen("unacked")


@pytest.fixture
def celery(server, tmp_path):
    return Celery(server, tmp_path)


@pytest.fixture
def emails(database):
    """The queue of Celery's default name."""
    database.rows("SELECT fairq.create_queue('celery', max_attempts => 25)")
    return database


def command(celery, database, *arguments):
    return [sys.executable, PROGRAM, "--redis", f"unix://{celery.socket}", "--to", database.conninfo, *arguments]


def move(celery, database, *arguments, **options):
    done = subprocess.run(command(celery, database, *arguments), text=True, capture_output=True, timeout=120, check=False,
                          env=celery.environment, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def messages(database):
    """Number, group, class, time and id of what is in the queue, in order."""
    rows = database.rows("SELECT payload, group_key, priority, CASE state WHEN 'scheduled' THEN run_at END, expires_at"
                         " FROM fairq.tasks('celery') ORDER BY id")
    return [(json.loads(base64.b64decode(payload["body"]))[0][0], group, priority, run_at, expires, payload["headers"]["id"])
            for payload, group, priority, run_at, expires in rows]


def test_each_message_is_moved_as_it_was(celery, emails):
    ids = celery.send({"args": [1]}, {"args": [2], "priority": 5}, {"args": [3], "countdown": 3600},
                      {"args": [4], "headers": {"fairq_group": "shop 42"}}, {"args": [5], "expires": 7200})
    assert move(celery, emails) == "5 messages moved, 5 tasks made"
    rows = messages(emails)
    assert sorted(row[0] for row in rows) == [1, 2, 3, 4, 5] and {row[5] for row in rows} == set(ids)
    by_number = {row[0]: row for row in rows}
    assert [by_number[n][1] for n in (1, 4)] == ["", "shop 42"]
    assert [by_number[n][2] for n in (1, 2)] == [9, 4]
    now = datetime.datetime.now(datetime.timezone.utc)
    assert by_number[1][3] is None and datetime.timedelta(minutes=50) < by_number[3][3] - now < datetime.timedelta(minutes=61)
    assert datetime.timedelta(minutes=110) < by_number[5][4] - now < datetime.timedelta(minutes=121)
    assert celery.waiting() == 0
    assert move(celery, emails) == "0 messages moved, 0 tasks made"
    assert emails.rows("SELECT source, count(*) FROM moved GROUP BY source") == [("celery redis celery", 5)]
    assert emails.value("SELECT count(*) FROM fairq.tasks('celery', name => 'send')") == 5


def test_in_their_order_with_a_group_of_the_application(celery, emails):
    celery.send(*({"args": [n], "kwargs": {"tenant": n % 2}} for n in range(20)))
    move(celery, emails, "--group", "mail_app:tenant", "--priority-order", "redis")
    assert [(n, group, priority) for n, group, priority, *_ in messages(emails)] == [(n, str(n % 2), 0) for n in range(20)]


def subgroups(database):
    return database.rows("SELECT group_key, subgroup_key, payload->'headers'->>'fairq_subgroup' FROM fairq.tasks('celery') ORDER BY id")


def test_subgroups_of_headers_and_of_the_application_and_back(celery, emails):
    emails.rows("SELECT fairq.alter_queue('celery', subgroups => true)")
    celery.send({"args": [1], "headers": {"fairq_group": "shop", "fairq_subgroup": "ann"}}, {"args": [2], "headers": {"fairq_group": "shop"}})
    move(celery, emails)
    assert subgroups(emails) == [("shop", "ann", "ann"), ("shop", None, None)]
    assert move(celery, emails, "--back") == "2 tasks put back"
    headers = [json.loads(message)["headers"] for message in celery.client.lrange("celery", 0, -1)[::-1]]
    assert [one.get("fairq_subgroup") for one in headers] == ["ann", None]
    move(celery, emails)
    assert subgroups(emails) == [("shop", "ann", "ann"), ("shop", None, None)]
    emails.rows("SELECT fairq.purge('celery')")
    celery.send({"args": [3], "kwargs": {"tenant": 5}})
    move(celery, emails, "--group", "mail_app:tenant", "--subgroup", "mail_app:user")
    assert subgroups(emails) == [("5", "user 3", "user 3")]


def test_what_workers_held_when_they_were_killed(celery, emails):
    """One is being worked on, one waits for its time in the worker; --unacked takes both, once."""
    celery.send({"args": [2], "countdown": 3600}, {"args": [-1]})     # what waits does not count as prefetched
    worker = celery.worker()
    try:
        part_server.wait_until(lambda: celery.noted() == [-1] and celery.client.hlen("unacked") == 2, "the worker has both")
        assert move(celery, emails) == "0 messages moved, 0 tasks made"
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert move(celery, emails, "--unacked") == "2 messages moved, 2 tasks made"
    assert sorted((n, run_at is None) for n, _, _, run_at, *_ in messages(emails)) == [(-1, True), (2, False)]
    assert celery.waiting() == 0 and celery.client.zcard("unacked_index") == 0


def test_a_worker_that_stops_gives_back_what_it_held(celery, emails):
    celery.send({"args": [2], "countdown": 3600})
    worker = celery.worker()
    try:
        part_server.wait_until(lambda: celery.logged("Task send["), "the worker has it")
    finally:
        os.kill(worker.pid, signal.SIGTERM)
        worker.wait()
    assert move(celery, emails) == "1 messages moved, 1 tasks made"


def test_it_can_be_killed_anywhere(celery, emails):
    """kill -9 whenever some of it is done, at ever later points: each message is one task at the end."""
    celery.send(*({"args": [n]} for n in range(3000)))
    for point in range(1, 6):
        with subprocess.Popen(command(celery, emails), env=celery.environment, stdout=subprocess.DEVNULL) as process:
            part_server.wait_until(lambda: process.poll() is not None or celery.client.llen("celery") <= 3000 - 500 * point
                                   or emails.value("SELECT count(*) FROM fairq.q_celery") >= 500 * point, "some of it is done")
            process.kill()
    move(celery, emails)
    assert sorted(row[0] for row in messages(emails)) == list(range(3000))


def test_killed_between_the_commit_and_redis(celery, emails):
    """What is on its way though its task is committed is passed over."""
    celery.send(*({"args": [n]} for n in range(3)))
    raw = celery.client.lrange("celery", 0, -1)
    move(celery, emails)
    celery.client.lpush("pgfairq-moving:celery", *raw[::-1])
    assert move(celery, emails) == "3 messages moved, 0 tasks made"
    assert [row[0] for row in messages(emails)] == [0, 1, 2]


def test_two_at_a_time_are_refused(celery, emails):
    with psycopg.connect(emails.conninfo) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended('celery redis celery', 0))")
        done = subprocess.run(command(celery, emails), text=True, capture_output=True, check=False, env=celery.environment)
    assert done.returncode == 1 and "another run is moving the queue celery" in done.stderr


def test_what_jsonb_has_not(celery, emails):
    celery.send({"args": [1], "headers": {"note": "a\0b"}})
    move(celery, emails)
    payload = emails.value("SELECT payload FROM fairq.tasks('celery')")
    assert json.loads(base64.b64decode(payload["encoded"]))["headers"]["note"] == "a\0b"
    assert move(celery, emails, "--back") == "1 tasks put back"
    assert json.loads(celery.client.lindex("celery", 0))["headers"]["note"] == "a\0b"


def test_something_else_in_the_list(celery, emails):
    celery.client.lpush("celery", "no message")
    done = subprocess.run(command(celery, emails), text=True, capture_output=True, check=False, env=celery.environment)
    assert done.returncode == 1 and "cannot be moved" in done.stderr and "'no message'" in done.stderr
    assert celery.waiting() == 1 and messages(emails) == []


def test_there_and_back_and_a_worker_of_redis_runs_them(celery, emails):
    celery.send({"args": [1]}, {"args": [2], "priority": 7, "headers": {"fairq_group": "shop 42"}}, {"args": [3], "countdown": 3600})
    move(celery, emails)
    assert emails.rows("SELECT payload->'headers'->>'task' FROM fairq.claim('celery')") == [("send",)]    # 2: the most urgent
    assert move(celery, emails, "--back") == "2 tasks put back"
    assert not emails.value("SELECT paused FROM fairq.queues WHERE queue = 'celery'")
    assert [row[0] for row in messages(emails)] == [2]          # it is leased
    worker = celery.worker()
    try:
        part_server.wait_until(lambda: celery.noted() == [1] and celery.client.hlen("unacked") == 1, "one is done, one waits")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert emails.value("SELECT count(*) FROM moved") == 1


def test_back_can_be_killed_before_its_commit(celery, emails):
    """What is in Redis already when the transaction is lost is not put there again."""
    celery.send(*({"args": [n]} for n in range(3)))
    move(celery, emails)
    ids = [row[0] for row in emails.rows("SELECT id FROM fairq.tasks('celery') ORDER BY id")]
    raw = emails.rows("SELECT payload::text FROM fairq.tasks('celery') ORDER BY id LIMIT 2")
    celery.client.sadd("pgfairq-put-back:celery", *ids[:2])
    celery.client.lpush("celery", *(row[0] for row in raw))
    assert move(celery, emails, "--back") == "3 tasks put back"
    numbers = [json.loads(base64.b64decode(json.loads(m)["body"]))[0][0] for m in celery.client.lrange("celery", 0, -1)]
    assert numbers == [2, 1, 0] and not celery.client.exists("pgfairq-put-back:celery")


def test_a_worker_on_pgfairq_runs_them(celery, emails):
    """The payload is what the transport fairq:// of the package pgfairq takes."""
    clients = os.path.join(HERE, "..", "..", "clients", "python")
    celery.environment["PYTHONPATH"] += ":" + clients
    celery.send({"args": [1]}, {"args": [2], "priority": 5})
    move(celery, emails)
    info = emails.connection.info
    worker = celery.worker(f"fairq://{info.user}@/{info.dbname}?host={os.environ['PGHOST']}")
    try:
        part_server.wait_until(lambda: sorted(celery.noted()) == [1, 2], "both are done")
        part_server.wait_until(lambda: emails.value("SELECT count(*) FROM fairq.q_celery") == 0, "both are acknowledged")
    finally:
        os.kill(worker.pid, signal.SIGTERM)
        worker.wait()
