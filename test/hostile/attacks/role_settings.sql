-- as: owner
-- Settings that his role brings along.
ALTER ROLE owner SET search_path = attack, pg_catalog;
ALTER ROLE owner SET statement_timeout = 1;
ALTER ROLE owner SET default_transaction_read_only = on;
ALTER ROLE owner IN DATABASE town SET lock_timeout = 1;
REVOKE ALL ON fairq.q_theirs, fairq.done_theirs FROM owner;
REVOKE ALL ON SCHEMA attack FROM owner;
ALTER ROLE owner RESET ALL;
ALTER ROLE owner IN DATABASE town RESET ALL;
