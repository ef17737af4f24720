-- as: owner
-- Rename the table while another role publishes, acknowledges or maintains.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE fairq.q_theirs RENAME COLUMN lease TO lease2;
	PERFORM attack.try('SELECT fairq.peek(''theirs'')'), attack.try('SELECT fairq.enqueue(''theirs'', ''1'')');
	ALTER TABLE fairq.q_theirs RENAME COLUMN lease2 TO lease;
	ALTER TABLE fairq.done_theirs RENAME COLUMN payload TO payload2;
	PERFORM attack.try('SELECT fairq.ack(receipt) FROM fairq.claim(''theirs'')');
	ALTER TABLE fairq.done_theirs RENAME COLUMN payload2 TO payload;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.try('SELECT attack.trick()') IS NOT NULL) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.try('SELECT attack.trick()') IS NOT NULL) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[5]));
SELECT fairq.nack(receipt) FROM fairq.claim('theirs', 5);
SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 5);
