-- as: owner
-- may wait: none
-- Ownership in disorder: what he can give away, he gives away.
CREATE TABLE attack.t (LIKE fairq.q_theirs);
\set ON_ERROR_STOP off
ALTER TABLE fairq.done_theirs OWNER TO pg_read_all_data;
ALTER TABLE fairq.q_theirs OWNER TO postgres;
ALTER TABLE fairq.q_theirs OWNER TO citizen;
GRANT ALL ON fairq.q_theirs, fairq.done_theirs TO PUBLIC WITH GRANT OPTION;
REASSIGN OWNED BY owner TO citizen;
