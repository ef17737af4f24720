SELECT pgq.ticker('bench_0');
SELECT count(pgq.maint_rotate_tables_step1('bench_0'));
SELECT count(pgq.maint_rotate_tables_step2());
\sleep 100 ms
