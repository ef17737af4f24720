# What a claim costs does not depend on what else there is (I5).
#
# Shown, with the pages that claims of ten look at: they are as many beside a
# backlog of 200,000 tasks, beside 100,000 that are leased, beside 100,000 finished
# ones that vacuum may not remove, for there is an old snapshot, and beside 10,000
# groups, as in a queue that has little of everything.  Nor does it depend on groups
# that are paused, once claims have met their tasks; and to pause and to resume a
# group costs the same for ten tasks and for 100,000.
#
# To see it fail: let queue_index_walk() begin its scan at the start of the lane
# (address_lane_start()): all that is leased or finished is passed again whenever
# the window is refilled.  Or do without turns_not_parked() (claim_refill): 20 pages
# for each claim beside groups that are paused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use List::Util qw(max sum);
use Test::More;

my $node = fairq_node('cost', conf => <<'CONF');
shared_buffers = 256MB
max_wal_size = 4GB
fsync = off
CONF

# Claims that are looked at, in which the window is refilled many times.  There is
# one lane only, for what is behind its front to be as much as there can be.
my $claims = 600;

sub fill
{
	my ($queue, $number, $groups) = @_;

	sql($node, <<"SQL");
SELECT fairq.create_queue('$queue', buckets => 1, max_ready_per_group => 1000000);
SELECT cardinality(fairq.enqueue_many('$queue', array_fill('{}'::jsonb, ARRAY[$number]),
	group_keys => ARRAY(SELECT 'g' || i % $groups FROM generate_series(1, $number) i)));
SQL
	return;
}

# The pages that claims look at: how many on average, and at most.
sub pages
{
	my ($queue) = @_;
	my @pages;

	# Prepared, and not for the first time, so that it is the claim alone that is
	# looked at.
	my $plans = sql($node,
		"PREPARE c AS SELECT * FROM fairq.claim('$queue', 10, lease => '1 h');\nEXECUTE c;\n"
		  . "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE c;\n" x $claims);
	while ($plans =~ /"Plan": \{.*?"Actual Rows": (\d+).*?"Shared Hit Blocks": (\d+).*?"Shared Read Blocks": (\d+)/sg)
	{
		die "a claim of $1 tasks" if $1 != 10;
		push @pages, $2 + $3;
	}
	die scalar(@pages) . ' claims' if @pages != $claims;
	return (sprintf('%.2f', sum(@pages) / $claims), max(@pages));
}

fill('few', 10000, 10);
my ($few, $few_at_most) = pages('few');
cmp_ok($few, '>=', 1, "claims of ten in a queue of few tasks: $few pages, and at most $few_at_most");

# A refill is some more at a time, the first after a large claim the most, and a large
# index is a level higher.
sub as_many
{
	my ($queue, $what) = @_;
	my ($mean, $most) = pages($queue);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($mean, '<=', 2 * $few + 2, "$what: $mean pages");
	cmp_ok($most, '<=', $few_at_most + 50, "$what: at most $most");
	return;
}

fill('many', 230000, 10);
as_many('many', 'a backlog of 200,000');
is(sql($node, "SELECT count(*) FROM fairq.claim('many', 100000, lease => '1 h')"), 100000, 'most of it is leased');
as_many('many', 'beside 100,000 that are leased');

my $reader = session($node);
$reader->safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM fairq.q_many');
is(sql($node, "SELECT count(*) FROM fairq.pop('many', 100000)"), 100000, 'the rest is done');
as_many('many', 'beside 100,000 that are done, with an old snapshot');
$reader->safe('COMMIT');
$reader->quit;

fill('groups', 30000, 10000);
as_many('groups', '10,000 groups');

# The pages that a call looks at.
sub pages_of
{
	my ($call) = @_;

	return sql($node, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT $call") =~ /"Shared Hit Blocks": (\d+).*?"Shared Read Blocks": (\d+)/s ? $1 + $2 : die;
}

# Twenty groups that are paused, each with tasks that have an address and others.
sql($node, "SELECT fairq.create_queue('paused', buckets => 1, max_ready_per_group => 2000)");
sql($node, "SELECT cardinality(fairq.enqueue_many('paused', array_fill('{}'::jsonb, ARRAY[5000]), group_keys => '{p$_}'))") foreach 1 .. 19;
sql($node, "SELECT cardinality(fairq.enqueue_many('paused', array_fill('{}'::jsonb, ARRAY[n]), group_keys => ARRAY[name])) FROM (VALUES ('ten', 10), ('many', 100000)) v(name, n)");
sql($node, "SELECT fairq.pause_group('paused', 'p' || i) FROM generate_series(1, 19) i");
foreach my $round (1 .. 3)
{
	my %pages;

	$pages{$_} = pages_of("fairq.pause_group('paused', '$_')") foreach 'ten', 'many';
	cmp_ok($pages{many}, '<=', $pages{ten} + 10, "to pause a group of 100,000 tasks costs no more than one of ten: $pages{many} pages, and $pages{ten}");
	is(sql($node, "SELECT count(*) FROM fairq.claim('paused', 10)"), 0, 'nothing is claimed of either');
	last if $round == 3;
	$pages{$_} = pages_of("fairq.resume_group('paused', '$_')") foreach 'ten', 'many';
	cmp_ok($pages{many}, '<=', $pages{ten} + 10, "nor to resume it: $pages{many} pages, and $pages{ten}");
	is(sql($node, "SELECT count(*) FROM fairq.pop('paused', 2)"), 2, 'and its tasks come at once');
}
sql($node, "SELECT cardinality(fairq.enqueue_many('paused', array_fill('{}'::jsonb, ARRAY[6500]), group_keys => ARRAY(SELECT 'n' || i % 10 FROM generate_series(1, 6500) i)))");
as_many('paused', 'beside twenty groups that are paused with 200,000 tasks');

$node->stop;
done_testing();
