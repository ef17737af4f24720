-- as: tenant
-- then: shares
-- Keys of users of hostile text and length.
CREATE TABLE attack.key AS SELECT k FROM unnest(ARRAY[repeat('k', 1024), repeat('ü', 512), repeat('k', 1023) || 'l', repeat('k', 48) || 'm', ' ', E'\n', E'\t\r\x01\x7f', '%s%n%d', '''; DROP TABLE fairq.q_theirs; --',
	'"', E'\\', '\.', '{}', '{"a": 1}', 'hog', 'hog/mallory', 'NULL', '0', '-1', E'\u202e\u200b\ufeff', E'\U0001F4A9', '(0,0,0)', 'bell' || E'\a', '$1', '<script>', repeat('%', 300), 'a,b', 'made up 1']) k;
SELECT fairq.enqueue('theirs', to_jsonb(k), 'hog', subgroup_key => k) FROM attack.key, generate_series(1, 3);
SELECT fairq.enqueue('theirs', to_jsonb(k), k, subgroup_key => k) FROM attack.key;
SELECT * FROM fairq.subgroup_stats s, fairq.group_stats g WHERE s.queue = 'theirs' AND g.queue = 'theirs';
SELECT fairq.nack(receipt, subgroup_key) FROM fairq.claim('theirs', 5, group_keys => '{hog}');
SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 5, group_keys => '{hog}');
\set ON_ERROR_STOP off
SELECT fairq.enqueue('theirs', '1', 'hog', subgroup_key => repeat('k', 1025));
SELECT fairq.enqueue('theirs', '1', 'hog', subgroup_key => repeat('k', 100000000));
SELECT fairq.enqueue('theirs', '1', 'hog', subgroup_key => repeat('ü', 1000));
SELECT fairq.enqueue_many('theirs', '{1,2}', group_keys => '{hog}', subgroup_keys => '{a,b,c}');
SELECT fairq.enqueue_many('theirs', '{1,2}', group_keys => '{hog}', subgroup_keys => '{{a},{b}}');
