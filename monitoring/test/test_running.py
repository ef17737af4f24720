"""Both exporters and Prometheus, at a server with known tasks: is each figure there,
and right?

Seen to fail: without the ids of keys that are cut off (two that begin alike make the
whole scrape an error); without LIMIT 200; without coalesce() for null (sql_exporter
leaves the metric out); an interval in place of its seconds; with leases that are
overdue after a thousand seconds, not ten; without pg_monitor for the role; without the
rules that rename the metrics of sql_exporter; with the tasks of further names left out;
with max_groups and max_limits without subgroups; without the bounds of these.
"""

import json
import math
import os
import re
import signal
import subprocess

import psycopg
import pytest
from part_server import conninfo, new_database, pg_ctl, wait_until
from stack import Stack, alerts, fetch, metrics, queries, read

LONG = "x" * 60
HOSTILE = ['quote"', "back\\slash", "new\nline", "<b>bold</b>", "{{ $labels }}", "%s%n", "Ümlaut ☃", "'; DROP TABLE x --",
           LONG + "1", LONG + "2", "ß" * 40, ""]
WORDS = {"$database": ".*", "$queue": ".*", "$__rate_interval": "1m"}
NUMBERS = {20: "bigint", 21: "smallint", 23: "integer", 701: "double precision"}


def as_monitor(database):
    return psycopg.connect(f"host={os.environ['PGHOST']} user=fairq_monitor dbname={database}", autocommit=True)


def enqueue(connection, queue, group, number=1):
    connection.execute("SELECT fairq.enqueue(%s, '{}', group_key => %s) FROM generate_series(1, %s)", (queue, group, number))


def fill(connection):
    run = connection.execute
    run("SELECT fairq.create_queue('emails', max_depth => 1000, lease => '10 min')")
    run("SELECT fairq.create_queue('batch', max_attempts => 1, backoff_base => '0')")
    run("""SELECT fairq.create_queue(E'odd "queue"\n{}\\\\')""")
    run("SELECT fairq.create_queue('limited')")
    run("SELECT fairq.set_group_defaults('limited', max_leased => 1)")
    run("SELECT fairq.set_group('limited', 'vip', weight => 5)")
    run("SELECT fairq.pause_group('emails', 'paused')")
    run("SELECT fairq.enqueue('emails', '{}', 'ann', name => 'send')")
    enqueue(connection, "emails", "ann", 59)
    enqueue(connection, "emails", "bob", 40)
    enqueue(connection, "emails", "paused", 7)
    run("SELECT fairq.enqueue('limited', '{}', 'bob', name => 'hang', max_lost => 1)")
    run("SELECT count(*) FROM fairq.claim('limited', 1, lease => '1 ms')")
    wait_until(lambda: run("SELECT dead FROM fairq.name_stats WHERE name = 'hang'").fetchone() == (1,), "a task that was lost")
    enqueue(connection, "limited", "vip", 3)
    run("SELECT fairq.enqueue('batch', '{}', 'ann', name => 'bill') FROM generate_series(1, 2)")
    enqueue(connection, "batch", "ann", 10)
    for group in HOSTILE:
        enqueue(connection, 'odd "queue"\n{}\\', group)
    run("SELECT fairq.enqueue('emails', '{}', delay => '1 h')")
    run("SELECT fairq.ack(receipt) FROM fairq.claim('emails', 10)")
    run("SELECT fairq.nack(receipt, 'no') FROM fairq.claim('batch', 2)")
    run("SELECT count(*) FROM fairq.claim('emails', 5)")
    run("SELECT fairq.open_session('worker', ttl => '1 h')")
    run("SELECT fairq.create_queue('shared', subgroups => true)")
    run("SELECT fairq.set_subgroup('shared', 'acme', 'ann', weight => 3), fairq.pause_subgroup('shared', 'acme', 'bob')")
    run("SELECT fairq.set_subgroup('shared', 'acme', 'dora', max_leased => 2)")
    for subgroup, number in (("ann", 5), ("bob", 4), (None, 2), *((text, 1) for text in HOSTILE if text)):
        run("SELECT fairq.enqueue('shared', '{}', 'acme', subgroup_key => %s) FROM generate_series(1, %s)", (subgroup, number))
    run("SELECT fairq.enqueue('shared', '{}', 'zeta', subgroup_key => 'ann') FROM generate_series(1, 4)")
    run("SELECT count(*) FROM fairq.claim('shared', 2)")
    run("SELECT fairq.schedule('nightly <b>', 'batch', '@daily', '{}')")


@pytest.fixture(scope="module")
def database():
    with psycopg.connect(conninfo("postgres"), autocommit=True) as connection:
        connection.execute(read("role.sql"))
    name = re.search(r"dbname=(\S+)", new_database())[1]
    with psycopg.connect(conninfo(name), autocommit=True) as connection:
        fill(connection)
    return name


@pytest.fixture(scope="module")
def stack(database):
    running = Stack(os.environ["TMPDIR"], database)
    running.start()
    try:
        for job in ("pgfairq", "pgfairq-sql"):
            running.await_series(f'fairq_setting_used{{job="{job}"}}')
        # rates take two of them
        running.await_series("count_over_time(fairq_queue_claimed_total[1m]) > 2")
        yield running
    finally:
        running.stop()


def numbers(stack, database, expression):
    """Whether the expression comes to have a number, while tasks are worked on: quantiles and
    parts of the last minutes are NaN without any."""
    with psycopg.connect(conninfo(database), autocommit=True) as connection:
        def there(found):
            connection.execute("SELECT fairq.enqueue('batch', '{}', 'ann', name => 'report')")
            connection.execute("SELECT fairq.ack(receipt) FROM fairq.claim('batch', 20)")
            return any(not math.isnan(value) for _, value in found)
        return stack.await_series(expression, there)


def compared(expression):
    """The parts of an alert's expression between its comparisons, without thresholds."""
    parts = re.split(r"\s+(?:and on \([^)]*\)|or|[<>]=?|==)\s+", " ".join(expression.split()))
    parts = [re.sub(r"^absent\((.*)\)$", r"\1", part) for part in parts]
    return [part for part in parts if not re.fullmatch(r"[\d.]+", part)]


def dashboard_targets():
    for panel in json.loads(read("grafana.json"))["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for word, value in WORDS.items():
                expression = expression.replace(word, value)
            yield panel["title"], expression


# --- the role and the queries ---

def test_role_has_pg_monitor_and_nothing_else(database):
    with as_monitor(database) as connection:
        roles = connection.execute("SELECT rolname FROM pg_roles WHERE pg_has_role(oid, 'member') AND rolname !~ '^pg_(read|stat)'")
        assert {name for name, in roles} == {"fairq_monitor", "pg_monitor"}
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5s",)
        assert connection.execute("SELECT count(*) FROM fairq.dead_tasks").fetchone() == (0,), "payloads"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT payload FROM fairq.q_emails")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TEMP TABLE x ()")
            connection.execute("SELECT fairq.purge('emails')")


def test_values_are_numbers_and_labels_are_text(database):
    with as_monitor(database) as connection:
        for name, (sql, labels, values) in queries().items():
            cursor = connection.execute(sql)
            types = {column.name: column.type_code for column in cursor.description}
            assert set(types) == {*labels, *values}, name
            assert {types[label] for label in labels} == {25}, name
            for value in values:
                assert types[value] in NUMBERS, f"{name}.{value} is of type {types[value]}"
            rows = cursor.fetchall()
            assert rows and not any(None in row for row in rows), f"{name}: {rows}"


# --- what Prometheus has ---

def test_both_exporters_give_every_metric(stack):
    for job in ("pgfairq", "pgfairq-sql"):
        assert set(stack.api("label/__name__/values", **{"match[]": f'{{job="{job}",__name__=~"fairq_.*"}}'})) == metrics()


def test_both_exporters_give_the_same_series(stack):
    def series(job):
        there = stack.query(f'{{job="{job}",__name__=~"fairq_.*"}}')
        return {tuple(sorted((k, v) for k, v in labels.items() if k not in ("job", "instance", "server"))) for labels, _ in there}
    wait_until(lambda: series("pgfairq") == series("pgfairq-sql"), "the same series")


def test_figures_are_those_of_the_views(stack):
    job = 'job="pgfairq"'
    for expression, value in (
            (f'fairq_queue_leased{{{job},queue="emails"}}', 5), (f'fairq_queue_scheduled{{{job},queue="emails"}}', 1),
            (f'fairq_queue_ready{{{job},queue="emails"}}', 107 - 15), (f'fairq_queue_depth{{{job},queue="emails"}}', 98),
            (f'fairq_queue_max_depth{{{job},queue="emails"}}', 1000), (f'fairq_queue_lease_seconds{{{job},queue="emails"}}', 600),
            (f'fairq_queue_acked_total{{{job},queue="emails"}}', 10), (f'fairq_queue_dead{{{job},queue="batch"}}', 2),
            (f'fairq_queue_dead_total{{{job},queue="batch"}}', 2), (f'fairq_group_ready{{{job},queue="emails",group="paused"}}', 7),
            (f'fairq_group_paused{{{job},queue="emails",group="paused"}}', 1), (f'fairq_group_weight{{{job},group="vip"}}', 5),
            (f'fairq_group_max_leased{{{job},group="vip"}}', 1), (f'fairq_worker_running{{{job}}}', 1),
            (f'fairq_worker_expected{{{job}}}', 1), (f'fairq_launcher_running{{{job}}}', 1), (f'fairq_sessions{{{job}}}', 1),
            (f'fairq_setting_used{{{job},setting="max_queues"}}', 5), (f'fairq_setting_size{{{job},setting="max_queues"}}', 256),
            (f'fairq_setting_used_percent{{{job},setting="max_queues"}}', 100 * 5 / 256),
            (f'fairq_schedule_failures{{{job},schedule="nightly <b>"}}', 0), (f'fairq_setting_used{{{job},setting="max_names"}}', 3),
            (f'fairq_name_enqueued_total{{{job},name="send"}}', 1), (f'fairq_name_done_total{{{job},name="send"}}', 1),
            (f'fairq_name_run_seconds_count{{{job},name="send"}}', 1), (f'fairq_name_failed_total{{{job},name="bill"}}', 2),
            (f'fairq_name_dead_total{{{job},name="bill"}}', 2), (f'fairq_name_lost_total{{{job},name="hang"}}', 1),
            (f'fairq_name_dead_total{{{job},name="hang"}}', 1), (f'fairq_name_failed_total{{{job},name="hang"}}', 0),
            (f'count({{{job},name="send"}})', 49),
            (f'fairq_subgroups_with_work{{{job},queue="shared"}}', 3 + len(HOSTILE)),
            (f'sum(fairq_subgroup_overflow{{{job},group="acme",subgroup="ann"}} + fairq_subgroup_leased{{{job},group="acme",subgroup="ann"}})', 5),
            (f'fairq_subgroup_weight{{{job},group="acme",subgroup="ann"}}', 3), (f'fairq_subgroup_paused{{{job},subgroup="bob"}}', 1),
            (f'fairq_subgroup_overflow{{{job},subgroup="bob"}}', 4), (f'sum(fairq_subgroup_leased{{{job}}})', 2),
            (f'fairq_subgroup_share{{{job},group="zeta"}}', 1), (f'fairq_subgroup_expected_share{{{job},group="zeta"}}', 1),
            (f'fairq_group_overflow{{{job},queue="shared",group="zeta"}}', 3),
            (f'fairq_queue_overflow{{{job},queue="shared"}}', 13 + len(HOSTILE) - 1)):
        assert stack.value(expression) == value, expression
    buckets = stack.query(f'fairq_queue_wait_seconds_bucket{{{job},queue="emails"}}')
    assert len(buckets) == 20 and {value for labels, value in buckets if labels["le"] == "+Inf"} == {15}
    assert stack.value(f'fairq_queue_wait_seconds_count{{{job},queue="emails"}}') == 15
    assert stack.value(f'fairq_queue_run_seconds_count{{{job},queue="emails"}}') == 10
    assert 0 < stack.value(f'fairq_queue_wait_seconds_sum{{{job},queue="emails"}}') < 600, "seconds"
    waits = stack.value(f'fairq_queue_oldest_ready_seconds{{{job},queue="emails"}}')
    assert 0 < waits < 600, "seconds"


def test_each_alert_expression_returns_a_series(stack, database):
    for alert in alerts():
        parts = compared(alert["expr"])
        assert parts, alert["alert"]
        for part in parts:
            assert numbers(stack, database, part), f"{alert['alert']}: {part}"


def test_each_alert_rule_is_evaluated_without_an_error(stack):
    def evaluated():
        rules = [rule for group in stack.api("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None
    rules = wait_until(evaluated, "all rules evaluated")
    assert {rule["name"] for rule in rules} == {alert["alert"] for alert in alerts()}
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"} == {}


def test_each_dashboard_expression_returns_a_series(stack, database):
    for title, expression in dashboard_targets():
        assert numbers(stack, database, expression), f"{title}: {expression}"


def test_dashboard_variables_have_values(stack, database):
    variables = {v["name"]: v["query"] for v in json.loads(read("grafana.json"))["templating"]["list"] if v["type"] == "query"}
    found = {}
    for name, query in variables.items():
        match, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query["query"]).groups()
        found[name] = stack.api(f"label/{label}/values", **{"match[]": match.replace("$database", ".*")})
    assert found["database"] == [database]
    assert set(found["queue"]) == {"emails", "batch", "limited", 'odd "queue"\n{}\\', "shared"}


# --- names ---

def test_names_are_bounded():
    """In a database that no exporter reads, with more names than there is room for."""
    database = re.search(r"dbname=(\S+)", new_database())[1]
    with psycopg.connect(conninfo(database), autocommit=True) as connection, as_monitor(database) as monitor:
        most = int(connection.execute("SHOW pgfairq.max_names").fetchone()[0])
        connection.execute("SELECT fairq.create_queue('many')")
        connection.execute("""SELECT fairq.enqueue_many('many', array_agg('1'::jsonb), names => array_agg('name ' || n))
            FROM generate_series(1, %s) n""", (most + 100,))
        tasks = {row[2]: row[3] for row in monitor.execute(queries()["fairq_name"][0])}
        waits = monitor.execute(queries()["fairq_name_wait_seconds"][0]).fetchall()
        used, = monitor.execute(f"SELECT used FROM ({queries()['fairq_setting'][0]}) q WHERE setting = 'max_names'").fetchone()
        connection.execute("SELECT fairq.drop_queue('many')")
    assert used == len(tasks) - 1 <= most, used
    assert sum(tasks.values()) == most + 100 and tasks[""] >= 100, "further names are counted together"
    assert len(waits) == 20 * len(tasks)


# --- tenants ---

def test_what_tenants_wrote_reaches_the_labels_as_it_is(stack):
    for job in ("pgfairq", "pgfairq-sql"):
        found = stack.query(f'fairq_group_ready{{job="{job}",queue!~"emails|batch|limited|shared"}}')
        groups = {labels.get("group", ""): value for labels, value in found}
        for group in HOSTILE:
            if len(group.encode()) <= 48:
                assert groups.get(group) == 1, (group, groups)
        cut = [group for group in groups if group.startswith("xxx")]
        assert [groups[group] for group in cut] == [1, 1], "two keys that begin alike are two series"
        assert stack.value(f'up{{job="{job}"}}') == 1


def test_tenants_are_bounded(database):
    sql = queries()["fairq_group"][0]
    with psycopg.connect(conninfo(database), autocommit=True) as connection, as_monitor(database) as monitor:
        for queue in range(12):
            connection.execute("SELECT fairq.create_queue(%s)", (f"crowd {queue:02}",))
            connection.execute("SELECT fairq.enqueue(%s, '{}', group_key => 'tenant ' || n) FROM generate_series(1, 60) n",
                               (f"crowd {queue:02}",))
        enqueue(connection, "crowd 00", "large", 5)
        rows = monitor.execute(sql).fetchall()
        crowd = [row for row in rows if row[1] == "crowd 00"]
        assert len(rows) <= 200, len(rows)
        assert len(crowd) <= 20 and {"tenant 1", "large"} <= {row[2] for row in crowd}, crowd
        for queue in range(12):
            connection.execute("SELECT fairq.drop_queue(%s)", (f"crowd {queue:02}",))


def test_subgroups_are_bounded(database):
    sql = queries()["fairq_subgroup"][0]
    with psycopg.connect(conninfo(database), autocommit=True) as connection, as_monitor(database) as monitor:
        for queue in range(12):
            connection.execute("SELECT fairq.create_queue(%s, subgroups => true)", (f"divided {queue:02}",))
            connection.execute("""SELECT fairq.enqueue(%s, '{}', group_key => 'tenant ' || n %% 5, subgroup_key => 'user ' || n)
                FROM generate_series(1, 60) n""", (f"divided {queue:02}",))
        connection.execute("SELECT fairq.enqueue('divided 00', '{}', 'tenant 1', subgroup_key => %s || n) FROM generate_series(1, 3) n, generate_series(1, 2)", (LONG,))
        rows = monitor.execute(sql).fetchall()
        divided = {row[2:5]: row for row in rows if row[1] == "divided 00"}
        counts = dict(row[1:3] for row in monitor.execute(queries()["fairq_subgroups"][0]))
        for queue in range(12):
            connection.execute("SELECT fairq.drop_queue(%s)", (f"divided {queue:02}",))
    assert len(rows) <= 100, len(rows)
    assert len(divided) <= 10 and counts["divided 00"] == 63 and counts["divided 11"] == 60, (divided, counts)
    alike = [row for (_, subgroup, _), row in divided.items() if subgroup.startswith(LONG[:48])]
    assert len({row[3] for row in alike}) == 3, "keys that begin alike are told apart by their ids"
    assert all(row[4] == 2 and abs(row[-1] - 1 / 15) < 1e-9 for row in alike), alike


def test_subgroups_count_for_the_settings_they_use():
    """In a database that no exporter reads."""
    database = re.search(r"dbname=(\S+)", new_database())[1]
    with psycopg.connect(conninfo(database), autocommit=True) as connection, as_monitor(database) as monitor:
        def used():
            found = dict(row[1:3] for row in monitor.execute(queries()["fairq_setting"][0]))
            return found["max_groups"], found["max_limits"]
        connection.execute("SELECT fairq.create_queue('divided', subgroups => true)")
        connection.execute("""SELECT fairq.enqueue('divided', '{}', group_key => 'tenant ' || n % 2, subgroup_key => 'user ' || n)
            FROM generate_series(1, 6) n""")
        assert used() == (2 + 6, 0)
        connection.execute("SELECT fairq.set_group('divided', 'tenant 0', weight => 2), fairq.set_subgroup('divided', 'a', 'b', weight => 2)")
        assert used() == (2 + 6, 2)
        connection.execute("SELECT fairq.set_subgroup_defaults('divided', max_leased => 3)")
        assert used() == (2 + 6, 2 + 6)


def test_large_backlog_is_read_within_the_timeout(database):
    """30,000 tenants with work, and 30,000 subgroups; the role's statement_timeout ends what takes longer."""
    with psycopg.connect(conninfo(database), autocommit=True) as connection, as_monitor(database) as monitor:
        connection.execute("SELECT fairq.create_queue('large')")
        connection.execute("""SELECT fairq.enqueue_many('large', array_agg(to_jsonb(n)), array_agg('tenant ' || n))
            FROM generate_series(1, 30000) n""")
        connection.execute("SELECT fairq.create_queue('large, divided', subgroups => true)")
        connection.execute("""SELECT fairq.enqueue_many('large, divided', array_agg(to_jsonb(n)), array_agg('tenant ' || n % 100),
            subgroup_keys => array_agg('user ' || n)) FROM generate_series(1, 30000) n""")
        for name, (sql, _, _) in queries().items():
            assert len(monitor.execute(sql).fetchall()) <= 300, name
        connection.execute("SELECT fairq.drop_queue('large'), fairq.drop_queue('large, divided')")


# --- faults ---

def test_worker_that_hangs_is_seen(database):
    with psycopg.connect(conninfo(database), autocommit=True) as connection, as_monitor(database) as monitor:
        def overdue():
            row = monitor.execute(f"SELECT overdue, overdue_seconds FROM ({queries()['fairq_lease'][0]}) q WHERE queue = 'limited'")
            return row.fetchone()
        assert overdue() == (0, 0)
        worker, = connection.execute("""SELECT pid FROM pg_stat_activity
            WHERE backend_type = 'pgfairq worker' AND datname = current_database()""").fetchone()
        os.kill(worker, signal.SIGSTOP)
        try:
            connection.execute("SELECT count(*) FROM fairq.claim('limited', 1, lease => '1 s')")
            number, seconds = wait_until(lambda: overdue() if overdue()[0] else None, "a lease that is overdue")
            assert number == 1 and seconds >= 10
        finally:
            os.kill(worker, signal.SIGCONT)
        wait_until(lambda: overdue() == (0, 0), "the lease is put back")


def test_queries_work_on_a_standby(database):
    standby = os.path.join(os.environ["TMPDIR"], "standby")
    subprocess.run(["pg_basebackup", "-D", standby, "-R", "-c", "fast", "-X", "stream", "--no-sync"], check=True)
    socket = os.path.join(os.environ["TMPDIR"], "s")
    os.mkdir(socket)
    with open(os.path.join(standby, "postgresql.conf"), "a", encoding="ascii") as file:
        file.write(f"unix_socket_directories = '{socket}'\nhot_standby = on\n")
    start = ["pg_ctl", "-D", standby, "-l", standby + ".log", "-w", "-t", "120", "-s"]
    subprocess.run([*start, "start"], check=True, stdin=subprocess.DEVNULL)
    try:
        with psycopg.connect(f"host={socket} user=fairq_monitor dbname={database}", autocommit=True) as monitor:
            for name, (sql, _, values) in queries().items():
                rows = monitor.execute(sql).fetchall()
                assert not any(None in row for row in rows), f"{name}: {rows}"
                if name == "fairq":
                    row = dict(zip(("database", *values), rows[0]))
                    assert (row["in_recovery"], row["worker_expected"]) == (1, 0), row
    finally:
        subprocess.run([*start, "-m", "fast", "stop"], check=True)


def test_exporters_go_on_after_a_restart_of_the_server(stack):
    """The last test: figures begin at 0 again. Both notice that the server is away."""
    pg_ctl("stop", "-m", "fast")
    try:
        stack.await_series('pg_up{job="pgfairq"} == 0')
        stack.await_series('sql_exporter_last_scrape_failed{job="pgfairq-sql"} == 1')
    finally:
        pg_ctl("start")
    for job in ("pgfairq", "pgfairq-sql"):
        stack.await_series(f'fairq_queue_ready{{job="{job}",queue="emails"}}')
    stack.await_series('sql_exporter_last_scrape_failed{job="pgfairq-sql"}', lambda found: found and not any(v for _, v in found))
    assert fetch(f"http://{stack.address('postgres')}/metrics").count("\nfairq_queue_ready{") >= 4
