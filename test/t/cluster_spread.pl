# Which nodes a group's tasks go to: all, or as many as was said; evenly, and when a node
# comes or goes only its own part of the choices changes. No node is asked.
#
# Seen to fail: with the number of the node left out of the hash (order_by_weight: all groups
# have the same nodes), with the count of nodes as its seed (a new node changes all), and
# without the queue for tasks without a group.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $proxy = fairq_proxy('proxy');
my $groups = 4000;

sub nodes
{
	my ($from, $to) = @_;

	return sql($proxy, "INSERT INTO fairq.node SELECT i, i - 1, 'host=/nonexistent' FROM generate_series($from, $to) i");
}

sub of_group
{
	my ($queue, $group) = @_;

	return sql($proxy, "SELECT fairq.nodes_of_group('$queue', '$group')");
}

# Note the choices of all groups under a name.
sub choose
{
	my ($name) = @_;

	return sql($proxy, "CREATE TABLE $name AS SELECT i, n, rank FROM generate_series(1, $groups) i,"
		  . " unnest(fairq.nodes_of_group('q', 'group ' || i)) WITH ORDINALITY AS chosen (n, rank)");
}

# The part of the choices that are not there any more, in thousandths.
sub gone
{
	my ($before, $after) = @_;

	return sql($proxy, "SELECT 1000 * count(*) / (SELECT count(*) FROM $before) FROM (SELECT i, n FROM $before EXCEPT SELECT i, n FROM $after) d");
}

refused($proxy, "SELECT fairq.nodes_of_group('q', 'g')", '55000', qr/the cluster has no nodes/, qr/add_node/, 'no node');

nodes(1, 16);
is(of_group('q', 'g'), '{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}', 'all nodes');
sql($proxy, 'SELECT fairq.set_spread(NULL, 4)');
choose('at16');
is(sql($proxy, 'SELECT min(n), max(n) FROM (SELECT count(DISTINCT n) AS n FROM at16 GROUP BY i) c'), '4|4', 'or four, as is said for all queues');

# 1,000 choices a node on average: 150 are almost five standard deviations
is(sql($proxy, 'SELECT count(*) FROM (SELECT 1 FROM at16 GROUP BY n HAVING count(*) BETWEEN 850 AND 1150) c'), 16, 'each node has its part');
is(sql($proxy, 'SELECT count(*) FROM (SELECT 1 FROM at16 WHERE rank = 1 GROUP BY n HAVING count(*) BETWEEN 175 AND 325) c'), 16, 'also of the first choices');
cmp_ok(sql($proxy, 'SELECT count(DISTINCT nodes) FROM (SELECT array_agg(n ORDER BY n) AS nodes FROM at16 GROUP BY i) c'),
	'>', 1500, 'groups have nodes of their own');

# 4 of 17 instead of 4 of 16: a group's four change with probability 4/17, by one
nodes(17, 17);
choose('at17');
my $part = gone('at16', 'at17');
cmp_ok(abs($part - 1000 / 17), '<', 12, 'a new node changes its part of the choices') or diag($part);
is(sql($proxy, 'SELECT count(*) FROM (SELECT i, n FROM at17 EXCEPT SELECT i, n FROM at16) d WHERE n <> 17'), 0, 'and no other');
sql($proxy, 'DELETE FROM fairq.node WHERE node = 17');
choose('again');
is(sql($proxy, 'SELECT count(*) FROM (SELECT i, n, rank FROM at16 EXCEPT SELECT i, n, rank FROM again) d'), 0, 'it goes: as before');
sql($proxy, "UPDATE fairq.node SET state = 'draining' WHERE node = 3");
choose('drained');
is( sql($proxy, 'SELECT count(*) FILTER (WHERE n = 3), count(*) FROM drained')
	  . ' '
	  . sql($proxy, 'SELECT count(*) FROM (SELECT i, n FROM at16 WHERE n <> 3 EXCEPT SELECT i, n FROM drained) d'),
	'0|' . 4 * $groups . ' 0', 'a node that is drained gets nothing, the others keep theirs');
sql($proxy, "UPDATE fairq.node SET state = 'active'");

# widths that were said
sql($proxy, "INSERT INTO fairq.spread (queue, group_key, width) VALUES ('q', NULL, 2), ('q', 'group 1', 1), ('q', 'group 2', 99), ('other', NULL, 6)");
is(sql($proxy, "SELECT cardinality(fairq.nodes_of_group('q', 'group ' || i)) FROM generate_series(1, 3) i"), "1\n16\n2", 'of a group, and of a queue');
my @widths = map { sql($proxy, "SELECT array_to_string(fairq.nodes_of_group('$_', 'group 3'), ' ')") } qw(q third other);
like($widths[1], qr/^$widths[0] /, 'fewer nodes are the first of more');
like($widths[2], qr/^$widths[1] /, 'also in another queue');
isnt(of_group('third', ''), of_group('fourth', ''), 'without a group it goes by the queue');
sql($proxy, "SELECT fairq.set_spread(NULL, 5)");
is(join(' ', map { sql($proxy, "SELECT cardinality(fairq.nodes_of_group('$_', 'group 3'))") } qw(q third other)), '2 5 6', 'what is said for all is for queues that have nothing else');
sql($proxy, "DELETE FROM fairq.spread; VACUUM fairq.spread");
is(sql($proxy, "SELECT cardinality(fairq.nodes_of_group('q', 'group 1'))"), 16, 'none any more');
is(sql($proxy, "SELECT fairq.nodes_of_group(NULL, 'g') IS NULL, fairq.nodes_of_group('q', NULL) IS NULL"), 't|t', 'null');
is(sql($proxy, "SELECT cardinality(fairq.nodes_of_group('q', repeat(chr(252), 1000000)))"), 16, 'a long group');

done_testing();
