# What the view of nodes shows, also of one that is away, and where workers are sent.
#
# To see it fail: have node_report() in fairq_internal.reports_of_nodes outside of its
# block; order by random() alone in fairq.worker_node, or leave the state out of it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);
my $view = 'SELECT node, state, reachable, version, ready, leased, waiting, standbys, problem FROM fairq.nodes';

sql($proxy, "SELECT fairq.create_queue('q', lease => '1 h')");
sql($proxy, "SELECT fairq.drain_node(2), fairq.drain_node(3)");
sql($proxy, "SELECT fairq.enqueue('q', '1') FROM generate_series(1, 5)");
sql($proxy, "SELECT fairq.enqueue('q', '1', delay => '1 h') FROM generate_series(1, 2)");
sql($proxy, "SELECT count(*) FROM fairq.claim('q', 2)");
sql($proxy, 'SELECT fairq.undrain_node(2)');
is(sql($proxy, $view), "1|active|t|0.3.0|3|2|2|0|\n2|active|t|0.3.0|0|0|0|0|\n3|draining|t|0.3.0|0|0|0|0|", 'the nodes, and what is there');

# workers: to the node with the fewest connections, and none to one that is drained
my @workers = map { session($nodes[0]) } 1 .. 6;
is(sql($proxy, "SELECT DISTINCT node FROM generate_series(1, 10) i, LATERAL (SELECT i, w.* FROM fairq.worker_node('q') w) w"), 2, 'a worker is sent where there are few');
push @workers, map { session($nodes[1]) } 1 .. 12;
is(sql($proxy, "SELECT DISTINCT node FROM generate_series(1, 10) i, LATERAL (SELECT i, w.* FROM fairq.worker_node('q') w) w"), 1, 'then to the other one');
my ($node, $connection) = split /\|/, sql($proxy, "SELECT * FROM fairq.worker_node('q')");
like($connection, qr/port=@{[ $nodes[0]->port ]} /, 'and told how to come there');
sql($_, 'CREATE ROLE worker LOGIN') for $proxy, @nodes;
is(sql($proxy, "SET ROLE worker; SELECT count(connection) FROM fairq.worker_node('q')"), 1, 'any role may ask');
refused($proxy, "SELECT * FROM fairq.worker_node('none')", '42704', qr/queue "none" does not exist/, undef, 'for a queue that there is');
refused($proxy, 'SELECT * FROM fairq.worker_node(NULL)', '22023', qr/"queue"/, undef, 'that is named');

$_->quit for @workers;
$nodes[0]->stop('immediate');
like(sql($proxy, $view), qr/^1\|active\|f\|\|\|\|\|\|node 1 is out of reach\n2\|active\|t\|/, 'a node that is away has a row');
is(sql($proxy, "SELECT node FROM fairq.worker_node('q')"), 2, 'and gets no workers');
$nodes[1]->stop('immediate');
is(sql($proxy, "SET client_min_messages = error; SELECT node FROM fairq.worker_node('q')"), 3, 'one that is drained does if it is the last');

done_testing();
