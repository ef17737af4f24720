"""The examples of README.md run as they are there, in order, in one database; and the lines of doc/clients.md that install.

Registries are out of reach for pip here, so a line that asks one for a package fails.

To see it fail: take --no-build-isolation out of a line, or --system-site-packages; or write a name in an example otherwise.
"""

import os
import re
import shutil
import signal
import subprocess
import sys

import part_server
import psycopg
import pytest

CHECKOUT = os.environ["FAIRQ_CHECKOUT"]
README = os.path.join(CHECKOUT, "clients/python/README.md")
EXAMPLE = re.compile(r"^<!-- test: ([^\n]*) -->\n```(\w+)\n(.*?)^```$", re.M | re.S)
UNTESTED = re.compile(r"^<!-- no-test: ([^\n]*) -->\n```\w+\n(.*?)^```$", re.M | re.S)
TABLES = "CREATE TABLE sent (task bigint, receiver text); CREATE TABLE orders (shop int); CREATE TABLE fetched (page text)"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def examples():
    text = read(README)
    found = {name: code for name, _, code in EXAMPLE.findall(text)}
    # all but those that say why
    assert len(found) == len(re.findall(r"^```\w", text, re.M)) - len(UNTESTED.findall(text))
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A fresh clone, as far as it is of this library: without what is built and not in git."""
    made = tmp_path_factory.mktemp("src") / "pgfairq"
    shutil.copytree(os.path.join(CHECKOUT, "clients/python"), made / "clients/python",
                    ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    return str(made)


def run(command, directory, checkout, **variables):
    """Lines of a shell, as they are printed but for where the checkout is."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.update(PIP_NO_INDEX="1", PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", **variables)
    done = subprocess.run(["sh", "-ec", command.replace("/src/pgfairq", checkout)], cwd=directory, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory, examples, checkout):
    """Where an installation as README.md has it puts its programs."""
    directory = tmp_path_factory.mktemp("installed")
    assert "usage: pgfairq" in run(examples["install"], directory, checkout)
    return str(directory / "venv/bin")


def lines(block):
    return [line.split("#")[0].strip() for line in block.splitlines()]


def test_installation(examples, programs, tmp_path, checkout):
    """In the environment, and with its types; the lines of doc/clients.md are the same ones."""
    code = "import pgfairq, pgfairq.testing; print(pgfairq.__file__)"
    place = run(f"{programs}/python -c '{code}'", tmp_path, checkout).strip()
    assert place.startswith(os.path.dirname(programs)) and os.path.exists(os.path.join(os.path.dirname(place), "py.typed"))
    pages = [read(README), read(os.path.join(CHECKOUT, "doc/clients.md"))]
    others = [dict(UNTESTED.findall(page)) for page in pages]
    assert lines(others[1]["the suite python runs it"]) == lines(examples["install"])
    assert lines(others[1]["the suite python runs this, too"]) == lines(examples["without an installation"])
    needs = read(os.path.join(CHECKOUT, "clients/python/test/needs.sh")) + read(os.path.join(CHECKOUT, "test/scripts/prerequisites.sh"))
    for page in pages:
        packages, = re.findall(r"^apt-get install (python3-venv[^#\n]*)", page, re.M)
        assert [package for package in packages.split() if package not in needs.split()] == []


def test_without_an_installation(examples, tmp_path, checkout):
    assert "usage: pgfairq" in run(examples["without an installation"], tmp_path, checkout)


def test_no_registry_is_asked_for_our_name():
    """pgfairq is nobody's there, so whoever takes it would have what is installed."""
    for page in (README, os.path.join(CHECKOUT, "clients/python/pgfairq/celery/README.md"), os.path.join(CHECKOUT, "doc/clients.md"),
                 os.path.join(CHECKOUT, "README.md")):
        for line in read(page).splitlines():
            assert not re.search(r"pipx? +install[^/`]*\bpgfairq", line), f"{page}: {line}"


def python(code, directory, environment):
    return subprocess.run(["python", "-c", code], cwd=directory, env=environment, check=True, stdout=subprocess.PIPE, text=True,
                          timeout=120).stdout


def test_examples(examples, programs, tmp_path):
    conninfo = part_server.new_database(TABLES)
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    environment = {**os.environ, "PGDATABASE": name, "PATH": f"{programs}:{os.environ['PATH']}"}
    del environment["PYTHONPATH"]
    (tmp_path / "app.py").write_text(examples["app.py"])
    worker = subprocess.Popen(["sh", "-c", "exec " + examples["work"]], cwd=tmp_path, env=environment)
    try:
        assert python(examples["produce"], tmp_path, environment) == "{'sent': 'ann@example.com'}\n"
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    for part in (options, types, hooks, an_applications_tests):
        part(examples, tmp_path, environment)
    for name in ("subgroups", "asyncio"):
        python(examples[name], tmp_path, environment)
    shown = subprocess.run(["sh", "-ec", examples["commands"]], cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE,
                           text=True, timeout=300).stdout
    assert "emails" in shown and "nightly" in shown and "tasks/s" in shown
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("SELECT payload->'page' FROM fairq.claim('reports', 2) ORDER BY 1").fetchall() == [(1,), (9,)]
        assert set(connection.execute("SELECT receiver FROM sent").fetchall()) == {("ann@example.com",)}
        assert sorted(connection.execute("SELECT page FROM fetched").fetchall()) == [("/a",), ("/b",), ("/c",)]
        assert connection.execute("SELECT shop FROM orders").fetchall() == [(42,)]


def options(examples, directory, environment):
    """A task without a receiver."""
    code = examples["options"] + """
from pgfairq import Worker
task = invite.enqueue({"shop": 5})
print([(emails.get(task).max_attempts, emails.get(task).priority, emails.get(task).group)])
Worker(emails).run(drain=True)
print([(one.id == task, one.attempts, one.last_error.split("\\n")[0]) for one in emails.dead()])"""
    assert python(code, directory, environment) == "[(3, 2, '5')]\n[(True, 1, \"KeyError: 'to'\")]\n"


def types(examples, directory, environment):
    code = examples["types"] + """
from pgfairq import Worker
Worker(emails).run(drain=True)
print(remind.await_result(task))
try:
    remind.enqueue({"to": "ann@example.com"})
except TypeError as error:
    print(error)"""
    assert python(code, directory, environment).splitlines() == [
        "Receipt(letters=1)", "the payload of task 'remind' must be Reminder, as its handler says, not dict: {'to': 'ann@example.com'}"]


def hooks(examples, directory, environment):
    code = examples["hooks"] + """
from app import send
from pgfairq import Worker
send.enqueue({}, group=7, max_attempts=1)
Worker(emails).run(drain=True)"""
    assert python(code, directory, environment) == "send of 7 is dead: KeyError('to')\n"


def an_applications_tests(examples, directory, environment):
    """With pytest, and a connection as an application's tests would have one."""
    (directory / "test_app.py").write_text(examples["testing"])
    (directory / "conftest.py").write_text("""
import psycopg, pytest

@pytest.fixture
def connection():
    with psycopg.connect() as made:
        yield made
        made.rollback()
""")
    done = subprocess.run(["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(directory), "test_app.py"], cwd=directory,
                          env=environment, stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout
