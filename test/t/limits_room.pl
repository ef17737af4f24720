# Little room: few candidates for lines, few entries for groups, and much that waits.
#
# Shown: when there is no room for what comes back nothing is lost, and it comes in order;
# what a stopped group has parked, or has in its line, leaves others what they need, so
# their claims cost about the same beside it; what was dropped for want of room
# comes in order; entries of groups that are blocked, forgotten and made again get nobody
# stuck; and a flood that is not committed, or a purge, holds nobody up.
#
# Seen to fail without these guards:
# - a line that has no room for what comes back is read again (turn_candidates_put_back);
# - what is parked takes three quarters of the room (turn_candidates_park): the costs beside it;
# - what there was no room to park is read again (turns_read_dropped): it does not come;
# - lines read less when there is little room (turn_candidates_are_few), and a group that is
#   blocked keeps none of it then (take_first): 47,824 and 10,253 pages where 1,309 will do;
# - the line of a group that may not have a task is not read (turns_block_unread): 1,233 pages
#   where 671 will do;
# - a subgroup that is ahead of the others is not forgotten (is_reached): the user of weight 0.1.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

# 256 candidates.
my $node = fairq_node('room', conf => "max_connections = 20\npgfairq.max_lanes = 4\npgfairq.max_groups = 64\npgfairq.max_limits = 64\nshared_buffers = 256MB\n");
my $one = session($node);
my $two = session($node);

sql($node, <<'SQL');
CREATE FUNCTION numbers(a int, b int) RETURNS jsonb[] LANGUAGE sql AS $$ SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(a, b) n $$;
SQL

sub make_queue
{
	my ($settings, @tasks) = @_;

	$one->safe("SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue = 'q'");
	$one->safe("SELECT fairq.create_queue('q', lease => '1 h', max_attempts => 0, $settings)");
	add(@$_) foreach @tasks;
	return;
}

sub add
{
	my ($group, $from, $to) = @_;

	$one->safe("SELECT cardinality(fairq.enqueue_many('q', numbers($from, $to), '{$group}'))");
	return;
}

sub popped { return join ' ', split /\n/, $one->safe("SELECT payload FROM fairq.pop('q', $_[0]" . (defined $_[1] ? ", group_keys => '{$_[1]}'" : '') . ')'); }

# Pages that claims look at.
sub pages
{
	my ($n, $size) = @_;
	my $plans = sql($node, "PREPARE c AS SELECT * FROM fairq.claim('q', $size);\n" . "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE c;\n" x $n);
	my $pages = 0;

	$pages += $1 + $2 while $plans =~ /"Plan": \{.*?"Shared Hit Blocks": (\d+).*?"Shared Read Blocks": (\d+)/sg;
	return $pages;
}

# A group that is paused and has parked all that there is room for, three quarters.
sub much_parked
{
	make_queue('buckets => 1', [ 'stopped', 1, 1000 ]);
	$one->safe("SELECT fairq.pause_group('q', 'stopped')");
	is($one->safe("SELECT count(*) FROM fairq.claim('q', 10)"), 0, 'a group is paused, and its tasks are parked, as far as there is room');
	$one->safe("SELECT fairq.alter_queue('q', max_ready_per_group => 1)");
	return;
}

#
# What comes back when there is no room
#
much_parked();
add("g$_", 1, 12) foreach 1 .. 30;
is($one->safe("SELECT count(*) FROM fairq.pop('q', 30)"), 30, 'the others are served');
$two->safe('BEGIN');
is($two->safe("SELECT string_agg(payload::text, ' ') FROM fairq.claim('q', 8, group_keys => '{g1}')"), '2 3 4 5 6 7 8 9', 'eight of one are claimed');
is($one->safe("SELECT count(*) FROM fairq.pop('q', 40)"), 40, 'then lines are read, as long as there is room');
$two->safe('ROLLBACK');
my %got;
foreach my $row (map { [ split /\|/ ] } split /\n/, $one->safe("SELECT group_key, payload FROM fairq.pop('q', 1000)"))
{
	push @{ $got{ $row->[0] } }, $row->[1];
}
is(join(' ', @{ $got{g1} }[0 .. 7]), '2 3 4 5 6 7 8 9', 'rolled back: they come, in order');
is(30 * 12 - 30 - 40, eval { my $n = 0; $n += @$_ foreach values %got; $n }, 'and all others do');
is((grep { my $n = $_; grep { $n->[$_] <= $n->[ $_ - 1 ] } 1 .. $#$n } values %got), 0, 'in order');
$one->safe("SELECT fairq.resume_group('q', 'stopped')");
is(popped(2000), join(' ', 1 .. 1000), 'and what was parked, and what there was no room to park, in order');

#
# What a claim costs beside it
#
my ($alone, $beside);
make_queue('buckets => 1, max_ready_per_group => 1', [ 'b', 1, 5000 ]);
$alone = pages(40, 100);
much_parked();
add('b', 1, 5000);
$beside = pages(40, 100);
cmp_ok($beside, '<=', 1.3 * $alone + 300, "beside a group that has parked all it may: 40 claims look at $beside pages, alone $alone");
is($one->safe("SELECT leased FROM fairq.group_stats WHERE group_key = 'b'"), 4000, 'and have what they want');

# Groups that are at their limit, and have more in their lines than there is room for.
make_queue('buckets => 1, max_ready_per_group => 1');
add("g$_", 1, 40) foreach 1 .. 40;
$one->safe("SELECT fairq.set_group('q', 'g' || i, max_leased => 1) FROM generate_series(1, 40) i");
is($one->safe("SELECT count(*) FROM fairq.claim('q', 1000)"), 40, 'forty groups have the one task that they may');
add('b', 1, 5000);
$beside = pages(40, 100);
cmp_ok($beside, '<=', 1.3 * $alone + 300, "beside forty groups at their limit: 40 claims look at $beside pages, alone $alone");
$one->safe("SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'q'");
is($one->safe("SELECT count(*) FROM fairq.claim('q', 3000, group_keys => (SELECT array_agg('g' || i) FROM generate_series(1, 40) i))"), 40, 'and they go on');

# Groups that are paused before anybody has read their lines: nobody does.
make_queue('buckets => 1, max_ready_per_group => 1', [ 'b', 1, 1000 ]);
my $first = pages(5, 100);
make_queue('buckets => 1, max_ready_per_group => 1');
$one->safe("SELECT cardinality(fairq.enqueue_many('q', numbers(1, 8000), group_keys => ARRAY(SELECT 'g' || i % 40 FROM generate_series(1, 8000) i)))");
is($one->safe("SELECT count(*) FROM fairq.pop('q', 40)"), 40, 'forty groups have the overflow only');
$one->safe("SELECT fairq.pause_group('q', 'g' || i) FROM generate_series(0, 39) i");
add('b', 1, 1000);
$beside = pages(5, 100);
cmp_ok($beside, '<=', $first + 200, "beside forty groups that are paused: the first five claims look at $beside pages, alone $first");

# A group at its limit, and paused, with many in the overflow: nothing is taken out of its line.
make_queue('buckets => 1, max_ready_per_group => 1', [ 'a', 1, 20000 ]);
$one->safe("SELECT fairq.set_group('q', 'a', max_leased => 1), count(*) FROM fairq.claim('q', 10)");
$one->safe("SELECT fairq.pause_group('q', 'a')");
add('b', 1, 5000);
$beside = pages(40, 100);
cmp_ok($beside, '<=', 1.1 * $alone + 100, "beside a group with 20,000 that is at its limit and paused: 40 claims look at $beside pages, alone $alone");
$one->safe("SELECT fairq.resume_group('q', 'a')");
$beside = pages(9, 100);
cmp_ok($beside, "<=", $alone, "and when it is resumed, at its limit: nine claims look at $beside pages");

#
# A flood that is not committed, a purge that is not, and one that is
#
make_queue('buckets => 1, max_ready_per_group => 1', [ 'a', 1, 3 ], [ 'gone', 1, 20000 ]);
$two->safe("BEGIN; SELECT cardinality(fairq.enqueue_many('q', numbers(4, 20003), '{a}')); SELECT fairq.purge_group('q', 'gone')");
add('b', 1, 5000);
$beside = pages(40, 100);
cmp_ok($beside, '<=', 1.3 * $alone + 22000, "beside a flood and a purge that are not committed: 40 claims look at $beside pages, alone $alone");
$one->safe("SELECT count(fairq.release(receipt)) FROM fairq.leases");
add('b', 5001, 10000);
$two->safe('COMMIT');
$one->safe("SELECT count(*) FROM fairq.pop('q', 1)");
$beside = pages(40, 100);
cmp_ok($beside, '<=', 1.5 * $alone + 2000, "and when they are: $beside pages");

#
# Groups that are blocked, forgotten, and made again, in 64 entries
#
make_queue('buckets => 2, max_ready_per_group => 1');
$one->safe("SELECT fairq.set_group_defaults('q', max_leased => 1)");
my $came = 0;
foreach my $round (1 .. 30)
{
	add("r$round-$_", 1, 3) foreach 1 .. 15;
	# They are blocked, and go on, until they are done.
	foreach my $task (1 .. 3)
	{
		my $n = $one->safe("SELECT count(*) FROM fairq.claim('q', 100)");

		$came += $n;
		$one->safe("SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'q'");
	}
}
is($came, 30 * 15 * 3, 'groups that come and go, each with one task at a time: all are claimed');

#
# A user who was served ahead of others does not get away with it by being forgotten
#
$one->safe("SELECT fairq.drop_queue('q'), fairq.create_queue('q', subgroups => true, buckets => 1), fairq.create_queue('others', buckets => 1)");
$one->safe("SELECT fairq.set_subgroup('q', 't', 'light', weight => 0.1)");
$one->safe("SELECT cardinality(fairq.enqueue_many('q', array_fill('1'::jsonb, '{200}'), group_keys => '{t}', subgroup_keys => '{user}'))");
my @between;
foreach my $round (1 .. 5)
{
	$one->safe("SELECT fairq.enqueue('q', '1', 't', subgroup_key => 'light')");
	my $n = 0;
	$n++ while $n < 50 && $one->safe("SELECT subgroup_key FROM fairq.pop('q', 1)") ne 'light';
	push @between, $n;
	# Others take all entries there are.
	$one->safe("DO \$\$ BEGIN FOR i IN 1 .. 100 LOOP PERFORM fairq.enqueue('others', '1', '$round-' || i); END LOOP; EXCEPTION WHEN configuration_limit_exceeded THEN NULL; END \$\$");
	$one->safe("DO \$\$ BEGIN FOR i IN 1 .. 60 LOOP PERFORM fairq.enqueue('others', '1', '$round-' || i); END LOOP; END \$\$");
	is($one->safe("SELECT count(*) FROM fairq.pop('others', 100)"), 60, 'others take nearly all entries there are');
}
like("@between", qr/^[01]( (9|10|11)){4}$/, 'a user of weight 0.1: ten of the other between two of his, whoever is forgotten meanwhile');

$_->quit foreach $one, $two;
nothing_swept($node);
$node->stop;
done_testing();
