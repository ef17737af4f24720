# A standby that is looked at can be used after its promotion: what it knew of queues
# that the primary has dropped since, alone or with their database, takes no room.
#
# While it is a standby, too: it shows more queues, one after the other, than there is
# room for.  Seen to fail without these guards: queue_open.c without
# gone_queues_release() (the standby); database_worker.c without
# gone_queues_release() (after the promotion); gone_queues.c
# without the look at databases (the database).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = fairq_node(
	'primary',
	init => { allows_streaming => 1 },
	conf => "pgfairq.max_leases = 1000\npgfairq.max_groups = 1000\n");
sql($primary, "SELECT fairq.create_queue('keep', buckets => 1)");
foreach my $db ('other', 'third')
{
	sql($primary, "CREATE DATABASE $db");
	sql($primary, 'CREATE EXTENSION pgfairq', $db);
}
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf', "pgfairq.max_queues = 4\n");
$standby->start;

# Have a queue looked at on the standby
sub shown
{
	my ($queue, $db) = @_;

	sql($primary, "SELECT fairq.create_queue('$queue', buckets => 1), fairq.enqueue('$queue', '1', 'g')", $db);
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	my ($ret, $out, $err) = answer_of($standby, "SELECT ready FROM fairq.queue_stats WHERE queue = '$queue'; SELECT count(*) FROM fairq.peek('$queue')", $db);
	is($out . $err, "1\n1", "the standby shows queue $queue of database $db");
	return;
}

foreach my $i (1 .. 6)
{
	shown("tmp$i", 'postgres');
	sql($primary, "SELECT fairq.drop_queue('tmp$i')");
}
shown("far$_", 'other') foreach 1 .. 2;
sql($primary, 'DROP DATABASE other');
shown("last$_", 'postgres') foreach 1 .. 3;
sql($primary, "SELECT fairq.drop_queue('last$_')") foreach 1 .. 3;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

# Another database cannot tell that these are gone; their own one's worker does.
$standby->promote;
ok( wait_for(sub { (answer_of($standby, "SELECT fairq.create_queue('new1'), fairq.enqueue('new1', '1')", 'third'))[0] == 0 }),
	'promoted: there is room for a queue of another database');
foreach my $i (2 .. 3)
{
	is(sql($standby, "SELECT fairq.create_queue('new$i') IS NOT NULL, fairq.enqueue('new$i', '1') > 0", 'third'), 't|t', "promoted: and for queue $i");
}
refused($standby, "SELECT fairq.create_queue('new4'), fairq.enqueue('new4', '1')", '53400', undef, undef, 'but no more than there is room for', 'third');
is(sql($standby, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('new1')", 'third'), 1, 'they are used');

# Nothing is taken for gone that is new or goes only now
my $other = session($standby, 'third');
sql($standby, "SELECT fairq.drop_queue('new3')", 'third');
$other->safe("BEGIN; SELECT fairq.create_queue('made'), fairq.enqueue('made', '1')");
my $own = session($standby, 'third');
$own->safe("BEGIN; SELECT * FROM fairq.claim('new2'); SELECT fairq.drop_queue('new2')");
like($own->query("SELECT fairq.create_queue('five')") . $own->query("SELECT fairq.enqueue('five', '1')") . $own->error, qr/more than 4 queues|aborted/, 'a queue that is made, and one whose drop may fail, keep their room');
$own->safe('ROLLBACK');
$other->safe('COMMIT');
is(sql($standby, "SELECT (SELECT count(*) FROM fairq.claim('made')), (SELECT count(*) FROM fairq.claim('new2'))", 'third'), '1|1', 'both go on');
$_->quit foreach $other, $own;

$standby->stop;
$primary->stop;
done_testing();
