"""Each example is compiled, and two of its workers run against the server.

Seen to fail, when there was an example in Go: with an acknowledgement in a transaction after
that of the letter ("each once"); without heartbeats ("longer than the time to live"); with a
claim of more than the free slots ("sigterm"); without final, and without the name in the log
("that fails").
"""

import os
import re
import signal
import subprocess

import psycopg
import pytest
from part_server import conninfo, new_database, wait_until

EXAMPLES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHECKOUT = os.environ["FAIRQ_CHECKOUT"]
TMP = os.environ["TMPDIR"]
JDBC = "/usr/share/java/postgresql.jar"

with open(f"{EXAMPLES}/README.md", encoding="utf-8") as page:
    SETUP = re.search(r"<!-- test: the queue and the table -->\n```sql\n(.*?)```", page.read(), re.S)[1]


def java():
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-cp", JDBC, "-d", f"{TMP}/java", "Letters.java",
                    f"{CHECKOUT}/test/scripts/UnixSocketFactory.java"], check=True, cwd=EXAMPLES)
    return ["java", "-cp", f"{TMP}/java:{JDBC}", "Letters"]


COMPILERS = {"java": java}


class Example:
    def __init__(self, command, language):
        self.command = command
        self.conninfo = new_database(SETUP)
        database = psycopg.conninfo.conninfo_to_dict(self.conninfo)["dbname"]
        socket = f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ.get('PGPORT', '5432')}"
        self.environment = dict(
            os.environ, PGDATABASE=database,
            JDBC_URL=f"jdbc:postgresql://localhost/{database}?user={os.environ['PGUSER']}&sslmode=disable"
                     f"&socketFactory=UnixSocketFactory&socketFactoryArg={socket}")
        self.log = open(f"{TMP}/{language}.log", "a", encoding="utf-8")
        self.workers = []

    def rows(self, sql, *arguments):
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(sql, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def count(self, sql):
        return self.rows(f"SELECT count(*) FROM {sql}")[0][0]

    def produce(self, count, tenant):
        subprocess.run([*self.command, "produce", str(count), tenant], check=True, env=self.environment, stderr=self.log)

    def enqueue(self, payload, name="letter"):
        self.rows("SELECT fairq.enqueue('letters', %s::text::jsonb, name => %s, group_key => 'odd')", payload, name)

    def work(self):
        worker = subprocess.Popen([*self.command, "work"], env=self.environment, stdout=self.log, stderr=self.log)
        self.workers.append(worker)
        return worker

    def errors(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.log.close()
        with psycopg.connect(conninfo("postgres"), autocommit=True) as connection:
            # a server has background workers for a few databases only
            connection.execute(f"DROP DATABASE {self.environment['PGDATABASE']} WITH (FORCE)")


@pytest.fixture(scope="module", params=COMPILERS)
def language(request):
    return request.param


@pytest.fixture(scope="module")
def command(language):
    return COMPILERS[language]()


@pytest.fixture
def example(command, language):
    example = Example(command, language)
    yield example
    example.close()


def test_each_once(example):
    """Two workers, of which one is killed in the midst of its tasks; fairness; a stop in good order."""
    for tenant in "acme", "o'hara \"42\"; --":
        example.produce(150, tenant)
    example.enqueue('{"to": "slow", "seconds": 0.2}')
    for _ in range(20):
        example.enqueue('{"to": "slow", "seconds": 0.3}')
    killed, other = example.work(), example.work()
    wait_until(lambda: example.count("letter") > 20, "20 letters")
    killed.kill()
    killed.wait()
    wait_until(lambda: example.count("fairq.tasks('letters')") == 0, "all are done")
    assert example.rows("SELECT count(*), count(DISTINCT task) FROM letter") == [(321, 321)]
    assert example.rows("SELECT text FROM letter WHERE text LIKE '%hara%' ORDER BY task LIMIT 1") == [("Dear o'hara \"42\"; -- 0",)]
    other.send_signal(signal.SIGTERM)
    assert other.wait(120) == 0
    assert example.count("fairq.sessions WHERE name LIKE 'letters in%'") == 0


def test_both_tenants_have_their_turns(example):
    example.produce(100, "bob")
    example.produce(1, "alice")
    example.work()
    wait_until(lambda: example.count("letter") == 101, "all are done")
    assert example.count("(SELECT text FROM letter ORDER BY ctid LIMIT 20) AS first WHERE text LIKE '%alice%'") == 1


def test_a_killed_worker_holds_nothing(example):
    for _ in range(4):
        example.enqueue('{"to": "long", "seconds": 600}')
    killed = example.work()
    wait_until(lambda: example.count("fairq.tasks('letters', 'leased')") == 4, "four are leased")
    killed.kill()
    killed.wait()
    wait_until(lambda: example.count("fairq.tasks('letters', 'ready')") == 4, "they are ready again")
    assert example.count("letter") == 0


def test_a_task_longer_than_the_time_to_live(example):
    example.enqueue('{"to": "patience", "seconds": 7}')
    example.work()
    example.work()
    wait_until(lambda: example.count("fairq.tasks('letters')") == 0, "it is done")
    assert example.rows("SELECT attempt FROM letter") == [(1,)]


def test_a_task_that_fails(example):
    """One of an unknown name as often as its queue says, one that no other attempt would mend once; the log names them."""
    tasks = [('{"nobody": "here"}', "letter"), ('[1]', "letter"), ('{"to": "ann"}', "postcard"), ('{"to": "ann"}', None)]
    for payload, name in tasks:
        example.enqueue(payload, name)
    example.work()
    wait_until(lambda: example.count("fairq.tasks('letters', 'dead')") == len(tasks), "all are dead")
    rows = example.rows("SELECT name, attempts, lost, jsonb_array_length(history), last_error FROM fairq.tasks('letters') ORDER BY id")
    assert [row[:4] for row in rows] == [("letter", 1, 0, 1), ("letter", 1, 0, 1), ("postcard", 3, 0, 3), (None, 3, 0, 3)]
    assert "the letter goes to nobody" in rows[0][4] and 'there is no handler for "postcard"' in rows[2][4] and all(row[4] for row in rows)
    assert example.count("letter") == 0
    said = example.errors()
    assert 'task 1 ("letter"), attempt 1: ' in said and 'task 3 ("postcard"), attempt 3: ' in said and 'task 4 (""), attempt 3: ' in said


def test_a_task_that_is_lost(example):
    """Once with its worker; then it is done, by another."""
    example.enqueue('{"to": "ann", "seconds": 600}')
    killed = example.work()
    wait_until(lambda: example.count("fairq.tasks('letters', 'leased')") == 1, "it is leased")
    killed.kill()
    killed.wait()
    wait_until(lambda: example.count("fairq.tasks('letters', 'ready')") == 1, "it is ready again")
    assert example.rows("SELECT attempts, lost, history -> 0 ->> 'end' FROM fairq.tasks('letters')") == [(0, 1, "lost")]
    example.rows("UPDATE fairq.q_letters SET payload = '{\"to\": \"ann\"}'")
    example.work()
    wait_until(lambda: example.count("fairq.tasks('letters')") == 0, "it is done")
    assert example.rows("SELECT attempt, text FROM letter") == [(2, "Dear ann")]


def test_sigterm_lets_tasks_end_and_claims_no_more(example):
    for _ in range(8):
        example.enqueue('{"to": "slow", "seconds": 2}')
    worker = example.work()
    wait_until(lambda: example.count("fairq.tasks('letters', 'leased')") == 4, "four are leased")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(120) == 0
    assert example.rows("SELECT state, attempts, count(*) FROM fairq.tasks('letters') GROUP BY 1, 2") == [("ready", 0, 4)]
    assert example.count("letter") == 4


def test_a_session_that_is_over_ends_the_worker(example):
    example.enqueue('{"to": "long", "seconds": 600}')
    worker = example.work()
    wait_until(lambda: example.count("fairq.tasks('letters', 'leased')") == 1, "it is leased")
    example.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                 "AND (query LIKE '%open_session%' OR query LIKE 'SELECT fairq.heartbeat%') AND pid <> pg_backend_pid()")
    assert worker.wait(120) == 1
    wait_until(lambda: example.count("fairq.tasks('letters', 'ready')") == 1, "it is ready again")
    assert example.count("letter") == 0
