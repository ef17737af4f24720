from system import System


class Peer(System):
    title = "PgQ: events in the order of their arrival, in batches between ticks; a queue for each claimer"
    ahead = "an event is appended to a table without a place to be worked out; a batch is read and finished as a whole"
    notes = ("a batch is acknowledged as a whole, no single acks, no leases, one consumer a queue at a time, no priorities, no fairness."
             " Ticks are ready-made after each 1 or 100 events, which is not in its time to claim")
    pace = {"claim_one": 5000}

    def missing(self):
        if not self.cluster.number("SELECT count(*) FROM pg_catalog.pg_available_extensions WHERE name = 'pgq'"):
            return "the extension pgq is not installed (Debian: postgresql-%d-pgq3)" % (self.cluster.version() // 10000)
        return None

    def version(self):
        return self.cluster.value("SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgq'")

    def setup(self):
        super().setup()
        self.empty()

    def empty(self):
        self.cluster.sql("CALL bench_pgq.drop_queues()", "CALL bench_pgq.create_queues(1)")
        self.filled = None

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        # What is in the queues of other claimers, or in other batches, is of no use.
        if self.filled not in (None, (clients, batch)):
            tasks += self.depth()
            self.empty()
        self.filled = clients, batch
        self.cluster.sql("SET synchronous_commit = off",
                         "CALL bench_pgq.fill(%d, %d, %d, %d)" % (tasks, groups, clients, batch))

    def depth(self):
        return self.cluster.number("SELECT bench_pgq.depth()")

    def tables(self):
        return [row[0] for row in self.cluster.sql(
            "SELECT inhrelid::regclass FROM pg_catalog.pg_inherits i JOIN pgq.queue q"
            " ON i.inhparent = q.queue_data_pfx::regclass")] + ["pgq.tick", "pgq.subscription"]

    def before(self, step, clients):
        if step == "cycle" or step.startswith("claim"):
            self.cluster.sql("CALL bench_pgq.create_queues(%d)" % clients)
