"""Plants small faults in the sources and counts how many of them the tests find.

    mutants.py TREE SEED NUMBER [JOBS [FROM]]

TREE is a copy of the checkout that was built with the make variables of BUILD.
The faults are drawn at random over all places of src/**/*.c; the same seed draws the
same faults from the same sources; FROM goes on with those from that one on. Each is built in a private copy. One that gives
the same object code is no fault. Then come the quick suites, and, if those pass,
the TAP tests that test/mutation/subjects names for the file. A fault is found when
something fails, crashes or hangs. The exit status is 0 when more than 90 in 100
are found.

Faults: a condition negated; < and <=, > and >=, == and !=, && and || exchanged;
1 not added or taken away; true and false exchanged; a call whose result nobody
uses left out. Not in what only words a message, asserts, or declares.
"""
import concurrent.futures
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys

QUICK = ["unit regress", "isolation"]
HERE = os.path.dirname(os.path.abspath(__file__))

# Within these nothing is changed: words for people, and what a build leaves out.
NOT_IN = re.compile(r"\b(?:ereport|elog|errmsg\w*|errhint|errdetail\w*|errcode|Assert\w*|StaticAssert\w*)\s*\(")

# (name, pattern, replacement); a space at each side keeps out ->, <<, templates of pointers.
OPERATORS = [
    ("relation", r" < ", " <= "), ("relation", r" <= ", " < "),
    ("relation", r" > ", " >= "), ("relation", r" >= ", " > "),
    ("relation", r" == ", " != "), ("relation", r" != ", " == "),
    ("and, or", r" && ", " || "), ("and, or", r" \|\| ", " && "),
    ("by one", r" \+ 1\b(?!\.)", ""), ("by one", r" - 1\b(?!\.)", ""),
    ("by one", r"\+\+(?=[;)])", ""), ("by one", r"--(?=[;)])", ""),
    ("truth", r"\btrue\b", "false"), ("truth", r"\bfalse\b", "true"),
    ("negation", r"\b(if|while) \((?!!)(?=.*\)$)", None),
    ("negation", r"(?<=[(\s])!(?=\w)", ""),
    ("call", r"^\t+[a-z]\w*\(.*\);$", None),
]


def blank(text):
    """The text with comments and strings made blank, place by place."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", spaces, text, flags=re.M)
    for match in list(NOT_IN.finditer(text)):
        end = closing(text, match.end() - 1)
        text = text[:match.start()] + re.sub(r"[^\n]", " ", text[match.start():end]) + text[end:]
    return text


def closing(text, at):
    """The place after the parenthesis that closes the one here."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


class Fault:
    def __init__(self, file, line, kind, before, after):
        self.file, self.line, self.kind, self.before, self.after = file, line, kind, before, after

    def __str__(self):
        return "%s:%d %s: %s" % (self.file, self.line, self.kind, " ".join(self.before.split()))


def faults_of(directory, file):
    with open(os.path.join(directory, file), encoding="utf-8") as f:
        text = f.read()
    code = blank(text)
    lines, shown = text.split("\n"), code.split("\n")
    for number, (line, seen) in enumerate(zip(lines, shown), 1):
        # Functions' bodies only: declarations at the top begin in the first column.
        if seen.startswith("\t"):
            for kind, pattern, replacement in OPERATORS:
                for match in re.finditer(pattern, seen):
                    if kind == "call":
                        if closing(seen, seen.index("(")) != len(seen) - 1:
                            continue
                        after = re.match(r"\t+", line)[0] + ";"
                    elif replacement is None:
                        opening = match.end() - 1
                        end = closing(seen, opening)
                        if end != len(seen):
                            continue
                        after = line[:opening] + "(!" + line[opening:end] + ")" + line[end:]
                    else:
                        after = line[:match.start()] + replacement + line[match.end():]
                    yield Fault(file, number, kind, line, after)


def subjects():
    found = {}
    with open(os.path.join(HERE, "subjects"), encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                found[words[0]] = words[1:]
    return found


def tests_for(tree, file, table):
    """The TAP tests of a source file: those that are there."""
    name = os.path.basename(file)[:-2]
    best = max((key for key in table if name.startswith(key)), key=len, default=None)
    names = table.get(best, [])
    return ["test/t/%s.pl" % name for name in names]


def object_code(tree, file):
    """What the compiler makes of it, without what a debugger needs; None if it refuses."""
    target = file[:-2] + ".o"
    if subprocess.run(["make", "-s", "-C", tree, "-B", target, "with_llvm=no", "COPT=-g0"],
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return None
    with open(os.path.join(tree, target), "rb") as f:
        return f.read()


checks = set()  # the checks under way


def stop(*_):
    """They stop their servers and remove what they made."""
    for process in list(checks):
        process.terminate()
    for process in list(checks):
        process.wait()
    os._exit(143)


def check(tree, suites, tests=()):
    """Runs suites: None if all passed, else what failed first."""
    env = dict(os.environ, SUITES=suites, PROVE_TESTS=" ".join(tests), CI="yes", INDENT_TOOLS="no")
    with subprocess.Popen([os.path.join(tree, "test/scripts/check.sh")], env=env, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        checks.add(process)
        output = process.communicate()[0]
        checks.discard(process)
    if process.returncode == 0:
        return None
    for pattern in (r"^test (\S+) +\.\.\. +FAILED", r"^not ok \d+ +- (\S+)", r"^test/t/(\S+)\.pl .*Wstat",
                    r"^(\w+: (?:stopped after|exit code|a server process).*)"):
        match = re.search(pattern, output, re.M)
        if match:
            return match[1]
    return "the check: " + output.strip().split("\n")[-1]


def judge(number, tree, fault, work, table):
    """(what became of it, by what)"""
    mine = os.path.join(work, "fault%d" % number)
    shutil.copytree(tree, mine, symlinks=True)
    try:
        before = object_code(mine, fault.file)
        path = os.path.join(mine, fault.file)
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        lines[fault.line - 1] = fault.after
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        after = object_code(mine, fault.file)
        if after is None:
            return "does not compile", ""
        if after == before:
            return "same code", ""
        subprocess.run("find %s/src -name '*.o' -delete -o -name '*.bc' -delete; rm -f %s/*.so" % (mine, mine), shell=True, check=True)
        by = None
        for suite in QUICK:
            by = by or check(mine, suite)
        tests = tests_for(mine, fault.file, table)
        if by is None and tests:
            by = check(mine, "tap", tests)
        return ("found", by) if by else ("NOT FOUND", "")
    finally:
        shutil.rmtree(mine, ignore_errors=True)


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    tree, seed, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    jobs = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    work = os.path.dirname(tree)
    table = subjects()
    all_faults = [fault for path in sorted(glob.glob(os.path.join(tree, "src/**/*.c"), recursive=True))
                  for fault in faults_of(tree, os.path.relpath(path, tree))]
    drawn = random.Random(seed).sample(all_faults, min(number, len(all_faults)))
    print("seed %s: %d of %d places" % (seed, len(drawn), len(all_faults)), flush=True)
    counts = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(judge, n, tree, fault, work, table): (n, fault) for n, fault in enumerate(drawn, 1) if n >= first}
        for future in concurrent.futures.as_completed(futures):
            n, fault = futures[future]
            what, by = future.result()
            counts[what] = counts.get(what, 0) + 1
            print("%3d  %-16s  %-40s  %s\n%s" % (n, what, by, fault, "" if what != "NOT FOUND" else "     now: %s\n" % fault.after.strip()),
                  end="", flush=True)
    found, missed = counts.get("found", 0), counts.get("NOT FOUND", 0)
    print()
    for what in sorted(counts):
        print("%-16s %4d" % (what, counts[what]))
    if found + missed == 0:
        print("nothing was tried")
        return 1
    print("found %d of %d, %.0f %%" % (found, found + missed, 100.0 * found / (found + missed)))
    return 0 if found > 0.9 * (found + missed) else 1


if __name__ == "__main__":
    sys.exit(main())
