-- as: owner
-- Code that sets what the session's owner relies on.
CREATE FUNCTION attack.settings() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	command text;
BEGIN
	FOREACH command IN ARRAY ARRAY['SET statement_timeout = 1', 'SET lock_timeout = 1', 'SET search_path = attack', 'SET default_transaction_read_only = on',
		'SET transaction_read_only = on', 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE', 'SET enable_indexscan = off', 'SET enable_indexonlyscan = off',
		'SET DateStyle = ''SQL, DMY''', 'SET TimeZone = ''Mars/Crater''', 'SET TimeZone = ''Asia/Tokyo''', 'SET IntervalStyle = sql_standard', 'SET bytea_output = escape',
		'SET session_replication_role = replica', 'SET synchronous_commit = on', 'SET application_name = ''pgfairq worker''', 'SET client_encoding = latin1',
		'SET ROLE owner', 'SET row_security = off', 'SET work_mem = ''64kB''', 'SET xmloption = document', 'SET constraint_exclusion = on', 'SET pgfairq.sweep_interval = 0']
	LOOP
		PERFORM attack.try(command);
	END LOOP;
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.settings()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.settings()) NOT VALID;
SELECT attack.settings();
