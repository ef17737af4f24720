-- as: owner
-- Locks of the session that outlive the transaction, taken in the sessions of others.
CREATE FUNCTION attack.lock() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_lock_shared(4711), pg_advisory_lock_shared(8, 15);
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.lock()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.lock()) NOT VALID;
