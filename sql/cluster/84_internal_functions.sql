-- What is not for applications is for the owner, unless everybody has to have it: the
-- functions of type address, which its operators call as whoever compares; and the ways of
-- what everybody may call to the nodes, which look at privileges there.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fairq_internal FROM PUBLIC;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'fairq_internal'::regnamespace
        AND (p.proname ~ '^(address_|rows_of_|at_rows_of_)'
            OR p.proname = ANY ('{reports_of_nodes,node_report,at_node_report,at_this_node,at_wait_ready,at_tasks_here,at_front,at_raise_floor,attended_node,at_attendance}')
            OR EXISTS (SELECT FROM pg_catalog.pg_proc a
                WHERE a.pronamespace = 'fairq'::regnamespace AND p.proname = 'at_' || a.proname))
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
END
$$;
