-- as: producer
-- More remembered keys than anybody needs, for ten years and for a moment, and as long as keys may be; and one that is not committed.
\set ON_ERROR_STOP off
SELECT count(fairq.enqueue('theirs', '1', unique_key => 'flood ' || n, unique_for => '10 years')) FROM generate_series(1, 10000) n;
SELECT count(fairq.enqueue('theirs', '1', unique_key => 'moment ' || n % 10, unique_for => '1 microsecond', on_duplicate => 'replace')) FROM generate_series(1, 5000) n;
SELECT count(fairq.enqueue('theirs', '1', unique_key => rpad(n::text, 1024, 'k'), unique_for => '1 ms')) FROM generate_series(1, 2000) n;
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[5000]), unique_keys => ARRAY(SELECT 'many ' || n FROM generate_series(1, 5000) n), unique_for => '1 day');
TABLE fairq_internal.remembered_key;
DELETE FROM fairq_internal.remembered_key;
INSERT INTO fairq_internal.remembered_key VALUES ('still', 'k', 1, 'infinity');
LOCK TABLE fairq_internal.remembered_key IN ACCESS EXCLUSIVE MODE;
CREATE TRIGGER mine AFTER INSERT ON fairq_internal.remembered_key FOR EACH ROW EXECUTE FUNCTION fairq_internal.remembered_key_written();
BEGIN;
SELECT fairq.enqueue('theirs', '1', unique_key => 'w', unique_for => '1 h'), fairq.enqueue('theirs', '1', unique_key => 'k', unique_for => '10 years');
SELECT count(fairq.enqueue('theirs', '1', unique_key => 'open ' || n, unique_for => '1 ms')) FROM generate_series(1, 2000) n;
