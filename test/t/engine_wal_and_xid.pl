# A claim writes no WAL and takes no transaction id (I4); nor do extend and
# the looking functions.  An ack does both, which shows that the measurement
# would notice.
#
# The server is quiet: no autovacuum, no checkpoint, no background writer, and
# with wal_level = minimal nobody logs running transactions.  So any movement
# of the insert position belongs to the statement between two looks at it.
#
# To see it fail, let the claim write to the row (an UPDATE of any column, an
# xmax by SELECT ... FOR UPDATE) or to a table of leases, or let it prune heap
# pages on its way (read rows through the index's own heap fetch).  Or ask for groups
# that there are not: a claim that finds nothing has nothing to write about.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('wal', conf => <<'CONF');
checkpoint_timeout = 1h
bgwriter_lru_maxpages = 0
max_wal_size = 4GB
CONF

# From 18 on initdb turns data checksums on. With them whoever reads a fresh row first
# may log its page, for the hint that it is committed (see the last part).
if (sql($node, 'SHOW data_checksums') eq 'on')
{
	$node->stop;
	PostgreSQL::Test::Utils::system_or_bail('pg_checksums', '--disable', '--no-sync', '-D', $node->data_dir);
	$node->start;
}

sql($node, <<'SQL');
-- no lease runs out while it is measured
SELECT fairq.create_queue('one', buckets => 1, lease => '1 h');
SELECT fairq.create_queue('many', buckets => 16, lease => '1 h');
SELECT fairq.create_queue('classic', policy => 'priority', buckets => 2, lease => '1 h');
SELECT fairq.create_queue('empty', lease => '1 h');
SQL
# So that no look-up in a catalog finds something to prune: a snapshot of before would
# keep the dead rows there.
wait_for(sub { sql($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^pgfairq' AND xact_start IS NOT NULL") eq '0' })
  or die 'a worker that does not end its transaction';
sql($node, <<'SQL');
VACUUM;
SELECT cardinality(fairq.enqueue_many(q,
	ARRAY(SELECT jsonb_build_object('i', i) FROM generate_series(1, 5000) i),
	group_keys => ARRAY(SELECT 'g' || i % 50 FROM generate_series(1, 5000) i)))
  FROM (VALUES ('one'), ('many'), ('classic')) v(q);
SQL

# What a script moves, in bytes, whether it has a transaction id at its end, and
# what it answers.  The script must not end the transaction.
sub moved
{
	my ($session, $script) = @_;
	my $before = $session->safe('SELECT pg_current_wal_insert_lsn()');

	$session->safe('BEGIN');
	my $answer = $session->safe($script);
	my $xid = $session->safe('SELECT pg_current_xact_id_if_assigned()');
	$session->safe('COMMIT');
	my $bytes = $session->safe(
		"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before')");
	return ($bytes, $xid, $answer);
}

# It has to answer so many rows, undef: some; what finds nothing has nothing to
# write about.
sub writes_nothing
{
	my ($session, $rows, $script, $name) = @_;
	my ($bytes, $xid, $answer) = moved($session, $script);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $got = () = $answer =~ /^./mg;
	ok(defined $rows ? $got == $rows : $got > 0, "$name: $got rows");
	is($bytes, 0, "$name writes no WAL");
	is($xid, '', "$name takes no transaction id");
	return;
}

sub writes
{
	my ($session, $script, $name) = @_;
	my ($bytes, $xid) = moved($session, $script);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($bytes, '>', 0, "$name writes WAL ($bytes bytes)");
	isnt($xid, '', "$name takes a transaction id");
	return;
}

sub quiet
{
	my ($session, $when) = @_;

	$session->safe('CHECKPOINT');
	my ($bytes, $xid) = moved($session, 'SELECT count(*) FROM pg_class');
	is($bytes, 0, "the server is quiet $when");
	return;
}

# Pass the whole thing through twice: on a table as it was filled, and on one
# with many dead rows on the pages the claims read.
foreach my $pass ('fresh table', 'table with dead rows')
{
	my $s = session($node);
	quiet($s, "($pass)");

	foreach my $q ('one', 'many', 'classic')
	{
		my $p = "$pass, queue $q";

		writes_nothing($s, 1, "SELECT * FROM fairq.claim('$q')", "$p: claim 1");
		writes_nothing(
			$s, 100,
			"SELECT * FROM fairq.claim('$q', 100)",
			"$p: claim 100");
		# What follows needs a receipt. A setting keeps it without a write.
		writes_nothing(
			$s, 1,
			"SELECT set_config('t.receipt', receipt::text, false) FROM fairq.claim('$q', lease => '1 h')",
			"$p: claim with a lease");
		writes_nothing($s, 5, "SELECT * FROM fairq.claim('$q', 5, buckets => ARRAY[0])",
			"$p: claim from one bucket");
		writes_nothing(
			$s, 5,
			"SELECT * FROM fairq.claim('$q', 5, group_keys => ARRAY['g7', 'g8'])",
			"$p: claim from two groups");
		writes_nothing(
			$s, 10,
			"SAVEPOINT a; SELECT * FROM fairq.claim('$q', 5); RELEASE a; SAVEPOINT b; SELECT * FROM fairq.claim('$q', 5); ROLLBACK TO b",
			"$p: claim in savepoints");
		writes_nothing(
			$s, 1,
			"SELECT fairq.extend(current_setting('t.receipt')::uuid, '2 h')",
			"$p: extend");
		writes_nothing(
			$s, 1,
			"SELECT * FROM fairq.extend_many(ARRAY[current_setting('t.receipt')::uuid])",
			"$p: extend_many");
		writes_nothing($s, 50, "SELECT * FROM fairq.peek('$q', 50)", "$p: peek");
		writes_nothing(
			$s, 10,
			"SELECT * FROM fairq.ack_and_claim('$q', '{}', 10)",
			"$p: ack_and_claim with nothing to acknowledge");
	}
	writes_nothing($s, 0, "SELECT * FROM fairq.claim('empty', 10)",
		"$pass: claim from an empty queue");
	# fairq.tasks and fairq.dead_tasks are scans of the table like any other,
	# which may prune its pages.
	writes_nothing(
		$s, undef,
		"SELECT * FROM fairq.queue_stats; SELECT * FROM fairq.bucket_stats; SELECT * FROM fairq.leases; SELECT * FROM fairq.queues",
		"$pass: looking");

	# A claim that is rolled back
	my $before = $s->safe('SELECT pg_current_wal_insert_lsn()');
	$s->safe("BEGIN; SELECT count(*) FROM fairq.claim('many', 20); ROLLBACK");
	is( $s->safe(
			"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before')"),
		0,
		"$pass: a claim that is rolled back writes no WAL");

	# The measurement notices those that must write.
	writes(
		$s,
		"SELECT fairq.ack(current_setting('t.receipt')::uuid)",
		"$pass: ack");
	writes($s, "SELECT fairq.enqueue('one', '{}')", "$pass: enqueue");
	writes($s, "SELECT * FROM fairq.pop('one', 1)", "$pass: pop");
	$s->quit;

	# Dead rows among the live ones: acknowledge a third of everything, and
	# keep a snapshot so that none may be removed, then let it go.
	if ($pass eq 'fresh table')
	{
		sql($node, <<'SQL');
SELECT count(*) FROM (SELECT row_number() OVER () AS n, receipt FROM fairq.claim('one', 2000)) c
 WHERE CASE WHEN n % 2 = 0 THEN fairq.ack(receipt) ELSE fairq.release(receipt) END;
SELECT count(*) FROM (SELECT row_number() OVER () AS n, receipt FROM fairq.claim('many', 2000)) c
 WHERE CASE WHEN n % 2 = 0 THEN fairq.ack(receipt) ELSE fairq.release(receipt) END;
SELECT count(*) FROM (SELECT row_number() OVER () AS n, receipt FROM fairq.claim('classic', 2000)) c
 WHERE CASE WHEN n % 2 = 0 THEN fairq.ack(receipt) ELSE fairq.release(receipt) END;
SQL
	}
}

# The first claim after a start, when shared memory knows nothing.  The server is
# not quiet then, with a worker that begins; so it is the claim's own WAL that
# is looked at.
sql($node, 'VACUUM');
$node->restart;
{
	my $s = session($node);
	my $own = sub {
		my $plan = $s->safe("BEGIN; EXPLAIN (ANALYZE, WAL, COSTS OFF) SELECT * FROM $_[0]");
		my $xid = $s->safe('SELECT pg_current_xact_id_if_assigned()');

		$s->safe('COMMIT');
		like($plan, qr/actual .*rows=10(\.00)? /, "$_[0]: 10 rows");
		return ($plan =~ /WAL: (.*)/ ? $1 : '', $xid);
	};
	my ($wal, $xid) = $own->("fairq.claim('many', 10)");
	is($wal, '', 'the first claim after a restart writes no WAL');
	is($xid, '', 'the first claim after a restart takes no transaction id');
	($wal, $xid) = $own->("fairq.pop('many', 10)");
	like($wal, qr/records=/, "a pop does ($wal)");
	isnt($xid, '', 'and takes one');
	$s->quit;
}

# A claim in a standby or a read-only transaction is refused, so it need not
# be free; see limits_shared_memory.

# With hint bits logged (as with data checksums) a read of fresh rows may
# write full pages, also that of a SELECT. Rows seen before cost nothing more.
$node->append_conf('postgresql.conf', "wal_log_hints = on\n");
$node->restart;
{
	my $s = session($node);
	sql($node, 'VACUUM');
	quiet($s, '(hints logged)');
	writes_nothing($s, 100, "SELECT * FROM fairq.claim('many', 100)",
		'hints logged: claim');
	$s->quit;
}

$node->stop;
done_testing();
