# Nodes are added and drained under load, with no error at a client; a new node has the
# queues of the others, with owners, grants, groups and topics; servers that cannot be
# nodes are refused, and the refused leave nothing behind.
#
# To see it fail: take copy_queues() out of fairq.add_node, or a line of check_server();
# let spread_candidates() take all nodes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(2);
my $spare = fairq_node('spare');
sql($spare, 'SELECT fairq.set_node(3)');
my $connection = $spare->connstr('postgres');

sub add
{
	my ($number, $to) = @_;

	return "SELECT fairq.add_node($number, \$\$$to\$\$)";
}

# queues that belong to roles
sql($_, "CREATE ROLE clerk LOGIN; CREATE ROLE \"the reader\" LOGIN; GRANT CREATE ON SCHEMA fairq TO clerk") for $proxy, @nodes;
sql($proxy, <<'SQL');
SET ROLE clerk;
SELECT fairq.create_queue('owned', lease => '1 min', keep_done => '1 day', max_depth => 1000000, default_priority => 3);
SELECT fairq.set_group('owned', 'bob', weight => 2.5), fairq.set_group('owned', 'it''s', weight => 0.1), fairq.set_group_defaults('owned', weight => 3);
SELECT fairq.pause_group('owned', 'eve'), fairq.subscribe('news', 'owned');
RESET ROLE;
SELECT fairq.create_queue('q', policy => 'priority', buckets => 1), fairq.create_queue('paused'), fairq.pause('paused');
SQL
sql($_, 'GRANT SELECT, INSERT ON fairq.q_owned TO "the reader" WITH GRANT OPTION; GRANT SELECT ON fairq.done_owned TO PUBLIC') for @nodes;

# refused
refused($proxy, add(2, $connection), '42710', qr/has a node 2 already/, qr/set_node/, 'a number that is there');
refused($proxy, add(4, $connection), '55000', qr/node 4 says that it is node 3/, qr/set_node/, 'a server that says another number');
refused($proxy, add(-1, $connection), '22023', qr/"node": "-1"/, qr/this_node/, 'a number that is none');
refused($proxy, add('NULL', $connection), '22023', qr/"node"/, qr/this_node/, 'no number');
refused($proxy, 'SELECT fairq.add_node(3, NULL)', '22023', qr/"connection"/, qr/dbname/, 'no connection');
refused($proxy, add(3, 'postgresql://localhost/x'), '22023', qr/"connection"/, qr/keywords/, 'an URI');
refused($proxy, add(3, "$connection password=secret"), '22023', qr/must not have "password"/, qr/USER MAPPING/, 'a password that all could read');
refused($proxy, add(3, "$connection user=clerk"), '22023', qr/must not have "user"/, qr/USER MAPPING/, 'a user whom all would be');
refused($proxy, add(3, 'host=/nonexistent dbname=x'), '08006', qr/node 3 is out of reach/, qr/may be repeated/, 'a server that is not there');
refused($proxy, add(3, $proxy->connstr('postgres')), '55000', qr/is a proxy/, qr/extension pgfairq/, 'a proxy, itself');
refused($proxy, add(3, $nodes[0]->connstr('postgres')), '55000', qr/is that of node 1/, qr/Correct/, 'a server twice');
sql($spare, 'CREATE DATABASE empty');
refused($proxy, add(3, $spare->connstr('empty')), '55000', qr/does not have pgfairq/, qr/CREATE EXTENSION/, 'a database without the extension');
sql($spare, "UPDATE pg_extension SET extversion = '0.4.0' WHERE extname = 'pgfairq'");
refused($proxy, add(3, $connection), '55000', qr/has version 0\.4\.0 .* the proxy has 0\.2\.0/, qr/one version apart/, 'another version');
sql($spare, "UPDATE pg_extension SET extversion = '0.2.0' WHERE extname = 'pgfairq'");
is(sql($proxy, "SELECT fairq_internal.version_fits('1.2.7', v) FROM unnest('{1.1.0,1.2.0,1.3.9,1.4.0,2.2.0,0.2.0}'::text[]) v"),
	"t\nt\nt\nf\nf\nf", 'versions that may be together');
refused($proxy, add(3, $connection), '42704', qr/role "clerk" does not exist/, qr/Create the role/, 'a role that is missing there');
sql($spare, 'CREATE ROLE clerk LOGIN');
refused($proxy, add(3, $connection), '42704', qr/role "the reader" does not exist/, qr/Create the role/, 'a role that something is granted to');
sql($spare, "CREATE ROLE \"the reader\" LOGIN; GRANT CREATE ON SCHEMA fairq TO clerk; SELECT fairq.create_queue('q', policy => 'priority', buckets => 2, lease => '2 min')");
my @error = error_of($proxy, add(3, $connection));
is("$error[0] $error[1]", '55000 queue "q" of node 3 differs from that of node 1', 'a queue that differs');
like($error[3], qr/differ in: buckets, lease\./, 'and in what');
sql($spare, "SELECT fairq.drop_queue('q')");
refused($proxy, 'SET ROLE clerk; ' . add(3, $connection), '42501', qr/add_node/, undef, 'a role that does not own the cluster');
refused($proxy, 'SET ROLE clerk; SELECT fairq_internal.node_queue_definitions(1)', '42501', qr/queue_definitions/, undef, 'nor may it read what belongs to others');
refused($proxy, 'SELECT fairq_internal.node_load(7)', '42704', qr/no node 7/, undef, 'a node that there is not');
is(sql($proxy, 'SELECT string_agg(node::text, $$ $$) FROM fairq.node'), '1 2', 'what was refused is not in the list');
is(sql($proxy, "SELECT count(*) FROM pg_foreign_server, unnest(srvoptions) WHERE unnest LIKE 'p_=%'"), 2, 'nor has PL/Proxy heard of it');

# under load: every call must go well, in backends that were there before
my $load = start_load($proxy, 'q', nodes => [ @nodes, $spare ]);
$load->goes_on(50);
sql($proxy, add(3, $connection));
$load->goes_on(300);
cmp_ok(sql($spare, "SELECT enqueued FROM fairq.queue_stats WHERE queue = 'q'"), '>', 0, 'a node that was added gets tasks of sessions that were there');
like(sql($proxy, 'SELECT connection FROM fairq.node WHERE node = 3'), qr/ connect_timeout=2 .*tcp_user_timeout=/, 'its connection notices a server that is silent');

my $definitions = 'SELECT queue, definition FROM fairq_internal.queue_definitions() ORDER BY 1';
is(sql($spare, $definitions), sql($nodes[0], $definitions), 'the node has the queues of the others');
is(sql($spare, "SELECT owner, (SELECT string_agg(tableowner, ' ') FROM pg_tables WHERE tablename LIKE '%_owned') FROM fairq.queues WHERE queue = 'owned'"),
	'clerk|clerk clerk', 'which belong to their owner');

sql($proxy, 'SELECT fairq.drain_node(3)');
$load->goes_on(100);
my $before = sql($spare, "SELECT enqueued FROM fairq.queue_stats WHERE queue = 'q'");
$load->goes_on(300);
is(sql($spare, "SELECT enqueued FROM fairq.queue_stats WHERE queue = 'q'"), $before, 'a node that is drained gets none');
is(sql($proxy, 'SELECT count(*) FROM (SELECT fairq.node_of_session(fairq.open_session()) AS n FROM generate_series(1, 30)) s WHERE n = 3'), 0, 'and no sessions');
ok(wait_for(sub { sql($spare, "SELECT ready FROM fairq.queue_stats WHERE queue = 'q'") eq '0' }), 'but its tasks are claimed');
sql($proxy, 'SELECT fairq.undrain_node(3)');
$load->goes_on(300);
cmp_ok(sql($spare, "SELECT enqueued FROM fairq.queue_stats WHERE queue = 'q'"), '>', $before, 'until it is not drained any more');
my ($enqueued, $acked, $errors) = $load->stop;
is($errors, '', 'no call of a client has failed');
my $left = sql($proxy, "SELECT count(*) FROM fairq.tasks('q')");
is($acked, $enqueued - $left, 'and each task was done once, or is there');

sql($proxy, 'SELECT fairq.drain_node(1), fairq.drain_node(2)');
refused($proxy, 'SELECT fairq.drain_node(3)', '55000', qr/last one/, qr/add_node/, 'the last node is not drained');
refused($proxy, 'SELECT fairq.drain_node(9)', '42704', qr/no node 9/, undef, 'nor one that there is not');

done_testing();
