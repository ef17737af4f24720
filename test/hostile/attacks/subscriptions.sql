-- as: owner
-- Patterns that take long to compare, and many of them.
SELECT fairq.subscribe('#.' || repeat('news.#.', n) || '*', 'theirs') FROM generate_series(1, 30) n;
SELECT fairq.subscribe(repeat('#.', 127) || 'x', 'theirs'), fairq.subscribe(repeat('*.', n) || '#', 'theirs') FROM generate_series(1, 100) n;
SELECT fairq.subscribe('t' || n, 'theirs') FROM generate_series(1, 500) n;
