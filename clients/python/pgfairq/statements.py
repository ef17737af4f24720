"""The SQL of the library, for both kinds of connections: what to send, and how to read the answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Dict, Generic, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar


from . import models, values
from .errors import FairqError
from .values import Duration, Group

T = TypeVar("T")
Rows = List[Tuple[Any, ...]]

# How an argument is written where the driver's own type would not do.
CASTS = {
    "payload": "::jsonb", "headers": "::jsonb", "group_key": "::text", "priority": "::bigint", "cost": "::float8",
    "delay": "::interval", "run_at": "::timestamptz", "expires_at": "::timestamptz", "unique_key": "::text",
    "unique_for": "::interval", "max_attempts": "::int", "lease": "::interval", "after": "::bigint[]",
    "name": "::text", "max_lost": "::int", "task_name": "::text", "subgroup_key": "::text",
    "backoff_jitter": "::float8", "buckets": "::int", "max_ready": "::bigint", "max_ready_per_group": "::bigint",
    "max_depth": "::bigint", "default_priority": "::bigint", "weight": "::float8", "rate": "::float8", "class_weights": "::float8[]", "max_leased": "::int", "burst": "::int",
}

JSON = ("payload", "headers", "result", "history")

ROLES = ("owner", "role")

DURATIONS = ("lease", "backoff_base", "backoff_max", "keep_done", "expire_after")


@dataclass(frozen=True)
class Statement(Generic[T]):
    query: bytes
    parameters: Tuple[Any, ...]
    read: Callable[[Rows], T]
    waits: float = 0.0      # so many seconds the server may wait for a task before it answers


def nothing(rows: Rows) -> None:
    return None


def single(rows: Rows) -> Any:
    return rows[0][0]


def as_many(model: Type[T]) -> Callable[[Rows], List[T]]:
    """Rows whose columns are the fields of a model, with JSON as text."""
    names = tuple(model.__dataclass_fields__)  # type: ignore[attr-defined]
    read_at = [(n, models.ends if name == "history" else values.shown_json) for n, name in enumerate(names) if name in JSON]

    def read(rows: Rows) -> List[T]:
        made = []
        for row in rows:
            cells = list(row)
            for n, made_of in read_at:
                cells[n] = made_of(cells[n])
            made.append(model(*cells))
        return made

    return read


def as_one(model: Type[T]) -> Callable[[Rows], Optional[T]]:
    many = as_many(model)
    return lambda rows: next(iter(many(rows)), None)


def select_list(model: Any) -> str:
    return ", ".join(f"{name}::text" if name in JSON + ROLES else name for name in models.columns(model))


def call(function: str, positional: Sequence[Any], named: Mapping[str, Any], read: Callable[[Rows], T] = single) -> Statement[T]:
    """SELECT of a function. Names and casts are ours, values go as parameters."""
    places = ["%s"] * len(positional)
    given = {name: value for name, value in named.items() if value is not None}
    places += [f"{name} => %s{CASTS.get(name, '')}" for name in given]
    return Statement(f"SELECT fairq.{function}({', '.join(places)})".encode(), (*positional, *given.values()), read)


def queue_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    def setting(name: str, value: Any) -> Any:
        if name == "class_weights":     # psycopg sends no list of floats and integers
            return [float(weight) for weight in value]
        return values.duration(value, name) if name in DURATIONS else value

    return {name: setting(name, value) for name, value in options.items() if value is not None}


def create_queue(queue: str, options: Mapping[str, Any]) -> Statement[None]:
    """Nothing if it is there, also for a role that may not create any."""
    create: Statement[None] = call("create_queue", [queue], {**queue_options(options), "if_not_exists": True}, nothing)
    assert isinstance(create.query, bytes)
    return Statement(create.query + b" WHERE NOT EXISTS (SELECT FROM fairq.queues WHERE queue = %s)", (*create.parameters, queue), nothing)


def alter_queue(queue: str, options: Mapping[str, Any]) -> Statement[None]:
    return call("alter_queue", [queue], queue_options(options), nothing)


@dataclass
class Details:
    """What an enqueue says of a task, beside the payload."""

    group: Any = None
    delay: Any = None
    run_at: Any = None
    priority: Any = None
    cost: Any = None
    unique_key: Any = None
    unique_for: Optional[Duration] = None
    on_duplicate: Optional[str] = None
    expires_at: Any = None
    max_attempts: Any = None
    lease: Any = None
    headers: Any = None
    after: Optional[Sequence[int]] = None
    on_dead: Optional[str] = None
    name: Any = None
    max_lost: Any = None
    subgroup: Any = None

    def named(self) -> Dict[str, Any]:
        """The arguments of fairq.enqueue for one task."""
        return {
            "group_key": values.group_key(self.group),
            "delay": values.duration(self.delay, "delay"),
            "run_at": values.moment(self.run_at, "run_at"),
            "priority": self.priority,
            "cost": self.cost,
            "unique_key": values.group_key(self.unique_key, "unique_key"),
            "unique_for": values.duration(self.unique_for, "unique_for"),
            "on_duplicate": self.on_duplicate,
            "expires_at": values.moment(self.expires_at, "expires_at"),
            "max_attempts": self.max_attempts,
            "lease": values.duration(self.lease, "lease"),
            "headers": values.json_object(self.headers, "headers"),
            "after": None if self.after is None else list(self.after),
            "on_dead": self.on_dead,
            "name": values.task_name(self.name),
            "max_lost": self.max_lost,
            "subgroup_key": values.group_key(self.subgroup, "subgroup"),
        }


def enqueue(queue: str, payload: Any, details: Details) -> Statement[int]:
    named = {"payload": values.json_text(payload, "payload"), **details.named()}
    return call("enqueue", [queue], named)


def publish(topic: str, payload: Any, details: Details) -> Statement[int]:
    named = {"payload": values.json_text(payload, "payload"), **details.named()}
    return call("publish", [values.text(topic, "topic")], named)


# enqueue_many of the server has no headers, and no settings that only some tasks have.
# With these each task is one call of enqueue, all in one statement. Keys are taken in
# their order, so that two such statements do not deadlock.
ENQUEUE_EACH = b"""
SELECT t.n, fairq.enqueue(%s, t.payload, group_key => t.group_key, priority => t.priority, cost => t.cost,
        run_at => t.run_at, delay => t.delay, unique_key => t.unique_key, headers => t.headers, expires_at => t.expires_at,
        on_duplicate => %s, unique_for => CASE WHEN t.unique_key IS NOT NULL THEN %s::interval END, max_attempts => %s::int,
        max_lost => %s::int, lease => %s::interval, name => t.name, subgroup_key => t.subgroup_key)
FROM (
    SELECT * FROM ROWS FROM (jsonb_array_elements(%s::jsonb), unnest(%s::text[]), unnest(%s::bigint[]), unnest(%s::float8[]),
            unnest(%s::timestamptz[]), unnest(%s::interval[]), unnest(%s::text[]), jsonb_array_elements(%s::jsonb),
            unnest(%s::timestamptz[]), unnest(%s::text[]), unnest(%s::text[]))
        WITH ORDINALITY AS a(payload, group_key, priority, cost, run_at, delay, unique_key, headers, expires_at, name, subgroup_key, n)
    ORDER BY unique_key COLLATE "C", n
) t
"""

ENQUEUE_MANY = b"""
SELECT fairq.enqueue_many(%s, ARRAY(SELECT jsonb_array_elements(%s::jsonb)), group_keys => %s::text[], priorities => %s::bigint[],
    costs => %s::float8[], run_ats => %s::timestamptz[], unique_keys => %s::text[], on_duplicate => %s, unique_for => %s::interval,
    names => %s::text[], subgroup_keys => %s::text[])
"""


def in_order(rows: Rows) -> List[int]:
    return [task for _, task in sorted(rows)]


def enqueue_many(queue: str, payloads: Sequence[Any], details: Details) -> Statement[List[int]]:
    """In details, a list or tuple has a value for each payload; anything else is for all."""
    payloads = list(payloads)
    count = len(payloads)

    def column(name: str, convert: Callable[[Any, str], Any] = lambda value, name: value) -> Optional[List[Any]]:
        given = values.each(getattr(details, name), count, name)
        return None if given is None else [convert(value, name) for value in given]

    if details.after is not None:
        raise ValueError("enqueue_many has no after: give the tasks that wait for others to enqueue")
    encoded = values.json_text(payloads, "payloads")
    groups, subgroups, keys = (column(name, values.group_key) for name in ("group", "subgroup", "unique_key"))
    run_ats = column("run_at", values.moment)
    priorities = column("priority")
    names = column("name", lambda value, name: values.task_name(value))
    costs = column("cost", lambda value, name: value if value is None else float(value))
    on_duplicate = details.on_duplicate
    unique_for = values.duration(details.unique_for, "unique_for")
    if (details.headers, details.expires_at, details.delay, details.max_attempts, details.max_lost, details.lease) == (None,) * 6:
        return Statement(ENQUEUE_MANY, (queue, encoded, groups, priorities, costs, run_ats, keys, on_duplicate, unique_for, names,
                                        subgroups), single)
    headers = column("headers")
    return Statement(ENQUEUE_EACH, (
        queue, on_duplicate, unique_for, details.max_attempts, details.max_lost, values.duration(details.lease, "lease"), encoded,
        groups, priorities, costs, run_ats, column("delay", values.duration), keys, values.json_object(headers, "headers"),
        column("expires_at", values.moment), names, subgroups), in_order)


# -- looking, and what operators do ---------------------------------------------------------------

def peek(queue: str, count: int) -> Statement[List[models.Task]]:
    return Statement(f"SELECT {select_list(models.Task)} FROM fairq.peek(%s, %s)".encode(), (queue, count), as_many(models.Task))


def get_task(queue: str, task: int) -> Statement[Optional[models.TaskStatus]]:
    return Statement(f"SELECT {select_list(models.TaskStatus)} FROM fairq.get_task(%s, %s)".encode(), (queue, task),
                     as_one(models.TaskStatus))


def tasks(queue: str, state: Optional[str], group: Optional[Group], name: Optional[str],
          limit: int) -> Statement[List[models.TaskStatus]]:
    query = f"SELECT {select_list(models.TaskStatus)} FROM fairq.tasks(%s, %s::text, %s::text, %s::text) ORDER BY id LIMIT %s"
    return Statement(query.encode(), (queue, state, values.group_key(group), name, limit), as_many(models.TaskStatus))


def dead_tasks(queue: str, limit: int) -> Statement[List[models.DeadTask]]:
    query = f"SELECT {select_list(models.DeadTask)} FROM fairq.dead_tasks WHERE queue = %s ORDER BY id LIMIT %s"
    return Statement(query.encode(), (queue, limit), as_many(models.DeadTask))


def position(queue: str, task: int) -> Statement[Optional[models.Position]]:
    query = "SELECT state, ahead, starts_at, exact FROM fairq.get_task_position(%s, %s) WHERE state IS NOT NULL"
    return Statement(query.encode(), (queue, task), as_one(models.Position))


def outcome(queue: str, task: int, timeout: Optional[Duration]) -> Statement[Optional[models.Outcome]]:
    query = f"SELECT {select_list(models.Outcome)} FROM fairq.await(%s, %s, %s::interval) WHERE state IS NOT NULL"
    return Statement(query.encode(), (queue, task, values.duration(timeout, "timeout")), as_one(models.Outcome))


class Seen(NamedTuple):
    """What a task was found to be, whether its queue keeps ends for those who did not wait for them, and when by the
    server's clock, in seconds."""

    outcome: Optional[models.Outcome]
    keeps: bool
    at: float


# One of them, the first, is waited for; the others are looked at. The queues are read once, and only if one is not known.
OUTCOMES = """
SELECT {}, a.known OR a.queue = ANY (ARRAY(SELECT queue::text FROM fairq.queues WHERE keep_done IS NOT NULL)),
    extract(epoch FROM clock_timestamp())::float8
FROM unnest(%s::text[], %s::bigint[], %s::boolean[]) WITH ORDINALITY AS a(queue, id, known, n),
    LATERAL fairq.await(a.queue, a.id, CASE WHEN a.n = 1 THEN make_interval(secs => %s) ELSE '0' END)
ORDER BY n
""".format(select_list(models.Outcome)).encode()


def outcomes(tasks: Sequence[Tuple[str, int, bool]], seconds: float) -> Statement[List[Seen]]:
    """Of tasks of queues; and whether it is known of the queue that it keeps ends."""
    read = as_many(models.Outcome)

    def read_all(rows: Rows) -> List[Seen]:
        return [Seen(None if row[0] is None else read([row[:-2]])[0], *row[-2:]) for row in rows]

    queues, ids, known = (list(column) for column in zip(*tasks))
    return Statement(OUTCOMES, (queues, ids, known, seconds), read_all)


def stats(queue: Optional[str]) -> Statement[List[models.QueueStats]]:
    query = f"SELECT {select_list(models.QueueStats)} FROM fairq.queue_stats WHERE queue = coalesce(%s, queue) ORDER BY queue"
    return Statement(query.encode(), (queue,), as_many(models.QueueStats))


def of_group(function: str, queue: str, group: Group) -> Statement[Any]:
    """purge_group and the like. None, which may be a mistake, is no group and not all of them."""
    return call(function, [queue, named_group(group)], {})


def named_group(group: Group) -> str:
    key = values.group_key(group)
    if key is None:
        raise TypeError("group must not be None: what is for all groups is a method without the argument")
    return key


def of_subgroup(function: str, queue: str, group: Group, subgroup: Group) -> Statement[Any]:
    """pause_subgroup and the like. The empty text is the subgroup of tasks that have none."""
    return call(function, [queue, *named_subgroup(group, subgroup)], {})


def named_subgroup(group: Group, subgroup: Group) -> Tuple[str, str]:
    key = values.group_key(subgroup, "subgroup")
    if key is None:
        raise TypeError("subgroup must not be None: that of tasks which have none is ''")
    return named_group(group), key


def limits(function: str, whose: Sequence[str], weight: Optional[float], max_leased: Optional[int],
           rate: Optional[float], burst: Optional[int]) -> Statement[None]:
    """set_group and the like: for the queue and the keys, the weight and the limits that are given."""
    return call(function, whose, {"weight": weight, "max_leased": max_leased, "rate": rate, "burst": burst}, nothing)


def reset_group(queue: str, group: Group) -> Statement[bool]:
    return call("reset_group", [queue, named_group(group)], {})


def reset_subgroup(queue: str, group: Group, subgroup: Group) -> Statement[bool]:
    return call("reset_subgroup", [queue, *named_subgroup(group, subgroup)], {})


def view(name: str, model: Type[T], queue: Optional[str], order: str) -> Statement[List[T]]:
    """The rows of a view that are of a queue, or all of a view of the database."""
    where, parameters = (" WHERE queue = %s", (queue,)) if queue is not None else ("", ())
    return Statement(f"SELECT {select_list(model)} FROM fairq.{name}{where} ORDER BY {order}".encode(), parameters, as_many(model))


def topics(queue: str) -> Statement[List[str]]:
    return Statement(b"SELECT topic FROM fairq.topics WHERE queue = %s ORDER BY topic", (queue,), settled)


def get_by_key(queue: str, unique_key: Group) -> Statement[Optional[models.TaskStatus]]:
    query = f"SELECT {select_list(models.TaskStatus)} FROM fairq.get_task_by_key(%s, %s)"
    return Statement(query.encode(), (queue, values.group_key(unique_key, "unique_key")), as_one(models.TaskStatus))


def get_done(queue: str, task: int) -> Statement[Optional[models.DoneTask]]:
    query = f"SELECT {select_list(models.DoneTask)} FROM fairq.get_done_task(%s, %s)"
    return Statement(query.encode(), (queue, task), as_one(models.DoneTask))


def done_tasks(queue: str, name: Optional[str], limit: int) -> Statement[List[models.DoneTask]]:
    query = (f"SELECT {select_list(models.DoneTask)} FROM fairq.done_tasks"
             " WHERE queue = %s AND (%s::text IS NULL OR name = %s) ORDER BY done_at DESC, id DESC LIMIT %s")
    return Statement(query.encode(), (queue, name, name, limit), as_many(models.DoneTask))


def pop(queue: str, count: int, wait: Optional[Duration], groups: Optional[Sequence[Group]]) -> Statement[List[models.Task]]:
    keys = None if groups is None else [named_group(group) for group in groups]
    query = f"SELECT {select_list(models.Task)} FROM fairq.pop(%s, %s, wait => coalesce(%s::interval, '0'), group_keys => %s::text[])"
    return Statement(query.encode(), (queue, count, values.duration(wait, "wait"), keys), as_many(models.Task))


REVIVE_SOME = b"""
SELECT array_agg(id), coalesce(sum(fairq.revive(%s, id)), 0)::bigint
FROM (SELECT id FROM fairq.dead_tasks WHERE queue = %s AND id > %s ORDER BY id LIMIT %s) t
"""


def revive_some(queue: str, after: int, limit: int) -> Statement[Tuple[List[int], int]]:
    """Of the dead tasks with higher ids the first: their ids, and how many are revived."""
    return Statement(REVIVE_SOME, (queue, queue, after, limit), lambda rows: (rows[0][0] or [], rows[0][1]))


# -- schedules ------------------------------------------------------------------------------------

def schedule(queue: str, name: str, cron: str, options: Mapping[str, Any]) -> Statement[Optional[datetime]]:
    return call("schedule", [values.text(name, "name"), queue, values.text(cron, "cron")], options)


def schedules(queue: Optional[str]) -> Statement[List[models.Schedule]]:
    query = f"SELECT {select_list(models.Schedule)} FROM fairq.schedules WHERE queue = coalesce(%s, queue) ORDER BY name"
    return Statement(query.encode(), (queue,), as_many(models.Schedule))


# -- what a worker sends --------------------------------------------------------------------------

def open_session(name: str, ttl: float, bound: bool) -> Statement[str]:
    return Statement(b"SELECT fairq.open_session(%s, make_interval(secs => %s), bound => %s)::text", (name[:63], ttl, bound), single)


def is_proxy() -> Statement[bool]:
    """A proxy has no tasks: a worker works at its nodes."""
    return Statement(b"SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq_cluster')", (), single)


def worker_node(queues: Sequence[str], session: Optional[str], but: Sequence[int]) -> Statement[Tuple[int, str, int, float]]:
    """Node, connection, ready tasks, and when to ask again, in seconds."""
    return Statement(b"SELECT node, connection, ready, extract(epoch FROM ask_after)::float8"
                     b" FROM fairq.worker_node_any(%s::text[], %s::uuid, %s::int[])",
                     (list(queues), session, list(but)), node_and_pause)


def node_and_pause(rows: Rows) -> Tuple[int, str, int, float]:
    number, connection, ready, pause = rows[0]
    return number, connection, ready, pause


def heartbeat(session: str) -> Statement[bool]:
    return Statement(b"SELECT fairq.heartbeat(%s::uuid)", (session,), single)


def close_session(session: str) -> Statement[int]:
    return Statement(b"SELECT fairq.close_session(%s::uuid)", (session,), single)


# How long a worker's statement waits for a lock goes with the statement: behind a pooler there is
# no setting of the session's. What comes after it has an argument of it, so that it comes first.
BOUND = "FROM set_config('lock_timeout', %s, true) bound, LATERAL"
FIRST = "CASE WHEN bound <> '' THEN {} END"


def milliseconds(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))


# What identifies the task comes in one value, which Python reads at once. Payload and
# headers are a tenant's: they are read later, where a failure is the task's own.
# One value for each task, the payload after the rest: psycopg calls libpq for each value, and without its C part, as Debian has
# it, gives up the interpreter's lock for each call.
CLAIM = f"""
SELECT json_build_array(queue, id, receipt, group_key, priority, attempt, (extract(epoch FROM enqueued_at) * 1000000)::bigint,
        (extract(epoch FROM expires_at) * 1000000)::bigint, name, subgroup_key, headers::text)::text || payload::text
{BOUND} fairq.claim_any({FIRST.format("%s::text[]")}, %s, session => %s::uuid, wait => make_interval(secs => %s))
""".encode()


def claim(queues: Sequence[str], count: int, session: str, wait: float, bound: float) -> Statement[Rows]:
    return Statement(CLAIM, (milliseconds(bound), list(queues), count, session, wait), lambda rows: rows, wait)


def array(receipts: Sequence[str]) -> str:
    """A uuid[] as text. Receipts are the server's own."""
    return "{" + ",".join(receipts) + "}"


def extend(receipt: str, lease: Optional[Duration]) -> Statement[Optional[datetime]]:
    return Statement(b"SELECT fairq.extend(%s::uuid, %s::interval)", (receipt, values.duration(lease, "lease")), single)


def of_many(call: str) -> bytes:
    """A function of receipts, the first argument, that returns some of them."""
    function, rest = call.split("(", 1)
    return f"SELECT string_agg(r::text, ',') {BOUND} {function}({FIRST.format('%s::uuid[]')}{rest} r".encode()


EXTEND_MANY = of_many("fairq.extend_many()")
ACK_MANY = of_many("fairq.ack_many()")
NACK_MANY = of_many("fairq.nack_many(, %s::text[], %s::interval, final => %s)")
RELEASE_MANY = of_many("fairq.release_many(, coalesce(%s::interval, '0'))")


def still_held(receipts: Sequence[str], bound: float) -> Statement[List[str]]:
    return Statement(EXTEND_MANY, (milliseconds(bound), array(receipts)), settled)


def progress(receipt: str, value: str) -> Statement[bool]:
    """Beside the tenant's headers; nothing is overwritten that is no object."""
    return Statement(b"SELECT fairq.set_progress(%s::uuid, %s::jsonb)", (receipt, value), single)


# A result is kept where the queue keeps what is done; elsewhere the server would refuse it.
KEPT = "CASE WHEN (SELECT keep_done IS NOT NULL FROM fairq.queues WHERE queue = %s) THEN {} END"
ACK_RESULT = ("SELECT fairq.ack(%s::uuid, " + KEPT.format("%s::jsonb") + ")").encode()
ACK_RESULTS = f"""
SELECT string_agg(e->>0, ',') {BOUND} jsonb_array_elements({FIRST.format("%s::jsonb")}) e
WHERE fairq.ack((e->>0)::uuid, {KEPT.format("e->1")})
""".encode()


def ack(receipt: str, queue: str, result: Optional[str]) -> Statement[bool]:
    """The result is JSON, or None for no result."""
    if result is None:
        return Statement(b"SELECT fairq.ack(%s::uuid)", (receipt,), single)
    return Statement(ACK_RESULT, (receipt, queue, result), single)


def settled(rows: Rows) -> List[str]:
    """Receipts in one text, as CLAIM has one value for each task."""
    receipts: Optional[str] = rows[0][0]
    return receipts.split(",") if receipts else []


def ack_many(receipts: Sequence[str], bound: float) -> Statement[List[str]]:
    return Statement(ACK_MANY, (milliseconds(bound), array(receipts)), settled)


def ack_results(queue: str, results: Sequence[Tuple[str, str]], bound: float) -> Statement[List[str]]:
    """Of one queue; the results are JSON."""
    pairs = "[" + ",".join(f'["{receipt}",{result}]' for receipt, result in results) + "]"
    return Statement(ACK_RESULTS, (milliseconds(bound), pairs, queue), settled)


def nack_many(receipts: Sequence[str], errors: Sequence[Optional[str]], delay: Optional[Duration], final: bool,
              bound: float) -> Statement[List[str]]:
    return Statement(NACK_MANY, (milliseconds(bound), array(receipts), list(errors), values.duration(delay, "delay"), final), settled)


def release_many(receipts: Sequence[str], delay: Optional[Duration], bound: float) -> Statement[List[str]]:
    return Statement(RELEASE_MANY, (milliseconds(bound), array(receipts), values.duration(delay, "delay")), settled)


DEAD_OF = f"""
SELECT a.n - 1 {BOUND} unnest({FIRST.format("%s::text[]")}, %s::bigint[]) WITH ORDINALITY AS a(queue, id, n),
    LATERAL fairq.get_task(a.queue, a.id) t
WHERE t.state = 'dead'
""".encode()


def dead_of(tasks: Sequence[Tuple[str, int]], bound: float) -> Statement[List[int]]:
    """Which of these (queue, id) are dead: their positions, from 0."""
    return Statement(DEAD_OF, (milliseconds(bound), [queue for queue, _ in tasks], [task for _, task in tasks]),
                     lambda rows: [row[0] for row in rows])
