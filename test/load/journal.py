"""What the clients of a load and its driver know, written down outside the database.

Each process has a file of its own, one JSON array a line.  A line is written
with one write(), so it is there also when its writer is killed in the next
moment; of a line that is not whole nothing is read.  Times are of the machine's
monotonic clock, which all processes share and no fault touches.

Lines of clients:

["I", x, t, what, names]        transaction x is about to begin: to enqueue names, or to settle these receipts
["O", x, t, outcome, acked]     its outcome: "c" committed, "r" rolled back, "u" unknown; acked: [queue, ident, receipt] of each.
                                None of these: the client was killed, and it is unknown
["H", t, pid, session, tasks]   each of tasks [queue, ident, receipt, key, attempt, asked, until, durable] is held for certain
                                from t to until, by a lease that was asked for at asked. pid: only while that backend's
                                transaction or session lasts. session: as long as it lives, instead of until
["D", t, receipts]              from t on that is not certain any more
["B", t, session, ttl, answered] a heartbeat, sent at t, was answered with true
["F", t, sent, queue, ident, receipt, until]
                                ack, sent and answered with false at t; until: when the lease ends, if that is known
["L", t, what]                  the connection, or the session, is lost, and with it what was held by it
["C", sent, t, node, tasks]     a proxy's call, and which node answered; None: it was lost. tasks: [name, id] of each that was enqueued
["N", what]                     this was done: to be counted
["X", t, sqlstate, message]     an error that no fault explains, or an answer that is wrong

Lines of the driver:

["E", fault, from, until, [reach, which]]
                                leases may have ended between these times: "memory" all that are not durable, "all" all,
                                of those that do not outlive their connection "connections" all, "pid" that
                                backend's, "client" that client's
"""

import contextlib
import json
import os
import time

now = time.monotonic


def since_boot(epoch):
    """A time of the wall clock, as now() says it. Only while no fault sets that clock."""
    return epoch - time.time() + now()


class Journal:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words):
        os.write(self.fd, (json.dumps(words, separators=(",", ":")) + "\n").encode())

    @contextlib.contextmanager
    def ends(self, fault, *reaches, which=0):
        """What is done here may end leases."""
        begin = now()
        try:
            yield
        finally:
            for reach in reaches:
                self.write("E", fault, begin, now(), [reach, which])


# What ends the leases that are in memory only, and every connection.
CRASH = ("memory", "connections")


def read(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
