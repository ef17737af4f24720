"""One worker of the demo: counts the lines and words of files. It writes each
result in the transaction that acknowledges the task, which the library sees to."""

import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone

from pgfairq import Queue, Worker

QUEUE = "files"
AHEAD = 9  # tasks that a worker may claim beyond the one that it does


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
    queue = Queue(f"application_name='worker {number}'", QUEUE)

    @queue.task()
    def count_file(payload, context):
        began = datetime.now(timezone.utc)
        lines, words = count(payload["file"])
        context.connection.execute(
            "INSERT INTO counted VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (context.id, context.group, payload["file"], lines, words, number, context.attempt, context.enqueued_at, began))

    Worker(queue, concurrency=1, prefetch=AHEAD).run()


if __name__ == "__main__":
    work(int(sys.argv[1]))
