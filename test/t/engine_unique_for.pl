# unique_for with many producers at once: in a window a key makes one task, however
# many ask for it, whatever becomes of the task, and through a crash and a restore.
#
# Shown: producers in transactions of their own, of which some roll back, while
# workers pop, with the server killed meanwhile: of each key there is never more than
# one task, archived or not, and none that was confirmed is missing; the keys are
# there after the crash, in a copy by pg_dump and pg_restore, where they
# are copied to a queue that was found to have none, and after a rename of the queue's table and
# back; the worker forgets what is over, all of it, while others stay, also when the
# rows were in another transaction's hands.
#
# To see it fail: take remembered_keys_find() out of unique_keys_take() (several tasks
# of a key); remembered_keys_forget() out of forget_keys.c (the worker forgets nothing);
# ENABLE ALWAYS and the trigger's atomic addition (what is restored is not seen);
# name_hash() from remembered_keys_any() (nor what is there under the old name).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('unique_for');
sql($node, q{SELECT fairq.create_queue('q', buckets => 2, keep_done => '1 h')});
sql($node, 'CREATE TABLE confirmed (unique_key text, id bigint)');

# Ten producers, five hundred keys; a third of the transactions rolls back.
my $producer = <<'SQL';
\set k random(1, 500)
\set back random(1, 3)
BEGIN;
INSERT INTO confirmed SELECT 'k' || :k, fairq.enqueue('q', to_jsonb(:k), unique_key => 'k' || :k, unique_for => '1 d', on_duplicate => (ARRAY['keep', 'replace'])[1 + :k % 2]);
SELECT :back = 1 AS roll \gset
\if :roll
ROLLBACK;
\else
COMMIT;
\endif
SQL
my $worker = "SELECT count(*) FROM fairq.pop('q', 3);\n";
my $directory = PostgreSQL::Test::Utils::tempdir();
append_to_file("$directory/producer", $producer);
append_to_file("$directory/worker", $worker);
my $load = sub {
	my ($count) = @_;
	return [ 'pgbench', '-n', '-c', 10, '-j', 2, ref $count ? @$count : ('-t', $count), '-f', "$directory/producer\@3", '-f', "$directory/worker\@1", $node->connstr('postgres') ];
};

# Of each key of the queue: several tasks; a confirmed task that is not the key's.
my $broken = <<'SQL';
WITH task AS (SELECT id, unique_key FROM fairq.tasks('q') UNION ALL SELECT id, unique_key FROM fairq.done_q)
SELECT (SELECT count(*) FROM (SELECT FROM task GROUP BY unique_key HAVING count(*) > 1) t)
	|| ' ' || (SELECT count(*) FROM confirmed c WHERE NOT EXISTS (SELECT FROM task t WHERE t.id = c.id AND t.unique_key = c.unique_key))
	|| ' ' || (SELECT count(*) FROM task t WHERE NOT EXISTS (SELECT FROM fairq_internal.remembered_key r WHERE r.queue = 'q' AND r.unique_key = t.unique_key AND r.task = t.id))
SQL
$node->command_ok($load->(150), 'producers and workers');
is(sql($node, $broken), '0 0 0', 'each key has one task');
cmp_ok(sql($node, 'SELECT count(*) FROM fairq.done_q'), '>', 0, 'some have ended');

# A crash in the midst of it.
my $running = IPC::Run::start($load->([ '-T', 600 ]), '>', '/dev/null', '2>', '/dev/null');
my $before = sql($node, 'SELECT count(*) FROM confirmed');
ok(wait_for(sub { sql($node, 'SELECT count(*) FROM confirmed') > $before + 200 }), 'they go on');
$node->stop('immediate');
$running->finish;
$node->start;
is(sql($node, $broken), '0 0 0', 'after a crash each key has one task');
$node->command_ok($load->(50), 'producers and workers');
is(sql($node, $broken), '0 0 0', 'and so it stays');

# A copy; and rows that come to a queue of which a pass has found that it has none.
sql($node, "SELECT fairq.pop('q', 1000); SELECT fairq.enqueue('q', '0', unique_key => 'short', unique_for => '1 ms')");
sql($node, 'CREATE DATABASE copy');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/dump", $node->connstr('postgres') ], 'dump');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('copy'), "$directory/dump" ], 'restore');
my ($key, $id) = split /\|/, sql($node, "SELECT unique_key, id FROM confirmed ORDER BY id LIMIT 1", 'copy');
is(sql($node, "SELECT fairq.enqueue('q', '1', unique_key => '$key')", 'copy'), $id, 'the copy remembers');
sql($node, 'CREATE DATABASE other');
sql($node, "CREATE EXTENSION pgfairq; SELECT fairq.create_queue('q')", 'other');
sql($node, "SELECT fairq.maintain('q')", 'other') for 1 .. 3;
sql($node, "SELECT fairq.enqueue('q', '1', unique_key => 'none')", 'other');
my $rows = sql($node, "SELECT queue, unique_key, task, until FROM fairq_internal.remembered_key WHERE unique_key = '$key'") =~ tr/|/\t/r;
sql($node, "COPY fairq_internal.remembered_key FROM STDIN;\n$rows\n\\.\n", 'other');
is(sql($node, "SELECT fairq.enqueue('q', '1', unique_key => '$key')", 'other'), $id, 'rows that are copied are seen');

# What is over is forgotten, by the worker; what is not stays.
my $left = "SELECT count(*) FILTER (WHERE until < now()), count(*) > 100 FROM fairq_internal.remembered_key";
ok(wait_for(sub { sql($node, $left) eq '0|t' }), 'the worker forgets what is over');
ok(wait_for(sub { sql($node, $left, 'copy') eq '0|t' }), 'in the copy, too');
my $session = session($node);
$session->safe("BEGIN; SELECT fairq.enqueue('q', '0', unique_key => 'slow', unique_for => '1 ms'); SELECT pg_sleep(0.01)");
sql($node, "SELECT fairq.enqueue_many('q', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 3000) n), unique_keys => ARRAY(SELECT 'many' || n FROM generate_series(1, 3000) n), unique_for => '1 ms')");
ok(wait_for(sub { sql($node, $left) eq '0|t' }), 'also three passes full of them');
$session->safe('COMMIT');
ok(wait_for(sub { sql($node, $left) eq '0|t' }), 'and what is committed when it is over');

# The table is renamed with all that is its own, and back: its keys are those of its name.
sub rename_queue
{
	my ($from, $to) = @_;

	sql($node, <<"SQL");
DO \$\$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT relname FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relname ~ '^(q|[a-z]+_of)_$from\$' AND relkind IN ('r', 'i', 'S')
	LOOP
		EXECUTE format('ALTER TABLE fairq.%I RENAME TO %I', r.relname, regexp_replace(r.relname, '$from\$', '$to'));
	END LOOP;
END \$\$;
SQL
	return;
}
sql($node, "SELECT fairq.pop('q', 100000)");
sql($node, "SELECT fairq.create_queue('other')");
sql($node, 'DROP TABLE fairq.q_other');
rename_queue('q', 'other');
isnt(sql($node, "SELECT fairq.enqueue('other', '1', unique_key => '$key')"), $id, 'under another name it is free');
sql($node, "SELECT fairq.purge('other')");
# A pass that has forgotten the last key finds that there is none, under that name.
sql($node, "SELECT fairq.enqueue('other', '1', unique_key => 'last', unique_for => '1 ms')");
ok( wait_for(sub { sql($node, "SELECT fairq.maintain('other'); SELECT count(*) FROM fairq_internal.remembered_key WHERE queue = 'other'") =~ /^0$/m &&
			sql($node, "SELECT count(*) FROM fairq_internal.remembered_key WHERE queue = 'other'") == 0 }),
	'it is forgotten');
rename_queue('other', 'q');
is(sql($node, "SELECT fairq.enqueue('q', '1', unique_key => '$key')"), $id, 'under its own it is remembered');

$node->stop;
done_testing();
