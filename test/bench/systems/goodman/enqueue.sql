\set g random(0, 999)
INSERT INTO bench_goodman.task (group_key, payload) VALUES ('g' || :g, bench.payload());
