-- as: owner
-- Settings at the ends of what is accepted.
SELECT fairq.alter_queue('theirs', buckets => 1024, lease => '10 years', max_attempts => 2147483647, backoff_base => '10 years', backoff_max => '10 years',
	max_ready => 1, max_ready_per_group => 1, max_depth => 9223372036854775807, charge => 'seconds', notify => true);
SELECT fairq.set_group('theirs', 'a', weight => 0.001, max_leased => 1, rate => 0.00001, burst => 1);
SELECT fairq.set_group('theirs', 'b', weight => 1000, rate => 1000000, burst => 1000000);
SELECT fairq.enqueue('theirs', '1', group_key => 'a', cost => 1000, lease => '10 years');
SELECT fairq.claim('theirs', 3);
SELECT fairq.alter_queue('theirs', keep_done => '1 microsecond', lease => '1 ms');
\set ON_ERROR_STOP off
SELECT fairq.alter_queue('theirs', buckets => 0);
SELECT fairq.alter_queue('theirs', keep_done => '178000000 years');
SELECT fairq.set_group('theirs', 'a', weight => 'NaN', rate => 'Infinity');
