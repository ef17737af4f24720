\set g random(0, 999)
SELECT fairq.enqueue('bench', bench.payload(), group_key => 'g' || :g);
