# Leases go along when the primary is shut down and a standby is promoted.
#
# Shown: after a clean stop of the primary the leases are there on the promoted standby,
# with their attempts and deadlines; claims get only what was not leased; receipts are good
# there, once; and so it is on the way back.  What ends such a lease deletes its row.  A
# lease under a session, one of a transaction that was open, and one that was settled, stay
# behind.  When the same server starts again, its file and the rows agree, and no row is
# written twice.  Without a standby that is connected none is written, and after a kill all
# is delivered again, as ever.
#
# Seen to fail, in lease_handover.c:
# - register nothing: nothing is leased where the standby was promoted;
# - hand_over(): do not ask for processes that send WAL: rows without a standby;
# - write_leases(): do not ask whether the queue's rows have been read: twice as many rows
#   after two restarts;
# - goes_along(): take leases of sessions: an attempt is counted, or nobody gets the task.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $p = fairq_node(
	'p',
	init => { allows_streaming => 1 },
	conf => "wal_log_hints = on\nwal_keep_size = '64MB'\nmax_prepared_transactions = 2\n");

# What is leased, but for what of it is of this server.
sub leases
{
	my ($node) = @_;

	return sql($node, "SELECT string_agg(queue || id || ' ' || attempt || ' ' || lease_until, ', ' ORDER BY queue, id) FROM fairq.leases");
}

sub lease_rows
{
	my ($node) = @_;

	return sql($node, 'SELECT count(*) FROM fairq.durable_lease');
}

sub claimed
{
	my ($node, $queue, $n) = @_;

	return column($node, "SELECT receipt FROM fairq.claim('$queue', $n, lease => '2 h') ORDER BY id");
}

sub tasks_claimed
{
	my ($node, $queue) = @_;

	return sql($node, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.claim('$queue', 100)");
}

# Stop a primary as for a switchover, and promote its standby.
sub switch_over
{
	my ($from, $to, $mode) = @_;

	$from->wait_for_catchup($to, 'replay', $from->lsn('insert'));
	$from->stop($mode // 'fast');
	$to->promote;
	return;
}

sub follow
{
	my ($node, $primary) = @_;

	$node->enable_streaming($primary);
	$node->start;
	$primary->wait_for_catchup($node, 'replay', $primary->lsn('insert'));
	return;
}

sql($p, <<'SQL');
SELECT fairq.create_queue(q, buckets => 1, backoff_base => '0', durable_leases => q = 'd') FROM (VALUES ('d'), ('e')) AS v (q);
SELECT count(fairq.enqueue(q, to_jsonb(n), group_key => 'g' || n % 3)) FROM (VALUES ('d'), ('e')) AS v (q), generate_series(1, 12) n;
SQL

# Without a standby nothing is written, and the file does
my @of_e = claimed($p, 'e', 6);
my ($of_d) = claimed($p, 'd', 1);
my $before = leases($p);
$p->stop('fast');
$p->start;
is(leases($p), $before, 'a restart without standbys: the leases are there');
is(lease_rows($p), 1, 'and no rows but those of the queue that has them written');

$p->backup('b');
my $s = PostgreSQL::Test::Cluster->new('s');
$s->init_from_backup($p, 'b', has_streaming => 1);
$s->start;

# Settled before: it stays behind, as do the lease of a session and one in a transaction
is(sql($p, "SELECT fairq.ack('$of_e[5]')"), 't', 'one is settled');
my $session = sql($p, "SELECT fairq.open_session('w', '1 h')");
is(sql($p, "SELECT count(*) FROM fairq.claim('e', lease => '2 h', session => '$session')"), '1', 'one is of a session');
my $open = session($p);
$open->query("BEGIN; SELECT count(*) FROM fairq.claim('e', 2, lease => '2 h')");
$before = sql($p, <<"SQL");
SELECT string_agg(queue || id || ' ' || attempt || ' ' || lease_until, ', ' ORDER BY queue, id) FROM fairq.leases
    WHERE receipt IN ('$of_d', '$of_e[0]', '$of_e[1]', '$of_e[2]', '$of_e[3]', '$of_e[4]')
SQL
switch_over($p, $s);
$open->quit;
is(leases($s), $before, 'switched over: the leases have come along, with their deadlines');
is(lease_rows($s), 6, 'switched over: a row each');
is(tasks_claimed($s, 'e'), '7 8 9 10 11 12', 'switched over: claims get what is not leased');
is(sql($s, "SELECT attempt FROM fairq.leases WHERE queue = 'e' AND id = 7"), '1', 'switched over: what was leased under a session counts no attempt');
is(sql($s, "SELECT fairq.ack('$of_e[0]'), fairq.nack('$of_e[1]', 'no', '0'), fairq.release('$of_e[2]'), fairq.extend('$of_e[3]', '3 h') > now() + interval '2 h 50 min'"),
	't|t|t|t', 'switched over: receipts are good');
is(sql($s, "SELECT fairq.ack('$of_e[0]'), fairq.ack('$of_e[1]'), fairq.ack('$of_e[2]'), fairq.ack('$of_e[5]')"), 'f|f|f|f', 'switched over: once');
is(tasks_claimed($s, 'e'), '2 3', 'switched over: what was given back is claimed');
is(lease_rows($s), 3, 'switched over: the rows went with the leases');

# And back
follow($p, $s);
$before = leases($s);
switch_over($s, $p);
is(leases($p), $before, 'and back: the leases of then');
is(tasks_claimed($p, 'e') . tasks_claimed($p, 'd') , '2 3 4 5 6 7 8 9 10 11 12', 'and back: nobody gets what is leased');
is(sql($p, "SELECT fairq.ack('$of_e[3]'), fairq.ack('$of_e[4]'), fairq.ack('$of_d'), fairq.ack('$of_e[1]')"), 't|t|t|f', 'and back: receipts of the first server are good');
sql($p, 'SELECT count(fairq.ack(receipt)) FROM fairq.leases');
is(sql($p, "SELECT count(*) FROM fairq.tasks('e')") . leases($p), '0', 'and back: all is done');
is(lease_rows($p), 0, 'and back: and no row is left');

# The same server again: file and rows agree.  Twice, and a prepared transaction keeps the
# queue from being opened in between.
follow($s, $p);
sql($p, "SELECT count(fairq.enqueue('e', to_jsonb(n))) FROM generate_series(1, 5) n");
@of_e = claimed($p, 'e', 3);
$before = leases($p);
sql($p, "BEGIN; LOCK TABLE fairq.q_e IN SHARE MODE; PREPARE TRANSACTION 'keeper'");
foreach my $round (1, 2)
{
	$p->stop('fast');
	$p->start;
	$p->wait_for_catchup($s, 'replay', $p->lsn('insert'));
}
is(lease_rows($p), 3, 'the same server, twice: a row each');
sql($p, "COMMIT PREPARED 'keeper'");
is(leases($p), $before, 'the same server: the leases are what they were');
is(sql($p, "SELECT fairq.ack(r::uuid) FROM unnest('{$of_e[0],$of_e[1]}'::text[]) r"), "t\nt", 'the same server: receipts are good');
is(lease_rows($p), 1, 'the same server: their rows went');

# Killed: what had no row is delivered again
@of_e = claimed($p, 'e', 1);
switch_over($p, $s, 'immediate');
is(tasks_claimed($s, 'e'), '4 5', 'killed: what was leased since is delivered again');
is(sql($s, "SELECT fairq.ack('$of_e[0]')"), 'f', 'killed: its receipt is void');
$s->stop;
done_testing();
