"""Tables, JSON and progress bars. Tenants' text is escaped, so that it cannot steer the terminal."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from datetime import date, datetime, timedelta
from typing import Any, Iterable, List, Optional, Sequence

from ..values import printable

WIDEST = 60


class Json:
    """A payload, shown as JSON also where it is a text or a number."""

    def __init__(self, value: Any) -> None:
        self.value = value


def plain(value: Any) -> Any:
    """For json.dumps: durations in seconds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def print_json(value: Any) -> None:
    """All that is not ASCII is escaped by json.dumps."""
    print(json.dumps(value, default=plain, indent=2))


def cell(value: Any, widest: int = WIDEST) -> str:
    if value is None:
        return "-"
    if isinstance(value, timedelta):
        return span(value.total_seconds())
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    text = printable(json.dumps(value.value, ensure_ascii=False, default=str) if isinstance(value, Json) else str(value))
    return text if len(text) <= widest else text[:widest - 1] + "…"


def span(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1000:.1f} ms"


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> List[str]:
    """Lines of text; numbers are set to the right."""
    rows = [list(row) for row in rows]
    texts = [[cell(value) for value in row] for row in rows]
    widths = [max([len(title)] + [len(row[n]) for row in texts]) for n, title in enumerate(titles)]
    right = [bool(rows) and all(row[n] is None or isinstance(row[n], (int, float, timedelta)) for row in rows) for n in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(text.rjust(width) if to_right else text.ljust(width)
                         for text, width, to_right in zip(cells, widths, right)).rstrip()

    return [line(titles), *map(line, texts)]


class Bar:
    """A progress bar on standard error, where that is a terminal; else nothing."""

    def __init__(self, what: str, total: int) -> None:
        self.what = what
        self.total = total
        self.shown = sys.stderr.isatty()
        self.began = time.monotonic()
        self.last = 0.0

    def at(self, done: int) -> None:
        now = time.monotonic()
        if not self.shown or (now - self.last < 0.1 and done < self.total):
            return
        self.last = now
        part = min(1.0, done / max(1, self.total))
        rate = done / max(0.001, now - self.began)
        print(f"\r{self.what}  [{'#' * int(30 * part):30}] {done:,} of {self.total:,}, {rate:,.0f}/s ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def ask(question: str, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ValueError("this is not asked for where there is no terminal: say --yes")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def counted(count: int, one: str, many: Optional[str] = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
