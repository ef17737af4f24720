"""The tables of what cluster.py has measured: goals, what was measured, what follows.

    cluster_report.py MEASURED.json RESULTS [--save]

With --save cluster.md and cluster.csv in the directory RESULTS are replaced. Its
full.csv has what one server does on an idle machine, from which capacities are
computed.
"""

import csv
import json
import os
import platform
import statistics
import sys
import time

CALLS = ("enqueue", "claim", "ack")
TITLES = {"pgfairq": "pgfairq", "skip": "SKIP LOCKED behind PL/Proxy"}
KINDS = {"hundred": "by the hundred", "single": "one by one", "empty": "one by one, nothing else waiting"}
# For capacities: cores of the node that full.csv is of, nodes of a cell, backends a node that claim through proxies,
# and how often one of them asks all nodes of its cell how far they are (fronts.c: every 1 to 2 s).
CORES, CELL, BACKENDS, ASKING = 2, 32, 8, 1.5


def count(number):
    return "{:,.0f}".format(number)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


class Report:
    def __init__(self, measured, results):
        self.measured, self.results = measured, results
        self.instructions = {(r["system"], r["call"], r["batch"], r["way"]): r for r in measured["instructions"]}
        self.work = {(r["system"], r["kind"], r["nodes"]): r for r in measured["work"]}

    def node(self, system, call, batch, way):
        return self.instructions[system, call, batch, way]["node"]

    def life(self, system, batch, way, where="node"):
        """Instructions of a task's enqueue, claim and ack."""
        return sum(self.instructions[system, call, batch, way][where] for call in CALLS) / batch

    # -- goals ----------------------------------------------------------------

    def goal(self, what, limit, values, least=None):
        """A row: met if every value is within the limit."""
        missed = [v for v in values.values() if v > limit or least is not None and v < least]
        shown = ", ".join(("%s %.3f" % (name, v)).strip() if v else "0" for name, v in values.items())
        bound = "%s%g" % ("≤ " if limit else "", limit) if least is None else "%.3g to %.3g" % (least, limit)
        return [what, bound, shown, "**missed**" if missed else "met"]

    def goals(self):
        one, four = (self.work["pgfairq", "hundred", n] for n in (1, 4))
        rows = [self.goal("a task's work at the nodes, 4 nodes / 1, by the hundred", 1.05,
                          {"WAL": four["wal"] / one["wal"], "buffers": four["buffers"] / one["buffers"]})]
        for batch, limit, name in ((1, 1.5, "of one"), (100, 1.1, "of a hundred")):
            for way, client in (("unnamed", "that does not prepare"), ("prepared", "that prepares")):
                rows.append(self.goal(
                    "a node's instructions of a call %s, through the proxy / of a client %s" % (name, client), limit,
                    {call: self.node("pgfairq", call, batch, "proxy") / self.node("pgfairq", call, batch, way) for call in CALLS}))
        wall = self.measured["wall"]
        for way, client in (("direct, unnamed", "that does not prepare"), ("direct, prepared", "that prepares")):
            rows.append(self.goal("time of an enqueue of one with fsync, through the proxy / of a client %s" % client, 1.5,
                                  {"%d node%s" % (n, "" if n == 1 else "s"): wall["proxy of %d" % n] / wall[way] for n in (1, 4)}))
        dead = self.measured["dead"]
        rows.append(self.goal("a claim with one of four nodes dead: extra, ms, once a backend", 100, {"": dead["once"]}))
        rows.append(self.goal("the same, the claims after it: extra, ms", 1, {"": dead["afterwards"]}))
        new = self.measured["new_node"]
        rows.append(self.goal("a node added under load: errors at clients", 0, {"": new["errors"]}))
        fair = 1 / new["nodes"]
        rows.append(self.goal("the same: its part of the enqueues from a second later on", 1.1 * fair, {"": new["part"]}, 0.9 * fair))
        return rows

    # -- what was measured ----------------------------------------------------

    def work_rows(self):
        return [[TITLES[system], KINDS[kind], n, count(r["tasks"]), "%.0f" % r["wal"], "%.2f" % r["buffers"],
                 "%.3f" % r["transactions"]]
                for kind in KINDS for system in TITLES for n in (1, 2, 4) for r in [self.work[system, kind, n]]]

    def instruction_rows(self):
        rows = []
        for system in ("pgfairq", "skip"):
            for batch in (1, 100):
                for call in CALLS:
                    proxy = self.instructions[system, call, batch, "proxy"]
                    direct = [self.instructions.get((other, call, batch, way))
                              for other, way in ((system, "unnamed"), (system, "prepared"), ("narrow", "prepared"))]
                    if system == "skip":
                        direct[2] = None
                    rows.append([TITLES[system], call, batch, count(proxy["proxy"]), count(proxy["node"])] + [
                        "%s (%.2f)" % (count(d["node"]), proxy["node"] / d["node"]) if d else "" for d in direct])
        return rows

    def idle(self, workload):
        """Tasks a second of one server, by the bench of one server on an idle machine."""
        with open(os.path.join(self.results, "full.csv"), newline="") as source:
            return statistics.median(float(row["tasks_per_s"]) for row in csv.DictReader(source)
                                     if (row["workload"], row["system"], row["clients"]) == (workload, "pgfairq", "16"))

    def capacity(self):
        """Rows of numbers of nodes, and the sentences that say how they come about."""
        self.text = []
        ways = []
        for batch, enqueue, rest, kind, unit in ((1, "W1", "W3", "single", "one by one"), (100, "W2", "W4", "hundred", "by the hundred")):
            base = 1 / (1 / self.idle(enqueue) + 1 / self.idle(rest))
            ratio = self.life("pgfairq", batch, "proxy") / self.life("narrow", batch, "prepared")
            four, one = self.work["pgfairq", kind, 4], self.work["pgfairq", kind, 1]
            growth = max(1, four["buffers"] / one["buffers"], four["wal"] / one["wal"])
            through = base / ratio / growth
            cores = self.life("pgfairq", batch, "proxy", "proxy") / self.life("pgfairq", batch, "proxy")
            asked = BACKENDS * CELL / ASKING * self.instructions["pgfairq", "front", 1, "unnamed"]["node"]
            front = asked / (through * self.life("pgfairq", batch, "proxy"))
            ways.append((base, through, cores, front, four["wal"]))
            self.text.append("- %s: %s/s on one server (median of %s and %s with 16 clients, one after the other);"
                             " a task takes its node %.2f times the instructions through the proxy of what it takes for a client"
                             " that prepares and asks for four columns, and %.3f times the work with four nodes;"
                             " the proxy executes %.2f instructions for each of the node;"
                             " questions of %d backends a node, in cells of %d, are %.1f %% of a node's work."
                             % (unit, count(base), enqueue, rest, ratio, growth, cores, BACKENDS, CELL, 100 * front))
        rows = []
        for n in (4, 100, 1000):
            row = [n, 1 if n <= CELL else -(-n // CELL)]
            for base, through, cores, front, wal in ways:
                rate = n * through * (1 if n <= 8 else 1 - front)
                row += [count(n * base), count(rate), count(n * CORES * cores), "%.0f" % (rate * wal / n / 1e6)]
            rows.append(row)
        return rows

    def markdown(self):
        m = self.measured
        wall, dead, new = m["wall"], m["dead"], m["new_node"]
        lines = ["# A queue over several nodes\n",
                 "%s, PostgreSQL %s, PL/Proxy %s, %s, %d processors, load %s%s. Four nodes and a proxy on this one machine;"
                 " `test/bench/cluster.sh` says how.%s\n"
                 % (m.get("date", time.strftime("%Y-%m-%d", time.gmtime())), m["server"], m["plproxy"], processor(), os.cpu_count(),
                    " and ".join("%.0f" % load for load in m["loads"]), ", a short run" if m["quick"] else "",
                    " Citus is installed, and not measured." if m["citus"] else " Citus is not installed, and left out."),
                 "## Goals\n"]
        lines += table(["", "goal", "measured", ""], self.goals())
        lines += ["## Measured: work at the nodes for a task's enqueue, claim and ack\n",
                  "Summed over the nodes, through the proxy, one client. By the hundred and one by one %d tasks a node are"
                  " waiting besides; without these a claim looks at one node after the other until it finds the task.\n" % 800]
        lines += table(["", "", "nodes", "tasks", "WAL bytes", "buffers", "transactions"], self.work_rows())
        lines += ["## Measured: instructions of a call\n",
                  "In user space, by callgrind, of the session at the proxy (whose client prepares) and of its session at the node;"
                  " and of a session at the node whose client makes the call itself. In parentheses: how many times that the node"
                  " executes for the proxy. Claims and acks return whole rows, as the proxy always asks for; the last column is of a"
                  " client that asks for four columns of a claim, and for the number of receipts of an ack of many. PL/Proxy sends each"
                  " call as an unnamed statement, which the node parses and plans: that is what it executes more than for a client"
                  " that prepares, and no setting of PL/Proxy changes it. With a hundred tasks it is small beside their work.\n"]
        lines += table(["", "call", "tasks", "the proxy", "the node", "direct, not prepared", "direct, prepared", "direct, prepared, less asked for"],
                       self.instruction_rows())
        lines += ["## Measured: times\n"]
        lines += table(["", "ms", "load"], [
            ["enqueue of one with fsync, direct, prepared: median of %d" % wall["rounds"], "%.2f" % wall["direct, prepared"], "%.0f" % wall["load"]],
            ["direct, not prepared", "%.2f" % wall["direct, unnamed"], ""],
            ["through a proxy of one node", "%.2f" % wall["proxy of 1"], ""],
            ["through a proxy of four", "%.2f" % wall["proxy of 4"], ""],
            ["claim of one, four nodes: median", "%.2f" % dead["claim"], "%.0f" % dead["load"]],
            ["the longest of 16, median of %d backends" % dead["backends"], "%.2f" % dead["longest_before"], ""],
            ["the longest of the first 16 after a node was killed", "%.2f" % dead["longest_after"], ""],
            ["extra of the next 24: median", "%+.2f" % dead["afterwards"], ""],
            ["`add_node` under load", count(1000 * new["took"]), "%.0f" % new["load"]]])
        lines += ["The dead node's server is killed, and its host, reached by a unix socket, refuses connections. One that is silent costs a backend up to"
                  " `connect_timeout`, 2 s.\n",
                  "The new node got %.3f ± %.3f of %s enqueues from a second after `add_node` on, and %.3f of the %s in the first"
                  " second; %d errors in %s enqueues.\n"
                  % (new["part"], new["standard_error"], count(new["of"]), new["part_in_first_second"], count(new["of_first_second"]),
                     new["errors"], count(new["enqueues"]))]
        capacity = self.capacity()
        lines += ["## Computed, not measured: capacity\n",
                  "Tasks' lives (enqueue, claim, ack) a second of nodes with %d cores as that of `full.md`, with fsync. *At the nodes*:"
                  " every client is connected to a node and prepares. *Proxied*: all goes through proxies. *Cores*: of all proxies"
                  " together. *WAL*: MB/s a node, proxied.\n" % CORES]
        lines += table(["nodes", "cells", "one by one, at the nodes", "proxied", "cores", "WAL", "by the hundred, at the nodes", "proxied", "cores", "WAL"],
                       capacity)
        lines += self.text
        lines += ["- Nothing grows with the number of nodes but these questions: up to 8 nodes each group has all nodes, and claims ask"
                  " nothing. Rates divided by instructions are low: flushes and the kernel's part do not grow. Proxies are"
                  " counted by instructions only.\n"]
        return "\n".join(lines)

    def csv_rows(self):
        for r in self.measured["work"]:
            for what in ("tasks", "wal", "buffers", "transactions", "empty_claims"):
                yield "work", r["system"], r["kind"], "", r["nodes"], "", what, r[what]
        for r in self.measured["instructions"]:
            for what in ("node", "proxy", "calls"):
                yield "instructions", r["system"], r["call"], r["batch"], 1, r["way"], what, r[what]
        for part in ("wall", "dead", "new_node"):
            for what, value in self.measured[part].items():
                yield part, "pgfairq", "", "", "", "", what, value


def processor():
    try:
        with open("/proc/cpuinfo") as source:
            names = [line.split(":", 1)[1].strip() for line in source if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def main():
    source, results = sys.argv[1:3]
    with open(source) as stream:
        report = Report(json.load(stream), results)
    text = report.markdown()
    print("\n" + text)
    if "--save" in sys.argv:
        path = os.path.join(results, "cluster")
        with open(path + ".md", "w") as target:
            target.write(text)
        with open(path + ".csv", "w", newline="") as target:
            writer = csv.writer(target, lineterminator="\n")
            writer.writerow(["part", "system", "what_is_done", "batch", "nodes", "way", "what", "value"])
            writer.writerows(report.csv_rows())
        print("written to %s.md and .csv" % path)


if __name__ == "__main__":
    main()
