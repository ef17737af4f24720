# What a call has done at a node stays when the transaction at the proxy is rolled back:
# then a WARNING says so, once, with the names. Calls that read, or have found nothing to
# do, are not named, nor is what was called before a savepoint that is rolled back to.
#
# Seen to fail: without called_nodes_note() in node_call.c; without has_effect(), at_end()
# or at_subtransaction_end() in called_nodes.c.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, $one) = fairq_cluster(1);
sql($proxy, "SELECT fairq.create_queue('q'), fairq.create_queue('empty'); CREATE TABLE t (i int)");
my $session = session($proxy);

# The details of the warnings that a script has caused, in one line.
sub warned
{
	my ($sql) = @_;

	$session->query($sql);
	my $error = $session->error;
	my $warnings = () = $error =~ /WARNING:  what was called at nodes stays in force, though the transaction is rolled back/g;
	my @details = $error =~ /DETAIL:  In force: (.*)\./g;

	is($warnings, scalar @details, 'each warning has names') if $warnings != @details;
	return join ' / ', @details;
}

is(warned("BEGIN; SELECT fairq.enqueue('q', '1'); ROLLBACK"), 'fairq.enqueue at node 1', 'a rollback');
like($session->error, qr/HINT:  A call at a proxy is not a part of its transaction/, 'with a hint');
is(sql($one, "SELECT count(*) FROM fairq.tasks('q')"), 1, 'the task is there');
is(warned("BEGIN; SELECT fairq.enqueue('q', '1'); COMMIT"), '', 'a commit');
is(warned("SELECT fairq.enqueue('q', '1')"), '', 'no transaction');
is(warned('BEGIN; INSERT INTO t VALUES (1); ROLLBACK'), '', 'no call, after one with');
is(warned("BEGIN; SELECT fairq.enqueue('q', '1'); INSERT INTO t VALUES (1); ROLLBACK"), 'fairq.enqueue at node 1', 'a write after the call');
is(warned("SELECT fairq.enqueue('q', '1'), 1 / (random() * 0)::int"), 'fairq.enqueue at node 1', 'a statement that fails');
is(warned("BEGIN; SELECT count(*) FROM fairq.peek('q', 3); SELECT count(*) FROM fairq.queue_stats; SELECT count(*) FROM fairq.tasks('q'); ROLLBACK"), '', 'calls that read');
is(warned("BEGIN; SELECT * FROM fairq.claim('empty'); SELECT fairq.ack('00000000-0001-8519-a249-459b61039a59'); ROLLBACK"), '', 'calls that have found nothing');
is(warned("BEGIN; SELECT count(fairq.ack(receipt)) FROM fairq.claim('q', 2); ROLLBACK"),
	'fairq.claim at node 1, fairq.ack at node 1, fairq.ack at node 1', 'a claim and acks');
is(warned("BEGIN; SELECT count(fairq.enqueue('q', '1')) FROM generate_series(1, 7); ROLLBACK"),
	join(', ', ('fairq.enqueue at node 1') x 5) . ' and others', 'of many some are named');

# Savepoints
is(warned("BEGIN; SAVEPOINT s; SELECT fairq.enqueue('q', '1'); ROLLBACK TO s; COMMIT"), 'fairq.enqueue at node 1', 'back to a savepoint');
is(warned("BEGIN; SAVEPOINT s; SELECT fairq.enqueue('q', '1'); ROLLBACK TO s; SELECT fairq.enqueue('q', '1'); ROLLBACK"), 'fairq.enqueue at node 1', 'and then to the beginning: once');
is(warned("BEGIN; SELECT fairq.enqueue('q', '1'); SAVEPOINT s; ROLLBACK TO s; COMMIT"), '', 'a call before the savepoint');
is(warned("BEGIN; SELECT fairq.enqueue('q', '1'); SAVEPOINT s; SELECT fairq.pause('empty'); ROLLBACK TO s; COMMIT"), 'fairq.pause at node 1', 'before and after it');
is(warned("BEGIN; SAVEPOINT s; SELECT fairq.enqueue('q', '1'); RELEASE s; ROLLBACK"), 'fairq.enqueue at node 1', 'a savepoint that was released');
is(warned("DO \$\$ BEGIN PERFORM fairq.enqueue('q', '1'); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$"),
	'fairq.enqueue at node 1', 'a block that catches its error');

# A session that is terminated
my $log = -s $proxy->logfile;
$session->safe("BEGIN; SELECT fairq.enqueue('q', '1')");
$session->quit;
ok(wait_for(sub { slurp_file($proxy->logfile, $log) =~ /LOG:  what was called at nodes stays in force/ }), 'a session that ends: the log says so');

done_testing();
