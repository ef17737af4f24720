# Ids are not given out twice. A server that is started from a base backup, and a standby
# that is promoted before it has got all, do not know the last ids that were given out: the
# first who takes one skips them, however many come at once. So does a database that was
# dumped or copied. A restart, a crash and a rollback skip none.
#
# Seen to fail: without id_sequence_follow() in row_writer.c (all ways); without
# GetWALInsertionTimeLine() (promotion), backup_started_from() (base backup) or the database
# (copy) in id_sequence_lineage(); without by_clock (two from one backup); with the sequence
# advanced after queue_state_recovery_end() (several at once); without
# id_sequence_remember() in queue_admin.c (a new queue).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $skip = 2**32;
my $primary = fairq_node('primary', init => { allows_streaming => 1 });
sql($primary, "SELECT fairq.set_node(5), fairq.create_queue('q'), fairq.create_queue('r', durable_leases => true)");

# Enqueue so many in a queue; returns the ids.
sub enqueue
{
	my ($node, $n, $queue, $database) = @_;
	$queue //= 'q';
	return column($node, "SELECT fairq.enqueue('$queue', '1') FROM generate_series(1, $n)", $database);
}

# The first and the last of a list of ids.
sub range
{
	my @sorted = sort { $a <=> $b } @_;
	return @sorted[ 0, -1 ];
}

# Several sessions take the first ids at once.
sub enqueue_at_once
{
	my ($node) = @_;
	my $holder = session($node);
	my @sessions = map { session($node) } 1 .. 6;
	my @ids;

	# They have the queue open and go on together.
	$holder->safe('BEGIN; LOCK TABLE fairq_internal.id_lineage IN ACCESS EXCLUSIVE MODE');
	$_->send("SELECT fairq.enqueue('q', '1') FROM generate_series(1, 30)") for @sessions;
	wait_for(sub { sql($node, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type IN ('Lock', 'Extension') AND query LIKE 'SELECT fairq.enqueue%' AND pid <> pg_backend_pid()") == 6 });
	$holder->safe('COMMIT');
	for my $session (@sessions)
	{
		my ($out, $error) = $session->ended_with;

		is($error, '', 'no session fails') if $error ne '';
		push @ids, split /\n/, $out;
	}
	$holder->quit;
	return @ids;
}

my @given = (enqueue($primary, 50), enqueue($primary, 5, 'r'));
is((range(@given))[0], 5 * 2**48 + 1, 'a new queue begins with the first id of its node');
$primary->restart;
my ($first, $last) = range(enqueue($primary, 10));
cmp_ok($last - (range(@given))[1], '<', 100_000, 'a restart skips none');
$primary->stop('immediate');
$primary->start;
my ($next) = range(enqueue($primary, 10));
cmp_ok($next - $last, '<', 100_000, 'nor does a crash');

#
# A base backup, and a standby
#
$primary->backup('old');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'old', has_streaming => 1);
$standby->start;
my @known = enqueue($primary, 20);
$primary->wait_for_catchup($standby);
is(sql($standby, "SELECT count(*) FROM fairq.tasks('q', \$\$ready\$\$)"), sql($primary, "SELECT count(*) FROM fairq.tasks('q', \$\$ready\$\$)"), 'a standby is read from');
is(sql($standby, 'SELECT fairq_internal.lineage() IS NULL'), 't', 'and is of no history of its own');

# What the standby does not get, nor the backup has.
$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
$standby->reload;
ok(wait_for(sub { sql($standby, 'SELECT count(*) FROM pg_stat_wal_receiver') eq '0' }), 'the standby is cut off');
my @lost = (enqueue($primary, 4000), enqueue($primary, 20, 'r'));
my ($lost_first, $lost_last) = range(@lost);
$primary->stop('immediate');
my %lost = map { $_ => 1 } @lost, @known;

my %restored;
for my $name ('restored', 'restored again')
{
	my $node = PostgreSQL::Test::Cluster->new($name =~ s/ /_/r);
	$node->init_from_backup($primary, 'old');
	my $log = 0;
	$node->start;
	my @ids = enqueue_at_once($node);
	is(scalar @ids, 180, "$name: enqueued by several at once");
	is(scalar(grep { $lost{$_} } @ids), 0, "$name: no id that was given out before");
	cmp_ok((range(@ids))[0] - $lost_last, '>', $skip / 2, "$name: all are skipped");
	is(sql($node, "SELECT count(DISTINCT fairq.node_of_id(id)), min(fairq.node_of_id(id)) FROM fairq.tasks('q')"), '1|5', "$name: they are of the node");
	like(slurp_file($node->logfile), qr/LOG:  ids of queue "q" are skipped, for they may have been given out before/, "$name: the log says so");
	is(scalar(grep { $lost{$_} } enqueue($node, 20, 'r')), 0, "$name: so in another queue");
	$restored{$name} = { map { $_ => 1 } @ids };
	my (undef, $end) = range(@ids);
	$node->restart;
	my ($then) = range(enqueue($node, 10));
	cmp_ok($then - $end, '<', 100_000, "$name: a restart skips none");
	$node->stop('immediate');
	$node->start;
	cmp_ok((range(enqueue($node, 10)))[0] - $then, '<', 100_000, "$name: nor does a crash");

	# A queue that is made now belongs to this history.
	sql($node, "SELECT fairq.create_queue('new')");
	is((enqueue($node, 1, 'new'))[0], 5 * 2**48 + 1, "$name: a new queue begins at the first");
	$node->stop;
}
is(scalar(grep { $restored{'restored'}{$_} } keys %{ $restored{'restored again'} }), 0, 'two of one backup give different ids');

#
# Promoted, and then copied
#
$standby->promote;
my $session = session($standby);
$session->safe("BEGIN; SELECT fairq.enqueue('q', '1') FROM generate_series(1, 3); ROLLBACK");
my @promoted = enqueue($standby, 100);
is(scalar(grep { $lost{$_} } @promoted), 0, 'promoted: no id that was given out before, after a rollback of the first');
cmp_ok((range(@promoted))[0] - $lost_last, '>', $skip / 2, 'promoted: all are skipped');
my ($p_first, $p_last) = range(@promoted);
cmp_ok($p_last - $p_first, '<', $skip, 'promoted: once');
$standby->restart;
my ($once_more) = range(enqueue($standby, 1));
cmp_ok($once_more - $p_last, '>=', $skip, 'promoted: what was rolled back is not remembered, so a restart skips some once more');
$standby->restart;
cmp_ok((range(enqueue($standby, 1)))[0] - $once_more, '<', 100_000, 'promoted: and no more');
$session->quit;

# The timeline alone is another one.
my (undef, $then) = range(enqueue($standby, 1));
$standby->stop;
$standby->set_standby_mode;
$standby->start;
$standby->promote;
cmp_ok((range(enqueue($standby, 1)))[0] - $then, '>=', $skip, 'promoted once more: ids are skipped');

my $dump = $standby->backup_dir . '/ids.dump';
my @before = enqueue($standby, 10);
$standby->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $standby->connstr('postgres') ], 'dumped');
my @after_dump = enqueue($standby, 100);
sql($standby, 'CREATE DATABASE dumped');
$standby->command_ok([ 'pg_restore', '-d', $standby->connstr('dumped'), $dump ], 'restored from a dump');
my %after_dump = map { $_ => 1 } @after_dump;
is(scalar(grep { $after_dump{$_} } enqueue($standby, 100, 'q', 'dumped')), 0, 'a database from a dump gives no id that was given out after it');
sql($standby, 'CREATE DATABASE copied TEMPLATE dumped');
my %dumped = map { $_ => 1 } enqueue($standby, 5000, 'q', 'dumped');
is(scalar(grep { $dumped{$_} } enqueue($standby, 5000, 'q', 'copied')), 0, 'nor does a copy');

# Told by hand: a copy of the disk that the server cannot know of.
sql($standby, 'DELETE FROM fairq_internal.id_lineage');
$standby->restart;
my ($told) = range(enqueue($standby, 1));
cmp_ok($told - (range(@after_dump))[1], '>=', $skip, 'one that is told has skipped, too');

# At the end of its ids a node needs another number.
sql($standby, "DELETE FROM fairq_internal.id_lineage; SELECT setval('fairq.ids_of_q', 6 * (1::bigint << 48) - (1::bigint << 32))");
$standby->restart;
refused($standby, "SELECT fairq.enqueue('q', '1')", '54000', qr/not enough ids left of node 5/, qr/set_node/, 'at the end of its ids a node needs another number');
sql($standby, 'SELECT fairq.set_node(6)');
is(sql($standby, "SELECT fairq.node_of_id(fairq.enqueue('q', '1'))"), 6, 'with which it goes on');

done_testing();
