# The number of buckets is changed while a queue is in use.
#
# Shown: I1, I2 and I3 while it goes from 16 to 1, 64, 3 and 1024 and back, again
# and again, with producers and claimers at work; I9 for a queue that has tasks
# in more buckets than new tasks go to: restart, crash, dump and restore; I10:
# when lanes run out the old number stays in force.
#
# To see it fail, take one of these guards out of the engine:
# - claim_lanes.c, find_sources(): stop at the number of buckets of the queue: tasks
#   in others are not claimed;
# - queue_catalog_lane(): return the lane of bucket 0 when the bucket has none:
#   tasks are not claimed, or out of order;
# - recovery_classes(): look at as many buckets as the queue has: tasks in
#   others are not claimed after a restart and a restore;
# - lane_table_set_up(): do not look whether there is room for all: the server
#   crashes, or lanes are lost when an alteration fails.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('buckets', conf => <<'CONF');
max_connections = 40
pgfairq.max_lanes = 16384
CONF

#
# Under load
#
sql($node, <<'SQL');
SELECT fairq.create_queue('b', backoff_base => '0', max_attempts => 0);
CREATE TABLE sent (id bigint PRIMARY KEY);
-- an ack too many ends the load
CREATE TABLE done (id bigint PRIMARY KEY);
SQL
my %scripts = (
	one => [ 3, <<'SQL' ],
\set g random(1, 20)
INSERT INTO sent SELECT fairq.enqueue('b', '1', group_key => :g::text, priority => :g % 2);
SQL
	many => [ 1, <<'SQL' ],
\set g random(1, 20)
INSERT INTO sent SELECT unnest(fairq.enqueue_many('b', array_fill('2'::jsonb, ARRAY[20]), group_keys => ARRAY(SELECT (i % :g)::text FROM generate_series(1, 20) i)));
SQL
	kept => [ 1, <<'SQL' ],
BEGIN;
INSERT INTO sent SELECT fairq.enqueue('b', '3');
INSERT INTO sent SELECT fairq.enqueue('b', '3') FROM generate_series(1, 3);
SAVEPOINT s;
SELECT fairq.enqueue('b', '"never"') FROM generate_series(1, 3);
ROLLBACK TO s;
COMMIT;
SQL
	ack => [ 4, <<'SQL' ],
INSERT INTO done SELECT id FROM fairq.claim('b', 7) WHERE fairq.ack(receipt);
SQL
	later => [ 3, <<'SQL' ],
SELECT coalesce(array_agg(receipt)::text, '{}') AS receipts, coalesce(array_agg(id)::text, '{}') AS ids FROM fairq.claim('b', 5) \gset
INSERT INTO done SELECT id FROM unnest(':ids'::bigint[], ':receipts'::uuid[]) t(id, receipt) WHERE fairq.ack(receipt);
SQL
	pop => [ 2, <<'SQL' ],
INSERT INTO done SELECT id FROM fairq.pop('b', 3);
SQL
	back => [ 2, <<'SQL' ],
BEGIN;
SELECT count(*) FROM fairq.claim('b', 20);
ROLLBACK;
SELECT count(fairq.nack(receipt, delay => '0')) FROM fairq.claim('b', 3);
SELECT count(fairq.release(receipt)) FROM fairq.claim('b', 3);
SQL
	some => [ 2, <<'SQL' ],
INSERT INTO done SELECT id FROM fairq.claim('b', 3, buckets => '{0}') WHERE fairq.ack(receipt);
INSERT INTO done SELECT id FROM fairq.claim('b', 3, group_keys => '{3,4}') WHERE fairq.ack(receipt);
SQL
);
my $changes = 0;
my $rewrites = 0;
# On a slow machine once is not often enough.
foreach my $turn (1 .. 10)
{
	my $load = start_pgbench($node, \%scripts, '--client=6', '--jobs=2', '--time=9');

	while ($load->goes_on)
	{
		foreach my $n (1, 64, 3, 1024, 16)
		{
			sql($node, "SELECT fairq.alter_queue('b', buckets => $n)");
			$changes++;
		}
		if ($rewrites < 2 && $changes > 20 * ($rewrites + 1))
		{
			sql($node, 'VACUUM FULL fairq.q_b');
			$rewrites++;
		}
	}
	$load->ran_well("the load while the number was changed $changes times");
	last if $changes > 40;
}
cmp_ok($changes, '>', 20, 'it was changed often');

sub drained
{
	return sql($node, <<'SQL') . '|' . sql($node, "SELECT ready, leased, dead FROM fairq.queue_stats WHERE queue = 'b'");
INSERT INTO done SELECT id FROM fairq.claim('b', 100000) WHERE fairq.ack(receipt);
SELECT count(*) FROM fairq.tasks('b')
SQL
}
cmp_ok(sql($node, 'SELECT count(*) FROM sent'), '>', 1000, 'tasks came');
cmp_ok(sql($node, 'SELECT count(*) FROM done'), '>', 500, 'and were done meanwhile');
ok(wait_for(sub { drained() eq '0|0|0|0' }, 60), 'all of them are claimed in the end') or diag(drained());
is( sql($node, 'SELECT count(*), count(s.id), count(d.id) FROM sent s FULL JOIN done d USING (id)'),
	join('|', (sql($node, 'SELECT count(*) FROM sent')) x 3),
	'each of them once, and nothing else');
nothing_swept($node);

# Producers and changes, then one claimer and changes: groups in their order.
sql($node, "SELECT fairq.create_queue('order', buckets => 16)");
my $producers = start_pgbench($node, { order => <<'SQL' }, '--client=5', '--jobs=2', '--transactions=200');
SELECT fairq.enqueue('order', to_jsonb(clock_timestamp()), group_key => :client_id::text);
SQL
while ($producers->goes_on)
{
	sql($node, "SELECT fairq.alter_queue('order', buckets => $_)") foreach (1, 64, 3, 1024, 16);
}
$producers->finish;
my (%last, $wrong, $seen);
foreach my $n (1, 64, 3, 1024, 16, 2, 100, 1)
{
	foreach my $row (rows($node, "SELECT group_key, payload #>> '{}' FROM fairq.pop('order', 130)"))
	{
		my ($group, $at) = @$row;
		$wrong++ if defined $last{$group} && $last{$group} gt $at;
		$last{$group} = $at;
		$seen++;
	}
	sql($node, "SELECT fairq.alter_queue('order', buckets => $n)");
}
is($seen, 1000, 'all of the ordered ones');
ok(!$wrong, 'each group in the order in which its tasks were enqueued');

#
# Restart, crash, dump and restore with tasks in buckets of before
#
sub fill
{
	sql($node, <<'SQL');
SELECT fairq.purge('s') FROM fairq.queues WHERE queue = 's';
SELECT fairq.alter_queue('s', buckets => 1000);
SELECT count(fairq.enqueue('s', to_jsonb(n), group_key => (n % 10)::text, priority => n % 3)) FROM generate_series(1, 500) n;
SELECT fairq.alter_queue('s', buckets => 3);
SELECT count(fairq.enqueue('s', to_jsonb(n), group_key => (n % 10)::text, priority => n % 3)) FROM generate_series(501, 700) n;
SQL
	return;
}

sub state
{
	my ($db) = @_;

	return sql($node, <<'SQL', $db);
SELECT count(*), max(fairq.bucket(address)) > 500, (SELECT buckets FROM fairq.queues WHERE queue = 's'),
	(SELECT max(bucket) > 500 FROM fairq.bucket_stats WHERE queue = 's') FROM fairq.tasks('s')
SQL
}
sql($node, "SELECT fairq.create_queue('s')");
foreach my $mode ('fast', 'immediate')
{
	fill();
	is(state(), '700|t|3|t', "before a restart ($mode)");
	my $receipts = sql($node, "SELECT array_agg(receipt) FROM fairq.claim('s', 100, lease => '1 h')");
	$node->stop($mode);
	$node->start;
	is(state(), '700|t|3|t', "$mode: after it");
	is(sql($node, "SELECT fairq.enqueue('s', '1') > 0, (SELECT max(fairq.bucket(address)) < 3 FROM fairq.tasks('s') WHERE id > (SELECT max(id) - 1 FROM fairq.tasks('s')))"),
		't|t', "$mode: a new task goes to one of three");
	is(sql($node, "SELECT count(*) FROM fairq.ack_many('$receipts')"),
		$mode eq 'fast' ? 100 : 0, "$mode: leases of tasks in buckets of before");
	is(sql($node, "SELECT count(*), count(DISTINCT id) FROM fairq.pop('s', 10000)"),
		$mode eq 'fast' ? '601|601' : '701|701', "$mode: all that is left is claimed");
}

fill();
my $dump = PostgreSQL::Test::Utils::tempdir() . '/s.dump';
command_ok([ 'pg_dump', '--format=custom', "--file=$dump", $node->connstr('postgres') ], 'dump');
sql($node, 'CREATE DATABASE whole');
command_ok([ 'pg_restore', '--dbname' => $node->connstr('whole'), $dump ], 'restore');
is(state('whole'), '700|t|3|t', 'restored: as it was');
is(sql($node, "SELECT count(*), count(DISTINCT id) FROM fairq.pop('s', 10000)", 'whole'),
	'700|700', 'restored: all is claimed');
sql($node, 'CREATE DATABASE rows');
sql($node, "CREATE EXTENSION pgfairq; SELECT fairq.create_queue('s', buckets => 1)", 'rows');
command_ok([ 'pg_restore', '--data-only', '--table=q_s', '--dbname' => $node->connstr('rows'), $dump ], 'restore of the rows alone');
is(sql($node, "SELECT count(*), count(DISTINCT id) FROM fairq.pop('s', 10000)", 'rows'),
	'700|700', 'rows alone, into a queue of one bucket: all is claimed');

# Settings and memory differ: the process that alters is gone before its commit,
# and so is the server.
my $open = session($node);
$open->safe("BEGIN; SELECT fairq.alter_queue('s', buckets => 700); SELECT count(fairq.enqueue('s', '2')) FROM generate_series(1, 300)");
sql($node, "SELECT pg_terminate_backend(" . $open->pid . ", 60000)");
is(state(), '700|t|3|t', 'the process that alters is terminated: nothing has changed');
is(sql($node, "SELECT count(*) FROM fairq.pop('s', 10000)"), 700, 'and all is claimed');
$open = session($node);
fill();
$open->safe("BEGIN; SELECT fairq.alter_queue('s', buckets => 700)");
$node->stop('immediate');
$node->start;
is(state(), '700|t|3|t', 'the server crashes before the commit: nothing has changed');
is(sql($node, "SELECT count(*) FROM fairq.pop('s', 10000)"), 700, 'and all is claimed');

#
# Too few lanes
#
$node->append_conf('postgresql.conf', "pgfairq.max_lanes = 64");
sql($node, "SELECT fairq.drop_queue(queue) FROM fairq.queues");
$node->restart;
sql($node, "SELECT fairq.create_queue('l'); SELECT fairq.enqueue('l', '1'), fairq.enqueue('l', '2', priority => 1)");
foreach my $n (1024, 33)
{
	refused($node, "SELECT fairq.alter_queue('l', buckets => $n)", '53400', qr/queue "l"/,
		qr/pgfairq\.max_lanes/, "$n buckets of two classes: too many for 64 lanes");
	is(sql($node, "SELECT buckets, (SELECT count(*) FROM fairq.bucket_stats) FROM fairq.queues"),
		'16|32', 'the old number is in force, and no lane was taken');
}
sql($node, "SELECT fairq.alter_queue('l', buckets => 32)");
is(sql($node, "SELECT buckets, (SELECT count(*) FROM fairq.bucket_stats) FROM fairq.queues"),
	'32|64', 'as many as there are');
refused($node, "SELECT fairq.enqueue('l', '3', priority => 2)", '53400', undef,
	qr/pgfairq\.max_lanes/, 'a third class is too much');
sql($node, "SELECT fairq.alter_queue('l', buckets => 1); SELECT fairq.create_queue('other', buckets => 64)");
refused($node, "SELECT fairq.enqueue('other', '3')", '53400', undef,
	qr/pgfairq\.max_lanes/, 'lanes stay with their queue when it has fewer buckets');
is(sql($node, "SELECT count(*) FROM fairq.pop('l', 10)"), 2, 'its tasks are claimed');
sql($node, "SELECT fairq.drop_queue('l')");
is(sql($node, "SELECT fairq.enqueue('other', '3') > 0"), 't', 'until it is dropped');

$node->stop;
is( PostgreSQL::Test::Utils::slurp_file($node->logfile) =~
	  /(PANIC|TRAP|was terminated by signal).*/ ? $& : '',
	'', 'no server process broke down');
done_testing();
