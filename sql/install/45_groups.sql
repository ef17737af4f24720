-- What groups were given: null is the queue's default. It goes with the
-- settings of the queue.
CREATE TABLE fairq.group_setting (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    group_key pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    weight pg_catalog.float4,
    max_leased pg_catalog.int4,
    rate pg_catalog.float4,
    burst pg_catalog.int4,
    paused pg_catalog.bool NOT NULL DEFAULT false,
    PRIMARY KEY (queue, group_key)
);
SELECT pg_catalog.pg_extension_config_dump('fairq.group_setting', '');

-- pg_restore may load this table before fairq.queue: an archive does not say that
-- it refers to it. So only a deletion there is looked after; that a queue exists
-- when a row is written is seen to by the functions, which have its table locked.
ALTER TABLE fairq.group_setting DISABLE TRIGGER ALL;
REVOKE ALL ON fairq.group_setting FROM PUBLIC;
COMMENT ON TABLE fairq.group_setting IS 'Settings of groups; written by fairq.set_group(), fairq.pause_group() and fairq.resume_group(), shown by the view fairq.group_settings';

CREATE FUNCTION fairq.set_group(queue text, group_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group';
COMMENT ON FUNCTION fairq.set_group(text, text, double precision, int, double precision, int) IS
'Say what a group may have; null leaves one as it is. weight: its share between groups that have work, from 0.001 to 1000, for tasks that get their place from then on; max_leased: at most so many of its tasks in flight, 0 for no limit; rate: at most so many claims of its tasks a second, 0 for no limit; burst: and so many at once after a pause, 0 for as many as rate. In force for claims when it is committed. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';

CREATE FUNCTION fairq.reset_group(queue text, group_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_group';
COMMENT ON FUNCTION fairq.reset_group(text, text) IS
'Take away what a group was given: it has the defaults of the queue again, and is not paused. Returns false if it had nothing of its own. In force for claims when it is committed. For the owner of the queue. Errors: 42704, 42501, 22023.';

CREATE FUNCTION fairq.set_group_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group_defaults';
COMMENT ON FUNCTION fairq.set_group_defaults(text, double precision, int, double precision, int) IS
'Say what those groups of a queue may have each that were not given something else by fairq.set_group(), with the same arguments. For the owner of the queue. Errors: 42704, 42501, 22023, 53400 (too many groups with settings).';
