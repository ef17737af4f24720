# What an application calls, through a proxy of three nodes: tasks are spread, each call
# goes to the node of its task, and what the nodes say comes back in their words.
#
# Seen to fail where the proxy wrote values as the session does, where a row of nulls was
# made of what is not there, where no number to peek() was none, and where the type of
# claim_any() was not there; where a batch with one group for all, or null for one, went
# to any node, and so did a task without a group; where a claim, or a look of fairq.wait,
# ended at the first node that refuses it, and where one that waits did not end when all
# do; where the list of nodes was freed when it was read anew.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);

sql($proxy, "SELECT fairq.create_queue('q', buckets => 1, backoff_base => '1 h')");
is(join(' ', map { sql($_, "SELECT count(*) FROM fairq.queues") } @nodes), '1 1 1', 'a queue is created everywhere');

sql($proxy, "SELECT fairq.enqueue('q', to_jsonb(i)) FROM generate_series(1, 60) i");
my @counts = map { sql($_, "SELECT count(*) FROM fairq.tasks('q')") } @nodes;
is($counts[0] + $counts[1] + $counts[2], 60, 'every task is at one node');
cmp_ok($_, '>', 0, 'a node has some') for @counts;

# ids in the order given, of a batch in pieces
is( sql($proxy, "WITH batch AS (SELECT fairq.enqueue_many('q', array_agg(to_jsonb(i) ORDER BY i)) AS ids FROM generate_series(101, 700) i)
	SELECT count(*), count(*) FILTER (WHERE t.payload = to_jsonb(100 + n)), count(DISTINCT fairq.node_of_id(given.id))
	FROM batch, unnest(ids) WITH ORDINALITY AS given (id, n), fairq.get_task('q', given.id) t"),
	'600|600|3', 'a batch is divided, and its ids are in its order');

# One group for a whole batch, and none: they go where their groups go, and keys to theirs.
sql($proxy, "SELECT fairq.create_queue('spread'); INSERT INTO fairq.spread VALUES ('spread', 'narrow', 1), ('spread', '', 1)");
for my $groups (q('{narrow}'), q('{NULL}'), 'NULL', q(array_fill(NULL::text, ARRAY[600])))
{
	is(sql($proxy, "SELECT count(DISTINCT fairq.node_of_id(id)) FROM generate_series(1, 6) b,
			unnest(fairq.enqueue_many('spread', array_fill(to_jsonb(b), ARRAY[600]), $groups)) id"),
		1, "six batches of a group of width 1: $groups");
}
is(sql($proxy, "SELECT count(DISTINCT fairq.node_of_id(id)) FROM unnest(fairq.enqueue_many('spread', array_fill('1'::jsonb, ARRAY[600]), '{wide}')) id"),
	3, 'and of another group');
is(sql($proxy, "SELECT count(DISTINCT id) FROM generate_series(1, 20) i,
		fairq.enqueue('spread', to_jsonb(i), NULL, unique_key => 'key', on_duplicate => 'keep') id"),
	1, 'a key without a group');
is(sql($proxy, "SELECT count(DISTINCT fairq.node_of_id(fairq.enqueue('spread', to_jsonb(i), NULL))) FROM generate_series(1, 20) i"),
	1, 'no group is the empty group');
sql($proxy, "SELECT fairq.subscribe('of.spread', 'spread')");
sql($proxy, "SELECT fairq.publish('of.spread', '\"new\"', 'narrow') FROM generate_series(1, 20)");
is( sql($proxy, "SELECT count(*), count(DISTINCT fairq.node_of_id(id)) FROM fairq.tasks('spread') WHERE payload = '\"new\"'"),
	'20|1', 'what is published goes where its group goes');
sql($proxy, "SELECT fairq.unsubscribe('of.spread', 'spread'); SELECT fairq.drop_queue('spread'); DELETE FROM fairq.spread WHERE queue = 'spread'");

# one by one, each settled at its node
my @tasks = rows($proxy, "SELECT id, receipt FROM generate_series(1, 60) i, fairq.claim('q', 1 + 0 * i)");
is(scalar @tasks, 60, 'claimed one by one');
is(scalar(keys %{ { map { $_->[0] >> 48 => 1 } @tasks } }), 3, 'of all nodes');
is(sql($proxy, "SELECT fairq.ack('$tasks[0][1]'), fairq.ack('$tasks[0][1]')"), 't|f', 'acknowledged once');
is(sql($proxy, "SELECT fairq.release('$tasks[1][1]'), fairq.nack('$tasks[2][1]', 'e')"), 't|t', 'released, and failed');
is(sql($proxy, "SELECT last_error FROM fairq.get_task('q', $tasks[2][0])"), 'e', 'the error is at its node');
my $receipts = join ',', map { "'$_->[1]'" } @tasks[ 0 .. 59 ];
is( join(' ', column($proxy, "SELECT fairq.extend_many(ARRAY[$receipts]::uuid[], '1 h')")),
	join(' ', map { $_->[1] } @tasks[ 3 .. 59 ]), 'many are extended, and returned in their order');
is(sql($proxy, "SELECT count(*) FROM fairq.nack_many(ARRAY[$receipts]::uuid[], array_fill('x'::text, ARRAY[60]))"), 57, 'many fail');

# the last ones are found wherever they are
is(sql($proxy, "SELECT count(*) FROM generate_series(1, 20) i, fairq.claim('q', 100 + 0 * i)"), 660 - 59, 'all are claimed')
  or diag(sql($proxy, "SELECT state, count(*) FROM fairq.tasks('q') GROUP BY 1"));
is(sql($proxy, "SELECT count(*) FROM fairq.claim('q')"), 0, 'and no more');

# of several queues; what looks, with nothing there and without a number
sql($proxy, "SELECT fairq.create_queue('other'); SELECT fairq.enqueue('other', to_jsonb(i)) FROM generate_series(1, 12) i");
is(sql($proxy, "SELECT count(*) FROM fairq.peek('other', NULL)"), 10, 'ten may be looked at where no number is given');
is(sql($proxy, "SELECT fairq.get_task_position('other', 1) IS NOT DISTINCT FROM NULL"),
	't', 'what is not there is null');
is(sql($proxy, "SELECT queue, payload IS NOT NULL FROM fairq.claim_any('{q,other}')"), 'other|t', 'a claim of several queues');

# values mean the same at the node, however the session writes them
is( sql($proxy, "SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kolkata'; SET extra_float_digits = -15;
	SELECT run_at = '2031-03-04 05:06:07.89+00', cost = 1234.5
		FROM fairq.enqueue('other', '1', run_at => '2031-03-04 05:06:07.89+00', cost => 1234.5) id, fairq.get_task('other', id)"),
	't|t', 'a time and a cost');

# in the words of the node
my @error = error_of($proxy, "SELECT fairq.enqueue('none', '1')");
is($error[0], '42704', 'an unknown queue');
is($error[1], 'queue "none" does not exist', 'in the words of the node');
like($error[3], qr/CONTEXT:  at node \d/, 'which is named');
refused($proxy, "BEGIN; CREATE TABLE written (); SELECT fairq.enqueue('q', '1')", '25001', qr/has written/, qr/Commit first/,
	'a call after a write');
is(sql($proxy, "SET pgfairq.calls_in_transaction = on; BEGIN; CREATE TABLE written (); SELECT count(fairq.enqueue('q', '1')); ROLLBACK"),
	1, 'which a setting allows');
is(sql($proxy, "SELECT count(*) FROM fairq.claim('q')"), 1, 'and the task is there');

# A node that refuses a claim, as one that does not have the queue, is passed over.
sql($proxy, "SELECT fairq.create_queue('half')");
sql($nodes[1], "SELECT fairq.drop_queue('half')");
sql($nodes[0], "SELECT fairq.enqueue('half', to_jsonb(i)) FROM generate_series(1, 30) i");
my $claimer = session($proxy);
is(join(' ', map { $claimer->safe("SELECT count(fairq.ack(receipt)) FROM fairq.claim('half')") } 1 .. 6), '1 1 1 1 1 1', 'a node without the queue: claims go to the others');
is(join(' ', map { $claimer->safe("SELECT count(*) FROM fairq.pop('half')") } 1 .. 6), '1 1 1 1 1 1', 'pop, too');
is(join(' ', map { $claimer->safe("SELECT count(fairq.ack(receipt)) FROM fairq.claim_any('{half,other}')") } 1 .. 6), '1 1 1 1 1 1', 'and claim_any');
is(join('', map { $claimer->safe("CALL fairq.wait('half', '100 h')") } 1 .. 6), '', 'and wait');
sql($nodes[0], "SELECT fairq.purge('half')");
is(sql($proxy, "SELECT count(*) FROM fairq.claim('half')"), 0, 'where the others have nothing there is nothing');
is(sql($proxy, "CALL fairq.wait('half', '0')"), '', 'and nothing to wait for');

# How many calls like this wait at the nodes.
sub waiting
{
	my ($call) = @_;
	my $n = 0;

	$n += sql($_, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND state = 'active' AND query LIKE '%$call(%' AND pid <> pg_backend_pid()") for @nodes;
	return $n;
}

$claimer->send("SELECT fairq.ack(receipt) FROM fairq.claim('half', wait => '100 h')");
ok(wait_for(sub { waiting('fairq.claim') > 0 }), 'one waits');
sql($nodes[2], "SELECT fairq.enqueue('half', '1')");
is(join('', $claimer->ended_with), 't', 'and has what comes to another node');
my $listener = session($proxy);
$claimer->send("SELECT payload FROM fairq.claim('half', wait => '100 h')");
$listener->send("CALL fairq.wait('half', '100 h')");
ok(wait_for(sub { waiting('fairq.claim') > 0 && waiting('wait_ready') > 0 }), 'two wait');
sql($_, "SELECT fairq.drop_queue('half')") for @nodes[ 0, 2 ];
like($_->ended, qr/ERROR:  queue "half" does not exist/, 'until no node has the queue') for $claimer, $listener;

# The list of nodes changes in the middle of a call, which goes on with the one that it has.
my $administrator = session($proxy);
my $session = session($proxy);
my $pid = $session->pid;
sql($proxy, "SELECT fairq.enqueue('other', '1') FROM generate_series(1, 3)");
my $leased = sql($proxy, "SELECT receipt FROM fairq.claim('other')");
$administrator->safe('BEGIN; LOCK TABLE fairq.spread');
$session->send("SELECT count(*) FROM fairq.ack_and_claim('other', ARRAY['$leased']::uuid[])");
ok(wait_for_answer($proxy, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"), 'a call is under way');
$administrator->safe('UPDATE fairq.node SET state = state; COMMIT');
is(join('', $session->ended_with), '1', 'and goes on when the list of nodes has changed');

done_testing();
