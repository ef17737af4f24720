-- Which held tasks wait for the end of which others, of all queues. Written by the engine.
-- In schema fairq, under a name before those of queues, and without a foreign key: so
-- a dump has these rows before the tasks, and no task is let run before they are there.
CREATE TABLE fairq.dependency (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    task pg_catalog.int8 NOT NULL,
    predecessor pg_catalog.int8 NOT NULL,
    on_dead pg_catalog."char" NOT NULL,
    failed pg_catalog.bool NOT NULL DEFAULT false,
    CONSTRAINT dependency_by_predecessor PRIMARY KEY (queue, predecessor, task)
) WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
CREATE INDEX dependency_by_task ON fairq.dependency USING btree (queue, task, predecessor);
SELECT pg_catalog.pg_extension_config_dump('fairq.dependency', '');
REVOKE ALL ON fairq.dependency FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.dependency_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_dependency_written';
COMMENT ON FUNCTION fairq_internal.dependency_written IS 'Row trigger of fairq.dependency: tells the engine of rows, also of those that a restore writes.';

CREATE TRIGGER fairq_dependency_written
    AFTER INSERT OR UPDATE OR DELETE ON fairq.dependency
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.dependency_written();
ALTER TABLE fairq.dependency ENABLE ALWAYS TRIGGER fairq_dependency_written;
