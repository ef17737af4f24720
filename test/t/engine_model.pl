# Random schedules of all functions against a model of what queues are
# (test/load/model.py, driven by model_run.py): every difference is an error.
#
# Three connections take turns, so that each answer is known; other tests have
# the load. Some schedules restart the server, cleanly or not. Half of the queues
# have subgroups, and some have them for a while.
#
# FAIRQ_MODEL_SCHEDULES sets how many schedules, each with another seed; they
# are the same ones each time, and FAIRQ_MODEL_SEED begins with others. The first
# that fails is shortened, for five minutes at most, and printed as a list of steps;
# FAIRQ_MODEL_REPLAY=FILE takes the steps that are in the file. FAIRQ_MODEL_STEPS sets how
# many steps each has (150); of more than a thousand none is shortened.
#
# To see it fail: do not look behind a task that has gone (unique_keys.c); let new
# tasks overtake the overflow (groups.c); let an ack that is rolled back end the
# lease, or do not offer a task whose claim was (pending_leases.c); let what is replaced
# always keep its place (unique_keys.c); end a session when close_session is
# called, not when that commits (sql_sessions.c); do not count off what is rolled back
# (groups_untag): what group_stats says, which is compared whenever no transaction is open;
# count the end of a lease for a subgroup and not for its group (groups_lease_ends); have room
# kept by the limit of the subgroup alone (reserve, turns.c): a claim does not end. With seed
# 57: look for what is in no line before what is in doubt (maintain.c), and a task that a
# claim has passed over is not found by the next pass.
# What was left of 150 steps: two enqueues (keeps its place); BEGIN, an enqueue, ROLLBACK
# (groups_untag); an enqueue, a claim, BEGIN, an ack, ROLLBACK (an ack that is rolled
# back); an enqueue, BEGIN, a claim, ROLLBACK (a claim that is).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('model', conf => "pgfairq.max_workers = 0\nfsync = off\n");
my $seed = $ENV{FAIRQ_MODEL_SEED} // 1;
my $replay = $ENV{FAIRQ_MODEL_REPLAY};

note(defined $replay ? "replays $replay" : "seed $seed");
my ($ran, $output) = run_restarting($node, 'model_run.py',
	'--seed', $seed,
	'--schedules', $ENV{FAIRQ_MODEL_SCHEDULES} // 12,
	'--steps', $ENV{FAIRQ_MODEL_STEPS} // 150,
	defined $replay ? ('--replay', $replay) : ());
ok($ran, 'the queues do what the model says') or diag($output);
# A single schedule has not all of them.
if (!defined $replay)
{
	my $counts = $ran ? decode_json($output) : {};
	cmp_ok($counts->{$_} // 0, '>', 4, "$_ was called often enough")
	  foreach (
		qw(enqueue enqueue_after enqueue_many publish subscribe claim claim_any pop ack ack_with_result await_task
		ack_and_claim nack nack_many release release_many extend expire old_receipt contested
		open_session heartbeat close_session short_session buckets look cancel purge revive
		revive_group overdue hasten age forget pause set_group reset_group create_again alter maintain
		transaction reconnect set_defaults counts claimed_of_subgroups));
	cmp_ok($counts->{restart} // 0, '>', 1, 'the server was restarted');
	cmp_ok($counts->{$_} // 0, '>', 1, "$_: it has come to that")
	  foreach (qw(lost alone divide));
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/,
	'no server process broke down');
done_testing();
