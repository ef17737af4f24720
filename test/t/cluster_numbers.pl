# The number of a node that a cluster has is not changed: set_node() refuses, until the node
# is dropped, or is told that no proxy has it any more. Should it be changed all the same,
# sessions of proxies that are connected notice with the next call: nothing that is meant
# for one node is done at another one.
#
# Seen to fail: without refuse_member() in node_admin.c; without proxy_calls_check_number()
# in arguments.c (with force).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);
sql($proxy, "SELECT fairq.create_queue('q')");
my $session = session($proxy);
my @ids = split /\n/, $session->safe("SELECT fairq.enqueue('q', '1', 'g' || i) FROM generate_series(1, 60) i");
is(scalar @ids, 60, 'a session has met all nodes');

refused($nodes[2], 'SELECT fairq.set_node(4)', '55000', qr/cannot make this node 4: it is node 3 of a cluster/, qr/drop_node.*force => true/, 'the number of a member stays');
refused($nodes[2], 'SELECT fairq.set_node(2)', '55000', qr/it is node 3 of a cluster/, undef, 'also for a lower one');
is(sql($nodes[2], 'SELECT fairq.set_node(3), fairq.this_node()'), '|3', 'it may be set again to what it is');
is(sql($nodes[2], 'SELECT fairq_internal.membership()'), 'active', 'and is a member as before');

# Forced
my $receipt = sql($nodes[2], "SELECT receipt FROM fairq.claim('q')");
sql($nodes[2], 'SELECT fairq.set_node(4, force => true)');
is(sql($nodes[2], 'SELECT fairq.this_node(), fairq_internal.membership()'), '4|alone', 'it is given another number by force');
my ($good, $bad) = (0, 0);
for my $i (1 .. 40)
{
	my $id = $session->query("SELECT fairq.enqueue('q', '2', 'g' || $i)");

	if ($session->error =~ /ERROR/)
	{
		$bad++;
		like($session->error, qr/this is node 4, and a proxy takes it for node 3|the server of node 3 says that it is node 4/, 'a connected session is told') if $bad == 1;
	}
	else
	{
		$good++;
		push @ids, $id;
	}
}
cmp_ok($good, '>', 0, 'what goes to other nodes goes on');
cmp_ok($bad, '>', 0, 'what is meant for node 3 does not');
my %times;
$times{$_}++ for @ids;
is(scalar(grep { $_ > 1 } values %times), 0, 'no id is given to two tasks');
is(sql($nodes[2], "SELECT count(*) FROM fairq.tasks('q') WHERE payload = '2'"), 0, 'nothing has come to the node of another number');
$session->query("SELECT fairq.ack('$receipt')");
like($session->error, qr/node 4/, 'nor is a receipt of before settled there');
like(sql($proxy, "SELECT problem FROM fairq.check_cluster() WHERE node = 3"), qr/says that it is node 4/, 'check_cluster() says so');
$session->quit;

# A node that was dropped gets another number.
sql($proxy, 'SELECT fairq.drop_node(3, lost => true)');
sql($proxy, "SELECT fairq.drain_node(2)");
refused($nodes[1], 'SELECT fairq.set_node(5)', '55000', qr/of a cluster/, undef, 'a node that is drained is a member');
sql($nodes[1], "SELECT fairq.purge('q')");
sql($proxy, 'SELECT fairq.drop_node(2)');
is(sql($nodes[1], 'SELECT fairq.set_node(5); SELECT fairq.this_node(), fairq_internal.membership()'), "\n5|alone", 'one that was dropped may have another number');

done_testing();
