"""Faults of clients, their connections and backends, as plug-ins of drivers that have admin(), which asks the server."""

import os
import signal
import time

import psycopg

from clients import Client
from faults import Skip, fault, simple
from journal import CRASH


def a_client(driver):
    busy = driver.crew.busy()
    return driver.random.choice(busy if busy and driver.random.random() < 0.7 else range(len(driver.options.kinds)))


@fault("client killed (kill -9)", 160)
def client_killed(driver):
    number = a_client(driver)
    with driver.ends("client", which=driver.crew.tag(number)):
        driver.crew.kill(number)


@fault("client stopped for longer than a lease (SIGSTOP)", 30, lasts=(1, Client.lease + 2))
def client_stopped(driver):
    process = driver.crew.processes[a_client(driver)]
    os.kill(process.pid, signal.SIGSTOP)
    return lambda: process.is_alive() and os.kill(process.pid, signal.SIGCONT)


def backend(driver):
    pids = driver.admin("SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s ORDER BY pid", driver.client.prefix + " %")
    if not pids:
        raise Skip
    return driver.random.choice(pids)[0]


def signalled(driver, function):
    pid = backend(driver)
    with driver.ends("pid", which=pid):
        driver.admin("SELECT %s(%d)" % (function, pid))
        # It notices with its next interrupt.
        time.sleep(0.05)


simple(
    ("terminated", "connection terminated (pg_terminate_backend)", 150, lambda driver: signalled(driver, "pg_terminate_backend")),
    ("cancelled", "statement cancelled (pg_cancel_backend)", 150, lambda driver: signalled(driver, "pg_cancel_backend")))


def crash(driver, pid):
    """Kill a process of the server: it ends all others and starts again."""
    conn = driver.connect()
    os.kill(pid, signal.SIGKILL)
    try:
        while True:
            conn.execute("SELECT pg_sleep(0.01)")
    except psycopg.OperationalError:
        driver.wait_up()


simple(("backend_killed", "backend killed (kill -9)", 45, lambda driver: crash(driver, backend(driver))), forgives=CRASH)
