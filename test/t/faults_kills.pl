# Processes that are killed under load: clients, backends, the background
# worker, the postmaster; and shutdowns that do not wait for anybody.
#
# Shown, for each, with producers and claimers of every kind at work (leases,
# sessions, bound sessions, transactions that claim and acknowledge, pops, some
# nacked, some rolled back to a savepoint): what producers know to be committed
# is acknowledged once in the end, in the transaction that writes the result, and
# never twice (I1, I3); no two leases on one task (I2); receipts of before are
# void; and what was in the hands of the dead is in somebody's hands again within
# a second of the end of its lease, of its session, of its connection, or of the
# restart (I8, I9).
#
# To see it fail, take one of these guards out of the engine:
# - that a lease goes on when the transaction that was settling it rolls back, or
#   that a claim that rolls back gives its lease back: tasks are left for ever;
# - that a bound session ends with its connection: the same;
# - that there is no second lease on a task: two holders, where rows are moved by
#   SQL meanwhile;
# - that leases are kept only after a clean shutdown: a receipt from before the
#   immediate shutdown is good;
# - or the one below it: with synchronous_commit = off what was committed is lost.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FaultLoad;
use PostgreSQL::Test::Utils;
use Test::More;

# How long after the end of its lease a task is in somebody's hands again: I8
# says a second.  The rest is for a machine that has other things to do, which may
# keep one of them for longer, but not half of them.
my $again = 1 + 2;
my $last = 10;

my $times = $ENV{FAIRQ_KILLS} // 10;

my $node = fairq_node('kills', conf => <<'CONF');
restart_after_crash = on
max_connections = 40
shared_buffers = 32MB
pgfairq.max_leases = 10000
pgfairq.max_groups = 10000
CONF

# The process to be killed, or none.
sub process_of
{
	my ($type) = @_;

	return (column($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' LIMIT 1"))[0];
}

# Each: how often, and what is done; the load goes on.
my @rounds = (
	[
		'client', $times,
		sub {
			my ($load, $i) = @_;
			my @kinds = qw(bound lease transaction session pop producer);
			$load->command("kill $kinds[$i % @kinds]");
			return;
		}
	],
	[ 'backend', $times, sub { crash_of($node, $_[0]->command('backend')); return } ],
	[
		'background worker',
		$times,
		sub {
			my ($load) = @_;
			my ($pid);
			ok(wait_for(sub { $pid = process_of('pgfairq worker') }), 'there is a background worker again')
			  or return;
			# On a busy machine that took long: the tasks in hand are others.
			$load->command('down');
			crash_of($node, $pid);
			return;
		}
	],
	[
		'postmaster', $times,
		sub { $node->kill9; start_after_kill($node) or die 'it does not start'; return }
	],
	[ 'immediate shutdown', 3, sub { $node->stop('immediate'); $node->start; return } ],
);

foreach my $round (@rounds)
{
	my ($what, $number, $harm) = @$round;
	my $load = FaultLoad->new($node->connstr('postgres'));

	foreach my $i (0 .. $number - 1)
	{
		is($load->command('progress 40'), 'done', "$what $i: tasks are acknowledged");
		$load->command('down') if $what ne 'client';
		$harm->($load, $i);
		$load->command('up') if $what ne 'client';
	}
	my $r = $load->finish($what);

	# The dead are seen to be dead, and what they had comes again.
	if ($what eq 'client')
	{
		is($r->{kills}, $number, "$what: killed");
		cmp_ok($r->{killed}, '>=', $number / 2, "$what: tasks were in the hands of the killed");
		cmp_ok($r->{killed_median}, '<=', $again, "$what: half of them in time");
		cmp_ok($r->{killed_last}, '<=', $last,
			"$what: they are in somebody's hands again, after $r->{killed_median} s (median), $r->{killed_last} s (last)");
		is($r->{killed_never}, 0, "$what: all of them");
		is($r->{killed_uncounted}, 0, "$what: the attempt is counted");
		is($r->{'connections lost'}, 0, "$what: no other client noticed");
	}
	else
	{
		is($r->{crashes}, $number, "$what: killed");
		cmp_ok($r->{'connections lost'}, '>=', $number, "$what: connections were lost");
		cmp_ok($r->{crashed}, '>=', $number, "$what: tasks were in flight");
		cmp_ok($r->{crashed_median}, '<=', $again, "$what: half of them in time");
		cmp_ok($r->{crashed_last}, '<=', $last,
			"$what: they are in somebody's hands again, after $r->{crashed_median} s (median), $r->{crashed_last} s (last)");
		is($r->{crashed_never}, 0, "$what: all of them");
	}
}

$node->stop;
done_testing();
