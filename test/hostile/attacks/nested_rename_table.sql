-- as: creator
-- Rename the table, and put that of another queue there, whose columns are in another order.
SELECT fairq.create_queue('a', policy => 'priority', buckets => 1);
SELECT fairq.create_queue('b', policy => 'priority', buckets => 1);
CREATE TEMP TABLE script AS SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END, ', '
	ORDER BY CASE attname WHEN 'priority' THEN 5 WHEN 'enqueued_at' THEN 6 WHEN 'payload' THEN 4 ELSE 7 + attnum END) AS columns
	FROM pg_attribute WHERE attrelid = 'fairq.q_a'::regclass AND attnum > 0;
DROP TABLE fairq.q_a;
SELECT format('CREATE TABLE fairq.q_a (%s, CONSTRAINT id_of_a PRIMARY KEY (id))', columns) FROM script \gexec
CREATE INDEX address_of_a ON fairq.q_a (address) WHERE address IS NOT NULL;
CREATE INDEX due_of_a ON fairq.q_a (run_at) WHERE state = 's';
CREATE INDEX overflow_of_a ON fairq.q_a (hashtextextended(group_key COLLATE "C", 0), priority, id) WHERE state = 'o';
CREATE INDEX key_of_a ON fairq.q_a (unique_key COLLATE "C") WHERE unique_key IS NOT NULL AND state <> 'd';
CREATE INDEX held_of_a ON fairq.q_a (id) WHERE state = 'h';
CREATE SEQUENCE fairq.ids_of_a INCREMENT 1000 MINVALUE 1 START 10000001 OWNED BY fairq.q_a.id;
CREATE TRIGGER fairq_row_written AFTER INSERT OR UPDATE OR DELETE ON fairq.q_a FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
ALTER TABLE fairq.q_a ENABLE ALWAYS TRIGGER fairq_row_written;
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF attack.first_time() THEN
		ALTER TABLE fairq.q_a RENAME TO q_gone;
		PERFORM attack.try('SELECT fairq.peek(''a'')'), attack.try('SELECT fairq.peek(''b'')');
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_a ADD CHECK (attack.trick());
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('a', ARRAY(SELECT '1'::jsonb FROM generate_series(1, 1001)), priorities => ARRAY[x'00004141deadbeef'::bigint]);
DROP TABLE fairq.q_gone, fairq.q_b;
DROP TABLE fairq.q_a;
