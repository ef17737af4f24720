-- as: producer
-- Others' schedules, as many of one's own as there may be, names that others want, and what fits into a row.
\set ON_ERROR_STOP off
SELECT fairq.schedule('still', 'theirs', '* * * * * *'), fairq.unschedule('still');
SELECT fairq.schedule('mine', 'still', '* * * * * *');
SELECT fairq.schedule('mine', 'work', '* * * * * *');
TABLE fairq.schedule;
DELETE FROM fairq.schedule;
DELETE FROM fairq.schedules;
INSERT INTO fairq.schedule SELECT * FROM fairq.schedule;
LOCK TABLE fairq.schedule IN ACCESS EXCLUSIVE MODE;
LOCK TABLE fairq.schedules IN ACCESS EXCLUSIVE MODE;
SELECT fairq_internal.schedule_written(), fairq_internal.schedule_inserted();
SELECT count(*) FROM fairq.schedules WHERE attack.ran(payload::text) AND name = 'still';
CREATE TRIGGER mine BEFORE UPDATE ON fairq.schedule FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE FUNCTION fairq_internal.cron_next(text, text, timestamptz, timestamptz) RETURNS timestamptz LANGUAGE sql AS 'SELECT now()';
SELECT fairq.schedule('zone', 'theirs', '* * * * * *', timezone => '../../../../etc/passwd');
SELECT fairq.schedule(repeat(E'\n', 255), 'theirs', '* * * * * *', to_jsonb(repeat('p', 10000000)), overlap => true);
SELECT fairq.schedule(E'log\nFATAL:  forged', 'theirs', '* * * * * *', cost => 1e6, overlap => true);
SELECT count(fairq.schedule('many ' || n, 'theirs', '* * * * * *', overlap => true, catch_up => 'all')) FROM generate_series(1, 2000) n;
-- Locked for as long as the transaction is open.
BEGIN;
SELECT count(fairq.schedule('many ' || n, 'theirs', '* * * * * *', '2', overlap => true)) FROM generate_series(1, 500) n;
SELECT fairq.schedule('squatted ' || n, 'theirs', '@daily') FROM generate_series(1, 100) n;
