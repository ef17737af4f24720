\set g random(0, 999)
INSERT INTO bench.skip (group_key, payload) VALUES ('g' || :g, bench.payload());
