\set g random(0, 999)
INSERT INTO bench_werner.task (group_key, payload) VALUES ('g' || :g, bench.payload());
