-- as: creator
-- An index that could not be built stays behind, invalid.
\set ON_ERROR_STOP off
CREATE UNIQUE INDEX CONCURRENTLY broken ON fairq.q_theirs (state);
CREATE UNIQUE INDEX CONCURRENTLY broken_too ON fairq.q_theirs ((attack.sneaky('invalid')));
