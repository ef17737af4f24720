"""The command pgfairq."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

import psycopg

from .. import values
from . import bench, look, operate, worker


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="pgfairq", description="Workers and queues of pgfairq.")
    made.add_argument("-d", "--database", default="", metavar="CONNINFO",
                      help="where the queues are: a URL or keywords of libpq; by default as PGHOST, PGDATABASE … say")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (worker, look, operate, bench):
        module.add_to(commands)
    return made


def tell(error: str) -> int:
    """Line by line, for it may have a tenant's text in it."""
    print("pgfairq: " + "\n".join(map(values.printable, error.strip().splitlines())), file=sys.stderr)
    return 1


def main(arguments: Optional[List[str]] = None) -> int:
    given = parser().parse_args(arguments)
    try:
        code: int = given.run(given)
        return code
    except BrokenPipeError:     # as with | head
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130
    except psycopg.Error as error:
        hint = error.diag.message_hint
        return tell((error.diag.message_primary or str(error)) + (f"\nhint: {hint}" if hint else ""))
    except (ValueError, TypeError, LookupError, RuntimeError, OSError, ImportError) as error:
        return tell(str(error))
