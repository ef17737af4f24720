# pgfairq on the nodes of a Citus cluster: what doc/citus.md says of it. Skipped where
# the library citus is not installed.
#
# Enqueues over two nodes and rows of a distributed table are one transaction, whether
# it commits or not. The result of a task and its ack are one on the node that has both,
# through the coordinator and at the node. Results of two nodes in one transaction are
# refused; nothing has happened then. What is no call alone is not sent to a node.
#
# Run with Citus 13.0.5 on PostgreSQL 15. Seen to fail: with functions that are not
# distributed with force_delegation the enqueues of a transaction do not get to the
# nodes; a result that belongs to another node is not of the ack's transaction, which
# the last part shows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

chomp(my $libdir = qx{pg_config --pkglibdir});
plan skip_all => 'the library citus is not installed' unless -e "$libdir/citus.so";

my %nodes = map {
	$_ => fairq_node(
		$_,
		preload => 0,
		conf => <<'CONF')
shared_preload_libraries = 'citus, pgfairq'
pgfairq.sweep_interval = 0
max_prepared_transactions = 20
citus.node_conninfo = 'sslmode=prefer'
CONF
} qw(coordinator one two);
my ($coordinator, $one, $two) = @nodes{qw(coordinator one two)};

# As the page has it
sql($_, 'CREATE EXTENSION citus') foreach values %nodes;
sql($coordinator, sprintf("SELECT citus_set_coordinator_host('%s', %d)", $coordinator->host, $coordinator->port));
sql($coordinator, sprintf("SELECT citus_add_node('%s', %d)", $_->host, $_->port)) foreach $one, $two;
sql($coordinator, 'CREATE EXTENSION pgfairq');
is(sql($_, "SELECT count(*) FROM pg_extension WHERE extname = 'pgfairq'"), 1, 'the extension gets to ' . $_->name) foreach $one, $two;
sql($one, "SELECT fairq.set_node(1), fairq.create_queue('jobs')");
sql($two, "SELECT fairq.set_node(2), fairq.create_queue('jobs')");
sql($coordinator, <<'SQL');
CREATE TABLE orders (tenant text, n int);
CREATE TABLE results (tenant text, task bigint, result text);
SELECT create_distributed_table('orders', 'tenant');
SELECT create_distributed_table('results', 'tenant', colocate_with => 'orders');

CREATE FUNCTION enqueue_job(tenant text, payload jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN fairq.enqueue('jobs', payload, group_key => tenant);
END $$;
CREATE FUNCTION finish_job(tenant text, receipt uuid, task bigint, result text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO results VALUES (tenant, task, result);
	IF NOT fairq.ack(receipt) THEN
		RAISE EXCEPTION 'the lease of task % is lost', task;
	END IF;
END $$;
SELECT create_distributed_function('enqueue_job(text, jsonb)', 'tenant', colocate_with => 'orders', force_delegation => true);
SELECT create_distributed_function('finish_job(text, uuid, bigint, text)', 'tenant', colocate_with => 'orders', force_delegation => true);
SQL

# A tenant of each node
my ($t1, $t2) = map {
	sql($coordinator, sprintf(<<'SQL', $_->host, $_->port))
SELECT min(t) FROM (SELECT 'tenant ' || i AS t FROM generate_series(1, 40) i) t, pg_dist_shard_placement p
WHERE p.shardid = get_shard_id_for_distribution_column('orders', t) AND (nodename, nodeport) = ('%s', %d)
SQL
} $one, $two;

sub tasks
{
	return join ' | ', map { sql($_, "SELECT string_agg(payload::text || ' ' || state, ', ' ORDER BY payload) FROM fairq.tasks('jobs')") } $one, $two;
}

sub results
{
	return sql($coordinator, "SELECT string_agg(result, ', ' ORDER BY result) FROM results");
}

sub claimed
{
	my ($node) = @_;

	return split /\|/, sql($node, "SELECT id, receipt, group_key FROM fairq.claim('jobs', lease => '1 h')");
}

# Producing
my $both = <<"SQL";
BEGIN;
INSERT INTO orders VALUES ('$t1', 1), ('$t2', 2);
SELECT enqueue_job('$t1', '1');
SELECT enqueue_job('$t2', '2');
SELECT enqueue_job('$t1', '3');
SELECT enqueue_job('$t2', '4');
SQL
sql($coordinator, "$both ROLLBACK");
is(tasks(), ' | ', 'rolled back: no task on either node');
is(join(' ', map { int($_ / 2**48) } column($coordinator, "$both COMMIT")), '1 2 1 2', 'committed: ids are of the nodes');
is(tasks(), '1 ready, 3 ready | 2 ready, 4 ready', 'the tasks of each tenant are on the node that has its rows');
is(sql($coordinator, 'SELECT count(*) FROM orders'), 2, 'with the rows');

# Consuming: claims are made at the node
my ($task, $receipt, $group) = claimed($one);
is($group, $t1, 'a claim at the node');
sql($coordinator, "SELECT finish_job('$group', '$receipt', $task, 'through the coordinator')");
is(results(), 'through the coordinator', 'the result');
is(tasks(), '3 ready | 2 ready, 4 ready', 'and the ack');
refused($coordinator, "SELECT finish_job('$group', '$receipt', $task, 'again')",
	'P0001', qr/the lease of task $task is lost/, undef, 'a receipt that is settled');
is(results(), 'through the coordinator', 'its result is rolled back');

($task, $receipt, $group) = claimed($two);
my $work = "BEGIN; INSERT INTO results VALUES ('$group', $task, 'at the node'); SELECT fairq.ack('$receipt')";
is(sql($two, "$work; ROLLBACK"), 't', 'at the node, rolled back');
is(results() . tasks(), 'through the coordinator3 ready | 2 leased, 4 ready', 'neither result nor ack');
is(sql($two, "$work; COMMIT"), 't', 'at the node');
is(results(), 'at the node, through the coordinator', 'the result');
is(tasks(), '3 ready | 4 ready', 'and the ack');

# What is refused, or does not get to a node
my ($task1, $receipt1) = claimed($one);
my ($task2, $receipt2) = claimed($two);
my $finish1 = "SELECT finish_job('$t1', '$receipt1', $task1, 'first')";
my $finish2 = "SELECT finish_job('$t2', '$receipt2', $task2, 'second')";
refused($coordinator, "BEGIN; $finish1; $finish2; COMMIT", '0A000', qr/cannot PREPARE/, undef, 'results of two nodes in one transaction');
refused($coordinator, "BEGIN; $finish1; SELECT enqueue_job('$t2', '5'); COMMIT",
	'0A000', qr/cannot PREPARE/, undef, 'a result, and a task for another node');
is(results() . tasks(), 'at the node, through the coordinator3 leased | 4 leased', 'nothing has happened');
sql($coordinator, "BEGIN; $finish1; SELECT enqueue_job('$t1', '5'); COMMIT");
is(tasks(), '5 ready | 4 leased', 'a result, and a task for the same node');
refused($coordinator, $_, '42704', qr/queue "jobs" does not exist/, undef, "not at the coordinator: $_")
  foreach ("SELECT enqueue_job('$t1', '6') + 0",
	"SELECT enqueue_job('$t1', to_jsonb(n)) FROM generate_series(6, 7) n",
	"SELECT * FROM fairq.claim('jobs')");

# For Citus this only reads, and two phases are not needed
my ($ret, $out, $err) = answer_of($coordinator, <<"SQL");
SET citus.log_remote_commands = on;
SELECT enqueue_job(tenant, to_jsonb(n + 6)) FROM orders;
SQL
is(tasks(), '5 ready, 7 ready | 4 leased, 8 ready', 'calls for the rows of a table are made where these are');
unlike($err, qr/issuing PREPARE/, 'but are no transaction');

# A result that is another node's is not of the transaction of the ack
my (undef, $last) = claimed($one);
($ret, $out, $err) = answer_of($one, <<"SQL");
SET citus.log_remote_commands = on;
BEGIN;
INSERT INTO results VALUES ('$t2', 0, 'elsewhere');
SELECT fairq.ack('$last');
COMMIT;
SQL
is($ret, 0, 'a result of another node');
like($err, qr/issuing COMMIT\b/, 'is committed for itself');
unlike($err, qr/issuing PREPARE/, 'not in two phases');

$_->stop foreach values %nodes;
done_testing();
