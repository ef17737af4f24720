-- The nodes: servers that have the queues. A node's place is the number by which PL/Proxy
-- has its connection; it stays, so what a backend knows is never of another node.
CREATE TABLE fairq.node (
    node pg_catalog.int4 NOT NULL PRIMARY KEY CHECK (node >= 0 AND node <= 32767),
    place pg_catalog.int4 NOT NULL UNIQUE CHECK (place >= 0),
    connection pg_catalog.text NOT NULL,
    state pg_catalog.text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining')),
    system pg_catalog.text -- which server and database it is, as they say
);
SELECT pg_catalog.pg_extension_config_dump('fairq.node', '');
REVOKE ALL ON fairq.node FROM PUBLIC;
GRANT SELECT (node, place, state) ON fairq.node TO PUBLIC;

-- To how many nodes the tasks of a queue go, or of a group of it, or, where queue is null,
-- of all other queues. Where there is no row, to all. Where nodes are named, to these: a
-- group that has a limit keeps its node when others are added.
CREATE TABLE fairq.spread (
    queue pg_catalog.text COLLATE pg_catalog."C",
    group_key pg_catalog.text COLLATE pg_catalog."C",
    width pg_catalog.int4 NOT NULL CHECK (width > 0),
    nodes pg_catalog.int4[],
    CHECK (queue IS NOT NULL OR group_key IS NULL)
);
CREATE UNIQUE INDEX spread_by_queue ON fairq.spread USING btree (queue, group_key) NULLS NOT DISTINCT;
CREATE INDEX spread_by_group ON fairq.spread USING btree (group_key);
SELECT pg_catalog.pg_extension_config_dump('fairq.spread', '');
REVOKE ALL ON fairq.spread FROM PUBLIC;
GRANT SELECT ON fairq.spread TO PUBLIC;

-- What PL/Proxy connects with: as the current role, whose password is of a user mapping
-- or a password file.
CREATE SERVER pgfairq FOREIGN DATA WRAPPER plproxy OPTIONS (modular_mapping '1', p0 'host=/nonexistent');
GRANT USAGE ON FOREIGN SERVER pgfairq TO PUBLIC;
CREATE USER MAPPING FOR PUBLIC SERVER pgfairq;

-- The server has what the table has, and names each connection after the node that is
-- meant: a node refuses a call for another one (src/storage/proxy_calls.c). A change of it is
-- also how all backends learn of a change of the table, at the same moment as PL/Proxy does.
CREATE FUNCTION fairq_internal.node_written()
RETURNS trigger LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    p int;
    places int;
    had text[];
    options text[] := '{}';
BEGIN
    IF TG_RELID <> 'fairq.node'::regclass THEN
        RAISE EXCEPTION 'fairq_internal.node_written() is a trigger of "fairq.node" alone'
            USING ERRCODE = 'trigger_protocol_violated', HINT = 'Drop the trigger that calls it.';
    END IF;
    -- one at least, which PL/Proxy wants
    SELECT coalesce(max(n.place), 0) + 1 INTO places FROM fairq.node n;
    SELECT array(SELECT split_part(option, '=', 1) FROM unnest(s.srvoptions) option) INTO had
        FROM pg_foreign_server s WHERE s.srvname = 'pgfairq';
    FOR p IN SELECT generate_series(0, greatest(places, cardinality(had)) - 1) LOOP
        IF p < places THEN
            options := options || format('%s p%s %L', CASE WHEN 'p' || p = ANY (had) THEN 'SET' ELSE 'ADD' END, p,
                coalesce((SELECT format('%s application_name=''pgfairq proxy, node %s''', n.connection, n.node)
                    FROM fairq.node n WHERE n.place = p), 'host=/nonexistent'));
        ELSIF 'p' || p = ANY (had) THEN
            options := options || format('DROP p%s', p);
        END IF;
    END LOOP;
    EXECUTE format('ALTER SERVER pgfairq OPTIONS (%s)', array_to_string(options, ', '));
    RETURN NULL;
END
$$;

CREATE TRIGGER fairq_node_written
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fairq.node
    FOR EACH STATEMENT EXECUTE FUNCTION fairq_internal.node_written();
ALTER TABLE fairq.node ENABLE ALWAYS TRIGGER fairq_node_written;

CREATE FUNCTION fairq.nodes_of_group(queue text, group_key text)
RETURNS int[] LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fairq_nodes_of_group';
