# A node whose disk is full refuses a task with an error of class 53. Nothing of the task is
# there then, so it goes to another node: but for a task with a unique key, and one that
# waits for others, which have their node. What is claimed and settled is not concerned.
# When no node has room, the error is that of a node.
#
# The disk is a constraint of the queue's table here, which raises the error that PostgreSQL
# raises.
#
# Seen to fail: without call.elsewhere in route_produce.c; without put_last() there.

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
sql($proxy, "SELECT fairq.create_queue('q'), fairq.subscribe('t', 'q')");

# Fill a node's disk, or empty it.
sub fill
{
	my ($node, $state) = @_;

	sql($node, <<SQL);
CREATE OR REPLACE FUNCTION disk(bigint) RETURNS boolean LANGUAGE plpgsql AS \$\$
BEGIN
	RAISE SQLSTATE '$state' USING MESSAGE = 'could not extend file "base/5/1": No space left on device', HINT = 'Check free disk space.';
END
\$\$;
ALTER TABLE fairq.q_q ADD CONSTRAINT full_disk CHECK (disk(id)) NOT VALID;
SQL
	return;
}

sub at
{
	my ($node) = @_;
	return sql($node, "SELECT count(*) FROM fairq.tasks('q')");
}

my $session = session($proxy);
$session->safe("SELECT count(fairq.enqueue('q', '1', 'g' || i)) FROM generate_series(1, 30) i");
my $before = at($nodes[1]);
cmp_ok($before, '>', 0, 'node 2 has tasks');
my $key = sql($proxy, "SELECT string_agg('k' || i, ',') FROM (SELECT i FROM generate_series(1, 40) i) k");
my %node_of = map { $_->[0] => $_->[1] } rows($proxy, "SELECT k, fairq.node_of_id(fairq.enqueue('q', '1', unique_key => k)) FROM unnest(string_to_array('$key', ',')) k");
my ($of_two) = grep { $node_of{$_} == 2 } sort keys %node_of;
my ($of_one) = grep { $node_of{$_} == 1 } sort keys %node_of;
sql($proxy, "SELECT fairq.purge('q')");

my $predecessor = sql($nodes[1], "SELECT fairq.enqueue('q', '\"first\"')");
sql($nodes[1], "SELECT fairq.enqueue('q', '\"claimed\"', group_key => 'c')");
fill($nodes[1], '53100');

is($session->safe("SELECT count(fairq.enqueue('q', '1', 'g' || i)) FROM generate_series(1, 60) i"), 60, 'enqueue');
is($session->safe("SELECT sum(cardinality(fairq.enqueue_many('q', array_fill('1'::jsonb, ARRAY[600])))) FROM generate_series(1, 12)"), 7200, 'enqueue_many');
is($session->safe("SELECT sum(fairq.publish('t', '1', 'g' || i)) FROM generate_series(1, 30) i"), 30, 'publish');
is(at($nodes[1]), 2, 'none of it at the node that is full');
is(at($nodes[0]) + at($nodes[2]), 60 + 7200 + 30, 'all of it at the others, once');
like($session->safe("SELECT fairq.enqueue('q', '1', unique_key => '$of_one')"), qr/^\d+$/, 'a key of another node');
refused($proxy, "SELECT fairq.enqueue('q', '1', unique_key => '$of_two')", '53100', qr/could not extend file/, qr/free disk space/, 'a key of that node');
refused($proxy, "SELECT fairq.enqueue('q', '1', after => '{$predecessor}')", '53100', qr/could not extend file/, undef, 'a task that waits for one of that node');
refused($proxy, "SELECT fairq.enqueue_many('q', array_fill('1'::jsonb, ARRAY[3]), unique_keys => '{$of_two,x,y}')", '53100', qr/could not extend file/, undef, 'a batch with such a key');
is(sql($nodes[1], "SELECT count(*) FROM fairq.claim('q', 2) t, fairq.ack(t.receipt) a WHERE a"), 2, 'what is there is claimed and acknowledged');
is(sql($proxy, 'SELECT count(*) FROM fairq.nodes WHERE reachable AND problem IS NULL'), 3, 'the node is not taken to be out of reach');

fill($_, '53100') for @nodes[ 0, 2 ];
refused($proxy, "SELECT fairq.enqueue('q', '1')", '53100', qr/could not extend file/, qr/free disk space/, 'no node has room');
refused($proxy, "SELECT fairq.enqueue_many('q', array_fill('1'::jsonb, ARRAY[300]))", '53100', qr/could not extend file/, undef, 'nor for a batch');
sql($_, 'ALTER TABLE fairq.q_q DROP CONSTRAINT full_disk') for @nodes;
like($session->safe("SELECT fairq.enqueue('q', '1', unique_key => '$of_two')"), qr/^\d+$/, 'until there is some again');

# Other errors are the caller's: no other node is asked.
fill($nodes[1], '22012');
my $errors = grep { $session->query("SELECT fairq.enqueue('q', '1')"); $session->error =~ /ERROR:  could not extend/ } 1 .. 40;
cmp_ok($errors, '>', 0, 'another error is raised as it is');
$session->quit;

done_testing();
