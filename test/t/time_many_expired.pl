# Thousands of tasks that expire in the same moment, while the queues are used: all
# end, once, and nobody waits meanwhile; none is claimed after its expires_at.
#
# test/bench/million_expired.sh does the same with a million and measures it.
#
# To see it fail: take the look out of claim_grant() (tasks are claimed late); have
# expire_due() end at its first pass (some are left).

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
		python_program('many_expired.py'),
		'--conninfo' => $node->connstr('postgres'),
		'--tasks' => $number,
		'--hold' => 40    # they must be there by then
	],
	'>', \$out, '2>', \$err,
	IPC::Run::timeout(300));
my $r = eval { decode_json($out) } or die "no report: $out\n$err";
note($out);

# They are claimed before, too: whatever was not done has expired.
ok(defined $r->{ended} && $r->{ended} < 60, 'all have ended after ' . ($r->{ended} // 'more than 120') . ' s');
is($r->{late}, 0, 'none was claimed after its expires_at');
is_deeply($r->{errors}, [], 'the queues can be used: no errors, and claims find something');
is(($r->{outcomes}{acked} // 0) + $r->{outcomes}{expired}, $number, 'each has ended once');
cmp_ok($r->{outcomes}{expired}, '>', $number / 2, 'most have expired');
is($r->{stats}[3], $r->{outcomes}{expired}, 'so it was counted');
is($r->{stats}[1] + $r->{stats}[2], 0, 'nothing is leased or in the overflow');
is($r->{stats}[4], 0, 'nothing was swept');
foreach my $what (sort keys %{ $r->{latency} })
{
	my $l = $r->{latency}{$what}{meanwhile};
	# On a machine that is busy with other things it took long before, too.
	my $usual = $r->{latency}{$what}{before}{median} // 0;

	cmp_ok($l->{median}, '<', 100 + 10 * $usual, "meanwhile, $what: $l->{median} ms (median), $l->{max} ms (max); before, $usual ms (median)") if $l->{n} > 3;
}

$node->stop;
done_testing();
