"""One worker of the demo: claims files, counts their lines and words, and
writes each result and its acknowledgement in one transaction."""

import signal
import subprocess
import sys
import time

import psycopg

QUEUE = "files"
BATCH = 10
LEASE = "2 s"


def unprintable_bytes_make_no_word():
    """Whether this machine's wc, in the C locale, ignores bytes that cannot be
    printed when it looks for words. Older ones do, newer ones do not."""
    out = subprocess.run(["wc", "-w"], input=b"\200", stdout=subprocess.PIPE, env={"LC_ALL": "C"},
                         check=True).stdout
    return out.strip() == b"0"


SPACES = b" \t\n\v\f\r"
IGNORED = bytes(byte for byte in range(256) if byte not in SPACES and not 0x20 < byte < 0x7F) \
    if unprintable_bytes_make_no_word() else b""


def count(path):
    """Lines and words of a file, as wc counts them."""
    with open(path, "rb") as file:
        data = file.read()
    return data.count(b"\n"), len(data.translate(None, IGNORED).split())


def work(number):
    connection = psycopg.connect(application_name=f"worker {number}", autocommit=True)
    while True:
        tasks = connection.execute(
            "SELECT id, receipt, group_key, payload->>'file', attempt, enqueued_at, clock_timestamp()"
            " FROM fairq.claim(%s, %s, lease => %s)", (QUEUE, BATCH, LEASE)).fetchall()
        if not tasks:
            time.sleep(0.02)
        for task, receipt, tenant, file, attempt, enqueued_at, claimed_at in tasks:
            lines, words = count(file)
            with connection.transaction():
                connection.execute(
                    "INSERT INTO counted VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    (task, tenant, file, lines, words, number, attempt, enqueued_at, claimed_at))
                acknowledged, = connection.execute("SELECT fairq.ack(%s)", (receipt,)).fetchone()
                if not acknowledged:  # the lease ran out and another has the task
                    raise psycopg.Rollback()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    work(int(sys.argv[1]))
