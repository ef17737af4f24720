# A group that could not be served is like one that had nothing to do: it gets no
# credit for that.  When it goes on it has its share, by weight, from the first task
# on, and no more, though the places of its tasks have long been passed.  What nobody
# else wants is its own.
#
# To see it fail, take one of these guards out of the engine:
# - that a group begins at v after it has waited (turns_resume);
# - that its turn grows by the charge (turns_take_candidate);
# - that what comes later waits for what is parked (group_limits_take): shares, too.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use List::Util qw(max min);
use Test::More;

my $node = fairq_node('turns', conf => "max_connections = 30\n");

sub fill
{
	my ($q, $group, $n) = @_;

	return
	  "SELECT cardinality(fairq.enqueue_many('$q', array_fill('{}'::jsonb, ARRAY[$n]), group_keys => ARRAY['$group']));\n";
}

# Groups and ids in the order of claims of some at a time, each finished at once.
sql($node, <<'SQL');
CREATE TABLE served (at bigint GENERATED ALWAYS AS IDENTITY, group_key text, id bigint);
CREATE PROCEDURE serve(n int, at_once int) LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE served;
	FOR i IN 1 .. n BY at_once LOOP
		INSERT INTO served (group_key, id) SELECT c.group_key, c.id FROM fairq.pop('q', at_once) c;
		COMMIT;
	END LOOP;
END $$;
SQL

sub pops
{
	my ($n, $batch) = @_;

	return rows($node, "CALL serve($n, $batch);\nSELECT group_key, id FROM served ORDER BY at");
}

# The largest difference of service by weight, at any prefix.
sub unfairness
{
	my ($weight, @order) = @_;
	my %served = map { $_ => 0 } keys %$weight;
	my $worst = 0;

	foreach my $row (@order)
	{
		$served{ $row->[0] } += 1 / $weight->{ $row->[0] };
		$worst = max($worst, max(values %served) - min(values %served));
	}
	return $worst;
}

# Ways in which a group cannot be served, and goes on.
my %ways = (
	pause => [ "fairq.pause_group('q', 'GROUP')", "fairq.resume_group('q', 'GROUP')" ],
	max_leased => [
		"fairq.set_group('q', 'GROUP', max_leased => 1), (SELECT count(*) FROM fairq.claim('q', lease => '1 h', group_keys => '{GROUP}'))",
		"(SELECT fairq.ack(receipt) FROM fairq.leases ORDER BY id LIMIT 1)"
	],
	rate => [ "fairq.set_group('q', 'GROUP', rate => 0.001, burst => 1)", "fairq.set_group('q', 'GROUP', rate => 0)" ]);

foreach my $case (
	[ 'pause', 1, 1, { b => 1, a => 1 } ],
	[ 'pause', 16, 10, { b => 1, a => 1 } ],
	[ 'pause', 4, 1, { b => 2, a => 3 } ],
	[ 'pause', 4, 1, { b => 1, a => 1, c => 1, d => 2 } ],
	[ 'max_leased', 4, 1, { b => 1, a => 1 } ],
	[ 'max_leased', 4, 1, { b => 1, a => 0.5, c => 4 } ],
	[ 'rate', 4, 1, { b => 1, a => 1 } ])
{
	my ($way, $buckets, $batch, $weight) = @$case;
	my @waiting = grep { $_ ne 'b' } sort keys %$weight;
	my ($stop, $go) = @{ $ways{$way} };
	my $name = "$way, $buckets buckets, claims of $batch, weights " . join(' ', map { "$_ $weight->{$_}" } sort keys %$weight);

	sql($node,
		"SELECT fairq.create_queue('q', buckets => $buckets, max_attempts => 0);"
		  . join('', map { "SELECT fairq.set_group('q', '$_', weight => $weight->{$_});" . fill('q', $_, 1500) } sort keys %$weight));
	my %all = map { $_->[1] => $_->[0] } rows($node, "SELECT group_key, id FROM fairq.q_q");
	sql($node, 'SELECT ' . $stop =~ s/GROUP/$_/gr) foreach @waiting;
	my @before = pops(1000, $batch);
	my %n;
	$n{ $_->[0] }++ foreach @before;
	cmp_ok($n{b}, '>=', 1000 - @waiting, "$name: the others wait");
	sql($node, 'SELECT ' . $go =~ s/GROUP/$_/gr) foreach @waiting;

	# b has 500 left.
	my @order = pops(400, $batch);
	my $worst = unfairness($weight, @order);
	# The two largest of 1 / weight, and what is in hand.
	my ($one, $two) = sort { $b <=> $a } map { 1 / $_ } values %$weight;
	my $bound = $one + $two + ($batch > 1 ? $batch * $one : 0);
	cmp_ok($worst, '<=', $bound + 1e-6, sprintf('%s: then it is fair from the first claim on (%.1f off, may be %.1f)', $name, $worst, $bound));

	# And nothing is left lying.
	my $left = sql($node, "SELECT count(*) FROM fairq.q_q");
	my @rest = pops($left, $batch);
	is(scalar(@rest), $left, "$name: all the rest comes, and no claim is empty");
	my (%last, $swaps);
	foreach my $row (@order, @rest)
	{
		$swaps++ if $row->[1] < ($last{ $row->[0] } // 0);
		$last{ $row->[0] } = $row->[1];
	}
	is($swaps // 0, 0, "$name: each group's in their order");
	is(sql($node, 'SELECT count(*) FROM fairq.leases'), 0, "$name: nothing is in flight");
	sql($node, "SELECT fairq.drop_queue('q')");
}

#
# No claim comes back empty-handed, and none with fewer than there are
#
sql($node,
	"SELECT fairq.create_queue('q', buckets => 4);" . fill('q', 'a', 200) . fill('q', 'b', 100)
	  . "SELECT fairq.pause_group('q', 'a')");
is(sql($node, "SELECT count(*) FROM fairq.pop('q', 1000)"), 100, 'a group is paused: the other one');
sql($node, "SELECT fairq.resume_group('q', 'a')");
is(sql($node, "SELECT count(*) FROM fairq.pop('q', 150)"), 150, 'nothing else is there: all that is wanted');
is(sql($node, "SELECT count(*) FROM fairq.pop('q', 20, group_keys => '{a}')"), 20, 'and of the group as many as are asked for');
is(sql($node, "SELECT count(*) FROM fairq.pop('q', 1000)"), 30, 'and all the rest');
sql($node, "SELECT fairq.drop_queue('q')");

# Also where nobody has asked for more than one: the others wait for their turn, in no lane.
sql($node,
	"SELECT fairq.create_queue('q', buckets => 4);" . fill('q', 'a', 3) . fill('q', 'b', 10)
	  . "SELECT fairq.pause_group('q', 'a')");
is(sql($node, "SELECT count(*) FROM fairq.pop('q', 1000)"), 10, 'a group is paused: the others are gone');
sql($node, "SELECT fairq.resume_group('q', 'a')");
is(sql($node, "SELECT count(*) FROM fairq.claim('q', 1, lease => '1 h')"), 1, 'it is resumed: one of its three');
{
	my $begun = time;

	sql($node, "SET statement_timeout = 0; CALL fairq.wait('q', '180 s')");
	cmp_ok(time - $begun, '<', 90, 'who asks whether there is something need not wait');
}
is(sql($node, "SELECT count(*) FROM fairq.claim('q', 10, lease => '1 h')"), 2, 'and there is');
sql($node, "SELECT fairq.drop_queue('q')");

#
# Who sleeps is told, one for each task
#
sql($node,
	"SELECT fairq.create_queue('q', buckets => 4);" . fill('q', 'a', 50) . fill('q', 'b', 100)
	  . "SELECT fairq.pause_group('q', 'a')");
is(sql($node, "SELECT count(*) FROM fairq.pop('q', 1000)"), 100, 'a group is paused, and its places are passed');
my @sleepers = map { session($node) } 1 .. 5;
$_->safe('SET statement_timeout = 0') foreach @sleepers;
$_->send("SELECT count(*) FROM fairq.claim('q', wait => '180 s')") foreach @sleepers;
ok(wait_event_of($node, 'Extension', "query LIKE '%claim%'", 5), 'five sleep');
sql($node, "SELECT fairq.resume_group('q', 'a')");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.leases") == 5 }, 60), 'it is resumed: each has one');
$_->quit foreach @sleepers;

$node->stop;
done_testing();
