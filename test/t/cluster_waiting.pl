# What waits at a proxy: fairq.wait and fairq.wait_any look at all nodes by turns and hold
# no transaction for long; fairq.await is at the node of its task. Each ends when it is
# cancelled, at the node, too, and says so when the node is lost.
#
# To see it fail: take ready_anywhere() or SPI_commit() out of wait_at_nodes(); leave
# arguments_outside_transaction() out of route_wait().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);
sql($proxy, "SELECT fairq.create_queue('q', keep_done => '1 h'), fairq.create_queue('r')");

# What a session runs at the proxy.
sub under_way
{
	my ($session_pid) = @_;

	return sql($proxy, "SELECT count(*) FROM pg_stat_activity WHERE pid = $session_pid AND state = 'active' AND query LIKE 'CALL%'") == 1;
}

# Leaves nothing in a queue at a node, not even in the memory of a claim.
sub empty
{
	my ($node, $queue) = @_;

	sql($node, "SELECT fairq.purge('$queue'); SELECT count(*) FROM fairq.claim('$queue')");
	return;
}

# How many nodes have a call of this function under way.
sub nodes_in
{
	my ($function) = @_;

	return scalar grep {
		sql($_, "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%$function(%'") > 0
	} @nodes;
}

#
# fairq.wait, fairq.wait_any
#
for my $node (@nodes)
{
	sql($node, "SELECT fairq.enqueue('q', '1')");
	is(sql($proxy, "CALL fairq.wait('q', '100 h'); CALL fairq.wait_any('{r,q}', '100 h')"), '', 'over at once if any node has a task');
	empty($node, 'q');
}
is( sql($proxy, "SELECT clock_timestamp() AS begun \\gset\nCALL fairq.wait('q', '0.6 s');\nSELECT clock_timestamp() >= :'begun'::timestamptz + interval '0.6 s'"),
	't', 'none has: it waits for the time given');
is(sql($proxy, "CALL fairq.wait('q', '0')"), '', 'which may be none');

my $session = session($proxy);
my $pid = $session->pid;
for my $number (0 .. 2)
{
	$session->send("CALL fairq.wait('q', '100 h')");
	ok(wait_for(sub { nodes_in('wait_ready') > 0 }), 'it waits');
	sql($nodes[$number], "SELECT fairq.enqueue('q', '1')");
	is($session->ended, '', 'over when there is a task at node ' . ($number + 1));
	empty($nodes[$number], 'q');
}
$session->send("CALL fairq.wait_any('{q,r}', '100 h')");
ok(wait_for(sub { under_way($pid) }), 'it waits for one of two queues');
my $begun = sql($proxy, "SELECT xact_start FROM pg_stat_activity WHERE pid = $pid");
ok(wait_for(sub { sql($proxy, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND xact_start > '$begun' AND query LIKE 'CALL%'") == 1 }),
	'in one transaction after the other');
sql($proxy, "SELECT fairq.enqueue('r', '1')");
is($session->ended, '', 'over when there is a task in the second');
empty($_, 'r') for @nodes;

# cancelled
$session->send("CALL fairq.wait('q', '100 h')");
ok(wait_for(sub { nodes_in('wait_ready') > 0 }), 'it waits again');
sql($proxy, "SELECT pg_cancel_backend($pid)");
like($session->ended, qr/canceling statement due to user request/, 'until it is cancelled');
ok(wait_for(sub { nodes_in('wait_ready') == 0 }), 'at the nodes, too');
refused($proxy, "SET statement_timeout = '0.5 s';\nCALL fairq.wait('q', '100 h')", '57014', qr/statement timeout/, undef, 'or times out');

# refused
refused($proxy, "BEGIN; CALL fairq.wait('q')", '25001', qr/^fairq.wait\(\) cannot run inside a transaction block$/, qr/fairq.claim\(\)/, 'not in a transaction block');
refused($proxy, "BEGIN; CALL fairq.wait_any('{q}')", '25001', qr/^fairq.wait_any\(\) cannot/, qr/fairq.claim_any\(\)/, 'nor of several queues');
refused($proxy, "CALL fairq.wait('none')", '42704', qr/queue "none" does not exist/, undef, 'an unknown queue, in the words of the node');
refused($proxy, "CALL fairq.wait_any('{q,none}')", '42704', qr/queue "none" does not exist/, undef, 'among others');
refused($proxy, "CALL fairq.wait(NULL)", '22023', qr/argument "queue" of fairq.wait\(\) must not be null/, undef, 'a null queue');
refused($proxy, "CALL fairq.wait('q', '-1 s')", '22023', qr/argument "timeout" of fairq.wait\(\)/, qr/0 to 10 years/, 'a time below none');
refused($proxy, "CALL fairq.wait_any('{}')", '22023', qr/argument "queues" of fairq.wait_any\(\)/, undef, 'no queues');

#
# fairq.await
#
sub task_of
{
	my ($node) = @_;

	return sql($node, "SELECT fairq.enqueue('q', '1')");
}
my $task = task_of($nodes[1]);
$session->send("SELECT state, result FROM fairq.await('q', $task, '100 h')");
ok(wait_for(sub { nodes_in('fairq.await') == 1 }), 'a task is awaited, at its node');
sql($proxy, "SELECT fairq.ack(receipt, '42') FROM fairq.claim('q')");
is($session->ended, '', 'over when it is acknowledged');
is(sql($proxy, "SELECT state, result FROM fairq.await('q', $task)"), 'acked|42', 'with its result');

$task = task_of($nodes[1]);
$session->send("SELECT * FROM fairq.await('q', $task, '100 h')");
ok(wait_for(sub { nodes_in('fairq.await') == 1 }), 'another one is awaited');
sql($proxy, "SELECT pg_cancel_backend($pid)");
like($session->ended, qr/canceling statement due to user request/, 'until that is cancelled');
ok(wait_for(sub { nodes_in('fairq.await') == 0 }), 'at the node, too');

#
# A node is lost
#
$session->send("\\set VERBOSITY verbose\nSELECT * FROM fairq.await('q', $task, '100 h')");
ok(wait_for(sub { nodes_in('fairq.await') == 1 }), 'it is awaited again');
$nodes[1]->stop('immediate');
like($session->ended, qr/ERROR:  08006: node 2 is out of reach.*whether it has taken effect is not known/s, 'its node is lost');
refused($proxy, "SELECT * FROM fairq.await('q', $task)", '08006', qr/node 2 is out of reach/, qr/may be repeated/, 'and stays away');

$session->send("CALL fairq.wait('q', '100 h')");
ok(wait_for(sub { under_way($pid) }), 'one waits at the others');
sql($nodes[0], "SELECT fairq.enqueue('q', '1')");
is($session->ended, '', 'and is told of a task there');
empty($nodes[0], 'q');
$session->send("CALL fairq.wait('q', '100 h')");
ok(wait_for(sub { under_way($pid) }), 'one waits');
$nodes[0]->stop('immediate');
sql($nodes[2], "SELECT fairq.enqueue('q', '1')");
unlike($session->ended, qr/ERROR/, 'that a second node is lost meanwhile is nothing to whoever waits');
empty($nodes[2], 'q');
$session->send("CALL fairq.wait('q', '100 h')");
ok(wait_for(sub { under_way($pid) }), 'one waits');
$nodes[2]->stop('immediate');
like($session->ended, qr/ERROR:  08006: node \d is out of reach/, 'until no node is left');
$session->quit;

done_testing();
