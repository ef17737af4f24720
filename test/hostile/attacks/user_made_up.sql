-- as: tenant
-- then: tenants
-- A stream of made-up users, each with a task, until there are no entries left for them.
SELECT attack.flood('hog', 4);
