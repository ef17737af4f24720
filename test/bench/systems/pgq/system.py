from system import System


class Consumer:
    """A batch at a time, of a queue that no other has. Who finds nothing makes a tick, as there is no pgqd here."""

    NEXT = "SELECT coalesce(pgq.next_batch($1, 'worker'), 0)"

    def __init__(self, calls, session, batch):
        self.session, self.batch = session, 0
        self.queue = next("bench_%d" % i for i in range(1000) if session.value(
            "SELECT pg_try_advisory_lock(hashtext('bench pgq'), $1::int)", i) == "t")

    def take(self):
        self.batch = int(self.session.value(self.NEXT, self.queue))
        if not self.batch:
            self.session.rows("SELECT pgq.ticker($1::text)", self.queue)
            self.batch = int(self.session.value(self.NEXT, self.queue))
        if not self.batch:
            return []
        return [row[0] for row in self.session.rows("SELECT ev_extra1 FROM pgq.get_batch_events($1::bigint)", self.batch)]

    def finish(self):
        if self.batch:
            self.session.rows("SELECT pgq.finish_batch($1::bigint)", self.batch)

class Peer(System):
    title = "PgQ: events in the order of their arrival, in batches between ticks; a queue for each claimer"
    ahead = {"enqueue": "an event is appended to a table without a place to be worked out",
             "claim": "a batch is read and finished as a whole",
             "mix": "a batch is what came between two ticks, and is read and finished as a whole, so that there are few commits",
             "wal": "events are not deleted one by one: their table is truncated when all consumers have read it"}
    notes = ("a batch is acknowledged as a whole, no single acks, no leases, one consumer a queue at a time, no priorities, no fairness."
             " Ticks are ready-made after each 1 or 100 events, which is not in its time to claim")
    pace = {"claim_one": 5000}
    driver = {
        "enqueue_one": "SELECT pgq.insert_event('bench_0', 'task', $1, $2, NULL, NULL, NULL)",
        "enqueue_many": "SELECT count(pgq.insert_event('bench_0', 'task', p::text, g, NULL, NULL, NULL))"
                        " FROM unnest($1::jsonb[], $2::text[]) AS t(p, g)",
    }
    consumer = Consumer
    # A queue has one; see also consume.sql and beside.sql.
    consumers = 1

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
