-- Which queues want what is published. A subscription goes with the settings of
-- its queue.
CREATE TABLE fairq.topic (
    topic pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    PRIMARY KEY (queue, topic)
);
SELECT pg_catalog.pg_extension_config_dump('fairq.topic', '');

-- pg_restore may load this table before fairq.queue: an archive does not say that
-- it refers to it. So only a deletion there is looked after; that a queue exists
-- when a row is written is seen to by the functions, which have its table locked.
ALTER TABLE fairq.topic DISABLE TRIGGER ALL;
REVOKE ALL ON fairq.topic FROM PUBLIC;
GRANT SELECT ON fairq.topic TO PUBLIC;
COMMENT ON TABLE fairq.topic IS 'Subscriptions of queues to topics; written by fairq.subscribe() and fairq.unsubscribe(), read through the view fairq.topics';

CREATE FUNCTION fairq.subscribe(topic text, queue text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_subscribe';
COMMENT ON FUNCTION fairq.subscribe(text, text) IS
'From the commit on a queue gets a task of everything published to a topic. topic: words joined by ''.'', where the word * stands for any one word and # for any number of words, also none; up to 255 bytes. Does nothing if the queue has that subscription. For the owner of the queue. Errors: 22023 for a bad topic, 42704, 42501.';

CREATE FUNCTION fairq.unsubscribe(topic text, queue text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_unsubscribe';
COMMENT ON FUNCTION fairq.unsubscribe(text, text) IS
'End the subscription of a queue to a topic, which is named as it was subscribed to. Returns false if there is none. Tasks that are in the queue stay. For the owner of the queue. Errors: 22023 for a bad topic, 42704, 42501.';

CREATE FUNCTION fairq.publish(topic text, payload jsonb,
    group_key text DEFAULT '', priority bigint DEFAULT NULL, cost double precision DEFAULT 1,
    run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, on_duplicate text DEFAULT 'keep',
    max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, unique_for interval DEFAULT NULL,
    delay interval DEFAULT NULL)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_publish';
COMMENT ON FUNCTION fairq.publish(text, jsonb, text, bigint, double precision, timestamptz, text, text, int, interval, jsonb, timestamptz, interval, interval) IS
'Enqueue a task in every queue with a subscription that the topic matches, one in each; returns in how many. topic: words joined by ''.'', up to 255 bytes, without * and #. The other arguments are those of fairq.enqueue(), and as good for each of the queues. Needs INSERT on all of them. Errors: 22023 for a bad topic or an argument that one of the queues does not take, 42501, and those of fairq.enqueue(); the message names the queue, and no queue has a task then.';
