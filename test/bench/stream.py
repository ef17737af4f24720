"""pgbench in the background, so that several of them and a look at the server can go on at once."""

import os
import re
import subprocess
import threading

from measure import BenchError


class Stream:
    """One pgbench; what it says of its progress is gathered in intervals: (end, transactions a second)."""

    def __init__(self, cluster, script, clients, seconds, interval=1, variables=None, log=None, threads=None,
                 environment=None):
        command = [os.path.join(cluster.bindir, "pgbench"), "-n", "-M", "prepared", "-f", script,
                   "-c", str(clients), "-j", str(threads or min(clients, os.cpu_count() or 1)),
                   "-T", str(seconds), "-P", str(interval)]
        if log:
            command += ["-l", "--log-prefix", log]
        for name, value in (variables or {}).items():
            command += ["-D", "%s=%s" % (name, value)]
        self.script, self.intervals, self.messages = script, [], []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(environment or {})))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            found = re.match(r"progress: ([\d.]+) s, ([\d.]+) tps", line)
            if found:
                self.intervals.append((float(found.group(1)), float(found.group(2))))
            else:
                self.messages.append(line.rstrip())

    def check(self):
        if self.process.poll() not in (None, 0):
            raise BenchError("pgbench %s failed: %s" % (os.path.basename(self.script), "\n".join(self.messages[:5])))

    def wait(self, patience=60):
        """The number of transactions."""
        try:
            output, _ = self.process.stdout.read(), self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.stop()
            raise BenchError("pgbench %s did not end" % os.path.basename(self.script))
        self.reader.join(5)
        self.check()
        return int(re.search(r"actually processed: (\d+)", output).group(1))

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
