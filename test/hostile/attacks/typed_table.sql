-- as: owner
-- The archive becomes a table of a type, which is then dropped with CASCADE.
CREATE TYPE attack.t AS (id bigint);
ALTER TABLE fairq.q_theirs REPLICA IDENTITY FULL, CLUSTER ON id_of_theirs, SET (fillfactor = 10, autovacuum_enabled = false, toast_tuple_target = 128);
ALTER TABLE fairq.q_theirs ALTER payload SET STORAGE EXTERNAL, ALTER payload SET STATISTICS 10000, ALTER payload SET COMPRESSION pglz;
ALTER TABLE fairq.q_theirs ADD COLUMN mine attack.t DEFAULT ROW(1);
DROP TYPE attack.t CASCADE;
