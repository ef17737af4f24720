"""The demo's main job: bob has every text file on this machine's shelves to be
counted, alice has one. Four workers count them; one is killed half way. Ends
with what happened, and with exit code 1 when anything is not as promised.

Runs against an empty database with the extension in it, found through PGHOST
and so on; demo.sh sees to that."""

import os
import signal
import statistics
import subprocess
import sys
import time

import psycopg
from pgfairq import Queue
from worker import AHEAD, QUEUE

WORKERS = 4
SHELVES = ["/usr/share/doc", "/usr/share/common-licenses"]
MORE_SHELVES = ["/usr/include", "/usr/share/perl", "/usr/lib/python3", "/usr/share"]
AT_LEAST = 1000
PATIENCE = 60  # seconds without a single new result


# --- the files --------------------------------------------------------------

def is_text(path):
    try:
        with open(path, "rb") as file:
            start = file.read(8192)
        path.encode("utf-8")
    except (OSError, UnicodeEncodeError):
        return False
    return bool(start) and b"\0" not in start and path.isprintable()


def text_files(shelf, seen):
    """The text files below a directory, through symbolic links, but each file
    and each directory once however many links lead to it."""
    for directory, subdirectories, names in os.walk(shelf, followlinks=True):
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:
            subdirectories.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        subdirectories.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            try:
                status = os.stat(path)
            except OSError:  # a link to nowhere
                continue
            if (status.st_dev, status.st_ino) not in seen and os.path.isfile(path) and is_text(path):
                seen.add((status.st_dev, status.st_ino))
                yield path


def find_files():
    seen = set()
    searched = []
    files = []
    for shelf in SHELVES + MORE_SHELVES:
        if shelf in MORE_SHELVES and len(files) >= AT_LEAST:
            break
        searched.append(shelf)
        files += text_files(shelf, seen)
    return files, searched


def wc(files):
    """What wc says of each file: {path: (lines, words)}."""
    said = {}
    for start in range(0, len(files), 500):
        some = files[start:start + 500]
        out = subprocess.run(["wc", "-lw", "--", *some], stdout=subprocess.PIPE, check=True,
                             env={**os.environ, "LC_ALL": "C"}).stdout
        for line, path in zip(out.splitlines(), some):  # the total comes last
            lines, words, _ = line.split(None, 2)
            said[path] = int(lines), int(words)
    return said


# --- what the reader sees ---------------------------------------------------

class Progress:
    """A bar that redraws itself, or, when nobody watches, a line now and then."""

    def __init__(self, total):
        self.total = total
        self.live = sys.stdout.isatty()
        self.started = time.monotonic()
        self.quarter = -1

    def show(self, done, note):
        seconds = time.monotonic() - self.started
        filled = 30 * done // self.total
        line = f"  {'#' * filled:.<30} {done:6,} of {self.total:,}  {seconds:5.1f} s  {note}"
        if self.live:
            print(f"\r{line}\033[K", end="", flush=True)
        elif 4 * done // self.total > self.quarter:
            self.quarter = 4 * done // self.total
            print(line, flush=True)

    def say(self, text):
        print(f"\r\033[K  {text}" if self.live else f"  {text}", flush=True)

    def end(self):
        if self.live:
            print()


class Checks:
    def __init__(self):
        self.failed = 0

    def check(self, holds, what):
        print(f"  {'yes' if holds else 'NO '}  {what}")
        if not holds:
            self.failed += 1


# --- the workers ------------------------------------------------------------

class Workers:
    def __init__(self):
        self.processes = {
            number: subprocess.Popen([sys.executable, "-B", os.path.join(os.path.dirname(__file__), "worker.py"),
                                      str(number)])
            for number in range(1, WORKERS + 1)}
        self.killed = None
        self.orphans = []  # the tasks the killed one held

    def wait_until_ready(self, monitor):
        while True:
            self.check_alive()
            ready, = monitor.execute("SELECT count(*) FROM fairq.sessions").fetchone()
            if ready == WORKERS:
                return
            time.sleep(0.01)

    def check_alive(self):
        for number, process in self.processes.items():
            if number != self.killed and process.poll() is not None:
                raise RuntimeError(f"worker {number} ended on its own, with exit code {process.returncode}")

    def kill_one_that_holds_leases(self, monitor):
        """Stops one worker after the other until one turns out to hold leases;
        that one is killed. False: none held any."""
        for number, process in self.processes.items():
            process.send_signal(signal.SIGSTOP)
            # What its backend was told before the stop it still finishes.
            while monitor.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND state = 'active'",
                                  (f"worker {number}",)).fetchone():
                time.sleep(0.001)
            held = monitor.execute(
                "SELECT l.id FROM fairq.leases l JOIN pg_stat_activity a USING (pid)"
                " WHERE l.queue = %s AND a.application_name = %s", (QUEUE, f"worker {number}")).fetchall()
            if held:
                process.kill()
                process.wait()
                self.killed = number
                self.orphans = [task for task, in held]
                return True
            process.send_signal(signal.SIGCONT)
        return False

    def end(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()


# --- the story --------------------------------------------------------------

def enqueue(queue, tenant, files):
    started = time.monotonic()
    queue.enqueue_many([{"file": file} for file in files], group=tenant)
    print(f"  {tenant:5}  enqueues {len(files):5,} {'file' if len(files) == 1 else 'files'}"
          f"  ({time.monotonic() - started:.2f} s)")


def watch_workers(monitor, workers, total):
    progress = Progress(total)
    done = 0
    last_news = time.monotonic()
    try:
        while done < total:
            before = done
            done, alice = monitor.execute(
                "SELECT count(*), count(*) FILTER (WHERE tenant = 'alice') FROM counted").fetchone()
            progress.show(done, "alice is done" if alice else "alice waits")
            if done > before:
                last_news = time.monotonic()
            elif time.monotonic() - last_news > PATIENCE:
                raise RuntimeError(f"nothing new for {PATIENCE} seconds")
            workers.check_alive()
            if workers.killed is None and total // 2 <= done < total \
                    and workers.kill_one_that_holds_leases(monitor):
                progress.say(f"kill -9 worker {workers.killed}, which holds {len(workers.orphans)} tasks;"
                             " the server sees its session end")
            time.sleep(0.1 if workers.killed or done < 0.4 * total else 0.01)
    finally:
        progress.end()


def report(monitor, workers, bob, alice, said_by_wc):
    def one(query, *arguments):
        return monitor.execute(query, arguments).fetchone()

    total = len(bob) + len(alice)
    place, after = one(
        "SELECT (SELECT count(*) FROM counted c WHERE c.began_at <= a.began_at),"
        " extract(epoch FROM began_at - enqueued_at)::float FROM counted a WHERE tenant = 'alice'")
    fifo_after, = one(
        "SELECT extract(epoch FROM (SELECT max(began_at) FROM counted WHERE attempt = 1) - enqueued_at)::float"
        " FROM counted WHERE tenant = 'alice'")
    print()
    print("When was alice served?    in order of beginning    after")
    print(f"  by pgfairq              {place:>10,} of {total:<10,} {after:7.2f} s")
    print(f"  first in, first out     {total:>10,} of {total:<10,} {fifo_after:7.2f} s  (when the last task was begun)")

    print()
    print("Waiting times             tasks       min    median       max")
    for tenant, in monitor.execute("SELECT DISTINCT tenant FROM counted ORDER BY 1").fetchall():
        waits = [wait for wait, in monitor.execute(
            "SELECT extract(epoch FROM began_at - enqueued_at)::float FROM counted WHERE tenant = %s", (tenant,))]
        print(f"  {tenant:20} {len(waits):10,}"
              f" {min(waits):7.2f} s {statistics.median(waits):7.2f} s {max(waits):7.2f} s")

    print()
    print("Done by                   tasks")
    for number in workers.processes:
        tasks, = one("SELECT count(*) FROM counted WHERE worker = %s", number)
        print(f"  worker {number}             {tasks:10,}{'  (killed)' if number == workers.killed else ''}")

    print()
    print("As promised?")
    checks = Checks()
    bound = WORKERS * (1 + AHEAD) + 2
    checks.check(place <= bound, f"alice was among the first {bound} begun ({WORKERS} workers have up to {1 + AHEAD} each)")
    rows, distinct = one("SELECT count(*), count(DISTINCT (tenant, file)) FROM counted")
    counted = {(tenant, file): (lines, words) for tenant, file, lines, words in
               monitor.execute("SELECT tenant, file, lines, words FROM counted")}
    wanted = {**{("bob", file): said_by_wc[file] for file in bob}, **{("alice", file): said_by_wc[file] for file in alice}}
    checks.check(rows == distinct == total and counted.keys() == wanted.keys(),
                 f"every file was counted exactly once ({rows:,} results, {len(wanted.keys() - counted.keys())} missing)")
    left, = one("SELECT count(*) FROM fairq.tasks('files')")
    checks.check(left == 0, f"nothing is left in the queue ({left} tasks)")
    taken_over, = one("SELECT count(*) FROM counted WHERE task = ANY (%s) AND worker <> %s AND attempt = 2",
                      workers.orphans, workers.killed)
    checks.check(workers.killed is not None and taken_over == len(workers.orphans) > 0,
                 f"what the killed worker held, others did at the second attempt"
                 f" ({taken_over} of {len(workers.orphans)} tasks)")
    for which, what in enumerate(("lines", "words")):
        ours = sum(counts[which] for counts in counted.values())
        theirs = sum(counts[which] for counts in wanted.values())
        checks.check(ours == theirs, f"the {what} are those of wc -{what[0]} ({ours:,} and {theirs:,})")
    different = [file for file in wanted if wanted[file] != counted.get(file)]
    checks.check(not different, f"so they are for each file ({len(different)} differ{': ' if different else ''}"
                 f"{', '.join(file for _, file in different[:3])})")
    return checks.failed == 0


def main():
    files, searched = find_files()
    if len(files) < AT_LEAST:
        print(f"only {len(files)} text files below {', '.join(searched)}; the demo needs {AT_LEAST}", file=sys.stderr)
        return 1
    bob = files
    alice = files[:1]

    monitor = psycopg.connect(application_name="demo", autocommit=True)
    queue = Queue("", QUEUE, create=True)
    queue.ensure()
    monitor.execute("CREATE TABLE counted (task bigint NOT NULL UNIQUE, tenant text, file text, lines bigint, words bigint,"
                    " worker int, attempt int, enqueued_at timestamptz, began_at timestamptz, PRIMARY KEY (tenant, file))")

    print(f"{WORKERS} workers count lines and words, and write result and acknowledgement in one transaction.")
    workers = Workers()
    try:
        queue.pause()
        workers.wait_until_ready(monitor)
        print("They are ready; the queue is paused until all files are enqueued:")
        print()
        enqueue(queue, "bob", bob)
        enqueue(queue, "alice", alice)
        print(f"  (bob's are the text files below {' and '.join(searched[:len(SHELVES)])}", end="")
        print(f"; as these are few, also below {' and '.join(searched[len(SHELVES):])})" if searched[len(SHELVES):] else ")")
        print()
        queue.resume()
        watch_workers(monitor, workers, len(bob) + len(alice))
    finally:
        workers.end()
    return 0 if report(monitor, workers, bob, alice, wc(files)) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (psycopg.Error, RuntimeError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        sys.exit(1)
