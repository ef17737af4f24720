"""Faults as plug-ins of a driver (driver.py): one function each, with what is to be known of it.

A fault returns when what it has harmed takes connections again; the driver then waits for the
clients to go on.  What it returns, if anything, is called some time later, and undoes it.
"""

import os
import signal
import time

from journal import CRASH

FAULTS = {}     # name of the function -> Fault; those of the modules that a driver imports

# The leases of a copy are forgotten, and those of another time have run out.
ALL = ("all", "connections")


class Skip(Exception):
    """There was nothing to do it to."""


class Fault:
    def __init__(self, function, title, weight, needs, lasts, forgives):
        self.function = function
        self.title = title
        self.weight = weight        # how often it is drawn
        self.needs = needs          # which of the driver's means: "disks", "clock", ...
        self.lasts = lasts          # from and to how many seconds later it is undone; None: the driver knows
        self.forgives = forgives    # what the judge takes for ended meanwhile, see journal.py; or it says so itself, with driver.ends()


def fault(title, weight=1, needs=None, lasts=None, forgives=(), name=None):
    def enter(function):
        FAULTS[name or function.__name__] = Fault(function, title, weight, needs, lasts, forgives)
        return function
    return enter


def simple(*rows, **more):
    """Faults of one expression: (name, title, weight, function).  more: what is to be known of all of them."""
    for name, title, weight, function in rows:
        fault(title, weight, name=name, **more)(function)


# -- what faults of several drivers have in common ------------------------------

def kill_again(driver, server, longest):
    """kill -9, and a start some time later."""
    with driver.ends(*CRASH):
        server.kill()
        time.sleep(driver.random.uniform(0, longest))
        server.start()


def tell(pid, what):
    """Processes may have ended."""
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass


def stop(which):
    """SIGSTOP; which says the processes anew, until there are no others.  What lets them go on."""
    pids = []
    others = which()
    while others:
        pids += others
        for pid in others:
            tell(pid, signal.SIGSTOP)
        others = [pid for pid in which() if pid not in pids]
    return lambda: [tell(pid, signal.SIGCONT) for pid in pids]


def switch_over(driver, pair):
    """The primary is stopped as is due, and the standby takes its place."""
    # One that is not there now would not have all that the primary has.
    pair.wait_for_standby()
    with driver.ends(*CRASH):
        pair.primary.stop()
        pair.take_over()
        driver.wait_up()
    driver.goes_on()


def fail_over(driver, pair):
    """The primary is killed, and the standby takes its place."""
    with driver.ends(*CRASH):
        pair.fail_over()
        driver.wait_up()
    driver.goes_on()
