-- as: nobody
-- Temporary objects with our names.
CREATE TEMP TABLE queue (queue text, x boolean DEFAULT attack.ran('temp'));
CREATE TEMP TABLE q_still (id bigint);
CREATE TEMP VIEW durable_lease AS SELECT attack.ran('temp view');
CREATE FUNCTION pg_temp.int8eq(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT attack.ran(''temp'')';
SET search_path = pg_temp, fairq;
DROP TABLE q_still;
DROP VIEW durable_lease;
