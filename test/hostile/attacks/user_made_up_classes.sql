-- as: tenant
-- then: tenants
-- The same in several classes, and one task for each user is not all.
SELECT attack.flood('hog', class) FROM generate_series(4, 9) class;
SELECT count(fairq.enqueue_many('theirs', array_fill('1'::jsonb, '{1000}'), group_keys => '{hog}',
	subgroup_keys => ARRAY(SELECT 'made up ' || 1 + n % 100 FROM generate_series(1, 1000) n))) FROM generate_series(1, 20);
