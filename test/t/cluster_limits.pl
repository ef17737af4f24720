# The limits of a group hold in the whole cluster: its tasks go to one node, which stays
# the same when nodes are added, whether the limit is the group's or that of all groups.
#
# To see it fail: have set_group take route_everywhere; leave out keep_named() for the
# group, or for the queue.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);

# at how many nodes the groups of a queue are, at most, and at how many in all
sub spread_of
{
	my ($queue) = @_;

	return sql($proxy, "SELECT max(n), (SELECT count(DISTINCT id >> 48) FROM fairq.tasks('$queue')) FROM
		(SELECT group_key, count(DISTINCT id >> 48) AS n FROM fairq.tasks('$queue') GROUP BY group_key) g");
}

sub enqueue_all
{
	my ($queue, $prefix) = @_;

	sql($proxy, "SELECT fairq.enqueue('$queue', '1', '$prefix' || i % 20) FROM generate_series(1, 200) i");
	return;
}

# of single groups, set by a role that owns the queue, several in a statement
sql($_, 'CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA fairq TO clerk') for $proxy, @nodes;
sql($proxy, "SET ROLE clerk; SELECT fairq.create_queue('g', lease => '1 h')");
sql($proxy, "SET ROLE clerk; SELECT fairq.set_group('g', 'g' || i, max_leased => 2) FROM generate_series(0, 19) i");
sql($proxy, "SELECT fairq.create_queue('d', lease => '1 h'), fairq.set_group_defaults('d', max_leased => 3), fairq.create_queue('r', lease => '1 h')");
sql($proxy, "SELECT fairq.set_group('r', 'r0', rate => 0.001, burst => 4)");
enqueue_all('g', 'g');
enqueue_all('g', 'free');
enqueue_all('d', 'd');
sql($proxy, "SELECT fairq.enqueue('r', '1', 'r0') FROM generate_series(1, 100)");
is(spread_of('d'), '1|3', 'with a limit for all, each group is at one node, and groups are at all');
is(sql($proxy, "SELECT count(DISTINCT id >> 48) FROM fairq.tasks('g', NULL, 'g3')"), 1, 'a group with a limit is at one');
is(sql($proxy, "SELECT max(n) FROM (SELECT count(DISTINCT id >> 48) AS n FROM fairq.tasks('g') WHERE group_key LIKE 'free%' GROUP BY group_key) x"), 3, 'those without are at all');
is(sql($proxy, "SELECT fairq.enqueue_many('g', array_fill('1'::jsonb, ARRAY[300]), array_fill('g3'::text, ARRAY[300])) IS NOT NULL"), 't', 'a batch, too');
is(sql($proxy, "SELECT count(DISTINCT id >> 48) FROM fairq.tasks('g', NULL, 'g3')"), 1, 'goes there');
is(sql($proxy, "SELECT max_leased, (SELECT group_max_leased FROM fairq.queues WHERE queue = 'd') FROM fairq.group_settings WHERE queue = 'g' AND group_key = 'g3'"),
	'2|3', 'the views show the limit as it was given');

sub claim_all
{
	my ($queue) = @_;

	return sql($proxy, "SELECT count(*) FROM generate_series(1, 60) i, fairq.claim('$queue', 50 + 0 * i, group_keys => ARRAY(SELECT left('$queue', 1) || j FROM generate_series(0, 19) j))");
}
is(claim_all('g'), 40, 'twenty groups have two in flight each, and not more');
is(claim_all('d'), 60, 'or three');
is(claim_all('r'), 4, 'a rate is that of the cluster');
is(sql($proxy, "SELECT max(n) FROM (SELECT count(*) AS n FROM fairq.leases l CROSS JOIN LATERAL fairq.get_task(l.queue, l.id) t WHERE l.queue IN ('g', 'd') GROUP BY l.queue, t.group_key) x"),
	3, 'in each group');

# a node is added
my $spare = fairq_node('spare');
sql($spare, 'SELECT fairq.set_node(4); CREATE ROLE clerk LOGIN');
add_node($proxy, 4, $spare);
enqueue_all('g', 'g');
enqueue_all('g', 'free');
enqueue_all('d', 'd');
is(spread_of('d'), '1|3', 'a node that is added gets none of a queue with limits');
is(sql($proxy, "SELECT max(n) FROM (SELECT count(DISTINCT id >> 48) AS n FROM fairq.tasks('g') WHERE group_key LIKE 'g%' GROUP BY group_key) x"), 1, 'or of groups with limits');
cmp_ok(sql($spare, "SELECT count(*) FROM fairq.tasks('g')"), '>', 0, 'but of others');
is(claim_all('g') + claim_all('d') + claim_all('r'), 0, 'so no more are in flight');
sql($proxy, "SET ROLE clerk; SELECT fairq.set_group('g', 'g3', max_leased => 5)");
enqueue_all('g', 'g');
is(sql($proxy, "SELECT count(DISTINCT id >> 48) FROM fairq.tasks('g', NULL, 'g3')"), 1, 'a limit that is changed leaves the group where it is');
is(claim_all('g'), 3, 'and holds');

# as the administrator says
sql($proxy, "SELECT fairq.create_queue('s')");
sql($proxy, "SELECT fairq.set_spread('s', 2), fairq.set_spread('s', 1, 's7')");
enqueue_all('s', 's');
is(sql($proxy, "SELECT max(n) FILTER (WHERE group_key <> 's7'), max(n) FILTER (WHERE group_key = 's7') FROM
	(SELECT group_key, count(DISTINCT id >> 48) AS n FROM fairq.tasks('s') GROUP BY group_key) x"), '2|1', 'a width of a queue, and of a group');
is(sql($proxy, "SELECT fairq.reset_spread('s'), fairq.reset_spread('s'), fairq.reset_spread('s', 's7')"), 't|f|t', 'is taken away');
refused($proxy, "SELECT fairq.set_spread('s', 0)", '22023', qr/"width": "0"/, qr/reset_spread/, 'a width of none');
refused($proxy, "SELECT fairq.set_spread(NULL, 1, 's1')", '22023', qr/"queue"/, qr/the queue that the group is of/, 'of a group of no queue');
refused($proxy, "SET ROLE clerk; SELECT fairq.set_spread('g', 1)", '42501', qr/set_spread/, undef, 'by a role that may not');
refused($proxy, "SET ROLE clerk; UPDATE fairq.spread SET nodes = NULL", '42501', undef, undef, 'nor write the table');
refused($proxy, "SET ROLE clerk; SELECT fairq.set_group('s', 's1', max_leased => 1)", '42501', qr/must be owner of queue/, undef, 'nor set limits of a queue of another');
is(sql($proxy, "SELECT count(*) FROM fairq.spread WHERE queue = 's'"), 0, 'which leaves nothing behind');

done_testing();
