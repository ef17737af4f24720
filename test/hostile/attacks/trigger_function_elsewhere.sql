-- as: owner
-- Our trigger's function on tables that are no queues, in each way there is.
CREATE TABLE attack.t (id int, address text, state text, group_key int);
CREATE TRIGGER fairq_row_written AFTER INSERT OR UPDATE OR DELETE ON attack.t FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
ALTER TABLE attack.t ENABLE ALWAYS TRIGGER fairq_row_written;
INSERT INTO attack.t VALUES (1, 'x', 'y', 2);
UPDATE attack.t SET id = 2;
DELETE FROM attack.t;
CREATE TABLE attack.q_still (id bigint, address fairq.address, state "char", group_key text);
CREATE TRIGGER fairq_row_written AFTER INSERT ON attack.q_still FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
INSERT INTO attack.q_still VALUES (1, '(0,0,0)', 'r', 'a');
CREATE VIEW attack.v AS SELECT * FROM attack.q_still;
CREATE TRIGGER fairq_row_written INSTEAD OF INSERT ON attack.v FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
CREATE TABLE attack.parts (id int) PARTITION BY LIST (id);
CREATE TRIGGER fairq_row_written AFTER INSERT ON attack.parts FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
CREATE TABLE attack.part PARTITION OF attack.parts DEFAULT;
INSERT INTO attack.parts VALUES (1);
CREATE TRIGGER before BEFORE INSERT ON attack.t FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
\set ON_ERROR_STOP off
INSERT INTO attack.v VALUES (1, '(0,0,0)', 'r', 'a');
INSERT INTO attack.t VALUES (1);
SELECT fairq_internal.row_written();
