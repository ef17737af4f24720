"""The exporters and Prometheus of the suite, on free ports of localhost."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml
from part_server import wait_until

MONITORING = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(name):
    with open(os.path.join(MONITORING, name), encoding="utf-8") as file:
        return file.read()


def queries():
    """Name of each query: (SQL, labels, values), as queries.yaml has them."""
    there = {}
    for name, query in yaml.safe_load(read("queries.yaml")).items():
        columns = {column: about["usage"] for metric in query["metrics"] for column, about in metric.items()}
        there[name] = (query["query"],
                       [column for column, usage in columns.items() if usage == "LABEL"],
                       [column for column, usage in columns.items() if usage != "LABEL"])
    return there


def metrics():
    return {f"{name}_{value}" for name, (_, _, values) in queries().items() for value in values}


def alerts():
    return [rule for group in yaml.safe_load(read("alerts.yml"))["groups"] for rule in group["rules"]]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fetch(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def readme_command(program):
    """The command line of the README that starts a program: (environment, arguments)."""
    text = read("README.md").replace("\\\n", "")
    lines = re.findall(rf'^(?:\w+="[^"]*" +)*{program} .*$', text, re.M)
    assert len(lines) == 1, f"README.md has {len(lines)} commands that start {program}"
    words = shlex.split(lines[0])
    environment = dict(word.split("=", 1) for word in words[:words.index(program)])
    return environment, words[words.index(program):]


class Stack:
    def __init__(self, directory, database):
        self.directory, self.database = directory, database
        self.processes = []
        self.ports = {name: free_port() for name in ("postgres", "sql", "prometheus")}

    def start(self):
        self.start_postgres_exporter()
        self.start_sql_exporter()
        self.start_prometheus()

    def run(self, arguments, environment=None):
        name = os.path.basename(arguments[0])
        with open(os.path.join(self.directory, name + ".log"), "ab") as log:
            self.processes.append(subprocess.Popen(arguments, env={**os.environ, **(environment or {})},
                                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   cwd=os.path.dirname(MONITORING)))

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def start_postgres_exporter(self):
        environment, arguments = readme_command("prometheus-postgres-exporter")
        source = environment["DATA_SOURCE_NAME"]
        for old, new in (("/run/postgresql", os.environ["PGHOST"]), ("dbname=app", f"dbname={self.database}")):
            assert old in source
            source = source.replace(old, new)
        self.run([*arguments, f"--web.listen-address={self.address('postgres')}"], {"DATA_SOURCE_NAME": source})

    def start_sql_exporter(self):
        _, arguments = readme_command("prometheus-sql-exporter")
        text = read("sql_exporter.yml")
        for old, new in (("@localhost:5432/app?", f"@/{self.database}?host={os.environ['PGHOST']}&"),
                         ('interval: "30s"', 'interval: "1s"')):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path = self.write("sql_exporter.yml", text)
        self.run([word.replace("monitoring/sql_exporter.yml", path) for word in arguments] +
                 [f"-web.listen-address={self.address('sql')}"])

    def start_prometheus(self):
        text = read("prometheus.yml")
        for old, new in (("localhost:9187", self.address("postgres")), ("localhost:9237", self.address("sql")),
                         ('scrape_interval: "30s"', 'scrape_interval: "2s"'),
                         ("rule_files:", 'global: {evaluation_interval: "1s"}\nrule_files:'),
                         ("alerts.yml", os.path.join(MONITORING, "alerts.yml"))):
            assert old in text, old
            text = text.replace(old, new)
        self.run(["prometheus", "--config.file=" + self.write("prometheus.yml", text),
                  f"--storage.tsdb.path={self.directory}/prometheus",
                  f"--web.listen-address={self.address('prometheus')}"])

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def api(self, path, **parameters):
        url = f"http://{self.address('prometheus')}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            answer = json.loads(fetch(url))
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is about to start
                raise
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        """[(labels, value)]"""
        return [(series["metric"], float(series["value"][1]))
                for series in self.api("query", query=expression)["result"]]

    def value(self, expression):
        found = self.query(expression)
        assert len(found) == 1, f"{expression}: {found}"
        return found[0][1]

    def await_series(self, expression, condition=lambda found: found, patience=120):
        def there():
            try:
                found = self.query(expression)
            except (urllib.error.URLError, ConnectionError):
                return None
            return found if condition(found) else None
        return wait_until(there, f"series of {expression}", patience)
