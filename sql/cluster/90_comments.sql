\comments sql/install/90_comments.sql
COMMENT ON SCHEMA fairq IS 'pgfairq_cluster: queues that are spread over several servers';
COMMENT ON TABLE fairq.node IS 'The servers that have the queues.';
COMMENT ON TABLE fairq.spread IS 'To how many nodes the tasks of queues and groups go, where that was said.';
COMMENT ON FUNCTION fairq_internal.make_twins IS 'Makes of each function that is called at nodes, and each view, its call at one node.';
