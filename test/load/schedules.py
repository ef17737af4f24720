"""What the random tests share: schedules, which hypothesis makes and shortens.

A schedule is a list of steps; the first one sets up what the others need. A step
is the name of a method and plain values, and is printed as a call of it. What a
step does follows from these values and from what the server has answered by then:
"the third lease that is left" is a value, a receipt is not. So what is printed
when a schedule fails does all of it again, with --replay FILE.

Each schedule has a seed of its own and is made by itself: hypothesis would go on from
the first one with variants that differ in a step or two. It also tries very
short ones at first, which say nothing here. So one whole schedule is run for each
seed, and others only to shorten it if it fails.
"""

import functools
import math
import re
import unittest
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

PICK = range(60)        # one of a list, whatever its length; see pick()


class Step(NamedTuple):
    name: str
    values: dict

    def __repr__(self):
        return "%s(%s)" % (self.name, ", ".join("%s=%r" % value for value in self.values.items()))


def percent(p):
    """True in so many of 100 cases; false is the simpler one."""
    of = 100 // math.gcd(p, 100)
    return [False] * (of - of * p // 100) + [True] * (of * p // 100)


def pick(things, *picks):
    """Things of a list, no more than there are."""
    things = list(things)
    return [things.pop(p % len(things)) for p in picks if things]


def step(name, /, **values):
    return st.fixed_dictionaries(values).map(functools.partial(Step, name))


def chosen(alternatives, number):
    values = {}
    for name, those in alternatives.items():
        number, one = divmod(number, len(those))
        values[name] = those[one]
    return values


def steps(weighted):
    """One of the steps, or None: then it was the last, but that is seldom.
    weighted: {name of a step: (weight, {name of a value: all that it may be})}

    A step is two numbers: which it is, and one for all its values. Hypothesis leaves out
    a few numbers in a row at a time, so that a whole step goes easily."""
    made = {None: st.none()}
    for name, (_, alternatives) in weighted.items():
        made[name] = st.sampled_from(range(math.prod(map(len, alternatives.values())))).map(
            lambda number, name=name, those=alternatives: Step(name, chosen(those, number)))
    names = [name for name, (weight, _) in weighted.items() for _ in range(weight)]
    return st.sampled_from([None] + names * (2000 // len(names))).flatmap(made.get)


@st.composite
def schedule(draw, first, then, length):
    """first: the strategy of the first step; then(that step): that of all others."""
    made = [draw(first)]
    others = then(made[0])
    while len(made) <= length and (one := draw(others)):
        made.append(one)
    return made


def read(path, names):
    """The steps in what was printed, with or without TAP's "# " before each line."""
    with open(path) as lines:
        called = [re.match(r"[# ]*((\w+)\(.*\))$", line) for line in lines]
    return [eval(line[1], {line[2]: lambda **values: Step(line[2], values)})
            for line in called if line and line[2] in names]


def add_options(parser, schedules, length):
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    parser.add_argument("--schedules", type=int, default=schedules)
    parser.add_argument("--steps", type=int, default=length, help="of each schedule")
    parser.add_argument("--replay", metavar="FILE", help="the schedule that was printed in it, and no other")


def run(options, first, then, check, names):
    """Whether check(schedule, shortening) raises no error for any of the schedules. The
    first that fails is shortened and printed."""
    if options.replay:
        made = read(options.replay, names)
        try:
            check(made, False)
        except Exception as error:
            show(options.replay, made, error)
            return False
        return True
    for number in range(options.seed, options.seed + options.schedules):
        failed = []

        @seed(number)
        @settings(max_examples=100, database=None, deadline=None, print_blob=False, report_multiple_bugs=False,
                  phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
        @given(schedule(first, then, options.steps))
        def one(made):
            if len(made) <= options.steps and not failed:
                return
            try:
                check(made, bool(failed))
            except Exception as error:
                failed.append((made, error))
                raise
            if not failed:
                raise unittest.SkipTest("all went well")

        try:
            one()
        except unittest.SkipTest:
            continue
        except Exception:
            if not failed:
                raise
            show("seed %d, shortened from %d steps in %d runs" % (number, options.steps, len(failed)), *failed[-1])
            return False
        raise SystemExit("seed %d: hypothesis made no schedule of %d steps" % (number, options.steps))
    return True


def show(what, made, error):
    print("%s: %s: %s" % (what, type(error).__name__, str(error).strip()))
    print("\n".join(map(repr, made)))
