"""Counts the server's instructions for one call. Started by instructions.sh.

Each call is made in a session of its own, n times and in another 3 n times. What
the second executed more, divided by 2 n, is one call: what a session does at its
start and its end, and what is done only at first, is in both.
"""

import argparse
import csv
import itertools
import os
import re
import subprocess
import sys
import time
import uuid

import psycopg

GROUPS = 1000
PAYLOAD = '{"kind": "thumbnail", "file": "uploads/2024/05/17/0001234.jpg", "width": 640, "user": 1234567}'
CSV_COLUMNS = ["call", "tasks", "instructions_per_call", "instructions_per_task", "server", "calls"]
START = 20      # calls before the counted ones: caches, plans
BINARY = "binary"   # of a call: what it returns is asked for in the protocol's binary format; parameters: %b


class Bench:
    def __init__(self, arguments):
        self.conninfo, self.counts = arguments.conninfo, arguments.counts
        self.number, self.user = itertools.count(), itertools.count()
        # Calls of one task, of a hundred. Between the two runs with a hundred lie 8200 tasks: each of the 16
        # buckets reads the next 512 entries of its index once. (Those with one are too short for that.)
        self.lengths = {1: 300 if arguments.quick else 1000, 100: 41}
        self.control = self.connect()
        self.version = self.control.execute("SHOW server_version").fetchone()[0]
        self.setup()

    def connect(self):
        conn = psycopg.connect(self.conninfo, autocommit=True)
        conn.prepare_threshold = 0
        return conn

    def setup(self):
        self.control.execute("CREATE EXTENSION pgfairq")
        self.create("bench")
        # The bare table has the queue's columns and indexes, without its trigger.
        self.enqueue("bench", 100)
        self.control.execute("CREATE TABLE floor (LIKE fairq.q_bench INCLUDING ALL EXCLUDING IDENTITY)")
        self.control.execute("CREATE TABLE source AS SELECT * FROM fairq.q_bench")
        # Of a task's row, but for its id and address.
        self.columns = [row[0] for row in self.control.execute(
            "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = 'floor'::regclass AND attnum > 0"
            " AND NOT attisdropped AND attgenerated = '' AND attname <> 'id' ORDER BY attnum").fetchall()]
        # Of one row as constants, but for its id, payload and group.
        self.values = {column: self.control.execute("SELECT quote_nullable(%s::text) FROM source LIMIT 1" % column).fetchone()[0]
                       for column in self.columns if column not in ("payload", "group_key")}
        self.control.execute("CREATE TABLE arrays AS SELECT array_fill(%s::jsonb, ARRAY[100]) AS payloads,"
                             " ARRAY(SELECT 'g' || i * 7 FROM generate_series(1, 100) i) AS groups", (PAYLOAD,))
        self.drop("bench")

    def create(self, queue, more=""):
        self.control.execute("SELECT fairq.create_queue('%s', max_ready => 100000000, max_ready_per_group => 100000000%s)"
                             % (queue, more))

    def drop(self, queue):
        self.control.execute("SELECT fairq.drop_queue('%s')" % queue)

    def group(self):
        return "g%d" % (next(self.number) * 7919 % GROUPS)

    def enqueue(self, queue, count, users=0):
        for first in range(0, count, 1000):
            n = min(1000, count - first)
            # Each of a group in turn: a group comes once in so many.
            subgroups = ["u%d" % (next(self.user) // GROUPS % users) for _ in range(n)] if users else None
            self.control.execute("SELECT cardinality(fairq.enqueue_many(%s, %s::jsonb[], %s, subgroup_keys => %s))",
                                 (queue, [PAYLOAD] * n, [self.group() for _ in range(n)], subgroups))
        # Who first looks at a row sets its hint bits: the counted session in one run, and the background worker in another.
        self.control.execute("SELECT count(payload) FROM fairq.q_%s" % queue)

    # -- the calls: each yields the arguments of one call after the other ----

    def no_arguments(self, count, tasks):
        return [()] * count

    def to_enqueue(self, count, tasks):
        if tasks == 1:
            return [(PAYLOAD, self.group()) for _ in range(count)]
        return [([PAYLOAD] * tasks, [self.group() for _ in range(tasks)]) for _ in range(count)]

    def to_claim(self, count, tasks):
        # Another quarter stays, so that the end of the queue is not met.
        self.enqueue("bench", count * tasks * 5 // 4)
        return [()] * count

    def to_claim_of(self, statement, users=0):
        """Of a queue for which this was said before: tasks that stand in their groups' lines, or are counted."""
        def to_claim(count, tasks):
            self.control.execute("SELECT " + statement)
            self.enqueue("bench", count * tasks * 5 // 4, users)
            return [()] * count
        return to_claim

    def to_ack(self, count, tasks):
        self.enqueue("bench", count * tasks * 5 // 4)
        receipts = []
        while len(receipts) < count:
            got = [str(row[0]) for row in self.control.execute(
                "SELECT receipt FROM fairq.claim('bench', %s, lease => '1 h')", (tasks,)).fetchall()]
            if len(got) != tasks:
                raise SystemExit("a claim of %d got %d" % (tasks, len(got)))
            receipts.append((got[0] if tasks == 1 else got,))
        return receipts

    def to_ack_binary(self, count, tasks):
        return [([uuid.UUID(receipt) for receipt in receipts],) for receipts, in self.to_ack(count, tasks)]

    def to_delete(self, count, tasks):
        first = self.control.execute("SELECT coalesce(max(id), 0) + 1 FROM floor").fetchone()[0]
        self.control.execute("INSERT INTO floor (id, %s) SELECT %d + i, %s FROM generate_series(0, %d) i"
                             " JOIN (SELECT row_number() OVER () AS n, * FROM source) s ON s.n = i %% 100 + 1 ORDER BY i"
                             % (", ".join(self.columns), first, ", ".join("s." + c for c in self.columns),
                                count * tasks - 1))
        if tasks == 1:
            return [(first + i,) for i in range(count)]
        return [(first + i * tasks, first + (i + 1) * tasks - 1) for i in range(count)]

    def to_insert(self, count, tasks):
        first = self.control.execute("SELECT coalesce(max(id), 0) + 1 FROM floor").fetchone()[0]
        if tasks == 1:
            return [(first + i, PAYLOAD, self.group()) for i in range(count)]
        return [(first + i * tasks,) for i in range(count)]

    def calls(self):
        columns = ", ".join(self.columns)
        return [
            ("round trip: SELECT 1", 1, "SELECT 1", self.no_arguments),
            ("bare INSERT", 1, "INSERT INTO floor (id, payload, group_key, %s) VALUES (%%s::bigint, %%s::jsonb, %%s, %s)"
             % (", ".join(self.values), ", ".join(self.values.values())), self.to_insert),
            ("bare INSERT … SELECT", 100, "INSERT INTO floor (id, %s) SELECT %%s::bigint + row_number() OVER () - 1, %s FROM source"
             % (columns, columns), self.to_insert),
            ("bare DELETE by id", 1, "DELETE FROM floor WHERE id = %s", self.to_delete),
            ("bare DELETE by ids", 100, "DELETE FROM floor WHERE id BETWEEN %s AND %s", self.to_delete),
            ("enqueue", 1, "SELECT fairq.enqueue('bench', %s::jsonb, group_key => %s)", self.to_enqueue),
            ("enqueue_many", 100, "SELECT cardinality(fairq.enqueue_many('bench', %s::jsonb[], %s))", self.to_enqueue),
            ("enqueue_many, arrays from a table", 100, "SELECT cardinality(fairq.enqueue_many('bench', payloads, groups)) FROM arrays",
             self.no_arguments),
            ("claim, columns id, receipt, group_key, payload", 1,
             "SELECT id, receipt, group_key, payload FROM fairq.claim('bench', 1)", self.to_claim),
            ("claim, all columns", 1, "SELECT * FROM fairq.claim('bench', 1)", self.to_claim),
            ("claim, all columns", 100, "SELECT * FROM fairq.claim('bench', 100)", self.to_claim),
            ("claim, array of receipts", 100, "SELECT array_agg(receipt) FROM fairq.claim('bench', 100)", self.to_claim),
            ("claim, array of receipts, in binary", 100, "SELECT array_agg(receipt) FROM fairq.claim('bench', 100)",
             self.to_claim, BINARY),
            ("the same out of the overflow", 100, "SELECT array_agg(receipt) FROM fairq.claim('bench', 100)",
             self.to_claim_of("fairq.alter_queue('bench', max_ready_per_group => 1)"), BINARY),
            ("the same of groups with a limit", 100, "SELECT array_agg(receipt) FROM fairq.claim('bench', 100)",
             self.to_claim_of("fairq.set_group_defaults('bench', max_leased => 1000000)"), BINARY),
            ("the same of ten users each", 100, "SELECT array_agg(receipt) FROM fairq.claim('bench', 100)",
             self.to_claim_of("fairq.alter_queue('bench', subgroups => true)", users=10), BINARY),
            ("claim of an empty queue", 1, "SELECT * FROM fairq.claim('bench', 1)", self.no_arguments),
            ("ack", 1, "SELECT fairq.ack(%s)", self.to_ack),
            ("ack_many, counted", 100, "SELECT count(*) FROM fairq.ack_many(%s::uuid[])", self.to_ack),
            ("ack_many, counted, receipts in binary", 100, "SELECT count(*) FROM fairq.ack_many(%b)", self.to_ack_binary, BINARY),
            ("ack_and_claim", 1, "SELECT id, receipt, group_key, payload FROM fairq.ack_and_claim('bench', ARRAY[%s::uuid], 1)",
             self.to_ack),
            ("ack_and_claim", 100, "SELECT * FROM fairq.ack_and_claim('bench', %s::uuid[], 100)", self.to_ack),
            ("pop", 1, "SELECT id, group_key, payload FROM fairq.pop('bench', 1)", self.to_claim),
            ("nack, at once", 1, "SELECT fairq.nack(%s, delay => '0')", self.to_ack),
            ("extend", 1, "SELECT fairq.extend(%s)", self.to_ack),
        ]

    # -- counting --------------------------------------------------------------

    def session(self, sql, arguments, binary):
        """What a session that does this executed in all, and the file that says so."""
        with self.connect() as conn:
            pid = conn.info.backend_pid
            with conn.cursor(binary=binary) as cursor:
                for each in arguments:
                    cursor.execute(sql, each)
                    cursor.fetchall() if cursor.description else None
        path = os.path.join(self.counts, str(pid))
        patience = time.monotonic() + 60
        while time.monotonic() < patience:
            # It is written while the process ends.
            if not os.path.exists("/proc/%d" % pid) and os.path.exists(path):
                with open(path) as counts:
                    found = re.findall(r"^totals: (\d+)", counts.read(), re.M)
                if found:
                    return sum(int(total) for total in found), path
            time.sleep(0.02)
        raise SystemExit("valgrind wrote no %s" % path)

    def count(self, call, keep):
        name, tasks, sql, prepare = call[:4]
        totals = []
        few = self.lengths[tasks]
        for count in (few, 3 * few):
            self.create("bench")
            total, path = self.session(sql, prepare(START + count, tasks), BINARY in call)
            totals.append(total)
            self.drop("bench")
            self.control.execute("TRUNCATE floor")
        if keep:
            self.keep(call, path, keep)
        return (totals[1] - totals[0]) / (2 * few)

    def keep(self, call, path, directory):
        """The functions of the longer run, by what they execute themselves and with what they call."""
        name = re.sub("[^a-z0-9]+", "_", call[0].lower()) + "_%d.txt" % call[1]
        calls = START + 3 * self.lengths[call[1]]
        with open(os.path.join(directory, name), "w") as target:
            for inclusive in ("no", "yes"):
                run = subprocess.run(["callgrind_annotate", "--inclusive=" + inclusive, "--auto=no", "--threshold=95",
                                      path], env=dict(os.environ, LC_ALL="C"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                target.write("%d calls of: %s\ninclusive: %s; a session's start and end are in it\n%s%s\n" % (
                    calls, call[2], inclusive, re.sub(r"\[?/\S*/", "[", run.stdout), run.stderr))


def number(value):
    return "{:,.0f}".format(value)


def saved(path):
    try:
        with open(path, newline="") as source:
            return {(row["call"], int(row["tasks"])): row for row in csv.DictReader(source)}
    except OSError:
        return {}


def main():
    parser = argparse.ArgumentParser()
    for name in ("--conninfo", "--counts", "--results"):
        parser.add_argument(name, required=True)
    parser.add_argument("--keep")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tolerance", type=float, default=3)
    parser.add_argument("calls", nargs="*")
    arguments = parser.parse_args()

    bench = Bench(arguments)
    path = os.path.join(arguments.results, "instructions")
    before = saved(path + ".csv")
    major = bench.version.split(".")[0]
    rows, lines, heavier = [], [], []
    for call in bench.calls():
        name, tasks = call[0], call[1]
        if arguments.calls and not any(word in name for word in arguments.calls):
            continue
        per_call = bench.count(call, arguments.keep)
        rows.append({"call": name, "tasks": tasks, "instructions_per_call": round(per_call),
                     "instructions_per_task": round(per_call / tasks), "server": bench.version,
                     "calls": bench.lengths[tasks]})
        then = before.get((name, tasks))
        cells = [name, str(tasks), number(per_call), number(per_call / tasks)]
        # A few calls get dearer the more there were, so runs of other lengths are not compared.
        if then and then["server"].split(".")[0] == major and then["calls"] == str(bench.lengths[tasks]):
            ratio = per_call / float(then["instructions_per_call"])
            cells += [number(float(then["instructions_per_call"])), "%+.1f %%" % (100 * (ratio - 1))]
            if ratio > 1 + arguments.tolerance / 100:
                heavier.append("%s of %d: %s instead of %s" % (name, tasks, cells[2], cells[4]))
        else:
            cells += ["", ""]
        lines.append(cells)
        print("%-48s %4d %12s a call %10s a task  %s" % (name, tasks, cells[2], cells[3], cells[5]), flush=True)

    if not rows:
        sys.exit("instructions: there is no call with %s in its name" % " or ".join(arguments.calls))
    if arguments.save and not arguments.calls:
        text = ["# Instructions of a call\n",
                "%s, PostgreSQL %s, counted by callgrind in user space, of the session's process: a call is a"
                " prepared statement, from its message to its answer, commit included.\n"
                % (time.strftime("%Y-%m-%d", time.gmtime()), bench.version),
                "| call | tasks | instructions a call | a task |", "|---|---:|---:|---:|"]
        text += ["| %s | %s | %s | %s |" % tuple(cells[:4]) for cells in lines]
        os.makedirs(arguments.results, exist_ok=True)
        with open(path + ".md", "w") as target:
            target.write("\n".join(text) + "\n")
        with open(path + ".csv", "w", newline="") as target:
            writer = csv.DictWriter(target, CSV_COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print("written to %s.md and .csv" % path)
    elif heavier:
        print("\nheavier than %s.csv:\n  %s" % (path, "\n  ".join(heavier)))
        sys.exit(1)


if __name__ == "__main__":
    main()
