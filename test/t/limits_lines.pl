# Tasks of the overflow are claimed out of the lines of their groups: their rows have no
# address, and are not written.
#
# Shown: nothing is written for them; what is claimed and not done comes back, in
# order; what is in others' hands comes when they let it go, and nothing comes twice;
# a turn leads to its task only, wherever rows are by then; counts are exact; who
# looks sees what claims would come to; and after restarts and crashes leases on such
# tasks are as good as any.
#
# To see it fail, take one of these guards out of the engine:
# - what a claim took it gives back as what it was (pending_leases.c, give_back);
# - a task that is released comes before the others (placement_first);
# - a task is looked up by its id if its row is not where it was seen
#   (row_reader_entry): it does not come when it was leased while its row was moved;
# - what a claim passes over because its own transaction has changed or removed it, it
#   offers when that ends (pending_passed, pending_overflow_unread);
# - the end of a transaction that had the row in hand has the overflow read again
#   (lane_doubts_resolve): the sweep reports them; what was to be read still is if the
#   worker is ended meanwhile (overflow_sought);
# - a line is read again from what has become claimable before its frontier
#   (turn_lines_lower, cut): who commits late. While the line is read: limits_in_hand;
# - what leads nowhere gives its charge back (led_nowhere), what is not leased as well, and
#   what is rolled back keeps its tag (turn_candidates_put_back): the shares of two groups; so
#   are they if a group that was paused does not begin at virtual time (turns_resume);
# - a task counts where its row says, whoever has it (row_reader_depth), and leases that
#   are restored say so (leases_restore, durable_leases.c: restore_row);
# - a pop that finds its row being deleted leaves the lease to who does that
#   (pending_not_claimed, dropped): what is counted, in one of three runs;
# - a claim with buckets takes turns of all lanes (turns_only in claim_lanes.c);
# - of what is parked those of one address are told apart by their rows (is_at);
# - peek reads rows as if they had the addresses (row_reader_is_at): it crashes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('places', conf => <<'CONF');
max_connections = 30
max_prepared_transactions = 5
shared_buffers = 128MB
autovacuum = off
CONF

# Where there is none yet, claims do what is the worker's, and write rows.
isnt(worker_pid($node), '', 'the worker is there');

sql($node, 'CREATE FUNCTION numbers(a int, b int) RETURNS jsonb[] LANGUAGE sql AS $$ SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(a, b) n $$');
my $one = session($node);
my $two = session($node);
my $three = session($node);

# A queue whose group has two tasks with an address, and others behind them.
sub make_queue
{
	my ($q, $tasks, @settings) = @_;

	sql($node, "SELECT fairq.create_queue(" . join(', ', "'$q'", 'max_ready_per_group => 2', 'buckets => 1', @settings) . ")");
	sql($node, "SELECT fairq.enqueue_many('$q', numbers(1, $tasks), '{bob}')");
	return;
}

# Claims the first two: the rest is in the line.
sub offer
{
	my ($q) = @_;

	is(sql($node, "SELECT count(*) FROM fairq.pop('$q', 2)"), 2, "$q: two have addresses");
	return;
}

sub popped
{
	my ($q, $n, $session) = @_;

	return join ' ', split /\n/, ($session // $two)->safe("SELECT payload FROM fairq.pop('$q', $n)");
}

sub depths
{
	my ($q) = @_;

	return sql($node, "SELECT ready, leased, overflow FROM fairq.queue_stats WHERE queue = '$q'");
}

sub total
{
	my ($q) = @_;

	return sql($node, "SELECT ready + leased + overflow FROM fairq.queue_stats WHERE queue = '$q'");
}

# How many of bob's tasks the engine thinks are in the overflow.
sub waiting
{
	my ($q) = @_;

	return sql($node, "SELECT coalesce(sum(overflow), 0) FROM fairq.group_stats WHERE queue = '$q' AND group_key = 'bob'");
}

# All that is left comes, each once.
sub comes
{
	my ($q, $wanted, $what) = @_;
	my @got;

	wait_for(sub { push @got, split / /, popped($q, 1000); return @got >= split / /, $wanted; });
	push @got, split / /, popped($q, 1000);
	is(join(' ', sort { $a <=> $b } @got), $wanted, $what);
	is(depths($q), '0|0|0', "$q: and the statistics say that it is empty");
	return;
}

#
# Nothing is written
#
make_queue('plain', 3000);
my ($turns, @all) = (0);
while (@all < 3000 && $turns++ < 3000)
{
	push @all, split / /, popped('plain', 10);
}
is("@all", join(' ', 1 .. 3000), 'three thousand tasks, in order');
ok(wait_for(sub { $two->safe("SELECT pg_stat_force_next_flush()"); return sql($node, "SELECT pg_stat_get_tuples_deleted('fairq.q_plain'::regclass)") == 3000; }),
	'their rows were deleted');
is(sql($node, "SELECT pg_stat_get_tuples_updated('fairq.q_plain'::regclass)"), 0, 'and none was written before');
is(depths('plain'), '0|0|0', 'nothing is left');

#
# Who looks at such tasks finds them where they are said to be
#
make_queue('shown', 12);
offer('shown');
is(sql($node, "SELECT string_agg(payload::text, ' '), bool_and(address IS NOT NULL) FROM fairq.peek('shown', 4)"), '3 4 5 6|t', 'peek shows what comes next');
is(sql($node, "SELECT count(*), count(DISTINCT id) FROM fairq.peek('shown')"), '10|10', 'and all there is');
is(sql($node, "SELECT string_agg(DISTINCT g.state, ' ') FROM fairq.peek('shown') p, fairq.get_task('shown', p.id) g"), 'overflow', 'get_task');
is(sql($node, "SELECT string_agg(ahead::text, ' ' ORDER BY p.id) FROM fairq.peek('shown') p, fairq.get_task_position('shown', p.id)"), '0 1 2 3 4 5 6 7 8 9', 'get_task_position');
$one->safe("BEGIN; SELECT FROM fairq.claim('shown', 1)");
is(sql($node, "SELECT string_agg(payload::text, ' ') FROM fairq.peek('shown', 3)"), '4 5 6', 'peek does not show what is leased');
$one->safe('ROLLBACK');
is(sql($node, "SELECT string_agg(payload::text, ' ') FROM fairq.pop('shown', 1, group_keys => '{bob}')"), '3', 'a claim of one group');
is(sql($node, "SELECT string_agg(payload::text, ' ') FROM fairq.pop('shown', 1, buckets => '{0}')"), '4', 'a claim of one bucket');
comes('shown', join(' ', 5 .. 12), 'the rest comes');

# Places further back than the lane has been read so far.
sql($node, <<'SQL');
SELECT fairq.create_queue('far', max_ready_per_group => 2, buckets => 1);
SELECT fairq.set_group('far', 'bob', weight => 0.01);
SELECT fairq.enqueue_many('far', numbers(1, 12), '{bob}');
SELECT fairq.pop('far', 2);
SQL
sql($node, "SELECT fairq.alter_queue('far', max_ready_per_group => 2000)");
sql($node, "SELECT fairq.enqueue_many('far', numbers(1001, 2500), '{alice}')");
like(popped('far', 1), qr/^\d+$/, 'a lane is read');
is(sql($node, "SELECT count(*), count(DISTINCT id) FROM fairq.peek('far', 2000)"), '1509|1509', 'peek shows each task once');
sql($node, "SELECT fairq.drop_queue('far')");

#
# Back to where it was
#
make_queue('back', 12);
offer('back');
is(depths('back'), '0|0|10', 'those of the line are counted');
$one->safe("BEGIN; SELECT FROM fairq.claim('back', 4)");
is(depths('back'), '0|4|6', 'four of them are leased');
is(sql($node, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('back', 'leased')"), '3 4 5 6', 'and shown so');
$one->safe('ROLLBACK');
is(depths('back'), '0|0|10', 'a claim is rolled back');
is(popped('back', 3), '3 4 5', 'and others have the tasks, in order');
$one->safe("SELECT FROM fairq.claim('back', 2)");
is($one->safe("SELECT count(*) FROM fairq.leases l, fairq.release(l.receipt) WHERE l.queue = 'back'"), 2, 'two are released');
is(popped('back', 2), '6 7', 'and come first, in order');
$one->safe("SELECT FROM fairq.claim('back', 2)");
$one->safe("BEGIN; SELECT fairq.release(receipt) FROM fairq.leases WHERE queue = 'back'; ROLLBACK");
is(sql($node, "SELECT count(*) FROM fairq.leases l, fairq.nack(l.receipt, 'no', '0') WHERE l.queue = 'back'"), 2, 'two have failed');
is(sql($node, "SELECT string_agg(concat_ws(' ', payload, attempts, last_error, address IS NOT NULL), ', ' ORDER BY id) FROM fairq.tasks('back') WHERE attempts > 0"),
	'8 1 no t, 9 1 no t', 'and have addresses of their own');
$one->safe("SELECT FROM fairq.claim('back', 1, lease => '10 ms')");
ok(wait_for(sub { return sql($node, "SELECT count(*) FROM fairq.tasks('back') WHERE lost = 1") == 1; }), 'one lease runs out');
sql($node, "SELECT fairq.purge('back')");
is(depths('back'), '0|0|0', 'all of them are counted');

#
# In a user's hands, or another row by now
#
make_queue('hands', 30);
offer('hands');
$one->safe("BEGIN; SELECT fairq.cancel('hands', id) FROM fairq.tasks('hands') WHERE payload IN ('3', '6')");
is(popped('hands', 8), '4 5 7 8 9 10 11 12', 'tasks that are being cancelled are passed over');
$one->safe('ROLLBACK');
$one->safe("BEGIN; SELECT FROM fairq.q_hands WHERE payload = '13' FOR UPDATE");
my %came = map { $_ => 1 } split / /, popped('hands', 8);
ok(!$came{13}, 'so is one that is locked');
$one->safe('ROLLBACK');
ok(wait_for(sub { $came{$_}++ foreach split / /, popped('hands', 20); return keys %came == 20; }), 'all come when they are let go')
  or diag(join ' ', sort { $a <=> $b } keys %came);
is(join(' ', sort { $a <=> $b } keys %came), join(' ', 3, 6, 13 .. 30), 'all, and each once');
is((grep { $_ > 1 } values %came), 0, 'none twice');
is(depths('hands'), '0|0|0', 'and are counted');

make_queue('gone', 12);
offer('gone');
sql($node, "SELECT fairq.cancel('gone', id) FROM fairq.tasks('gone') WHERE payload IN ('4', '5')");
is(waiting('gone'), 8, 'those that were cancelled are not counted');
comes('gone', '3 6 7 8 9 10 11 12', 'the others come');

make_queue('rows', 10);
offer('rows');
sql($node, "UPDATE fairq.q_rows SET payload = '33' WHERE payload = '3'");
sql($node, "UPDATE fairq.q_rows SET group_key = 'carol' WHERE payload = '4'");
sql($node, "DELETE FROM fairq.q_rows WHERE payload = '5'");
comes('rows', '4 6 7 8 9 10 33', 'rows that are written with SQL');

make_queue('moved', 10);
offer('moved');
sql($node, 'VACUUM FULL fairq.q_moved');
comes('moved', '3 4 5 6 7 8 9 10', 'rows that VACUUM FULL has moved');

# Rows whose tasks are leased meanwhile, and given back when the overflow
# was read again.
my $long = "to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 50) n))";
foreach my $how ("UPDATE fairq.q_away SET payload = $long WHERE payload IN ('3', '4')", 'VACUUM FULL fairq.q_away')
{
	make_queue('away', 300);
	offer('away');
	my $at = "SELECT string_agg(ctid::text, ' ' ORDER BY id) FROM (SELECT ctid, id FROM fairq.q_away ORDER BY id LIMIT 2) x";
	my $was = sql($node, $at);
	$two->safe("SELECT FROM fairq.claim('away', 1)");
	$one->safe("SELECT FROM fairq.claim('away', 1)");
	sql($node, $how);
	isnt(sql($node, $at), $was, 'rows of tasks that are leased are elsewhere');
	sql($node, "SELECT fairq.maintain('away')");
	is(sql($node, "SELECT count(*) FROM fairq.leases l, fairq.release(l.receipt) WHERE l.queue = 'away'"), 2, 'they are released');
	is($two->safe("SELECT count(*), sum(length(payload::text)) > 100, string_agg(payload::text, ' ') LIKE '3 4' FROM fairq.pop('away', 2)"),
		$how =~ /UPDATE/ ? '2|t|f' : '2|f|t', 'and come at once');
	sql($node, "SELECT fairq.drop_queue('away')");
}

# In the hands of who claims himself: he passes over them, and may go back.
make_queue('own', 20);
offer('own');
$one->safe("BEGIN; SELECT fairq.cancel('own', id) FROM fairq.tasks('own') WHERE payload = '3'");
is(popped('own', 2, $one), '4 5', 'what one has cancelled oneself is passed over');
$one->safe('ROLLBACK');
is(popped('own', 2), '3 4', 'and comes if that is rolled back');
$one->safe("BEGIN; SAVEPOINT a; DELETE FROM fairq.q_own WHERE payload = '5'");
is(popped('own', 1, $one), '6', 'the same of a row that is deleted');
$one->safe('ROLLBACK TO a');
is(popped('own', 1, $one), '5', 'to a savepoint');
$one->safe('COMMIT');
$one->safe("BEGIN; UPDATE fairq.q_own SET payload = '66' WHERE payload = '6'");
is(popped('own', 1, $one), '7', 'a row that one has written oneself');
$one->safe('COMMIT');
is(popped('own', 1), '66', 'comes when that is committed');
$one->safe("BEGIN; UPDATE fairq.q_own SET payload = '88' WHERE payload = '8'");
is(popped('own', 1, $one), '9', 'or not');
$one->safe('ROLLBACK');
is(popped('own', 2), '8 9', 'and comes then, too');
comes('own', join(' ', 10 .. 20), 'the rest comes');

# Claims of a group leave the lanes as they are: nobody comes by.  The page is full, so
# the row that is written goes to another one, to where no place leads.
sql($node, <<'SQL');
SELECT fairq.create_queue('keys', max_ready_per_group => 2, buckets => 1);
SELECT fairq.enqueue_many('keys', numbers(1, 2), '{bob}');
SELECT fairq.enqueue('keys', to_jsonb(n), 'bob', unique_key => 'k' || n) FROM generate_series(3, 4) n;
SELECT fairq.enqueue_many('keys', numbers(1, 300), '{later}', run_ats => ARRAY[now() + '1 day']);
SQL
my $row_of_three = "SELECT ctid FROM fairq.q_keys WHERE unique_key = 'k3'";
my $was_at = sql($node, $row_of_three);
offer('keys');
sql($node, "SELECT fairq.enqueue('keys', to_jsonb('three' || (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 50) n)), 'bob', unique_key => 'k3', on_duplicate => 'replace')");
isnt(sql($node, $row_of_three) =~ s/,.*//r, $was_at =~ s/,.*//r, 'a row is on another page than before');
my $rest = '';
ok(wait_for(sub { $rest .= ' ' . $two->safe("SELECT left(payload::text, 6) FROM fairq.pop('keys', 1, group_keys => '{bob}')"); return $rest =~ /three/ && $rest =~ /4/; }),
	'a task that is replaced is found by claims of its group') or diag($rest);
is(depths('keys'), '0|0|0', 'and is counted once');

# A new task's row is where that of another one was.
make_queue('reused', 60);
offer('reused');
my $tids = "SELECT array_agg(ctid ORDER BY ctid) FROM fairq.q_reused WHERE payload::int %s";
my $places = sql($node, sprintf($tids, 'IN (3, 4, 5)'));
sql($node, "SELECT fairq.cancel('reused', id) FROM fairq.tasks('reused') WHERE payload IN ('3', '4', '5')");
sql($node, 'VACUUM fairq.q_reused; VACUUM fairq.q_reused');
sql($node, "SELECT fairq.enqueue_many('reused', numbers(61, 150), '{bob}')");
cmp_ok(sql($node, "SELECT count(*) FROM fairq.q_reused WHERE ctid = ANY ('$places') AND payload::int > 60"), '>', 0, 'rows are where others were');
my @order;
wait_for(sub { push @order, split / /, popped('reused', 7); return @order >= 145; });
is("@order", join(' ', 6 .. 150), 'each comes when it is its turn');

# And where the row that is there by now is of the overflow, and has no address at all.
# (vacuumed first, so that there is one free place, of which it is known)
sql($node, "SELECT fairq.create_queue('bare', max_ready_per_group => 1, buckets => 1); SELECT fairq.enqueue('bare', '0', 'bob')");
is(popped('bare', 5), '0', 'a lane is read to its end');
is(popped('bare', 5), '', 'and nothing is left');
sql($node, 'VACUUM fairq.q_bare; VACUUM fairq.q_bare');
sql($node, "SELECT fairq.enqueue('bare', '1', 'alice'), fairq.enqueue('bare', '2', 'bob')");
my $freed = sql($node, "SELECT ctid FROM fairq.q_bare WHERE payload = '1'");
sql($node, "SELECT fairq.cancel('bare', id) FROM fairq.tasks('bare') WHERE payload = '1'");
sql($node, 'VACUUM fairq.q_bare; VACUUM fairq.q_bare');
sql($node, "SELECT fairq.enqueue('bare', '3', 'bob')");
is(sql($node, "SELECT ctid, address IS NULL FROM fairq.q_bare WHERE payload = '3'"), "$freed|t", 'a task of the overflow is where a place leads');
is(popped('bare', 1), '2', 'who comes to that place passes it over');
comes('bare', '3', 'and the task comes when it is its turn');

#
# Lost, and found
#
make_queue('flood', 300, 'max_attempts => 0');
sql($node, "SELECT fairq.alter_queue('flood', max_ready_per_group => 150)");
popped('flood', 2);
sql($node, "SELECT count(fairq.enqueue_many('flood', numbers(1000 * g + 1, 1000 * g + 100), ARRAY['g' || g])) FROM generate_series(1, 20) g");
my %flood;
ok(wait_for(sub { $flood{$_}++ foreach split / /, popped('flood', 100); return keys %flood == 298 + 2000; }, 60), 'others come, and all of them')
  or diag(scalar keys %flood);
is((grep { $_ > 1 } values %flood), 0, 'each once');
is(depths('flood'), '0|0|0', 'and are counted');

# More than a lane holds, taken and given back.
make_queue('large', 4000);
sql($node, "SELECT fairq.alter_queue('large', max_ready_per_group => 4000)");
ok(wait_for(sub { return $one->safe("BEGIN; SELECT count(*) FROM fairq.claim('large', 100)") == 100 || ($one->safe('ROLLBACK') && 0); }), 'a claim begins');
my $claimed = 100;
foreach (1 .. 40)
{
	$claimed += $one->safe("SELECT count(*) FROM fairq.claim('large', 100)");
}
cmp_ok($claimed, '>', 300, "$claimed tasks are claimed");
$one->safe('ROLLBACK');

# The lane is full of them, and has to be read from its start.
sql($node, 'VACUUM FULL fairq.q_large');
comes('large', join(' ', 1 .. 4000), 'and come when that is rolled back');

#
# No place twice
#
make_queue('twice', 2);
$one->safe("BEGIN; SELECT fairq.enqueue_many('twice', numbers(3, 4), '{bob}')");
sql($node, "SELECT fairq.enqueue_many('twice', numbers(5, 9), '{bob}')");
sql($node, "SELECT fairq.alter_queue('twice', max_ready_per_group => 10)");
popped('twice', 2);
$two->safe("BEGIN; SELECT FROM fairq.claim('twice', 1)");
$one->safe('COMMIT');
is(waiting('twice'), 6, 'who commits late is found, and nobody else again');
$two->safe('ROLLBACK');
is(waiting('twice'), 7, 'and one that was leased meanwhile is there again');
is(popped('twice', 20), '3 4 5 6 7 8 9', 'in order');

#
# What leads nowhere, or is given back, is not charged for; nor is there anything to make
# up for when a group was paused
#
foreach my $what ('cancelled', 'rolled back', 'paused')
{
	sql($node, "SELECT fairq.create_queue('charged', max_ready_per_group => 1, buckets => 1)");
	sql($node, "SELECT fairq.enqueue_many('charged', array_fill('1'::jsonb, ARRAY[200]), ARRAY['$_'])") foreach ('a', 'b');
	is(sql($node, "SELECT count(*) FROM fairq.pop('charged', 10)"), 10, "$what: two groups have overflow, which is read");
	if ($what eq 'cancelled')
	{
		sql($node, "SELECT count(fairq.cancel('charged', id)) FROM (SELECT id FROM fairq.tasks('charged', group_key => 'a') ORDER BY id LIMIT 20) t");
	}
	elsif ($what eq 'paused')
	{
		sql($node, "SELECT fairq.pause_group('charged', 'a')");
		is(sql($node, "SELECT string_agg(DISTINCT group_key, ' ') FROM fairq.pop('charged', 60)"), 'b', 'paused: the other is served');
		sql($node, "SELECT fairq.resume_group('charged', 'a')");
	}
	else
	{
		$one->safe("BEGIN; SELECT count(*) FROM fairq.claim('charged', 20, group_keys => '{a}'); ROLLBACK");
	}
	# One more or less: the task that stood for the paused group has its turn first.
	my ($least, $most) = split / /, sql($node, "SELECT min(n) || ' ' || max(n) FROM (SELECT group_key, count(*) AS n FROM fairq.pop('charged', 20) GROUP BY 1) t");
	ok($least >= 9 && $most <= 11, "$what: and each has its share afterwards") or diag("$least, $most");
	sql($node, "SELECT fairq.drop_queue('charged')");
}

#
# A group that is paused, or may have one task at a time
#
make_queue('paused', 10);
offer('paused');
sql($node, "SELECT fairq.pause_group('paused', 'bob')");
is(popped('paused', 10), '', 'a group is paused');
is(popped('paused', 10), '', 'and stays so');
sql($node, "SELECT fairq.resume_group('paused', 'bob')");
comes('paused', '3 4 5 6 7 8 9 10', 'until it is resumed');
make_queue('limited', 20);
sql($node, "SELECT fairq.set_group('limited', 'bob', max_leased => 1)");
my @limited;
ok(wait_for(sub { push @limited, split / /, popped('limited', 5); return @limited >= 20; }), 'a group with one task at a time');
is("@limited", join(' ', 1 .. 20), 'has them all in turn');

# Whoever asks for a bucket has turns: a group's do not hang on who has its home lane's.
sql($node, <<'SQL');
SELECT fairq.create_queue('buckets', buckets => 4, max_ready_per_group => 10, lease => '1 h'), fairq.set_group('buckets', 'bob', max_leased => 1);
SELECT cardinality(fairq.enqueue_many('buckets', array_agg(to_jsonb(n)), group_keys => '{bob}')) FROM generate_series(1, 15) n;
SELECT count(*) FROM fairq.claim('buckets', 20);
SQL
foreach my $task (2 .. 15)
{
	my $bucket = $task % 4;

	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'buckets'; SELECT payload FROM fairq.claim('buckets', 20, buckets => '{$bucket}')"),
		"1\n$task", "bucket $bucket: the next one, " . ($task <= 10 ? 'which was parked' : 'of the overflow'));
}
sql($node, "SELECT fairq.drop_queue('buckets')");

# SQL may give two rows one address: both are parked.
sql($node, <<'SQL');
SELECT fairq.create_queue('copied', buckets => 1);
SELECT cardinality(fairq.enqueue_many('copied', '{1,2,3}', group_keys => '{bob}'));
SELECT fairq.pause_group('copied', 'bob');
INSERT INTO fairq.q_copied SELECT (jsonb_populate_record(q, jsonb_build_object('id', id + 1000))).* FROM fairq.q_copied q;
SQL
is(popped('copied', 10), '', 'rows of one address in a group that is paused');
sql($node, "SELECT fairq.resume_group('copied', 'bob')");
is(sql($node, "SELECT count(*) FROM fairq.pop('copied', 10)"), 6, 'all of them come when it is resumed');
sql($node, "SELECT fairq.drop_queue('copied')");

# Parked while the tasks before it are purged, which does not see it.
make_queue('late', 5);
sql($node, "SELECT fairq.alter_queue('late', max_ready_per_group => 10)");
popped('late', 2);
sql($node, "SELECT fairq.pause_group('late', 'bob')");
is(popped('late', 10), '', 'all are parked');
$one->safe("BEGIN; SELECT fairq.purge_group('late', 'bob')");
sql($node, "SELECT fairq.enqueue('late', '6', 'bob')");
is(popped('late', 10), '', 'and one that comes while they are purged');
$one->safe('COMMIT');
sql($node, "SELECT fairq.resume_group('late', 'bob')");
comes('late', '6', 'it comes');

# What was released has a place for each, also where it is parked.
make_queue('aside', 10);
offer('aside');
$one->safe("SELECT FROM fairq.claim('aside', 2)");
is(sql($node, "SELECT count(*) FROM fairq.leases l, fairq.release(l.receipt) WHERE l.queue = 'aside'"), 2, 'two are released');
sql($node, "SELECT fairq.pause_group('aside', 'bob')");
is(popped('aside', 10), '', 'and parked');
sql($node, "SELECT fairq.set_group('aside', 'bob', max_leased => 1), fairq.resume_group('aside', 'bob')");
my @aside;
ok(wait_for(sub { push @aside, split / /, popped('aside', 5); return @aside >= 8; }), 'all come, one at a time') or diag("@aside");
is("@aside", '3 4 5 6 7 8 9 10', 'in order');

#
# The worker is ended when it is about to look for a place that was lost
#
make_queue('ended', 6);
offer('ended');
$one->safe("BEGIN; SELECT fairq.cancel('ended', id) FROM fairq.tasks('ended') WHERE payload = '3'");
is(popped('ended', 1), '4', 'a task that is being cancelled is passed over');
$three->safe("BEGIN; ALTER INDEX fairq.overflow_of_ended SET TABLESPACE pg_default");
$one->safe('ROLLBACK');
my $worker = "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'pgfairq worker%' AND wait_event_type = 'Lock'";
ok(wait_for(sub { return sql($node, "SELECT count(pg_terminate_backend(pid)) FROM ($worker) w") == 1; }), 'the worker is ended when it looks for that');
$three->safe('ROLLBACK');
comes('ended', '3 5 6', 'and the next one finds it');

#
# All at once, with everything that ends a lease or a task: what the statistics say
# is what there is
#
make_queue('counts', 2, 'max_attempts => 0', 'backoff_base => \'0\'');
sql($node, "SELECT fairq.alter_queue('counts', max_ready_per_group => 60, buckets => 2)");
sql($node, "SELECT count(fairq.enqueue_many('counts', numbers(1, 3000), ARRAY['g' || g])) FROM generate_series(1, 4) g");
# In order: two that cancel several at a time do not wait for each other.
my $some = "SELECT id FROM (SELECT id FROM (SELECT id FROM fairq.q_counts ORDER BY id LIMIT 60) x ORDER BY random() LIMIT 3) z ORDER BY id";
my %scripts = (
	back => [ 4, "BEGIN;\nSELECT count(*) FROM fairq.claim('counts', :n);\nROLLBACK;\n" ],
	back_to => [ 2, transaction(3, "SAVEPOINT a;\nSELECT count(*) FROM fairq.claim('counts', :n);\nROLLBACK TO a;\nSELECT count(*) FROM fairq.pop('counts', 1);\n") ],
	ack => [ 2, transaction(3, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('counts', 3);\n") ],
	nack => [ 2, transaction(3, "SELECT count(fairq.nack(receipt, 'no', (:n % 2) * interval '20 ms')) FROM fairq.claim('counts', 3);\n") ],
	release => [ 1, "SELECT count(fairq.release(receipt)) FROM fairq.claim('counts', :n);\n" ],
	leave => [ 1, "SELECT count(*) FROM fairq.claim('counts', 2, lease => '20 ms');\n" ],
	cancel => [ 6, transaction(3, "SELECT count(fairq.cancel('counts', id)) FROM ($some) y;\n") ],
	purge => [ 1, transaction(3, "SELECT fairq.purge_group('counts', 'g' || (:n % 4 + 1)) WHERE :n = 1;\n") ],
	enqueue => [ 3, "SELECT cardinality(fairq.enqueue_many('counts', numbers(1, 10), ARRAY['g' || (:n % 4 + 1)]));\n" ]);
$_->[1] = "\\set n random(1, 20)\n$_->[1]" foreach values %scripts;
# (Who cancels and who ends several leases still may, and try again.)
run_pgbench($node, \%scripts, '-c', 8, '-j', 2, '--max-tries=5', '-T', $ENV{FAIRQ_HAMMER_SECONDS} // 6)
  ->ran_well('eight clients claim, cancel and go back');
my $as_shown = "SELECT count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'leased'), count(*) FILTER (WHERE state = 'overflow'), count(*) FILTER (WHERE state NOT IN ('ready', 'leased', 'overflow')) FROM fairq.tasks('counts')";
my $as_counted = "SELECT ready, leased, overflow, scheduled + dead + held FROM fairq.queue_stats WHERE queue = 'counts'";
my ($shown, $counted);
ok( wait_for(
		sub {
			$shown = sql($node, $as_shown);
			$counted = sql($node, $as_counted);
			# What is left of the leases that nobody ended runs out first: purge passes over it.
			return $shown =~ /^\d+\|0\|/ && $shown eq $counted && $shown eq sql($node, $as_shown);
		},
		120),
	'what is counted is what there is') or diag("there are $shown, counted $counted");
is(sql($node, "SELECT swept FROM fairq.queue_stats WHERE queue = 'counts'"), 0, 'and nothing was lost');
sql($node, "SELECT fairq.purge('counts')");
is(sql($node, 'SELECT count(*) FROM fairq.q_counts'), 0, 'all of it is removed');
is(depths('counts'), '0|0|0', 'and is not counted any more');

#
# Restarts and crashes
#
make_queue('kept', 20, 'durable_leases => true', 'lease => \'1 hour\'');
make_queue('saved', 20, 'lease => \'1 hour\'');
foreach my $q ('kept', 'saved')
{
	offer($q);
	is(sql($node, "SELECT count(*) FROM fairq.claim('$q', 3)"), 3, "$q: three are leased");
}
make_queue('order', 5);
offer('order');
is(depths('order'), '0|0|3', 'order: all are in the line');
sql($node, "SELECT fairq.alter_queue('order', max_ready_per_group => 100)");
sql($node, "SELECT fairq.enqueue_many('order', numbers(6, 9), '{bob}')");
$_->quit foreach ($one, $two, $three);
$node->restart;
like(depths('saved'), qr/^\d+\|3\|/, 'after a restart they are');
is(total('saved'), 18, 'and are counted once');
is(sql($node, "SELECT count(*) FROM fairq.leases l, fairq.ack(l.receipt) a WHERE l.queue = 'saved' AND a"), 3, 'and can be acknowledged');
$node->stop('immediate');
$node->start;
$two = session($node);
like(depths('kept'), qr/^\d+\|3\|/, 'durable leases are after a crash');
is(total('kept'), 18, 'and are counted once');
is(sql($node, "SELECT count(*) FROM fairq.leases l, fairq.ack(l.receipt) a WHERE l.queue = 'kept' AND a"), 3, 'and can be acknowledged');
comes('saved', join(' ', 6 .. 20), 'the others come');
comes('kept', join(' ', 6 .. 20), 'of both queues');
my @in_order;
wait_for(sub { push @in_order, split / /, popped('order', 2); return @in_order >= 7; });
is("@in_order", '3 4 5 6 7 8 9', 'those that were in the line before those that came after them');
is(join(' ', sort @in_order), '3 4 5 6 7 8 9', 'all of them come');
$two->quit;

$node->stop;
unlike(
	PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|TRAP|terminated by signal 6|terminated by signal 11|LOG:  sweep of queue/,
	'no process broke down, and the sweep found nothing');
done_testing();
