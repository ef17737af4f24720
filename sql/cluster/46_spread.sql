-- To how many nodes the tasks of a queue go, or of one of its groups; or, where queue is
-- null, of all queues of which nothing is said.
CREATE FUNCTION fairq.set_spread(queue text, width int, group_key text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('set_spread');
    IF queue IS NULL AND group_key IS NOT NULL THEN
        RAISE EXCEPTION 'argument "queue" must not be null'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give the name of the queue that the group is of.';
    ELSIF width IS NULL OR width < 1 OR width > 32767 THEN
        RAISE EXCEPTION 'invalid value for argument "width": "%"', width
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It must be 1 or more. fairq.reset_spread() takes it away.';
    END IF;
    PERFORM fairq_internal.lock_nodes();
    UPDATE fairq.spread s SET width = set_spread.width, nodes = NULL
        WHERE s.queue IS NOT DISTINCT FROM set_spread.queue AND s.group_key IS NOT DISTINCT FROM set_spread.group_key;
    IF NOT FOUND THEN
        INSERT INTO fairq.spread (queue, group_key, width) VALUES (queue, group_key, width);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION fairq.set_spread(text, int, text) FROM PUBLIC;

CREATE FUNCTION fairq.reset_spread(queue text, group_key text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM fairq_internal.require_owner('reset_spread');
    PERFORM fairq_internal.lock_nodes();
    DELETE FROM fairq.spread s
        WHERE s.queue IS NOT DISTINCT FROM reset_spread.queue AND s.group_key IS NOT DISTINCT FROM reset_spread.group_key;
    RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION fairq.reset_spread(text, text) FROM PUBLIC;
