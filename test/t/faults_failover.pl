# Standbys that are promoted under load, with synchronous replication on.
#
# Shown, for a primary that is shut down without waiting for anybody, one whose
# postmaster is killed, and one that ends because a backend was killed and
# restart_after_crash is off: what a client saw committed is committed on the new
# primary, be it an enqueue or an ack with its result; nothing that was
# acknowledged comes back; each task has one result in the end (I1, I3).  Leases
# of the old primary are forgotten, so their tasks run again at once, and their
# receipts are void; retries and schedules go on, and nobody has to do anything
# for that (I8, I9).  A standby gives no tasks and takes none.
#
# To see it fail, take one of these guards out of the engine:
# - that functions that write are refused during recovery;
# - that the background worker is started on a promoted standby: what is due does
#   not become ready, what is lost does not come back;
# - or the one below it: with synchronous_commit = off what was committed is lost.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FaultLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# How long after the promotion a task that was in flight is in somebody's hands
# again: I8 says a second.  The rest is for a machine that has other things to do,
# which may keep one of them for longer, but not half of them.
my $again = 1 + 2;
my $last = 10;

my @nodes = fairq_node(
	'node0',
	init => { allows_streaming => 1 },
	conf => <<'CONF');
restart_after_crash = off
max_connections = 40
shared_buffers = 32MB
pgfairq.max_leases = 10000
pgfairq.max_groups = 10000
CONF
push @nodes, map { PostgreSQL::Test::Cluster->new("node$_") } 1 .. 3;

# Clients go to whoever is the primary.
my $load = FaultLoad->new(
	sprintf(
		'host=%s port=%s dbname=postgres target_session_attrs=read-write',
		join(',', map { $_->host } @nodes),
		join(',', map { $_->port } @nodes)));
is($load->command('progress 20'), 'done', 'load is running');

my @ways = (
	[ 'immediate shutdown', sub { $_[0]->stop('immediate'); return } ],
	[ 'postmaster killed', sub { $_[0]->kill9; return } ],
	[
		'backend killed, no restart',
		sub {
			my ($node) = @_;
			my $pidfile = $node->data_dir . '/postmaster.pid';

			kill 9, $load->command('backend');
			ok(wait_for(sub { !-e $pidfile }), 'the primary is down');
			# The library believes that it still runs.
			$node->{_pid} = undef;
			return;
		}
	]);

sql($nodes[0], "SELECT fairq.create_queue('quiet', backoff_base => '0')");
foreach my $i (0 .. $#ways)
{
	my ($way, $down) = @{ $ways[$i] };
	my ($primary, $standby) = @nodes[ $i, $i + 1 ];

	# A standby, made while the load goes on.  When it is promoted there is none
	# to wait for, until the next one is there.
	$primary->backup("backup$i");
	$standby->init_from_backup($primary, "backup$i", has_streaming => 1);
	$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
	$standby->start;
	$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
	$primary->reload;
	ok( wait_for(
			sub { sql($primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") eq '1' }
		),
		"$way: replication is synchronous");
	# From here on: what was committed before it was has arrived, too.
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

	# On the standby
	my $receipt = sql($primary, <<'SQL');
SELECT fairq.enqueue('quiet', '2') \g /dev/null
SELECT receipt FROM fairq.claim('quiet', lease => '1 h') \gset
SELECT fairq.enqueue('quiet', '1', run_at => clock_timestamp() + interval '1 s') \g /dev/null
\echo :receipt
SQL
	foreach my $call (
		"fairq.enqueue('quiet', '3')",
		"fairq.enqueue_many('quiet', '{3}')",
		"fairq.claim('quiet')",
		"fairq.pop('quiet')",
		"fairq.ack('$receipt')",
		"fairq.nack('$receipt')",
		"fairq.ack_and_claim('quiet', '{}')",
		"fairq.cancel('quiet', 1)")
	{
		refused($standby, "SELECT $call", '25006', undef, undef, "$way: refused on the standby: $call");
	}
	is( sql($standby, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'"),
		0,
		"$way: no background worker on the standby");

	# The fault
	is($load->command('progress 100'), 'done', "$way: tasks are acknowledged");
	$load->command('down');
	$down->($primary);
	$standby->promote;
	is($load->command('up'), 'up', "$way: the load goes on");
	is(sql($standby, "SELECT fairq.ack('$receipt')"), 'f', "$way: the receipt of the old primary is void");
	is( sql($standby, "SELECT payload, attempt FROM fairq.claim('quiet', lease => '100 ms') WHERE payload = '2'"),
		'2|1',
		"$way: its task is given out again");
	ok( wait_for(
			sub {
				sql($standby,
					"SELECT string_agg(payload::text || ' ' || state || ' ' || lost, ', ' ORDER BY payload) FROM fairq.tasks('quiet')")
				  eq '1 ready 0, 2 ready 1';
			},
			20),
		"$way: the background worker of the new primary: what is due, and what is lost");
	is( sql($standby, "SELECT count(*) FROM fairq.pop('quiet', 10)"), 2, "$way: that is all");
}
is($load->command('progress 100'), 'done', 'tasks are acknowledged after the last promotion');

my $r = $load->finish('failover');
is($r->{crashes}, scalar(@ways), 'failover: promotions');
cmp_ok($r->{'connections lost'}, '>=', scalar(@ways), 'failover: connections were lost');
cmp_ok($r->{crashed}, '>=', 3, "failover: tasks were in flight");
cmp_ok($r->{crashed_median}, '<=', $again, 'failover: half of them in time');
cmp_ok($r->{crashed_last}, '<=', $last,
	"failover: they are in somebody's hands again, after $r->{crashed_median} s (median), $r->{crashed_last} s (last)");
is($r->{crashed_never}, 0, 'failover: all of them');
cmp_ok($r->{void}, '>', 0, "failover: receipts of before were tried: $r->{void}");

$nodes[-1]->stop;
done_testing();
