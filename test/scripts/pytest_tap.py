"""A plugin of pytest that prints what make check counts: TAP.

    PYTHONPATH=test/scripts pytest -p pytest_tap -p no:cacheprovider DIRECTORY

A test that pytest skips is a failure here: what a suite needs is installed by
its needs.sh, so nothing is there to be skipped.
"""

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    standard = config.pluginmanager.getplugin("terminalreporter")
    writer = config.get_terminal_writer()
    if standard is not None:
        config.pluginmanager.unregister(standard)
    config.pluginmanager.register(Reporter(writer), "terminalreporter")


class Reporter:
    def __init__(self, writer):
        self.number = 0
        self._tw = writer   # pytest 8 asks the reporter for it when an assert that compares fails

    def line(self, passed, name, text=""):
        self.number += 1
        print(f"{'ok' if passed else 'not ok'} {self.number} - {name.replace('#', '')}", flush=True)
        for line in "" if passed else text.splitlines():
            print("# " + line, flush=True)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.line(True, f"{report.nodeid} ({report.duration:.1f} s)")
        elif not report.passed:
            self.line(False, report.nodeid, report.longreprtext + "".join(f"\n{title}\n{text}" for title, text in report.sections))

    def pytest_collectreport(self, report):
        if report.failed:
            self.line(False, report.nodeid, report.longreprtext)

    def pytest_sessionfinish(self):
        print(f"1..{self.number}", flush=True)


def pytest_collection_modifyitems(items):
    only = os.environ.get("ONLY")  # ONLY=word: the tests with this word in their names
    if only:
        items[:] = [item for item in items if only in item.nodeid]
