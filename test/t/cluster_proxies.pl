# The proxy's own database: a hot standby of it serves as it does; a dump has the nodes;
# the extension can be dropped and created again under an open session; and a database is
# a node or a proxy, not both.
#
# To see it fail: take pg_extension_config_dump() out of sql/cluster/10_nodes.sql, or the
# trigger fairq_node_written; take 00_not_a_proxy.sql out of sql/install.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $proxy = fairq_proxy('proxy', init => { allows_streaming => 1 });
my @nodes = map { fairq_node("node$_") } 1 .. 3;
sql($nodes[$_], 'SELECT fairq.set_node(' . ($_ + 1) . ')') for 0 .. 2;
add_node($proxy, $_, $nodes[ $_ - 1 ]) for 1 .. 2;
sql($proxy, "SELECT fairq.create_queue('q', keep_done => '1 h'), fairq.create_queue('r'), fairq.subscribe('t', 'r')");

#
# A hot standby
#
$proxy->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($proxy, 'copy', has_streaming => 1);
$standby->start;
is(sql($standby, 'SELECT pg_is_in_recovery()'), 't', 'a proxy that is a standby');

is(sql($standby, "SELECT count(fairq.enqueue('q', to_jsonb(i), 'g' || i % 3)) FROM generate_series(1, 20) i"), 20, 'enqueue');
is(sql($standby, "SELECT cardinality(fairq.enqueue_many('q', array_agg(to_jsonb(i)))) FROM generate_series(1, 300) i"), 300, 'enqueue_many');
is(sql($standby, "SELECT fairq.publish('t', '1')"), 1, 'publish');
is(sql($standby, "SELECT count(*) FROM fairq.peek('q', 5)"), 5, 'peek');
is(sql($standby, "SELECT count(*) FROM fairq.tasks('q')"), 320, 'tasks');
is(sql($standby, "CALL fairq.wait('q', '100 h'); CALL fairq.wait_any('{q,r}', '100 h')"), '', 'wait');
my @tasks = rows($standby, "SELECT id, receipt FROM fairq.claim('q', 6)");
is(scalar @tasks, 6, 'claim');
my @receipts = map { $_->[1] } @tasks;
is( sql($standby, <<SQL),
SELECT fairq.extend('$receipts[0]') IS NOT NULL, fairq.ack('$receipts[0]', '1'), fairq.nack('$receipts[1]', delay => '1 h'), fairq.release('$receipts[2]'),
	(SELECT count(*) FROM fairq.ack_many('{$receipts[3],$receipts[4]}')), (SELECT count(*) FROM fairq.ack_and_claim('q', '{$receipts[5]}'));
SQL
	't|t|t|t|2|1', 'ack and the like');
is(sql($standby, "SELECT state, result FROM fairq.await('q', $tasks[0][0])"), 'acked|1', 'await');
is(sql($standby, "SELECT state FROM fairq.get_task('q', $tasks[1][0])"), 'scheduled', 'get_task');
is(sql($standby, "SELECT state FROM fairq.get_task_position('q', $tasks[1][0])"), 'scheduled', 'get_task_position');
is(sql($standby, "SELECT fairq.cancel('q', $tasks[1][0]), fairq.cancel('q', $tasks[1][0])"), 't|f', 'cancel');
is(sql($standby, "SELECT count(*) FROM fairq.pop('r')") . sql($standby, "SELECT count(*) FROM fairq.claim_any('{r,q}')"), '11', 'pop and claim_any');
is(sql($standby, "SELECT fairq.heartbeat(s), fairq.close_session(s) FROM fairq.open_session('s') s"), 't|0', 'sessions');
is(sql($standby, "SELECT count(*), bool_and(missing = '{}') FROM fairq.$_"), sql($proxy, "SELECT count(*), bool_and(missing = '{}') FROM fairq.$_"), "view $_")
  for qw(queues queue_stats queue_histograms name_stats name_histograms group_stats group_settings subgroup_stats subgroup_settings bucket_stats leases sessions dead_tasks done_tasks topics dependencies schedules);
refused($standby, "SELECT fairq.add_node(3, 'dbname=none')", '25006', qr/add_node/, qr/primary/, 'but nodes are added at the primary');
my $session = session($standby);
my $count = $session->safe("SELECT count(*) FROM fairq.bucket_stats WHERE node = 3");
add_node($proxy, 3, $nodes[2]);
$proxy->wait_for_catchup($standby);
sql($nodes[2], "SELECT fairq.enqueue('q', '1')");
cmp_ok($session->safe("SELECT count(*) FROM fairq.bucket_stats WHERE node = 3"), '>', $count, 'of which sessions of the standby know when they are replayed');
$session->quit;
$standby->stop;

#
# Dump and restore
#
sql($proxy, "CREATE ROLE alice; CREATE USER MAPPING FOR alice SERVER pgfairq OPTIONS (password 'x');
	INSERT INTO fairq.spread VALUES ('q', NULL, 2), ('q', 'g1', 1); UPDATE fairq.node SET state = 'draining' WHERE node = 2");
my $list = "SELECT n::text FROM fairq.node n UNION ALL SELECT s::text FROM fairq.spread s UNION ALL SELECT unnest(srvoptions) FROM pg_foreign_server ORDER BY 1";
my $dump = $proxy->basedir . '/dump.sql';
$proxy->command_ok([ 'pg_dump', '-f', $dump, $proxy->connstr('postgres') ], 'a proxy is dumped');
sql($proxy, 'CREATE DATABASE restored');
$proxy->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $proxy->connstr('restored') ], 'and restored');
is(sql($proxy, $list, 'restored'), sql($proxy, $list), 'nodes, spread and the options of the server are back');
like(sql($proxy, $list, 'restored'), qr/^p2=/m, 'which are of all nodes');
is(sql($proxy, "SELECT count(fairq.enqueue('q', '1')) FROM generate_series(1, 10)", 'restored'), 10, 'it serves');
is(sql($proxy, "SELECT count(*) FROM pg_user_mappings WHERE usename = 'alice'", 'restored'), 0, 'user mappings are to be made again');
my $archive = $proxy->basedir . '/dump.custom';
$proxy->command_ok([ 'pg_dump', '-Fc', '-f', $archive, $proxy->connstr('restored') ], 'an archive');
sql($proxy, 'CREATE DATABASE again');
$proxy->command_ok([ 'pg_restore', '-j', '4', '-e', '-d', $proxy->connstr('again'), $archive ], 'is restored by several at a time');
is(sql($proxy, $list, 'again'), sql($proxy, $list), 'with all that it has');

#
# Dropped and created again, under a session that has called
#
$session = session($proxy, 'restored');
is($session->safe("SELECT fairq.enqueue('q', '1') > 0 FROM fairq.queues WHERE queue = 'q'"), 't', 'a session calls');
$session->safe('DROP EXTENSION pgfairq_cluster CASCADE');
is($session->safe("SELECT (SELECT count(*) FROM pg_foreign_server) + (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'fairq%') + (SELECT count(*) FROM pg_event_trigger)"),
	0, 'nothing of it is left when it is dropped');
$session->safe('CREATE EXTENSION pgfairq_cluster');
$session->query("SELECT fairq.enqueue('q', '1')");
like($session->error, qr/the cluster has no nodes/, 'created again it has no nodes');
my $connection = $nodes[2]->connstr('postgres');
$session->safe("SELECT fairq.add_node(3, \$\$$connection\$\$)");
is($session->safe("SELECT fairq.node_of_id(fairq.enqueue('q', '1')), (SELECT string_agg(DISTINCT node::text, '') FROM fairq.bucket_stats)"), '3|3', 'until it is given one');
$session->quit;

#
# A database is a node or a proxy
#
refused($nodes[0], 'CREATE EXTENSION pgfairq_cluster CASCADE', '55000', qr/has the extension pgfairq cannot be a proxy/, qr/database of its own/, 'a node cannot be a proxy');
refused($proxy, 'CREATE EXTENSION pgfairq', '55000', qr/has the extension pgfairq_cluster cannot be a node/, qr/fairq.add_node/, 'a proxy cannot be a node');
is(sql($nodes[0], "CREATE DATABASE beside; SELECT count(*) FROM fairq.queues"), 2, 'but one beside the other');
is(sql($nodes[0], "CREATE EXTENSION pgfairq_cluster CASCADE; SELECT fairq.add_node(1, \$\$" . $nodes[0]->connstr('postgres') . "\$\$); SELECT count(*) FROM fairq.queues", 'beside'),
	"\n2", 'on one server');

done_testing();
