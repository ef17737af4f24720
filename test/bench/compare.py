#!/usr/bin/env python3
"""Two runs of the same command beside each other: test/bench/compare.py RUN RUN [MOST]

A RUN is the CSV that the bench wrote, or the .md beside it. Printed are, for each
workload and number of clients, how many times as fast as the bare statements, as
SKIP LOCKED and as PgQ pgfairq was in the first and in the second, and by how much
the second differs; in the binary format as SKIP LOCKED in that format. Ends with 1
if one differs by more than MOST percent (15), or was measured in one of them only.
"""

import csv
import os
import re
import statistics
import sys

sys.dont_write_bytecode = True
from report import like

REFERENCES = ("floor", "skip", "pgq", "skip_binary")


def read(path):
    """{(workload, clients, system): {round: [tasks a second]}}, and what others took of the machine."""
    rates, others = {}, []
    with open(os.path.splitext(path)[0] + ".csv", newline="") as source:
        for row in csv.DictReader(source):
            if row.get("foreign_cpu"):
                others.append(float(row["foreign_cpu"]))
            rate = row.get("tasks_per_s") or row.get("done_per_s")
            # W6 has its windows, and besides them what they add up to.
            if not rate or row["workload"] == "W6":
                continue
            found = re.match(r"(.*) round (\d+)$", row["workload"])
            workload, number = found.groups() if found else (row["workload"], row.get("round") or "")
            key = workload, row.get("clients") or "", row["system"]
            rates.setdefault(key, {}).setdefault(number, []).append(float(rate))
    return rates, statistics.median(others) if others else 0.0


def ratios(rates):
    """{(workload, clients, "pgfairq / skip"): the median of the ratios within a round}"""
    found = {}
    for (workload, clients, system), ours in rates.items():
        for reference in REFERENCES:
            theirs = rates.get((workload, clients, reference), {})
            each = [statistics.mean(ours[number]) / statistics.mean(theirs[number])
                    for number in ours if number in theirs and any(theirs[number])]
            if system.split("_")[0] == "pgfairq" and each and like(system, reference):
                found[workload, clients, "%s / %s" % (system, reference)] = statistics.median(each)
    return found


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    most = float(sys.argv[3]) if len(sys.argv) == 4 else 15.0
    (first, first_others), (second, second_others) = (read(path) for path in sys.argv[1:3])
    first, second = ratios(first), ratios(second)
    both = [key for key in first if key in second]
    if not both:
        sys.exit("compare: the runs have no ratio in common")
    print("| workload | clients | ratio | first | second | difference |\n|---|---:|---|---:|---:|---:|")
    apart = alone = 0
    for workload, clients, what in both:
        one, other = first[workload, clients, what], second[workload, clients, what]
        difference = 100 * (other / one - 1)
        apart += abs(difference) > most
        print("| %s | %s | %s | %.2f | %.2f | %s |" % (
            workload, clients, what, one, other, ("**%+.0f %%**" if abs(difference) > most else "%+.0f %%") % difference))
    for name, here, there in (("first", first, second), ("second", second, first)):
        missing = [key for key in here if key not in there]
        alone += len(missing)
        if missing:
            print("\nOnly in the %s: %s" % (name, ", ".join(" ".join(key) for key in missing)))
    print("\n%d of %d ratios within %g %%. Processor time taken by others: median %.0f %% and %.0f %%."
          % (len(both) - apart, len(both), most, 100 * first_others, 100 * second_others))
    sys.exit(1 if apart or alone else 0)


if __name__ == "__main__":
    main()
