-- as: tenant
-- then: shares
-- A user has a hundred thousand tasks, and holds all that it may have in flight, for years.
SELECT count(fairq.enqueue_many('theirs', array_fill('1'::jsonb, '{10000}'), group_keys => '{hog}', subgroup_keys => '{mallory}')) FROM generate_series(1, 10);
SELECT fairq.extend(receipt, '10 years') FROM fairq.claim('theirs', 1, group_keys => '{hog}'), generate_series(1, 3);
SELECT fairq.extend(receipt, '10 years') FROM fairq.claim('theirs', 10, group_keys => '{hog}');
SELECT count(*) FROM fairq.claim('theirs', 1000, group_keys => '{hog}');
