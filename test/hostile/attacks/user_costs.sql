-- as: tenant
-- then: tenants
-- Tasks of the highest cost there is.
SELECT count(fairq.enqueue_many('theirs', array_fill('1'::jsonb, '{2000}'), group_keys => '{hog}', subgroup_keys => '{mallory}', costs => '{1000000}'));
