-- as: owner
-- Long and odd comments and labels.
DO $$ BEGIN EXECUTE format('COMMENT ON TABLE fairq.q_theirs IS %L', repeat(E'\u202E''"; DROP TABLE fairq.queue; --', 50000)); END $$;
COMMENT ON COLUMN fairq.q_theirs.id IS E'\n\\! touch /tmp/hostile\n';
COMMENT ON INDEX fairq.address_of_theirs IS E'\r\n\\connect postgres\n';
ALTER TABLE fairq.q_theirs ADD COLUMN "x
\! echo" int;
ALTER TABLE fairq.q_theirs ADD CONSTRAINT "c
\! echo" CHECK (id IS NOT NULL);
