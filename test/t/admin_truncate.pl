# TRUNCATE ... RESTART IDENTITY: leases of tasks that are gone are not in force for
# new tasks of the same ids.
#
# With leases in memory and durable ones; while the server runs, across a restart and
# a crash, with new tasks after and in the transaction that truncates.  And leases of
# tasks that are still there go on: TRUNCATE rolled back, VACUUM FULL, CLUSTER.
#
# Seen to fail without these guards: lease_rows.c, lease_rows_check() without the
# leases whose row is gone (all but the last way), without is_of_another() (restart,
# in one transaction), or with one that goes by whether the task is younger than the
# lease (a claim under way), or without its time of a lease that was restored when the row
# of its task had gone (crash, in one transaction); durable_leases.c, the check also when
# the file is of this transaction (TRUNCATE rolled back).  The count of new tasks, and the
# part without a worker, are for leases in vain that end with a task of their id
# (lost_leases.c); these were not seen to fail.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('truncate', conf => "pgfairq.max_leases = 10000\n");

sql($node, "SELECT fairq.create_queue(q, buckets => 1, lease => '2 h', durable_leases => q = 'd') FROM (VALUES ('t'), ('d')) AS v (q)");

# More than are taken off the sequence at a time.
my $many = 1500;
my $new = "SELECT count(fairq.enqueue(q, '\"new\"')) FROM (VALUES ('t'), ('d')) AS v (q), generate_series(1, $many)";
my $truncate = 'TRUNCATE fairq.q_t, fairq.q_d RESTART IDENTITY';

my %ways = (
	'running' => sub { sql($node, $truncate); sql($node, $new) },
	'in one transaction' => sub { sql($node, "BEGIN; $truncate; $new; COMMIT") },
	'restart, in one transaction' => sub { $node->restart; sql($node, "BEGIN; $truncate; $new; COMMIT") },
	'crash, in one transaction' => sub {
		$node->stop('immediate');
		$node->start;
		sql($node, "BEGIN; $truncate; $new; COMMIT");
	},
	'restart' => sub { sql($node, $truncate); $node->restart; sql($node, $new) },
	'enqueue, restart' => sub { sql($node, $truncate); sql($node, $new); $node->restart },
	'crash' => sub { sql($node, $truncate); $node->stop('immediate'); $node->start; sql($node, $new) },
	'in one transaction, crash' => sub {
		sql($node, "BEGIN; $truncate; $new; COMMIT");
		$node->stop('immediate');
		$node->start;
	});

foreach my $way (sort keys %ways)
{
	sql($node, $truncate);
	$node->restart;
	my @receipts;
	foreach my $queue ('t', 'd')
	{
		sql($node, "SELECT count(fairq.enqueue('$queue', '\"old\"')) FROM generate_series(1, 5)");
		push @receipts, column($node, "SELECT receipt FROM fairq.claim('$queue', 5)");
	}
	is(scalar(@receipts), 10, "$way: tasks are leased");
	$ways{$way}->();
	my $list = join(',', map { "'$_'" } @receipts);
	is(sql($node, "SELECT count(*) FROM fairq.ack_many(ARRAY[$list]::uuid[])"), 0, "$way: the old leases are void");
	foreach my $queue ('t', 'd')
	{
		is(sql($node, "SELECT count(*), min(id) < 10 FROM fairq.q_$queue"), "$many|t", "$way: new tasks of old ids are there");
		my $n = 0;
		ok( wait_for(
				sub { ($n += sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('$queue', 1000)")) == $many },
				60),
			"$way: all of them can be claimed")
		  or diag("$n of $many\n" . sql($node, "SELECT * FROM fairq.leases"));
	}
	ok( wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.durable_lease') eq '0' }, 60),
		"$way: durable leases have gone");
	is(sql($node, 'SELECT count(*) FROM fairq.leases'), 0, "$way: so have all");
	nothing_swept($node, $way);
}

# Leases of tasks that are there
sql($node, "SELECT fairq.enqueue('t', '1'), fairq.enqueue('d', '1')");
my ($t, $d) = map { sql($node, "SELECT receipt FROM fairq.claim('$_')") } 't', 'd';
sql($node, "BEGIN; $truncate; SELECT fairq.enqueue('t', '2'), fairq.enqueue('d', '2'); SELECT * FROM fairq.claim('t'); ROLLBACK");
sql($node, $_) foreach 'VACUUM FULL fairq.q_t, fairq.q_d', 'CREATE INDEX mine ON fairq.q_t (enqueued_at)', 'CLUSTER fairq.q_t USING mine', 'DROP INDEX fairq.mine';
is(sql($node, "SELECT fairq.extend('$t', '1 h') IS NOT NULL, fairq.extend('$d', '1 h') IS NOT NULL"), 't|t', 'TRUNCATE rolled back, VACUUM FULL, CLUSTER: the leases go on');
is(sql($node, "SELECT (SELECT count(*) FROM fairq.claim('t')), (SELECT count(*) FROM fairq.claim('d'))"), '0|0', 'nobody else can have the tasks');
is(sql($node, "SELECT fairq.ack('$t'), fairq.ack('$d')"), 't|t', 'and they are acknowledged');

# A task may be enqueued while the claim is under way that gets it.
sql($node, "SELECT fairq.enqueue('t', '1'), fairq.enqueue('d', '1'); UPDATE fairq.q_t SET enqueued_at = clock_timestamp() + interval '1 s'; UPDATE fairq.q_d SET enqueued_at = clock_timestamp() + interval '1 s'");
($t, $d) = map { sql($node, "SELECT receipt FROM fairq.claim('$_')") } 't', 'd';
ok(wait_for(sub { sql($node, "SELECT greatest(t.enqueued_at, d.enqueued_at) < clock_timestamp() FROM fairq.q_t t, fairq.q_d d") eq 't' }),
	'tasks that were enqueued after the claim had begun');
sql($node, 'VACUUM FULL fairq.q_t, fairq.q_d');
is(sql($node, "SELECT fairq.ack('$t'), fairq.extend('$d', '1 h') IS NOT NULL"), 't|t', 'VACUUM FULL: their leases go on');
$node->stop('immediate');
$node->start;
is(sql($node, "SELECT fairq.ack('$d')"), 't', 'and over a crash');

# New tasks of old ids are counted when the leases in vain have ended.
sql($node, "SELECT count(fairq.enqueue(q, '\"old\"')) FROM (VALUES ('t'), ('d')) AS v (q), generate_series(1, 5)");
sql($node, "SELECT count(*) FROM fairq.claim('$_', 5)") foreach 't', 'd';
sql($node, "BEGIN; $truncate; $new; COMMIT");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.leases") eq '0' }, 60), 'leases in vain have ended');
is(sql($node, "SELECT string_agg(queue || ready, ' ' ORDER BY queue) FROM fairq.group_stats"), "d$many t$many", 'and each new task is counted');
sql($node, $truncate);

# A task that was taken off with SQL has no lease for longer than that lasts
sql($node, "SELECT fairq.enqueue('t', '1')");
sql($node, "SELECT id FROM fairq.claim('t', lease => '1 s')");
sql($node, "UPDATE fairq.q_t SET state = 'd', address = NULL");
ok(wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.leases') eq '0' }, 60), 'set to dead with SQL: the lease ends');
is(sql($node, "SELECT state, attempts FROM fairq.get_task('t', (SELECT min(id) FROM fairq.q_t))"), 'dead|0', 'the row is as it was written');
is(sql($node, "SELECT fairq.revive_all('t')"), 1, 'it is revived');
is(sql($node, "SELECT count(*) FROM fairq.claim('t')"), 1, 'and claimed');

# Where there is no worker claims meet the old leases first
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
sql($node, $truncate);
$node->restart;
sql($node, "SELECT count(fairq.enqueue('t', '\"old\"')) FROM generate_series(1, 5)");
is(sql($node, "SELECT count(*) FROM fairq.claim('t', 5)"), 5, 'no worker: tasks are leased');
$node->restart;
sql($node, "BEGIN; $truncate; $new; COMMIT");
my $got = 0;
ok(wait_for(sub { ($got += sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('t', 1000)")) == $many }, 60),
	'no worker: all new tasks can be claimed')
  or diag("$got of $many");

$node->stop;
done_testing();
