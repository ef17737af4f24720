# Shares: groups are served in the proportion of their weights.
#
# First the exact order, with one claimer: random schedules of everything that
# changes it are compared with a model of a few lines (see test/load/order_model.py).
# FAIRQ_ORDER_SEED begins with others. The first that fails is shortened, for five
# minutes at most, and printed as a list of steps; FAIRQ_ORDER_REPLAY=FILE takes the
# steps that are in the file.
#
# Then what is left of it with claimers side by side.  The bound (doc/fairness.md,
# "How far it can be off"): at every moment at which two groups f and m have both had work since
# the start,
#
#     | served_f / w_f - served_m / w_m |
#         <= c_f / w_f + c_m / w_m + C * n * max(c_f / w_f, c_m / w_m)
#
# with C claimers that take n tasks at a time.  It is computed at every prefix of
# the order in which the claims returned.
#
# To see it fail, take one of these guards out of the engine:
# - the weight of a class (class_shares_begin): classes. What a turn is charged in advance is not
#   missed here: eight claimers stay within the bound without it;
# - the weight, or the cost, in group_charge (the model, shares, bounds);
# - v: let a group that comes back start at its old F (credit), a new one at 0;
# - the fresh address of a nack (a group whose tasks all fail);
# - the merge of the lanes in take_from_class: take from the first lane without
#   looking how far the next one is, and do not look again (take_overtaken), which
#   alone makes up for it (the model).
# What was left of 200 steps of the model: four to nine, for the cost four enqueues and a
# claim of five, for the merge three enqueues and a claim of two.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use List::Util qw(max min sum);
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{FAIRQ_ORDER_SEED} // 1;
note("seed $seed");

my $node = fairq_node('shares', conf => <<'CONF');
max_connections = 30
shared_buffers = 256MB
CONF

sub program
{
	my ($program, @more) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[ python_program($program), '--conninfo' => $node->connstr('postgres'), @more ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(900));
	return ($out, $err);
}

# [time, id, group, cost, claimer] in the order in which claims returned.
sub claimers
{
	my ($q, @more) = @_;
	my ($out, $err) = program('claimers.py', '--queue' => $q, @more);

	die "claimers.py: $err" if $out eq '';
	return @{ decode_json($out) };
}

# n tasks each of some groups, of costs that go with the number of the task.
sub fill
{
	my ($q, $cost, %n) = @_;

	return join '', map {
		"SELECT cardinality(fairq.enqueue_many('$q', p, group_keys => ARRAY['$_'], costs => c)) FROM"
		  . " (SELECT array_agg(jsonb_build_object('cost', $cost) ORDER BY i), array_agg(($cost)::real ORDER BY i)"
		  . "    FROM generate_series(1, $n{$_}) i) x (p, c);\n"
	} sort keys %n;
}

sub create
{
	my ($q, $buckets, %weight) = @_;

	return "SELECT fairq.create_queue('$q', buckets => $buckets, max_attempts => 0, max_ready_per_group => 1000000);\n"
	  . join '', map { "SELECT fairq.set_group('$q', '$_', weight => $weight{$_});\n" } sort keys %weight;
}

# How far off the order is: the largest difference of service by weight, in parts
# of the bound; and that difference.
sub unfairness
{
	my ($claimers, $batch, $weight, @order) = @_;
	my (%left, %served, %cost, %in);

	foreach my $row (@order)
	{
		$left{ $row->[2] }++;
		$cost{ $row->[2] } = max($cost{ $row->[2] } // 0, $row->[3] / $weight->{ $row->[2] });
	}
	$served{$_} = 0 foreach keys %left;
	my ($worst, $difference) = (0, 0);
	my $in_flight = $claimers * $batch > 1 ? $claimers * $batch : 0;
	foreach my $row (@order)
	{
		my $g = $row->[2];

		$served{$g} += $row->[3] / $weight->{$g};
		if (--$left{$g} == 0) { delete $served{$g} }
		last if keys %served < 2;
		foreach my $f (keys %served)
		{
			foreach my $m (keys %served)
			{
				my $d = $served{$f} - $served{$m};
				my $bound = $cost{$f} + $cost{$m} + $in_flight * max($cost{$f}, $cost{$m});
				# Sums of costs are not exact here.
				($worst, $difference) = ($d / ($bound + 1e-6), $d) if $d / ($bound + 1e-6) > $worst;
			}
		}
	}
	return ($worst, $difference);
}

#
# The model
#
{
	my $replay = $ENV{FAIRQ_ORDER_REPLAY};
	my ($out, $err) = program('order_model.py', '--seed' => $seed, '--schedules' => 30, '--steps' => 200,
		defined $replay ? ('--replay' => $replay) : ());
	my ($compared) = $out =~ /^(\d+)$/;
	ok(defined $compared && ($compared > 1000 || defined $replay), 'the order of the model, in ' . ($compared // 'no') . ' claims')
	  or diag("seed $seed: $out$err");
}

#
# Three tenants
#
my %weight = (small => 1, medium => 2, big => 5);
foreach my $case (
	[ 'one claimer of 1', 1, 1, 1, 1500, '1' ],
	[ 'one claimer of 1, costs', 1, 1, 1, 1500, '1 + (i * 7919) % 4' ],
	[ '8 claimers of 10, 16 buckets', 16, 8, 10, 25000, '1' ],
	[ '8 claimers of 10, 16 buckets, costs', 16, 8, 10, 8000, '1 + (i * 7919) % 4' ],
	[ '8 claimers of 10, one bucket', 1, 8, 10, 8000, '1' ])
{
	my ($name, $buckets, $claimers, $batch, $limit, $cost) = @$case;

	# Each has more than it can be served before the limit, so that all have work.
	sql($node,
		create('t', $buckets, %weight)
		  . fill('t', $cost, map { $_ => int($limit * $weight{$_} / 8 * 1.3) + 200 } keys %weight));
	my @order = claimers('t', '--claimers' => $claimers, '--batch' => $batch, '--limit' => $limit);
	cmp_ok(scalar(@order), '>=', $limit, "$name: " . scalar(@order) . ' claimed');
	# Not all was claimed: each still had work.
	my ($worst, $difference) = unfairness($claimers, $batch, \%weight, @order);
	cmp_ok($worst, '<=', 1, sprintf('%s: unfairness at most %.2f, %.2f of the bound', $name, $difference, $worst));

	if ($limit > 20000)
	{
		my (%n, $off);

		$off = 0;
		foreach my $i (0 .. $#order)
		{
			$n{ $order[$i][2] }++;
			$n{ $order[ $i - 10000 ][2] }-- if $i >= 10000;
			next if $i < 10000 - 1;
			$off = max($off, abs($n{$_} / 10000 - $weight{$_} / 8)) foreach keys %weight;
		}
		cmp_ok($off, '<=', 0.01, sprintf('%s: in any 10,000 claims shares are within %.2f %%', $name, 100 * $off));
	}
	sql($node, "SELECT fairq.drop_queue('t')");
}

#
# A newcomer: tasks in flight, and one of each other group, are before her first
#
foreach my $others (1, 100, 10000)
{
	foreach my $batch (1, 10)
	{
		my $claimed = $others * 2 + 7;
		sql($node,
			create('n', 16)
			  . "SELECT cardinality(fairq.enqueue_many('n', array_fill('{}'::jsonb, ARRAY[$others * 20]), group_keys => ARRAY(SELECT 'g' || i % $others FROM generate_series(1, $others * 20) i)));\n"
		) if $batch == 1;
		# Some are claimed; those of the last claim are in flight when she comes.
		my @before = column($node,
			"SELECT fairq.claim('n', $batch + 0 * i) FROM generate_series(1, $claimed / $batch + 1) i");
		sql($node, "SELECT fairq.enqueue('n', '{}', group_key => 'new $batch')");
		my @order = column($node,
			"SELECT group_key FROM generate_series(1, ($others + 3 * $batch) / $batch + 1) i, LATERAL fairq.claim('n', $batch + 0 * i)");
		my ($at) = grep { $order[$_] eq "new $batch" } 0 .. $#order;
		cmp_ok($at // 1e9, '<=', $others + $batch,
			"a newcomer among $others groups, claims of $batch: after " . ($at // 'many') . ' tasks');
	}
	sql($node, "SELECT fairq.drop_queue('n')");
}

#
# Who comes back has no credit, and no debt
#
foreach my $weights ([ 1, 1 ], [ 4, 1 ])
{
	my ($w_a, $w_b) = @$weights;
	my $name = "weights $w_a and $w_b";
	sql($node,
		create('i', 4, a => $w_a, b => $w_b)
		  . fill('i', 1, a => 100, b => 8000)
		  . "SELECT count(*) FROM generate_series(1, 3000) i, LATERAL fairq.pop('i', 1 + 0 * i);\n");
	is(sql($node, "SELECT count(*) FROM fairq.q_i WHERE group_key = 'a'"), 0, "$name: a is idle, for thousands of tasks of b");
	sql($node, fill('i', 1, a => 1000));
	my @order = column($node, "SELECT group_key FROM generate_series(1, 500) i, LATERAL fairq.pop('i', 1 + 0 * i)");
	my $worst = 0;
	my $a = 0;
	foreach my $i (0 .. $#order)
	{
		$a++ if $order[$i] eq 'a';
		$worst = max($worst, abs($a - ($i + 1) * $w_a / ($w_a + $w_b)));
	}
	# In tasks of a: served_a / w_a - served_b / w_b <= 1 / w_a + 1 / w_b
	my $bound = (1 / $w_a + 1 / $w_b) * $w_a * $w_b / ($w_a + $w_b) + $w_a / ($w_a + $w_b) + 1;
	cmp_ok($worst, '<=', $bound, sprintf('%s: back again it has its share, from the first task on (%.1f off)', $name, $worst));
	sql($node, "SELECT fairq.drop_queue('i')");
}

#
# Tasks that fail
#
foreach my $case ([ "0", 'at once' ], [ undef, 'with backoff' ])
{
	my ($delay, $what) = @$case;
	sql($node,
		create('f', 16, bad => 1, good => 1, better => 2)
		  . "SELECT fairq.alter_queue('f', backoff_base => '10 ms', backoff_max => '50 ms');"
		  . fill('f', 1, bad => 2000, good => 5000, better => 5000));
	my @order = claimers('f', '--claimers' => 4, '--batch' => 5, '--limit' => 6000,
		'--fail' => 'bad', defined $delay ? ('--delay' => $delay) : ());
	my %n = (bad => 0, good => 0, better => 0);
	my ($most, $i) = (0, 0);
	foreach my $row (@order)
	{
		$n{ $row->[2] }++;
		# While the others have work: better has the most
		last if $n{better} > 4900 || $n{good} > 4900;
		$most = max($most, $n{bad} - $n{good}) if ++$i > 0;
	}
	cmp_ok($n{bad}, '>', 400, "fails $what: it is served ($n{bad} of " . scalar(@order) . ')');
	cmp_ok($most, '<=', 2 + 20, "fails $what: no more than its share (at most $most tasks more than another)");
	sql($node, "SELECT fairq.drop_queue('f')");
}

#
# Priority classes that share by weights: the same bound, a level up
#
my %class_weights = (k0 => 4, k1 => 2, k2 => 1);
foreach my $batch (1, 10, 100)
{
	sql($node, "SELECT fairq.create_queue('k', class_weights => '{4,2,1}')");
	sql($node, "SELECT count(fairq.enqueue_many('k', array_fill('1'::jsonb, '{4000}'), ARRAY['k' || c], ARRAY[c])) FROM generate_series(0, 2) c");
	my @order = claimers('k', '--claimers' => 8, '--batch' => $batch, '--limit' => 5600);
	my %n = map { $_ => 0 } keys %class_weights;
	my $off = 0;
	foreach my $row (@order)
	{
		$n{ $row->[2] }++;
		my @served = map { $n{$_} / $class_weights{$_} } keys %n;
		$off = max($off, max(@served) - min(@served));
	}
	cmp_ok($off, '<=', 2 + 8 * $batch, "classes by $batch: within the bound at every prefix, " . join(' ', map { "$_ $n{$_}" } sort keys %n));
	sql($node, "SELECT fairq.drop_queue('k')");
}

$node->stop;
done_testing();
