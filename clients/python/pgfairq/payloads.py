"""Payloads and results with types: how a dataclass or a model of pydantic is written as JSON, and made from it.

A handler's annotations say which. What has no such type in it is left as JSON has it. Nothing of
pydantic is imported: its models are known by their methods, those of version 1 as well as of 2.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import inspect
import json
import re
import sys
import types
import typing
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Callable, Dict, Mapping, Optional, Set, Tuple, Union
from uuid import UUID

from .errors import BadPayload

UNIONS: Tuple[Any, ...] = (Union, getattr(types, "UnionType", Union))    # before Python 3.10 there is one way to write it
NOTHING = type(None)
INTEGER = re.compile("-?[0-9]{1,4000}")     # Python reads none that are much longer


def is_dataclass(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def is_model(kind: Any) -> bool:
    """A model of pydantic, by its methods."""
    return isinstance(kind, type) and ((hasattr(kind, "model_validate") and hasattr(kind, "model_dump"))
                                       or (hasattr(kind, "parse_obj") and hasattr(kind, "json")))


def is_typed_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


@functools.lru_cache(maxsize=None)
def hints_of(kind: Any) -> Dict[str, Any]:
    """The types of its fields."""
    return typing.get_type_hints(kind)


# -- to JSON

def plain(value: Any) -> Any:
    """What json.dumps asks for, of what it does not know: a dataclass, or a model."""
    if is_dataclass(type(value)) or is_model(type(value)):
        return encode(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def encode(value: Any) -> Any:
    """In types that JSON has."""
    kind: Any = type(value)
    if is_model(kind):
        return value.model_dump(mode="json") if hasattr(value, "model_dump") else json.loads(value.json())
    if is_dataclass(kind):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(encode(key)): encode(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode(one) for one in value]
    if isinstance(value, enum.Enum):
        return encode(value.value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    return value.total_seconds() if isinstance(value, timedelta) else value


# -- from JSON

def is_made(kind: Any) -> bool:
    """Whether its values are made from JSON, and are none themselves."""
    return isinstance(kind, type) and (is_dataclass(kind) or is_model(kind) or kind in SCALARS or issubclass(kind, enum.Enum))


def is_plain(kind: Any, seen: Optional[Set[Any]] = None) -> bool:
    """Whether a value of this type is as JSON has it, so that nothing is to be made of it."""
    seen = set() if seen is None else seen
    if is_made(kind):
        return False
    if is_typed_dict(kind):
        if kind in seen:
            return True
        seen.add(kind)
        hints: Dict[str, Any] = hints_of(kind)
        return all(is_plain(one, seen) for one in hints.values())
    if hasattr(kind, "__supertype__"):
        return is_plain(kind.__supertype__, seen)
    if typing.get_origin(kind) in (set, frozenset, tuple):
        return False
    return typing.get_origin(kind) is typing.Literal or all(is_plain(one, seen) for one in typing.get_args(kind))


def no_fit(kind: Any, value: Any, where: str) -> BadPayload:
    shown = repr(value)
    shown = shown if len(shown) <= 100 else shown[:99] + "…"
    return BadPayload(f"{where} is not {named(kind)}: {shown}")


def named(kind: Any) -> str:
    return "None" if kind is NOTHING else kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def decode(kind: Any, value: Any, where: str) -> Any:
    """A value of this type. BadPayload: the JSON is none of it."""
    if kind is Any or isinstance(kind, typing.TypeVar):
        return value
    if is_model(kind):
        return of_model(kind, value, where)
    if is_dataclass(kind) or is_typed_dict(kind):
        return of_fields(kind, value, where)
    if isinstance(kind, type) and kind in SCALARS:
        return of_scalar(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise no_fit(kind, value, where) from None
    if hasattr(kind, "__supertype__"):
        return decode(kind.__supertype__, value, where)
    origin = typing.get_origin(kind)
    if origin is not None:
        return of_generic(kind, origin, value, where)
    if kind in (None, NOTHING):
        fits = value is None
    elif kind in (int, float):
        fits = isinstance(value, (int, kind)) and not isinstance(value, bool)
    elif kind in (str, bool, list, dict):
        fits = isinstance(value, kind)
    else:
        return value    # a type that JSON says nothing of
    if fits and kind is float:
        fits = isinstance(value, float) or abs(value) <= sys.float_info.max
    if not fits:
        raise no_fit(kind, value, where)
    return float(value) if kind is float else value


def of_model(kind: Any, value: Any, where: str) -> Any:
    try:
        return kind.model_validate(value) if hasattr(kind, "model_validate") else kind.parse_obj(value)
    except ValueError as error:     # as pydantic's own is
        raise BadPayload(f"{where} is not {named(kind)}: {error}") from error


def of_fields(kind: Any, value: Any, where: str) -> Any:
    """A dataclass, or a dict whose keys have types. What has no field is of a later version, and left out of a dataclass."""
    if not isinstance(value, dict):
        raise no_fit(kind, value, where)
    hints = hints_of(kind)
    if is_typed_dict(kind):
        return {key: decode(hints[key], one, f"{key!r} of {where}") if key in hints else one for key, one in value.items()}
    made: Dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            if field.init:
                made[field.name] = decode(hints[field.name], value[field.name], f"{field.name!r} of {where}")
        elif field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise BadPayload(f"{where} is not {named(kind)}: it has no {field.name!r}")
    return kind(**made)


SCALARS: Dict[Any, Tuple[Tuple[type, ...], Callable[[Any], Any]]] = {
    datetime: ((str,), lambda text: datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)),
    date: ((str,), date.fromisoformat),
    time: ((str,), time.fromisoformat),
    UUID: ((str,), UUID),
    Decimal: ((str, int, float), lambda number: Decimal(str(number))),
    timedelta: ((int, float), lambda seconds: timedelta(seconds=seconds)),
}


def of_scalar(kind: Any, value: Any, where: str) -> Any:
    written_as, made_by = SCALARS[kind]
    try:
        if isinstance(value, written_as) and not isinstance(value, bool):
            return made_by(value)
    except (ValueError, OverflowError, InvalidOperation):
        pass
    raise no_fit(kind, value, where)


def of_generic(kind: Any, origin: Any, value: Any, where: str) -> Any:
    """Optional[…], List[…], Dict[…] and the like."""
    arguments = typing.get_args(kind)
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise no_fit(kind, value, where)
    if origin in UNIONS:
        return of_union(kind, arguments, value, where)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise no_fit(kind, value, where)
        key_kind, of = arguments
        return {of_key(key_kind, key, where): decode(of, one, f"{key!r} of {where}") for key, one in value.items()}
    if not isinstance(origin, type) or not issubclass(origin, collections.abc.Collection):
        return value
    if not isinstance(value, list):
        raise no_fit(kind, value, where)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        if len(value) != len(arguments):
            raise no_fit(kind, value, where)
        return tuple(decode(one, value[n], f"item {n} of {where}") for n, one in enumerate(arguments))
    items = [decode(arguments[0], one, f"item {n} of {where}") for n, one in enumerate(value)]
    made: Any = origin
    return made(items) if made in (tuple, set, frozenset) else items


def of_union(kind: Any, arguments: Tuple[Any, ...], value: Any, where: str) -> Any:
    """The first of its types that fits."""
    if value is None and NOTHING in arguments:
        return None
    some = [one for one in arguments if one is not NOTHING]
    if len(some) == 1:
        return decode(some[0], value, where)    # which says best what is wrong
    for one in some:
        try:
            return decode(one, value, where)
        except BadPayload:
            pass
    raise no_fit(kind, value, where)


def of_key(kind: Any, key: str, where: str) -> Any:
    """JSON has keys that are texts."""
    return decode(kind, int(key) if kind is int and INTEGER.fullmatch(key) else key, f"key {key!r} of {where}")


# -- what the annotations of a handler say

class Unread(TypeError):
    """An annotation names what is not there yet."""


class Typed:
    """The type of a payload or a result. Any: whatever JSON has."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.is_plain = is_plain(kind)

    def to_json(self, value: Any, name: str) -> Any:
        """TypeError: it is not of the type, where that is a class. Types beyond it are for a type checker."""
        if self.is_plain:
            return value
        wanted = [one for one in (typing.get_args(self.kind) if typing.get_origin(self.kind) in UNIONS else (self.kind,))]
        classes = tuple(one for one in wanted if isinstance(one, type))
        if len(classes) == len(wanted) and not isinstance(value, tuple(dict if is_typed_dict(one) else one for one in classes)):
            raise TypeError(f"{name} must be {' or '.join(map(named, classes))}, as its handler says, not {type(value).__name__}: {value!r}")
        return encode(value)

    def from_json(self, value: Any, name: str) -> Any:
        return value if self.is_plain else decode(self.kind, value, name)


def annotated(function: Callable[..., Any], place: str, names: Optional[Mapping[str, Any]] = None) -> Typed:
    """The type of a handler's payload, which is its first parameter, or of its "return".

    names: what is known besides the function's globals, such as the locals of where it is made. Unread: a name
    of the annotation is in neither.
    """
    inner: Any = function if inspect.isroutine(function) else type(function).__call__
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):     # a built-in function that has none
        return Typed(Any)
    if place == "return":
        found = signature.return_annotation
    else:
        parameters = list(signature.parameters.values())
        found = parameters[0].annotation if parameters else inspect.Signature.empty
    if found is inspect.Signature.empty:
        return Typed(Any)
    known = {**getattr(inspect.unwrap(inner), "__globals__", {}), **(names or {})}
    try:
        # by way of get_type_hints, which reads texts, and texts within types
        holder = type("Annotated", (), {"__annotations__": {"one": found}})
        return Typed(typing.get_type_hints(holder, known, known)["one"])
    except (NameError, TypeError, SyntaxError) as error:
        raise Unread(f"the type {found!r} of the handler {function!r} cannot be read: {error}; import what it names at run time,"
                     " too, or leave it out") from error
