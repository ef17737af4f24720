"""Medians, ratios, the Markdown table and the raw CSV."""

import csv
import os
import platform
import statistics
import time

TITLES = {
    "W1": "W1: enqueue one",
    "W2": "W2: enqueue 100 a statement",
    "W3": "W3: claim 1 + ack 1",
    "W4": "W4: claim 100 + ack 100 from a backlog of a million tasks in 1000 groups",
    "W5": "W5: claim n + ack n from a backlog of a million tasks in one group, ready or in the overflow",
    "W6": "W6: enqueue 100 + claim 100 + ack 100 while another session holds a snapshot",
    "W7": "W7: a claim of 100 in the server, one client",
}

# workload, system, reference, clients (None: each), at least this ratio
GOALS = [
    ("W1", "pgfairq", "floor", (1, 4, 16, 64), 0.9),
    ("W2", "pgfairq", "floor", (1, 4, 16, 64), 1.0),
    ("W3", "pgfairq", "skip", (16,), 2.5),
    ("W3", "pgfairq_fused", "skip", (16,), 3.5),
    ("W4", "pgfairq", "skip", (4,), 3.0),
    ("W4", "pgfairq", "skip", (16, 64), 4.0),
    ("W5", "overflow_1", "ready_1", (4, 16), 0.7),
    ("W5", "overflow_10", "ready_10", (4, 16), 0.7),
    ("W5", "overflow_100", "ready_100", (4, 16), 0.7),
]
GOAL_W6 = 0.85
GOAL_W7 = 1.5

CSV_COLUMNS = ["workload", "system", "clients", "round", "tasks_per_s", "tasks", "transactions", "latency_ms",
               "wal_bytes_per_task", "server_us_per_task", "session_us_per_task", "foreign_cpu", "checkpoints"]


def count(number):
    return "{:,.0f}".format(number)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


class Results:
    def __init__(self, mode, cluster, plans):
        self.mode, self.cluster, self.plans = mode, cluster, plans
        self.rows, self.series, self.costs, self.widths = [], [], [], {}
        self.started = time.time()

    def any(self):
        return bool(self.rows or self.series or self.costs)

    def add(self, workload, system, clients, round_number, run):
        tasks = max(1, run["tasks"])
        self.rows.append({
            "workload": workload, "system": system, "clients": clients, "round": round_number,
            "tasks_per_s": round(run["tasks_per_s"], 1), "tasks": run["tasks"],
            "transactions": run["transactions"], "latency_ms": run["latency_ms"],
            "wal_bytes_per_task": round(run["wal"] / tasks, 1),
            "server_us_per_task": round(run["server_cpu"] * 1e6 / tasks, 2),
            "foreign_cpu": round(run["foreign_cpu"], 3), "checkpoints": run["checkpoints"]})

    def add_series(self, system, clients, window, windows, without, size, left):
        """windows: pairs of tasks/s and the sessions' microseconds a task."""
        self.series.append((system, clients, window, windows, without, size, left))

    def add_cost(self, system, subject, median, p95, measured):
        self.costs.append((system, subject, median, p95, measured))

    def note_row_width(self, cluster, system, name):
        if system.split("_")[0] in ("pgfairq", "floor"):
            self.widths[system.split("_")[0]] = float(cluster.value(
                "SELECT coalesce(avg(pg_column_size(t)), 0) FROM (SELECT * FROM %s LIMIT 1000) t" % name))

    # -- figures -------------------------------------------------------------

    def select(self, workload, system, clients):
        return {row["round"]: row for row in self.rows
                if (row["workload"], row["system"], row["clients"]) == (workload, system, clients)}

    def ratio(self, workload, system, reference, clients):
        """Median over the rounds of the ratio within the round."""
        ours, theirs = self.select(workload, system, clients), self.select(workload, reference, clients)
        ratios = [ours[number]["tasks_per_s"] / theirs[number]["tasks_per_s"]
                  for number in ours if number in theirs and theirs[number]["tasks_per_s"] > 0]
        return statistics.median(ratios) if ratios else None

    def clients_of(self, workload):
        return sorted({row["clients"] for row in self.rows if row["workload"] == workload})

    def systems_of(self, workload):
        return list(dict.fromkeys(row["system"] for row in self.rows if row["workload"] == workload))

    # -- Markdown ------------------------------------------------------------

    def goals(self):
        lines = []
        for workload, system, reference, clients, least in GOALS:
            for number in clients:
                ratio = self.ratio(workload, system, reference, number)
                if ratio is not None:
                    lines.append((workload, number, "%s / %s" % (system, reference), "%.2f" % ratio,
                                  "at least %.2f" % least, "yes" if ratio >= least else "**no**"))
        for system, clients, _window, windows, _without, _size, _left in self.series:
            if system == "pgfairq" and len(windows) > 1:
                ratio = windows[-1][0] / windows[0][0]
                lines.append(("W6", clients, "last window / first", "%.2f" % ratio, "at least %.2f" % GOAL_W6,
                              "yes" if ratio >= GOAL_W6 else "**no**"))
        for system, what, ratio in self.cost_ratios():
            if system == "pgfairq":
                lines.append(("W7", 1, what, "%.2f" % ratio, "at most %.2f" % GOAL_W7,
                              "yes" if ratio <= GOAL_W7 else "**no**"))
        return lines

    def cost_ratios(self):
        for system in dict.fromkeys(cost[0] for cost in self.costs):
            for kind in ("backlog", "groups"):
                pair = [cost for cost in self.costs if cost[0] == system and cost[1].startswith(kind)]
                if len(pair) == 2:
                    slow, fast = max(pair[0][2], pair[1][2]), min(pair[0][2], pair[1][2])
                    yield system, "%s, slower / faster" % " : ".join(
                        cost[1].replace("_", " ") for cost in pair), slow / fast

    def rate_section(self, workload):
        rows = []
        references = [name for name in ("floor", "skip") if name in self.systems_of(workload)]
        for clients in self.clients_of(workload):
            for system in self.systems_of(workload):
                cells = self.select(workload, system, clients).values()
                if not cells:
                    continue
                rates = [cell["tasks_per_s"] for cell in cells]
                ratios = []
                for reference in references:
                    ratio = self.ratio(workload, system, reference, clients)
                    ratios.append("" if ratio is None or system == reference else "%.2f" % ratio)
                rows.append([clients, system, count(statistics.median(rates)),
                             "%s … %s" % (count(min(rates)), count(max(rates)))] + ratios +
                            ["%.0f" % statistics.median(cell["wal_bytes_per_task"] for cell in cells),
                             "%.1f" % statistics.median(cell["server_us_per_task"] for cell in cells),
                             "%.0f %%" % (100 * max(cell["foreign_cpu"] for cell in cells))])
        return table(["clients", "system", "tasks/s (median)", "lowest … highest"] +
                     ["/ " + reference for reference in references] +
                     ["WAL bytes a task", "server CPU µs a task", "others' CPU, most"], rows)

    def series_section(self):
        rows, costs = [], []
        for system, clients, _window, windows, without, size, left in self.series:
            rates, cpu = [each[0] for each in windows], [each[1] for each in windows]
            rows.append([system, clients, count(without), " ".join("%.0fk" % (rate / 1000) for rate in rates),
                         "%.2f" % (rates[-1] / rates[0]), "%.2f" % (rates[-1] / without),
                         "%.1f GB" % (size / 1e9), count(left)])
            costs.append([system, clients, " ".join("%.1f" % each for each in cpu), "%.2f" % (cpu[-1] / cpu[0])])
        window = self.series[0][2]
        return table(["system", "clients", "tasks/s without the snapshot",
                      "tasks/s with it, each %d s" % window, "last / first", "last / without",
                      "table and indexes", "tasks left by short claims"], rows) + "\n" + table(
                          ["system", "clients", "sessions' CPU µs a task, each %d s" % window, "last / first"], costs)

    def cost_section(self):
        rows = [[system, subject.replace("_", " "), measured, count(median), count(p95)]
                for system, subject, median, p95, measured in self.costs]
        text = table(["system", "queue", "claims", "median µs", "p95 µs"], rows)
        ratios = [[what, system, "%.2f" % ratio] for system, what, ratio in self.cost_ratios()]
        return text + ("\n" + table(["pair", "system", "ratio"], ratios) if ratios else "")

    def markdown(self):
        version = self.cluster.value("SELECT split_part(version(), ' on ', 1)")
        extension = self.cluster.sql("SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgfairq'")
        foreign = [row["foreign_cpu"] for row in self.rows]
        text = ["# Bench, %s\n" % self.mode,
                "%s, %s, pgfairq %s, %d processors, Linux %s, shared_buffers %s. Took %.0f minutes.\n" % (
                    time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.started)), version,
                    extension[0][0] if extension else "(none)", os.cpu_count(), platform.release(),
                    self.cluster.value("SHOW shared_buffers"), (time.time() - self.started) / 60)]
        if foreign:
            text.append("Processor time taken by others while measuring: median %.0f %%, highest %.0f %%.%s\n" % (
                100 * statistics.median(foreign), 100 * max(foreign),
                "" if statistics.median(foreign) < 0.05 else " **The machine was not idle: do not quote these figures.**"))
        checkpoints = sum(row["checkpoints"] for row in self.rows)
        if checkpoints:
            text.append("**%d checkpoints fell into measurements.**\n" % checkpoints)
        if len(self.widths) == 2 and abs(self.widths["pgfairq"] - self.widths["floor"]) > 2:
            text.append("**The bare table's rows are not the queue's: %.0f and %.0f bytes.**\n"
                        % (self.widths["floor"], self.widths["pgfairq"]))
        goals = self.goals()
        if goals:
            text.append("## Goals\n")
            text.append(table(["workload", "clients", "ratio", "measured", "goal", "reached"], goals))
        for workload in ("W1", "W2", "W3", "W4", "W5"):
            if self.clients_of(workload):
                text.append("## %s\n" % TITLES[workload])
                text.append(self.rate_section(workload))
        if self.series:
            text.append("## %s\n" % TITLES["W6"])
            text.append(self.series_section())
        if self.costs:
            text.append("## %s\n" % TITLES["W7"])
            text.append(self.cost_section())
        return "\n".join(text)

    def write(self, directory, name):
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, name)
        text = self.markdown()
        with open(path + ".md", "w") as target:
            target.write(text)
        with open(path + ".csv", "w", newline="") as target:
            writer = csv.DictWriter(target, CSV_COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
            for system, clients, window, windows, _without, _size, _left in self.series:
                for number, (rate, cpu) in enumerate(windows):
                    writer.writerow({"workload": "W6 window of %d s" % window, "system": system, "clients": clients,
                                     "round": number + 1, "tasks_per_s": round(rate, 1),
                                     "session_us_per_task": round(cpu, 2)})
            for system, subject, median, _p95, measured in self.costs:
                writer.writerow({"workload": "W7 " + subject, "system": system, "clients": 1,
                                 "tasks": 100 * measured, "latency_ms": round(median / 1000, 4)})
        return text, path
