"""Plots of a run's CSV, as SVG with gnuplot: python3 plots.py RESULTS.csv [DIRECTORY]

Called at the end of a run, too. A plot whose workload is not in the CSV is
not drawn, and an older one stays as it is.
"""

import csv
import os
import shutil
import statistics
import subprocess
import sys

# pgfairq stands out, what is no queue is grey, the others can be told apart by those who do not see red and green.
COLOURS = {"pgfairq": "#0b5fa5", "floor": "#888888", "skip": "#d55e00", "pgq": "#009e73", "goodman": "#cc79a7",
           "hatchet": "#e69f00", "hatchet_idx": "#a66f00", "graphile": "#56b4e9", "pgboss": "#8c3b3b",
           "pachot": "#6a51a3", "werner": "#b8a800", "cmb": "#4d4d4d", "pgmq": "#00a6a6"}
FALLBACK = ["#7f3c8d", "#11a579", "#3969ac", "#f2b701", "#e73f74"]
FONT = "DejaVu Sans,Helvetica,sans-serif"


def colour(system):
    return COLOURS.get(system) or FALLBACK[sum(map(ord, system)) % len(FALLBACK)]


def style(system):
    """A line's: ours thick, the bare statements dashed."""
    if system == "pgfairq":
        return 'lc rgb "%s" lw 3.5 pt 7 ps 0.55' % colour(system)
    if system == "floor":
        return 'lc rgb "%s" lw 2 dt 2 pt 1 ps 0.5' % colour(system)
    return 'lc rgb "%s" lw 1.8 pt 7 ps 0.4' % colour(system)


def ordered(systems):
    return sorted(set(systems), key=lambda name: (name != "pgfairq", name))


def text(label):
    return label.replace("_", "\\\\_")


def number(row, column):
    return float(row[column]) if row.get(column) not in (None, "") else None


class Plot:
    def __init__(self, path, title, width=860, height=460):
        self.path, self.blocks, self.curves = path, [], []
        self.lines = ['set terminal svg size %d,%d dynamic enhanced background "#ffffff" font "%s,13"' % (width, height, FONT),
                      'set output "%s"' % path, 'set title "%s" font ",15"' % title, "set border 3 lc rgb '#555555'",
                      "set tics nomirror out", 'set grid y lc rgb "#dddddd" lw 1', "set key outside right center reverse Left"]

    def add(self, *lines):
        self.lines += lines

    def data(self, rows):
        name = "$d%d" % len(self.blocks)
        self.blocks.append("%s << EOD\n%s\nEOD" % (name, "\n".join(" ".join(str(cell) for cell in row) for row in rows)))
        return name

    def curve(self, rows, how):
        self.curves.append("%s %s" % (self.data(rows), how))

    def draw(self):
        script = "\n".join(self.lines + self.blocks + ["plot " + ", \\\n  ".join(self.curves)]) + "\n"
        run = subprocess.run(["gnuplot"], input=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0 or not os.path.exists(self.path) or not os.path.getsize(self.path):
            raise OSError("gnuplot: %s" % run.stderr.strip()[:500])
        return self.path


def held_snapshot(rows, path):
    """Tasks done in each window while another session holds a snapshot."""
    series = {}
    for row in rows:
        if row["workload"] == "W5 snapshot held":
            series.setdefault(row["system"], []).append((number(row, "seconds"), max(1, number(row, "done_per_s"))))
    if "pgfairq" not in series or max(map(len, series.values())) < 2:
        return None
    plot = Plot(path, "Tasks done while another session holds a snapshot\\n"
                      "{/*0.8 8 clients enqueue one, 8 claim up to 10 and acknowledge them}")
    plot.add("set logscale y", 'set ylabel "tasks a second"', 'set xlabel "seconds since the snapshot was taken"',
             'set format y "%.0s%c"', "set xrange [0:]", 'set grid y mytics lc rgb "#dddddd", lc rgb "#eeeeee"')
    for system in ordered(series):
        plot.curve(sorted(series[system]), 'using 1:2 with linespoints %s title "%s"' % (style(system), text(system)))
    return plot.draw()


def unfairness(rows, path):
    """How far two tenants are apart, at each claim, beside the bound."""
    points = [(number(row, "tasks"), number(row, "difference"), number(row, "part_of_bound"))
              for row in rows if row["workload"] == "W9 shares" and row["system"] == "pgfairq"]
    if len(points) < 2:
        return None
    bound = statistics.median(difference / part for _, difference, part in points if part)
    plot = Plot(path, "How far tenants of weights 1 : 2 : 5 are from their shares\\n"
                      "{/*0.8 the largest difference between any two of tasks had, divided by the weight; 8 claimers of 10, 16 buckets}")
    plot.add('set ylabel "tasks, divided by the weight"', 'set xlabel "tasks claimed"', "set yrange [0:%g]" % (bound * 1.1),
             'set format x "%.0s%c"', "set xrange [0:*]")
    plot.curve([(0, bound), (points[-1][0], bound)], 'using 1:2 with lines lc rgb "#b22222" lw 2.5 dt 2 title "the bound"')
    plot.curve(points, 'using 1:2 with lines %s title "measured"' % style("pgfairq").split(" pt")[0])
    return plot.draw()


def newcomer(rows, path):
    """How long alice waits behind bob's backlog, for every system."""
    last, waits = {}, set()
    for row in rows:
        if row["workload"] in ("W9 newcomer", "W9 newcomer waits"):
            last[row["system"]] = max(number(row, "seconds"), last.get(row["system"], 0))
            if row["workload"] == "W9 newcomer waits":
                waits.add(row["system"])
    if "pgfairq" not in last:
        return None
    systems = sorted(last, key=lambda name: last[name], reverse=True)
    plot = Plot(path, "How long alice waits behind bob's 100,000 tasks\\n"
                      "{/*0.8 until the last of her ten is claimed, by 4 claimers of 10; paler: not within that time}",
                height=130 + 30 * len(systems))
    low = 10 ** -4
    plot.add("set logscale x", 'set xlabel "seconds"', "unset key", "set grid x lc rgb '#dddddd' lw 1", "unset grid", "set grid x",
             "set yrange [-0.6:%g]" % (len(systems) - 0.4), "set xrange [%g:%g]" % (low, 6 * max(last.values())),
             "set ytics (%s)" % ", ".join('"%s" %d' % (text(name), at) for at, name in enumerate(systems)),
             'set format x "%g"', "set style fill solid 1.0 noborder")
    for at, name in enumerate(systems):
        seconds = max(last[name], 2 * low)
        plot.curve([(low, at, low, seconds, at - 0.32, at + 0.32)],
                   'using 1:2:3:4:5:6 with boxxyerror fs solid %s noborder lc rgb "%s" notitle'
                   % ("0.35" if name in waits else "1.0", colour(name)))
        label = ("> %.0f s" if name in waits else "%.0f s") % last[name] if last[name] >= 9.5 else \
            ("> %.1f s" if name in waits else "%.1f s") % last[name] if last[name] >= 0.95 else "%.0f ms" % (1000 * last[name])
        plot.curve([(seconds, at, '"%s"' % label)], 'using ($1*1.12):2:3 with labels left notitle')
    return plot.draw()


def claim_cost(rows, path):
    """A claim of 100 by the number of tasks that wait."""
    series = {}
    for row in rows:
        if row["workload"] == "W7 backlog":
            series.setdefault(row["system"], []).append((number(row, "number"), number(row, "latency_ms")))
    if "pgfairq" not in series or len(series["pgfairq"]) < 2:
        return None
    plot = Plot(path, "What a claim of 100 costs as the backlog grows\\n{/*0.8 median, one client, from the message to the answer}")
    plot.add("set logscale xy", 'set ylabel "ms"', 'set xlabel "tasks waiting, in 1000 groups"', 'set format x "%.0s%c"',
             'set format y "%g"')
    for system in ordered(series):
        plot.curve(sorted(series[system]), 'using 1:2 with linespoints %s title "%s"' % (style(system), text(system)))
    return plot.draw()


def clients(rows, path):
    """Tasks a second by the number of clients, of W1, W3 and W4."""
    shown = [("W1", "enqueue 1"), ("W3", "claim 1 + ack 1"), ("W4", "claim 100 + ack 100")]
    rates = {}
    for row in rows:
        if row["workload"] in ("W1", "W3", "W4") and number(row, "tasks_per_s"):
            rates.setdefault((row["workload"], int(float(row["clients"]))), {}).setdefault(row["system"], []).append(number(row, "tasks_per_s"))
    shown = [each for each in shown if any(workload == each[0] for workload, _ in rates)]
    if not shown:
        return None
    systems = ordered(system for figures in rates.values() for system in figures if "_" not in system or system == "hatchet_idx")
    width = 960
    plot = Plot(path, "", width=width, height=60 + 240 * len(shown))
    script = plot.lines[:2] + ["set multiplot layout %d,1" % len(shown), "set border 3 lc rgb '#555555'", "set tics nomirror out",
                               'set grid y lc rgb "#dddddd" lw 1', "set key outside right center reverse Left",
                               "set style data histograms", "set style histogram clustered gap 1.5",
                               "set style fill solid 1.0 noborder", 'set format y "%.0s%c"', 'set ylabel "tasks a second"']
    for at, (workload, words) in enumerate(shown):
        numbers = sorted(count for name, count in rates if name == workload)
        mine = [system for system in systems if any(system in rates[workload, count] for count in numbers)]
        lines = []
        for count in numbers:
            figures = rates[workload, count]
            lines.append(" ".join(['"%d client%s"' % (count, "" if count == 1 else "s")] + [
                "%.1f" % statistics.median(figures[system]) if system in figures else "NaN" for system in mine]))
        values = [statistics.median(figures) for count in numbers for system, figures in rates[workload, count].items() if system in mine]
        script += ["$h%d << EOD\n%s\nEOD" % (at, "\n".join(lines)),
                   'set title "%s: %s" font ",14"' % (workload, words),
                   "set yrange [0:%g]" % (max(values) * 1.1),
                   "plot " + ", ".join('$h%d using %d:xtic(1) lc rgb "%s" title "%s"' % (at, column + 2, colour(system), text(system))
                                       for column, system in enumerate(mine))]
    script.append("unset multiplot")
    run = subprocess.run(["gnuplot"], input="\n".join(script) + "\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        raise OSError("gnuplot: %s" % run.stderr.strip()[:500])
    return path


PLOTS = {"snapshot-held.svg": held_snapshot, "fairness.svg": unfairness, "newcomer.svg": newcomer,
         "claim-cost.svg": claim_cost, "clients.svg": clients}


def write(source, directory, prefix=""):
    """The plots that could be drawn; nothing without gnuplot."""
    if not shutil.which("gnuplot"):
        return []
    with open(source, newline="") as data:
        rows = list(csv.DictReader(data))
    return [path for path in (draw(rows, os.path.join(directory, prefix + name)) for name, draw in PLOTS.items()) if path]


if __name__ == "__main__":
    for written in write(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(sys.argv[1]) or "."):
        print(written)
