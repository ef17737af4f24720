#!/usr/bin/python3
"""What the judge of the loads (judge.py) says of journals and tables that are made up: of a run in
which all is well, with much in doubt, and of that run with one thing changed.  Prints TAP.

    judged.py CONNINFO

To see it fail: leave out any of the judge's questions.
"""

import os
import shutil
import sys
import tempfile

import psycopg

import judge
from journal import CRASH, Journal

QUEUE = "q"
TABLES = """
DROP TABLE IF EXISTS produced, results, removed, waiting;
CREATE TABLE waiting (n text);
""" + judge.TABLES


def receipt(number):
    return "00000000-0000-0000-0000-%012d" % number


def hold(name, number, asked=1.0, until=9.0, key=None, durable=False):
    return [QUEUE, name, receipt(number), key, 1, asked, until, durable]


class Run:
    """Five tasks: done, done by who was killed, there, cancelled, and one that runs again after a
    crash.  And two enqueues whose outcome is not known, one of which committed."""

    def __init__(self, directory):
        self.lines = {"driver": [], "producer.0.0": [], "worker.1.0": [], "worker.2.0": []}
        self.directory = directory
        self.produced = [(name, task) for task, name in enumerate(("done", "killed", "there", "cancelled", "again", "doubt"), 1)]
        self.results = [("done", 1, 1), ("killed", 2, 2), ("again", 4, 5), ("doubt", 5, 6)]
        self.removed = ["cancelled"]
        self.waiting = ["there"]
        self.producer = self.lines["producer.0.0"]
        self.first, self.second = self.lines["worker.1.0"], self.lines["worker.2.0"]
        self.transaction(self.producer, 1, "enqueue", ["done", "killed", "there", "cancelled", "again"], "c")
        self.transaction(self.producer, 2, "enqueue", ["doubt"], "u")
        self.transaction(self.producer, 3, "enqueue", ["never"], "u")
        self.transaction(self.producer, 4, "enqueue", ["rolled back"], "r")
        self.first.append(("H", 1.1, 0, None, [hold("done", 1), hold("again", 3), hold("killed", 2)]))
        self.first.append(("D", 2.0, [receipt(1)]))
        self.transaction(self.first, 1, "settle", [receipt(1)], "c", [[QUEUE, "done", receipt(1)]])
        self.first.append(("D", 2.5, [receipt(2)]))
        self.first.append(("I", 2, 2.5, "settle", [receipt(2)]))
        self.lines["driver"] += [("E", "crash", 3.0, 3.5, [reach, 0]) for reach in CRASH]
        self.second.append(("H", 4.0, 0, None, [hold("again", 4, asked=3.9)]))
        self.first.append(("F", 4.2, 4.1, QUEUE, "again", receipt(3), 9.0))
        self.second.append(("D", 5.0, [receipt(4)]))
        self.transaction(self.second, 1, "settle", [receipt(4)], "c", [[QUEUE, "again", receipt(4)]])

    def transaction(self, lines, x, what, names, outcome, acked=()):
        lines += [("I", x, 1.0, what, names), ("O", x, 5.1, outcome, list(acked))]

    def judged(self, conn):
        """Names of the lists that are not empty."""
        journals = os.path.join(self.directory, "journals")
        shutil.rmtree(journals, ignore_errors=True)
        os.mkdir(journals)
        driver = os.path.join(self.directory, "driver")
        for name, lines in self.lines.items():
            path = driver if name == "driver" else os.path.join(journals, name)
            if os.path.exists(path):
                os.unlink(path)
            journal = Journal(path)
            for line in lines:
                journal.write(*line)
            os.write(journal.fd, b'["D",5.0,["half a li')
        conn.execute(TABLES)
        cursor = conn.cursor()
        cursor.executemany("INSERT INTO produced VALUES ('q', %s, %s, %s)", [(name, name, task) for name, task in self.produced])
        cursor.executemany("INSERT INTO results VALUES ('q', %s, %s, 'w', 1, %s)", [(name, receipt(n), task) for name, n, task in self.results])
        cursor.executemany("INSERT INTO removed VALUES ('q', %s, 'cancelled')", [(name,) for name in self.removed])
        cursor.executemany("INSERT INTO waiting VALUES (%s)", [(name,) for name in self.waiting])
        found = judge.check(conn, judge.read_logs(journals), driver, ["SELECT 'q', n, 'there' FROM waiting"])
        return [name for name in ("lost", "doubled", "nowhere", "broken", "errors") if getattr(found, name)], list(found.lines())


# What is changed, and what is to be found.
CASES = [
    ("all is well", lambda run: None, []),
    ("a task that was waiting is gone", lambda run: run.waiting.remove("there"), ["lost"]),
    ("a committed enqueue left no trace", lambda run: (run.produced.pop(2), run.waiting.clear()), ["lost"]),
    ("a committed ack left no result", lambda run: (run.results.pop(0), run.waiting.append("done")), ["lost"]),
    ("a task that was done is there again", lambda run: run.waiting.append("done"), ["doubled"]),
    ("two results of a task", lambda run: run.results.append(("done", 7, 1)), ["doubled"]),
    ("two results of one that was in doubt", lambda run: run.results.append(("doubt", 7, 6)), ["doubled"]),
    ("done and cancelled", lambda run: run.removed.append("done"), ["doubled"]),
    ("acknowledged twice, as clients know", lambda run: run.transaction(
        run.second, 2, "settle", [receipt(1)], "c", [[QUEUE, "done", receipt(1)]]), ["doubled"]),
    ("enqueued twice", lambda run: run.produced.append(("there", 8)), ["doubled"]),
    ("an id that was given twice", lambda run: run.produced.__setitem__(2, ("there", 2)), ["doubled"]),
    ("a result of another task's id", lambda run: run.results.__setitem__(0, ("done", 1, 9)), ["doubled"]),
    ("a task of a transaction that was rolled back", lambda run: run.waiting.append("rolled back"), ["nowhere"]),
    ("a result of what nobody enqueued", lambda run: run.results.append(("nothing", 7, 9)), ["nowhere"]),
    ("two holders at a time", lambda run: run.second.append(("H", 1.5, 0, None, [hold("done", 8)])), ["doubled"]),
    ("the same after the first gave it up", lambda run: run.second.append(("H", 2.1, 0, None, [hold("done", 8)])), []),
    ("the same after its lease was over", lambda run: run.second.append(("H", 9.1, 0, None, [hold("killed", 8, 9.0, 12.0)])), []),
    ("two holders, and no crash between them", lambda run: run.lines["driver"].clear(), ["doubled", "broken"]),
    ("two holders, and the lease outlives a crash", lambda run: run.first.__setitem__(
        0, ("H", 1.1, 0, None, [hold("done", 1), hold("again", 3, durable=True), hold("killed", 2)])), ["doubled", "broken"]),
    ("two holders in transactions", lambda run: (
        run.second.append(("H", 1.5, 77, None, [hold("done", 8, until=None)])), run.second.append(("D", 1.9, [receipt(8)]))), ["doubled"]),
    ("the same of a backend that ended", lambda run: (
        run.second.append(("H", 1.5, 77, None, [hold("done", 8, until=None)])), run.second.append(("D", 1.9, [receipt(8)])),
        run.lines["driver"].append(("E", "terminated", 1.3, 1.4, ["pid", 77]))), []),
    ("two sessions have it, the first lives", lambda run: (
        run.first.append(("H", 6.0, 0, "s", [hold("there", 8, 5.9, None)])), run.first.append(("B", 6.5, "s", 3.0, 6.6)),
        run.second.append(("H", 9.4, 0, None, [hold("there", 9, 9.3, 12.0)]))), ["doubled"]),
    ("the first one's last heartbeat was before", lambda run: (
        run.first.append(("H", 6.0, 0, "s", [hold("there", 8, 5.9, None)])), run.first.append(("B", 6.2, "s", 3.0, 6.6)),
        run.second.append(("H", 9.4, 0, None, [hold("there", 9, 9.3, 12.0)]))), []),
    ("two tasks of one key at a time", lambda run: (
        run.first.append(("H", 6.0, 0, None, [hold("there", 8, 5.9, 9.0, "k")])),
        run.second.append(("H", 6.0, 0, None, [hold("again", 9, 5.9, 9.0, "k")]))), ["doubled"]),
    ("a lease that was refused before its end", lambda run: run.first.append(
        ("F", 2.9, 2.8, QUEUE, "killed", receipt(2), 9.0)), ["broken"]),
    ("the same of a task that was cancelled", lambda run: (
        run.first.append(("H", 1.1, 0, None, [hold("cancelled", 8)])), run.first.append(("F", 2.9, 2.8, QUEUE, "cancelled", receipt(8), 9.0))), []),
    ("the same after its end", lambda run: run.first.append(("F", 9.1, 9.0, QUEUE, "killed", receipt(2), 9.0)), []),
    ("an error that no fault explains", lambda run: run.first.append(("X", 2.0, "XX000", "oops")), ["errors"]),
]


def main():
    print("1..%d" % len(CASES))
    bad = 0
    with tempfile.TemporaryDirectory() as directory, psycopg.connect(sys.argv[1], autocommit=True) as conn:
        for number, (name, change, expected) in enumerate(CASES, 1):
            run = Run(directory)
            change(run)
            found, lines = run.judged(conn)
            good = found == expected
            bad += not good
            print("%s %d - %s: %s" % ("ok" if good else "not ok", number, name, ", ".join(expected) or "nothing"))
            if not good:
                print("\n".join("# " + line for line in [", ".join(found) or "nothing", *lines]))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
