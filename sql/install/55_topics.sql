CREATE OR REPLACE FUNCTION fairq.subscribe(topic text, queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_subscribe';
COMMENT ON FUNCTION fairq.subscribe IS 'Have a queue get a task of everything that is published to a topic.';

CREATE OR REPLACE FUNCTION fairq.unsubscribe(topic text, queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unsubscribe';
COMMENT ON FUNCTION fairq.unsubscribe IS 'End the subscription of a queue to a topic; returns false if there is none.';

CREATE OR REPLACE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL, name text DEFAULT NULL, max_lost int DEFAULT NULL,
    subgroup_key text DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_publish';
COMMENT ON FUNCTION fairq.publish IS 'Enqueue a task in every queue that is subscribed to the topic; returns in how many.';
