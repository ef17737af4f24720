"""The blocks of doc/moving.md, by the names that this suite runs them under."""

import os
import re
import subprocess

import readme_commands

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "moving.md")
NAMED = re.compile(r"suite moving: (.+)")
LEDGER = "what was moved"
STATEMENT_TIMEOUT = 120     # seconds: a move that waits for a worker ends, and its test fails


def read():
    """The text of each block that this suite runs, by name."""
    with open(PAGE, encoding="utf-8") as page:
        blocks = list(readme_commands.blocks_of(page.readlines()))
    named = {}
    for block in blocks:
        match = NAMED.search(block.name or "")
        if match:
            assert match[1] not in named, f"two blocks are {match[1]}"
            named[match[1]] = "\n".join(block.text)
        elif block.name == LEDGER:
            named[LEDGER] = "\n".join(block.text)
    return named


BLOCKS = read()


class MoveFailed(Exception):
    pass


def run(conninfo, name, timeout=STATEMENT_TIMEOUT):
    """Runs a block with psql, as a reader of the page would. Its rows, as lists of texts."""
    environment = dict(os.environ, PGOPTIONS=f"-c statement_timeout={int(timeout * 1000)}")
    done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", conninfo, "-f", "-"],
                          input=BLOCKS[name], env=environment, text=True, capture_output=True, check=False)
    if done.returncode:
        raise MoveFailed(done.stderr)
    return [line.split("\t") for line in done.stdout.splitlines() if line]


def moved(conninfo, name, timeout=STATEMENT_TIMEOUT):
    """Runs a move; its count check as (jobs, tasks)."""
    rows = run(conninfo, name, timeout)
    assert len(rows) <= 1, rows
    return (int(rows[0][1]), int(rows[0][2])) if rows else (0, 0)
