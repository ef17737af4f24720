# What the view of nodes shows, also of one that is away, and where workers are sent.
#
# To see it fail: have node_report() in fairq_internal.reports_of_nodes outside of its
# block; in route_worker.c leave out "waits", "alone", WORTH_A_MOVE, "draining" or "but";
# have fairq_attendance() count the session that asks.

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

# workers: to the node that needs them, whoever else is connected where
# The answers to many questions.
sub asked
{
	my ($arguments) = @_;

	return sql($proxy, "SELECT string_agg(DISTINCT n::text, ',' ORDER BY n::text) FROM (SELECT (fairq.worker_node('q'$arguments)).node AS n FROM generate_series(1, 200)) answers");
}

my @others = map { session($nodes[0]) } 1 .. 6;
is(asked(''), 1, 'a worker is sent where tasks are ready');
my (undef, $connection, $ready, $ask_after) = split /\|/, sql($proxy, "SELECT * FROM fairq.worker_node('q')");
like($connection, qr/port=@{[ $nodes[0]->port ]} /, 'and told how to come there');
is("$ready $ask_after", '3 00:00:02', 'what there is to do, and when to ask again');
my $waiter = session($nodes[0]);
my $pid = $waiter->pid;
$waiter->send("SELECT fairq.claim('q', session => fairq.open_session('waits'), wait => '100 h', group_keys => '{none}')");
ok(wait_for(sub { sql($nodes[0], "SELECT waiting FROM fairq.front('q')") == 1 }), 'one waits there');
is(asked(''), 2, 'then where nobody is, and not where none comes any more');
sql($nodes[2], "SELECT fairq.enqueue('q', '1')");
is(asked(''), 3, 'where tasks are ready and nobody attends, though it is drained');
sql($nodes[2], "SELECT fairq.purge('q'); SELECT count(*) FROM fairq.claim('q')");
sql($nodes[1], "SELECT fairq.enqueue('q', '1') FROM generate_series(1, 9)");
sql($nodes[0], "SELECT pg_cancel_backend($pid)");
$waiter->ended;
is(asked(''), 2, 'first where nobody is');

# with the session of one that is at a node
my %session;
for my $number (1 .. 3)
{
	$session{$number} = sql($nodes[ $number - 1 ], "SELECT fairq.open_session('s', '1 h')");
}
is(asked(", '$session{1}'"), 2, 'one who is at a node with tasks goes where nobody is');
sql($nodes[1], "SELECT count(*) FROM fairq.claim('q', 2, session => '$session{2}')");
is(asked(", '$session{2}'"), '1,2', 'one who has tasks to do stays, but for one time in ten');
is(asked(''), '1,2', 'another one is sent where most is to be done for each, or anywhere');
is(sql($proxy, "SELECT count(*) > 100 FROM (SELECT (fairq.worker_node('q')).node AS n FROM generate_series(1, 200)) answers WHERE n = 2"), 't', 'mostly there');
is(asked(", NULL, '{2}'"), 1, 'and nowhere that it says it does not reach');
sql($nodes[1], "SELECT fairq.close_session('$session{2}')");
$session{2} = sql($nodes[1], "SELECT fairq.open_session('s', '1 h')");
sql($_, "SELECT fairq.purge('q'); SELECT count(*) FROM fairq.claim('q')") for @nodes;
is(asked(", '$session{3}'"), 2, 'one who is at a drained node leaves it when it is empty');
is(asked(", '$session{2}'"), 2, 'where nothing is to be done one stays');
sql($nodes[1], "SELECT fairq.enqueue('q', '1'); SELECT count(*) FROM fairq.claim('q', session => '$session{2}')");
sql($proxy, 'SELECT fairq.undrain_node(3)');
is(asked(", '$session{2}'"), 2, 'also one who works, and is not one of the workers there for itself');
sql($proxy, 'SELECT fairq.drain_node(3)');
sql($nodes[1], "SELECT fairq.close_session('$session{2}'); SELECT fairq.purge('q'); SELECT count(*) FROM fairq.claim('q')");
$waiter->send("SELECT fairq.claim('q', wait => '100 h')");
ok(wait_for(sub { sql($nodes[0], "SELECT waiting FROM fairq.front('q')") == 1 }), 'one waits');
is(asked(", '$session{1}'"), 2, 'if others wait there, one goes where nobody does');
sql($nodes[0], "SELECT pg_cancel_backend($pid)");
$waiter->ended;
is(sql($proxy, "SELECT node > 0 FROM fairq.worker_node_any('{q}')"), 't', 'of several queues');
sql($_, 'CREATE ROLE worker LOGIN') for $proxy, @nodes;
refused($proxy, "SET ROLE worker; SELECT * FROM fairq.worker_node('q')", '42501', qr/queue "q"/, undef, 'for who may read the queue');
sql($_, 'GRANT SELECT ON fairq.q_q TO worker') for @nodes;
is(sql($proxy, "SET ROLE worker; SELECT count(connection) FROM fairq.worker_node('q')"), 1, 'any role may ask');
refused($proxy, "SELECT * FROM fairq.worker_node('none')", '42704', qr/queue "none" does not exist/, undef, 'for a queue that there is');
refused($proxy, 'SELECT * FROM fairq.worker_node(NULL)', '22023', qr/"queue"/, undef, 'that is named');

$_->quit for @others, $waiter;
$nodes[0]->stop('immediate');
like(sql($proxy, $view), qr/^1\|active\|f\|\|\|\|\|\|node 1 is out of reach\n2\|active\|t\|/, 'a node that is away has a row');
is(sql($proxy, "SELECT node FROM fairq.worker_node('q')"), 2, 'and gets no workers');
$nodes[1]->stop('immediate');
is(sql($proxy, "SET client_min_messages = error; SELECT node FROM fairq.worker_node('q')"), 3, 'one that is drained does if it is the last');

done_testing();
