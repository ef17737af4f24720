"""One worker of the demo: claims files, counts their lines and words, and
writes each result and its acknowledgement in one transaction."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import psycopg

QUEUE = "files"
BATCH = 10
LEASE = "2 s"


def wc_bytes():
    """Which bytes part words for this machine's wc, in the C locale, and which
    make none: its versions differ in control characters and in what is not
    ASCII. Each byte alone, and each between two letters, is a file for it."""
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for byte in range(256):
            for text in (b"a%ca" % byte, b"%c" % byte):
                paths.append(os.path.join(directory, str(len(paths))))
                with open(paths[-1], "wb") as file:
                    file.write(text)
        out = subprocess.run(["wc", "-w", *paths], stdout=subprocess.PIPE, check=True,
                             env={**os.environ, "LC_ALL": "C"}).stdout
    words = [int(line.split()[0]) for line in out.splitlines()]
    parting = bytes(byte for byte in range(256) if words[2 * byte] == 2)
    silent = bytes(byte for byte in range(256) if words[2 * byte + 1] == 0 and byte not in parting)
    return parting, silent


PARTING, SILENT = wc_bytes()
BLANKED = bytes.maketrans(PARTING, b" " * len(PARTING))


def count(path):
    """Lines and words of a file, as wc counts them."""
    with open(path, "rb") as file:
        data = file.read()
    words = data.translate(BLANKED, SILENT).split(b" ")
    return data.count(b"\n"), len(words) - words.count(b"")


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
