"""Medians, ratios, the Markdown report and the raw CSV."""

import csv
import os
import platform
import statistics
import time

CSV_COLUMNS = ["workload", "system", "clients", "round", "tasks_per_s", "tasks", "transactions", "latency_ms",
               "wal_bytes_per_task", "server_us_per_task", "foreign_cpu", "checkpoints"]

# The columns of the summary: these numbers of clients, or else all there are.
SUMMARY = {"W1": (16, 64), "W2": (16,), "W3": (16,), "W4": (4, 16, 64)}
# What kind of work a workload is, for the reasons why a system is ahead there; and from which ratio on it is.
KIND = {"W1": "enqueue", "W2": "enqueue", "W3": "claim", "W4": "claim"}
AHEAD = 1.005
WHAT = {"W1": "enqueue 1", "W2": "enqueue 100", "W3": "claim 1 + ack 1", "W4": "claim 100 + ack 100"}


# What ends the name of a system that is measured in the protocol's binary format.
BINARY = "_binary"


def like(system, reference):
    """Are they measured in the same format, or are they one system in two? A ratio of other two would say nothing."""
    return system.endswith(BINARY) == reference.endswith(BINARY) or system.split("_")[0] == reference.split("_")[0]


def ours(system):
    """What a system is compared with in the table of all systems."""
    return "pgfairq" + BINARY if system.endswith(BINARY) and system != "pgfairq" + BINARY else "pgfairq"


def count(number):
    return "{:,.0f}".format(number)


def short(number):
    if number >= 99950:
        return "%.0fk" % (number / 1000)
    return "%.1fk" % (number / 1000) if number >= 1000 else "%.0f" % number


def ratio_text(ratio):
    return "%.2f" % ratio if ratio >= 0.01 else "%.1g" % ratio


def table(header, rows):
    lines = ["| " + " | ".join(str(cell) for cell in header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


class Results:
    def __init__(self, mode, cluster, modules, plans):
        self.mode, self.cluster, self.modules, self.plans = mode, cluster, modules, plans
        self.rows = []      # of the CSV: dictionaries
        self.data = {}      # a workload's own
        self.left_out = []  # (system, workload, why)
        self.only = []      # the systems that were asked for, if not all
        self.remarks = []
        self.widths = {}
        self.reasons = {}   # of systems, why they are ahead, by kind of work
        self.systems = []   # (name, title, version, notes)
        self.started = time.time()

    def add_system(self, one, version):
        self.systems.append((one.name, one.title, version, one.notes))
        self.reasons[one.name] = one.ahead

    def add(self, workload, system, clients, round_number, run):
        """A measurement by pgbench, for the tables of tasks a second and the CSV."""
        tasks = max(1, run["tasks"])
        self.rows.append({
            "workload": workload, "system": system, "clients": clients, "round": round_number,
            "tasks_per_s": round(run["tasks_per_s"], 1), "tasks": run["tasks"],
            "transactions": run["transactions"], "latency_ms": run["latency_ms"],
            "wal_bytes_per_task": None if run["wal"] is None else round(run["wal"] / tasks, 1),
            "server_us_per_task": round(run["server_cpu"] * 1e6 / tasks, 2),
            "foreign_cpu": round(run["foreign_cpu"], 3), "checkpoints": run["checkpoints"]})

    def add_raw(self, workload, system, **values):
        """A row of the CSV alone; names that are not among CSV_COLUMNS become further columns."""
        self.rows.append(dict(values, workload=workload, system=system))

    def note_row_width(self, one):
        if one.name in ("pgfairq", "floor"):
            self.widths[one.name] = float(self.cluster.value(
                "SELECT coalesce(avg(pg_column_size(t)), 0) FROM (SELECT * FROM %s LIMIT 1000) t" % one.table))

    # -- figures -------------------------------------------------------------

    def select(self, workload, system, clients):
        return {row["round"]: row for row in self.rows if row.get("tasks_per_s") is not None
                and (row["workload"], row["system"], row.get("clients")) == (workload, system, clients)}

    def rate(self, workload, system, clients):
        rates = [row["tasks_per_s"] for row in self.select(workload, system, clients).values()]
        return statistics.median(rates) if rates else None

    def ratio(self, workload, system, reference, clients):
        """Median over the rounds of the ratio within the round."""
        ours, theirs = self.select(workload, system, clients), self.select(workload, reference, clients)
        ratios = [ours[number]["tasks_per_s"] / theirs[number]["tasks_per_s"]
                  for number in ours if number in theirs and theirs[number]["tasks_per_s"] > 0]
        return statistics.median(ratios) if ratios else None

    def clients_of(self, workload):
        return sorted({row["clients"] for row in self.rows if row["workload"] == workload and row.get("clients")})

    def systems_of(self, workload):
        """In the order of the systems, whatever the order of the rounds."""
        found = list(dict.fromkeys(row["system"] for row in self.rows if row["workload"] == workload))
        names = [each[0] for each in self.systems]

        def place(label):
            owner = self.owner(label)
            return (names.index(owner) if owner else len(names), label)
        return sorted(found, key=place)

    # -- Markdown ------------------------------------------------------------

    def goals(self):
        lines = []
        for module in self.modules.values():
            for workload, clients, what, measured, goal, reached in getattr(module, "goals", lambda _: ())(self):
                lines.append((workload, clients, what, measured, goal, "yes" if reached else "**no**"))
        return lines

    def summary(self):
        columns = []
        for workload, preferred in SUMMARY.items():
            measured = self.clients_of(workload)
            columns += [(workload, clients) for clients in [each for each in preferred if each in measured] or measured]
        labels = list(dict.fromkeys(label for name, _title, _version, _notes in self.systems
                                    for workload, _clients in columns for label in self.systems_of(workload)
                                    if label == name or (label.startswith(name + "_") and
                                                         label not in [each[0] for each in self.systems])))
        rows = []
        for label in labels:
            cells = []
            for workload, clients in columns:
                rate = self.rate(workload, label, clients)
                ratio = self.ratio(workload, label, ours(label), clients)
                cells.append("–" if rate is None else short(rate) if label == "pgfairq" or ratio is None
                             else "%s (%s)" % (short(rate), ratio_text(ratio)))
            life = [self.wal(workload, label) for workload in ("W2", "W4")]
            rows.append([label] + cells + ["–" if None in life else "%.0f" % sum(life)])
        return table(["tasks/s"] + ["%s %s, %d clients" % (workload, WHAT[workload], clients)
                                    for workload, clients in columns] + ["WAL bytes a task's life, W2 + W4"],
                     rows) if columns else ""

    def owner(self, label):
        """The system a label is of."""
        return max((each[0] for each in self.systems if label == each[0] or label.startswith(each[0] + "_")),
                   key=len, default="")

    def ahead(self):
        """Where something else is ahead of pgfairq in this run, and why."""
        found = {}  # (label, where, kind of work): ratios
        for workload in SUMMARY:
            for label in self.systems_of(workload):
                for clients in self.clients_of(workload):
                    ratio = self.ratio(workload, label, ours(label), clients)
                    if ratio and ratio >= AHEAD:
                        found.setdefault((label, "%s %s" % (workload, WHAT[workload]), KIND[workload]), []).append(
                            "%.2f (%d clients)" % (ratio, clients))
        for module in self.modules.values():
            for label, where, kind, ratio in getattr(module, "ahead", lambda _: ())(self):
                if ratio >= AHEAD:
                    found.setdefault((label, where, kind), []).append("%.2f" % ratio)
        return [(label, where, ", ".join(ratios), self.reasons.get(self.owner(label), {}).get(kind, "–"))
                for (label, where, kind), ratios in found.items() if self.owner(label) not in ("pgfairq", "")]

    def wal(self, workload, system):
        """Bytes a task, the median."""
        found = [row["wal_bytes_per_task"] for row in self.rows if (row["workload"], row["system"]) == (workload, system)
                 and row.get("wal_bytes_per_task") is not None]
        return statistics.median(found) if found else None

    def markdown(self):
        version = self.cluster.value("SELECT split_part(version(), ' on ', 1)")
        ours = [each[2] for each in self.systems if each[0] == "pgfairq"]
        foreign = [row["foreign_cpu"] for row in self.rows if row.get("foreign_cpu") is not None]
        text = ["# Bench, %s\n" % self.mode,
                "%s, %s, pgfairq %s, %d processors, Linux %s, shared_buffers %s. Took %.0f minutes.\n" % (
                    time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.started)), version,
                    ours[0] if ours else "(none)", os.cpu_count(), platform.release(),
                    self.cluster.value("SHOW shared_buffers"), (time.time() - self.started) / 60)]
        if foreign:
            text.append("Processor time taken by others while measuring: median %.0f %%, highest %.0f %%.%s\n" % (
                100 * statistics.median(foreign), 100 * max(foreign),
                "" if statistics.median(foreign) < 0.05 else " **The machine was not idle: do not quote these figures.**"))
        checkpoints = sum(row.get("checkpoints") or 0 for row in self.rows)
        if checkpoints:
            text.append("**%d checkpoints fell into measurements.**\n" % checkpoints)
        if len(self.widths) == 2 and abs(self.widths["pgfairq"] - self.widths["floor"]) > 2:
            text.append("**The bare table's rows are not the queue's: %.0f and %.0f bytes.**\n"
                        % (self.widths["floor"], self.widths["pgfairq"]))
        text += ["%s\n" % remark for remark in self.remarks]
        goals = self.goals()
        if goals:
            text.append("## Goals\n")
            text.append(table(["workload", "clients", "ratio", "measured", "goal", "reached"], goals))
        summary = self.summary()
        if summary:
            text.append("## Systems\n")
            text.append("Tasks a second, the median; in brackets the ratio to pgfairq%s, the median of the ratios within a round.\n"
                        % (" (of others in the binary format to pgfairq%s)" % BINARY if BINARY in summary else ""))
            text.append(summary)
            ahead = self.ahead()
            if ahead:
                text.append("Ahead of pgfairq:\n")
                text.append(table(["", "workload", "ratio to pgfairq", "why"], ahead))
            text.append(table(["system", "what it is", "version", "read with it"],
                              [(name, title, version or "–", notes or "–") for name, title, version, notes in self.systems]))
        if self.left_out:
            text.append("Left out:\n")
            text.append(table(["system", "workload", "why"],
                              [(name, workload, " ".join(why.replace("|", "\\|").split())[:300])
                               for name, workload, why in self.left_out]))
        for name, module in self.modules.items():
            section = module.report(self, self.plans[name])
            if section:
                text.append("## %s\n" % self.title(name))
                text.append(section)
        return "\n".join(text)

    def title(self, name):
        title = self.modules[name].TITLE % self.plans[name] if "%(" in self.modules[name].TITLE \
            else self.modules[name].TITLE
        return "%s: %s" % (name, title)

    def write(self, directory, name):
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, name)
        more = list(dict.fromkeys(column for row in self.rows for column in row if column not in CSV_COLUMNS))
        with open(path + ".csv", "w", newline="") as target:
            writer = csv.DictWriter(target, CSV_COLUMNS + more, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        text = self.markdown()
        with open(path + ".md", "w") as target:
            target.write(text)
        return text, path
