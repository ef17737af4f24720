\comments sql/install/90_comments.sql
COMMENT ON SCHEMA fairq IS 'pgfairq_cluster: queues that are spread over several servers';
COMMENT ON TABLE fairq.node IS 'The servers that have the queues.';
COMMENT ON TABLE fairq.spread IS 'To how many nodes the tasks of queues and groups go, where that was said.';
COMMENT ON FUNCTION fairq_internal.make_twins IS 'Makes of each function that is called at nodes, and each view, its call at one node.';
COMMENT ON FUNCTION fairq.add_node IS 'Add a server to the nodes of the cluster, with the queues that the others have.';
COMMENT ON FUNCTION fairq.drain_node IS 'Give a node no new tasks and sessions.';
COMMENT ON FUNCTION fairq.undrain_node IS 'Give a node new tasks and sessions again.';
