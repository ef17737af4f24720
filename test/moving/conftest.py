import json
import os
import subprocess

import part_server
import psycopg
import pytest

import page

HERE = os.path.dirname(os.path.abspath(__file__))


class Database:
    """A database with the queue emails and the table of what was moved."""

    def __init__(self):
        self.conninfo = part_server.new_database()
        page.run(self.conninfo, page.LEDGER)
        self.connection = psycopg.connect(self.conninfo, autocommit=True)

    def rows(self, sql, *arguments):
        return self.connection.execute(sql, arguments).fetchall()

    def execute(self, sql):
        self.connection.execute(sql)

    def value(self, sql, *arguments):
        return self.rows(sql, *arguments)[0][0]

    def tasks(self):
        """The tasks of the queue by the ids that they had as jobs."""
        with self.connection.cursor(row_factory=psycopg.rows.namedtuple_row) as cursor:
            cursor.execute("SELECT task.*, q.max_attempts AS own_attempts FROM fairq.tasks('emails') task"
                           " JOIN fairq.q_emails q USING (id) ORDER BY id")
            return {task.headers["job"]: task for task in cursor}

    def node_command(self, script, command, *argument):
        host = os.environ["PGHOST"]
        database = self.connection.info.dbname
        modules = os.environ["FAIRQ_NODE_MODULES"]
        node = os.path.join(modules, ".bin", "node")    # that of test/npm; what is tested wants a newer one than Debian's
        return [node if os.path.exists(node) else "node", os.path.join(HERE, script), modules,
                f"postgresql:///{database}?host={host}&user={os.environ['PGUSER']}", command, *map(json.dumps, argument)]

    def node(self, script, command, *argument):
        """What a script prints of what a queue's own functions say."""
        done = subprocess.run(self.node_command(script, command, *argument), text=True, capture_output=True,
                              timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def database():
    made = Database()
    yield made
    made.connection.close()
