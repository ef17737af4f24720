"""The tables of what bench.py has measured.

    report.py MEASURED.json RESULTS [--save]

With --save libraries.md and libraries.csv in the directory RESULTS are replaced.
"""

import csv
import json
import os
import statistics
import sys


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def of_three(number):
    """Three digits are what two runs may agree in."""
    return f"{float(f'{number:.3g}'):,.0f}"


class Report:
    def __init__(self, measured):
        self.measured = measured
        self.systems = measured["systems"]
        self.workers = [system for system in self.systems if system["works"]]
        self.rates = self.medians("throughput", ("ms", "processes", "concurrency"))
        self.waits = {(m["system"], m["processes"], m["concurrency"]): m["value"] for m in measured["latency"]}
        self.calls = {m["system"]: m["value"] for m in measured["enqueue"]}
        self.behind = {m["system"]: m["value"] for m in measured["fairness"]}

    def medians(self, kind, keys):
        values = {}
        for one in self.measured[kind]:
            values.setdefault((one["system"], *(one[key] for key in keys)), []).append(one["value"])
        return {key: statistics.median(found) for key, found in values.items()}

    def head(self):
        measured = self.measured
        rounds = max((one["round"] for one in measured["throughput"]), default=0)
        kind = "a quick run, one round" if measured["quick"] else f"medians of {rounds} rounds"
        lines = [f"{measured['when']}, {kind}: PostgreSQL {measured['server']}, fsync {measured['settings']['fsync']},"
                 f" synchronous_commit {measured['settings']['synchronous_commit']}, {measured['processors']} processors,"
                 f" load {measured['load']:.1f} before the run. A dash: not measured.", ""]
        lines += [f"With {', '.join(self.versions())}.", ""]
        for name, why in measured["left_out"].items():
            lines += [f"Left out: {name}: {why}", ""]
        for failed in measured["failed"]:
            lines += [f"Failed: {failed['what']}: {failed['why'].splitlines()[-1]}", ""]
        return lines

    def versions(self):
        """Of each library and server once."""
        return dict.fromkeys([*(f"{system['library']} {system['version']}" for system in self.systems), *self.measured["servers"]])

    # -- tables ---------------------------------------------------------------

    def throughput(self):
        shapes = sorted({key[1:] for key in self.rates})
        header = ["jobs a second"] + [f"{'no-op' if ms == 0 else f'{ms} ms'}, {processes} × {slots}" for ms, processes, slots in shapes]
        return table(header, [[system["title"]] + [self.rate(system, shape) for shape in shapes] for system in self.workers])

    def rate(self, system, shape):
        rate = self.rates.get((system["name"], *shape))
        return "-" if rate is None else of_three(rate)

    def latency(self):
        shapes = sorted({key[1:] for key in self.waits})
        header = ["ms from enqueue to handler: median, 95 %"] + [f"{processes} × {slots}" for processes, slots in shapes]
        return table(header, [[system["title"]] + [self.wait(system, shape) for shape in shapes] for system in self.workers])

    def wait(self, system, shape):
        waits = self.waits.get((system["name"], *shape))
        return "-" if not waits else f"{statistics.median(waits) * 1000:.1f}, {waits[int(len(waits) * 0.95)] * 1000:.1f}"

    def enqueue(self):
        rows = [[system["title"], of_three(self.calls[system["name"]])] for system in self.systems if system["name"] in self.calls]
        return table(["calls of one producer", "a second"], rows) if rows else []

    def fairness(self):
        header = [f"the single job of b behind {self.measured['backlog']:,} of a", "seconds", "jobs of a done meanwhile"]
        return table(header, [[system["title"], *self.stood(self.behind.get(system["name"]))] for system in self.workers])

    @staticmethod
    def stood(value):
        if value is None:
            return "-", "-"
        if value["waited"] is not None:
            return f"{value['waited']:.2f}", f"{value['behind']:,}"
        return (f"{value['computed']:.0f}, computed from {value['rate']:,.0f} a second" if value["computed"] else "-"), "all"

    # -- goals ----------------------------------------------------------------

    def goals(self):
        return table(["goal", "measured", ""], [*self.node_goals(), *self.celery_goals(), *self.latency_goals()])

    def ratios(self, ours, theirs):
        """By shape, for what was measured of both."""
        shapes = sorted(key[1:] for key in self.rates if key[0] == ours and (theirs, *key[1:]) in self.rates)
        return {shape: self.rates[(ours, *shape)] / self.rates[(theirs, *shape)] for shape in shapes if self.rates[(theirs, *shape)]}

    def goal(self, what, ours, theirs, least):
        ratios = self.ratios(ours, theirs)
        if not ratios:
            return [[what, "-", "not measured"]]
        lowest = min(ratios, key=ratios.get)
        shown = f"{ratios[lowest]:.2f} ({'no-op' if lowest[0] == 0 else f'{lowest[0]} ms'}, {lowest[1]} × {lowest[2]})" \
                f" to {max(ratios.values()):.2f} times"
        missed = sum(ratio < least for ratio in ratios.values())
        return [[what, shown, f"**missed** in {missed} of {len(ratios)}" if missed else "met"]]

    def node_goals(self):
        for peer, title in (("graphile", "graphile-worker"), ("pgboss", "pg-boss")):
            yield from self.goal(f"Node ahead of {title}", "pgfairq-node", peer, 1)
        for peer, title in (("bullmq-aof", "with appendonly"), ("bullmq", "in memory only")):
            yield from self.goal(f"Node within 10 % of BullMQ on Redis {title}", "pgfairq-node", peer, 0.9)

    def celery_goals(self):
        yield from self.goal("Celery on pgfairq as fast as on Redis", "celery-pgfairq", "celery-redis", 1)
        ours, theirs = self.calls.get("celery-pgfairq"), self.calls.get("celery-redis-always")
        if ours and theirs:
            yield ["Celery enqueues half as fast as on Redis with appendfsync always", f"{ours / theirs:.2f} times", "met" if ours >= theirs / 2 else "**missed**"]

    def latency_goals(self):
        for name, title in (("pgfairq-node", "Node"), ("pgfairq-threads", "Python, threads"), ("pgfairq-asyncio", "Python, asyncio"),
                            ("pgfairq-go", "Go"), ("celery-pgfairq", "Celery")):
            medians = [statistics.median(waits) * 1000 for (system, *_), waits in self.waits.items() if system == name and waits]
            if medians:
                missed = sum(median >= 3 for median in medians)
                yield [f"median from enqueue to handler below 3 ms, {title}", ", ".join(f"{median:.1f}" for median in medians),
                       f"**missed** in {missed} of {len(medians)}" if missed else "met"]

    def text(self):
        notes = [f"- {system['title'].strip('*')}: {system['notes']}." for system in self.systems if system["notes"]]
        return "\n".join([*self.head(), *self.throughput(), *self.latency(), *self.enqueue(), *self.fairness(), *self.goals(), *notes, ""])


def save(measured, text, results):
    with open(os.path.join(results, "libraries.md"), "w", encoding="utf-8") as file:
        file.write("# Through the libraries (make bench-clients)\n\n" + text)
    with open(os.path.join(results, "libraries.csv"), "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["what", "system", "round", "handler_ms", "processes", "concurrency", "value"])
        for one in measured["throughput"]:
            out.writerow(["jobs_a_second", one["system"], one["round"], one["ms"], one["processes"], one["concurrency"], round(one["value"], 1)])
        for one in measured["latency"]:
            for waited in one["value"]:
                out.writerow(["seconds_to_handler", one["system"], one["round"], 0, one["processes"], one["concurrency"], round(waited, 6)])
        for one in measured["enqueue"]:
            out.writerow(["calls_a_second", one["system"], 1, 0, 1, 1, round(one["value"], 1)])
        for one in measured["fairness"]:
            for what, value in one["value"].items():
                if value is not None:
                    out.writerow([f"behind_{measured['backlog']}_{what}", one["system"], 1, 1, 1, 10, round(value, 3)])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        measured = json.load(file)
    text = Report(measured).text()
    print(text)
    if "--save" in sys.argv[3:]:
        save(measured, text, sys.argv[2])


if __name__ == "__main__":
    main()
