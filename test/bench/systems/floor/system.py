from system import System


class Peer(System):
    title = "the bare statements, on a table with the queue's columns and indexes"
    ahead = dict.fromkeys(("enqueue", "claim", "mix"),
                          "it does not do what a queue does: which rows there are, and where they belong, it is told")
    core = True
    names = values = ""     # of the columns that a task's row has besides; known after setup
    notes = "no queue: it knows beforehand which rows to delete"

    names = values = ""

    def setup(self):
        super().setup()
        # The bare table's inserts get the values a task's row has.
        columns = self.cluster.sql(
            "SELECT quote_ident(attname), format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute"
            " WHERE attrelid = 'fairq.q_bench'::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attgenerated = '' AND attname NOT IN ('id', 'address', 'group_key', 'payload') ORDER BY attnum")
        for column, kind in columns:
            literal = self.cluster.value("SELECT pg_catalog.quote_nullable(%s::text) FROM fairq.q_bench LIMIT 1" % column)
            self.names += ", " + column
            self.values += ", now()" if column == "enqueued_at" else ", %s::%s" % (literal, kind)

    def substitutions(self):
        return {"COLUMNS": self.names, "VALUES": self.values}

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        top = self.cluster.number("SELECT coalesce(max(id) + 1, 0) FROM bench_floor.task")
        for first in range(0, tasks, 100000):
            self.cluster.sql(
                "INSERT INTO bench_floor.task (id, address, group_key, payload%s)"
                " SELECT %d + i, s.address, s.group_key, bench.payload()%s FROM generate_series(%d, %d) i"
                " JOIN bench.source s ON s.n = i %% 1000000"
                % (self.names, top, self.values, first, min(first + 100000, tasks) - 1))

    def variables(self, step):
        if step == "cycle":
            # Nothing there has such an id, and none is met again by the next run.
            self.cycles = getattr(self, "cycles", 0) + 1
            return {"base": 1000000000 * self.cycles}
        if step.startswith("claim"):
            return {"base": self.cluster.number("SELECT coalesce(min(id), 0) FROM bench_floor.task")}
        return {}

    def run(self, step, variant, clients, batch, **options):
        # a constant array in the plan: see setup.sql
        self.environment = {"PGOPTIONS": "-c plan_cache_mode=force_generic_plan"} \
            if step == "enqueue" else {}
        return super().run(step, variant, clients, batch, **options)
