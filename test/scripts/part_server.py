"""The server of a part's suite, for tests in Python: where it is, and its faults.

check.sh says where it is: PGHOST, PGUSER, FAIRQ_CLUSTER (its directory) and PATH.
"""

import itertools
import os
import signal
import subprocess
import time

import psycopg

CLUSTER = os.environ["FAIRQ_CLUSTER"]
NUMBERS = itertools.count(1)


def conninfo(database):
    return f"host={os.environ['PGHOST']} user={os.environ['PGUSER']} dbname={database}"


def new_database(setup=""):
    """A database of its own with the extension in it; its connection string."""
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(conninfo(name), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pgfairq")
        if setup:
            connection.execute(setup)
    return conninfo(name)


def pg_ctl(*arguments):
    subprocess.run(["pg_ctl", "-D", f"{CLUSTER}/data", "-l", f"{CLUSTER}/log", "-w", "-t", "120", "-s", *arguments],
                   check=True, stdin=subprocess.DEVNULL)


def restart(mode="fast"):
    """mode: fast, immediate (which is a crash with recovery)"""
    pg_ctl("restart", "-m", mode)


def stop(mode="fast"):
    pg_ctl("stop", "-m", mode)


def start():
    pg_ctl("start")


def kill_server():
    """kill -9 of the postmaster, and its start when all its processes are gone."""
    with open(f"{CLUSTER}/data/postmaster.pid", encoding="ascii") as file:
        postmaster = int(file.readline())
    os.kill(postmaster, signal.SIGKILL)
    while True:  # shared memory is in use as long as one of them is there
        try:
            start()
            return
        except subprocess.CalledProcessError:
            time.sleep(0.2)


def wait_until(condition, what, patience=120):
    """Asks until it holds. The time is for a machine that hangs, not for one that is late."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.02)
