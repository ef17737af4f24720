from system import System


class Peer(System):
    title = "the classic `FOR UPDATE SKIP LOCKED` table with a partial index"
    ahead = {"enqueue": "enqueueing works out no place between the groups: a shorter row and its two index entries"}
    core = True
    binary = ("claim_many",)
    driver = {
        "enqueue_one": "INSERT INTO bench_skip.task (payload, group_key) VALUES ($1::jsonb, $2)",
        "enqueue_many": "INSERT INTO bench_skip.task (payload, group_key)"
                        " SELECT * FROM unnest($1::jsonb[], $2::text[])",
        "claim": "UPDATE bench_skip.task SET state = 'running', attempts = attempts + 1, locked_until = now() + '30 s'"
                 " WHERE id = ANY (ARRAY(SELECT id FROM bench_skip.task WHERE state = 'ready' ORDER BY priority, id"
                 " LIMIT {n} FOR UPDATE SKIP LOCKED)) RETURNING id::text AS handle, group_key",
        "ack": "DELETE FROM bench_skip.task WHERE id = ANY ($1::bigint[])",
    }
    notes = "in order of arrival, no fairness; no receipts; whoever gets back what a dead worker left has to be written"

    def variables(self, step):
        # the task before the first
        return {"id": -1}
