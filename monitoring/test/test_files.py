"""What can be said of the files of monitoring/ without a server.

Seen to fail: another query in one of the two exporters' files; an alert with a
runbook that is not there, or without a unit test; a metric that no
query gives; two panels on one place; a threshold in alerts.yml changed without the
unit tests; a runbook of no alert; a quantile of all time, of a metric or of buckets
without rate().
"""

import json
import os
import re
import subprocess

import yaml
from stack import MONITORING, alerts, metrics, queries, read

CHECKOUT = os.path.dirname(MONITORING)
EXPORTERS_OWN = {"pg_exporter_last_scrape_error", "sql_exporter_last_scrape_failed"}


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=MONITORING, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def dashboard():
    return json.loads(read("grafana.json"))


def headings(page):
    with open(os.path.join(CHECKOUT, page), encoding="utf-8") as file:
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                for heading in re.findall(r"^#+ (.*)$", file.read(), re.M)}


def test_both_exporters_run_the_same_queries():
    other = {query["name"]: (query["query"], query.get("labels", []), query["values"])
             for job in yaml.safe_load(read("sql_exporter.yml"))["jobs"] for query in job["queries"]}
    # sql_exporter names the database by itself, from the connection
    assert other == {name: (sql, labels[1:], values) for name, (sql, labels, values) in queries().items()}
    assert {labels[0] for _, labels, _ in queries().values()} == {"database"}


def test_prometheus_takes_rules_and_configuration():
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")


def test_unit_tests_of_the_alerts():
    promtool("test", "rules", "test/alerts_test.yml")


def test_each_alert_has_a_unit_test_that_fires_and_one_that_does_not():
    fires, silent = set(), set()
    for test in yaml.safe_load(read("test/alerts_test.yml"))["tests"]:
        for expected in test["alert_rule_test"]:
            (fires if expected["exp_alerts"] else silent).add(expected["alertname"])
    names = {alert["alert"] for alert in alerts()}
    assert (fires, silent) == (names, names)


def test_each_alert_says_what_to_do():
    for alert in alerts():
        name, notes = alert["alert"], alert["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}, name
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), name
        page, _, heading = notes["runbook_url"].partition("#")
        assert heading == name.lower() and heading in headings(page), notes["runbook_url"]


def test_no_runbook_without_an_alert():
    there = {heading for heading in headings("doc/monitoring.md") if heading.startswith("fairq")}
    assert there == {alert["alert"].lower() for alert in alerts()}


def test_alerts_and_dashboard_name_metrics_that_there_are():
    text = read("alerts.yml") + read("grafana.json")
    named = set(re.findall(r"\b(?:fairq|pg_exporter|sql_exporter)_\w+", text)) - {"fairq_monitor"}
    assert named <= metrics() | EXPORTERS_OWN, named - metrics() - EXPORTERS_OWN


def test_quantiles_are_of_five_minutes():
    assert not [metric for metric in metrics() if re.search(r"_p\d+_seconds$", metric)]
    text = re.sub(r"\{[^{}]*\}", "", read("alerts.yml") + read("grafana.json"))
    named = re.findall(r"(\S*?)(fairq_\w+_bucket)(\S*)", text)
    assert {metric for _, metric, _ in named} == {f"{name}_bucket" for name in queries() if name.endswith("_seconds")}
    for before, metric, after in named:
        assert before.endswith("rate(") and after.startswith("[5m])"), metric


def test_dashboard_is_of_a_form_that_grafana_9_to_11_take():
    board = dashboard()
    assert 36 <= board["schemaVersion"] <= 39 and board["uid"] and "id" not in board
    variables = {variable["name"]: variable["type"] for variable in board["templating"]["list"]}
    assert variables == {"datasource": "datasource", "database": "query", "queue": "query"}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        here = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])}
        assert max(x for x, _ in here) < 24 and not here & cells, panel["title"]
        cells |= here
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("timeseries", "stat", "bargauge", "table"), panel["title"]
        assert panel["title"] and panel["description"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs), panel["title"]
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]


def test_no_column_is_an_interval():
    for name, (_, _, values) in queries().items():
        for value in values:
            assert not re.search(r"(age|_for|_time|duration|_wait)$", value), f"{name}: {value} does not say its unit"
