-- The bare table: the queue's columns, defaults, constraints and indexes, but
-- not its trigger. Ids come from a sequence as cheap as a sequence gets.
CREATE SEQUENCE bench_floor.floor_id CACHE 64;
CREATE TABLE bench_floor.task (LIKE fairq.q_bench INCLUDING ALL EXCLUDING IDENTITY);
ALTER TABLE bench_floor.task ALTER id SET DEFAULT nextval('bench_floor.floor_id');
DO $$
DECLARE
	options text;
BEGIN
	SELECT array_to_string(reloptions, ', ') INTO options
	FROM pg_catalog.pg_class WHERE oid = 'fairq.q_bench'::regclass;
	IF options <> '' THEN
		EXECUTE format('ALTER TABLE bench_floor.task SET (%s)', options);
	END IF;
END
$$;

-- Ready-made addresses, so that no bare statement computes or parses one:
-- those of bench.source, which the queue gave. For one at a time as a constant
-- array of which an element is fetched.
CREATE TABLE bench_floor.address_list (list fairq.address[]);
ALTER TABLE bench_floor.address_list ALTER list SET STORAGE EXTERNAL;
INSERT INTO bench_floor.address_list
	SELECT array_agg(address ORDER BY n) FROM bench.source WHERE n < 65536;

-- Called "immutable" so that the planner makes it a constant: the element is
-- then fetched by its number at the cost of a memory access.
CREATE FUNCTION bench_floor.addresses() RETURNS fairq.address[]
LANGUAGE sql IMMUTABLE
AS $$ SELECT list FROM bench_floor.address_list $$;

VACUUM ANALYZE bench_floor.address_list;
