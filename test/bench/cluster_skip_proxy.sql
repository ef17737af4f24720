-- The same table from a proxy: at any node, and what is done at the node of its ids. The
-- caller has made the server skip, with a connection for each node.
CREATE USER MAPPING FOR PUBLIC SERVER skip;
CREATE SCHEMA skip;

CREATE FUNCTION skip.enqueue(payload jsonb, group_key text) RETURNS bigint LANGUAGE plproxy AS $$
	CLUSTER 'skip'; RUN ON ANY; SELECT skip.enqueue($1, $2);
$$;

CREATE FUNCTION skip.enqueue_many(payloads jsonb[], group_keys text[]) RETURNS bigint[] LANGUAGE plproxy AS $$
	CLUSTER 'skip'; RUN ON ANY; SELECT skip.enqueue_many($1, $2);
$$;

CREATE FUNCTION skip.claim(n int, OUT id bigint, OUT group_key text, OUT payload jsonb)
RETURNS SETOF record LANGUAGE plproxy AS $$
	CLUSTER 'skip'; RUN ON ANY; SELECT id, group_key, payload FROM skip.claim($1);
$$;

-- nodes are numbered from 1, PL/Proxy's connections from 0
CREATE FUNCTION skip.place_of(ids bigint[]) RETURNS int LANGUAGE sql IMMUTABLE AS $$
	SELECT (ids[1] >> 48)::int - 1
$$;

CREATE FUNCTION skip.done(ids bigint[]) RETURNS int LANGUAGE plproxy AS $$
	CLUSTER 'skip'; RUN ON skip.place_of($1); SELECT skip.done($1);
$$;
