-- The leases of queues with durable_leases, of all queues of the database. Part of the
-- extension, so no dump has its rows: a lease is of this server and its standbys.
CREATE TABLE fairq.durable_lease (
    queue pg_catalog.regclass NOT NULL,
    attempt pg_catalog.int4 NOT NULL,
    task pg_catalog.int8 NOT NULL,
    lease_until pg_catalog.timestamptz NOT NULL,
    claimed_at pg_catalog.timestamptz NOT NULL,
    receipt pg_catalog.uuid NOT NULL,
    of_session pg_catalog.bool NOT NULL
) WITH (fillfactor = 90, vacuum_truncate = off);
REVOKE ALL ON fairq.durable_lease FROM PUBLIC;

CREATE OR REPLACE FUNCTION fairq_internal.durable_lease_written()
RETURNS trigger LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_durable_lease_written';
COMMENT ON FUNCTION fairq_internal.durable_lease_written IS 'Row trigger of fairq.durable_lease: keeps out rows that are written by SQL, COPY or logical replication.';

CREATE TRIGGER fairq_durable_lease_written
    BEFORE INSERT OR UPDATE ON fairq.durable_lease
    FOR EACH ROW EXECUTE FUNCTION fairq_internal.durable_lease_written();
ALTER TABLE fairq.durable_lease ENABLE ALWAYS TRIGGER fairq_durable_lease_written;
