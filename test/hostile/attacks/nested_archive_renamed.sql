-- as: creator
-- Code in the archive gives queue and archive other names, and acknowledges under them.
SELECT fairq.create_queue('other', keep_done => '1 day');
DROP TABLE fairq.q_other;
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF attack.first_time() THEN
		ALTER TABLE fairq.q_theirs RENAME TO q_other;
		ALTER TABLE fairq.done_theirs RENAME TO done_other;
		ALTER SEQUENCE fairq.ids_of_theirs RENAME TO ids_of_other;
		ALTER INDEX fairq.address_of_theirs RENAME TO address_of_other;
		ALTER INDEX fairq.due_of_theirs RENAME TO due_of_other;
		ALTER INDEX fairq.overflow_of_theirs RENAME TO overflow_of_other;
		ALTER INDEX fairq.key_of_theirs RENAME TO key_of_other;
		ALTER INDEX fairq.held_of_theirs RENAME TO held_of_other;
		RAISE LOG 'nested: %', attack.try('SELECT fairq.ack_many(array_agg(receipt)) FROM fairq.claim(''other'', 3)');
		RAISE LOG 'nested: %', attack.try('SELECT fairq.ack_many(array_agg(receipt)) FROM fairq.claim(''other'', 3)');
	END IF;
	RETURN true;
END
$$;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.trick());
\set ON_ERROR_STOP off
SELECT fairq.ack_many(array_agg(receipt)) FROM fairq.claim('theirs', 5);
SELECT fairq.ack_many(array_agg(receipt)) FROM fairq.claim('theirs', 5);
SELECT fairq.ack_many(array_agg(receipt)) FROM fairq.claim('other', 5);
ALTER TABLE IF EXISTS fairq.q_other RENAME TO q_theirs;
DROP TABLE IF EXISTS fairq.done_other CASCADE;
