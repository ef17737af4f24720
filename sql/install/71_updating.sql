-- Give the tables of a queue that was made by an earlier version what this one needs.
-- Repeatable. What an owner has done to a table may make it fail, and the table may be
-- locked: then this queue waits for it, and not the update of the extension.
CREATE OR REPLACE FUNCTION fairq_internal.update_queue(name text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    wanted record;
    queue_table regclass := to_regclass(format('fairq.%I', 'q_' || name));
    done_table regclass := (SELECT a.oid FROM pg_class a JOIN pg_class q ON q.relowner = a.relowner
        WHERE a.oid = to_regclass(format('fairq.%I', 'done_' || name)) AND a.relkind = 'r' AND q.oid = queue_table);
BEGIN
    FOR wanted IN
        SELECT * FROM (VALUES ('expires_at', 'timestamptz'::regtype), ('name', 'text'), ('lost', 'int'), ('max_lost', 'int'), ('history', 'jsonb'), ('subgroup_key', 'text')) v(name, type)
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS %I %s', queue_table, wanted.name, wanted.type);
        IF (SELECT atttypid FROM pg_attribute WHERE attrelid = queue_table AND attname = wanted.name) <> wanted.type THEN
            RAISE EXCEPTION 'column "%" of table %, of the owner''s making, has another type', wanted.name, queue_table
                USING ERRCODE = 'invalid_table_definition';
        END IF;
    END LOOP;
    EXECUTE format('ALTER TABLE %s ALTER subgroup_key SET STORAGE MAIN', queue_table);
    IF to_regclass(format('fairq.%I', 'expiry_of_' || name)) IS NULL THEN
        EXECUTE format('CREATE INDEX %I ON %s USING btree (expires_at)'
            ' WHERE expires_at IS NOT NULL AND state <> %L', 'expiry_of_' || name, queue_table, 'd');
    END IF;
    IF done_table IS NULL THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = done_table AND conname = 'archived_of_' || name) THEN
        EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', done_table, 'archived_of_' || name, 'when_done_of_' || name);
    END IF;
    FOR wanted IN SELECT * FROM (VALUES ('name', 'text'), ('lost', 'int'), ('history', 'jsonb'), ('subgroup_key', 'text')) v(name, type)
    LOOP
        -- A column of the owner's own making stays, and ours is not kept there.
        EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS %I %s', done_table, wanted.name, wanted.type);
    END LOOP;
    -- One with a column "result" of the owner's own making keeps that, and has no results.
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = done_table AND attname = 'result' AND NOT attisdropped) THEN
        EXECUTE format('ALTER TABLE %s ADD result jsonb', done_table);
        IF to_regclass(format('fairq.%I', 'id_done_of_' || name)) IS NULL THEN
            EXECUTE format('CREATE INDEX %I ON %s (id)', 'id_done_of_' || name, done_table);
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION fairq_internal.update_queue IS 'Give the tables of a queue that an earlier version has made what this one needs.';
REVOKE ALL ON FUNCTION fairq_internal.update_queue(text) FROM PUBLIC;

-- All queues, each by itself.
CREATE OR REPLACE FUNCTION fairq_internal.update_queues()
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT q.queue FROM fairq.queue q
        JOIN pg_class c ON c.relname = 'q_' || q.queue AND c.relkind = 'r' AND c.relnamespace = 'fairq'::regnamespace ORDER BY 1
    LOOP
        BEGIN
            PERFORM fairq_internal.update_queue(name);
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'queue "%" is not updated, and cannot be used: %', name, SQLERRM
                USING ERRCODE = SQLSTATE, HINT = format('Other queues are. Undo what was done to its table, and call fairq_internal.update_queue(%L).', name);
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION fairq_internal.update_queues IS 'Do that for all queues; one that cannot be updated is named in a warning.';
REVOKE ALL ON FUNCTION fairq_internal.update_queues() FROM PUBLIC;
