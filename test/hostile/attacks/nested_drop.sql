-- as: owner
-- Code in the queue's table and in the archive drops them, and the queue.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM attack.try('SELECT fairq.drop_queue(''theirs'')'), attack.try('DROP TABLE fairq.q_theirs CASCADE'), attack.try('TRUNCATE fairq.q_theirs'),
		attack.try('DROP TABLE fairq.done_theirs'), attack.try('DROP INDEX fairq.address_of_theirs'), attack.try('DROP SEQUENCE fairq.ids_of_theirs CASCADE'),
		attack.try('ALTER TABLE fairq.q_theirs DROP COLUMN headers'), attack.try('ALTER TABLE fairq.q_theirs ADD COLUMN more int DEFAULT random()'),
		attack.try('DROP TRIGGER fairq_row_written ON fairq.q_theirs'), attack.try('ALTER TABLE fairq.q_theirs DISABLE TRIGGER ALL'),
		attack.try('REINDEX TABLE fairq.q_theirs'), attack.try('CLUSTER fairq.q_theirs USING id_of_theirs');
	RETURN true;
END
$$;
-- The archive first: the worker, when it writes what is due, drops that as soon as the queue has the check.
ALTER TABLE fairq.done_theirs ADD CHECK (attack.trick()) NOT VALID;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.trick()) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[5]));
SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 5);
