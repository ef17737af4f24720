-- The role of an exporter, with what it needs and no more: pg_monitor sees the figures
-- of all queues, and no payload. Run as a superuser, once for each server.
CREATE ROLE fairq_monitor LOGIN CONNECTION LIMIT 10;
GRANT pg_monitor TO fairq_monitor;
-- A scrape is not to be a burden, whatever the backlog: it ends, or gives up.
ALTER ROLE fairq_monitor SET statement_timeout = '5s';
ALTER ROLE fairq_monitor SET lock_timeout = '1s';
ALTER ROLE fairq_monitor SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE fairq_monitor SET work_mem = '64MB'; -- to sort a hundred thousand tenants without a file
ALTER ROLE fairq_monitor SET default_transaction_read_only = on;
ALTER ROLE fairq_monitor SET search_path = pg_catalog;
