"""README.md as it is read: the module, lib/pq of Debian, and the programs, which are compiled and
run as they are printed; and the worker of doc/clients.md, which is compiled. Prints TAP.

    page.py DIRECTORY       that of the README

Seen to fail: with a name that the library does not have; with another path in go.mod.
"""
import os
import re
import signal
import subprocess
import sys
import traceback

sys.path.insert(0, os.path.join(os.environ["FAIRQ_CHECKOUT"], "test", "scripts"))

import psycopg  # noqa: E402
from part_server import new_database, wait_until  # noqa: E402

CHECKOUT = "/src/pgfairq"       # as pages have it
CHECKOUT_HERE = os.environ["FAIRQ_CHECKOUT"]
BLOCK = re.compile(r"<!-- test: (.+?) -->\n```(\w+)\n(.*?)```", re.S)
FRAGMENT = re.compile(r"^## Go\n.*?```go\n(.*?)```", re.S | re.M)
HEAD = """package main

import (
	"context"
	"database/sql"

	"pgfairq"
)

"""
ONLINE = "go get "      # what asks the module mirror, which Debian's package stands for here


def main(here):
    with open(f"{here}/README.md", encoding="utf-8") as page:
        blocks = {name: (language, text) for name, language, text in BLOCK.findall(page.read())}
    app = os.path.join(os.environ["TMPDIR"], "app")
    os.makedirs(app)
    environment = dict(os.environ, GO111MODULE="on", GOFLAGS="-mod=mod", GOPROXY="off",
                       GOPATH=os.path.join(os.environ["TMPDIR"], "modules"))

    def shell(command):
        subprocess.run(["bash", "-eu", "-c", command], check=True, cwd=app, env=environment)

    hooks = blocks.pop("the module of the hooks")[1]
    files = 0
    for name, (language, text) in blocks.items():
        if language == "go":
            os.makedirs(os.path.dirname(f"{app}/{name}"), exist_ok=True)
            with open(f"{app}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            files += 1
        else:
            lines = [line for line in text.splitlines() if not line.startswith(ONLINE)]
            shell("\n".join(lines).replace(CHECKOUT, CHECKOUT_HERE))
    assert files == 3, files
    os.makedirs(f"{app}/fragment")
    with open(f"{CHECKOUT_HERE}/doc/clients.md", encoding="utf-8") as page, \
            open(f"{app}/fragment/main.go", "w", encoding="utf-8") as file:
        file.write(f"{HEAD}{FRAGMENT.search(page.read())[1]}\nfunc main() {{ _ = work }}\n")
    shell("test -z \"$(gofmt -l .)\" && go vet ./... && go build -o bin/ ./worker ./produce")
    # the hooks are there; what they need is not in a module cache here
    shell(hooks.replace(CHECKOUT, CHECKOUT_HERE))
    with open(f"{app}/go.mod", encoding="utf-8") as file:
        assert os.path.isfile(re.search(r"pgfairq/otelfairq => (\S+)", file.read())[1] + "/go.mod")

    conninfo = new_database("CREATE TABLE orders (shop int); CREATE TABLE sent (task bigint, address text)")
    database = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    environment["PGDATABASE"] = database
    produce = subprocess.Popen([f"{app}/bin/produce"], env=environment, stdout=subprocess.PIPE, text=True)

    def there(query):
        with psycopg.connect(conninfo, autocommit=True) as connection:
            return connection.execute(query).fetchone() is not None

    wait_until(lambda: there("SELECT FROM fairq.queues WHERE queue = 'emails'"), "the queue is there")
    worker = subprocess.Popen([f"{app}/bin/worker"], env=environment)
    try:
        assert produce.communicate(timeout=120)[0] == "sent to ann@example.com\n"
        assert there("SELECT FROM sent WHERE address = 'ann@example.com'")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    finally:
        produce.kill()
        worker.kill()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
        print("ok 1 - README.md: its programs are compiled and run")
    except Exception:
        print("not ok 1 - README.md: its programs are compiled and run")
        print("# " + traceback.format_exc().replace("\n", "\n# "))
        sys.exit(1)
