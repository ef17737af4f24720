"""What the tests of the library share."""

import itertools
import threading
from contextlib import contextmanager

import part_server
import pytest

from pgfairq import Queue

NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def database():
    """A database with the extension, of this file of tests alone."""
    return part_server.new_database()


@pytest.fixture
def make_queue(database, request):
    """make_queue(setting=value, …): a new queue of the test; make_queue.conninfo is where."""
    made = []

    def make(name="", **settings):
        name = f"{request.node.originalname[:30]}{name} {next(NUMBERS)}".replace(" ", "_")
        made.append(Queue(database, name, create=True, **settings))
        made[-1].ensure()
        return made[-1]

    make.conninfo = database
    yield make
    for one in made:
        one.close()


@contextmanager
def running(worker):
    """A worker in a thread; what it raises is raised at the end."""
    failed = []

    def run():
        try:
            worker.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(120)
        assert not thread.is_alive(), "the worker does not end"
    if failed:
        raise failed[0]
