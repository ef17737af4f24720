#!/usr/bin/python3
"""How fair a queue is that is spread over several servers, by simulation.

    spread.py --goals [--rule RULE] [--floors FLOORS] [--width WIDTH] [--seeds N]
    spread.py --table
    spread.py --run NAME=VALUE ... [--seeds N]

--goals prints, in TAP, whether the bounds hold that are promised; with another
rule than the product's some must not. --table prints the table of README.md, in
Markdown. Both together take the runs that they share once. --run
prints what is measured in one setting, whose fields are those of Setting.

What is simulated: N servers (nodes), each a start-time fair queue with the
arithmetic of pgfairq's policy fair, and 4 N workers, which are what is scarce.
Tasks come at random (Poisson), 1.3 times as many as the workers can do, and
take a random time (exponential, mean 1: that is the unit of time here). Of the
50 N tenants the n-th has a share of 1 / n of the tasks (Zipf). Beside them come
newcomers: groups of a single task, 2 % of what the workers can do.

A task goes to a random one of its group's nodes, which are the first few of all
nodes in the order of a hash of group and node (rendezvous). A worker that is
done claims at one node by the rule, and where that has nothing, goes to the
others in turn before it gives up. No call takes time, but for `latency`.

There are two ways of claiming: through proxies, each claim by the rule, and
workers that are at nodes, which claim at their own.

What is measured, from a fifth of the run on:

range      the most served less the least served, by the mean, in per cent, of
           the tenants that want at least 1.25 times of what an ideal queue
           gives them. 0 is perfectly fair.
newcomer   how long newcomers wait for a worker, mean and 99th percentile.
calls      claims at nodes for each one that returned something.

Everything is the same for the same seed, in each version of Python. Figures are
medians over some seeds.
"""
import argparse
import functools
import heapq
import math
import random
import statistics
import sys
from bisect import bisect_left
from collections import namedtuple
from dataclasses import dataclass, fields, replace
from operator import itemgetter

NOTHING = math.inf      # the front of a node that has nothing ready
HEAVY = 1.25            # a tenant counts that wants this much of its fair share
BITS = (1 << 64) - 1

Result = namedtuple("Result", "range mean p99 calls")


@dataclass(frozen=True)
class Setting:
    """A cluster, its load, and the rule of claims; the product's rule by default."""
    nodes: int = 16
    width: int = 4          # nodes of a group
    wide: tuple = ()        # or, of the first tenants, each
    speed: int = 1          # workers, tenants and tasks of a node, times this
    load: float = 1.3
    zipf: float = 1.0
    costs: tuple = ()       # of tenants, each one of these; then tasks take that time
    newcomers: float = 0.02
    duration: float = 1000.0

    # Where to claim: "front", of some random nodes at the one whose front is the
    # lowest; "turn", at each once, in a random order; "any"; "own", each worker at its node;
    # "length", at the longest.
    rule: str = "front"
    among: int = 3          # random nodes that are compared; 0: all
    blind: float = 0.1      # share of claims at a random node all the same
    batch: int = 1          # tasks in a claim
    uneven: int = 1         # "own": so many times as many workers have node 0
    stay: float = 0.0       # "own": after so long a worker asks, and goes where a claim would

    # What is known of fronts and virtual times: what claims have brought. It is
    # shared by the workers of a proxy; 0: each has only what it has seen itself.
    proxies: int = 0
    ask: float = 0.5        # all nodes are asked when what is known is that old

    # The floor that virtual times are raised to: "median" or "lowest" of the
    # known fronts, or the highest virtual time if nothing is known to be ready;
    # "highest", always that; "none".
    floors: str = "lowest"
    every: float = 0.5      # all at once, at such intervals; 0: by each call, its node
    tell: bool = False      # by enqueues, too: of a node that has nothing ready

    idle_ends: bool = True  # a claim that finds no more ends the node's busy period
    quiet: tuple = ()       # (until which part of the run, load meanwhile)
    dead: tuple = ()        # (from, until which part of the run): node 0 is away
    forgets: bool = False   # it comes back without tasks, at virtual time 0
    latency: float = 0.0    # before a worker that waits comes for a task
    seed: int = 1


def mix(x):
    """A 64-bit hash of a 64-bit number (SplitMix64)."""
    x = (x + 0x9E3779B97F4A7C15) & BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & BITS
    return x ^ (x >> 31)


def rendezvous(group, nodes, width):
    """The nodes of a group: of all nodes those of the highest hashes."""
    key = mix(group)
    return heapq.nlargest(width, range(nodes), lambda node: mix(key ^ mix(node)))


class Node:
    """One server's queue: start-time fair queueing, as in src/shmem/queue_order.c."""
    __slots__ = ("ready", "v", "served", "finish", "slots", "slot", "up", "number")

    def __init__(self, number):
        self.number = number
        self.up = True
        self.slot = 0
        self.forget()

    def forget(self):
        self.ready = []         # heap of (start tag, slot, time, group)
        self.v = self.served = 0.0
        self.finish, self.slots = {}, {}

    def front(self):
        return self.ready[0][0] if self.ready else NOTHING

    def put(self, now, group, charge):
        start = self.finish.get(group, -1.0)
        if start <= self.v:     # not known, or it may have been forgotten
            start = self.v
            self.slot += 1
            self.slots[group] = self.slot
        self.finish[group] = start + charge
        heapq.heappush(self.ready, (start, self.slots[group], now, group))

    def take(self, number, charge, idle_ends):
        tasks = []
        while self.ready and len(tasks) < number:
            task = heapq.heappop(self.ready)
            self.v = max(self.v, task[0])
            self.served = max(self.served, task[0] + charge(task[3]))
            tasks.append(task)
        if idle_ends and len(tasks) < number:
            self.v = max(self.v, self.served)
        return tasks

    def lift(self, floor):
        """Nobody who comes starts before the floor; no further than the first task."""
        self.v = max(self.v, min(floor, self.front()))


class View:
    """What a proxy, or a worker by itself, knows of the nodes."""
    __slots__ = ("fronts", "lengths", "v", "asked")

    def __init__(self, nodes):
        self.fronts = [0.0] * nodes
        self.lengths = [0] * nodes
        self.v = [0.0] * nodes
        self.asked = 0.0

    def learn(self, number, node):
        self.fronts[number] = node.front() if node.up else NOTHING
        self.lengths[number] = -len(node.ready) if node.up and node.ready else NOTHING
        self.v[number] = node.v if node.up else 0.0

    def floor(self, kind):
        if kind == "none":
            return 0.0
        fronts = [front for front in self.fronts if front < NOTHING]
        if kind == "highest" or not fronts:
            return max(self.v)
        return min(fronts) if kind == "lowest" else sorted(fronts)[len(fronts) // 2]


class Cluster:
    """The nodes, where tasks are put, and where workers look for them."""

    def __init__(self, setting, workers, tenants):
        self.setting = setting
        self.random = random.Random(setting.seed).random
        self.nodes = [Node(number) for number in range(setting.nodes)]
        self.views = [View(setting.nodes) for _ in range(setting.proxies or workers)]
        self.tenants = tenants
        self.groups = {}
        seats = setting.nodes + setting.uneven - 1
        self.own = [max(0, worker % seats - setting.uneven + 1) for worker in range(workers)]
        self.until = [setting.stay * self.random() for _ in range(workers if setting.stay else 0)]
        self.turns = [[] for _ in range(workers)]
        self.refused = []       # groups whose tasks no node takes at the moment
        self.claims = self.calls = 0

    def below(self, number):
        return int(self.random() * number)

    def cost(self, group):
        costs = self.setting.costs
        return costs[mix(group) % len(costs)] if costs and group < self.tenants else 1.0

    def nodes_of(self, group):
        found = self.groups.get(group)
        if found is None:
            setting = self.setting
            width = setting.wide[group] if group < len(setting.wide) else setting.width
            found = rendezvous(group, setting.nodes, min(width, setting.nodes))
            self.groups[group] = found
        return found

    def enqueue(self, now, group):
        numbers = self.nodes_of(group)
        node = self.nodes[numbers[self.below(len(numbers))]]
        if not node.up:
            numbers = [number for number in numbers if self.nodes[number].up]
            if not numbers:
                self.refused.append(group)
                return
            node = self.nodes[numbers[self.below(len(numbers))]]
        if self.setting.tell:
            view = self.views[self.below(len(self.views))]
            if not node.ready:
                self.lift_one(node, view)
            if view.fronts[node.number] == NOTHING:
                view.fronts[node.number] = max(view.v[node.number], view.floor(self.setting.floors))
        node.put(now, group, self.cost(group))

    def choose(self, now, worker, view):
        """The node that a claim goes to first."""
        setting = self.setting
        if setting.rule == "own":
            if setting.stay and now >= self.until[worker]:
                self.until[worker] = now + setting.stay * (0.5 + self.random())
                self.own[worker] = self.by_rule(now, view)
            return self.own[worker]
        if setting.rule == "turn":
            if not self.turns[worker]:
                self.turns[worker] = sorted(range(setting.nodes), key=lambda _: self.random())
            return self.turns[worker].pop()
        return self.by_rule(now, view)

    def by_rule(self, now, view):
        setting = self.setting
        if now - view.asked >= setting.ask:
            view.asked = now
            for number, node in enumerate(self.nodes):
                view.learn(number, node)
        best = self.below(setting.nodes)
        if setting.rule == "any" or self.random() < setting.blind:
            return best
        known = view.lengths if setting.rule == "length" else view.fronts
        others = [self.below(setting.nodes) for _ in range(setting.among - 1)]
        for other in others if setting.among else range(setting.nodes):
            if known[other] < known[best]:
                best = other
        return best

    def claim(self, now, worker):
        """Tasks of one node, the first one that has any; or none."""
        setting = self.setting
        view = self.views[worker % len(self.views)]
        first = self.choose(now, worker, view)
        tasks = self.claim_at(first, view)
        calls = 1
        if not tasks:
            behind = self.below(setting.nodes)
            for number in list(range(behind, setting.nodes)) + list(range(behind)):
                if number != first and not tasks:
                    tasks = self.claim_at(number, view)
                    calls += 1
        if tasks:
            self.claims += 1
            self.calls += calls
        return tasks

    def claim_at(self, number, view):
        node, setting = self.nodes[number], self.setting
        tasks = []
        if node.up:
            self.lift_one(node, view)
            tasks = node.take(setting.batch, self.cost, setting.idle_ends)
        view.learn(number, node)
        return tasks

    def lift_one(self, node, view):
        """Raise the floor of a node by what is known to who calls."""
        if not self.setting.every and self.setting.floors != "none":
            node.lift(view.floor(self.setting.floors))

    def lift(self):
        """Raise all floors at once, to what is so at the moment."""
        now = View(len(self.nodes))
        for number, node in enumerate(self.nodes):
            now.learn(number, node)
        for node in self.nodes:
            if node.up:
                node.lift(now.floor(self.setting.floors))

    def toggle(self, now):
        """Node 0 goes away, or comes back; then what was refused is tried again."""
        node = self.nodes[0]
        node.up = not node.up
        if node.up:
            if self.setting.forgets:
                node.forget()
            refused, self.refused = self.refused, []
            for group in refused:
                self.enqueue(now, group)


class Run:
    """The load of a cluster, and what is measured."""

    def __init__(self, setting):
        self.setting = setting
        self.workers = 4 * setting.nodes * setting.speed
        self.tenants = 50 * setting.nodes * setting.speed
        self.cluster = Cluster(setting, self.workers, self.tenants)
        self.random = self.cluster.random
        parts = [1 / (n + 1) ** setting.zipf for n in range(self.tenants)]
        scale = setting.load * self.workers / sum(parts)
        self.wanted = [part * scale for part in parts]      # work in a unit of time
        self.sums = []
        for tenant, work in enumerate(self.wanted):
            self.sums.append((self.sums or [0.0])[-1] + work / self.cluster.cost(tenant))
        self.start = (setting.quiet[0] if setting.quiet else 0.2) * setting.duration
        self.end = setting.duration
        self.served = [0.0] * self.tenants
        self.waiting = {}       # newcomers, and since when
        self.waits = []
        self.done = []          # heap of (time, worker) of those who work
        self.idle = list(range(self.workers))
        self.newcomer = self.tenants

    def after(self, now, rate):
        return now - math.log(1 - self.random()) / rate

    def arrival(self, now):
        """A task of a tenant; returns when the next one comes."""
        setting = self.setting
        rate = self.sums[-1]
        group = min(bisect_left(self.sums, self.random() * rate), self.tenants - 1)
        self.cluster.enqueue(now, group)
        if setting.quiet and now < self.start:
            rate *= setting.quiet[1] / setting.load
        return self.after(now, rate)

    def arrival_of_newcomer(self, now):
        # Those who come at the very end would not be waited for.
        if self.start <= now < 0.95 * self.end:
            self.waiting[self.newcomer] = now
        self.cluster.enqueue(now, self.newcomer)
        self.newcomer += 1
        return self.after(now, self.setting.newcomers * self.workers)

    def work(self, now, worker):
        """A worker claims and begins; returns whether there was anything."""
        tasks = self.cluster.claim(now, worker)
        ends = now
        for _, _, _, group in tasks:
            if group in self.waiting:
                self.waits.append(ends - self.waiting.pop(group))
            cost = self.cluster.cost(group)
            if group < self.tenants and now >= self.start:
                self.served[group] += cost
            ends = self.after(ends, 1 / cost)
        if tasks:
            heapq.heappush(self.done, (ends, worker))
        return bool(tasks)

    def wake(self, now):
        """A task has come: one of those who wait comes for it, now or soon."""
        if self.idle:
            chosen = self.cluster.below(len(self.idle))
            self.idle[chosen], self.idle[-1] = self.idle[-1], self.idle[chosen]
            worker = self.idle.pop()
            if self.setting.latency:
                heapq.heappush(self.done, (now + self.setting.latency, worker))
            elif not self.work(now, worker):
                self.idle.append(worker)

    def events(self):
        """[when, what], of which each returns when it happens again."""
        setting = self.setting
        events = [[0.0, self.arrival], [0.0, self.arrival_of_newcomer]]
        if setting.every and setting.floors != "none":
            events.append([setting.every, self.lift])
        return events + [[part * self.end, self.toggle] for part in setting.dead]

    def lift(self, now):
        self.cluster.lift()
        return now + self.setting.every

    def toggle(self, now):
        self.cluster.toggle(now)
        for _ in range(len(self.idle)):
            self.wake(now)
        return NOTHING

    def go(self):
        events = self.events()
        while True:
            event = min(events, key=itemgetter(0))
            now = min(event[0], self.end)
            while self.done and self.done[0][0] <= now:
                at, worker = heapq.heappop(self.done)
                if not self.work(at, worker):
                    self.idle.append(worker)
            if now == self.end:
                return self.result()
            event[0] = event[1](now)
            self.wake(now)

    def fair_share(self):
        """What an ideal queue gives to each tenant that wants more."""
        left = self.workers * (1 - self.setting.newcomers)
        wanted = sorted(self.wanted)
        for number, work in enumerate(wanted):
            if work * (len(wanted) - number) >= left:
                return left / (len(wanted) - number)
            left -= work
        return NOTHING

    def result(self):
        share = self.fair_share()
        heavy = [self.served[t] for t in range(self.tenants) if self.wanted[t] >= HEAVY * share]
        spread = 100 * (max(heavy) - min(heavy)) / statistics.fmean(heavy) if heavy else 0.0
        waits = sorted(self.waits + [self.end - since for since in self.waiting.values()])
        return Result(spread, statistics.fmean(waits), waits[len(waits) * 99 // 100],
                      self.cluster.calls / self.cluster.claims)


@functools.lru_cache(None)
def measure(setting, seeds):
    """The medians over seeds."""
    results = [Run(replace(setting, seed=seed)).go() for seed in range(1, seeds + 1)]
    return Result(*(statistics.median(column) for column in zip(*results)))


# About as many tasks in each run, but for 100 nodes.
DURATIONS = {4: 2400.0, 5: 1920.0, 8: 1200.0, 16: 800.0, 32: 800.0, 100: 200.0}

QUIET = {"quiet": (0.5, 0.8), "latency": 0.2, "duration": 1000.0}
BACK = {"dead": (0.48, 0.5), "forgets": True}
AWAY = {"dead": (0.3, 0.6)}


def spread(nodes, width, **more):
    if width == nodes:      # then nothing is asked and no floor raised (route_claim.c)
        more = {"rule": "turn", "floors": "none", **more}
    return Setting(nodes=nodes, width=width, **{"duration": DURATIONS[nodes], **more})


def alone(nodes, **more):
    """One node of the total speed: what the others are compared with."""
    return Setting(nodes=1, width=1, speed=nodes, duration=2 * DURATIONS[nodes], **more)


def goals(changes, seeds):
    """What is promised, what is measured, and the bound."""
    def at(nodes, width, **more):
        return measure(replace(spread(nodes, width, **more), **changes), seeds)

    def times(what, result):
        return getattr(result, what) / getattr(measure(alone(16), seeds), what)

    return [
        ("16 nodes, groups on 4: range, %", lambda: at(16, 4).range, 10),
        ("16 nodes, groups on 4: newcomer's mean wait, by that at one node", lambda: times("mean", at(16, 4)), 6),
        ("16 nodes, groups on 4: newcomer's 99 %, by that at one node", lambda: times("p99", at(16, 4)), 10),
        ("4 nodes, groups on all: range, %", lambda: at(4, 4).range, 3),
        ("16 nodes, groups on all: range, %", lambda: at(16, 16).range, 6),
        ("16 nodes, groups on all, workers at their own nodes: range, %", lambda: at(16, 16, rule="own").range, 6),
        ("5 nodes, groups on all, workers at their own nodes: range, %", lambda: at(5, 5, rule="own").range, 6),
        ("after a time with little to do: range, %", lambda: at(16, 4, **QUIET).range, 10),
        ("after a time with little to do: newcomer's 99 %, by that at one node",
         lambda: times("p99", at(16, 4, **QUIET)), 12),
        ("a node comes back with nothing: range, %", lambda: at(16, 4, **BACK).range, 10),
        ("a node is away: range, %", lambda: at(16, 4, **AWAY).range, 10),
        ("a node is away: newcomer's 99 %, by that at one node", lambda: times("p99", at(16, 4, **AWAY)), 12),
    ]


def print_goals(changes, only, seeds):
    """In TAP; returns whether all are reached."""
    failed = 0
    chosen = [goal for goal in goals(changes, seeds) if only in goal[0]]
    for number, (what, measured, bound) in enumerate(chosen, 1):
        value = measured()
        failed += value > bound
        print("%s %d - %s: %.2f, at most %d" % ("ok" if value <= bound else "not ok", number, what, value, bound),
              flush=True)
    print("1..%d" % len(chosen), flush=True)
    return not failed


# The ways of claiming
BOTH = ("front", "own")
PROXIES, OWN = BOTH[:1], BOTH[1:]

# (servers, a group is on, otherwise, ways of claiming, setting)
ROWS = [
    (4, "all", "", BOTH, spread(4, 4)),
    (5, "all", "", BOTH, spread(5, 5)),
    (8, "4", "", BOTH, spread(8, 4)),
    (8, "all", "", BOTH, spread(8, 8)),
    (16, "1", "", BOTH, spread(16, 1)),
    (16, "2", "", BOTH, spread(16, 2)),
    (16, "4", "", BOTH, spread(16, 4)),
    (16, "12", "", BOTH, spread(16, 12)),
    (16, "all", "", BOTH, spread(16, 16)),
    (32, "4", "", BOTH, spread(32, 4)),
    (32, "all", "", BOTH, spread(32, 32)),
    (100, "4", "", BOTH, spread(100, 4)),
    (100, "16", "", BOTH, spread(100, 16)),
    (16, "all", "three times as many workers at one server", OWN, spread(16, 16, uneven=3)),
    (16, "all", "claims of 10", BOTH, spread(16, 16, batch=10)),
    (16, "all", "tasks of cost 0.1, 1 and 10", BOTH, spread(16, 16, costs=(0.1, 1.0, 10.0))),
    (16, "all", "a server is away for 30 % of the time", BOTH, spread(16, 16, **AWAY)),
    (16, "all", "after a time with little to do", BOTH, spread(16, 16, **QUIET)),
    (16, "4", "workers go to another server each 10", OWN, spread(16, 4, stay=10.0)),
    (100, "4", "four proxies", PROXIES, spread(100, 4, proxies=4)),
    (16, "4", "four proxies", PROXIES, spread(16, 4, proxies=4)),
    (16, "4", "a proxy for each worker", PROXIES, spread(16, 4, proxies=0)),
    (16, "4", "claims of 10", PROXIES, spread(16, 4, batch=10)),
    (16, "4", "tasks of cost 0.1, 1 and 10", PROXIES, spread(16, 4, costs=(0.1, 1.0, 10.0))),
    (16, "4", "a server is away for 30 % of the time", PROXIES, spread(16, 4, **AWAY)),
    (16, "1", "a server is away for 30 % of the time", PROXIES, spread(16, 1, **AWAY)),
    (16, "4", "after a time with little to do", PROXIES, spread(16, 4, **QUIET)),
    (16, "4", "the same, without floors", PROXIES, spread(16, 4, floors="none", **QUIET)),
    (16, "4", "claims at random", PROXIES, spread(16, 4, rule="any")),
    (16, "4", "claims where most tasks wait", PROXIES, spread(16, 4, rule="length")),
]


def print_table(part, seeds):
    """All rows, or only those of up to 16 servers with nothing otherwise."""
    # Integers and tenths, so that the page has what is printed anywhere.
    print("| servers | a group is on | | range, %: through proxies | at their own nodes"
          " | newcomer waits, mean / 99 %: through proxies | at their own nodes | times as long as at one server |")
    print("|---|---|---|---|---|---|---|---|")
    for nodes, width, otherwise, ways, setting in ROWS:
        if part and (nodes > 16 or otherwise):
            continue
        one = measure(alone(nodes, costs=setting.costs, batch=setting.batch), seeds)
        ranges, waits, times = [], [], []
        for way in BOTH:
            if way not in ways:
                ranges.append("")
                waits.append("")
                continue
            result = measure(replace(setting, rule="own") if way == "own" else setting, seeds)
            ranges.append("%d" % math.ceil(result.range))
            waits.append("%.1f / %.1f" % (result.mean, result.p99))
            times.append("%.1f" % (result.mean / one.mean))
        print("| %d | %s | %s | %s | %s |" % (nodes, width, otherwise, " | ".join(ranges + waits), "; ".join(times)),
              flush=True)


def value_of(text):
    name, _, value = text.partition("=")
    kind = {field.name: field.type for field in fields(Setting)}[name]
    if kind is tuple:
        return name, tuple(float(part) for part in value.split(","))
    return name, value == "True" if kind is bool else kind(value)


def main():
    parser = argparse.ArgumentParser(description="How fair a queue is that is spread over several servers")
    parser.add_argument("--goals", action="store_true", help="whether the bounds hold that are promised")
    parser.add_argument("--only", default="", metavar="TEXT", help="goals with this in their names")
    parser.add_argument("--table", action="store_true", help="the table of README.md")
    parser.add_argument("--part", action="store_true", help="only the rows that do not take long")
    parser.add_argument("--run", nargs="*", metavar="NAME=VALUE", help="what is measured in a setting")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rule", help="goals with another rule of claims")
    parser.add_argument("--floors", help="goals with other floors")
    parser.add_argument("--width", type=int, help="goals with groups on so many nodes")
    options = parser.parse_args()
    changes = {name: getattr(options, name) for name in ("rule", "floors", "width")
               if getattr(options, name) is not None}
    reached = True
    if options.goals:
        reached = print_goals(changes, options.only, options.seeds)
    if options.table:
        print_table(options.part, options.seeds)
    if options.run is not None:
        setting = Setting(**dict(map(value_of, options.run)))
        print("range %.2f %%, newcomer %.2f / %.2f, calls %.2f" % measure(setting, options.seeds))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
