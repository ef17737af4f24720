"""Peers that are npm packages: installed beside the cluster, never into this directory.

A small script of ours, statements.mjs, is given the directory of the package's
node_modules and prints, as JSON, the SQL the package itself would send.
"""

import json
import os
import shutil
import subprocess

from measure import BenchError
from system import System


class NpmPeer(System):
    package = ""    # name@version

    def missing(self):
        if not shutil.which("node"):
            return "there is no node"
        if not shutil.which("npm"):
            return "there is no npm"
        self.modules = os.path.join(self.cluster.work, "npm-" + self.name)
        command = ["npm", "install", "--prefix", self.modules, "--ignore-scripts", "--no-fund", "--no-audit",
                   "--no-save", "--no-update-notifier", "--loglevel=error", self.package]
        self.bench.progress("%s: npm install %s" % (self.name, self.package))
        try:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, timeout=90, cwd=self.cluster.work)
        except subprocess.TimeoutExpired:
            return "npm did not get %s in 90 s" % self.package
        if run.returncode != 0:
            return "npm could not get %s: %s" % (self.package, run.stdout[-200:])
        return None

    def version(self):
        return self.package.rsplit("@", 1)[1]

    def statements(self):
        run = subprocess.run(["node", os.path.join(self.directory, "statements.mjs"),
                              os.path.join(self.modules, "node_modules")],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if run.returncode != 0:
            raise BenchError("statements.mjs failed: %s" % run.stderr[-300:])
        return json.loads(run.stdout)

    def install(self, schema):
        """The package's own SQL that makes its tables."""
        path = os.path.join(self.cluster.work, self.name + "-schema.sql")
        with open(path, "w") as target:
            target.write(schema)
        self.cluster.sql_file(path)

    def repeat(self, *statements):
        """Pairs of a statement and how often to run it; as a file, for they are too long for a command line."""
        self.install("".join((statement + ";\n") * times for statement, times in statements))
