# A node that is away: what each call of an application does then, through a proxy of
# three nodes; connections that are lost while a call is under way; servers that are not
# who they should be; nodes that hang; standbys that take over; sessions.
#
# Seen to fail:
# - without suspicion of a lost node (cluster_nodes_lost): the dead node was tried 45 times
#   in 200 calls;
# - without asking a node for its number (recognize): what was meant for node 1 was done at
#   node 2;
# - with a connection that is lost during a call taken for one that could not be made
#   (NODE_SILENT for NODE_NOT_ASKED): a task was there twice;
# - with the error of one node rethrown in settle_all(): nothing of the others' came back;
# - with the error of the last node for that of one that has refused (claim_anywhere(),
#   ready_anywhere()): an unknown queue was taken for a node that is away;
# - with a cancel that PL/Proxy hears of (hide_cancel): the call at a node that hangs hung,
#   and this test with it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $small = "wal_level = replica\nmax_wal_senders = 4\nmax_connections = 40\nshared_buffers = 16MB\npgfairq.max_leases = 10000\npgfairq.max_groups = 10000\n";
my ($proxy, @nodes) = fairq_cluster(3, conf => $small);

# Number of the node that has an id.
sub node_of { return $_[0] >> 48 }

# What a statement says beside its result, with errors and warnings.
sub said
{
	my ($statement) = @_;
	my ($ret, $out, $err) = answer_of($proxy, $statement);

	return ($out, $err);
}

# One test: a call at the dead node is refused, and nothing was done.
sub away
{
	my ($number, $statement, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return refused($proxy, $statement, '08006', qr/^node $number is out of reach$/, qr/Nothing was done there/, "$name: 08006, with the node's number");
}

# One test: of several nodes, one is named in a warning, and the rest is as it should be.
sub without
{
	my ($number, $statement, $result, $name) = @_;
	my ($out, $err) = said($statement);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($out, $result, "$name: the others' are there");
	return like($err, qr/WARNING:  node $number is out of reach/, "$name: and a warning names the node") || diag($err);
}

# A receipt of each node: of a task there that is leased for an hour.
sub receipts_of_nodes
{
	return map { sql($_, "SELECT fairq.enqueue('q', '0'); SELECT receipt FROM fairq.claim('q', lease => '1 h')") =~ s/.*\n//r } @nodes;
}

sql($proxy, "SELECT fairq.create_queue('q', lease => '1 h', keep_done => '1 h'), fairq.create_queue('other', lease => '1 h'), fairq.subscribe('topic', 'other')");
my ($receipt1, $receipt2, $receipt3) = receipts_of_nodes();
my @more = map { [ receipts_of_nodes() ] } 1 .. 4;
my $id3 = sql($nodes[2], "SELECT fairq.enqueue('q', '3')");
my $key = '';
for (my $i = 0; $key eq ''; $i++)
{
	$key = "key $i" if node_of(sql($proxy, "SELECT fairq.enqueue('other', '1', unique_key => 'key $i', on_duplicate => 'keep')")) == 3;
}
my $session = sql($nodes[2], "SELECT fairq.open_session('at 3', '1 h', bound => false)");
sql($proxy, "SELECT fairq.purge('other')");

#
# Node 3 is killed
#
my $kept = session($proxy);
$kept->safe("SELECT count(*) FROM fairq.tasks('q')");
$nodes[2]->kill9;

# PL/Proxy looks at a connection that was used just now only when it sends a call: that
# the server has ended it, and not taken the call, cannot be told apart.
# And its backends live on for a moment.
ok( wait_for(
		sub {
			$kept->query("SELECT fairq.get_task_position('q', $id3)");
			return $kept->error =~ /ERROR:  node 3 is out of reach/;
		}),
	'the backend that was connected to it finds out');

for my $backend ('one that knew it', 'one that did not')
{
	my $ask = $backend =~ /not/ ? sub { sql($proxy, $_[0]) } : sub { $kept->safe($_[0]) };

	is($ask->("SELECT string_agg(DISTINCT fairq.node_of_id(fairq.enqueue('other', to_jsonb(i)))::text, ' ') FROM generate_series(1, 40) i"),
		'1 2', "$backend: tasks go to the others");
	is( $ask->("SELECT count(*), min(fairq.node_of_id(id)), max(fairq.node_of_id(id))
			FROM unnest((SELECT fairq.enqueue_many('other', array_agg(to_jsonb(i))) FROM generate_series(1, 600) i)) id"),
		'600|1|2', "$backend: batches, too");
	is($ask->("SELECT fairq.publish('topic', to_jsonb(i)) FROM generate_series(1, 5) i") =~ s/\n//gr, '11111', "$backend: what is published, too");
	is($ask->("SELECT count(*) FROM generate_series(1, 20) i, fairq.claim('other', 100 + 0 * i)"), 645, "$backend: claims come from the others");
	is($ask->("SELECT count(*) FROM fairq.claim('other')"), 0, "$backend: and nothing where they have nothing");
	$ask->("SELECT fairq.enqueue('other', '1'), fairq.enqueue('other', '1')");
	is($ask->("SELECT (SELECT count(*) FROM fairq.claim_any('{other}')), (SELECT count(*) FROM fairq.pop('other'))"), '1|1', "$backend: claim_any, pop");
	is($ask->("SELECT fairq.heartbeat(fairq.open_session('s', '1 h', bound => false)) FROM generate_series(1, 5)") =~ s/\n//gr, 'ttttt',
		"$backend: sessions are opened at the others");
}

away(3, "SELECT fairq.enqueue('other', '1', unique_key => '$key')", 'a unique key of the node');
away(3, "SELECT fairq.$_", $_ =~ s/\(.*//r)
  for "ack('$receipt3')", "nack('$receipt3')", "release('$receipt3')", "extend('$receipt3', '1 h')", "heartbeat('$session')",
	"close_session('$session')", "cancel('q', $id3)", "revive('q', $id3)", "await('q', $id3, '1 min')", "get_task_position('q', $id3)";
away(3, "SELECT * FROM fairq.get_task('q', $id3)", 'get_task');
away(3, "SELECT * FROM fairq.claim('q', session => '$session')", 'a claim under a session of the node');
is(sql($proxy, "SELECT fairq.extend('$receipt1', '1 h') > now(), fairq.extend('$receipt2', '1 h') > now()"), 't|t', 'receipts of the others are good');

# of several nodes
without(3, "SELECT count(*) FROM fairq.extend_many(ARRAY['$receipt3', '$receipt1', '$receipt2']::uuid[], '1 h')", 2, 'extend_many');
without(3, "SELECT count(*) FROM fairq.ack_many(ARRAY['$more[0][2]', '$more[0][0]', '$more[0][1]']::uuid[])", 2, 'ack_many');
without(3, "SELECT count(*) FROM fairq.nack_many(ARRAY['$more[1][0]', '$more[1][1]', '$more[1][2]']::uuid[], ARRAY['a', 'b', 'c'])", 2, 'nack_many');
without(3, "SELECT count(*) FROM fairq.release_many(ARRAY['$more[2][0]', '$more[2][1]', '$more[2][2]']::uuid[])", 2, 'release_many');
without(3, "SELECT count(*) FROM fairq.ack_and_claim('other', ARRAY['$more[3][0]', '$more[3][1]', '$more[3][2]']::uuid[])", 0, 'ack_and_claim');
is(join(' ', map { sql($_, "SELECT count(*) FROM fairq.done_tasks WHERE queue = 'q'") } @nodes[ 0, 1 ]), '2 2', 'what was acknowledged is done at the others');
without(3, "SELECT count(DISTINCT fairq.node_of_id(id)) FROM fairq.tasks('q')", 2, 'tasks');
without(3, "SELECT count(DISTINCT fairq.node_of_id(id)) FROM fairq.peek('q')", 2, 'peek');
is(sql($proxy, "SELECT DISTINCT missing FROM fairq.$_ WHERE queue IN ('q', 'other')"), '{3}', "$_ says who is missing")
  for qw(queues queue_stats);

# what those that are there refuse is an error of that kind, whichever is asked last
for my $call (("SELECT count(*) FROM fairq.claim('none')", "CALL fairq.wait('none')") x 5)
{
	refused($proxy, $call, '42704', qr/queue "none" does not exist/, undef, "$call: as the others say");
}

# of all nodes
for my $call ("create_queue('new')", "pause('q')", "resume('q')", "set_group('q', 'g', weight => 2)", "purge('other')", "revive_all('q')")
{
	my @error = error_of($proxy, "SELECT fairq.$call");

	is("$error[0] $error[1]", '08006 node 3 is out of reach', "$call: 08006");
	like($error[3], qr/DETAIL:  .*It is done at node 1, 2 only\./, "$call: where it is done");
	like($error[2], qr/Repeat the call/, "$call: what is to do");
}
is(join(' ', map { sql($_, "SELECT count(*) FROM fairq.queues WHERE queue = 'new'") } @nodes[ 0, 1 ]), '1 1', 'and so it is');

# It comes back, and the backend that knew it dead uses it again, in a while.
ok(start_after_kill($nodes[2]), 'the node is started');
my $back = time();
ok(wait_for(sub { $kept->safe("SELECT fairq.node_of_id(fairq.enqueue('other', '1'))") eq '3' }), 'and used again');
note(sprintf('after %.1f s', time() - $back));
is($kept->safe("SELECT fairq.create_queue('new', if_not_exists => true)"), '', 'the call is repeated');
is(sql($nodes[2], "SELECT count(*) FROM fairq.queues WHERE queue = 'new'"), 1, 'and done there, too');
is(sql($proxy, "SELECT fairq.ack('$receipt3'), fairq.ack('$receipt1')"), 'f|t', 'leases ended with the server, and its tasks are there again');
is(sql($proxy, "SELECT DISTINCT missing FROM fairq.queues"), '{}', 'nothing is missing');

#
# A dead node costs a backend one try in a while
#
{
	my $directory = PostgreSQL::Test::Utils::tempdir_short();
	my $tries = "$directory/tries";
	my $listener = IO::Socket::UNIX->new(Local => "$directory/.s.PGSQL.5999", Listen => 20) or die "no socket: $!";
	my $child = fork;

	# Somebody who takes connections, and closes them.
	if (!$child)
	{
		while (my $connection = $listener->accept)
		{
			append_to_file($tries, 'x');
			close $connection;
		}
		POSIX::_exit(0);
	}
	close $listener;
	append_to_file($tries, '');
	sql($proxy, "INSERT INTO fairq.node VALUES (9, 9, 'host=$directory port=5999 dbname=postgres')");
	my $begin = time();
	is($kept->safe("SELECT count(fairq.enqueue('other', '1')) FROM generate_series(1, 200)"), 200, 'beside a server that hangs up');
	my $most = 1 + int((time() - $begin) / 2);
	my $tried = length slurp_file($tries);
	ok($tried > 0 && $tried <= $most, "it was tried seldom") or diag("$tried times, at most $most");
	sql($proxy, "DELETE FROM fairq.node WHERE node = 9");
	kill 'KILL', $child;
	waitpid $child, 0;
}

#
# The connection is lost while a call is under way
#

# The node where a client's backend is of this kind, and its pid; or nothing.
sub where
{
	my ($condition) = @_;

	for my $node (@nodes)
	{
		my $pid = sql($node,
			"SELECT pid FROM pg_stat_activity WHERE $condition AND backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1");

		return ($node, $pid) if $pid ne '';
	}
	return;
}

# The task is committed, and the answer does not come: nobody knows.
sql($proxy, "SELECT fairq.create_queue('once')");
for my $node (@nodes)
{
	sql($node, "ALTER SYSTEM SET synchronous_standby_names = 'none'");
	$node->reload;

	# The checkpointer tells the others, when it has read that.
	my $probe = session($node);
	my $probe_pid = $probe->pid;
	my $state;
	do
	{
		$probe->send("SELECT pg_logical_emit_message(true, '', '')");
		wait_for(sub { ($state = sql($node, "SELECT CASE WHEN wait_event = 'SyncRep' THEN 'waits' ELSE state END FROM pg_stat_activity WHERE pid = $probe_pid")) =~ /waits|idle/ });
		sql($node, "SELECT pg_cancel_backend($probe_pid)") if $state eq 'waits';
		$probe->ended;
	} until $state eq 'waits';
}
my $producer = session($proxy);
$producer->send("SELECT fairq.enqueue('once', '1')");
my ($at, $pid);
ok(wait_for(sub { ($at, $pid) = where("wait_event = 'SyncRep'") }), 'an enqueue is committed, and waits');
sql($at, "SET synchronous_commit = local; SELECT pg_terminate_backend($pid)");
my $error = $producer->ended;
like($error, qr/ERROR:  node \d is out of reach/, 'the connection is lost');
like($error, qr/HINT:  .*whether it has taken effect is not known/, 'and that the outcome is not known is said');
for my $node (@nodes)
{
	sql($node, "SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names");
	$node->reload;
}
is(sql($proxy, "SELECT count(*) FROM fairq.tasks('once')"), 1, 'there is one task, not one at another node besides');

# A claim that waits goes on at the others.
my $claimer = session($proxy);
sql($proxy, "SELECT fairq.purge('once')");
$claimer->send("SELECT payload FROM fairq.claim('once', wait => '100 h')");
ok( wait_for(
		sub {
			($at, $pid) = where("query LIKE '%fairq.claim(%' AND state = 'active'");
			return $at && sql($at, "SELECT pg_terminate_backend($pid)") eq 't';
		}),
	'a claim that waits loses its connection');
sql($nodes[0], "SELECT fairq.enqueue('once', '\"found\"')");
is($claimer->ended, '', 'it goes on');
is(sql($proxy, "SELECT count(*) FROM fairq.leases WHERE queue = 'once'"), 1, 'and has the task');

#
# Somebody else at the other end
#
my ($good) = column($proxy, "SELECT connection FROM fairq.node WHERE node = 1");
my $away = sub { sql($proxy, "UPDATE fairq.node SET connection = \$\$$_[0]\$\$ WHERE node = 1") };

my ($receipt) = receipts_of_nodes();
$kept->safe("SELECT fairq.extend('$receipt', '1 h')");
$away->($nodes[1]->connstr('postgres'));
refused($proxy, "SELECT fairq.ack('$receipt')", '55000', qr/^the server of node 1 says that it is node 2$/, qr/fairq\.node/, 'another node');
$kept->query("SELECT fairq.ack('$receipt')");
like($kept->error, qr/says that it is node 2/, 'also where the connection was known');
$away->('host=/nonexistent');
away(1, "SELECT fairq.ack('$receipt')", 'nobody there');
is(sql($proxy, "SELECT count(fairq.enqueue('other', '1')) FROM generate_series(1, 10)"), 10, 'and the others get the tasks');
$away->($nodes[0]->connstr('template1'));
refused($proxy, "SELECT fairq.ack('$receipt')", '3F000', qr/schema "fairq" does not exist/, undef, 'a database that has no queues');
$away->($good);
is($kept->safe("SELECT fairq.ack('$receipt')"), 't', 'and the receipt is good with the right one');

#
# A node that hangs
#
($receipt) = receipts_of_nodes();
my ($hangs) = column($nodes[0], "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%fairq.ack(%' AND pid <> pg_backend_pid()");
like($hangs, qr/^\d+$/, 'the backend of the session at the node');
kill 'STOP', $hangs;
$kept->query("SET statement_timeout = '300ms'; SELECT fairq.extend('$receipt', '1 h')");
like($kept->error, qr/ERROR:  canceling statement due to/, 'a node that hangs: statement_timeout at the proxy');
kill 'CONT', $hangs;
is($kept->safe("SET statement_timeout = 0; SELECT fairq.extend('$receipt', '1 h') > now()"), 't', 'and it is asked again');
$hangs = sql($nodes[0], "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%fairq.extend(%' AND pid <> pg_backend_pid()");
my $kept_pid = $kept->pid;
kill 'STOP', $hangs;
$kept->send("SELECT fairq.ack('$receipt')");
ok( wait_for_answer($proxy, "SELECT query LIKE '%ack%' AND state = 'active' FROM pg_stat_activity WHERE pid = $kept_pid"), 'again');
sql($proxy, "SELECT pg_cancel_backend($kept_pid)");
like($kept->ended, qr/ERROR:  canceling statement due to user request/, 'and is cancelled');
kill 'CONT', $hangs;

#
# Sessions, when the client of the proxy is gone
#
sql($proxy, "SELECT fairq.create_queue('mine')");
sql($nodes[0], "SELECT fairq.enqueue('mine', to_jsonb(i)) FROM generate_series(1, 2) i");
my $worker = session($proxy);
$worker->safe("SELECT fairq.open_session('bound', '1 h', bound => true) AS s \\gset");
my $bound = $worker->safe("SELECT :'s'::uuid");
my $its = (split /-/, $bound)[1];
$its = $nodes[ hex($its) - 1 ];
sql($its, "SELECT fairq.purge('mine'); SELECT fairq.enqueue('mine', '7')");
is($worker->safe("SELECT payload FROM fairq.claim('mine', session => '$bound')"), '7', 'a bound session has a task');
is(sql($its, "SELECT count(*) FROM fairq.leases WHERE queue = 'mine'"), 1, 'at its node');
sql($proxy, "SELECT pg_terminate_backend(" . $worker->pid . ")");
ok(wait_for_answer($its, "SELECT count(*) = 0 FROM fairq.leases WHERE queue = 'mine'"), 'which ends with the backend at the proxy');
ok(wait_for(sub { sql($its, "SELECT payload FROM fairq.claim('mine')") eq '7' }), 'and its task is there again');
# It must have claimed before its second is over, which may take some attempts.
ok( wait_for(
		sub {
			my $open = sql($proxy, "SELECT fairq.open_session('beats', '1 s', bound => false)");
			$its = $nodes[ hex((split /-/, $open)[1]) - 1 ];
			sql($its, "SELECT fairq.purge('mine'); SELECT fairq.enqueue('mine', '8')");
			my ($ret, $out) = answer_of($proxy, "SELECT payload FROM fairq.claim('mine', session => '$open')");
			return $out eq '8';
		}),
	'a session with a heartbeat outlives connections');
ok(wait_for(sub { sql($its, "SELECT payload FROM fairq.claim('mine')") eq '8' }), 'and ends without one');

#
# A standby takes over, and nothing changes at the proxy
#
$nodes[0]->append_conf('postgresql.conf', "hot_standby = on\n");
$nodes[0]->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby1');
$standby->init_from_backup($nodes[0], 'copy', has_streaming => 1);
$standby->start;
$away->(sprintf 'host=%s,%s port=%d,%d dbname=postgres target_session_attrs=read-write', $nodes[0]->host, $standby->host, $nodes[0]->port, $standby->port);
sql($proxy, "SELECT fairq.purge('mine')");
my $there = sql($nodes[0], "SELECT fairq.enqueue('mine', '\"kept\"')");
is($kept->safe("SELECT payload FROM fairq.get_task('mine', $there)"), '"kept"', 'a node with a standby');
$nodes[0]->wait_for_catchup($standby);
$nodes[0]->kill9;
$standby->promote;
ok(wait_for(sub { $kept->query("SELECT payload FROM fairq.get_task('mine', $there)") eq '"kept"' }), 'the standby has taken over, and the task is there');
ok(wait_for(sub { $kept->safe("SELECT fairq.node_of_id(fairq.enqueue('other', '1'))") eq '1' }), 'and it gets tasks');

#
# All nodes are away
#
$standby->stop('immediate');
$nodes[1]->kill9;
$nodes[2]->kill9;
refused($proxy, "SELECT $_", '08006', qr/^node \d is out of reach$/, undef, "all are away: $_")
  for "fairq.enqueue('other', '1')", "fairq.enqueue_many('other', '{1,2}')", "fairq.publish('topic', '1')", "count(*) FROM fairq.claim('other')",
	"count(*) FROM fairq.claim('other', wait => '100 h')", "count(*) FROM fairq.pop('other')", "fairq.open_session('s')", "fairq.ack('$receipt')",
	"fairq.create_queue('late')";
my ($out, $err) = said("SELECT count(*) FROM fairq.tasks('q')");
is($out, 0, 'what looks at all shows nothing');
like($err, qr/WARNING:  nodes 1, 2, 3 are out of reach/, 'and says so');

done_testing();
