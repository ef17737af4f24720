# The archive: that it is kept as long as it should be and no longer, by the
# worker, which sleeps meanwhile; and through dump, restore and crash.
#
# Shown: I1 and I9 for the archive: a task is in the queue's table or in the
# archive, once, whatever happened.
#
# To see it fail: have no one told at commit of what was written (rows of a slow
# transaction, or written while the worker sleeps, stay); read the index from
# its start each time (the entries read grow with the square); wait for rows, or
# for the table (leases of the queue do not end); let an error of the archive
# end the pass (the same); forget what was locked (it stays), or what was
# changed meanwhile; write the archive in another transaction than the delete
# (after the crash tasks are in both, or in none).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# All tables are published, as for an upgrade by replication: deleting rows
# takes a replica identity then.
my $node = fairq_node('archive', conf => <<'CONF');
max_connections = 40
max_prepared_transactions = 5
wal_level = logical
restart_after_crash = on
CONF
sql($node, 'CREATE PUBLICATION everything FOR ALL TABLES');

# For conditions that may take a while on a slow machine.
my $soon = 60;

sub rows_in
{
	my ($queue, $where) = @_;

	return sql($node, qq{SELECT count(*) FROM fairq."done_$queue"} . (defined $where ? " WHERE $where" : ''));
}

sub becomes_empty
{
	my ($queue, $what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_for(sub { rows_in($queue) == 0 }, $soon), "$what: removed")
	  or diag(sql($node, qq{SELECT now(), id, done_at FROM fairq."done_$queue" ORDER BY done_at LIMIT 10}));
	return;
}

# Enqueue and finish n tasks.
sub finish
{
	my ($queue, $n) = @_;

	return
	  "SELECT cardinality(fairq.enqueue_many('$queue', array_fill('1'::jsonb, ARRAY[$n])));\n"
	  . "SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('$queue', $n)));\n";
}

sub switches
{
	my ($pid) = @_;
	my ($n) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;

	return $n;
}

#
# In time, and not before.  A trigger of the owner sees what is removed when.
#
sql($node, <<'SQL');
SELECT fairq.create_queue('time', keep_done => '1.5 s', backoff_base => '0');
CREATE TABLE removed (id bigint, age interval);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.removed VALUES (old.id, clock_timestamp() - old.done_at);
	RETURN NULL;
END $$;
CREATE TRIGGER see AFTER DELETE ON fairq.done_time FOR EACH ROW EXECUTE FUNCTION see();
SQL
for my $n (1, 10, 2500)
{
	sql($node, finish('time', $n));
}
becomes_empty('time', 'a few');
is( sql($node, "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || bool_and(age >= interval '1.5 s') FROM removed"),
	'2511 2511 true', 'each once, and none before its time');
my $late = sql($node, "SELECT extract(epoch FROM max(age)) - 1.5 FROM removed");
cmp_ok($late, '<', 20, "in time: $late s late at most");

# While the worker sleeps; then one that commits later than it is kept, and one
# that does not
sql($node, finish('time', 1));
becomes_empty('time', 'one more');
sql($node, 'BEGIN;' . finish('time', 1) . 'ROLLBACK');
my $slow = session($node);
sql($node, "SELECT fairq.enqueue('time', '1')");
$slow->safe('BEGIN');
$slow->safe("SELECT count(*) FROM fairq.pop('time')");
sql($node, finish('time', 3));
becomes_empty('time', 'others, while one is not committed');
$slow->safe('COMMIT');
becomes_empty('time', 'one that was committed later than it is kept');
is(sql($node, 'SELECT count(*) FROM removed'), 2516, 'all of them');

#
# It sleeps until the next one is due.
#
sql($node, "SELECT fairq.create_queue('sleep', keep_done => '1 h')");
sql($node, finish('sleep', 100));
my $watched = session($node);
SKIP:
{
	skip 'no /proc to count wake-ups', 1 unless -r '/proc/self/status';
	my $pid = worker_pid($node, $soon);
	my $least = 1000;

	# Two seconds of nothing: this is what is measured.  Others may wake it.
	for my $try (1 .. 5)
	{
		my $before = switches($pid);

		$watched->safe('SELECT pg_sleep(2)');
		my $n = switches($pid) - $before;
		$least = $n if $n < $least;
		last if $least < 4;
	}
	cmp_ok($least, '<', 4, 'nothing due for an hour: the worker sleeps');
}
is(rows_in('sleep'), 100, 'nothing is removed before its time');
# A shorter time wakes it; a longer one, and none, keep what is there.
sql($node, "SELECT fairq.alter_queue('sleep', keep_done => '2 h')");
sql($node, "UPDATE fairq.done_sleep SET done_at = done_at - interval '1 h' WHERE id % 2 = 0");
sql($node, "SELECT fairq.alter_queue('sleep', keep_done => '30 min')");
ok(wait_for(sub { rows_in('sleep') == 50 }, $soon), 'a shorter time: what is older goes');
sql($node, "SELECT fairq.alter_queue('sleep', keep_done => '0')");
sql($node, "UPDATE fairq.done_sleep SET done_at = done_at - interval '1 h'; SELECT fairq.maintain('sleep')");
is(rows_in('sleep'), 50, 'no archive any more: what is there stays');
sql($node, "SELECT fairq.alter_queue('sleep', keep_done => '30 min')");
becomes_empty('sleep', 'an archive again');
# The worker must not be awake before it can see the new setting.
for my $round (1 .. 20)
{
	sql($node, "SELECT fairq.alter_queue('sleep', keep_done => '1 day');" . finish('sleep', 5));
	sql($node, "UPDATE fairq.done_sleep SET done_at = done_at - interval '1 h'");
	sql($node, "SELECT fairq.alter_queue('sleep', keep_done => '30 min')");
	last unless wait_for(sub { rows_in('sleep') == 0 }, $soon);
}
is(rows_in('sleep'), 0, 'a shorter time, again and again');

#
# Rows in somebody's hands are not waited for, and not forgotten.
#
sql($node, <<'SQL');
SELECT fairq.create_queue('hands', keep_done => '1 h', backoff_base => '0');
ALTER TABLE fairq.done_hands SET (fillfactor = 100);
CREATE INDEX ON fairq.done_hands (group_key);
SQL

# Rows that are a day old. They are kept until expire_hands, however long it takes
# to get them into somebody's hands.
sub old_hands
{
	my ($n, @more) = @_;

	sql($node, $_)
	  foreach "SELECT fairq.alter_queue('hands', keep_done => '30 days')",
	  finish('hands', $n), @more,
	  "UPDATE fairq.done_hands SET done_at = done_at - interval '1 day'",
	  'VACUUM FULL fairq.done_hands';
	return;
}

# Starts to remove what is older than an hour.
sub expire_hands
{
	sql($node, "SELECT fairq.alter_queue('hands', keep_done => '1 h')");
	return;
}
my @hands = (
	[ 'locked', "SELECT count(*) FROM (SELECT FROM fairq.done_hands WHERE id % 2 = 0 FOR UPDATE) x", 'COMMIT' ],
	[ 'locked, then updated', "SELECT count(*) FROM (SELECT FROM fairq.done_hands WHERE id % 2 = 0 FOR UPDATE) x",
		"UPDATE fairq.done_hands SET group_key = 'new' WHERE id % 2 = 0; COMMIT" ],
	[ 'locked FOR KEY SHARE', "SELECT count(*) FROM (SELECT FROM fairq.done_hands WHERE id % 2 = 0 FOR KEY SHARE) x", 'ROLLBACK' ],
	[ 'updated', "UPDATE fairq.done_hands SET headers = '{}' WHERE id % 2 = 0", 'COMMIT' ],
	[ 'updated, not in place', "UPDATE fairq.done_hands SET group_key = 'new' WHERE id % 2 = 0", 'COMMIT' ],
	[ 'updated and rolled back', "UPDATE fairq.done_hands SET group_key = 'new' WHERE id % 2 = 0", 'ROLLBACK' ],
	[ 'deleted', "DELETE FROM fairq.done_hands WHERE id % 2 = 0", 'COMMIT' ],
	[ 'deleted and rolled back', "DELETE FROM fairq.done_hands WHERE id % 2 = 0", 'ROLLBACK' ]);
my $user = session($node);
foreach my $case (@hands)
{
	my ($what, $statement, $end) = @$case;

	# More than are remembered apart, and a few.
	foreach my $n ($what =~ /^(locked|locked, then updated|updated, not in place)$/ ? (6, 100) : 100)
	{
		old_hands($n);
		$user->safe('BEGIN');
		$user->safe($statement);
		expire_hands();
		ok(wait_for(sub { rows_in('hands', 'id % 2 = 1') == 0 }, $soon), "$n rows, half of them $what: the others are removed");
		is(rows_in('hands'), $n / 2, "$n rows, half of them $what: they are not");
		$user->safe($end);
		becomes_empty('hands', "$n rows, half of them $what, $end");
	}
}

# The whole table: what else is due is done meanwhile.
old_hands(5);
$user->safe('BEGIN');
$user->safe('LOCK TABLE fairq.done_hands IN SHARE MODE');
expire_hands();
sql($node, "SELECT fairq.enqueue('hands', '2'); SELECT count(*) FROM fairq.claim('hands', lease => '100 ms')");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('hands', 'ready')") == 1 }, $soon),
	'the table locked: leases end');
$user->safe('COMMIT');
becomes_empty('hands', 'the table locked, and let go');

# An error: said once, and the rest goes on.
old_hands(5, 'ALTER TABLE fairq.done_hands ADD UNIQUE (id)');
sql($node, <<'SQL');
CREATE TABLE reference (id bigint REFERENCES fairq.done_hands (id));
INSERT INTO reference SELECT min(id) FROM fairq.done_hands;
SQL
my $offset = -s $node->logfile;
expire_hands();
ok( wait_for(
		sub { slurp_file($node->logfile, $offset) =~ /could not remove old done tasks of queue "hands": .*reference/ },
		$soon),
	'a foreign key refuses: the log says so');
for my $n (1 .. 3)
{
	sql($node, "SELECT count(*) FROM fairq.claim('hands', lease => '100 ms')");
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('hands', 'ready')") == 1 }, $soon),
		'a foreign key refuses: leases end');
}
my @said = slurp_file($node->logfile, $offset) =~ /could not remove old done tasks/g;
is(scalar(@said), 1, 'a foreign key refuses: it says so once');
sql($node, 'DROP TABLE reference');
becomes_empty('hands', 'a foreign key is gone');

# Prepared: nobody tells when it is committed.
sql($node, "SELECT fairq.alter_queue('hands', keep_done => '500 ms')");
sql($node, "SELECT fairq.purge('hands'); SELECT fairq.enqueue('hands', '3')");
becomes_empty('hands', 'purged');
sql($node, <<'SQL');
BEGIN;
SELECT fairq.cancel('hands', id) FROM fairq.tasks('hands');
PREPARE TRANSACTION 'cancelled';
SQL
sql($node, finish('hands', 1));
becomes_empty('hands', 'others, while one is prepared');
sql($node, "COMMIT PREPARED 'cancelled'");
becomes_empty('hands', 'one that was prepared');

#
# A snapshot that is held keeps the rows in the table; they are not come across
# again.
#
sql($node, "SELECT fairq.create_queue('held', keep_done => '1 microsecond')");
$user->safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$user->safe('SELECT count(*) FROM fairq.done_held');
for my $round (1 .. 40)
{
	sql($node, finish('held', 500));
	last unless wait_for(sub { rows_in('held') == 0 }, $soon);
}
is(rows_in('held'), 0, 'a held snapshot: removed');
my $read = 0;
wait_for(
	sub {
		$read = sql($node, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'when_done_of_held'");
		return $read >= 20000;
	},
	$soon);
cmp_ok($read, '>=', 20000, 'a held snapshot: 20000 rows were found through the index');
cmp_ok($read, '<', 100000, "a held snapshot: it read $read entries for that");
$user->safe('COMMIT');

# Many of the same time, more than a pass reads, in another file than before.
sql($node, "SELECT fairq.alter_queue('held', keep_done => '1 h')");
sql($node, finish('held', 3000));
sql($node, "UPDATE fairq.done_held SET done_at = '2001-01-01'");
sql($node, 'VACUUM FULL fairq.done_held');
sql($node, "SELECT fairq.alter_queue('held', keep_done => '30 min')");
becomes_empty('held', '3000 of the same time');

#
# Dump and restore
#
sql($node, <<'SQL');
SELECT fairq.create_queue('dump', keep_done => '1 day');
SELECT fairq.create_queue('dump again', keep_done => '1 day');
SELECT count(fairq.enqueue('dump', to_jsonb(n), group_key => 'g' || n % 3, headers => '{"h": 1}')) FROM generate_series(1, 30) n;
SELECT count(fairq.ack(receipt)) FROM fairq.claim('dump', 10);
SELECT fairq.cancel('dump', id) FROM fairq.peek('dump', 5);
SQL
# What SQL makes old is found when the archive is read from its start. After a pass that
# is over for an hour: after our own, if it has the maintenance lock, or one before.
my $pass = <<'SQL';
BEGIN;
SELECT FROM fairq.maintain('dump');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object' AND objid = 'fairq.q_dump'::regclass AND objsubid = -1;
COMMIT;
SQL
ok(wait_for(sub { sql($node, $pass) =~ /1$/ }, $soon), 'the archive has been read');
sql($node, <<'SQL');
UPDATE fairq.done_dump SET done_at = done_at - interval '2 days' WHERE id IN (SELECT id FROM fairq.done_dump ORDER BY id LIMIT 3);
SQL
my $contents = "SELECT md5(string_agg(d::text, ',' ORDER BY id)) FROM fairq.done_dump d WHERE done_at > now() - interval '1 day'";
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
sql($node, 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restore');
is(sql($node, $contents, 'restored'), sql($node, $contents), 'restored: the archive is what it was');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.claim('dump')", 'restored');
is( sql($node, "SELECT count(*) FROM fairq.done_tasks WHERE queue = 'dump' AND done_at > now() - interval '1 day'", 'restored'),
	13, 'restored: it is written to');
ok( wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.done_dump', 'restored') == 13 }, $soon),
	'restored: what is old goes');
# Dropped together: by name, and as soon as the worker has seen to it by dependency.
is(sql($node, "SELECT fairq.drop_queue('dump again')", 'restored'), 't', 'restored: a queue is dropped');
ok( wait_for(
		sub {
			sql($node,
				"SELECT count(*) FROM pg_depend WHERE deptype = 'a' AND objid = 'fairq.done_dump'::regclass AND refobjid = 'fairq.q_dump'::regclass",
				'restored') == 1;
		},
		$soon),
	'restored: the archive depends on the queue again');
sql($node, 'DROP TABLE fairq.q_dump', 'restored');
is(sql($node, "SELECT count(*) FROM pg_class WHERE relname LIKE 'done_dump%'", 'restored'), 0, 'restored: the archives are gone with their queues');
sql($node, 'DROP DATABASE restored');

# In a transaction that only reads.
is(sql($node, "BEGIN READ ONLY; SELECT count(*) FROM fairq.done_tasks WHERE queue = 'dump'; COMMIT"),
	15, 'done_tasks in a read-only transaction');

#
# Crash: a task is in the one table or in the other.
#
sql($node, "SELECT fairq.create_queue('crash', keep_done => '1 day', lease => '1 h')");
for my $round (1 .. 2)
{
	# Connected before there is work, which would be done before the last of them came.
	my @loads = map { session($node) } 1 .. 3;

	sql($node, "SELECT cardinality(fairq.enqueue_many('crash', array_fill('1'::jsonb, ARRAY[50000])))");
	my $before = rows_in('crash');
	foreach my $n (1 .. 3)
	{
		my $work = $n == 1
		  ? "PERFORM fairq.ack(receipt) FROM fairq.claim('crash', 3);"
		  : $n == 2
		  ? "PERFORM FROM fairq.pop('crash', 2); PERFORM fairq.cancel('crash', id) FROM fairq.peek('crash', 1);"
		  : "PERFORM FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('crash', 10)));";

		$loads[ $n - 1 ]->send("DO \$\$ BEGIN FOR i IN 1 .. 100000 LOOP $work IF i % 7 = 0 THEN ROLLBACK; ELSE COMMIT; END IF; END LOOP; END \$\$");
	}
	ok(wait_for(sub { rows_in('crash') > $before + 500 }, $soon), "crash $round: at work");
	$node->stop('immediate');
	foreach my $load (@loads)
	{
		$load->quit;
	}
	$node->start;
	is( sql($node, 'SELECT count(*) || \' \' || count(DISTINCT id) FROM (SELECT id FROM fairq.q_crash UNION ALL SELECT id FROM fairq.done_crash) x'),
		50000 * $round . ' ' . 50000 * $round,
		"crash $round: each task is in one of the tables, once");
}
sql($node, "SELECT fairq.alter_queue('crash', keep_done => '1 ms')");
becomes_empty('crash', 'after the crash');
# It reads from the start now: rows are found that were made old with SQL.
ok(wait_for(sub { rows_in('dump') == 12 }, $soon), 'after the crash: what is old goes');
ok(!$node->log_contains('TRAP:|PANIC:|terminated by signal'), 'no server process broke down');
$node->stop;

done_testing();
