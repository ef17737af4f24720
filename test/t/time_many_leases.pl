# Thousands of leases that run out in the same moment, while the queues are used
# (I8): all come back, each attempt is counted once, what has a backoff waits,
# what has no attempt left is dead, and nobody waits meanwhile.
#
# test/bench/million_leases.sh does the same with a million and measures it.
#
# To see it fail, take one of these guards out of the engine:
# - that all partitions of the lease table are looked through: some tasks are left;
# - that an attempt is counted once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use Test::More;

my $number = 20_000;
my $node = fairq_node('many', conf => <<'CONF');
shared_buffers = 128MB
max_connections = 20
CONF

my ($out, $err) = ('', '');
IPC::Run::run(
	[
		python_program('many_leases.py'),
		'--conninfo' => $node->connstr('postgres'),
		'--leases' => $number,
		'--hold' => 25    # claims must be done by then
	],
	'>', \$out, '2>', \$err,
	IPC::Run::timeout(300));
my $r = eval { decode_json($out) } or die "no report: $out\n$err";
note($out);

is($r->{in_flight}, $number, "$number tasks are leased");
cmp_ok($r->{spread}, '<', 1, "up to the same moment, give or take $r->{spread} s");
SKIP:
{
	skip 'no /proc to read CPU times from', 1 unless defined $r->{idle_cpu};
	cmp_ok($r->{idle_cpu}, '<', 0.1, "while nothing runs out the worker takes no CPU time to speak of: $r->{idle_cpu}");
}

# A second, says I8, for one; these are many, and others use the two processors.
ok(defined $r->{back} && $r->{back} < 15, 'all are put back after ' . ($r->{back} // 'more than 120') . ' s');
is_deeply($r->{errors}, [], 'the queues can be used: no errors, and claims find something');
foreach my $what (sort keys %{ $r->{latency} })
{
	my $l = $r->{latency}{$what}{meanwhile};
	# On a machine that is busy with other things it took long before, too.
	my $usual = $r->{latency}{$what}{before}{median} // 0;

	cmp_ok($l->{n}, '>', 0, "meanwhile, $what: $l->{n} times");
	cmp_ok($l->{median}, '<', 100 + 10 * $usual, "meanwhile, $what: $l->{median} ms (median), $l->{max} ms (max); before, $usual ms (median)");
}

# What the user of the queue has acknowledged was put back before.
my %tasks = %{ $r->{tasks} };
my $again = $r->{acked_again};
my $ready = $number * 0.8 - $again;
is_deeply(
	\%tasks,
	{
		'crowd: ready, 0 attempts, 1 lost, lease expired' => $ready,
		'waiting: scheduled, 0 attempts, 1 lost, lease expired' => $number * 0.1,
		'final: dead, 0 attempts, 1 lost, lease expired' => $number * 0.1
	},
	"each is there once, lost once; $again of them are done")
  or diag($out);
cmp_ok($again, '>', 0, 'the users of the queue got some of them');
is($r->{acked_twice}, 0, 'no task was acknowledged twice');
is($r->{acked_odd}, 0, 'no attempt was counted twice');
is($r->{leased}, 0, 'no lease is left');

$node->stop;
done_testing();
