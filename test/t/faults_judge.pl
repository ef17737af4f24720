# The judge of the loads of faults_stress, faults_kills and their like, of make torture and
# of make check-patroni (test/load/judge.py): journals and tables of a run in which all is
# well, and of the same with one task lost, done twice or of nowhere, one lease too many or
# refused too early. What is in doubt is no finding.
#
# To see it fail, leave out one of the judge's questions.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use Test::More;

my $node = fairq_node('judge');
my $output = '';
my $good = IPC::Run::run([ python_program('judged.py'), $node->connstr('postgres') ], '>&', \$output);

note($output);
ok($good, 'the judge finds what is wrong, and nothing else') or diag(join "\n", $output =~ /^(?:not ok|#).*/mg, $output =~ /Error.*/g);
my ($plan) = $output =~ /^1\.\.(\d+)$/m;
is(() = $output =~ /^ok /mg, $plan, 'all cases');

$node->stop;
done_testing();
