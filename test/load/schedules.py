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
import random
import re
import unittest
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

LONGEST = 1000          # that hypothesis makes
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
    """One of the steps, or None, once in some 500 times: then it was the last.
    weighted: {name of a step: (weight, {name of a value: all that it may be})}

    A step is two numbers: which it is, and one for all its values. Hypothesis leaves out
    a few numbers in a row at a time, so that a whole step goes easily."""
    made = {None: st.none()}
    for name, (_, alternatives) in weighted.items():
        made[name] = st.sampled_from(range(math.prod(map(len, alternatives.values())))).map(
            lambda number, name=name, those=alternatives: Step(name, chosen(those, number)))
    names = [name for name, (weight, _) in weighted.items() for _ in range(weight)]
    return st.sampled_from([None] + names * max(500 // len(names), 1)).flatmap(made.get)


@st.composite
def schedule(draw, first, then):
    """first: the strategy of the first step; then(that step): that of all others. There may
    be many more than are taken. Were there a number of them, none could be left out
    without another one."""
    made = [draw(first)]
    others = then(made[0])
    while one := draw(others):
        made.append(one)
    return made


def at_random(number, first, weighted, length):
    """A schedule that is longer than hypothesis makes them, and that it cannot shorten."""
    dice = random.Random(number)

    def one(name, alternatives):
        return Step(name, {value: dice.choice(those) for value, those in alternatives.items()})
    names = dice.choices(list(weighted), [weight for weight, _ in weighted.values()], k=length)
    return [one(*first), *(one(name, weighted[name][1]) for name in names)]


class Failure(NamedTuple):
    taken: list         # the steps up to the one that failed
    to_the_end: bool    # there was none after it
    error: Exception
    calls: object       # prints what was called by then

    def kind(self):
        """Its first words: a shorter schedule may fail for another reason."""
        return type(self.error), [re.sub(r"\d+", "", word) for word in str(self.error).split()[:3]]

    def comes_again(self, made):
        """What comes after the step that fails is not taken: all that begins so fails so."""
        return made[:len(self.taken)] == self.taken and (len(made) == len(self.taken) or not self.to_the_end)


def read(path, names):
    """The steps in what was printed, with or without TAP's "# " before each line."""
    with open(path) as lines:
        called = [re.match(r"[# ]*((\w+)\(.*\))$", line) for line in lines]
    made = [eval(line[1], {line[2]: lambda **values: Step(line[2], values)})
            for line in called if line and line[2] in names]
    # What failed otherwise while it was shortened comes after it.
    return made[:next((n for n in range(1, len(made)) if made[n].name == "begin"), None)]


def add_options(parser, schedules, length):
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    parser.add_argument("--schedules", type=int, default=schedules)
    parser.add_argument("--steps", type=int, default=length, help="of each schedule")
    parser.add_argument("--replay", metavar="FILE", help="the schedule that was printed in it, and no other")


def try_one(made, check, shortening, called):
    """The failure, or None. check takes the steps one by one; called() returns what
    prints its calls."""
    taken = []
    try:
        check((taken.append(step) or step for step in made), shortening)
    except Exception as error:
        return Failure(taken, len(taken) == len(made), error, called())
    return None


def run_long(options, first, weighted, check, called=lambda: None):
    """As run(), for schedules that are not shortened."""
    for number in range(options.seed, options.seed + options.schedules):
        failure = try_one(at_random(number, first, weighted, options.steps), check, False, called)
        if failure:
            show("seed %d, %d steps" % (number, len(failure.taken) - 1), failure)
            return False
    return True


def run(options, first, then, check, names, called=lambda: None):
    """Whether check(schedule, shortening) raises no error for any of the schedules. The
    first that fails is shortened and printed, with the calls of the run that failed; and
    the first failure of another kind that was seen meanwhile."""
    if options.replay:
        failure = try_one(read(options.replay, names), check, False, called)
        if failure:
            show(options.replay, failure)
        return not failure
    for number in range(options.seed, options.seed + options.schedules):
        failures, others, last = [], [], None

        @seed(number)
        @settings(max_examples=100, database=None, deadline=None, print_blob=False, report_multiple_bugs=False,
                  phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
        @given(schedule(first, then))
        def one(made):
            nonlocal last, others
            if len(made) <= options.steps and not failures:
                return
            made = made[:options.steps + 1]
            known = next((failure for failure in failures if failure.comes_again(made)), None)
            failure = known or try_one(made, check, bool(failures), called)
            if failure and failures and failure.kind() != failures[0].kind():
                others = others or [failure]
            elif failure:
                if not known:
                    failures.append(failure)
                last = failure
                raise failure.error
            if not failures:
                raise unittest.SkipTest("all went well")

        try:
            one()
        except unittest.SkipTest:
            continue
        except Exception:
            if not last:
                raise
            show("seed %d, shortened from %d steps in %d runs" % (number, len(failures[0].taken) - 1, len(failures)), last)
            if others:
                show("seed %d, and while it was shortened" % number, others[0])
            return False
        raise SystemExit("seed %d: hypothesis made no schedule of %d steps" % (number, options.steps))
    return True


def show(what, failure):
    print("%s: %s: %s" % (what, type(failure.error).__name__, str(failure.error).strip()))
    print("\n".join(map(repr, failure.taken)))
    if failure.calls:
        failure.calls()
