from measure import BenchError
from system import System


class Peer(System):
    title = "the queue `bench` with default settings (16 buckets, policy fair)"
    fair = weights = core = True
    binary = ("claim_many",)
    options = ""
    driver = {
        "enqueue_one": "SELECT fairq.enqueue('bench', $1::jsonb, group_key => $2)",
        "enqueue_many": "SELECT cardinality(fairq.enqueue_many('bench', $1::jsonb[], $2::text[]))",
        "claim": "SELECT receipt::text AS handle, group_key FROM fairq.claim('bench', {n})",
        "ack": "SELECT count(*) FROM fairq.ack_many($1::uuid[])",
    }

    def __init__(self, name, bench):
        super().__init__(name, bench)
        self.table = "fairq.q_bench"

    def version(self):
        return self.cluster.value("SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgfairq'")

    def setup(self):
        self.cluster.sql("CREATE EXTENSION pgfairq", "CREATE SCHEMA " + self.schema)
        # Backlogs here are above the default limits, in versions that have limits.
        options = ", max_ready => 100000000, max_ready_per_group => 100000000"
        try:
            self.cluster.sql("SELECT fairq.create_queue('probe'%s)" % options,
                             "SELECT fairq.drop_queue('probe')")
            self.options = options
        except BenchError:
            pass
        self.create_queue("bench")
        self.run_sql_file("setup")

    def create_queue(self, queue):
        self.cluster.sql("SELECT fairq.create_queue('%s'%s)" % (queue, self.options))

    def empty(self):
        self.cluster.sql("SELECT fairq.drop_queue('bench')")
        self.create_queue("bench")

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        self.fill_queue("bench", tasks, groups)

    def fill_queue(self, queue, tasks, groups):
        self.cluster.sql("CALL bench_pgfairq.fill('%s', %d, %d)" % (queue, tasks, groups))

    def variables(self, step):
        # the receipt of the task before the first
        return {"receipt": "00000000-0000-0000-0000-000000000000"}
