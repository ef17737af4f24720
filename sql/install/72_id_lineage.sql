-- To which history of the server the ids of each queue belong: after a restore or a
-- promotion it is another one, and the first who takes an id skips those that may have been
-- given out. Not dumped: a queue that has no row here does so, too.
CREATE OR REPLACE FUNCTION fairq_internal.lineage()
RETURNS text LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_lineage';
COMMENT ON FUNCTION fairq_internal.lineage IS 'Which history of the server this is: another one after a restore, a promotion or a move.';

CREATE TABLE fairq_internal.id_lineage (
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL PRIMARY KEY REFERENCES fairq.queue ON DELETE CASCADE,
    lineage pg_catalog.text NOT NULL DEFAULT fairq_internal.lineage()
);

-- As with fairq.group_setting: only a deletion of the queue is looked after.
ALTER TABLE fairq_internal.id_lineage DISABLE TRIGGER ALL;
REVOKE ALL ON fairq_internal.id_lineage FROM PUBLIC;
