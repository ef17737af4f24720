# Subgroups at a proxy: users of a tenant are served alike over the nodes, what they are
# given is at every node, also one that is added, and what is moved keeps its user.
#
# Seen to fail: without arrays behind "unique_for" in many_arrays (names and users of a
# batch), with route_set_limits for set_subgroup, without subgroups or with what is said of
# them where groups are not divided in definitions_differ(), and without the node in
# the window of fairq.subgroup_stats.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(2);

# what each node says, in a line
sub at_nodes
{
	my ($sql) = @_;

	return join ' / ', map { sql($_, $sql) } @nodes;
}

# a batch of a user of a tenant
sub enqueue_batch
{
	my ($tenant, $user, $n) = @_;

	sql($proxy, "SELECT fairq.enqueue_many('q', array_fill('1'::jsonb, ARRAY[$n]), '{$tenant}', subgroup_keys => '{$user}')");
	return;
}

# how many of the next tasks are whose
sub served
{
	my ($n) = @_;

	return map { $_->[0] => $_->[1] } rows($proxy, "SELECT t.group_key || '/' || coalesce(t.subgroup_key, ''), count(*)
		FROM generate_series(1, $n) i, fairq.pop('q', 1 + 0 * i) t GROUP BY 1");
}

#
# What is given goes everywhere
#
sql($proxy, "SELECT fairq.create_queue('q', subgroups => true, keep_done => '1 h', max_attempts => 1), fairq.create_queue('later')");
is(at_nodes("SELECT string_agg(queue, ' ') FROM fairq.queues WHERE subgroups"), 'q / q', 'a queue with subgroups');
sql($proxy, "SELECT fairq.alter_queue('later', subgroups => true), fairq.set_subgroup_defaults('later', weight => 2, max_leased => 7, rate => 8, burst => 9)");
is(at_nodes("SELECT subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst FROM fairq.queues WHERE subgroups AND queue = 'later'"),
	'2|7|8|9 / 2|7|8|9', 'one that has them later, with defaults');
is(sql($proxy, "SELECT subgroups, subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst FROM fairq.queues WHERE queue = 'later'"),
	't|2|7|8|9', 'which the proxy shows');
my $given = "SELECT group_key, subgroup_key, weight, max_leased, rate, burst, paused FROM fairq.subgroup_settings ORDER BY 1, 2";
sql($proxy, "SELECT fairq.set_subgroup('q', 'acme', 'ann', weight => 3, max_leased => 4, rate => 5, burst => 6), fairq.pause_subgroup('q', 'acme', '')");
is(at_nodes($given), "acme||||||t\nacme|ann|3|4|5|6|f / acme||||||t\nacme|ann|3|4|5|6|f", 'what users are given');
is(sql($proxy, $given), "acme||||||t\nacme|ann|3|4|5|6|f", 'and the proxy shows it once');
is(sql($proxy, "SELECT fairq.reset_subgroup('q', 'acme', 'ann'), fairq.reset_subgroup('q', 'acme', 'ann')"), 't|f', 'it is taken away');
sql($proxy, "SELECT fairq.resume_subgroup('q', 'acme', '')");
is(at_nodes($given), ' / ', 'everywhere');
refused($proxy, "SELECT fairq.set_subgroup('q', 'acme', NULL)", '22023', qr/"subgroup_key"/, undef, 'a subgroup without a key');
sql($proxy, "SELECT fairq.drop_queue('later')");

#
# Users of a tenant are served alike, whatever they have, and so are tenants
#
enqueue_batch('acme', 'ann', 1000);
enqueue_batch('acme', 'bob', 200);
enqueue_batch('globex', 'cy', 1000);
is(at_nodes("SELECT count(DISTINCT subgroup_key) FROM fairq.q_q"), '3 / 3', 'users have tasks at both nodes');
my %n = served(300);
note(join ' ', map { "$_ $n{$_}" } sort keys %n);
cmp_ok(abs($n{'acme/ann'} - $n{'acme/bob'}), '<=', 6, 'two users of a tenant are served alike');
cmp_ok(abs($n{'acme/ann'} + $n{'acme/bob'} - $n{'globex/cy'}), '<=', 10, 'and together as another tenant');
sql($proxy, "SELECT fairq.set_subgroup('q', 'acme', 'ann', weight => 3)");
%n = served(160);
note(join ' ', map { "$_ $n{$_}" } sort keys %n);
cmp_ok(abs($n{'acme/ann'} - 3 * $n{'acme/bob'}), '<=', 12, 'but by their weights');
cmp_ok(abs($n{'acme/ann'} + $n{'acme/bob'} - $n{'globex/cy'}), '<=', 10, 'which are no matter of other tenants');

#
# The view of users is the sum of the nodes', where they differ
#
sql($nodes[0], "SELECT FROM fairq.pop('q', 40)");
sql($nodes[1], "SELECT fairq.enqueue('q', '1', 'acme', subgroup_key => 'dan') FROM generate_series(1, 3) i");
sql($proxy, "SELECT FROM generate_series(1, 20) i, fairq.claim('q', 1 + 0 * i, lease => '1 h')");
my %at;
for my $node (@nodes)
{
	for (rows($node, "SELECT group_key || '/' || subgroup_key, overflow, leased, served, served_cost, all_served, expected_share * all_served
		FROM (SELECT s.*, sum(served_cost) OVER (PARTITION BY group_key) AS all_served FROM fairq.subgroup_stats s) s"))
	{
		my ($user, @sums) = @$_;
		$at{$user}[$_] += $sums[$_] for 0 .. $#sums;
	}
}
is(join(' ', sort keys %at), 'acme/ann acme/bob acme/dan globex/cy', 'users with tasks');
for my $user (sort keys %at)
{
	my ($overflow, $leased, $served, $cost, $all, $due) = @{ $at{$user} };
	my ($tenant, $key) = split m{/}, $user;
	is( sql($proxy, "SELECT overflow, leased, served, served_cost, abs(share - ($cost)::float8 / $all) < 1e-9,
			abs(expected_share - ($due)::float8 / $all) < 1e-9, missing FROM fairq.subgroup_stats
			WHERE queue = 'q' AND group_key = '$tenant' AND subgroup_key = '$key'"),
		"$overflow|$leased|$served|$cost|t|t|{}", "subgroup_stats: $user is the sum");
}
is(sql($proxy, "SELECT group_key, subgroup_key, weight, paused, max_leased FROM fairq.subgroup_stats ORDER BY 1, 2"),
	"acme|ann|3|f|\nacme|bob|1|f|\nacme|dan|1|f|\nglobex|cy|1|f|", 'one row a user');
my @long = map { 'x' x 48 . $_ } qw(one two);
for my $tenant (@long)
{
	enqueue_batch($tenant, $_, 10) for @long;
}
sql($proxy, "SELECT fairq.set_subgroup('q', '$long[1]', '$long[0]', weight => 3)");
is( sql($proxy, "SELECT s.overflow, round(s.expected_share::numeric, 2), count(*) FROM fairq.subgroup_stats s, fairq.tasks('q') t
			WHERE s.group_id = fairq.group_id(t.group_key) AND s.subgroup_id = fairq.group_id(t.subgroup_key) AND t.group_key LIKE 'xx%'
		GROUP BY t.group_key, t.subgroup_key, 1, 2 ORDER BY t.group_key, t.subgroup_key"),
	"10|0.50|10\n10|0.50|10\n10|0.75|10\n10|0.25|10", 'also of those whose keys begin alike, as those of their tenants do');
is(sql($proxy, "SELECT count(*) FROM fairq.subgroup_settings g JOIN fairq.subgroup_stats s USING (queue, group_id, subgroup_id) WHERE g.weight = 3 AND s.weight = 3 AND s.group_key LIKE 'xx%'"),
	1, 'which what they are given is joined by');
sql($proxy, "SELECT fairq.reset_subgroup('q', '$long[1]', '$long[0]')");
sql($proxy, "SELECT fairq.ack(receipt) FROM fairq.leases; SELECT fairq.purge('q')");

#
# Arrays of a batch, and columns
#
is( sql($proxy, "WITH batch AS (SELECT fairq.enqueue_many('q', array_agg(to_jsonb(i) ORDER BY i), '{acme}', names => array_agg('n' || i ORDER BY i),
			subgroup_keys => array_agg('u' || i % 7 ORDER BY i)) AS ids FROM generate_series(1, 600) i)
	SELECT count(*), count(DISTINCT fairq.node_of_id(given)), bool_and(t.name = 'n' || t.payload::text AND t.subgroup_key = 'u' || t.payload::int % 7)
	FROM batch, unnest(ids) AS given, LATERAL fairq.get_task('q', given) t"),
	'600|2|t', 'each task of a batch in pieces has its name and its user');
sql($proxy, "SELECT fairq.purge('q'), fairq.subscribe('t', 'q'), fairq.publish('t', '\"ends\"', 'acme', subgroup_key => 'pub')");
sql($proxy, "SELECT fairq.enqueue('q', '\"dies\"', 'acme', subgroup_key => 'eve')");
my @claimed = map { (rows($proxy, "SELECT receipt, payload #>> '{}', subgroup_key FROM fairq.claim_any('{q}')"))[0] } 1 .. 2;
is(join(' ', sort map { "$_->[1] $_->[2]" } @claimed), 'dies eve ends pub', 'a claim says the user');
sql($proxy, $_->[1] eq 'ends' ? "SELECT fairq.ack('$_->[0]')" : "SELECT fairq.nack('$_->[0]', 'no')") for @claimed;
is(sql($proxy, "SELECT (SELECT subgroup_key FROM fairq.done_tasks WHERE payload = '\"ends\"'), (SELECT subgroup_key FROM fairq.dead_tasks)"), 'pub|eve',
	'so do the views of done and dead tasks');
sql($proxy, "SELECT fairq.schedule('s', 'q', '\@every 1 s', '3', 'acme', subgroup_key => 'ticks')");
ok(wait_for(sub { sql($proxy, "SELECT count(*) > 0 FROM fairq.tasks('q') WHERE payload = '3' AND subgroup_key = 'ticks'") eq 't' }), 'a schedule has a user');
is(sql($proxy, "SELECT name, subgroup_key FROM fairq.schedules"), 's|ticks', 'which the view says');
is(at_nodes("SELECT subgroup_key FROM fairq.schedules"), 'ticks / ticks', 'at both nodes');
sql($proxy, "SELECT fairq.unschedule('s'), fairq.purge('q')");

#
# A limit of a user holds at each node, and leaves its tenant where it is
#
sql($proxy, "SELECT fairq.set_subgroup('q', 'acme', 'ann', max_leased => 2)");
is(sql($proxy, "SELECT count(*), cardinality(fairq.nodes_of_group('q', 'acme')) FROM fairq.spread"), '0|2', 'a limit of a user does not move its tenant');
enqueue_batch('acme', 'ann', 400);
is(sql($proxy, "SELECT count(*) FROM generate_series(1, 20) i, fairq.claim('q', 1 + 0 * i)"), 4, 'so it holds at each node');
is(at_nodes("SELECT count(*) FROM fairq.leases WHERE queue = 'q'"), '2 / 2', 'by itself');
sql($proxy, "SELECT fairq.ack(receipt) FROM fairq.leases; SELECT fairq.purge('q')");

#
# What differs between nodes, and a node that is added
#
sub problems
{
	my ($repair) = @_;

	return sql($proxy, 'SELECT node, object, problem, repaired FROM fairq.check_cluster(' . ($repair // '') . ')');
}
sql($proxy, "SELECT fairq.set_subgroup('q', 'acme', 'bob', weight => 7), fairq.pause_subgroup('q', 'it''s', ''), fairq.create_queue('plain', subgroups => true)");
is(problems(), '', 'nothing differs');
sql($nodes[1], "SELECT fairq.set_subgroup('q', 'acme', 'bob', weight => 8), fairq.reset_subgroup('q', 'it''s', ''), fairq.set_subgroup('q', 'acme', 'more', burst => 1),
	fairq.set_subgroup_defaults('q', weight => 5), fairq.alter_queue('plain', subgroups => false)");
my $found = q{2|queue "plain"|differs from that of node 1: subgroups|no
2|queue "q"|differs from that of node 1: subgroup "" of group "it's", subgroup "bob" of group "acme", subgroup "more" of group "acme", subgroup_weight|no};
is(problems(), $found, 'what differs is said');
is(problems('true'), $found =~ s/\|no$/|yes/mgr, 'and mended');
is(problems(), '', 'then nothing differs');
sql($proxy, "SELECT fairq.set_subgroup('plain', 'a', 'u', weight => 2), fairq.set_subgroup_defaults('plain', weight => 2), fairq.alter_queue('plain', subgroups => false)");
my $spare = fairq_node('spare');
sql($spare, 'SELECT fairq.set_node(3)');
add_node($proxy, 3, $spare);
is(sql($spare, $given), "acme|ann|3|2|||f\nacme|bob|7||||f\nit's||||||t", 'a node that is added has what users were given');
is(problems(), '', 'where groups are divided, and the rest is no difference');

#
# What is moved keeps its user
#
sql($proxy, 'SELECT fairq.reset_subgroup($$q$$, $$acme$$, $$ann$$)');
sql($proxy, "SELECT fairq.enqueue('q', to_jsonb(i), 'acme', subgroup_key => 'u' || i % 3) FROM generate_series(1, 60) i");
sql($proxy, "SELECT fairq.enqueue('q', '0', 'acme') FROM generate_series(1, 20) i");
my $tasks = "SELECT coalesce(subgroup_key, 'none'), count(*) FROM fairq.tasks('q') GROUP BY 1 ORDER BY 1";
my $before = sql($proxy, $tasks);
cmp_ok(sql($spare, "SELECT count(*) FROM fairq.tasks('q')"), '>', 0, 'a node that is drained has tasks');
sql($proxy, 'SELECT fairq.drain_node(3)');
sql($proxy, 'SELECT fairq.move_tasks(3)');
is(sql($spare, "SELECT count(*) FROM fairq.tasks('q')"), 0, 'which are moved');
ok(wait_for(sub { sql($proxy, "SELECT count(*) FROM fairq.tasks('q', 'held')") eq '0' }), 'get places');
is(sql($proxy, $tasks), $before, 'and have their users');
%n = served(36);
note(join ' ', map { "$_ $n{$_}" } sort keys %n);
is(scalar(grep { $_ >= 6 && $_ <= 12 } values %n), 4, 'who are served alike, those without as one');

# a node that is away
sql($nodes[1], "SELECT fairq.set_subgroup('q', 'acme', 'bob', weight => 4)");
$nodes[0]->stop('immediate');
is(sql($proxy, "SELECT weight, missing FROM fairq.subgroup_settings WHERE subgroup_key = 'bob'"), '4|{1}', 'settings are as the next node has them');
is(sql($proxy, "SELECT count(*) > 0, bool_and(missing = '{1}') FROM fairq.subgroup_stats"), 't|t', 'and the node that is missing is named');

done_testing();
