# Clusters for the TAP tests: nodes that have pgfairq, and a proxy with pgfairq_cluster.

package FairqCluster;

use strict;
use warnings;

use Exporter 'import';
use FairqNode;
use PostgreSQL::Test::Cluster;

our @EXPORT = qw(
  fairq_cluster
  fairq_proxy
  add_node
);

# A proxy and so many nodes, numbered from 1, which it has: ($proxy, $node1, ...).
# Parameters: those of fairq_node, of the nodes; proxy: lines of the proxy's postgresql.conf.
sub fairq_cluster
{
	my ($n, %params) = @_;
	my $proxy = fairq_proxy('proxy', conf => delete $params{proxy});
	my @nodes;

	for my $i (1 .. $n)
	{
		my $node = fairq_node("node$i", %params);
		sql($node, "SELECT fairq.set_node($i)");
		add_node($proxy, $i, $node);
		push @nodes, $node;
	}
	return ($proxy, @nodes);
}

# A server with a database that is a proxy; the library is not preloaded there.
sub fairq_proxy
{
	my ($name, %params) = @_;
	my $proxy = fairq_node($name, preload => 0, %params);

	sql($proxy, 'CREATE EXTENSION pgfairq_cluster CASCADE');
	return $proxy;
}

# Tell the proxy of a node.
sub add_node
{
	my ($proxy, $number, $node) = @_;
	my $connection = $node->connstr('postgres');

	sql($proxy, "INSERT INTO fairq.node (node, place, connection)
		SELECT $number, coalesce(max(place) + 1, 0), \$\$$connection\$\$ FROM fairq.node");
	return;
}

1;
