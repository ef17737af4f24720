-- as: database
-- Our names in a database without the extension: a view where the engine has a table.
CREATE SCHEMA fairq;
CREATE VIEW fairq.durable_lease AS SELECT 1 AS x;
CREATE TABLE fairq.q_x ();
DROP TABLE fairq.q_x;
