-- as: owner
-- The engine's indexes are his, too.
DROP INDEX fairq.overflow_of_theirs, fairq.held_of_theirs;
