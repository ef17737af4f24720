"""Payloads and results with types: what a handler's annotations make of JSON, and what an enqueue refuses.

Seen to fail: Typed.to_json() without its look at the class (a dict is enqueued for a dataclass, and fails in the worker),
decode() without its checks (a text arrives as an int), and without that for large numbers (OverflowError), of_key()
that takes all that isdigit() for a number (ValueError, which does not say where), of_fields() without its defaults,
Registered.payload() and result() without the types (a dict arrives; a dataclass as a result fails the task),
Handler.await_result() without them, is_plain() that is always false (a payload of plain types is looked at),
annotated() without the names of the decorator's place, Handler.enqueue() that asks a group function first
(AttributeError, of the function).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Dict, FrozenSet, List, Literal, NamedTuple, NewType, Optional, Tuple, TypedDict, Union
from uuid import UUID

import pydantic
import pytest

from pgfairq import AsyncContext, AsyncQueue, AsyncWorker, BadPayload, Context, Worker
from pgfairq.payloads import Typed, is_plain
from pgfairq.testing import context

NOW = datetime(2026, 3, 29, 1, 2, 3, 456789, timezone.utc)
Cents = NewType("Cents", int)


class Color(Enum):
    red = "r"
    blue = 2


@dataclass
class Line:
    sku: str
    cents: Cents
    at: Optional[datetime] = None


@dataclass(frozen=True)
class Order:
    tenant: int
    lines: List[Line]
    color: Color = Color.red
    by: Optional[UUID] = None
    tags: FrozenSet[str] = frozenset()
    days: Dict[int, Tuple[date, ...]] = field(default_factory=dict)
    pair: Tuple[int, str] = (0, "")
    either: Union[int, str, None] = None
    kind: Literal["new", "old"] = "new"
    total: Decimal = Decimal(0)
    every: timedelta = timedelta()
    hour: time = time()
    share: float = 0.0
    made: int = field(default=7, init=False)
    rest: Any = None


FULL = Order(5, [Line("a", Cents(3), NOW), Line("b", Cents(4))], Color.blue, UUID(int=6), frozenset(["x"]), {3: (date(2026, 1, 2),)},
             (1, "b"), "text", "old", Decimal("1.10"), timedelta(seconds=90), time(2, 30), 1, rest={"any": [1]})


class Entry(TypedDict, total=False):
    at: datetime
    text: str


class Point(NamedTuple):
    x: int
    y: int


class Person(pydantic.BaseModel):
    name: str
    born: date
    friends: List[Person] = []


Person.update_forward_refs()


@pytest.mark.parametrize("kind, value", [
    (Order, FULL), (Order, Order(1, [])), (Optional[Order], None), (List[Line], [Line("a", Cents(1), NOW)]), (Entry, {"at": NOW, "text": "a"}),
    (Person, Person(name="ann", born=date(2000, 1, 2), friends=[Person(name="bob", born=date(2001, 1, 1))])),
    (Dict[str, Person], {"a": Person(name="ann", born=date(2000, 1, 2))}), (UUID, UUID(int=5)), (Union[Line, Person], Line("a", Cents(1)))])
def test_round_trips(kind, value):
    """Through JSON, and what comes back is equal."""
    typed = Typed(kind)
    assert not typed.is_plain
    assert typed.from_json(json.loads(json.dumps(typed.to_json(value, "payload"))), "the payload") == value


@pytest.mark.parametrize("kind", [Any, int, str, dict, list, Dict[str, int], List[Dict[str, List[Optional[str]]]], Optional[int], Point, object])
def test_plain_types(kind):
    """Nothing is made of them, nor looked at: a worker trusts what an application has annotated so."""
    assert is_plain(kind)
    assert Typed(kind).from_json({"not": "of it"}, "") == {"not": "of it"} == Typed(kind).to_json({"not": "of it"}, "")


@pytest.mark.parametrize("given, message", [
    (5, "the payload is not Order: 5"), ({"lines": []}, "the payload is not Order: it has no 'tenant'"),
    ({"tenant": "5", "lines": []}, "'tenant' of the payload is not int: '5'"), ({"tenant": True, "lines": []}, "is not int: True"),
    ({"tenant": 1, "lines": {}}, "'lines' of the payload is not List"), ({"tenant": 1, "lines": [{"sku": "a"}]}, "item 0 of 'lines' .* has no 'cents'"),
    ({"tenant": 1, "lines": [{"sku": "a", "cents": 1, "at": "soon"}]}, "'at' of item 0 of 'lines' of the payload is not datetime: 'soon'"),
    ({"tenant": 1, "lines": [], "color": "green"}, "'color' .* is not Color: 'green'"), ({"tenant": 1, "lines": [], "kind": "x"}, "Literal"),
    ({"tenant": 1, "lines": [], "days": {"x": []}}, "key 'x' of 'days'"), ({"tenant": 1, "lines": [], "pair": [1]}, "'pair' of the payload"),
    ({"tenant": 1, "lines": [], "either": []}, "'either'"), ({"tenant": 1, "lines": [], "total": "x"}, "'total' .* is not Decimal"),
    ({"tenant": 1, "lines": [], "share": "x"}, "'share' .* is not float"), ({"tenant": 1, "lines": [], "by": 5}, "'by' .* is not UUID"),
    ({"tenant": 1, "lines": [], "every": 1e300}, "'every' .* is not timedelta"),
    ({"tenant": 1, "lines": [], "share": 10**400}, "'share' .* is not float"), ({"tenant": 1, "lines": [], "days": {"--5": []}}, "key '--5' of 'days'"),
    ({"tenant": 1, "lines": [], "days": {"²": []}}, "key '²' of 'days'"), ({"tenant": 1, "lines": [], "days": {"1" * 5000: []}}, "key '111.* of 'days'")])
def test_what_does_not_fit(given, message):
    with pytest.raises(BadPayload, match=message):
        Typed(Order).from_json(given, "the payload")


def test_of_a_later_version():
    """A field that this worker does not know is left out."""
    assert Typed(Order).from_json({"tenant": 1, "lines": [], "later": 1, "made": 9}, "") == Order(1, [])


def test_threads(make_queue):
    queue, seen = make_queue(max_attempts=1, keep_done=3600), []

    @queue.task("order", group=lambda order: order.tenant)
    def handle(order: Order, context: Context) -> Order:
        seen.append((order, context.group))
        return order

    @queue.task("person", give_up_on=BadPayload)
    def greet(person: Person, context: Context) -> Optional[Line]:
        context.connection.execute("SELECT 1")
        return Line(person.name, Cents(1), NOW) if person.name != "nobody" else "no line"

    task = handle.enqueue(FULL)
    many = handle.enqueue_many([Order(1, []), FULL])
    hello, bad = greet.enqueue(Person(name="ann", born=date(2000, 1, 2))), queue.enqueue({"name": "bob"}, name="person")
    wrong = greet.enqueue(Person(name="nobody", born=date(2000, 1, 2)))
    queue.enqueue(FULL)         # no handler, but a dataclass is written as JSON all the same
    Worker(queue, concurrency=1).run(drain=True)
    assert sorted(seen, key=lambda one: one[1]) == [(Order(1, []), "1"), (FULL, "5"), (FULL, "5")]
    assert handle.await_result(task) == FULL and queue.await_result(task)["lines"][0]["at"] == NOW.isoformat()
    assert handle.await_result(many[0]) == Order(1, []) and greet.await_result(hello) == Line("ann", Cents(1), NOW)
    errors = {one.id: one.last_error.split("\n")[0] for one in queue.dead()}
    assert errors[bad].startswith("pgfairq.errors.BadPayload: the payload is not Person:")
    assert errors[wrong] == "TypeError: the handler's result must be Line or None, as its handler says, not str: 'no line'"
    assert handle(FULL, context(group=1)) is FULL      # called as ever


def test_what_an_enqueue_refuses(make_queue):
    queue = make_queue()

    @queue.task("order", group=lambda order: order.tenant)
    def handle(order: Order, context: Context) -> None:
        pass

    for wrong in ({"tenant": 1, "lines": []}, Line("a", Cents(1)), None, 5):
        with pytest.raises(TypeError, match="must be Order, as its handler says"):
            handle.enqueue(wrong)
        with pytest.raises(TypeError, match="must be Order"):
            handle.enqueue(wrong, group=1)
        with pytest.raises(TypeError, match="must be Order"):
            handle.enqueue_many([FULL, wrong], group=1)
        with pytest.raises(TypeError, match="must be Order"):
            handle.schedule("x", "@hourly", wrong, group=1)
    assert queue.stats().enqueued == 0


def test_asyncio(database):
    async def main():
        queue = AsyncQueue(database, "typed", max_attempts=1, keep_done=3600)

        @queue.task("order")
        async def handle(order: Order, context: AsyncContext) -> List[Line]:
            return order.lines

        task = await handle.enqueue(FULL)
        with pytest.raises(TypeError, match="must be Order"):
            await handle.enqueue({"tenant": 1})
        await AsyncWorker(queue).run(drain=True)
        assert await handle.await_result(task) == FULL.lines

    asyncio.run(main())


def test_types_that_cannot_be_read(make_queue):
    """They are known where the handler is made; a later one of the module is found when it is needed, or said to be missing."""
    @dataclass
    class Local:
        n: int

    queue = make_queue(max_attempts=1)

    @queue.task("local")
    def local(payload: Local, context: Context) -> None:
        pass

    assert local.registered.types[0].kind is Local

    @queue.task("later")
    def later(payload: Later, context: Context) -> None:
        pass

    with pytest.raises(TypeError, match="name 'Later' is not defined; import what it names at run time"):
        later.enqueue({"a": 1})
    with pytest.raises(TypeError, match="'Later' is not defined"):
        Worker(queue).run(drain=True)
    globals()["Later"] = Local
    try:
        later.enqueue(Local(1))
    finally:
        del globals()["Later"]
    Worker(queue).run(drain=True)
    assert queue.stats().acked == 1


class Modern:
    """As version 2 of pydantic has them."""

    def __init__(self, n):
        self.n = n

    @classmethod
    def model_validate(cls, value):
        if not isinstance(value, dict) or "n" not in value:
            raise ValueError("1 validation error for Modern")
        return cls(value["n"])

    def model_dump(self, mode="python"):
        return {"n": str(self.n) if mode == "json" else self.n}


def test_models_of_both_versions():
    assert Typed(Modern).to_json(Modern(5), "payload") == {"n": "5"} and Typed(Modern).from_json({"n": "6"}, "").n == "6"
    with pytest.raises(BadPayload, match="the payload is not Modern: 1 validation error"):
        Typed(Modern).from_json({}, "the payload")
    with pytest.raises(BadPayload, match="the payload is not Person: 1 validation error"):
        Typed(Person).from_json({"name": "ann"}, "the payload")


def test_what_is_no_json(make_queue):
    """A bare time in a dict is refused as ever: only what has a type comes back as what it was."""
    queue = make_queue()
    for wrong in ({"at": NOW}, {1, 2}, object()):
        with pytest.raises(TypeError, match="payload cannot be written as JSON"):
            queue.enqueue(wrong)
    assert queue.get(queue.enqueue({"line": Line("a", Cents(1), NOW)})).payload == {"line": {"sku": "a", "cents": 1, "at": NOW.isoformat()}}
