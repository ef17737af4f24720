"""Every function of both extensions, called by roles that may do nothing.

What is called is read from pg_proc, so a function that is added is called, too; a type
that has no values here is a failure. A call is made in a transaction that stays open, with
nulls, with what is right, with each edge of each argument, and at random; in databases of
three encodings, and at a proxy. Beside them an owner has tasks in every state.

"nobody" may connect. "granted" may besides execute all that is not for applications, as if
an administrator had granted it: what a function looks at itself is looked at then.

Looked for, after each call:
  - a crash, an internal error, a call that waits (for a lock, or for its arguments' time)
  - a transaction id, which a call that is refused, or has found nothing, does not need
  - a lock that others wait for, in the transaction that is still open
and after all of them: anything of the owner's that is not as it was. Then each function is
called while rows of ours and tables of queues are locked, and each trigger function is put on
tables of others, in all ways there are.

Seen to fail: on eba016e with schedule_inserted() and place_task(), which crashed the server,
with unschedule() and schedule(), which locked the row of a schedule and took a transaction id,
with the locks on fairq.node that calls at a proxy left, and with the look at rights of queue_open.c
moved behind try_relation_open(), where 38 functions waited for the table.
"""

import itertools
import random
import time

from psycopg import pq

SEED = 20261201
RANDOM_CALLS = 8        # of each function, beside each edge of each argument
SOME_CALLS = 12         # of these, in other encodings and at a proxy, where most cost a connection to a node
TWIN_CALLS = 3          # of functions of PL/Proxy's
TIMEOUT = 10            # seconds for a call that takes milliseconds

ROLES = ("every_nobody", "every_granted")
OWNER = "every_owner"
DATABASES = {"every_node": "UTF8", "every_ascii": "SQL_ASCII", "every_latin1": "LATIN1"}
PROXY = "every_proxy"

# The owner's queue, and what else has a name that a stranger may give.
THEIRS = """
SELECT fairq.create_queue('others', buckets => 2, keep_done => '1 year', max_ready_per_group => 5, lease => '1 day');
SELECT fairq.create_queue('durable', buckets => 2, durable_leases => true, lease => '1 day');
SELECT fairq.subscribe('news', 'others');
SELECT fairq.set_group('others', 'a', weight => 3);
SELECT fairq.enqueue('others', to_jsonb(n), group_key => (ARRAY['a', 'b', ''])[n % 3 + 1]) FROM generate_series(1, 20) n;
SELECT fairq.enqueue('others', '"later"', run_at => now() + interval '1 month');
SELECT fairq.enqueue('others', '"key"', unique_key => 'k', unique_for => '1 year');
SELECT fairq.nack(receipt, 'dead') FROM (SELECT fairq.enqueue('others', '1', group_key => 'd', max_attempts => 1)) e, LATERAL fairq.claim('others', group_keys => '{d}');
SELECT fairq.ack(receipt) FROM (SELECT fairq.enqueue('others', '1', group_key => 'e')) e, LATERAL fairq.claim('others', group_keys => '{e}');
SELECT fairq.enqueue('others', '"after"', after => ARRAY[fairq.enqueue('others', '1', run_at => now() + interval '1 month')]);
SELECT count(*) FROM fairq.claim('others', 3);
SELECT fairq.enqueue('durable', to_jsonb(n)) FROM generate_series(1, 4) n;
SELECT count(*) FROM fairq.claim('durable', 2);
SELECT fairq.schedule('nightly', 'others', '@yearly', '{"secret": 1}')
"""

# Of each type: what is right, then its edges. Receipts and ids of the owner's are added.
VALUES = {
    "integer": ["1", "0", "-1", "2147483647", "-2147483648", "100000"],
    "bigint": ["1", "0", "-1", "9223372036854775807", "-9223372036854775808", "4"],
    "text": ["'others'", "''", "'nosuch'", "'nightly'", "'news'", "'a'", "'k'", "'* * * * *'", "'UTC'", "'dead'", "'replace'", "'SELECT 1'",
             "repeat('x', 255)", "repeat('y', 70000)", "E'a\\nb%s%n\\x01'", "'q_others\"; DROP TABLE x; --'", "BYTES"],
    "jsonb": ["'{}'", "'null'", "'1'", "'[]'", "to_jsonb(repeat('z', 100000))", "'{\"settings\": null, \"grants\": [{}], \"groups\": {}, \"topics\": [1]}'", "'[{\"id\": 1}, null, 3]'",
              "'{\"name\": null, \"owner\": \"every_owner\"}'"],
    "uuid": ["gen_random_uuid()", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-8fff-bfff-ffffffffffff'"],
    "double precision": ["1", "0", "-1", "'NaN'", "'inf'", "'-inf'", "1e-300", "1e300"],
    "real": ["1", "'NaN'", "'inf'", "-1", "1e-37"],
    "numeric": ["1", "0", "-1", "'NaN'", "'inf'", "'-inf'", "1e100", "0.5", "2305843009213693950", "1e-100"],
    "boolean": ["true", "false"],
    "interval": ["'0'", "'1 ms'", "'-1 s'", "'1 month -30 days'", "'178000000 years'", "'-178000000 years'", "'2147483647 days'"],
    "timestamp with time zone": ["now()", "'infinity'", "'-infinity'", "'4713-11-24 BC'", "'294276-12-31 23:59:59'", "'2000-01-01'"],
    "oid": ["10", "0", "4294967295"],
    "fairq.address": ["'(0,1,2,3)'", "'(1,0,9223372036854775807,2147483647)'"],
    "cstring": ["'(0,1,2,3)'", "''", "'(-1,-1,-1,-1)'", "repeat('(', 70000)::cstring"],
    '"char"': ["'a'"],
}
BYTES = {"UTF8": b"'\xc3\xa9\xe6\xbc\xa2'", "SQL_ASCII": b"'\xff\xfe\x80\xc3'", "LATIN1": b"'\xe9\xff\x80'"}


def values_of(kind, extra):
    """Expressions of a type; the first is one that is mostly right."""
    if kind.endswith("[]"):
        of = values_of(kind[:-2], extra)
        return [f"ARRAY[{of[0]}]::{kind}", f"'{{}}'::{kind}", f"'{{NULL}}'::{kind}", f"ARRAY[{', '.join(of[:8])}]::{kind}",
                f"ARRAY[[{of[0]}, {of[-1]}], [{of[0]}, {of[0]}]]::{kind}", f"array_fill({of[0]}, ARRAY[20000])", f"array_fill({of[0]}, ARRAY[2], ARRAY[-5])",
                f"array_fill(NULL::{kind[:-2]}, ARRAY[3, 3])", "NULL"]
    values = [f"{value}::{kind}" if kind != "cstring" else value for value in extra.get(kind, []) + VALUES[kind]]
    return values + ["NULL"]


class Connection:
    """A connection below psycopg, which has texts of any bytes."""

    def __init__(self, socket, role, database):
        self.what = f"host={socket} user={role} dbname={database} application_name='hostile every_function'".encode()
        self.connect()

    def connect(self):
        """Also while the server recovers from a crash."""
        end = time.monotonic() + 60
        while True:
            self.pg = pq.PGconn.connect(self.what)
            if self.pg.status == pq.ConnStatus.OK:
                self.pg.notice_handler = None
                if self.run(f"SET client_min_messages = error; SET statement_timeout = '{TIMEOUT}s'".encode())[0] == "":
                    break
            if time.monotonic() > end:
                raise RuntimeError(self.pg.error_message.decode(errors="replace"))
            time.sleep(0.1)

    def run(self, query):
        """SQLSTATE ("" if there is none; None if the connection is lost), message and rows."""
        try:
            result = self.pg.exec_(query)
        except MemoryError:         # libpq's answer to a connection that is gone
            return None, "", []
        if self.pg.status != pq.ConnStatus.OK:
            return None, result.error_message.decode(errors="replace"), []
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        if state is not None:
            return state.decode(), (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace"), []
        return "", "", [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]

    def must(self, query):
        state, message, rows = self.run(query.encode() if isinstance(query, str) else query)
        if state != "":
            raise RuntimeError(f"{state} {message}, in: {query}")
        return rows

    def close(self):
        self.pg.finish()


FUNCTIONS = b"""
SELECT p.oid, p.oid::regprocedure::text, p.prokind, n.nspname || '.' || quote_ident(p.proname), p.prorettype = ANY ('{trigger,event_trigger}'::regtype[]),
    array_to_string(array(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (t, i) ORDER BY i), '|')
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname IN ('fairq', 'fairq_internal') AND NOT 'internal'::regtype = ANY (p.proargtypes::oid[]) ORDER BY p.oid::regprocedure::text COLLATE "C"
"""

# Others wait for these, in the transaction that is open: what is not the reader's of catalogs and tables.
HELD = b"""
SELECT pg_current_xact_id_if_assigned(), (SELECT string_agg(DISTINCT concat(l.mode, ' on ', coalesce(l.relation::regclass::text, l.locktype)), ', ') FROM pg_locks l
    WHERE l.pid = pg_backend_pid() AND l.locktype <> 'virtualxid' AND l.mode <> 'AccessShareLock')
"""

FIGURES = """
SELECT 'task', t::text FROM fairq.q_others t UNION ALL SELECT 'task', t::text FROM fairq.q_durable t UNION ALL SELECT 'done', t::text FROM fairq.done_others t
UNION ALL SELECT 'lease', l::text FROM fairq.durable_lease l UNION ALL SELECT 'lease', l::text FROM fairq.leases l UNION ALL SELECT 'settings', q::text FROM fairq.queue q
UNION ALL SELECT 'group', s::text FROM fairq.group_setting s UNION ALL SELECT 'topic', t::text FROM fairq.topic t
UNION ALL SELECT 'dependency', d::text FROM fairq.dependency d UNION ALL SELECT 'key', k::text FROM fairq_internal.remembered_key k
UNION ALL SELECT 'schedule', s::text FROM fairq.schedule s UNION ALL SELECT 'node', n::text FROM fairq_internal.node n
UNION ALL SELECT 'figures', concat_ws(' ', queue, ready, leased, scheduled, overflow, held, dead, enqueued, claimed, acked, nacked, released, expired, cancelled, dead_total, swept, stats_reset) FROM fairq.queue_stats
ORDER BY 1, 2
"""
PROXY_FIGURES = "SELECT 'node', n::text FROM fairq.node n UNION ALL SELECT 'spread', s::text FROM fairq.spread s UNION ALL SELECT 'schedule', s::text FROM fairq.schedule_node s ORDER BY 1, 2"


class Town:
    """The databases, the owner's queues, and what is found wrong."""

    def __init__(self, server):
        self.socket = server.socket
        self.problems = {}
        self.crashed = set()        # functions that are not called again
        self.extra = {}             # by database: the owner's receipts and ids

    def connect(self, role, database):
        return Connection(self.socket, role, database)

    def note(self, name, problem):
        """One of a kind, for each function."""
        found = self.problems.setdefault(name, {})
        kind = problem.split(":")[0]
        found.setdefault(kind, problem)

    def build(self):
        admin = self.connect("postgres", "postgres")
        for role in ROLES + (OWNER,):
            admin.must(f"CREATE ROLE {role} LOGIN")
        for database, encoding in DATABASES.items():
            admin.must(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
            node = self.connect("postgres", database)
            node.must("CREATE EXTENSION pgfairq")
            node.must(f"GRANT CREATE ON SCHEMA fairq TO {OWNER}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fairq_internal TO every_granted")
            owner = self.connect(OWNER, database)
            for statement in THEIRS.split(";"):
                owner.must(statement)
            rows = owner.must("SELECT receipt, id FROM fairq.leases ORDER BY id")
            self.extra[database] = {"uuid": [f"'{rows[0][0].decode()}'"], "bigint": [rows[0][1].decode()]}
            owner.close()
            node.close()
        admin.must(f"CREATE DATABASE {PROXY} TEMPLATE template0")
        admin.close()
        proxy = self.connect("postgres", PROXY)
        proxy.must("CREATE EXTENSION pgfairq_cluster CASCADE")
        proxy.must(f"SELECT fairq.add_node(0, 'host={self.socket} dbname=every_node')")
        proxy.must("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fairq_internal TO every_granted")
        proxy.must("INSERT INTO fairq.schedule_node VALUES ('nightly', 0)")
        proxy.close()
        self.extra[PROXY] = self.extra["every_node"]

    def destroy(self):
        admin = self.connect("postgres", "postgres")
        for database in (PROXY, *DATABASES):
            admin.must(f"DROP DATABASE {database} WITH (FORCE)")
        for role in ROLES + (OWNER,):
            admin.must(f"DROP ROLE {role}")
        admin.close()

    def figures(self):
        """All that is the owner's, or the administrator's."""
        result = {}
        for database in (*DATABASES, PROXY):
            connection = self.connect("postgres", database)
            result[database] = [b" ".join(row) for row in connection.must(PROXY_FIGURES if database == PROXY else FIGURES)]
            connection.close()
        return result

    def functions(self, database):
        connection = self.connect("postgres", database)
        rows = connection.must(FUNCTIONS)
        connection.close()
        return [(signature.decode(), kind == b"p", name.decode(), trigger == b"t", [t for t in types.decode().split("|") if t])
                for _, signature, kind, name, trigger, types in rows]

    # --- calls ------------------------------------------------------------------

    def calls(self, types, database, chance):
        """Arguments of the calls of a function."""
        choices = [values_of(kind, self.extra[database]) for kind in types]
        right = [choice[0] for choice in choices]
        yield ["NULL" if kind == "cstring" else f"NULL::{kind}" for kind in types]
        yield right
        for number, choice in enumerate(choices):
            for value in choice[1:]:
                yield right[:number] + [value] + right[number + 1:]
        for _ in range(RANDOM_CALLS if types else 0):
            yield [chance.choice(choice) for choice in choices]

    def call(self, connection, signature, is_procedure, name, arguments, encoding):
        """One call, in a transaction that is open when it is looked at, and ends with the next call."""
        form = "CALL {}({})" if is_procedure else "SELECT * FROM {}({}) LIMIT 3"
        query = form.format(name, ", ".join(arguments)).encode().replace(b"BYTES", BYTES[encoding])
        state, message, rows = connection.run(b"COMMIT; BEGIN; SAVEPOINT s; " + query)
        shown = f"{query[:150].decode(errors='replace')}: {state} {message[:150]}"
        if state is None:
            self.crashed.add(signature)
            self.note(signature, f"the connection was lost: {shown}")
            connection.connect()
            return None, []
        if state.startswith("XX") and not message.startswith("PL/Proxy function fairq_internal.at_"):
            self.note(signature, f"internal error: {shown}")
        if state == "57014":
            self.note(signature, f"waited: {shown}")
        if b"every_granted" in connection.what:
            return state, rows          # it may do what takes locks
        xid, held = connection.must(b"ROLLBACK TO s; " + HELD if state else HELD)[0]
        if xid is not None:
            self.note(signature, f"took a transaction id: {shown}")
        if held is not None:
            self.note(signature, f"left locks: {held.decode()}, {shown}")
        return state, rows

    def call_all(self, database, role):
        """Every function. Returns how many calls were made."""
        chance = random.Random(f"{SEED} {database} {role}")
        encoding = DATABASES.get(database, "UTF8")
        connection = self.connect(role, database)
        made = 0
        for signature, is_procedure, name, _, types in self.functions(database):
            unknown = [kind for kind in types if (kind[:-2] if kind.endswith("[]") else kind) not in VALUES]
            if unknown:
                self.note(signature, f"no values: of type {unknown[0]} in every_function.py")
                continue
            calls = list(self.calls(types, database, chance))
            most = len(calls) if database == "every_node" else TWIN_CALLS if name.startswith("fairq_internal.at_") else SOME_CALLS
            for arguments in calls[:2] + chance.sample(calls[2:], max(min(len(calls), most) - 2, 0)):
                if signature in self.crashed:
                    break
                _, rows = self.call(connection, signature, is_procedure, name, arguments, encoding)
                made += 1
                # the one thing that is everybody's to make
                if name == "fairq.open_session" and rows:
                    connection.must(f"SELECT fairq.close_session('{rows[0][0].decode()}')")
        connection.run(b"COMMIT")
        connection.close()
        return made

    LOCK_ROWS = "; ".join(f"SELECT count(*) FROM (SELECT FROM {table} FOR UPDATE) t" for table in (
        "fairq.queue", "fairq.schedule", "fairq.group_setting", "fairq.topic", "fairq.dependency", "fairq_internal.remembered_key", "fairq.durable_lease"))
    LOCK_TABLES = "LOCK TABLE fairq.q_others, fairq.q_durable, fairq.done_others IN ACCESS EXCLUSIVE MODE"

    def call_locked(self, database, role, lock):
        """Every function, with what is right, while another has locks."""
        holder = self.connect("postgres", "every_node" if database == PROXY else database)
        holder.must("BEGIN; " + lock)
        encoding = DATABASES.get(database, "UTF8")
        connection = self.connect(role, database)
        for signature, is_procedure, name, _, types in self.functions(database):
            if signature in self.crashed:
                continue
            choices = [values_of(kind, self.extra[database]) for kind in types]
            given = [[text if kind == "text" else choice[0] for kind, choice in zip(types, choices)] for text in ("'others'::text", "'nightly'::text", "'k'::text")]
            given.append(["'others'::text" if kind == "text" and number == types.index("text") else choice[-1]
                          for number, (kind, choice) in enumerate(zip(types, choices))])
            for arguments in given:
                if "waited" in self.problems.get(signature, ()):
                    break
                self.call(connection, signature, is_procedure, name, arguments, encoding)
        connection.run(b"COMMIT")
        views = connection.must("SELECT c.oid::regclass::text FROM pg_class c WHERE relkind = 'v' AND relnamespace = 'fairq'::regnamespace ORDER BY 1")
        for (view,) in views:
            state, message, _ = connection.run(b"SELECT v::pg_catalog.text FROM " + view + b" v")
            if state != "":
                self.note(view.decode(), f"while others have locks: {state} {message}")
        connection.close()
        holder.close()

    # --- triggers ---------------------------------------------------------------

    TABLES = {
        "plain": "CREATE TEMP TABLE {} (id bigint, owner int8, owner_oid oid, queue int, unique_key int, task text, until text, address text, state text, number text)",
        "without_columns": "CREATE TEMP TABLE {} ()",
        "schedule": "CREATE TEMP TABLE {} (name text, queue text, owner text, owner_oid oid, active boolean, next_run timestamptz)",
        "parent": "CREATE TEMP TABLE {0} (owner int8, owner_oid oid) PARTITION BY LIST (owner); CREATE TEMP TABLE {0}_part PARTITION OF {0} DEFAULT",
        "view": "CREATE TEMP TABLE {0}_under (owner int8, owner_oid oid); CREATE TEMP VIEW {0} AS SELECT * FROM {0}_under",
    }

    @staticmethod
    def trigger_ways(kind):
        """All that CREATE TRIGGER may say of a table of a kind; what it refuses is passed over."""
        for when, each, event in itertools.product(("BEFORE", "AFTER", "INSTEAD OF"), ("ROW", "STATEMENT"), ("INSERT", "UPDATE", "DELETE", "TRUNCATE")):
            # those of a statement fire on a view only where others stand in for it
            if (when == "INSTEAD OF") != (kind == "view") or (kind == "view" and each == "STATEMENT"):
                continue
            yield f"CREATE TRIGGER t {when} {event} ON {{}} FOR EACH {each} EXECUTE FUNCTION {{}}()", event
        if kind != "view":
            for event in ("INSERT", "UPDATE", "DELETE"):
                yield f"CREATE CONSTRAINT TRIGGER t AFTER {event} ON {{}} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {{}}()", event

    FIRE = {"INSERT": "INSERT INTO {} SELECT FROM generate_series(1, 2)", "UPDATE": "UPDATE {0} SET {1} = {1}", "DELETE": "DELETE FROM {}", "TRUNCATE": "TRUNCATE {}"}
    FILL = {"plain": "INSERT INTO {} VALUES (1, 1094861636, 1, 1, 1, 'x', 'y', '(0,0,0,0)', 'r', 'n')", "without_columns": "INSERT INTO {} DEFAULT VALUES",
            "schedule": "INSERT INTO {} VALUES ('nightly', 'others', 'postgres', 10, true, now())", "parent": "INSERT INTO {} VALUES (1094861636, 1)",
            "view": "INSERT INTO {}_under VALUES (1094861636, 1)"}
    COLUMN = {"plain": "owner", "schedule": "owner", "parent": "owner", "view": "owner"}

    def fire(self, connection, function, kind, statement, event, may_fire):
        """One trigger, made and fired: refused when it is made, or when it fires."""
        table = f"every_{kind}"
        connection.run(b"BEGIN")
        connection.must(self.TABLES[kind].format(table))
        connection.must(self.FILL[kind].format(table))
        state, message, _ = connection.run(statement.format(table, function).encode())
        if state == "":
            query = self.FILL[kind].format(table) if event == "INSERT" and kind != "view" else self.FIRE[event].format(table, self.COLUMN.get(kind, "ctid"))
            state, message, _ = connection.run(query.encode())
            if state == "":
                state, message, _ = connection.run(b"SET CONSTRAINTS ALL IMMEDIATE")
            refused = state == "39P01"
            if state == "" and event in ("UPDATE", "INSERT") and kind == "without_columns":
                refused = may_fire      # nothing to update
            if not refused and not may_fire and state not in ("42809", "0A000", "42601", "42703"):
                self.note(function, f"fired on a table of another's: {statement.format(table, function)}: {state} {message}")
        elif state == "42501":
            refused = True
        if state is None:
            self.note(function, f"the connection was lost: {statement.format(table, function)}")
            connection.connect()
        elif state.startswith("XX"):
            self.note(function, f"internal error: {state} {message}, {statement.format(table, function)}")
        connection.run(b"ROLLBACK")
        return state

    def triggers(self, database, role):
        """Every trigger function, on tables of this role's. Returns how often one fired, or was refused."""
        connection = self.connect(role, database)
        tried = 0
        for _, _, name, is_trigger, _ in self.functions(database):
            if not is_trigger:
                continue
            for kind in self.TABLES:
                for statement, event in self.trigger_ways(kind):
                    self.fire(connection, name, kind, statement, event, name == "fairq_internal.row_written")
                    tried += 1
        connection.close()
        return tried


def run(server, report):
    """All of it; report(name, problems) for each part."""
    town = Town(server)
    town.build()

    def part(name, function):
        town.problems = {}
        before = town.figures()
        began = time.monotonic()
        made = function()
        for database, rows in town.figures().items():
            for row in set(rows) ^ set(before[database]):
                town.note(database, f"of the owner has changed: {'gone' if row in before[database] else 'new'}: {row[:300].decode(errors='replace')}")
        problems = [f"{what}: {problem}" for what, found in sorted(town.problems.items()) for problem in found.values()]
        print(f"# {name}: {made or ''} {time.monotonic() - began:.1f} s", flush=True)
        report(f"every function: {name}", problems)

    for database in (*DATABASES, PROXY):
        for role in ROLES if DATABASES.get(database, "UTF8") == "UTF8" else ROLES[:1]:
            part(f"{role} in {database}", lambda d=database, r=role: town.call_all(d, r))
    for database in ("every_node", PROXY):
        part(f"in {database}, while rows are locked", lambda d=database: town.call_locked(d, "every_nobody", town.LOCK_ROWS))
        part(f"in {database}, while queues' tables are locked", lambda d=database: town.call_locked(d, "every_nobody", town.LOCK_TABLES))
        for role in ROLES:
            part(f"triggers of {role} in {database}", lambda d=database, r=role: town.triggers(d, r))
    town.destroy()
