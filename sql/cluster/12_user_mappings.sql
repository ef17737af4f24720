-- Who may use a server may make a user mapping of his own for it, and say in it that he is
-- another role there. What the proxy's host is let in as without a password, or has in a
-- password file, would be everybody's. So only the server's owner gives a user.
CREATE FUNCTION fairq_internal.user_mapping_written()
RETURNS event_trigger LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() c
            JOIN pg_user_mappings m ON m.umid = c.objid AND m.srvname = 'pgfairq'
            JOIN pg_foreign_server s ON s.oid = m.srvid
            WHERE EXISTS (SELECT FROM unnest(m.umoptions) option WHERE option LIKE 'user=%')
            AND NOT pg_has_role(s.srvowner, 'USAGE')) THEN
        RAISE EXCEPTION 'permission denied to set a user for server "pgfairq"'
            USING ERRCODE = 'insufficient_privilege', DETAIL = 'Calls are made at the nodes as the role that makes them here.',
            HINT = 'Leave option "user" out, or have the owner of the server create the user mapping.';
    END IF;
END
$$;

CREATE EVENT TRIGGER fairq_user_mapping_written ON ddl_command_end
    WHEN TAG IN ('CREATE USER MAPPING', 'ALTER USER MAPPING')
    EXECUTE FUNCTION fairq_internal.user_mapping_written();
ALTER EVENT TRIGGER fairq_user_mapping_written ENABLE ALWAYS;
