"""The libraries, each with its subject: how it is started, and what has to be made first."""

import os
import subprocess

CLIENTS = os.path.join(os.environ["FAIRQ_CHECKOUT"], "clients")
PYTHON = os.environ.get("FAIRQ_PYTHON", "python3")
GO_PROGRAM = os.path.join(os.environ.get("TMPDIR", "/tmp"), "conformance-go")


class Library:
    def __init__(self, name, command, build=None, **environment):
        """name: the column in doc/clients.md. build: a command of the shell, in the directory of the libraries."""
        self.name, self.command, self.build, self.environment = name, command, build, environment

    def make(self):
        if self.build:
            subprocess.run(["bash", "-euo", "pipefail", "-c", self.build], cwd=CLIENTS, check=True, stdin=subprocess.DEVNULL)


def python(name, program):
    return Library(name, [PYTHON, f"{CLIENTS}/python/test/conformance/{program}"], PYTHONPATH=f"{CLIENTS}/python",
                   PYTHONDONTWRITEBYTECODE="1")


LIBRARIES = [
    python("Python", "threads.py"),
    python("asyncio", "asynchronous.py"),
    python("Celery", "celery_app.py"),
    Library("Node", ["node", f"{CLIENTS}/node/test/conformance/subject.js"], build=". node/test/build.sh"),
    Library("Ruby", ["ruby", "-W1", f"-I{CLIENTS}/ruby/lib", f"{CLIENTS}/ruby/test/conformance/subject.rb"]),
    Library("Go", [GO_PROGRAM], build=f"go/test/conformance/build.sh {GO_PROGRAM}"),
]
