# A proxy of an earlier version, and ALTER EXTENSION UPDATE there: its catalog is that of
# a new proxy afterwards, to the last comment and privilege. What users have made of it
# stays, and calls go on before, meanwhile and after.
#
# To see it fail: take a function out of src/sql/moved_functions.c; leave out of sql/update/cluster/0.2.0--0.3.0.sql that twins are made anew, or
# what is in the schema fairq_internal for whom; leave comments out of sql/update/compose.awk.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use FairqUpgrade;
use Test::More;

my @versions = qw(0.2.0);

have_version('pgfairq_cluster', $_) foreach @versions;

my $proxy = fairq_proxy('proxy');
my $new = sql($proxy, "SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster'");
my @nodes = map { fairq_node("node$_") } 1 .. 2;
sql($nodes[$_], 'SELECT fairq.set_node(' . ($_ + 1) . ')') for 0 .. 1;
sql($_, 'CREATE ROLE reader LOGIN') for $proxy, @nodes;

foreach my $version (@versions)
{
	my $db = "proxy $version" =~ tr/ ./__/r;
	my $number = 0;

	isnt($new, $version, "$version: there is a later version");
	sql($proxy, "CREATE DATABASE $db");
	sql($proxy, "CREATE EXTENSION plproxy; CREATE EXTENSION pgfairq_cluster VERSION '$version'", $db);
	foreach my $node (@nodes)
	{
		my $connection = $node->connstr('postgres');

		$number++;
		sql($proxy, "SET client_min_messages = warning; SELECT fairq.add_node($number, \$\$$connection\$\$)", $db);
	}
	sql($proxy, <<'SQL', $db);
SELECT fairq.create_queue('q');
SELECT fairq.set_spread('q', 2);
SELECT fairq.enqueue('q', to_jsonb(i), 'group ' || i) FROM generate_series(1, 20) i;
SELECT fairq.schedule('leap', 'q', '0 0 29 2 *');
CREATE VIEW waiting AS SELECT queue, ready FROM fairq.queue_stats;
REVOKE SELECT ON fairq.sessions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fairq.drain_node TO reader;
SQL
	my @tables = map { sql($proxy, "TABLE fairq.$_ ORDER BY 1", $db) } qw(node spread schedule_node);
	my $in_library = q(SELECT count(*) FROM pg_proc WHERE prosrc LIKE 'fairq\_cluster\_%' AND probin = '$libdir/pgfairq');
	cmp_ok(sql($proxy, $in_library, $db), '>', 60, "$version: all of its functions were in the library of a node");
	is(sql($proxy, 'SELECT * FROM waiting', $db), 'q|20', "$version: the old proxy works with the new library");
	my $served = 0;
	my $serve = sub {
		my ($most) = @_;
		$served += sql($proxy, "SELECT count(*) FROM fairq.claim('q', $most) t, fairq.ack(t.receipt) a WHERE a", $db);
	};
	$serve->(1);
	is($served, 1, "$version: also for workers");

	my $session = session($proxy, $db);
	is($session->safe("SELECT fairq.enqueue('q', '21') > 0"), 't', "$version: a session of before");
	$session->safe('BEGIN; ALTER EXTENSION pgfairq_cluster UPDATE; ROLLBACK');
	is($session->safe("SELECT fairq.enqueue('q', '22') > 0"), 't', "$version: after an update that was rolled back");
	my $another = session($proxy, $db);
	$another->safe('SELECT * FROM waiting');
	$session->safe('ALTER EXTENSION pgfairq_cluster UPDATE');
	is($session->safe("SELECT fairq.enqueue('q', '23') > 0"), 't', "$version: and after one that was not");
	is($another->safe('SELECT * FROM waiting'), 'q|22', "$version: another session goes on, and a view on a view is there");
	$_->quit for $session, $another;

	is(sql($proxy, "SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster'", $db), $new, "$version: is updated");
	is(sql($proxy, $in_library, $db), 0, "$version: its functions are in the library of a proxy");
	is(join("\n", map { sql($proxy, "TABLE fairq.$_ ORDER BY 1", $db) } qw(node spread schedule_node)), join("\n", @tables),
		"$version: the nodes and what is spread over them");
	is(sql($proxy, "SELECT has_table_privilege('reader', 'fairq.sessions', 'SELECT'), has_function_privilege('reader', 'fairq.drain_node(int)', 'EXECUTE')", $db),
		'f|t', "$version: privileges are as the administrator has them");
	sql($proxy, <<'SQL', $db);
GRANT SELECT ON fairq.sessions TO PUBLIC;
REVOKE EXECUTE ON FUNCTION fairq.drain_node FROM reader;
SQL
	same_catalog($proxy, 'pgfairq_cluster', 'postgres', $db, $version);
	sql($proxy, 'SELECT FROM fairq.check_cluster(repair => true)', $db);    # which tells the nodes that they are of a cluster
	is(sql($proxy, 'SELECT string_agg(problem, $$, $$) FROM fairq.check_cluster()', $db), '', "$version: the cluster is well");
	ok(wait_for(sub { $serve->(100); $served == 23 }), "$version: all tasks are served");
	sql($proxy, "SELECT fairq.unschedule('leap'), fairq.drop_queue('q')", $db);
	sql($proxy, 'DROP EXTENSION pgfairq_cluster CASCADE', $db);
	is(sql($proxy, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'fairq%'", $db), 0, "$version: it can be dropped");
}

$_->stop for $proxy, @nodes;
done_testing();
