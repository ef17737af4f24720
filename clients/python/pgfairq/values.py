"""Arguments, as the server takes them. What it would refuse or misread is refused here, by name."""

from __future__ import annotations

import enum
import json
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, List, Optional, Sequence, TypeVar, Union
from uuid import UUID

from . import payloads

Group = Union[str, int, UUID, date, enum.Enum]
Duration = Union[timedelta, int, float]

T = TypeVar("T")

LONGEST_NAME = 100  # bytes

# A \u0000 that is no part of an escaped backslash: jsonb has no such character.
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def text(value: str, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}: {value!r}")
    if "\0" in value:
        raise ValueError(f"{name} has a NUL character, which PostgreSQL cannot store: {value[:80]!r}")
    return value


def group_key(value: Optional[Group], name: str = "group") -> Optional[str]:
    """A tenant's key as text; None is the group that is named by an empty text."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, str):
        return value if value is None else text(value, name)
    if isinstance(value, (int, UUID, date)) and not isinstance(value, bool):
        return str(value)
    raise TypeError(f"{name} must be a str, int, UUID, date or Enum of such, not {type(value).__name__}: {value!r}")


def task_name(value: Optional[str], name: str = "name") -> Optional[str]:
    """Of a task and its handler."""
    if value is None:
        return None
    size = len(text(value, name).encode("utf-8", "surrogatepass"))
    if not 1 <= size <= LONGEST_NAME:
        raise ValueError(f"{name} must have 1 to {LONGEST_NAME} bytes, not {size}: {value[:LONGEST_NAME]!r}")
    return value


def duration(value: Optional[Duration], name: str) -> Optional[timedelta]:
    """A number counts seconds."""
    if value is None or isinstance(value, timedelta):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return timedelta(seconds=value)
        except (OverflowError, ValueError) as error:
            raise ValueError(f"{name} is out of range: {value!r}") from error
    raise TypeError(f"{name} must be a timedelta or a number of seconds, not {type(value).__name__}: {value!r}")


def seconds(value: Duration, name: str) -> float:
    result = duration(value, name)
    if result is None:
        raise TypeError(f"{name} must be a timedelta or a number of seconds, not None")
    return result.total_seconds()


def moment(value: Optional[datetime], name: str) -> Optional[datetime]:
    """A time without a zone would count in whatever zone the server is set to."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a datetime, not {type(value).__name__}: {value!r}")
    if value.tzinfo is None:
        raise ValueError(f"{name} has no time zone: {value!r}; use datetime.now(timezone.utc) or value.astimezone()")
    return value


def json_text(value: Any, name: str) -> str:
    try:
        encoded = json.dumps(value, allow_nan=False, separators=(",", ":"), default=payloads.plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise type(error)(f"{name} cannot be written as JSON: {error}") from error
    if "\\u0000" in encoded and NUL.search(encoded):
        raise ValueError(f"{name} has a NUL character (\\u0000), which jsonb cannot store")
    return encoded


def json_object(value: Optional[Any], name: str) -> Optional[str]:
    return None if value is None else json_text(value, name)


DECODER = json.JSONDecoder()


def _integer(digits: str) -> Union[int, Decimal]:
    """Python refuses to read very long integers: those are decimal numbers here."""
    return int(digits) if len(digits) <= 4000 else Decimal(digits)


def parse_json(value: Optional[str]) -> Any:
    """What a tenant wrote. ValueError: it is nested deeper than Python can read."""
    if value is None:
        return None
    try:
        return json.loads(value, parse_int=_integer) if len(value) > 4000 else DECODER.decode(value)
    except RecursionError as error:
        raise ValueError("the JSON value is nested too deep to be read") from error


def shown_json(value: Optional[str]) -> Any:
    """As parse_json, for lists of tasks: what cannot be read is shown as text."""
    try:
        return parse_json(value)
    except ValueError:
        return value


def each(value: Union[T, Sequence[T], None], count: int, name: str) -> Optional[List[Optional[T]]]:
    """One value for all, or a list or tuple with one for each of count tasks; None if there is none."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        return [value] * count  # type: ignore[list-item]
    if len(value) != count:
        raise ValueError(f"{name} has {len(value)} values for {count} payloads: give one for each, or one for all")
    return list(value)


def printable(value: str) -> str:
    """A tenant's text for a terminal: what could steer it is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in value)
