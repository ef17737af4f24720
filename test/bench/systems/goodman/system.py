from system import System


class Peer(System):
    title = "Goodman's 16 hash buckets in the primary key, claimed in turn"
    ahead = {"enqueue": "enqueueing works out no place between the groups, and there is one index"}
    notes = ("order within a bucket only, no fairness; a worker has to ask all buckets before it knows that there is"
             " nothing; an ack is not checked against the holder")
    # A driver's claim takes any bucket's, as the next bucket is the worker's to remember.
    driver = {
        "enqueue_one": "INSERT INTO bench_goodman.task (payload, group_key) VALUES ($1::jsonb, $2)",
        "enqueue_many": "INSERT INTO bench_goodman.task (payload, group_key)"
                        " SELECT * FROM unnest($1::jsonb[], $2::text[])",
        "claim": "WITH bucket AS MATERIALIZED (SELECT floor(random() * 16)::int AS n), picked AS ("
                 "SELECT t.bucket, t.exec_time, t.id FROM bench_goodman.task t WHERE t.bucket = (SELECT n FROM bucket)"
                 " AND t.exec_time <= now() AND t.status = 'queued' ORDER BY t.exec_time, t.id LIMIT {n}"
                 " FOR UPDATE SKIP LOCKED) UPDATE bench_goodman.task t SET status = 'locked',"
                 " attempts = t.attempts + 1, locked_at = now() FROM picked p"
                 " WHERE (t.bucket, t.exec_time, t.id) = (p.bucket, p.exec_time, p.id)"
                 " RETURNING t.id || ' ' || t.exec_time AS handle, t.group_key",
        "ack": "DELETE FROM bench_goodman.task t USING unnest($1::text[]) h WHERE t.bucket = abs(hashint8("
               "split_part(h, ' ', 1)::bigint) % 16) AND t.exec_time = substr(h, strpos(h, ' ') + 1)::timestamptz"
               " AND t.id = split_part(h, ' ', 1)::bigint",
    }
