CREATE SCHEMA fairq;
COMMENT ON SCHEMA fairq IS 'pgfairq: task queues that are fair between groups';
GRANT USAGE ON SCHEMA fairq TO PUBLIC;

