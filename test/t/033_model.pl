# Random schedules of all functions against a model of what a queue is
# (test/load/model.py): every difference is an error.
#
# In one session, so that each answer is known; other tests have the load.
# FAIRQ_MODEL_SCHEDULES sets how many schedules, each with another seed; they
# are the same ones each time, and FAIRQ_MODEL_SEED begins with others.
#
# To see it fail: let a nack keep the task's address (placement.c: FIFO within a
# group); do not offer a released task again; do not set aside what a group at
# its limit has, but drop it; count an attempt at a release; let an ack that is
# rolled back end the lease.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use Test::More;

my $node = fairq_node('model', conf => "pgfairq.max_workers = 0\n");
my $output = '';
my $ran = IPC::Run::run(
	[
		python_program('model.py'), $node->connstr('postgres'),
		$ENV{FAIRQ_MODEL_SEED} // 1, $ENV{FAIRQ_MODEL_SCHEDULES} // 15, 300
	],
	'>&', \$output);
ok($ran, 'the queue does what the model says') or diag($output);
my $counts = $ran ? decode_json($output) : {};
cmp_ok($counts->{$_} // 0, '>', 10, "$_ was called often enough")
  foreach (qw(enqueue claim pop ack ack_and_claim nack nack_many release extend expire
	old_receipt cancel revive pause set_group transaction));
unlike($node->log_content, qr/PANIC|TRAP|WARNING/, 'nothing is wrong in the log')
  if $node->can('log_content');
done_testing();
