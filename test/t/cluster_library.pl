# The library of a proxy, pgfairq_cluster: whichever of the two libraries a server preloads,
# both are there, with the settings of both, for nodes and proxies of one server. Without
# preload a proxy works, and has no probe. Libraries of two versions refuse each other.
#
# To see it fail: leave the load of pgfairq_cluster out of _PG_init in src/pgfairq.c, or put
# it behind settings_define(); leave the load of pgfairq, or the look at the version, out of
# engine_link(); name MODULE_PATHNAME for what sql/cluster/compose.awk includes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my @settings = (
	[ 'pgfairq.node_timeout', '61s' ], [ 'pgfairq.calls_in_transaction', 'on' ],
	[ 'pgfairq.node_probe_interval', '900ms' ], [ 'pgfairq.max_schedules', '77' ]);
my $server = fairq_node('server', conf => join('', map { "$_->[0] = $_->[1]\n" } @settings));
my $shown = join ' ', map { $_->[1] } @settings;
my $show = 'SELECT ' . join(q( || ' ' || ), map { "current_setting('$_->[0]')" } @settings);

sql($server, 'SELECT fairq.set_node(1)');
sql($server, "SELECT fairq.create_queue('q')");
sql($server, 'CREATE DATABASE proxy');
sql($server, 'CREATE EXTENSION pgfairq_cluster CASCADE', 'proxy');
my $connection = $server->connstr('postgres');
sql($server, "SET client_min_messages = warning; SELECT fairq.add_node(1, \$\$$connection\$\$)", 'proxy');

# --- what the SQL names --------------------------------------------------------

is(sql($server, <<'SQL', 'proxy'), '', 'functions of a proxy are in its library');
SELECT proname FROM pg_proc WHERE (prosrc LIKE 'fairq\_cluster\_%' OR prosrc = 'fairq_nodes_of_group')
    AND probin IS DISTINCT FROM '$libdir/pgfairq_cluster'
SQL
is(sql($server, <<'SQL', 'proxy'), '', 'and what it has as a node has it, in the library of that');
SELECT prosrc, probin FROM pg_proc WHERE pronamespace IN ('fairq'::regnamespace, 'fairq_internal'::regnamespace)
    AND probin IS NOT NULL AND prosrc NOT LIKE 'fairq\_cluster\_%' AND prosrc <> 'fairq_nodes_of_group' AND probin <> '$libdir/pgfairq'
SQL
cmp_ok(sql($server, q(SELECT count(*) FROM pg_proc WHERE probin = '$libdir/pgfairq_cluster'), 'proxy'), '>', 60, 'there are many');

# --- what a server preloads ----------------------------------------------------

foreach my $preload ('pgfairq', 'pgfairq_cluster', 'pgfairq, pgfairq_cluster', 'pgfairq_cluster, pgfairq')
{
	$server->append_conf('postgresql.conf', "shared_preload_libraries = '$preload'\n");
	$server->restart;
	is(sql($server, $show), $shown, "$preload: the settings are there before any call");
	is(sql($server, "SELECT count(*) FROM pg_shmem_allocations WHERE name IN ('pgfairq nodes', 'pgfairq leases')"),
		2, "$preload: and shared memory, of a node and of a proxy");
	like(sql($server, "SELECT fairq.enqueue('q', '1', 'group 1')", 'proxy'), qr/^\d+$/, "$preload: a call at a proxy");
	is(sql($server, "SELECT payload, fairq.ack(receipt) FROM fairq.claim('q')"), '1|t', "$preload: and at a node");
	refused($server, 'SET pgfairq.no_such = 1', '42602', qr/pgfairq\.no_such/, undef, "$preload: another setting");
	ok(!$server->log_contains(qr/WARNING:.*configuration parameter/), "$preload: none was thrown away at the start");
}

# --- another version -----------------------------------------------------------

# A copy of the library that says another version of itself.
chomp(my $libdir = `pg_config --pkglibdir`);
my $library = slurp_file("$libdir/pgfairq_cluster.so");
my $version = sql($server, "SELECT extversion FROM pg_extension WHERE extname = 'pgfairq_cluster'", 'proxy');
my $other = $version =~ s/^\d/9/r;
my $copy = PostgreSQL::Test::Utils::tempdir() . '/other.so';
my $changed = ($library =~ s/\x{00}\Q$version\E\x{00}/\x{00}$other\x{00}/g);
cmp_ok($changed, '>', 0, 'the library has its version in it');
open my $file, '>:raw', $copy or die "cannot write $copy: $!";
print $file $library;
close $file or die "cannot write $copy: $!";
refused($server, "LOAD '$copy'", '55000', qr/pgfairq_cluster is of version \Q$other\E/, qr/restart the server/, 'libraries of two versions');

# --- no preload ------------------------------------------------------------------

$server->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$server->restart;
is(sql($server, "SELECT fairq.nodes_of_group('q', 'group 1')", 'proxy'), '{1}', 'not preloaded: a proxy works');
is(sql($server, "SELECT fairq.nodes_of_group('q', 'group 1') IS NOT NULL; SHOW pgfairq.node_timeout", 'proxy'), "t\n61s", 'not preloaded: with its settings');
is(sql($server, "SELECT count(*) FROM pg_shmem_allocations WHERE name LIKE 'pgfairq%'"), 0, 'not preloaded: it has no shared memory');
foreach my $db ('postgres', 'proxy')
{
	refused($server, "SELECT fairq.enqueue('q', '1')", '55000', qr/pgfairq must be loaded via "shared_preload_libraries"/,
		qr/Add "pgfairq" to the setting/, "not preloaded: a queue is refused, called in database $db", $db);
}

$server->stop;
done_testing();
