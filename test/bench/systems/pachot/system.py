from system import System


class Peer(System):
    title = "Pachot's: take and delete in one transaction, which lasts as long as the work"
    ahead = {"enqueue": "enqueueing works out no place between the groups, and there is one index",
             "claim": "taking a task and finishing it are one transaction, so there is one commit less and nothing to remember",
             "wal": "there is one index"}
    notes = ("a transaction and a connection for as long as a task runs, which holds back vacuum; no attempts, no leases;"
             " no fairness")
    # What is taken is gone when the statement has committed: no ack.
    driver = {
        "enqueue_one": "INSERT INTO bench_pachot.task (payload, group_key) VALUES ($1::jsonb, $2)",
        "enqueue_many": "INSERT INTO bench_pachot.task (payload, group_key)"
                        " SELECT * FROM unnest($1::jsonb[], $2::text[])",
        "claim": "DELETE FROM bench_pachot.task WHERE id = ANY (ARRAY(SELECT id FROM bench_pachot.task ORDER BY id"
                 " LIMIT {n} FOR UPDATE SKIP LOCKED)) RETURNING id::text AS handle, group_key",
        "ack": "SELECT cardinality($1::text[])",
    }
