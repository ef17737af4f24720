# A node that is drained or dropped gets nothing new from any proxy, also from one whose
# list is an old one: here a hot standby whose replay is paused. It is told, and takes
# another node; no call fails and no task is left behind. Who works at the node itself is
# not asked. Calls that are under way while the node is drained are waited for, and those
# that get the queue's table afterwards know that it is drained.
#
# Seen to fail: without proxy_calls_check_new() in enqueue_tasks(), read_waits() or
# fairq_open_session(); with the former called before the table is locked (at the head of
# fairq_enqueue), and without await_calls() in sql/cluster/47_membership.sql (the races);
# without mark_node(.., 'dropped') (tasks that wait); in cluster_nodes_drained() without
# "draining = true", or without the doubt in what the list has as drained.

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
for my $i (1 .. 3)
{
	sql($nodes[ $i - 1 ], "SELECT fairq.set_node($i)");
	add_node($proxy, $i, $nodes[ $i - 1 ]);
}
my ($one, $two, $three) = @nodes;
sql($proxy, "SELECT fairq.create_queue('q'), fairq.create_queue('w'), fairq.subscribe('t', 'q'), fairq.set_spread('w', width => 1)");
$proxy->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($proxy, 'copy', has_streaming => 1);
$standby->start;

sub tasks_at
{
	my ($node) = @_;
	return sql($node, "SELECT (SELECT count(*) FROM fairq.tasks('q')) + (SELECT count(*) FROM fairq.tasks('w'))");
}

# How many tasks with a payload some nodes have.
sub with_payload
{
	my ($payload, @of) = @_;
	my $n = 0;

	$n += sql($_, "SELECT count(*) FROM fairq.q_q WHERE payload = '$payload'") for @of;
	return $n;
}

# What a session of a proxy does at node 3, as the node sees it.
sub proxied
{
	my $session = session($three);

	$session->safe("SET application_name = 'pgfairq proxy, node 3'");
	return $session;
}

is(sql($three, "SELECT fairq_internal.membership()"), 'active', 'a node that was added is one of the cluster');

#
# A proxy that does not know yet
#
my $lagging = session($standby);
is($lagging->safe("SELECT count(fairq.enqueue('q', '1', 'g' || i)) FROM generate_series(1, 30) i"), 30, 'a session of the standby has met all nodes');
cmp_ok(tasks_at($three), '>', 0, 'node 3 among them');
my @keys = map { "key $_" } 1 .. 20;
my $width_one = $lagging->safe("SELECT string_agg(i::text, ',') FROM generate_series(1, 50) i WHERE fairq.nodes_of_group('w', 'g' || i) = '{3}'");
like($width_one, qr/\d/, 'some groups have node 3 alone');
sql($standby, 'SELECT pg_wal_replay_pause()');
ok(wait_for(sub { sql($standby, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' }), 'its replay is paused');

my $predecessor = sql($three, "SELECT fairq.enqueue('q', '\"first\"', delay => '1 h')");
sql($proxy, 'SELECT fairq.drain_node(3)');
is(sql($three, "SELECT fairq_internal.membership()"), 'draining', 'the node knows that it is drained');
is($lagging->safe("SELECT state FROM fairq.node WHERE node = 3"), 'active', 'the standby does not');
my $at_three = tasks_at($three);

is(sql($standby, "SELECT count(*) FROM (SELECT fairq.node_of_session(fairq.open_session('s')) AS n FROM generate_series(1, 30)) s WHERE n = 3"), 0,
	'a session is opened elsewhere');

# All ways of new work, by a session that has met the nodes and by new ones.
for my $case ([ 'a connected session', $lagging ], [ 'a new session', undef ])
{
	my ($name, $known) = @$case;
	my $session = $known // session($standby);

	is($session->safe("SELECT count(fairq.enqueue('q', '2', 'g' || i)) FROM generate_series(1, 60) i"), 60, "$name: enqueue");
	is($session->safe("SELECT sum(cardinality(fairq.enqueue_many('q', array_fill('3'::jsonb, ARRAY[250]), ARRAY['g' || i], unique_keys => (SELECT array_agg('m' || i || '-' || k) FROM generate_series(1, 250) k)))) FROM generate_series(1, 2) i"),
		500, "$name: enqueue_many");
	is($session->safe("SELECT sum(fairq.publish('t', '4', 'g' || i)) FROM generate_series(1, 20) i"), 20, "$name: publish");
	is($session->safe("SELECT count(fairq.enqueue('w', '5', 'g' || i)) FROM unnest('{$width_one}'::int[]) i"), scalar(split /,/, $width_one),
		"$name: groups of that node");
	is($session->safe("SELECT count(*) FROM (SELECT fairq.node_of_session(fairq.open_session('s')) AS n FROM generate_series(1, 20)) s WHERE n = 3"), 0,
		"$name: sessions");
	$session->quit unless $known;
}
is(tasks_at($three), $at_three, 'nothing has come to the node');
my $of_standby = $lagging->safe("SELECT string_agg(fairq.enqueue('q', '6', unique_key => k)::text, ',' ORDER BY k) FROM unnest('{" . join(',', @keys) . "}'::text[]) k");
is( sql($proxy, "SELECT string_agg(fairq.enqueue('q', '6', unique_key => k)::text, ',' ORDER BY k) FROM unnest('{" . join(',', @keys) . "}'::text[]) k"),
	$of_standby, 'a unique key is where the new list has it');

# A task that waits for one of the node comes there while that is there.
my $successor = $lagging->safe("SELECT fairq.enqueue('q', '\"second\"', after => '{$predecessor}')");
is(sql($three, "SELECT state FROM fairq.get_task('q', $successor)"), 'held', 'a task that waits for one of the node comes there');
sql($three, "SELECT fairq.cancel('q', $predecessor), fairq.cancel('q', $successor)");
my $log = -s $three->logfile;
for my $by ([ 'the standby', $standby ], [ 'the primary', $proxy ])
{
	my $id = sql($by->[1], "SELECT fairq.enqueue('q', '\"second\"', after => '{$predecessor}')");
	isnt(sql($proxy, "SELECT fairq.node_of_id($id)"), 3, "$by->[0]: if that is over, it goes elsewhere");
	is(sql($proxy, "SELECT state FROM fairq.get_task('q', $id)"), 'ready', "$by->[0]: and is ready");
}

is(scalar(() = slurp_file($three->logfile, $log) =~ /gets nothing new/g), 1, 'the primary has not asked the node that is drained');

# At the node.
like(sql($three, "SELECT fairq.enqueue('q', '\"local\"')"), qr/^\d+$/, 'who works at the node may enqueue');
my $direct = proxied();
refused($three, "SET application_name = 'pgfairq proxy, node 3'; SELECT fairq.enqueue('q', '1')", 'FQ002', qr/node 3 gets nothing new from proxies: it is being drained/, qr/caught up/, 'with an SQLSTATE of its own');
$direct->query("SELECT fairq.enqueue('q', '1')");
like($direct->error, qr/node 3 gets nothing new from proxies: it is being drained/, 'a proxy is told why not');
$direct->query("SELECT fairq.schedule('s', 'q', '* * * * *')");
like($direct->error, qr/gets nothing new/, 'no schedule runs there');

#
# Moved, and dropped
#
sql($proxy, 'SET client_min_messages = error; SELECT fairq.move_tasks(3)');
is(tasks_at($three), 0, 'all tasks have left');
sql($proxy, 'SELECT fairq.drop_node(3)');
is(sql($three, "SELECT fairq_internal.membership()"), 'dropped', 'the node knows that it is dropped');
is($lagging->safe("SELECT count(fairq.enqueue('q', '7', 'g' || i)) FROM generate_series(1, 200) i"), 200, 'the standby still has it, and enqueues');
is(tasks_at($three), 0, 'at the others');
is(with_payload(7, $one, $two), 200, 'where all of it is found');
is(with_payload(2, $one, $two), 120, 'and all that came while it was drained');
sql($standby, 'SELECT pg_wal_replay_resume()');
$proxy->wait_for_catchup($standby);

#
# Added again
#
add_node($proxy, 3, $three);
is(sql($three, "SELECT fairq_internal.membership()"), 'active', 'added again it is one of the cluster');
$proxy->wait_for_catchup($standby);
ok(wait_for(sub { $lagging->safe("SELECT fairq.node_of_id(fairq.enqueue('q', '8'))") eq '3' }), 'and gets tasks, of sessions that were told that it is drained too');
sql($proxy, 'SELECT fairq.drain_node(3)');
sql($proxy, 'SELECT fairq.undrain_node(3)');
is(sql($three, "SELECT fairq_internal.membership()"), 'active', 'so it is when it is not drained after all');
sql($three, "SELECT fairq_internal.set_membership('draining')");
is( sql($proxy, "SELECT node, object, problem, repaired FROM fairq.check_cluster(repair => true)"),
	'3|membership|says that it is draining, and the list that it is active|yes', 'check_cluster() finds a node that was told something else');
is(sql($three, "SELECT fairq_internal.membership()"), 'active', 'and tells it');
is(sql($proxy, 'SELECT count(*) FROM fairq.check_cluster()'), 0, 'then nothing is wrong');

# What an old list has as active may all be drained, and what it has as drained may not.
sql($proxy, 'SELECT fairq.drain_node(3)');
$proxy->wait_for_catchup($standby);
sql($standby, 'SELECT pg_wal_replay_pause()');
ok(wait_for(sub { sql($standby, 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' }), 'the replay is paused again');
sql($proxy, 'SELECT fairq.undrain_node(3), fairq.drain_node(1), fairq.drain_node(2)');
is($lagging->safe("SELECT string_agg(state, ' ' ORDER BY node) FROM fairq.node"), 'active active draining', 'the list of the standby is wrong in all');
is($lagging->safe("SELECT count(fairq.enqueue('q', '9', 'g' || i)) FROM generate_series(1, 30) i"), 30, 'no call fails');
is(with_payload(9, $three), 30, 'tasks go to the node that is not drained any more');
sql($standby, 'SELECT pg_wal_replay_resume()');
sql($proxy, 'SELECT fairq.undrain_node(1), fairq.undrain_node(2)');
$proxy->wait_for_catchup($standby);

#
# Calls under way
#
my $call = proxied();
$call->safe("BEGIN; SELECT fairq.enqueue('q', '\"under way\"')");
my $admin = session($proxy);
$admin->send('SELECT fairq.drain_node(3)');
ok(wait_for(sub { sql($three, "SELECT fairq_internal.membership()") eq 'draining' }), 'a call is under way while the node is drained');
my $other = proxied();
$other->query("SELECT fairq.enqueue('q', '1')");
like($other->error, qr/gets nothing new/, 'another one is refused');
is(sql($proxy, 'SELECT state FROM fairq.node WHERE node = 3'), 'active', 'but drain_node() waits for the first');
$call->safe('COMMIT');
my (undef, $error) = $admin->ended_with;
is($error, '', 'and returns when that has ended');
sql($proxy, 'SET client_min_messages = error; SELECT fairq.move_tasks(3)');
is(tasks_at($three), 0, 'all tasks have left');
is(with_payload('"under way"', $one, $two), 1, 'its task is moved with the others');

# A call that waits for the table.
sql($proxy, 'SELECT fairq.undrain_node(3)');
my $holder = session($three);
$holder->safe('BEGIN; LOCK TABLE fairq.q_q IN ACCESS EXCLUSIVE MODE');
$call->send("SELECT fairq.enqueue('q', '\"late\"')");
ok(wait_for(sub { sql($three, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'fairq.q_q'::regclass") eq '1' }), 'a call waits for the table');
sql($proxy, 'SELECT fairq.drain_node(3)');
$holder->safe('COMMIT');
(undef, $error) = $call->ended_with;
like($error, qr/gets nothing new/, 'it is refused when it has it');
is(tasks_at($three), 0, 'and has brought nothing');

# drop_node() waits, too, and leaves the node drained if there is a task.
sql($three, "SELECT fairq.enqueue('q', '\"local\"')");
my ($state, $message) = error_of($proxy, 'SELECT fairq.drop_node(3)');
is("$state $message", '55000 node 3 has 1 tasks, of which 0 are leased', 'a node with a task is not dropped');
is(sql($three, "SELECT fairq_internal.membership()"), 'draining', 'and still takes tasks that wait for that');

$_->quit for $lagging, $direct, $other, $holder;
done_testing();
