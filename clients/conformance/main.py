"""The suite conformance: each library and each promise, and the table of doc/clients.md. Prints TAP.

    main.py

ONLY="P1 Python": what has all of these words in its name. PATIENCE: seconds that the adversary
waits for what comes within a moment on an idle machine. JOBS: scenarios at a time (two for
each processor); those that stop the server are run alone, after the others.
"""

import concurrent.futures
import itertools
import os
import sys
import threading
import time
import traceback

import adversary
from libraries import CLIENTS, LIBRARIES
from scenarios import SCENARIOS
from table import Table

JOBS = int(os.environ.get("JOBS", 2 * len(os.sched_getaffinity(0))))
ONLY = os.environ.get("ONLY", "").split()
LOG_LINES = 40


class Report:
    """Of threads, one test after the other."""

    def __init__(self):
        self.numbers, self.failed, self.lock = itertools.count(1), 0, threading.Lock()

    def test(self, name, why=""):
        with self.lock:
            self.failed += bool(why)
            print(f"{'not ok' if why else 'ok'} {next(self.numbers)} - {name}", flush=True)
            for line in why.splitlines():
                print("# " + line, flush=True)


def logs(stage):
    """The last words of all that took part."""
    for subject in stage.subjects:
        text = "\n".join(subject.read("err").splitlines()[-LOG_LINES:])
        yield f"--- {os.path.basename(subject.log)}, which {'lives' if subject.lives else f'ended with {subject.process.returncode}'}\n{text}"


def play(scenario, library, table, report):
    began, why, word = time.monotonic(), "", table.word(scenario, library)
    stage = adversary.Stage(library, word, table.is_exact(library))
    try:
        scenario.function(stage)
    except Exception as error:
        why = "\n".join([str(error) or repr(error), traceback.format_exc(), *logs(stage)])
    finally:
        stage.close()
    report.test(f"{scenario.name} {library.name}: {scenario.title} ({word}; {time.monotonic() - began:.1f} s)", why)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def wanted(scenario, library):
    return all(word in (scenario.name, library.name) for word in ONLY)


def main():
    report = Report()
    table = Table(read(os.path.join(CLIENTS, "../doc/clients.md")))
    faults = table.faults(SCENARIOS, LIBRARIES, read(os.path.join(CLIENTS, "conformance.md")))
    report.test("the table of doc/clients.md is that of the promises and libraries, and has their words", "\n".join(faults))
    parts = [(scenario, library) for library in LIBRARIES for scenario in SCENARIOS.values() if wanted(scenario, library)]
    for library in LIBRARIES:
        if any(library is one for _, one in parts):
            library.make()
    adversary.make_template()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for one in [pool.submit(play, *part, table, report) for part in parts if not part[0].alone]:
            one.result()
    for part in parts:
        if part[0].alone:
            play(*part, table, report)
    print(f"1..{next(report.numbers) - 1}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
