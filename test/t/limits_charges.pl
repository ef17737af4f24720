# What comes to nothing is charged to nobody: two queues have the same tasks; in one of them
# claims are rolled back, and tasks are there besides that come to nothing. Then the order
# in which tasks come is the same in both, one by one.
#
# Shown: so it is with claims that are rolled back, in savepoints in any order; with tasks
# of a line that were cancelled, have expired, are dead, have gone to another group, were
# leased, or were deleted behind the engine, before their turn came or while it was theirs; also
# with weights and costs that are far apart; and a claim of some groups charges these,
# once for each task. What comes back when its group's tasks have addresses again comes
# before these.
#
# Seen to fail without these guards:
# - what leads nowhere, or is not leased, gives its charge back (turns_refund, and its calls
#   in claim_hand_led_nowhere and not_granted, one by one): what comes to nothing;
# - a task is charged its own cost (claim_turns.c, look_at; turn_lines.c, add_task);
# - one whose class was changed is not claimed at the turn of its old one (turns_is_of);
# - what was leased and comes back keeps its tag (turn_candidates_put_back): rolled back;
# - a group that has addresses again goes on from its line's tag (turn_lines_end): in and out;
# - a group has a line again when a task of the overflow comes back (groups_count): back;
# - a claim of some groups is charged for them (charge_levels): a claim of some groups.
# Not so what was leased, was given back, and only then comes to nothing: it stays charged.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('charges', conf => "max_connections = 20\nmax_prepared_transactions = 5\n");
my $one = session($node);
my $two = session($node);

# Both queues, with tasks of groups a, b and c: of one whose number is i the payload is
# i, and the cost i-th of these, in turn. Of the first of each group, which has an
# address, nothing is left.
my %costs = (equal => '1', mixed => "(ARRAY[0.5, 1, 4, 2])[1 + i % 4]", 'far apart' => "(ARRAY[0.001, 1, 1000])[1 + i % 3]");

sub make_queues
{
	my ($costs, $weights, $besides) = @_;

	foreach my $q ('q', 't')
	{
		$one->safe("SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue = '$q'");
		$one->safe("SELECT fairq.create_queue('$q', max_ready_per_group => 1, buckets => 1, max_attempts => 0, lease => '1 h', backoff_base => '0')");
		$one->safe("SELECT fairq.set_group('$q', '$_', weight => $weights->{$_})") foreach sort keys %$weights;
		$one->safe("SELECT fairq.enqueue('$q', '\"first\"', '$_')") foreach 'a', 'b', 'c';
	}
	foreach my $q ('q', 't')
	{
		# In the same order: each group has its slot.
		my $more = $besides && $q eq 'q' ? "FOR j IN 1 .. 8 LOOP PERFORM fairq.enqueue('q', '\"d\"', CASE WHEN j < 6 THEN 'a' ELSE 'c' END, cost => 3, unique_key => i || 'd' || j); COMMIT; END LOOP;" : 'NULL;';
		$one->safe("DO \$\$ BEGIN FOR i IN 1 .. 30 LOOP IF i IN (1, 8, 30) THEN $more END IF; PERFORM fairq.enqueue('$q', to_jsonb(g || i), g, cost => ($costs{$costs})::real) FROM unnest('{a,b,c}'::text[]) g; COMMIT; END LOOP; END \$\$");
		# As far as it takes for their firsts.
		$one->safe("SELECT count(*) FROM fairq.pop('$q', 3)");
	}
	return;
}

sub next_of
{
	my ($q, $n) = @_;

	return join ' ', split /\n/, $one->safe("SELECT payload #>> '{}' FROM generate_series(1, $n) i, LATERAL fairq.pop('$q', 1 + 0 * i)");
}

sub same
{
	my ($name, $n) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(next_of('q', $n // 90), next_of('t', $n // 90), "$name: the order is as if nothing had been");
	return;
}

my $claim = sub { return "SELECT count(*) FROM fairq.claim('q', $_[0])" };

#
# Rolled back
#
my %ways = (
	'a claim' => 'BEGIN; ' . $claim->(25) . '; ROLLBACK',
	'claims in savepoints' => 'BEGIN; ' . $claim->(5) . '; SAVEPOINT s; ' . $claim->(7) . '; SAVEPOINT t; ' . $claim->(3) . '; ROLLBACK TO s; ' . $claim->(4)
	  . '; SAVEPOINT u; ' . $claim->(6) . '; RELEASE u; ' . $claim->(2) . '; ROLLBACK',
	'claims and pops' => 'BEGIN; SAVEPOINT s; ' . $claim->(4) . "; SELECT count(*) FROM fairq.pop('q', 6); ROLLBACK TO s; SELECT count(*) FROM fairq.pop('q', 9); ROLLBACK",
	'a claim that fails' => "DO \$\$ BEGIN PERFORM 1 / (id - id) FROM fairq.claim('q', 20); EXCEPTION WHEN division_by_zero THEN NULL; END \$\$",
	'claims of groups' => "BEGIN; SELECT count(*) FROM fairq.claim('q', 8, group_keys => '{b}'); " . $claim->(5) . '; ROLLBACK',
	'again and again' => join('', ('BEGIN; ' . $claim->(11) . '; ROLLBACK; ') x 20));
foreach my $costs (sort keys %costs)
{
	foreach my $weights ({}, { a => 3, b => 0.5 }, { a => 1000, b => 0.001 })
	{
		next if $costs eq 'far apart' && exists $weights->{a} && $weights->{a} == 3;
		my $name = "costs $costs, weights " . join(' ', map { "$_ $weights->{$_}" } sort keys %$weights);

		foreach my $way (sort keys %ways)
		{
			make_queues($costs, $weights);
			$one->safe($ways{$way});
			same("$way, $name", 40);
			$one->safe($ways{$way});
			same("$way again, $name", 50);
		}
	}
}

#
# What comes to nothing
#
my $these = "WHERE payload = '\"d\"'";
my @duds = (
	[ 'cancelled', "SELECT count(fairq.cancel('q', id)) FROM fairq.q_q $these" ],
	[ 'being cancelled', "BEGIN; SELECT count(fairq.cancel('q', id)) FROM fairq.q_q $these" ],
	[ 'locked', "BEGIN; SELECT count(*) FROM (SELECT FROM fairq.q_q $these FOR UPDATE) x; DELETE FROM fairq.q_q $these" ],
	[ 'expired', "UPDATE fairq.q_q SET expires_at = now() $these" ],
	[ 'dead', "UPDATE fairq.q_q SET state = 'd' $these" ],
	[ 'in another group, which is paused', "SELECT fairq.pause_group('q', 'z'); UPDATE fairq.q_q SET group_key = 'z' $these" ],
	[ 'in another class', "UPDATE fairq.q_q SET priority = 9 $these" ],
	[ 'deleted', "DELETE FROM fairq.q_q $these" ],
	[ 'deleted behind the engine', "SET session_replication_role = replica; DELETE FROM fairq.q_q $these; RESET session_replication_role" ],
	[ 'replaced', "SELECT count(fairq.enqueue('q', '\"d\"', 'a', unique_key => unique_key, on_duplicate => 'replace', delay => '1 h')) FROM fairq.q_q $these" ]);
foreach my $weights ({}, { a => 3, b => 0.5 })
{
	foreach my $dud (@duds)
	{
		my ($what, $script) = @$dud;

		make_queues('mixed', $weights, 1);
		$two->safe($script);
		same("$what, weights " . join(' ', %$weights), 45);
		same("$what: and the rest", 45);
		$two->safe('COMMIT');
	}
}

#
# With an address or without: a group that goes into the overflow and out of it has its
# tags as if it had not
#
foreach my $weights ({}, { a => 3, b => 0.5 })
{
	make_queues('mixed', $weights);
	$one->safe("SELECT fairq.purge('q'), fairq.purge('t'), fairq.alter_queue('q', max_ready_per_group => 2), fairq.alter_queue('t', max_ready_per_group => 1000)");
	$one->safe("SELECT count(*) FROM fairq.pop('$_', 1)") foreach 'q', 't';
	my (%came, %overflow);
	foreach my $round (1 .. 60)
	{
		foreach my $q ('q', 't')
		{
			# So many of each, in turn, and so many are taken.
			$one->safe("SELECT fairq.enqueue('$q', to_jsonb(g || '$round' || '-' || i), g, cost => ($costs{mixed})::real) FROM (VALUES ('a', $round % 5), ('b', $round * 7 % 4), ('c', $round * 3 % 3)) v (g, n), LATERAL generate_series(1, n) i ORDER BY i, g");
			$overflow{$q} += $one->safe("SELECT count(*) FROM fairq.tasks('$q', 'overflow')");
			$came{$q} .= next_of($q, $round * 5 % 11) . "\n";
		}
	}
	cmp_ok($overflow{q}, '>', 100, "tasks were in the overflow, $overflow{q} times");
	is($overflow{t}, 0, 'in the other queue none was');
	is($came{q}, $came{t}, 'in and out of the overflow: the order is the same');
	same('what is left', 200);
}

# What was claimed out of the overflow comes back when the group has addresses again.
make_queues('equal', {});
$one->safe("SELECT fairq.purge('q')");
$one->safe("SELECT count(*) FROM fairq.pop('q', 1)");
$one->safe("SELECT fairq.enqueue('q', to_jsonb('a' || i), 'a') FROM generate_series(1, 3) i");
is(next_of('q', 1), 'a1', 'two tasks are left in the overflow');
$two->safe('BEGIN; ' . $claim->(2));
$one->safe("SELECT fairq.enqueue('q', '\"a4\"', 'a')");
is($one->safe("SELECT state FROM fairq.tasks('q') WHERE payload = '\"a4\"'"), 'ready', 'claimed: the next one has an address');
$two->safe('ROLLBACK');
my @back;
wait_for(sub { push @back, split(' ', next_of('q', 1)); return @back == 3; });
is("@back", 'a2 a3 a4', 'rolled back: they come before it');

#
# A claim of some groups
#
make_queues('equal', {});
$one->safe("SELECT count(*) FROM fairq.pop('q', 6, group_keys => '{a}')");
is(next_of('q', 14), join(' ', map({ ("b$_", "c$_") } 1 .. 6), 'a7', 'b7'), 'a claim of a group has had six tasks: the others have as many before it');
nothing_swept($node);

$_->quit foreach $one, $two;
$node->stop;
done_testing();
