"""What a measured system is: a directory below systems/. README.md tells what one consists of."""

import importlib.util
import os
import re

from measure import BenchError, binary, pgbench

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECTORY = os.path.join(HERE, "systems")
# These come first, in this order: pgfairq because the bare table copies its own.
FIRST = ["pgfairq", "floor", "skip"]
# The form of a step that is its script in the binary format, without a script of its own.
BINARY = "binary"


class System:
    """The defaults suit a table <schema>.task with columns group_key and payload, and defaults for the others."""

    title = ""          # what it is, in a few words, for the report
    # Why, where it is ahead of pgfairq: "enqueue", "claim" (with the ack), "mix" (all together), "wal" (of a task's life).
    ahead = {}
    fair = False        # does it promise fairness between groups?
    weights = False     # and in proportion to weights?
    core = False        # measured in every round and with every number of clients
    postgres = True     # its tasks are rows of the cluster
    notes = ""          # what a reader of the figures has to know
    without = ()        # steps it cannot be measured in although its scripts could be put together
    pace = {}           # step: more tasks a second than it ever did, to know how many it needs; see tasks_for
    environment = {}    # of pgbench
    binary = ()         # steps that are measured in the protocol's binary format, too; see statements()
    # Statements for a workload that talks to the server itself, parameters as
    # libpq has them: enqueue_one($1 payload as text, $2 group), enqueue_many($1
    # jsonb[], $2 text[]), claim ({n} is the number of tasks) -> (handle text,
    # group_key text), ack($1 text[] of handles). A system may have none.
    driver = {}
    # Who cannot be consumed with these has consumer(calls, session, batch), which
    # returns an object with take() and finish() as clients.Consumer has them.
    consumer = None
    consumers = None    # in the steady mix of W5, if not as many as others have

    def __init__(self, name, bench):
        self.name, self.bench, self.cluster = name, bench, bench.cluster
        self.directory = os.path.join(DIRECTORY, name)
        self.schema = "bench_" + name
        self.table = self.schema + ".task"

    # -- life ----------------------------------------------------------------

    def missing(self):
        """Why it cannot be measured here, or nothing. Also the place to install what needs no root."""
        return None

    def version(self):
        """What was measured, for the report; nothing for what is in this directory."""
        return ""

    def setup(self):
        self.cluster.sql("CREATE SCHEMA " + self.schema)
        self.run_sql_file("setup")

    def close(self):
        """Ends what it started outside the cluster. Called once, also after errors."""

    # -- tasks ---------------------------------------------------------------

    def empty(self):
        self.cluster.sql("TRUNCATE " + self.table)

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        """Adds tasks that can be claimed; by so many claimers, so many at a time, if that matters to it."""
        self.cluster.sql("CALL bench.fill('%s', %d, %d)" % (self.table, tasks, groups))

    def depth(self):
        """How many tasks there are that are not finished."""
        return self.cluster.number("SELECT count(*) FROM " + self.table)

    def tables(self):
        """Those that grow and shrink with the tasks."""
        return [self.table]

    def vacuum(self):
        self.cluster.sql("VACUUM ANALYZE " + ", ".join(self.tables()))

    def size(self):
        return sum(self.cluster.number("SELECT pg_total_relation_size('%s')" % table) for table in self.tables())

    def tasks_for(self, step, seconds):
        """A backlog that outlasts so many seconds of claiming."""
        return int(self.pace.get(step, 75000) * seconds * max(1, (os.cpu_count() or 1) / 2))

    # -- measuring -----------------------------------------------------------

    def run_sql_file(self, name):
        self.cluster.sql_file(self.write(name, "", 0))

    def path(self, step, variant=""):
        return os.path.join(self.directory, step + ("." + variant if variant else "") + ".sql")

    def has(self, step, variant=""):
        if step in self.without:
            return False
        if os.path.exists(self.path(step, variant)):
            return True
        return step == "cycle" and self.has("enqueue_many") and self.has("claim_many")

    def variants(self, step):
        """The step's other forms: those scripts with a word between the step's name and '.sql', and the binary one."""
        names = [name.split(".") for name in sorted(os.listdir(self.directory))]
        found = [parts[1] for parts in names if len(parts) == 3 and (parts[0], parts[2]) == (step, "sql")]
        return found + ([BINARY] if step in self.binary and self.bench.binary_client() else [])

    def substitutions(self):
        """What stands for @NAME@ in its files; besides @SCHEMA@, and @BATCH@, the number of tasks of a call."""
        return {}

    def text(self, step, variant, batch):
        path = self.path(step, variant)
        if step == "cycle" and not os.path.exists(path):
            return self.text("enqueue_many", "", batch) + self.text("claim_many", "", batch)
        with open(path) as source:
            text = source.read()
        for name, value in dict(self.substitutions(), SCHEMA=self.schema, BATCH=str(batch)).items():
            text = text.replace("@%s@" % name, value)
        return text if text.endswith("\n") else text + "\n"

    def statements(self, step, batch=100):
        """The claim and the ack of a script, for binary.c, with a parameter instead of the variable between them."""
        text = self.text(step, "", batch)
        found = re.fullmatch(r"([^\\;]+?) *\\gset\n([^\\;]+);\n", text)
        names = re.findall(r"(?<!:):(\w+)", found.group(1) + found.group(2)) if found else []
        if len(names) != 1:
            raise BenchError("%s is not a claim with \\gset and an ack with one variable" % self.path(step))
        return found.group(1), re.sub(r"(?<!:):%s\b" % names[0], "$1", found.group(2))

    def script(self, step, variant="", batch=100):
        """The path of the script for pgbench."""
        return self.write(step, variant, batch)

    def write(self, step, variant, batch):
        directory = os.path.join(self.cluster.work, "scripts")
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, "%s-%s%s-%d.sql" % (self.name, step, variant and "-" + variant, batch))
        with open(path, "w") as target:
            target.write(self.text(step, variant, batch))
        return path

    def variables(self, step):
        """Values of the script's variables at its start; besides n = 0 and the number of clients."""
        return {}

    def before(self, step, clients):
        """Just before a measurement, after fill()."""

    def after(self, step, clients):
        """Just after it, also after one that failed."""

    def run(self, step, variant, clients, batch, variables=None, **options):
        """One measurement; what it returns: measure.pgbench()."""
        values = {"n": 0, "clients": clients}
        values.update(self.variables(step))
        values.update(variables or {})
        self.before(step, clients)
        try:
            if variant == BINARY:
                return binary(self.cluster, self.bench.binary_client(), self.statements(step, batch), clients, **options)
            return pgbench(self.cluster, self.script(step, variant, batch), clients, variables=values,
                           environment=dict(self.environment), **options)
        finally:
            self.after(step, clients)


class Entry:
    """A row of a table: a system with one form of a step."""

    def __init__(self, system, step, variant=""):
        self.system, self.step, self.variant = system, step, variant
        self.label = system.name + (variant and "_" + variant)
        self.core = system.core and (not variant or variant == BINARY or system.name == "pgfairq")


def names():
    found = sorted(name for name in os.listdir(DIRECTORY)
                   if not name.startswith((".", "_")) and os.path.isdir(os.path.join(DIRECTORY, name)))
    return [name for name in FIRST if name in found] + [name for name in found if name not in FIRST]


def peer(name):
    """systems/<name>/system.py may have a class Peer; without it the defaults have to do."""
    path = os.path.join(DIRECTORY, name, "system.py")
    if not os.path.exists(path):
        return System
    spec = importlib.util.spec_from_file_location("systems." + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Peer


def load(name, bench):
    return peer(name)(name, bench)
