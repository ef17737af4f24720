# Groups had four of more than eight nodes before 0.3.0, and have all now. A proxy that is
# updated goes on with four, from the moment on that it has the new library: unique keys are
# found where they are, and limits hold. The administrator says when that ends.
#
# Seen to fail: without default_width() (keys are there twice before the update), without the
# INSERT in sql/update/cluster/0.2.0--0.3.0.sql (after it), and with one that goes by all
# nodes, also those that are drained.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use FairqUpgrade;
use Test::More;

have_version('pgfairq_cluster', '0.2.0');

my $proxy = fairq_proxy('proxy');
my $server = fairq_node('nodes', conf => "pgfairq.max_workers = 0\n");
my @numbers = 1 .. 9;

foreach my $number (@numbers)
{
	sql($server, "CREATE DATABASE node$number");
	sql($server, "CREATE EXTENSION pgfairq; SELECT fairq.set_node($number)", "node$number");
}

# A proxy of the version of before, with these nodes, in a database.
sub old_proxy
{
	my ($db, @nodes) = @_;

	sql($proxy, "CREATE DATABASE $db");
	sql($proxy, "CREATE EXTENSION plproxy; CREATE EXTENSION pgfairq_cluster VERSION '0.2.0'", $db);
	foreach my $number (@nodes)
	{
		my $connection = $server->connstr("node$number");

		sql($proxy, "SET client_min_messages = warning; SELECT fairq.add_node($number, \$\$$connection\$\$)", $db);
	}
	return;
}

# The nodes of groups, in all queues that matter.
sub spread_of
{
	my ($db) = @_;

	return join "\n",
	  column($proxy, "SELECT q || ' ' || i || ' ' || fairq.nodes_of_group(q, 'group ' || i)::text
		FROM unnest('{q,l,w}'::text[]) q, generate_series(0, 19) i ORDER BY q, i", $db);
}

# The ids of a hundred keys: of tasks that are there, or that this enqueues.
sub ids
{
	my ($db) = @_;

	return sql($proxy, "SELECT string_agg(fairq.enqueue('q', '1', 'group ' || i % 20, unique_key => 'key ' || i, on_duplicate => 'keep',
		unique_for => '1 day')::text, ' ' ORDER BY i) FROM generate_series(1, 100) i", $db);
}

sub claimed
{
	my ($db) = @_;

	return sql($proxy, "SELECT count(*) FROM generate_series(1, 30) i, fairq.claim('l', 1 + 0 * i, lease => '1 h')", $db);
}

old_proxy('nine', @numbers);
sql($proxy, <<'SQL', 'nine');
SELECT fairq.create_queue('q'), fairq.create_queue('l'), fairq.create_queue('w');
SELECT fairq.set_spread('w', 6);
SELECT fairq.set_group('l', 'group 1', max_leased => 3);
SELECT fairq.enqueue('l', '1', 'group 1') FROM generate_series(1, 20) i;
SQL
my $ids = ids('nine');
my $spread = spread_of('nine');
my $width = "SELECT array_agg(DISTINCT cardinality(fairq.nodes_of_group('q', 'group ' || i))) FROM generate_series(0, 19) i";

is(sql($proxy, $width, 'nine'), '{4}', 'before the update, with the new library: four nodes of nine');
is(claimed('nine'), 3, 'a limit');
is(sql($proxy, "SELECT count(*) FROM generate_series(1, 100) i, fairq.pop('q', 1 + 0 * i)", 'nine'), 100, 'the tasks are done, their keys remembered');
is(ids('nine'), $ids, 'and each is where it is looked for');
sql($proxy, 'ALTER EXTENSION pgfairq_cluster UPDATE', 'nine');
is(spread_of('nine'), $spread, 'after it groups have the nodes that they had');
is(ids('nine'), $ids, 'and the same keys');
is(claimed('nine'), 0, 'and limits');
is(sql($proxy, "SELECT fairq.create_queue('later')"
	  . "; SELECT cardinality(fairq.nodes_of_group('later', 'g')), (SELECT string_agg(s::text, ' ') FROM fairq.spread s WHERE queue IS NULL)", 'nine') =~ s/^\n//r,
	'4|(,,4,)', 'so do queues that come, by what is written down');
is(sql($proxy, "SELECT fairq.set_spread(NULL, 5); SELECT cardinality(fairq.nodes_of_group('q', 'g')), cardinality(fairq.nodes_of_group('w', 'g'))", 'nine') =~ s/^\n//r,
	'5|6', 'it can be another width');
is(sql($proxy, "SELECT fairq.subscribe('topic', 'w'), fairq.publish('topic', '1', 'g') IS NOT NULL FROM generate_series(1, 1)", 'nine'), '|t', 'a publication with a group goes');
refused($proxy, "SELECT fairq.publish('topic', '1')", '0A000', qr/cannot be published/, qr/group/, 'and without one it does not', 'nine');
is(sql($proxy, 'SELECT fairq.reset_spread(NULL), fairq.reset_spread(NULL)', 'nine'), 't|f', 'the administrator ends it');
is(sql($proxy, $width, 'nine'), '{9}', 'then groups have all nodes');
is(claimed('nine'), 0, 'but for those that have a limit');
sql($proxy, "SELECT fairq.reset_spread('w'); SELECT fairq.publish('topic', '1')", 'nine');

# Up to eight nodes that get tasks nothing changes, so nothing is written down.
old_proxy('eight', @numbers);
sql($proxy, 'SELECT fairq.drain_node(9)', 'eight');
$spread = spread_of('eight');
sql($proxy, 'ALTER EXTENSION pgfairq_cluster UPDATE', 'eight');
is(spread_of('eight'), $spread, 'eight nodes and one that is drained: as before');
is(sql($proxy, 'SELECT count(*) FROM fairq.spread', 'eight'), 0, 'nothing is written down');
sql($proxy, 'SELECT fairq.undrain_node(9)', 'eight');
is(sql($proxy, $width, 'eight'), '{9}', 'and all is what they have');

$_->stop for $proxy, $server;
done_testing();
