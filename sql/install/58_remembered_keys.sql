-- Unique keys that are remembered for a time, of all queues. A key may have several
-- rows, of which the last counts. They go with the settings of the queue.
CREATE TABLE fairq_internal.remembered_key (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    unique_key pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    task pg_catalog.int8 NOT NULL,
    until pg_catalog.timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX remembered_key_by_key ON fairq_internal.remembered_key USING btree (queue, unique_key);
CREATE INDEX remembered_key_by_until ON fairq_internal.remembered_key USING btree (queue, until);
SELECT pg_catalog.pg_extension_config_dump('fairq_internal.remembered_key', '');

-- It has no primary key: a publication of all tables must not refuse a queue's end.
ALTER TABLE fairq_internal.remembered_key REPLICA IDENTITY FULL;

-- As with fairq.group_setting: only a deletion of the queue is looked after.
ALTER TABLE fairq_internal.remembered_key DISABLE TRIGGER ALL;
REVOKE ALL ON fairq_internal.remembered_key FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.remembered_key_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_remembered_key_written';
COMMENT ON FUNCTION fairq_internal.remembered_key_written IS 'Row trigger of fairq_internal.remembered_key: tells the engine of rows, also of those that a restore writes.';

CREATE TRIGGER fairq_remembered_key_written
    AFTER INSERT OR UPDATE ON fairq_internal.remembered_key
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.remembered_key_written();
ALTER TABLE fairq_internal.remembered_key ENABLE ALWAYS TRIGGER fairq_remembered_key_written;
