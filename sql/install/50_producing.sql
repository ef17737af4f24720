CREATE FUNCTION fairq.enqueue(queue text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS bigint LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue';
COMMENT ON FUNCTION fairq.enqueue(text, jsonb, text, bigint, double precision, timestamptz, text, text, int, interval, jsonb, timestamptz, interval, interval) IS
'Enqueue a task; returns its id. It exists when and only when the transaction commits. group_key: whom it counts for, up to 1024 bytes; priority: 0 to 9 under policy fair, any under policy priority, lower first, null for the queue''s default_priority; cost: from 0.001 to 1000000, what it counts for; run_at: not claimable before, a time in the past is now; delay: the same from now on; max_attempts and lease: instead of the queue''s; expires_at: never begun after, then it ends as expired; infinity: never, whatever the queue''s expire_after. Needs INSERT. unique_key: what the task is about, 1 to 1024 bytes; if a task of the key waits, its id is returned, and it is left as it is (on_duplicate keep) or made what this call gives (replace); if one is in flight, the new one is held until that is done, or keeps or replaces the one that is held. Waits for other producers of the same key. Errors: 42704, 42501, 22023, 53400 (the queue has max_depth tasks, or one of the settings pgfairq.max_queues, max_groups and max_lanes is reached).';

CREATE FUNCTION fairq.enqueue_many(queue text, payloads jsonb[],
    group_keys text[] DEFAULT NULL, priorities bigint[] DEFAULT NULL,
    costs double precision[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    unique_keys text[] DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    unique_for interval DEFAULT NULL)
RETURNS bigint[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_enqueue_many';
COMMENT ON FUNCTION fairq.enqueue_many(text, jsonb[], text[], bigint[], double precision[], timestamptz[], text[], text, interval) IS
'Enqueue tasks; returns their ids in the order given. Arrays have one dimension and the same length; an array of length 1 stands for all, and a null element for the default, but a payload may not be null. An empty array is of length 0: beside others of length 1 nothing is enqueued. Keys are taken in their own order, whatever that of the arrays. Needs INSERT. Else, and for errors, as fairq.enqueue().';

