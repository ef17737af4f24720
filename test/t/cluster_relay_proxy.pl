# A relay whose target is a proxy of two nodes, of which one is away for a while: tasks
# of the other one go on, and no attempt is counted. Tasks that are sent twice are one,
# for a key is always of the same node.
#
# Seen to fail: with errors of class 08 taken for the task's fault its tasks are dead;
# without keys tasks go to the other node when one is away.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($python) = python_program('');
my $log = "$PostgreSQL::Test::Utils::log_path/cluster_relay_proxy_relays.log";
my $origin = fairq_node('origin');
my ($proxy, @nodes) = fairq_cluster(2);

sub relay
{
	return IPC::Run::start(
		[
			$python, "$FindBin::RealBin/../../clients/relay/pgfairq-relay",
			'--from', $origin->connstr('postgres'), '--to', $proxy->connstr('postgres'), '--queue', 'outbox', '--to-queue', 'in', @_
		],
		'<', \undef, '>>', $log, '2>>', $log);
}

# How many tasks there are at the nodes, and how many different ones.
sub arrived
{
	my @payloads = map { column($_, "SELECT payload FROM fairq.q_in") } @nodes;

	return scalar(@payloads) . ' ' . keys %{ { map { $_ => 1 } @payloads } };
}

sub left
{
	return sql($origin, "SELECT coalesce(string_agg(DISTINCT state || ' ' || attempts, ', '), 'none') FROM fairq.tasks('outbox')");
}

sub enqueue
{
	my ($from, $to) = @_;

	sql($origin,
		"SELECT fairq.enqueue_many('outbox', ARRAY(SELECT to_jsonb(n) FROM generate_series($from, $to) n), group_keys => ARRAY(SELECT 'g' || n % 7 FROM generate_series($from, $to) n))"
	);
	return;
}

sql($origin, "SELECT fairq.create_queue('outbox', backoff_base => '0')");
sql($proxy, "SELECT fairq.create_queue('in')");

# One node is away
$nodes[1]->stop('immediate');
enqueue(1, 100);
ok(relay('--once')->finish, 'a node is away');
my $there = sql($nodes[0], 'SELECT count(*) FROM fairq.q_in');
cmp_ok($there, '>', 0, "tasks of the other one have arrived: $there");
is(left(), 'scheduled 0', 'the others wait, and no attempt is counted');
$nodes[1]->start;
my $relay = relay();
ok(wait_for(sub { left() eq 'none' }), 'it is back');
$relay->signal('TERM');
ok($relay->finish, 'SIGTERM');
is(arrived(), '100 100', 'each has arrived once');

# Killed when both nodes have the tasks, and the outbox does not know yet
enqueue(101, 200);
my $lock = session($nodes[0]);
$lock->safe('BEGIN; LOCK TABLE fairq.q_in IN ACCESS EXCLUSIVE MODE');
$relay = relay();
ok(wait_event_of($nodes[0], 'Lock', "query LIKE '%enqueue%'"), 'tasks are being sent');
my $origin_lock = session($origin);
$origin_lock->safe('BEGIN; LOCK TABLE fairq.q_outbox IN SHARE MODE');
$lock->safe('COMMIT');
ok(wait_event_of($origin, 'Lock', "query LIKE '%ack_many%'"), 'they have arrived, and the outbox does not know yet');
is(arrived(), '200 200', 'all of them');
$relay->signal('KILL');
eval { $relay->finish };
# Its backend waits for the lock, and would acknowledge if it got that before it knows.
sql($origin, "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'");
$origin_lock->safe('COMMIT');
ok( wait_for(
		sub {
			sql($origin, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'") eq '0'
			  && sql($origin, "SELECT count(*) FROM fairq.tasks('outbox') WHERE state <> 'ready'") eq '0';
		}),
	'what was not acknowledged is ready again');
cmp_ok(sql($origin, 'SELECT count(*) FROM fairq.q_outbox'), '>', 0, 'there is some');
ok(relay('--once')->finish, 'the next relay sends it again');
is(left(), 'none', 'all are acknowledged');
is(arrived(), '200 200', 'none is there twice');

$_->stop foreach $origin, $proxy, @nodes;
done_testing();
