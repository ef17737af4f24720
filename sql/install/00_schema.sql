CREATE SCHEMA fairq;
COMMENT ON SCHEMA fairq IS 'pgfairq: task queues that are fair between groups';
GRANT USAGE ON SCHEMA fairq TO PUBLIC;

CREATE SCHEMA fairq_internal;
COMMENT ON SCHEMA fairq_internal IS 'pgfairq: what is not for applications';
GRANT USAGE ON SCHEMA fairq_internal TO PUBLIC;

