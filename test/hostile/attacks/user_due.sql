-- as: tenant
-- then: tenants
-- Made-up users whose tasks become due at once, beyond what there are entries for; and some that were held for one task.
SELECT fairq.enqueue('theirs', '"first"', 'hog', subgroup_key => 'mallory') AS first \gset
SELECT attack.flood('hog', 4);
SELECT count(fairq.enqueue_many('theirs', array_fill('1'::jsonb, '{1000}'), group_keys => '{hog}',
	subgroup_keys => ARRAY(SELECT format('due %s %s', i, n) FROM generate_series(1, 1000) n), run_ats => ARRAY[now() + interval '1 h'])) FROM generate_series(1, 10) i;
SELECT count(fairq.enqueue('theirs', '1', 'hog', subgroup_key => 'held ' || n, after => ARRAY[:first], on_dead => 'run')) FROM generate_series(1, 3000) n;
SELECT fairq.cancel('theirs', :first);
UPDATE fairq.q_theirs SET run_at = now() WHERE state = 's';
