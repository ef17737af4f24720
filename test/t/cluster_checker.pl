# A cluster under load while nodes are killed, promoted, switched over, added and drained,
# also with kills in the middle and beside a proxy that lags, and a proxy is killed; while
# a node's processes are stopped, it has no room, a clock is wrong, and a node is restored
# from a backup: what producers were told to be enqueued is done once, whoever did it, but
# for what a restored node cannot know. One round of each fault; make torture-cluster does
# a hundred of them, and of those that need a network of their own. The program is
# test/torture/cluster.py.
#
# Two runs show that the checker would find it: workers that acknowledge before they write
# a result, one in twenty of which ends in between; and producers that take what was
# not answered for enqueued.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqClock;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($python, $flag) = python_program('none');
my ($bindir) = grep { -x "$_/initdb" } split /:/, $ENV{PATH};

# Whether it went well, and what it says.
sub torture
{
	my (@options) = @_;
	my $output = '';
	my $good = IPC::Run::run(
		[
			$python, $flag, "$FindBin::RealBin/../torture/cluster.py", '--work', PostgreSQL::Test::Utils::tempdir_short(),
			'--bindir', $bindir, '--nodes', 2, '--standbys', 1, '--longest', 3, '--clock', $clock_library, @options
		],
		'>&', \$output, IPC::Run::timeout(3600));

	return ($good, $output);
}

my ($good, $output) = torture('--rounds', $ENV{FAIRQ_ROUNDS} // 1);
ok($good, 'faults of every kind under load') or diag($output);
like($output, qr/^0 lost, 0 double, 0 stuck, 0 of nowhere$/m, 'nothing is lost, and nothing done twice');
note($output);
is(() = $output =~ /^\| .* \| [1-9]\d* \|/mg, 14, 'thirteen kinds of faults were made, and one time without');

($good, $output) = torture('--faults', 'kill', '--rounds', 1, '--plant', 'ack-first');
ok(!$good && $output =~ /^[1-9]\d* lost, 0 double/m, 'the checker finds what was acknowledged before it was done') or diag($output);
($good, $output) = torture('--faults', 'kill', '--rounds', 1, '--plant', 'unanswered');
ok(!$good && $output =~ /^[1-9]\d* lost, 0 double/m, 'and what was never enqueued') or diag($output);

done_testing();
