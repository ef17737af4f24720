# The views of a proxy: the rows of all nodes as one, and what a node that is out of reach
# does to them, which is no more than that it is named.
#
# To see it fail: rethrow the error of one node in route_view(); take a sum for a maximum,
# or the last node for the first, in sql/cluster/52_views.sql.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);
my @views = qw(queues queue_stats queue_histograms name_stats name_histograms group_stats group_settings bucket_stats leases sessions dead_tasks done_tasks topics
  dependencies schedules);

# What the nodes say, one after the other.
sub at_nodes
{
	my ($sql) = @_;

	return map { sql($_, $sql) } @nodes;
}

sub sum
{
	my $sum = 0;

	$sum += $_ for @_;
	return $sum;
}

sub max
{
	my ($max) = sort { $b <=> $a } @_;

	return $max;
}

# Something for each view, at each node
sql($proxy, "SELECT fairq.create_queue('q', buckets => 2, keep_done => '1 h', max_attempts => 1)");
sql($proxy, "SELECT fairq.subscribe('t', 'q')");
sql($proxy, "SELECT fairq.set_group('q', 'alice', weight => 2)");
for my $i (1 .. 3)
{
	# unlike at each: groups, sizes, and what was done with them
	my $n = 10 * $i;
	sql($nodes[ $i - 1 ], <<SQL);
SELECT fairq.enqueue('q', to_jsonb(repeat('x', 100 * $i)), CASE WHEN i % 3 = 0 THEN 'bob' ELSE 'alice' END) FROM generate_series(1, $n) i;
SELECT fairq.enqueue('q', '1', 'only$i', name => 'send');
SELECT fairq.ack(receipt) FROM fairq.claim('q', $i, group_keys => '{alice}');
SELECT fairq.nack(receipt, 'e') FROM fairq.claim('q', 1, group_keys => '{bob}');
SELECT count(*) FROM fairq.claim('q', 2 * $i, lease => '1 h');
SELECT fairq.enqueue('q', '0', after => ARRAY[(SELECT max(id) FROM fairq.tasks('q', 'ready'))]);
CREATE ROLE worker$i;
SET ROLE worker$i;
SELECT fairq.open_session('s$i', ttl => '1 h');
SQL
}
sql($nodes[1], "UPDATE fairq.q_q SET enqueued_at = enqueued_at - interval '1 h'");
is(sql($nodes[0], "SELECT fairq.schedule('daily', 'q', '0 0 * * *', active => false)"), '', 'a schedule that is not active at one node');
sql($nodes[1], "SELECT fairq.schedule('daily', 'q', '0 0 * * *')");

#
# As one
#
is(sql($proxy, "SELECT queue, owner, relation, buckets, missing FROM fairq.queues"), 'q|postgres|fairq.q_q|2|{}', 'queues: one row a queue');
is(sql($proxy, "SELECT * FROM fairq.topics"), 't|q|{}', 'topics: a subscription once');
is(sql($proxy, "SELECT queue, group_key, weight, missing FROM fairq.group_settings"), 'q|alice|2|{}', 'group_settings: a group once');
is(sql($proxy, "SELECT name, active, next_run IS NOT NULL FROM fairq.schedules"), 'daily|t|t', 'schedules: the one that is active');
for my $column (qw(ready leased scheduled overflow held dead enqueued claimed acked nacked released dead_total))
{
	is(sql($proxy, "SELECT $column FROM fairq.queue_stats"), sum(at_nodes("SELECT $column FROM fairq.queue_stats")), "queue_stats.$column: the sum");
}
for my $column (qw(payload_p50 payload_p95 payload_max))
{
	is(sql($proxy, "SELECT $column FROM fairq.queue_stats"), max(at_nodes("SELECT $column FROM fairq.queue_stats")), "queue_stats.$column: the greatest");
}
is( sql($proxy, "SELECT payload_avg FROM fairq.queue_stats"),
	sprintf('%.0f', sum(at_nodes("SELECT payload_avg * enqueued FROM fairq.queue_stats")) / sum(at_nodes("SELECT enqueued FROM fairq.queue_stats"))),
	'queue_stats.payload_avg: of all');
is(sql($proxy, "SELECT stats_reset FROM fairq.queue_stats"), (sort(at_nodes("SELECT stats_reset FROM fairq.queue_stats")))[0], 'stats_reset: the first');
cmp_ok(sql($proxy, "SELECT enqueue_rate FROM fairq.queue_stats"), '>', max(at_nodes("SELECT 0.9 * enqueue_rate FROM fairq.queue_stats")), 'rates are summed');
is(join('', at_nodes("SELECT oldest_ready_age > '1 h' FROM fairq.queue_stats")), 'ftf', 'the oldest task is at the second node');
is(sql($proxy, "SELECT oldest_ready_age > '1 h' FROM fairq.queue_stats"), 't', 'oldest_ready_age: the greatest');

is( sql($proxy, "SELECT queue, name, other, enqueued, missing FROM fairq.name_stats"),
	'q|send|f|3|{}', 'name_stats: the sum of a name');
is(sql($proxy, "SELECT count(*), bool_and(missing = '{}') FROM fairq.name_histograms"), '40|t', 'name_histograms: one for all nodes');

for my $group (qw(alice bob only2))
{
	my ($served, $all, $due) = map { my $what = $_; sum(map { $_ eq '' ? 0 : $_ } at_nodes("SELECT $what FROM fairq.group_stats WHERE group_key = '$group'")) }
	  qw(served_cost all_served_cost expected_share*all_served_cost);
	is( sql($proxy, "SELECT served_cost, all_served_cost, share = served_cost / $all, abs(expected_share - ($due)::float8 / $all) < 1e-9,
			share_error = share - expected_share FROM fairq.group_stats WHERE group_key = '$group'"),
		"$served|$all|t|t|t", "group_stats: the share of $group is that of all nodes");
}
is(sql($proxy, "SELECT sum(ready), sum(leased), count(*) FROM fairq.group_stats"),
	join('|', sum(at_nodes("SELECT sum(ready) FROM fairq.group_stats")), sum(at_nodes("SELECT sum(leased) FROM fairq.group_stats")), 5),
	'group_stats: one row a group');

for my $view (qw(leases dead_tasks done_tasks dependencies bucket_stats sessions))
{
	my $count = sum(at_nodes("SELECT count(*) FROM fairq.$view"));
	cmp_ok($count, '>=', 3, "$view: some at each node");
	is(sql($proxy, "SELECT count(*), bool_and(missing = '{}') FROM fairq.$view"), "$count|t", "$view: the rows of all");
}
is(sql($proxy, "SELECT string_agg(DISTINCT node::text, ' ') FROM fairq.bucket_stats"), '1 2 3', 'bucket_stats: with the node');
is(sql($proxy, "SELECT string_agg(name || role || node, ' ' ORDER BY name) FROM fairq.sessions"), 's1worker11 s2worker22 s3worker33',
	'sessions: with the node, and of a role that is there only');

# the position of a task is of its node, so of a ready one it is no exact one
my ($ready, $leased) = map { sql($nodes[2], "SELECT max(id) FROM fairq.tasks('q', '$_')") } qw(ready leased);
is( sql($proxy, "SELECT ahead, exact FROM fairq.get_task_position('q', $ready)"),
	sql($nodes[2], "SELECT ahead, not exact FROM fairq.get_task_position('q', $ready)"), 'get_task_position: what is ahead at the node, not exact over all');
is(sql($proxy, "SELECT state, ahead, exact FROM fairq.get_task_position('q', $leased)"), 'leased|0|t', 'but of a leased one');
is(sql($proxy, "SELECT fairq.get_task_position('q', $leased + 1000) IS NULL"), 't', 'and null if there is none');

#
# A node of a later version has a column more
#
my $before = sql($nodes[2], "SELECT pg_get_viewdef('fairq.topics'::regclass)");
$before =~ s/;//;
sql($nodes[2], "CREATE OR REPLACE VIEW fairq.topics AS SELECT v.*, 1 AS more FROM ($before) v");
is(sql($proxy, "SELECT * FROM fairq.topics"), 't|q|{}', 'a node may have more columns');

#
# Where nodes differ, and where one is out of reach
#
sql($nodes[1], "SELECT fairq.alter_queue('q', lease => '2 s'), fairq.set_group('q', 'alice', weight => 5)");
is(sql($proxy, "SELECT lease FROM fairq.queues"), '00:00:30', 'queues: as the first node has it');
my %whole = map { $_ => sql($proxy, "SELECT count(*) FROM fairq.$_") } @views;
my $session = session($proxy);
$session->safe('SELECT count(*) FROM fairq.queues');
$nodes[0]->stop('immediate');
is($session->safe("SELECT lease, missing FROM fairq.queues"), '00:00:02|{1}', 'then as the next one has it, without the first');
is($session->safe("SELECT weight, missing FROM fairq.group_settings"), '5|{1}', 'and group_settings');
$nodes[2]->stop('immediate');
for my $view (@views)
{
	is(sql($proxy, "SELECT count(*) > 0, bool_and(missing = '{1,3}') FROM fairq.$view"), 't|t', "$view: the nodes that are missing are named");
}
is(sql($proxy, "SELECT ready FROM fairq.queue_stats"), sql($nodes[1], "SELECT ready FROM fairq.queue_stats"), 'what is left is counted');
$nodes[1]->stop('immediate');
for my $view (@views)
{
	refused($proxy, "SELECT * FROM fairq.$view", '08006', qr/node \d is out of reach/, qr/may be repeated/, "$view: no node is left");
}

# and back
$_->start for @nodes;
for my $view (qw(queues group_settings topics schedules dead_tasks done_tasks dependencies))
{
	is($session->safe("SELECT count(*), bool_and(missing = '{}') FROM fairq.$view"), "$whole{$view}|t", "$view: all are back");
}
$session->quit;

done_testing();
