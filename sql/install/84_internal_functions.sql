-- What is not for applications is for the extension's owner, unless everybody has to have
-- it: the functions of type address, which its operators call as whoever compares; those
-- whose rows views return, which call them as whoever reads; what a proxy or a client calls
-- as the role of its user; and the trigger of queues, which whoever creates or restores a
-- queue puts on its table. Each looks at privileges itself. Other triggers need no grant to fire.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fairq_internal FROM PUBLIC;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_catalog.pg_proc p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) 'fairq_internal'::pg_catalog.regnamespace
        AND (p.proname OPERATOR(pg_catalog.~) '^address_' OR p.proname OPERATOR(pg_catalog.=) ANY (
            '{stats_of_queues,histograms_of_queues,stats_of_names,histograms_of_names,stats_of_groups,stats_of_subgroups,stats_of_buckets,live_leases,open_sessions,dead_of_queues,done_of_queues,schedule_owner,tasks_here,wait_ready,attendance,tasks_page,done_page,row_written}'))
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
END
$$;
