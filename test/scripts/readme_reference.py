#!/usr/bin/env python3
"""Compares doc/reference.md, and the tables of other pages, with what there is,
and reports in TAP.

What the server can say it is asked: signatures, defaults, types, columns,
settings. SQLSTATEs, log messages and locks are looked up in the source. Both
ways, where that makes sense: what there is has to be in the reference, and
what is in the reference has to be there.

usage: readme_reference.py CHECKOUT, with PGHOST and so on
"""

import glob
import os
import re
import sys

import psycopg

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, name, *notes):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}")
        if not good:
            for note in notes:
                print(f"#   {note}")

    def same(self, there, stated, name):
        there, stated = set(there), set(stated)
        self.ok(there == stated, name,
                *[f"not in the reference: {x}" for x in sorted(there - stated)],
                *[f"only in the reference: {x}" for x in sorted(stated - there)])


def section(text, title):
    """What is below a heading, to the next one of its level or above."""
    heading = re.search(rf"^(#+) {re.escape(title)}$", text, re.M)
    if not heading:
        raise SystemExit(f"Bail out! there is no section '{title}'")
    rest = text[heading.end():]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.M)
    return rest[:end.start()] if end else rest


def rows(text):
    """The rows of all Markdown tables in a text, without their headings."""
    table = []
    for line in text.splitlines():
        if line.startswith("|"):
            table.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        else:
            yield from table[2:]
            table = []
    yield from table[2:]


def names(text):
    return re.findall(r"`([a-z_]\w*)`", text)


# --- functions ----------------------------------------------------------------

def signatures(reference):
    """(name, arguments, result) of every function in a block without a language."""
    for language, block in FENCE.findall(reference):
        if language:
            continue
        for function in re.split(r"\n(?=\S)", block.strip()):
            match = re.fullmatch(r"(CALL )?fairq\.(\w+)\((.*?)\)(?: RETURNS (.+))?", " ".join(function.split()))
            if not match:
                raise SystemExit(f"Bail out! not a signature: {function}")
            yield match[2], match[3], match[4]


def functions_of(cursor):
    """name: (arguments, result) of all functions of schema fairq."""
    cursor.execute("""
        SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid)
        FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace""")
    functions = {}
    for name, arguments, result in cursor:
        # arguments that are returned are stated as a table
        arguments, *returned = re.split(r"(?:^|, )OUT ", arguments.replace("IN ", ""))
        functions[name] = (arguments, f"TABLE({', '.join(returned)})" if returned and result == "SETOF record" else result)
    return functions


def functions_of_proxy():
    """Those that a proxy has: of a database that is one for a moment."""
    with psycopg.connect(autocommit=True) as connection:
        connection.execute("CREATE DATABASE fairq_reference_proxy")
        try:
            with psycopg.connect(dbname="fairq_reference_proxy") as proxy, proxy.cursor() as cursor:
                cursor.execute("CREATE EXTENSION pgfairq_cluster CASCADE")
                return functions_of(cursor)
        finally:
            connection.execute("DROP DATABASE fairq_reference_proxy")


def check_functions(tap, cursor, there, reference, where):
    stated = {}
    for name, arguments, result in signatures(reference):
        tap.ok(name not in stated, f"{name} is stated once")
        # the server reads what is stated, and says it in its own words
        cursor.execute(f"CREATE FUNCTION pg_temp.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql AS 'BEGIN END'" if result
                       else f"CREATE PROCEDURE pg_temp.{name}({arguments}) LANGUAGE plpgsql AS 'BEGIN END'")
        cursor.execute("SELECT pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc "
                       "WHERE proname = %s AND pronamespace = pg_my_temp_schema()", (name,))
        arguments, result = cursor.fetchone()
        stated[name] = (arguments.replace("IN ", ""), result)
    tap.same(there, stated, f"the functions of a {where}")
    for name in sorted(there.keys() & stated.keys()):
        tap.ok(there[name] == stated[name], f"arguments, defaults and result of {name}",
               f"there is:   {there[name]}", f"reference: {stated[name]}")


# --- views and types ----------------------------------------------------------

def columns_of(cursor, relation):
    cursor.execute("""SELECT attname, atttypid::regtype::text FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped""", ("fairq." + relation,))
    return dict(cursor.fetchall())


def check_columns(tap, cursor, text, relation):
    """Stated in a table, with their types, or in a line that begins with one."""
    there = columns_of(cursor, relation)
    stated = []
    for row in rows(text):
        columns, types = names(row[0]), re.findall(r"`([^`]+)`", row[1])
        stated += columns
        if not types:
            continue
        types = types * len(columns) if len(types) == 1 else types
        wrong = []
        for column, stated_type in zip(columns, types):
            cursor.execute("SELECT %s::regtype::text", (stated_type,))
            stated_type, = cursor.fetchone()
            if column in there and stated_type != there[column]:
                wrong.append(f"{column} is {there[column]}, the reference says {stated_type}")
        tap.ok(not wrong and len(types) == len(columns), f"types of {', '.join(columns)} of {relation}", *wrong)
    for line in re.findall(r"^`.*$", text, re.M):
        stated += names(re.sub(r"\[.*?\]\(.*?\)", "", line))  # without links
    tap.same(there, stated, f"columns of {relation}")


def check_relations(tap, cursor, text, kind, relkind):
    cursor.execute("""SELECT relname FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relkind = %s""", (relkind,))
    there = [name for name, in cursor.fetchall()]
    parts = re.split(r"^\*\*fairq\.(\w+)\*\*", text, flags=re.M)
    stated = dict(zip(parts[1::2], parts[2::2]))
    stated.pop("address", None)
    tap.same(there, stated, f"the {kind}")
    for name in sorted(stated.keys() & set(there)):
        check_columns(tap, cursor, stated[name], name)


# --- settings -----------------------------------------------------------------

def milliseconds(value):
    """Of a number or a time; what is on or off is that."""
    if value.strip("`") in ("on", "off"):
        return value.strip("`")
    number, unit = re.fullmatch(r"`?([\d,]+)(ms|s|min|h|d)?`?", value).groups()
    return int(number.replace(",", "")) * {"s": 1000, "min": 60000, "h": 3600000, "d": 86400000}.get(unit, 1)


def check_settings(tap, cursor, text, memory):
    cursor.execute("""SELECT name, boot_val, coalesce(min_val, 'off'), coalesce(max_val, 'on')
        FROM pg_settings WHERE name LIKE 'pgfairq.%'""")
    there = {row[0]: tuple(milliseconds(value) for value in row[1:]) for row in cursor}
    stated = {}
    for row in rows(text):
        low, high = row[2].split(", ")
        stated[row[0].strip("`")] = (milliseconds(row[1]), milliseconds(low), milliseconds(high))
    tap.same(there.items(), stated.items(), "settings, with default, least and greatest value")
    for row in rows(memory):
        name = row[0].strip("`")
        tap.ok(there.get(name, [None])[0] == milliseconds(row[1]), f"the default of {name} in the table of memory")


# --- what the source has ------------------------------------------------------

def check_errors(tap, cursor, text, source):
    cursor.execute("SELECT setting FROM pg_config WHERE name = 'SHAREDIR'")
    codes = {}
    with open(os.path.join(cursor.fetchone()[0], "errcodes.txt"), encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if len(words) == 4 and words[2].startswith("ERRCODE_"):
                codes[words[2]] = (words[0], words[3])
    for name, state in re.findall(r"#define ERRCODE_(\w+)\s+MAKE_SQLSTATE\((.*?)\)", source):  # our own
        codes["ERRCODE_" + name] = (re.sub("[', ]", "", state), name.lower())
    raised = {codes[name] for name in re.findall(r"errcode\((ERRCODE_\w+)\)", source)}
    if "PreventCommandIfReadOnly" in source:  # the server's way to raise it
        raised.add(codes["ERRCODE_READ_ONLY_SQL_TRANSACTION"])
    stated = {(row[0], row[1]) for row in rows(text)}
    tap.same(raised, stated, "SQLSTATEs")


def check_log(tap, text, source):
    """Messages above NOTICE that are not errors of somebody's statement."""
    text = " ".join(text.split()).replace("…", "%")
    for level, message in re.findall(r"ereport\((LOG|WARNING|FATAL|PANIC),\s*\(.*?errmsg(?:_plural)?\(\"((?:[^\"\\]|\\.)*)\"", source, re.S):
        start = re.split(r"\\\"|%", message)[0].strip()
        tap.ok(start in text and level in text.split(start)[0][-40:], f"{level}: {message}")


def check_locks(tap, text, source):
    there = [name for array in re.findall(r"(?:tranche|wait_event)_names\[FAIRQ_\w+\] = \{(.*?)\}", source, re.S)
             for name in re.findall(r"\"(\w+)\"", array)]
    there += re.findall(r"(?:_TRANCHE\s+|fairq_new_wait_event\()\"(\w+)\"", source)
    tap.same(there, re.findall(r"`(Fairq\w+)`", text), "wait events")
    for process in set(re.findall(r"bgw_type, \"([^\"]*)\"", source)):
        tap.ok(process in text, f"the process {process}")


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: readme_reference.py CHECKOUT")

    def read(*path):
        with open(os.path.join(sys.argv[1], *path), encoding="utf-8") as file:
            return file.read()

    source = "".join(read(path) for path in sorted(glob.glob("src/**/*.[ch]", root_dir=sys.argv[1], recursive=True) +
                                                     glob.glob("cluster/*.[ch]", root_dir=sys.argv[1])))
    reference = read("doc", "reference.md")
    monitoring = read("doc", "monitoring.md")
    tap = Tap()
    with psycopg.connect() as connection, connection.cursor() as cursor:
        there = functions_of(cursor)
        cluster = section(reference, "pgfairq_cluster")
        check_functions(tap, cursor, there, reference.replace(cluster, ""), "node")
        check_functions(tap, cursor, {name: function for name, function in functions_of_proxy().items() if name not in there},
                        cluster, "proxy")
        check_relations(tap, cursor, section(reference, "Types"), "composite types", "c")
        check_relations(tap, cursor, section(reference, "Views"), "views", "v")
        check_settings(tap, cursor, section(reference, "Settings"), section(read("doc", "operations.md"), "Memory"))
        check_errors(tap, cursor, section(reference, "Errors"), source)
        check_log(tap, section(monitoring, "What the log says"), source)
        check_locks(tap, section(monitoring, "Wait events"), source)
        connection.rollback()
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
