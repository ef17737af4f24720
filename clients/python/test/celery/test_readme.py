"""The README's example, as it stands there, but for the address of the server."""

import os
import re
import subprocess
import sys

import harness

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../.."))
README = os.path.join(CHECKOUT, "clients/python/pgfairq/celery/README.md")


def test_the_example(server):
    with open(README, encoding="utf-8") as file:
        blocks = dict(re.findall(r"<!-- test: (.*?) -->\n```\w+\n(.*?)```", file.read(), re.S))
    app = blocks["the app"].replace("fairq://postgres@/postgres", server.url)
    with open(os.path.join(server.directory, "shop.py"), "w", encoding="utf-8") as file:
        file.write(app)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([server.directory, os.path.join(CHECKOUT, "clients/python")])}
    log = os.path.join(server.directory, "log")
    with open(log, "wb") as output:
        command = "exec env " + blocks["the worker"].replace("/src/pgfairq", CHECKOUT).replace("python3", sys.executable)
        worker = harness.Worker(subprocess.Popen(command, shell=True, env=environment,
                                                 cwd=server.directory, stdout=output, stderr=output, start_new_session=True), log)
    server.workers.append(worker)
    producer = "from shop import invoice\n" + blocks["the producer"]
    printed = subprocess.run([sys.executable, "-c", producer], env=environment, cwd=server.directory, check=True, stdout=subprocess.PIPE, text=True)
    assert printed.stdout == "invoice of order 7\n"
    worker.stop()
    server.sql("SELECT fairq.alter_queue('celery', subgroups => true)")
    subprocess.run([sys.executable, "-c", "from shop import invoice\n" + blocks["a subgroup"]], env=environment, cwd=server.directory, check=True)
    assert server.sql("SELECT group_key, subgroup_key FROM fairq.tasks('celery')") == [("tenant 42", "ann")]


def test_sql_sends_a_task(server):
    tasks = server.app()
    tasks.work.delay("from Python")
    server.sql("""SELECT fairq.enqueue('celery', '{"task": "tasks.work", "args": ["from SQL"]}', group_key => 'tenant 42')""")
    server.worker("solo")
    server.wait_notes(2, "work")
    server.wait_empty()
