"""Plants small faults in the sources and counts how many of them the tests find.

    mutants.py WORK SEED NUMBER JOBS [ONE...]

WORK has a directory for each of the JOBS, 1 to JOBS: in it tree, a copy of the checkout
that was built, and root, a server of its own into which that was installed. The faults
are drawn at random over all places of src/**/*.c and cluster/*.c, or of those whose names begin as
FILES in the environment says; the same seed draws the same faults
from the same sources; with numbers of some, only these are tried. One that gives the same
object code is no fault; nor is one with a warning, which the build refuses. The tests that test/mutation/subjects names for the file come
first, those of SQL and of the isolation tester; then all others of these; then the TAP
tests that are named. The first that fails, crashes or hangs has found the fault, if it
passes without it. The exit status is 0 when more than 90 in 100 are found.

Faults: a condition negated; < and <=, > and >=, == and !=, && and || exchanged;
1 not added or taken away; true and false exchanged; a call whose result nobody
uses left out. Not in what only words a message, asserts, or declares.

To see it refuse: name a test in subjects that is not there.
"""
import glob
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# The kinds of tests, and where those of a name are.
KINDS = {"sql": "test/sql/%s.sql", "specs": "test/specs/%s.spec", "t": "test/t/%s.pl"}
SECONDS = {"unit": 120, "sql": 60, "specs": 60, "t": 600}  # of silence, after which a test hangs
SLOWER = int(os.environ.get("SLOWER") or 1)
FILES = tuple(os.environ.get("FILES", "").split())  # the beginnings of names; none: all

# Within these nothing is changed: words for people, and what a build leaves out.
NOT_IN = re.compile(r"\b(?:ereport|elog|errmsg\w*|errhint|errdetail\w*|errcode|Assert\w*|StaticAssert\w*)\s*\(")

FAILED = re.compile(r"test (\S+) +\.\.\. FAILED|not ok \d+ +- (\S+)|#\s+Failed test|Bail out!|\S+ .*\(Wstat: [1-9]")
DIED = re.compile(r"PANIC:|TRAP:|was terminated by signal")

# (name, pattern, replacement); a space at each side keeps out ->, <<, templates of pointers.
OPERATORS = [
    ("relation", r" < ", " <= "), ("relation", r" <= ", " < "),
    ("relation", r" > ", " >= "), ("relation", r" >= ", " > "),
    ("relation", r" == ", " != "), ("relation", r" != ", " == "),
    ("and, or", r" && ", " || "), ("and, or", r" \|\| ", " && "),
    ("by one", r" \+ 1\b(?!\.)", ""), ("by one", r" - 1\b(?!\.)", ""),
    ("by one", r"\+\+(?=[;)])", " += 0"), ("by one", r"--(?=[;)])", " -= 0"),
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
                        after = re.match(r"\t+", line)[0] + "(void) 0;"
                    elif replacement is None:
                        opening = match.end() - 1
                        end = closing(seen, opening)
                        if end != len(seen):
                            continue
                        after = line[:opening] + "(!" + line[opening:end] + ")" + line[end:]
                    else:
                        after = line[:match.start()] + replacement + line[match.end():]
                    yield Fault(file, number, kind, line, after)


def chosen(tree):
    """The sources in which faults are planted, and what of FILES fits none."""
    there = {file: os.path.basename(file) for file in sources(tree)}
    return ([file for file in there if not FILES or there[file].startswith(FILES)],
            [name for name in FILES if not any(file.startswith(name) for file in there.values())])


def names(tree, kind):
    pattern = os.path.join(tree, KINDS[kind])
    return sorted(os.path.basename(path)[:-len(os.path.splitext(pattern)[1])] for path in glob.glob(pattern % "*"))


def sources(tree):
    return sorted(os.path.relpath(path, tree) for path in glob.glob(os.path.join(tree, "src/**/*.c"), recursive=True) + glob.glob(os.path.join(tree, "cluster/*.c")))


def subjects(tree):
    """{beginning of a source's name: its tests}, and what is wrong with it."""
    found, wrong = {}, []
    there = [os.path.basename(file)[:-2] for file in sources(tree)]
    tests = {name for kind in KINDS for name in names(tree, kind)} | {"unit"}
    with open(os.path.join(tree, "test/mutation/subjects"), encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                wrong += ["%s is named twice" % words[0]] * (words[0] in found)
                wrong += ["no test is called %s, as %s has it" % (name, words[0]) for name in words[1:] if name not in tests]
                found[words[0]] = words[1:]
    used = {key_of(name, found) for name in there}
    wrong += ["%s has no tests" % name for name in there if not found.get(key_of(name, found))]
    wrong += ["no source is meant by %s" % key for key in found if key not in used]
    return found, wrong


def key_of(name, table):
    return max((key for key in table if name.startswith(key)), key=len, default=None)


def tests_for(tree, file, table):
    """[(kind, tests)] in the order in which they are run."""
    mine = table[key_of(os.path.basename(file)[:-2], table)]
    named = {kind: [name for name in mine if name in names(tree, kind)] for kind in KINDS}
    rest = {kind: [name for name in names(tree, kind) if name not in named[kind]] for kind in KINDS}
    order = [("unit", ["unit"])] if "unit" in mine else []
    order += [("sql", named["sql"]), ("specs", named["specs"]), ("sql", rest["sql"]), ("specs", rest["specs"])]
    return [(kind, tests) for kind, tests in order if tests] + [("t", [name]) for name in named["t"]]


running = set()  # the leaders of process groups under way


def stop(*_):
    for process in list(running):
        end(process)
    os._exit(143)


def end(process):
    """Servers that TAP tests started end with their tests, and have a moment for it."""
    for sent, seconds in (signal.SIGTERM, 20), (signal.SIGKILL, 5):
        try:
            process.poll()
            os.killpg(process.pid, sent)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return


class Place:
    """A tree and a server, for a fault at a time."""

    def __init__(self, work, number):
        self.home = os.path.join(work, str(number))
        self.tree = os.path.join(self.home, "tree")
        bindir = self.told("pg_config", "--bindir")
        self.bindir = os.path.join(self.home, "root" + bindir)
        self.config = os.path.join(self.bindir, "pg_config")
        self.libraries = self.told(self.config, "--pkglibdir")
        self.data = os.path.join(self.home, "data")
        self.empty = os.path.join(self.home, "empty")
        self.log = os.path.join(self.home, "log")
        self.sound = {}  # {test: passes without a fault}
        if not os.path.exists(self.empty):
            subprocess.run([os.path.join(self.bindir, "initdb"), "-D", self.empty, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                            "--no-locale", "--no-sync"], stdout=subprocess.DEVNULL, check=True)
            with open(os.path.join(self.empty, "postgresql.conf"), "a", encoding="utf-8") as f:
                f.write("listen_addresses = ''\nunix_socket_directories = '%s'\nshared_preload_libraries = 'pgfairq'\n"
                        "fsync = off\nmax_prepared_transactions = 10\nlog_min_messages = log\n" % self.home)

    @staticmethod
    def told(program, option):
        return subprocess.run([os.environ.get("PG_CONFIG", program) if program == "pg_config" else program, option],
                              stdout=subprocess.PIPE, check=True, text=True).stdout.strip()

    def make(self, *arguments):
        return subprocess.run(["make", "-s", "-C", self.tree, "with_llvm=no", *arguments],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def object_code(self, file, *arguments):
        """What the compiler makes of it, without what a debugger needs; None if it refuses."""
        target = file[:-2] + ".o"
        folder = "cluster" if file.startswith("cluster/") else "."
        if not self.make("-C", folder, "-B", os.path.relpath(target, folder), "COPT=-g0", *arguments):
            return None
        with open(os.path.join(self.tree, target), "rb") as f:
            return f.read()

    def install(self):
        if not self.make("pgfairq.so") or not self.make("-C", "cluster", "pgfairq_cluster.so"):
            raise RuntimeError("the libraries cannot be linked")
        for built in ("pgfairq.so", "cluster/pgfairq_cluster.so"):
            library = os.path.join(self.libraries, os.path.basename(built))
            shutil.copy(os.path.join(self.tree, built), library + ".new")
            os.rename(library + ".new", library)

    def server(self, *command):
        return subprocess.run([os.path.join(self.bindir, "pg_ctl"), "-D", self.data, "-l", self.log, "-s", "-w", "-t", "60", *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def command(self, command, seconds, **env):
        """Runs it to its end or to its first failure: None if there was none, else what failed."""
        seconds *= SLOWER
        process = subprocess.Popen(command, cwd=self.tree, env=dict(os.environ, **env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")
        running.add(process)
        said, status, heard, done, hangs = None, None, [time.monotonic()], threading.Event(), []

        def listen():
            while not done.wait(1):
                if time.monotonic() - heard[0] > seconds:
                    hangs.append("nothing for %d s" % seconds)
                    end(process)
                    return

        listener = threading.Thread(target=listen)
        listener.start()
        for line in process.stdout:
            heard[0] = time.monotonic()
            match = FAILED.match(line)
            if match:
                said = match[1] or match[2] or line.strip()
                break
        if said is None:
            status = process.wait()
        done.set()
        end(process)
        listener.join()
        said = hangs[0] if hangs else said
        process.stdout.close()
        running.discard(process)
        if said is None and status != 0:
            said = "exit code %d" % status
        return said

    def tests(self, kind, tests):
        """Runs tests of a kind: None if all passed, else (what failed first, how)."""
        if kind == "unit":
            said = self.command(["test/unit/run.sh"], SECONDS[kind], PG_CONFIG=self.config, INDENT_TOOLS="no")
            return said and ("unit", said)
        installcheck = ["make", "-s", "--no-print-directory", "installcheck", "PG_CONFIG=" + self.config, "with_llvm=no"]
        if kind == "t":
            said = self.command(installcheck + ["REGRESS=", "ISOLATION=", "PROVE_FLAGS=", "PROVE_TESTS=" + " ".join(KINDS[kind] % test for test in tests)],
                                SECONDS[kind])
            for path in glob.glob(os.path.join(self.tree, "tmp_check/*/pgdata/postmaster.pid")):
                subprocess.run([os.path.join(self.bindir, "pg_ctl"), "-D", os.path.dirname(path), "-m", "immediate", "-s", "stop"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return said and (tests[0], said)
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.empty, self.data)
        with open(self.log, "w", encoding="utf-8"):
            pass
        if not self.server("start"):
            return tests[0], "the server does not start"
        try:
            if kind == "sql":
                tests = ["setup"] + [test for test in tests if test != "setup"]
            both = {"sql": ["ISOLATION=", "REGRESS=" + " ".join(tests)], "specs": ["REGRESS=", "ISOLATION=" + " ".join(tests)]}
            said = self.command(installcheck + ["TAP_TESTS=", *both[kind]], SECONDS[kind], PGHOST=self.home, PGUSER="postgres")
        finally:
            self.server("stop", "-m", "immediate")
        with open(self.log, encoding="utf-8", errors="replace") as f:
            died = DIED.search(f.read())
        if died:
            said = "%s, and a server process died" % said if said else "a server process died"
        return said and (said if said in tests else tests[-1] if len(tests) == 1 else said, said)

    def with_fault(self, fault, table):
        """(what became of it, by what)"""
        path = os.path.join(self.tree, fault.file)
        before = self.object_code(fault.file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        lines = text.split("\n")
        lines[fault.line - 1] = fault.after
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        try:
            after = self.object_code(fault.file)
            if after is None:
                return "does not compile", "", None
            if after == before:
                return "same code", "", None
            if self.object_code(fault.file, "WERROR=1") is None:
                return "a warning", "", None
            self.install()
            for kind, tests in tests_for(self.tree, fault.file, table):
                said = self.tests(kind, tests)
                if said:
                    return "found", said, kind
            return "NOT FOUND", "", None
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            self.object_code(fault.file)
            self.install()

    def judge(self, fault, table):
        what, by, kind = self.with_fault(fault, table)
        if what != "found":
            return what, ""
        test, said = by
        # What fails without a fault finds none.
        if kind in KINDS and test in names(self.tree, kind):
            if test not in self.sound:
                self.sound[test] = self.tests(kind, [test]) is None
            if not self.sound[test]:
                return "UNSOUND", test
        return what, test if said == test else "%s: %s" % by


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    work, seed, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    jobs = int(sys.argv[4])
    only = [int(one) for one in sys.argv[5:]]
    tree = os.path.join(work, "1", "tree")
    table, wrong = subjects(tree)
    if wrong:
        print("test/mutation/subjects: " + "\ntest/mutation/subjects: ".join(wrong), file=sys.stderr)
        return 2
    files, wrong = chosen(tree)
    if wrong:
        print("FILES: no source's name begins with " + ", ".join(wrong), file=sys.stderr)
        return 2
    all_faults = [fault for file in files for fault in faults_of(tree, file)]
    drawn = random.Random(seed).sample(all_faults, min(number, len(all_faults)))
    print("seed %s: %d of %d places" % (seed, len(drawn), len(all_faults)), flush=True)
    todo = queue.Queue()
    for n, fault in enumerate(drawn, 1):
        if not only or n in only:
            todo.put((n, fault))
    counts, lock = {}, threading.Lock()

    def work_off(place):
        while True:
            try:
                n, fault = todo.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            try:
                what, by = place.judge(fault, table)
            except Exception as error:  # the others go on
                what, by = "NOT TRIED", repr(error)
            with lock:
                counts[what] = counts.get(what, 0) + 1
                print("%3d  %-16s  %4d s  %-40s  %s\n     now: %s" % (n, what, time.monotonic() - began, by, fault, fault.after.strip()), flush=True)

    threads = [threading.Thread(target=work_off, args=[Place(work, n)]) for n in range(1, jobs + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
