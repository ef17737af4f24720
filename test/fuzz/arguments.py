#!/usr/bin/python3
"""Random calls of every function of pgfairq, with arguments of all kinds.

What the functions are and what arguments they take is read from the catalog.
Each argument is left out, sensible, or as bad as its type allows.  Calls are
made one by one or in transactions with savepoints, which commit or roll back.

The program keeps books by the functions' own answers: what was enqueued and
not acknowledged, popped, cancelled or purged since is there, nothing else is;
nobody gets a task that somebody holds; an attempt is counted once.  Each
worker has queues of its own, so that its books are complete.

The result is one JSON object on standard output: calls, errors by SQLSTATE
and violations.  The exit code is 1 if there are violations.

    arguments.py --dsn "host=… dbname=…" --seed 1 --seconds 10 --workers 2
"""

import argparse
import copy
import datetime
import json
import multiprocessing
import random
import re
import sys
import time
import traceback
import uuid

import psycopg
from psycopg.types.datetime import TimestamptzLoader

# For functions that have not been called when the time is over.
MORE_SECONDS = 240

POLICIES = ["fair", "priority", "time"]
GROUPS = ["", "a", "b", "Ünïcode 漢", "x" * 1024]

# What a caller may be told.  Anything else is a finding, an internal error
# above all.
EXPECTED = {
    "22023",  # bad argument
    "42704",  # unknown queue
    "42710",  # queue exists
    "0A000",  # not supported by this version
    "22003", "22007", "22008", "22P02", "22P05", "22021",  # not even of the type
    "2202E", "22000", "42804",  # arrays that are none
    "53400",  # limit reached
    "55000",  # session over; no archive for a result
    "25001",  # awaits what its own transaction has written
}

TYPES = {
    "text": ["", "FAIR", "%s%n", "a" * 48, "b" * 49, "é" * 25, "漢" * 40, "'; --", "NUL\\0", "x" * 100000],
    "jsonb": ["null", "{}", "[]", '"\\u0000"', "{", '{"a": [1, {"b": "é"}]}', "1e400", '"' + "long " * 2000 + '"', "[" * 100 + "]" * 100],
    "integer": ["0", "-1", "1", "9", "1024", "1025", "100000", "100001", "2147483647", "-2147483648", "2147483648", "1.5", "x"],
    "bigint": ["0", "-1", "9", "10", "1000000", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "x"],
    "double precision": ["0", "-0", "1", "0.001", "0.0009", "1000000", "1000001", "NaN", "Infinity", "-Infinity", "1e-45", "3e38", "1e39", "x"],
    "numeric": ["0", "-1", "0.00000000001", "2305843009213693951.99", "2305843009213693952", "1e1000", "NaN", "Infinity", "-Infinity", "x"],
    "interval": ["0", "1 microsecond", "-1 microsecond", "1 s", "1 h", "10 years", "11 years", "-1 day", "1 mon -30 days",
                 "178000000 years", "-178000000 years", "2147483647 days", "1 day -24:00:00", "x"],
    "timestamp with time zone": ["now", "infinity", "-infinity", "epoch", "4713-01-01 BC", "294276-12-31", "300000-01-01", "x"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "x"],
    "boolean": ["true", "false", "x"],
}


# A task that expires goes by itself: the books would not know. The model has that.
EXPIRES = {
    "expires_at": ["infinity", "-infinity", "294276-12-31", "300000-01-01", "x"],
    "expire_after": ["0", "-1 microsecond", "10 years", "11 years", "178000000 years", "1 day -24:00:00", "x"],
    # Nor would they know for how long a key is remembered, and of which task it was.
    "unique_for": ["0", "-1 microsecond", "1 microsecond", "11 years", "178000000 years", "x"],
}


class Finding(Exception):
    pass


class Times(TimestamptzLoader):
    """Times beyond what Python can hold are the last it can."""

    def load(self, data):
        try:
            return super().load(data)
        except psycopg.DataError:
            return datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)


class Books:
    """What there must be, by the answers so far.  Copied at each savepoint."""

    def __init__(self):
        self.queues = {}  # name -> {id: Task}
        self.leases = {}  # receipt -> (queue, id, attempt)
        self.subscriptions = set()  # (topic, queue)
        self.closed = set()  # sessions that were asked to close


class Task:
    __slots__ = ("group", "attempts", "key")

    def __init__(self, group, key=None):
        self.group = group
        self.attempts = 0  # None: not known
        self.key = key

    def __deepcopy__(self, memo):
        task = Task(self.group, self.key)
        task.attempts = self.attempts
        return task


def matches(pattern, words):
    """Does a topic match a subscription?  Both are lists of words."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return matches(pattern[1:], words) or bool(words) and matches(pattern, words[1:])
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])


class Worker:
    def __init__(self, dsn, seed, number, trace):
        self.trace = open("%s.%d" % (trace, number), "w") if trace else None
        self.random = random.Random("%s/%s" % (seed, number))
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.adapters.register_loader("timestamptz", Times)
        self.prefix = "fuzz%d " % number
        self.books = Books()
        self.deadlines = {}  # receipt -> when it ends; extend is not undone by a rollback
        self.seen = []  # receipts of all times
        self.sessions = set()
        self.calls = {}
        self.errors = {}
        self.functions = {}
        self.granted = []  # (receipt, queue, id): in this transaction
        self.repeatable = False
        self.log = []

    def note(self, text):
        """What is done, for those who have to find out why."""
        self.log.append(text[:500])
        del self.log[:-24]
        if self.trace:
            print(text, file=self.trace, flush=True)

    def control(self, sql):
        self.note(sql)
        self.execute(sql)

    def execute(self, sql, parameters=()):
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters, prepare=self.random.random() < 0.3)
            return cursor.fetchall() if cursor.description else []

    # --- arguments ---------------------------------------------------------

    def read_catalog(self):
        for name, names, types, defaults in self.execute(
                "SELECT proname::text, proargnames, ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes::oid[]) t), pronargdefaults "
                "FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace AND prokind = 'f' AND proargmodes IS NULL AND proargnames IS NOT NULL "
                "ORDER BY proname"):
            required = len(names) - defaults
            self.functions[name] = [(a, t, i >= required) for i, (a, t) in enumerate(zip(names, types))]
        if len(self.functions) < 20:
            raise Finding("only %d functions in the catalog" % len(self.functions))

    def bad(self, argument, type_name):
        if self.random.random() < 0.25:
            return None
        if argument in EXPIRES:
            return self.random.choice(EXPIRES[argument])
        if type_name.endswith("[]"):
            return self.random_array(type_name[:-2])
        return self.random.choice(TYPES[type_name])

    def array(self, values):
        quoted = ["NULL" if v is None else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values]
        return "{" + ",".join(quoted) + "}"

    def random_array(self, element):
        kind = self.random.randrange(6)
        if kind == 0:
            return "{}"
        if kind == 1:
            return "{{%s},{%s}}" % tuple(self.array([self.random.choice(TYPES[element])])[1:-1] for _ in range(2))
        if kind == 2:
            return "[5:6]=" + self.array([self.random.choice(TYPES[element]) for _ in range(2)])
        values = [self.random.choice(TYPES[element] + [None]) for _ in range(self.random.choice([1, 2, 3, 50]))]
        return self.array(values)

    def a_queue(self):
        if self.books.queues and self.random.random() < 0.95:
            return self.random.choice(sorted(self.books.queues))
        return self.prefix + str(self.random.randrange(8))

    def an_id(self, queue):
        tasks = self.books.queues.get(queue)
        if tasks and self.random.random() < 0.9:
            return str(self.random.choice(sorted(tasks)))
        return str(self.random.choice([0, -1, 1, 10 ** 15, self.random.randrange(3000)]))

    def a_receipt(self):
        r = self.random.random()
        if self.books.leases and r < 0.7:
            return self.random.choice(sorted(self.books.leases))
        if self.seen and r < 0.95:
            return self.random.choice(self.seen[-200:])
        return "%032x" % self.random.getrandbits(128)

    def good(self, function, argument, type_name, queue, several):
        r = self.random
        if argument == "queue":
            return queue
        if argument == "queues":
            return self.array([queue] + [self.a_queue() for _ in range(r.choice([0, 1, 1, 3]))])
        if argument == "topic":
            return r.choice(["a", "a.b", "a.b.c"] + (["*", "#", "a.*", "#.b"] if function != "publish" else []))
        if argument == "receipt":
            return self.a_receipt()
        if argument == "receipts":
            return self.array([self.a_receipt() for _ in range(several)])
        if argument == "id":
            return self.an_id(queue)
        if argument == "policy":
            return r.choice(POLICIES)
        if argument == "buckets":
            return str(r.choice([1, 2, 16])) if type_name == "integer" else self.array([str(r.randrange(2)) for _ in range(2)])
        if argument == "lease":
            return r.choice(["1 microsecond", "1 ms", "50 ms", "1 h", "1 day"])
        if argument in ("wait", "timeout"):
            return r.choice(["0", "1 ms", "20 ms"])
        if argument == "result":
            return r.choice([None, '{"r": 1}', "null"])
        if argument == "session":
            if function in ("claim", "claim_any", "ack_and_claim") and r.random() < 0.7:
                return None
            return r.choice(sorted(self.sessions) + ["%032x" % r.getrandbits(128)])
        if argument == "ttl":
            return r.choice(["1 h", "1 h", "1 microsecond", "50 ms"])
        if argument in ("bound", "if_not_exists"):
            return r.choice(["true", "false"])
        if argument == "group_required":
            return r.choice(["true", "false", "false"])
        if argument == "default_priority":
            return str(r.randrange(10))
        if argument == "name":
            return "worker" if function == "open_session" else self.prefix + "schedule"
        if argument == "node":
            return r.choice(["0", "1", "2"])
        if argument == "class":
            return str(r.randrange(10))
        if argument == "block":
            return r.choice(["0", "1.5", "100", "1000000", "1000000000000"])
        if argument == "cron":
            return r.choice(["@yearly", "0 0 1 1 *", "@every 10 years"])
        if argument == "timezone":
            return r.choice(["UTC", "Europe/Paris"])
        if argument == "catch_up":
            return r.choice(["none", "one", "all"])
        if argument in ("overlap", "active"):
            return r.choice(["true", "false"])
        if argument == "unique_for":
            return "1 microsecond"
        if argument == "after":
            return self.array([self.an_id(queue) for _ in range(r.choice([0, 1, 2]))])
        if argument == "on_dead":
            return "run"
        if argument == "delay":
            return r.choice(["0", "0", "10 ms", "1 s", None])
        if argument == "backoff_jitter":
            return r.choice(["0", "0.1", "1"])
        if argument in ("backoff_base", "backoff_max"):
            return r.choice(["0", "10 ms", "1 s"])
        if argument == "run_at":
            return r.choice([None, "now", self.soon(), self.soon()])
        if argument == "run_ats":
            return self.array([r.choice([None, "yesterday", self.soon()]) for _ in range(r.choice([1, several]))])
        if argument == "expires_at":
            return r.choice([None, "infinity", "2200-01-01"])
        if argument == "expire_after":
            return r.choice([None, "0", "1 year"])
        if argument == "class_weights":
            return r.choice([None, "{}", "{4,2,1}", "{0.5}"])
        if argument in ("max_attempts", "max_lost"):
            return str(r.choice([0, 1, 3, 20]))
        if argument == "names":
            return self.array([r.choice([None, "send", "résumé"]) for _ in range(r.choice([1, several]))])
        if argument == "task_name":
            return r.choice([None, "send"])
        if argument == "max_tasks":
            return str(r.choice([1, 1, 2, 10, 100, 100000]))
        if argument == "payload":
            return json.dumps({"n": r.randrange(1000)})
        if argument == "progress":
            return '{"done": 1}'
        if argument == "keep_done":
            return r.choice([None, "1 h"])
        if argument == "payloads":
            return self.array([json.dumps(i) for i in range(several)])
        if argument == "group_key":
            return r.choice(GROUPS)
        if argument == "subgroup_key":
            return r.choice([None, *GROUPS])
        if argument == "subgroup_keys":
            return self.array([r.choice([None, *GROUPS]) for _ in range(r.choice([1, several]))])
        if argument == "group_keys":
            return self.array([r.choice(GROUPS) for _ in range(r.choice([1, several]))])
        if argument == "priority":
            return str(r.randrange(10))
        if argument == "priorities":
            return self.array([str(r.randrange(10)) for _ in range(r.choice([1, several]))])
        if argument == "cost":
            return r.choice(["1", "0.5", "7", "0.001", "1000000"])
        if argument == "costs":
            return self.array([r.choice(["1", "0.5", "7"]) for _ in range(r.choice([1, several]))])
        if argument == "headers":
            return '{"h": 1}'
        if argument == "error":
            return "went wrong"
        if argument == "errors":
            return self.array(["went wrong"] * r.choice([1, several]))
        if argument == "state":
            return r.choice(["ready", "leased", "dead", "held"])
        if argument == "on_duplicate":
            return r.choice(["keep", "replace"])
        if argument == "unique_key":
            return r.choice(["k1", "k2", "k3"])
        if argument == "unique_keys":
            return self.array([r.choice(["k1", "k2", "k3", None]) for _ in range(r.choice([1, several]))])
        return None

    def soon(self):
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(milliseconds=self.random.choice([1, 20, 200, 10 ** 8]))
        return when.isoformat()

    # --- one call ----------------------------------------------------------

    def call(self, inside=False):
        weights = {"create_queue": 3, "drop_queue": 1, "purge": 1, "purge_group": 1, "enqueue": 12, "enqueue_many": 8, "publish": 6, "claim": 10, "claim_any": 6, "ack": 8, "ack_many": 5}
        # It locks all queues: inside a transaction that goes on, it may end in a deadlock as LOCK does.
        names = sorted(name for name in self.functions if not (inside and name == "set_node"))
        function = self.random.choices(names, [weights.get(n, 4) for n in names])[0]
        queue = self.a_queue()
        several = self.random.choice([0, 1, 2, 3, 3, 5, 40])
        wildness = self.random.choice([0, 0, 0.1, 0.5])
        arguments = {}
        for argument, type_name, optional in self.functions[function]:
            # A wait of ten years is a good one.
            wild = self.random.random() < wildness and argument not in ("wait", "timeout")
            if optional and not wild and argument != "timeout" and self.random.random() < 0.6:
                continue
            value = self.bad(argument, type_name) if wild else self.good(function, argument, type_name, queue, several)
            if argument == "topic" and value is not None:
                value = self.prefix.strip() + "." + value  # not of another worker's queues
            if argument == "queue" and wild and value:
                value = value[:-1] + self.prefix[4]  # nor another worker's queue
            arguments[argument] = (value, type_name)
        if "after" in arguments:
            # With others a task may stay held for ever, or end by itself.
            arguments["on_dead"] = ("run", "text")
        sql = "SELECT clock_timestamp(), f.* FROM fairq.%s(%s) f" % (
            function, ", ".join("%s => %%s::%s" % (a, t) for a, (v, t) in arguments.items()))
        parameters = [v for v, t in arguments.values()]
        self.note("%s(%s)" % (function, ", ".join("%s => %s" % (a, repr(v)[:200]) for a, (v, t) in arguments.items())))
        try:
            answer = self.execute(sql, parameters)
            self.note("  -> %s" % " ".join(str(row[1:4] if len(row) > 2 else row[1]) for row in answer[:20]))
        except psycopg.Error as error:
            state = error.sqlstate or "connection"
            self.note("  -> %s %s" % (state, str(error).splitlines()[0]))
            self.errors[state] = self.errors.get(state, 0) + 1
            # Another worker writes the schedule of a name that both were given.
            both = state == "40001" and function in ("schedule", "unschedule")
            # The worker has forgotten a key that was there at the snapshot.
            both |= state == "40001" and function in ("forget_key", "forget_keys") and self.repeatable
            if state not in EXPECTED and not both:
                raise Finding("%s: %s" % (state, str(error).strip()[:500]))
            return False
        self.calls[function] = self.calls.get(function, 0) + 1
        self.book(function, {a: v for a, (v, t) in arguments.items()}, answer)
        return True

    # --- the books ---------------------------------------------------------

    def tasks(self, queue):
        return {row[0] for row in self.execute("SELECT id FROM fairq.tasks(%s)", (queue,))}

    def refused(self, receipts, at):
        """These were not good: so they must not be, unless they have run out."""
        for receipt in receipts:
            if receipt in self.books.leases and self.deadlines[receipt] > at:
                raise Finding("receipt %s was refused, though it is good until %s" % (receipt, self.deadlines[receipt]))

    def receipts(self, text):
        return {str(uuid.UUID(receipt)) for receipt in re.findall("[0-9a-f-]{32,36}", text)}

    def headers_are_object(self, receipt):
        """Of the task of a lease.  Others are left alone by set_progress."""
        queue, task_id, attempt = self.books.leases.get(receipt, (None, None, None))
        return queue is not None and self.execute(
            "SELECT coalesce(jsonb_typeof(headers), 'object') = 'object' FROM fairq.tasks(%s) WHERE id = %s",
            (queue, task_id)) == [(True,)]

    def enqueued(self, queue, task_id, group, key, on_duplicate):
        task = self.books.queues[queue].get(task_id)
        if task is None:
            self.books.queues[queue][task_id] = Task(group, key)
        elif key is None or task.key != key:
            raise Finding("id %d was given out twice" % task_id)
        elif on_duplicate == "replace":
            task.group = group
            task.attempts = None  # none, unless it was new in this very call

    def published(self, count, arguments):
        """A task to each queue that has subscribed; which, only a look says."""
        words = arguments["topic"].split(".")
        queues = {queue for topic, queue in self.books.subscriptions if matches(topic.split("."), words)}
        if count != len(queues):
            raise Finding("publish said %s, %d queues have subscribed" % (count, len(queues)))
        key = arguments.get("unique_key")
        for queue in queues:
            new = self.tasks(queue) - set(self.books.queues[queue])
            if len(new) > 1 or (not new and key is None):
                raise Finding("publish made %d tasks in queue %s" % (len(new), queue))
            for task_id in new:
                self.enqueued(queue, task_id, arguments.get("group_key") or "", key, None)
            if not new and arguments.get("on_duplicate") == "replace":
                for task_id, group in self.execute("SELECT id, group_key FROM fairq.tasks(%s) WHERE unique_key = %s", (queue, key)):
                    self.enqueued(queue, task_id, group, key, "replace")

    def claimed(self, queue, rows, keep, session=None):
        tasks = self.books.queues[queue]
        ids = [row[1] for row in rows]
        if len(set(ids)) != len(ids):
            raise Finding("a claim returned a task twice")
        holders = {}
        for receipt, (lease_queue, lease_id, attempt) in self.books.leases.items():
            if lease_queue == queue:
                holders[lease_id] = receipt
        for at, task_id, receipt, group, payload, headers, priority, attempt, enqueued_at, lease_until, address, expires_at, name, _ in rows:
            if task_id not in tasks:
                raise Finding("claimed task %d, which is not there" % task_id)
            task = tasks[task_id]
            if task.group != group:
                raise Finding("task %d was of group %r, now %r" % (task_id, task.group, group))
            former = holders.get(task_id)
            for holder, held in holders.items():
                if task.key is not None and holder != task_id and holder in tasks and tasks[holder].key == task.key and self.deadlines[held] > at:
                    raise Finding("tasks %d and %d of key %r are in flight" % (holder, task_id, task.key))
            if former is not None:
                if self.deadlines[former] > at:
                    raise Finding("task %d is claimed by a second one until %s" % (task_id, self.deadlines[former]))
                # Its lease ran out.  That run counts, as lost, but for one that has died of it and was revived since.
                attempts = self.books.leases.pop(former)[2]
                if task.attempts is not None:
                    task.attempts = attempts
            if task.attempts is not None and attempt != task.attempts + 1:
                raise Finding("task %d: attempt %d after %d" % (task_id, attempt, task.attempts))
            # What a session has claimed as it closes goes back uncounted.
            task.attempts = None if session in self.books.closed else attempt - 1
            if keep:
                self.books.leases[str(receipt)] = (queue, task_id, attempt)
                self.granted.append((str(receipt), queue, task_id))
                # A session may be over at any time.
                self.deadlines[str(receipt)] = at if session else lease_until
                self.seen.append(str(receipt))
            else:
                del tasks[task_id]

    def remove(self, queue, task_id):
        del self.books.queues[queue][task_id]
        for receipt, (lease_queue, lease_id, attempt) in list(self.books.leases.items()):
            if lease_queue == queue and lease_id == task_id:
                del self.books.leases[receipt]

    def book(self, function, arguments, answer):
        queue = arguments.get("queue")
        first = answer[0][1] if answer and len(answer[0]) > 1 else None
        if function == "create_queue":
            if queue not in self.books.queues:
                self.books.queues[queue] = {}
            elif arguments.get("if_not_exists") in (None, "false"):
                raise Finding("created a queue that was there")
        elif function == "drop_queue":
            if first != (queue in self.books.queues):
                raise Finding("drop_queue said %s" % first)
            for receipt, (lease_queue, lease_id, attempt) in list(self.books.leases.items()):
                if lease_queue == queue:
                    del self.books.leases[receipt]
            self.books.queues.pop(queue, None)
            self.books.subscriptions = {s for s in self.books.subscriptions if s[1] != queue}
        elif function == "enqueue":
            self.enqueued(queue, first, arguments.get("group_key") or "", arguments.get("unique_key"), arguments.get("on_duplicate"))
        elif function == "enqueue_many":
            rows = self.execute("SELECT id, group_key, unique_key FROM fairq.tasks(%s) WHERE id = ANY (%s)", (queue, first))
            if len(rows) != len(set(first)) or len(rows) < len(first) and arguments.get("unique_keys") is None:
                raise Finding("enqueue_many returned %d ids, %d are there" % (len(first), len(rows)))
            for task_id, group, key in rows:
                self.enqueued(queue, task_id, group, key, arguments.get("on_duplicate"))
        elif function == "publish":
            self.published(first, arguments)
        elif function == "subscribe":
            self.books.subscriptions.add((arguments["topic"], queue))
        elif function == "unsubscribe":
            if first != ((arguments["topic"], queue) in self.books.subscriptions):
                raise Finding("unsubscribe said %s" % first)
            self.books.subscriptions.discard((arguments["topic"], queue))
        elif function == "claim":
            self.claimed(queue, answer, True, arguments.get("session"))
        elif function == "claim_any":
            for name in {row[1] for row in answer}:
                self.claimed(name, [row[:1] + row[2:] for row in answer if row[1] == name], True, arguments.get("session"))
        elif function == "pop":
            self.claimed(queue, answer, False)
        elif function == "ack_and_claim":
            # Which receipts were good it does not say: those whose tasks are gone.
            for receipt in self.receipts(arguments["receipts"]):
                lease = self.books.leases.get(receipt)
                if lease is not None and lease[1] not in self.tasks(lease[0]):
                    del self.books.queues[lease[0]][lease[1]]
                    del self.books.leases[receipt]
            self.claimed(queue, answer, True, arguments.get("session"))
        elif function in ("ack", "nack", "release"):
            if first:
                self.settle(function, str(uuid.UUID(arguments["receipt"])), arguments.get("final") == "true")
            else:
                self.refused([str(uuid.UUID(arguments["receipt"]))], answer[0][0])
        elif function in ("ack_many", "nack_many", "release_many"):
            good = [str(row[1]) for row in answer]
            if len(good) != len(set(good)):
                raise Finding("a receipt was good twice")
            for receipt in good:
                self.settle(function[:-5], receipt, arguments.get("final") == "true")
            self.refused(self.receipts(arguments["receipts"]) - set(good), self.now())
        elif function == "extend":
            if first is not None:
                receipt = str(uuid.UUID(arguments["receipt"]))
                if receipt not in self.books.leases:
                    raise Finding("extended a lease that is over")
                self.deadlines[receipt] = first
            else:
                self.refused([str(uuid.UUID(arguments["receipt"]))], answer[0][0])
        elif function == "set_progress":
            receipt = str(uuid.UUID(arguments["receipt"]))
            if not first and self.headers_are_object(receipt):
                self.refused([receipt], answer[0][0])
        elif function == "extend_many":
            good = {str(row[1]) for row in answer}
            self.refused(self.receipts(arguments["receipts"]) - good, self.now())
            for receipt in good:
                if receipt not in self.books.leases:
                    raise Finding("extended a lease that is over")
                # It may be over by now, or its session; then by any deadline.
                row = self.execute("SELECT lease_until FROM fairq.leases WHERE receipt = %s", (receipt,))
                self.deadlines[receipt] = row[0][0] if row and row[0][0] else answer[0][0]
        elif function == "cancel":
            task_id = int(arguments["id"])
            if first != (task_id in self.books.queues[queue]):
                raise Finding("cancel of task %d said %s" % (task_id, first))
            if first:
                self.remove(queue, task_id)
        elif function in ("purge", "purge_group"):
            left = self.tasks(queue)
            gone = set(self.books.queues[queue]) - left
            if len(gone) != first:
                raise Finding("purge said %d, %d are gone" % (first, len(gone)))
            held = {l[1]: r for r, l in self.books.leases.items() if l[0] == queue}
            for task_id in gone:
                if task_id in held and self.deadlines[held[task_id]] > answer[0][0]:
                    raise Finding("purge took task %d, which is leased" % task_id)
                if function == "purge_group" and self.books.queues[queue][task_id].group != arguments["group_key"]:
                    raise Finding("purge took a task of another group")
                self.remove(queue, task_id)
        elif function in ("revive", "revive_group", "revive_all"):
            for task in self.books.queues[queue].values():
                task.attempts = None
        elif function == "open_session":
            self.sessions.add(str(first))
            if len(self.sessions) > 20:
                self.sessions.pop()
        elif function == "close_session":
            self.books.closed.add(arguments["session"])
            # Which leases were its own only their absence tells.
            if first:
                held = {str(row[0]) for row in self.execute("SELECT receipt FROM fairq.leases WHERE state <> 'settling'")}
                for receipt, (lease_queue, lease_id, attempt) in list(self.books.leases.items()):
                    if receipt not in held:
                        del self.books.leases[receipt]
                        self.books.queues[lease_queue][lease_id].attempts = None
        elif function == "await":
            # Unless it has gone, with a keep_done that is over, or none.
            there = int(arguments["id"]) in self.books.queues[queue]
            if there and first not in ("ready", "leased", "scheduled", "overflow", "held", "dead") or not there and first not in (
                    None, "acked", "cancelled", "dead", "expired"):
                raise Finding("await of a task that is%s there said %s" % ("" if there else " not", first))
        elif function == "get_task":
            if bool(answer) != (int(arguments["id"]) in self.books.queues[queue]):
                raise Finding("get_task found %d rows" % len(answer))

    def now(self):
        return self.execute("SELECT clock_timestamp()")[0][0]

    def settle(self, verb, receipt, final):
        if receipt not in self.books.leases:
            raise Finding("receipt %s was good, though it is over" % receipt)
        queue, task_id, attempt = self.books.leases.pop(receipt)
        task = self.books.queues[queue][task_id]
        if verb == "ack":
            del self.books.queues[queue][task_id]
        elif verb == "nack":
            task.attempts = None if final else attempt  # dead: counted as far as a revival leaves it

    def audit(self):
        """The books and the queues say the same."""
        names = {row[0] for row in self.execute("SELECT queue FROM fairq.queues WHERE queue LIKE %s", (self.prefix + "%",))}
        own = {q for q in self.books.queues if q.startswith(self.prefix)}
        if names != own:
            raise Finding("queues: %s there, %s by the books" % (sorted(names), sorted(own)))
        topics = set(self.execute("SELECT topic, queue FROM fairq.topics WHERE queue LIKE %s", (self.prefix + "%",)))
        if topics != self.books.subscriptions:
            raise Finding("subscriptions: %s there, %s by the books" % (sorted(topics), sorted(self.books.subscriptions)))
        for queue in own:
            there = self.tasks(queue)
            books = set(self.books.queues[queue])
            if there != books:
                raise Finding("queue %s: tasks %s too many, %s missing" % (queue, sorted(there - books)[:10], sorted(books - there)[:10]))

    # --- transactions ------------------------------------------------------

    def transaction(self):
        kind = self.random.random()
        self.repeatable = False
        if kind < 0.4:
            self.call()
            return
        self.doubtful = set()
        self.granted = []
        before = copy.deepcopy(self.books)
        self.repeatable = self.random.random() >= 0.8
        self.control("BEGIN" + (" ISOLATION LEVEL REPEATABLE READ" if self.repeatable else ""))
        for _ in range(self.random.choice([1, 2, 5])):
            saved = copy.deepcopy(self.books)
            mark = len(self.granted)
            self.control("SAVEPOINT s")
            if not self.call(inside=True) or self.random.random() < 0.25:
                self.control("ROLLBACK TO s")
                self.restore(saved, mark)
            elif self.random.random() < 0.5:
                self.control("RELEASE s")
        if kind < 0.8:
            self.control("COMMIT")
        else:
            self.control("ROLLBACK")
            self.restore(before, 0)

    def restore(self, books, mark):
        """Rolled back.  A lease that ran out meanwhile may have counted all the same, whatever became of it."""
        now = self.now()
        for receipt, queue, task_id in self.granted[mark:]:
            if receipt not in books.leases and self.deadlines[receipt] <= now:
                self.doubtful.add((queue, task_id))
        del self.granted[mark:]
        for queue, task_id in self.doubtful:
            if task_id in books.queues.get(queue, ()):
                books.queues[queue][task_id].attempts = None
        self.books = books

    def run(self, seconds, most):
        self.read_catalog()
        for row in self.execute("SELECT fairq.drop_queue(queue) FROM fairq.queues WHERE queue LIKE %s", (self.prefix + "%",)):
            pass
        violations = []
        start = time.monotonic()
        transactions = 0
        try:
            for n, policy in enumerate(POLICIES):
                name = self.prefix + str(n)
                self.execute("SELECT fairq.create_queue(%s, %s, buckets => %s, lease => '1 h')", (name, policy, 2))
                self.books.queues[name] = {}
            name = self.prefix + "users"
            self.execute("SELECT fairq.create_queue(%s, buckets => %s, lease => '1 h', subgroups => true)", (name, 2))
            self.books.queues[name] = {}
            # A busy machine does not get to all functions in that time.
            while transactions < most and (
                    time.monotonic() - start < seconds or
                    self.functions.keys() - self.calls.keys() and time.monotonic() - start < seconds + MORE_SECONDS):
                self.transaction()
                transactions += 1
                if transactions % 50 == 0:
                    self.audit()
                # A name with odd characters is not audited; keep queues few and small.
                for queue, tasks in list(self.books.queues.items()):
                    if not queue.startswith(self.prefix) or len(tasks) > 2000:
                        self.execute("SELECT fairq.drop_queue(%s)", (queue,))
                        del self.books.queues[queue]
                        self.books.subscriptions = {s for s in self.books.subscriptions if s[1] != queue}
                        self.books.leases = {r: l for r, l in self.books.leases.items() if l[0] != queue}
            self.audit()
            self.drain()
        except Finding as finding:
            violations.append("%s\n  worker %r, after %s" % (finding, self.prefix, self.last_calls()))
        except Exception:
            violations.append("%s\n  worker %r, after %s" % (traceback.format_exc(), self.prefix, self.last_calls()))
        return {"transactions": transactions, "calls": self.calls, "errors": self.errors, "violations": violations}

    def last_calls(self):
        return "\n        ".join(self.log)

    def drain(self):
        """Every task that is left can be had, by its holder or by a claim."""
        for queue in sorted(self.books.queues):
            self.execute("SELECT fairq.resume(%s)", (queue,))
            self.execute("SELECT fairq.set_group_defaults(%s, max_leased => 0, rate => 0)", (queue,))
            self.execute("SELECT fairq.set_group(queue, group_key, max_leased => 0, rate => 0), fairq.resume_group(queue, group_key)"
                         " FROM fairq.group_settings WHERE queue = %s", (queue,))
            self.execute("SELECT fairq.set_subgroup_defaults(queue, max_leased => 0, rate => 0) FROM fairq.queues WHERE queue = %s AND subgroups", (queue,))
            self.execute("SELECT fairq.reset_subgroup(queue, group_key, subgroup_key) FROM fairq.subgroup_settings JOIN fairq.queues USING (queue)"
                         " WHERE queue = %s AND subgroups", (queue,))
            self.execute("SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue = %s", (queue,))
            self.execute("SELECT fairq.revive_all(%s)", (queue,))
            got = set()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                # What waits for its time does so no longer.
                self.execute('UPDATE fairq."q_%s" SET run_at = now() WHERE state = \'s\' AND run_at > now()' % queue)
                self.execute("SELECT fairq.maintain(%s)", (queue,))
                # A lease of its own, for those of tasks and queues may be over before the ack.
                rows = self.execute("SELECT id, fairq.ack(receipt) FROM fairq.claim(%s, 1000, lease => '1 h')", (queue,))
                if not all(acked for task_id, acked in rows) or got & {task_id for task_id, acked in rows}:
                    raise Finding("draining %s: tasks twice: %s, not acknowledged: %s" % (
                        queue, sorted(got & {task_id for task_id, acked in rows})[:10], [task_id for task_id, acked in rows if not acked][:10]))
                got |= {task_id for task_id, acked in rows}
                if not rows:
                    if not self.tasks(queue):
                        break
                    # A lease that ran out may have died of it.
                    self.execute("SELECT fairq.revive_all(%s)", (queue,))
                    time.sleep(0.05)
            if got != set(self.books.queues[queue]):
                raise Finding("draining %s: %d tasks were got, %d are by the books; missing %s" % (
                    queue, len(got), len(self.books.queues[queue]), sorted(set(self.books.queues[queue]) - got)[:10]))
            self.execute("SELECT fairq.drop_queue(%s)", (queue,))


def work(arguments):
    dsn, seed, number, trace, seconds, most = arguments
    try:
        return Worker(dsn, seed, number, trace).run(seconds, most)
    except Exception:
        return {"transactions": 0, "calls": {}, "errors": {}, "violations": [traceback.format_exc()]}


def add(total, part):
    for key, n in part.items():
        total[key] = total.get(key, 0) + n


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", default="")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--transactions", type=int, default=10 ** 9, help="of each worker, at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trace", help="write every call of worker N to this file with .N")
    options = parser.parse_args()

    with multiprocessing.Pool(options.workers) as pool:
        parts = pool.map(work, [(options.dsn, options.seed, n, options.trace, options.seconds, options.transactions) for n in range(options.workers)], 1)
    result = {"transactions": 0, "calls": {}, "errors": {}, "violations": []}
    for part in parts:
        result["transactions"] += part["transactions"]
        add(result["calls"], part["calls"])
        add(result["errors"], part["errors"])
        result["violations"] += part["violations"]
    with psycopg.connect(options.dsn, autocommit=True) as connection:
        left = connection.execute("SELECT (SELECT count(*) FROM fairq.queues WHERE queue LIKE 'fuzz%'), (SELECT count(*) FROM fairq.leases "
                                  "WHERE queue LIKE 'fuzz%')").fetchone()
    if any(left) and not result["violations"]:
        result["violations"].append("%d queues and %d leases are left" % left)
    json.dump(result, sys.stdout, indent=1, sort_keys=True, ensure_ascii=False)
    print()
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
