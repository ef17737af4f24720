# Nodes are added and drained under load, with no error at a client; a new node has the
# queues of the others, with owners, grants, groups and topics; servers that cannot be
# nodes are refused, and the refused leave nothing behind.
#
# To see it fail: take copy_queues() out of fairq.add_node, or a line of check_server();
# let spread_candidates() take all nodes; take queue_is_there() out of route_create_queue,
# or a line of definitions_differ(); take route_let_nodes_go() out of route_unschedule or
# route_everywhere, or lock the table at once in lock_nodes().

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
SELECT fairq.create_queue('owned', lease => '1 min', keep_done => '1 day', max_depth => 1000000, default_priority => 3, class_weights => '{4,2.5,1}');
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
refused($proxy, add(3, "$connection sslpassword=secret"), '22023', qr/must not have "sslpassword"/, qr/USER MAPPING/, 'one of a key, too');
refused($proxy, add(3, "$connection user=clerk"), '22023', qr/must not have "user"/, qr/USER MAPPING/, 'a user whom all would be');
refused($proxy, add(3, 'host=/nonexistent dbname=x'), '08006', qr/node 3 is out of reach/, qr/may be repeated/, 'a server that is not there');
refused($proxy, add(3, $proxy->connstr('postgres')), '55000', qr/is a proxy/, qr/extension pgfairq/, 'a proxy, itself');
refused($proxy, add(3, $nodes[0]->connstr('postgres')), '55000', qr/is that of node 1/, qr/Correct/, 'a server twice');
sql($spare, 'CREATE DATABASE empty');
refused($proxy, add(3, $spare->connstr('empty')), '55000', qr/does not have pgfairq/, qr/CREATE EXTENSION/, 'a database without the extension');
sql($spare, "UPDATE pg_extension SET extversion = '0.5.0' WHERE extname = 'pgfairq'");
refused($proxy, add(3, $connection), '55000', qr/has version 0\.5\.0 .* the proxy has 0\.3\.0/, qr/one version apart/, 'another version');
sql($spare, "UPDATE pg_extension SET extversion = '0.3.0' WHERE extname = 'pgfairq'");
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

# what is half done: repeated, or found and mended
sub problems
{
	my ($repair) = @_;

	return sql($proxy, 'SELECT node, object, problem, repaired FROM fairq.check_cluster(' . ($repair // '') . ')');
}
sql($proxy, 'SELECT fairq.undrain_node(1), fairq.undrain_node(2)');
is(problems(), '', 'nothing differs');
$nodes[1]->stop;
@error = error_of($proxy, "SELECT fairq.create_queue('half', lease => '7 s')");
is("$error[0] $error[1]", '08006 node 2 is out of reach', 'a queue is created while a node is away');
like($error[3], qr/DETAIL:  It is done at node 1 only\./, 'at some');
like($error[3], qr/HINT:  Repeat the call/, 'and the call is to be repeated');
like(problems(), qr/^2\|server\|node 2 is out of reach\|no$/m, 'who is away is named');
$nodes[1]->start;
is(problems(), "2|queue \"half\"|is missing|no\n3|queue \"half\"|is missing|no", 'a queue that is missing');
sql($proxy, "SELECT fairq.create_queue('half', lease => '7 s')");
is(problems(), '', 'a call that is repeated is done at the others');
refused($proxy, "SELECT fairq.create_queue('half')", '42710', qr/queue "half" already exists/, undef, 'and refused when it is done at all');
sql($nodes[0], 'CREATE TABLE fairq.q_taken ()');
refused($proxy, "SELECT fairq.create_queue('taken')", '42710', qr/cannot create queue "taken"/, undef, 'as is one whose table is something else');

sql($nodes[1], "SELECT fairq.drop_queue('half'), fairq.alter_queue('owned', lease => '9 s', keep_done => '0', max_depth => 0, class_weights => '{2,1}'), fairq.alter_queue('paused', class_weights => '{1}'), fairq.resume('paused'),
	fairq.set_group('owned', 'bob', weight => 7), fairq.set_group('owned', 'more', weight => 7), fairq.reset_group('owned', 'it''s'),
	fairq.unsubscribe('news', 'owned'), fairq.subscribe('olds', 'owned'); ALTER TABLE fairq.q_paused OWNER TO clerk");
my $found = problems();
is($found, join("\n", '2|queue "half"|is missing|no',
		'2|queue "owned"|differs from that of node 1: class_weights, group "bob", group "it\'s", group "more", keep_done, lease, max_depth, topics|no',
		'2|queue "paused"|differs from that of node 1: class_weights, owner, paused|no'), 'what differs is said');
my $owner = sql($nodes[0], 'SELECT current_user');
is(problems('true'),
	$found =~ s/\|no$/|yes/mgr =~ s/paused\|yes$/paused|no: table "fairq.q_paused" belongs to role "clerk", and is not given to role "$owner"/mr,
	'and mended, but for a table that a role has attached code to, perhaps');
sql($nodes[1], 'ALTER TABLE fairq.q_paused OWNER TO CURRENT_USER');
is(problems('true'), '2|queue "paused"|differs from that of node 1: class_weights, paused|yes', 'until that is given by hand');
is(problems(), '', 'then nothing differs');
is(sql($nodes[1], $definitions), sql($nodes[0], $definitions), 'to the last grant');
sql($nodes[2] // $spare, "SELECT fairq.drop_queue('q'), fairq.create_queue('q')");
like(problems('true'), qr/^3\|queue "q"\|.*policy.*\|no: a policy cannot be changed$/m, 'but a policy');
sql($nodes[0], "UPDATE fairq_internal.node SET number = 5");
like(problems(), qr/^1\|server\|says that it is node 5\|no$/m, 'a server with another number');
sql($nodes[0], "UPDATE fairq_internal.node SET number = 1");
sql($proxy, 'INSERT INTO fairq.node (node, place, connection) SELECT 8, 3, connection FROM fairq.node WHERE node = 1');
like(problems(), qr/^8\|server\|says that it is node 1\|no$/m, 'a server twice');
like(problems(), qr/^8\|server\|is the same server as node 1\|no$/m, 'which is seen in two ways');
sql($proxy, 'SELECT fairq.drop_node(8, lost => true)');
sql($proxy, "SELECT fairq.drop_queue('half')");
is(sql($_, "SELECT count(*) FROM fairq.queues WHERE queue = 'half'"), 0, 'a queue is dropped everywhere') for @nodes, $spare;

# The list of nodes, in transactions that stay open. A call that nodes refuse, or have
# done, lets it go when it returns. What has it to the end of its transaction holds up the
# administrator, who is told, and nobody else.
sql($_, 'CREATE ROLE stranger LOGIN') for $proxy, $nodes[0], $nodes[1], $spare;
my $holder = session($proxy);
my $admin = session($proxy);
for my $call ("SELECT fairq.unschedule('nosuch')", "RESET ROLE; SELECT fairq.pause('q'), fairq.resume('q')")
{
	$holder->safe("BEGIN; SET LOCAL ROLE stranger; $call");
	is( sql($proxy, "SET lock_timeout = '1s'; SELECT fairq.set_spread('q', 1), fairq.reset_spread('q')"),
		'|t', "the list of nodes is not locked by $call");
	is($holder->safe('SELECT pg_current_xact_id_if_assigned() IS NULL'), 't', 'which has written nothing');
	$holder->safe('ROLLBACK');
}
$holder->safe("BEGIN; SELECT fairq.schedule('holds', 'q', '\@yearly')");
my $pid = $holder->pid;
refused($proxy, "SET lock_timeout = '1s'; SELECT fairq.set_spread('q', 1)", '55P03', qr/list of nodes is in use/, qr/fairq\.schedule/, 'the administrator waits for a schedule');
like((error_of($proxy, "SET lock_timeout = '1s'; SELECT fairq.set_spread('q', 1)"))[3], qr/locked: $pid\./, 'and learns whose it is');
$admin->send("SELECT fairq.set_spread('q', 1)");
my $waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'fairq.node'::regclass AND mode = 'ExclusiveLock' AND NOT granted";
wait_for(sub { sql($proxy, $waiting) > 0 });
sql($proxy, "SET statement_timeout = '30s'; SELECT fairq.pause('q'), fairq.resume('q')") for 1 .. 3;
$holder->safe('ROLLBACK');
is($admin->ended, '', 'while it waits others go on, and it goes on when that has ended');
sql($proxy, "SELECT fairq.unschedule('holds'), fairq.reset_spread('q')");
$_->quit for $holder, $admin;

done_testing();
