"""That no client of ours names a queue's table, or its done table, in SQL; prints TAP.

    clients.py TREE

The planner runs functions in predicates and expressions of a table's indexes, and
an UPDATE its constraints, as the role that runs the SQL: the owner of a queue would
run code as the role of the dashboard, of a relay, of a worker. So clients use the
functions of the engine, which read and write the rows as the engine does.

Looked at is what runs for others: the clients, the queries of monitoring, the
demonstration; also what their pages show for copying. Tests may do as they like.

To see it fail: write "fairq.q_x" into a client, or build such a name with "q_" and the
name of a queue, or read the column relation of fairq.queues, or go on with one after FROM.
"""
import glob
import os
import re
import sys

PLACES = ["clients/**/*", "monitoring/**/*", "test/demo/*", "packaging/**/*"]
SKIPPED = re.compile(r"(^|/)(node_modules|dist|build|test|__pycache__|\.node)/|_test\.go$")

# A table by its name; a name that is put together; a statement that is filled with one, or
# goes on with one; the name as the server tells it.
NAMED = re.compile(r"\bfairq\\?\"?\s*\.\s*\\?\"?(q_|done_(?!tasks\b|of_))", re.I)
BUILT = re.compile(r"""["'`.](q|done)_(["'`]\s*(\|\||\+|%|,)|\$\{|\#\{|\{|%[sI]|["'`]\s*$)""")
FILLED = re.compile(r"""\b(?<!epoch )(FROM|JOIN|UPDATE|INTO|LOCK|TABLE)\s+((\$|\#)?\{\s*|["'`]\s*(\+|\.)\s*)(\w+\.)*(relation|table|queue)""")
TOLD = re.compile(r"\brelation\b(?!::oid)[^;]*\bFROM\s+fairq\.queues\b", re.I | re.S)

# "file: line as it is", or a file: why it is no SQL on the table.
ALLOWED = {
    "clients/python/pgfairq/celery/backend.py": "the table of results, which is no queue's",
    "clients/node/src/dashboard/data/queues.ts: has_table_privilege(to_regclass(format('fairq.%I', 'done_' || queue)), 'SELECT') AS done_readable`;":
        "asks for a privilege, by name",
    "clients/node/src/dashboard/data/queues.ts: WHERE NOT $1::boolean OR to_regclass(format('fairq.%I', 'done_' || queue)) IS NOT NULL":
        "asks whether it is there, by name",
    "clients/node/src/dashboard/pages/tasks.ts: html`<code>GRANT SELECT ON ${foreign(`fairq.\"q_${queue.queue.replaceAll('\"', '\"\"')}\"`)} TO …</code>`,":
        "a GRANT, shown to an operator",
    "clients/node/src/dashboard/pages/archive.ts: html`<code>GRANT SELECT ON ${foreign(`fairq.\"done_${queue.queue.replaceAll('\"', '\"\"')}\"`)} TO …</code>`,":
        "a GRANT, shown to an operator",
    "clients/conformance/scenarios.py": "a test, which locks the table of its own queue",
}


def demonstration(path):
    return path.startswith("test/demo/")


def sources():
    for pattern in PLACES:
        for path in sorted(glob.glob(pattern, recursive=True)):
            if os.path.isfile(path) and (demonstration(path) or not SKIPPED.search(path)):
                yield path


def findings(text):
    """(line number, line)"""
    rows = text.split("\n")
    numbers = {number for number, row in enumerate(rows, 1) if NAMED.search(row) or BUILT.search(row) or FILLED.search(row)}
    # A statement may be broken anywhere.
    numbers |= {text.count("\n", 0, match.end()) + 1 for pattern in (NAMED, TOLD) for match in pattern.finditer(text)}
    return [(number, rows[number - 1].strip()) for number in sorted(numbers)]


def main():
    os.chdir(sys.argv[1])
    found, allowed, read = [], set(), 0
    for path in sources():
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            continue  # a picture
        read += 1
        for number, row in findings(text):
            name = "%s: %s" % (path, row)
            if name in ALLOWED or path in ALLOWED:
                allowed |= {name, path} & set(ALLOWED)
            else:
                found.append("%s:%d: %s" % (path, number, row[:100]))
    tests = [("the clients are there", [] if read > 100 else ["%d files" % read]),
             ("no client names a queue's table in SQL: it goes by functions", found),
             ("what is allowed is there", sorted(set(ALLOWED) - allowed))]
    for number, (what, wrong) in enumerate(tests, 1):
        print("%s %d - %s" % ("not ok" if wrong else "ok", number, what))
        for line in wrong:
            print("# " + line)
    print("1..%d" % len(tests))
    return 1 if any(wrong for _, wrong in tests) else 0


if __name__ == "__main__":
    sys.exit(main())
