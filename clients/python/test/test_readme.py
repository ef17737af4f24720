"""The examples of README.md run as they are there, in order, in one database."""

import os
import re
import signal
import subprocess
import sys

import part_server
import psycopg
import pytest

README = os.path.join(os.environ["FAIRQ_CHECKOUT"], "clients/python/README.md")
EXAMPLE = re.compile(r"^<!-- test: ([^\n]*) -->\n```(\w+)\n(.*?)^```$", re.M | re.S)
UNTESTED = re.compile(r"^<!-- no-test: .* -->\n```", re.M)
TABLES = "CREATE TABLE sent (task bigint, receiver text); CREATE TABLE orders (shop int); CREATE TABLE fetched (page text)"


@pytest.fixture(scope="module")
def examples():
    with open(README, encoding="utf-8") as file:
        text = file.read()
    found = {name: code for name, _, code in EXAMPLE.findall(text)}
    # all but those that say why, and the installation, which test_types.py tries
    assert len(found) == len(re.findall(r"^```\w", text, re.M)) - len(UNTESTED.findall(text)) - 1
    return found


def test_examples(examples, tmp_path):
    conninfo = part_server.new_database(TABLES)
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "pgfairq").write_text(f'#!/bin/sh\nexec {sys.executable} -m pgfairq "$@"\n')
    (commands / "pgfairq").chmod(0o755)
    environment = {**os.environ, "PGDATABASE": name, "PATH": f"{commands}:{os.environ['PATH']}"}
    (tmp_path / "app.py").write_text(examples["app.py"])
    worker = subprocess.Popen(["sh", "-c", "exec " + examples["work"]], cwd=tmp_path, env=environment)
    try:
        done = subprocess.run([sys.executable, "-c", examples["produce"]], cwd=tmp_path, env=environment, check=True,
                              stdout=subprocess.PIPE, text=True, timeout=120)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    assert done.stdout == "{'sent': 'ann@example.com'}\n"
    give_up(examples["give_up_on"], tmp_path, environment)
    for name in ("subgroups", "asyncio"):
        subprocess.run([sys.executable, "-c", examples[name]], cwd=tmp_path, env=environment, check=True, timeout=120)
    shown = subprocess.run(["sh", "-ec", examples["commands"]], cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE,
                           text=True, timeout=300).stdout
    assert "emails" in shown and "nightly" in shown and "tasks/s" in shown
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("SELECT payload->'page' FROM fairq.claim('reports', 2) ORDER BY 1").fetchall() == [(1,), (9,)]
        assert connection.execute("SELECT receiver FROM sent").fetchall() == [("ann@example.com",)]
        assert sorted(connection.execute("SELECT page FROM fetched").fetchall()) == [("/a",), ("/b",), ("/c",)]
        assert connection.execute("SELECT shop FROM orders").fetchall() == [(42,)]


def give_up(example, directory, environment):
    """A task without a receiver, with the worker of app.py."""
    (directory / "invites.py").write_text(f"from app import emails\nfrom pgfairq import Worker\n{example}")
    code = """from invites import *
task = invite.enqueue({}, group=1)
Worker(emails).run(drain=True)
print([(one.id == task, one.attempts, one.last_error.split("\\n")[0]) for one in emails.dead()])"""
    done = subprocess.run([sys.executable, "-c", code], cwd=directory, env=environment, check=True, stdout=subprocess.PIPE, text=True,
                          timeout=120)
    assert done.stdout == "[(True, 1, \"KeyError: 'to'\")]\n"
