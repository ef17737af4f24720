-- as: owner
-- As many columns as a table may have, most of them dropped again.
SELECT 'ALTER TABLE fairq.q_theirs ' || string_agg(format('ADD COLUMN c%s int', n), ', ') FROM generate_series(1, 1500) n \gexec
SELECT 'ALTER TABLE fairq.q_theirs ' || string_agg(format('DROP COLUMN c%s', n), ', ') FROM generate_series(1, 1490) n \gexec
\set ON_ERROR_STOP off
SELECT fairq.enqueue('theirs', '1');
