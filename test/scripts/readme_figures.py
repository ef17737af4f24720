#!/usr/bin/env python3
"""Computes the figures of the pages that can be computed, and reports in TAP
which of them are off by more than 5 %.

A mark stands behind a figure in a page, in its line:

    about 610 MB<!-- figure: memory -->

It belongs to the last number before it. Each name is computed below: from the
server (pg_shmem_allocations, catalogs, rows that are written for it), or from
the sources, where the figure is a constant of theirs. A mark of another name
fails, and so does a figure that no page has.

To see it fail: change a figure in a page, or a constant in the sources.

usage: readme_figures.py CHECKOUT, with PGHOST and so on
"""

import glob
import os
import re
import sys

import psycopg

from readme_reference import Tap

MARK = re.compile(r"<!-- figure: ([a-z]\w*) -->")
NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: (MB|kB|million))?")
UNITS = {"": 1, "kB": 1024, "MB": 1e6, "million": 1e6}

# What each setting of a size is for, and the areas that grow with it.
AREAS = {
    "max_queues": ["pgfairq queues", "pgfairq stats"],
    "max_lanes": ["pgfairq lanes", "pgfairq turns"],
    "max_groups": ["pgfairq groups"],
    "max_limits": ["pgfairq limits"],
    "max_leases": ["pgfairq leases"],
    "max_sessions": ["pgfairq sessions"],
    "max_names": ["pgfairq names"],
    "max_workers": ["pgfairq workers"],
}

# In a small container, as doc/operations.md has it.
SMALL = {"max_groups": 65536, "max_leases": 65536, "max_lanes": 1024}


def value(cursor, query, *arguments):
    cursor.execute(query, arguments or None)
    return cursor.fetchone()[0]


def memory_figures(cursor):
    """What is reserved, as it would be with the settings' defaults."""
    cursor.execute("SELECT name, allocated_size FROM pg_shmem_allocations WHERE name LIKE 'pgfairq%'")
    there = dict(cursor.fetchall())
    figures, total, small = {}, 0, 0
    for setting, areas in AREAS.items():
        cursor.execute("SELECT setting::bigint, boot_val::bigint FROM pg_settings WHERE name = %s", ("pgfairq." + setting,))
        is_set, default = cursor.fetchone()
        each = sum(there.pop(area) for area in areas) / is_set
        figures[setting + "_each"] = each
        total += each * default
        small += each * SMALL.get(setting, default)
    rest = sum(there.values())
    figures["memory"] = total + rest
    figures["memory_small"] = small + rest
    # beside the entry: what is known of a durable one, and its place in the chains
    figures["lease_entry"] = figures["max_leases_each"] - 24 - 4
    return figures


def row_figures(cursor):
    """Rows of the extension's tables, and what leads to them."""
    cursor.execute("SELECT fairq.create_queue('figures')")
    cursor.execute("SELECT fairq.enqueue('figures', '1', after => ARRAY[fairq.enqueue('figures', '1')])")
    cursor.execute("SELECT fairq.enqueue('figures', '1', unique_key => 'invoice 4711', unique_for => '1 day')")
    figures = {}
    for name, table in (("dependency", "fairq.dependency"), ("remembered_key", "fairq_internal.remembered_key")):
        # aligned, and its place in the page
        figures[name + "_row"] = value(cursor, f"SELECT avg(ceil(pg_column_size(t.*) / 8.0) * 8 + 4)::float8 FROM {table} t")
    figures["address"] = value(cursor, "SELECT typlen FROM pg_type WHERE oid = 'fairq.address'::regtype")
    for setting in ("max_ready", "max_ready_per_group", "default_priority"):
        figures["queue_" + setting] = value(cursor, f"SELECT {setting} FROM fairq.queues WHERE queue = 'figures'")
    return figures


def constant(source, name):
    """A #define of the sources, worked out."""
    text = re.search(rf"^#define {name}\s+(.*?)(?:\s*/\*.*)?$", source, re.M)[1]
    text = re.sub(r"[A-Z][A-Z_0-9]+", lambda other: str(constant(source, other[0])), re.sub(r"INT64CONST", "", text))
    return eval(text, {"__builtins__": {}})  # digits and operators


def source_figures(source):
    return {
        "turns_read": constant(source, "TURNS_READ"),
        "parked_each": constant(source, "CANDIDATES_PER_LANE") * 3 / 4,
        "max_after": constant(source, "MAX_AFTER"),
        "max_members": constant(source, "MAX_MEMBERS"),
        "max_group_key": constant(source, "MAX_GROUP_KEY"),
        "max_unique_key": constant(source, "MAX_UNIQUE_KEY"),
        "max_cost": constant(source, "FAIRQ_MAX_COST"),
        "max_charge": constant(source, "FAIRQ_MAX_CHARGE"),
        "max_weight": constant(source, "FAIRQ_MAX_WEIGHT"),
        "max_any": constant(source, "WAITERS_SEATS"),
        "max_buckets": constant(source, "FAIRQ_MAX_BUCKETS"),
        "max_claim": constant(source, "MAX_CLAIM"),
        "max_maintained": constant(source, "MAX_MAINTAINED"),
        "position_rows": constant(source, "POSITION_ROWS"),
        "queue_name": constant(source, "QUEUE_NAME_MAX"),
        "schedule_name": constant(source, "MAX_NAME"),
        "topic": constant(source, "TOPIC_MAX"),
        "group_key_shown": constant(source, "GROUP_KEY_SHOWN"),
        "max_task_name": constant(source, "MAX_TASK_NAME"),
        "history_ends": constant(source, "HISTORY_ENDS"),
        "history_text": constant(source, "HISTORY_TEXT"),
        "suspect_tasks": constant(source, "SUSPECT_TASKS"),
    }


def stated(text):
    """(name, number) of each mark of a page."""
    for line in text.splitlines():
        begin = 0
        for mark in MARK.finditer(line):
            numbers = NUMBER.findall(line[begin:mark.start()])
            if not numbers:
                raise SystemExit(f"Bail out! no number before {mark[0]}: {line}")
            digits, unit = numbers[-1]
            yield mark[1], float(digits.replace(",", "")) * UNITS[unit]
            begin = mark.end()


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: readme_figures.py CHECKOUT")
    checkout = sys.argv[1]
    source = ""
    for path in sorted(glob.glob("src/**/*.[ch]", root_dir=checkout, recursive=True) + glob.glob("cluster/*.[ch]", root_dir=checkout)):
        with open(os.path.join(checkout, path), encoding="utf-8") as file:
            source += file.read()
    tap = Tap()
    with psycopg.connect() as connection, connection.cursor() as cursor:
        figures = memory_figures(cursor) | row_figures(cursor) | source_figures(source)
        connection.rollback()
    used = set()
    for page in ["README.md", *sorted(glob.glob("doc/*.md", root_dir=checkout))]:
        with open(os.path.join(checkout, page), encoding="utf-8") as file:
            text = file.read()
        for name, number in stated(text):
            used.add(name)
            there = figures.get(name)
            tap.ok(there is not None and abs(number - there) <= 0.05 * there, f"{page}: {name}",
                   f"the page says {number:,.0f}, computed is {'nothing of this name' if there is None else format(there, ',.1f')}")
    tap.same(figures, used, "each figure that is computed is in a page")
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
