# The number of a node is what it was after a restart, a crash, on a standby and after its
# promotion, and in a database that is restored from a dump.  Receipts of before are good.
#
# Seen to fail: without public.node of queue_open.c (every way); without
# pg_extension_config_dump of the table (the dump).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = fairq_node('primary', init => { allows_streaming => 1 });
sql($primary, "SELECT fairq.create_queue('q', buckets => 1, durable_leases => true); SELECT fairq.enqueue('q', '0')");
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
sql($primary, 'SELECT fairq.set_node(300)');

# All that is given out is of a node; returns the receipts.
sub gives
{
	my ($node, $number, $name, $database) = @_;
	my $queue = 'q';

	$database //= 'postgres';
	sql($node, "SELECT fairq.enqueue('$queue', '1')", $database);
	is( sql($node, "SELECT max(fairq.node_of_id(id)) FROM fairq.tasks('$queue')", $database),
		$number, "$name: a new id");
	is(sql($node, 'SELECT fairq.this_node(), fairq.node_of_session(fairq.open_session())', $database),
		"$number|$number", "$name: a new session");
	my @receipts = column($node, "SELECT receipt FROM fairq.claim('$queue', 100, lease => '1 h')", $database);
	is(join(' ', map { sql($node, "SELECT fairq.node_of_receipt('$_')", $database) } @receipts),
		join(' ', ($number) x @receipts), "$name: receipts");
	return @receipts;
}

my @receipts = gives($primary, 300, 'set');
is(scalar @receipts, 2, 'both tasks are leased');
$primary->restart;
my @more = gives($primary, 300, 'restarted');
is(sql($primary, "SELECT fairq.ack('$receipts[0]'), fairq.ack('$receipts[0]')"), 't|f', 'restarted: a receipt of before');
$primary->stop('immediate');
$primary->start;
push @more, gives($primary, 300, 'after a crash');
is(sql($primary, "SELECT fairq.ack('$receipts[1]'), fairq.ack('$more[0]')"), 't|t', 'after a crash: receipts of before');

$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is(sql($standby, 'SELECT fairq.this_node()'), 300, 'the standby has the number');
$primary->stop('immediate');
$standby->promote;
gives($standby, 300, 'promoted');

my $dump = $primary->backup_dir . '/nodes.dump';
$standby->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $standby->connstr('postgres') ], 'dumped');
sql($standby, 'CREATE DATABASE restored');
$standby->command_ok([ 'pg_restore', '-d', $standby->connstr('restored'), $dump ], 'restored');
gives($standby, 300, 'restored', 'restored');
is(sql($standby, 'SELECT count(*), count(DISTINCT id), min(fairq.node_of_id(id)) FROM fairq.tasks(\'q\')', 'restored'),
	sql($standby, 'SELECT count(*) + 1, count(*) + 1, min(fairq.node_of_id(id)) FROM fairq.tasks(\'q\')'),
	'restored: no id comes twice');

done_testing();
