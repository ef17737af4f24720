"""What clients and the driver know, written down outside the database.

Each process has a file of its own, one JSON array a line.  A line is written
with one write() and is on disk when that returns, so it is there also when its
writer is killed in the next moment; of a line that is not whole nothing is read.
Times are of the machine's monotonic clock, which all processes share and no
fault touches.

Lines of clients:

["I", x, t, what, names]        transaction x is about to begin, to enqueue names or to settle receipts
["O", x, t, outcome, acked]     its outcome: "c" committed, "r" rolled back, "u" unknown; acked: [queue, ident, receipt] of each.
                                None of these: the client was killed, and it is unknown
["H", t, asked, until, flags, pid, session, tasks]
                                tasks [queue, ident, receipt, key] are held for certain from t to until, by a lease that
                                was asked for at asked; flags: "d" it is durable. pid: only while that backend's transaction or session lasts.
                                session: as long as it lives, instead of until
["D", t, receipts]              from t on that is not certain any more
["B", t, session, ttl]          a heartbeat, sent at t, was answered with true
["F", t, sent, queue, ident, receipt, until]
                                ack, sent and answered with false at t
["X", t, sqlstate, message]     an error that no fault explains

Lines of the driver:

["E", fault, from, until, [reach, which]]
                                leases may have ended between these times: "memory" all that are not durable, "all" all,
                                of those that do not outlive their connection "connections" all, "pid" that
                                backend's, "client" that client's
"""

import json
import os
import time

now = time.monotonic


class Journal:
    def __init__(self, path):
        # O_DSYNC: each line is on disk before the client goes on.
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DSYNC, 0o600)

    def write(self, *words):
        os.write(self.fd, (json.dumps(words, separators=(",", ":")) + "\n").encode())


def read(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
