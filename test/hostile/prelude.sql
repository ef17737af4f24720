-- Run before each attack, as the attacker, in a schema of his own. What the
-- attacks have in common is code that says as whom it runs: into the server's
-- log, because that is not rolled back and takes no privilege.

CREATE FUNCTION attack.ran(how text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RAISE LOG 'hostile code: attack as=% session=% by=%', current_user, session_user, how;
	RETURN true;
END
$$;

-- What an index, a generated column or a planner takes for harmless.
CREATE FUNCTION attack.sneaky(value text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	PERFORM attack.ran('sneaky ' || value);
	RETURN true;
END
$$;

-- Do something once in a session, and tell whether it is to be done.
CREATE FUNCTION attack.first_time() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF current_setting('attack.done', true) = 'yes' THEN
		RETURN false;
	END IF;
	PERFORM set_config('attack.done', 'yes', false);
	RETURN true;
END
$$;

-- Run a command, whatever comes of it.
CREATE FUNCTION attack.try(command text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;

-- Tries to become somebody else.
CREATE FUNCTION attack.escape() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	command text;
BEGIN
	FOREACH command IN ARRAY ARRAY['RESET ROLE', 'SET ROLE NONE', 'SET ROLE postgres', 'SET SESSION AUTHORIZATION DEFAULT',
		'SELECT set_config(''role'', ''postgres'', false)', 'SELECT set_config(''session_authorization'', ''postgres'', false)',
		'CREATE TEMP TABLE attack_temp (x int DEFAULT attack.sneaky(''temp'')::int)', 'PREPARE hostile AS SELECT attack.sneaky(''prepared'')',
		'DECLARE hostile CURSOR WITH HOLD FOR SELECT attack.sneaky(''cursor'')',
		'SELECT set_config(''search_path'', ''attack, pg_catalog'', false)', 'LISTEN hostile', 'DISCARD ALL']
	LOOP
		PERFORM attack.try(command);
		PERFORM attack.ran('escape by ' || command);
	END LOOP;
	RETURN true;
END
$$;
GRANT USAGE ON SCHEMA attack TO PUBLIC;

-- Users of a tenant that are made up, each with a task, for as long as they are not refused.
CREATE FUNCTION attack.flood(tenant text, class int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	n bigint := 0;
	many int := 1000;
BEGIN
	WHILE many > 0 LOOP
		BEGIN
			PERFORM fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[many]), group_keys => ARRAY[tenant], priorities => ARRAY[class],
				subgroup_keys => ARRAY(SELECT format('made up %s', n + i) FROM generate_series(1, many) i));
			n := n + many;
		EXCEPTION WHEN configuration_limit_exceeded THEN
			many := many / 2;
		END;
	END LOOP;
	RETURN n;
END
$$;
