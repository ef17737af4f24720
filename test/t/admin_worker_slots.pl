# Databases that wait for a worker are named in the log, each of them once.
#
# Seen to fail with one flag for all of them (launcher.c, start_worker).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('slots', conf => "pgfairq.max_workers = 1\npgfairq.max_leases = 1000\npgfairq.max_groups = 1000\n");
ok(worker_pid($node), 'the first database has the worker');
foreach my $db ('one', 'two')
{
	sql($node, "CREATE DATABASE $db");
	sql($node, 'CREATE EXTENSION pgfairq', $db);
}
foreach my $db ('one', 'two')
{
	my $oid = sql($node, "SELECT oid FROM pg_database WHERE datname = '$db'");
	my $warned = sub { return scalar(() = slurp_file($node->logfile) =~ /WARNING:  could not start a pgfairq worker for the database with OID $oid$/mg) };

	ok(wait_for(sub { $warned->() > 0 }), "database $db is named");
	is($warned->(), 1, "database $db: once");
}

$node->stop;
done_testing();
