# Clusters for the TAP tests: nodes that have pgfairq, and a proxy with pgfairq_cluster.

package FairqCluster;

use strict;
use warnings;

use Exporter 'import';
use FairqNode;
use PostgreSQL::Test::Cluster;

our @EXPORT = qw(
  start_load
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

	# On a machine that is busy no call is to end because it takes its time.
	my $conf = "pgfairq.node_timeout = 60s\n" . ($params{conf} // '');
	my $proxy = fairq_node($name, preload => 0, %params, conf => $conf);

	# A session there keeps its connections to nodes.
	$proxy->{fairq_keeps_none} = 1;
	sql($proxy, 'CREATE EXTENSION pgfairq_cluster CASCADE');
	return $proxy;
}

# Tell the proxy of a node.
sub add_node
{
	my ($proxy, $number, $node) = @_;
	my $connection = $node->connstr('postgres');

	sql($proxy, "SET client_min_messages = warning; SELECT fairq.add_node($number, \$\$$connection\$\$)");
	return;
}

# Sessions at the proxy that enqueue, claim and acknowledge in a queue until they are
# stopped. Each ends with the first error.
sub start_load
{
	my ($proxy, $queue, %params) = @_;
	my $self = bless { proxy => $proxy, queue => $queue, nodes => $params{nodes} }, 'FairqLoad';

	sql($proxy, <<'SQL');
CREATE TABLE IF NOT EXISTS load_ends ();
TRUNCATE load_ends;
CREATE OR REPLACE PROCEDURE run_load(queue text, INOUT enqueued bigint, INOUT acked bigint) LANGUAGE plpgsql AS $$
BEGIN
	SET statement_timeout = 0;
	LOOP
		IF NOT EXISTS (SELECT FROM load_ends) THEN
			PERFORM fairq.enqueue(queue, to_jsonb(i), 'group ' || i) FROM generate_series(1, 3) i;
			enqueued := enqueued + 3;
		END IF;
		acked := acked + (SELECT count(*) FROM fairq.claim(queue, 4) t, fairq.ack(t.receipt) a WHERE a);
		COMMIT;
		EXIT WHEN EXISTS (SELECT FROM load_ends);
	END LOOP;
END
$$;
SQL
	for (1 .. $params{sessions} // 3)
	{
		my $session = FairqNode::session($proxy);

		$session->send("CALL run_load('$queue', 0, 0)");
		push @{ $self->{sessions} }, $session;
	}
	return $self;
}

package FairqLoad;

# How many tasks are acknowledged.
sub done
{
	my ($self) = @_;
	my $done = 0;

	$done += FairqNode::sql($_, "SELECT coalesce(sum(acked), 0) FROM fairq.queue_stats WHERE queue = '$self->{queue}'") for @{ $self->{nodes} };
	return $done;
}

# Wait until so many more are.
sub goes_on
{
	my ($self, $more) = @_;
	my $goal = $self->done + $more;

	return FairqNode::wait_for(sub { $self->done >= $goal });
}

# End it. Answers what was enqueued and acknowledged, and the errors.
sub stop
{
	my ($self) = @_;
	my ($enqueued, $acked, $errors) = (0, 0, '');

	FairqNode::sql($self->{proxy}, 'INSERT INTO load_ends DEFAULT VALUES');
	foreach my $session (@{ $self->{sessions} })
	{
		my ($out, $error) = $session->ended_with;

		$errors .= $error;
		next unless $out =~ /^(\d+)\|(\d+)$/m;
		$enqueued += $1;
		$acked += $2;
	}
	return ($enqueued, $acked, $errors);
}

1;
