# clients/relay/pgfairq-relay --from-table: what the worst tenant of an outbox does to others,
# counted in rows and in batches, not in time.
#
# A tenant with 20,000 rows; two hundred tenants with a hundred each; rows that are refused;
# rows of 128 kB: a newcomer is behind a batch or two, or a turn of all. And 20,000 rows
# that were removed, while a snapshot is held, so that no vacuum can take them away: a row
# that comes then reads a few index entries, not these.
#
# Seen to fail: with a line that keeps its turn until it is empty the newcomer does not come;
# with lines that are read from their first row, removed or not, 2,000 index entries are read for
# a row, as many as its group has had, and 20,000 rows take longer than a minute to move.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqTableRelay;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $batch = 100;
my ($origin, $target) = origin_and_target(origin_conf => "track_counts = on\n");

sub count_of
{
	my ($node, $what) = @_;

	return sql($node, "SELECT count(*) FROM $what");
}

# With a backlog that a relay is in the middle of, a newcomer comes: how many rows of the
# backlog are moved, or refused, between its commit and its own turn.
sub rows_before_newcomer
{
	my ($backlog) = @_;

	close_gate('letters');
	sql($origin, "INSERT INTO fairq_relay.outbox (queue, payload, group_key) VALUES ('letters', '\"first\"', ' first')");
	my $relay = start_relay('--batch', $batch, '--timeout', '120');
	ok(stopped_at_gate(), 'a relay is at work');
	sql($origin, $backlog);
	open_gate();
	ok( wait_for(sub { count_of($target, 'fairq_relay.moved') + count_of($origin, 'fairq_relay.refused') > 3 * $batch }),
		'the backlog is under way');
	close_gate('letters');
	ok(stopped_at_gate(), 'and is stopped in the middle');
	my $left = count_of($origin, 'fairq_relay.outbox');
	my $before = count_of($target, 'fairq_relay.moved') + count_of($origin, 'fairq_relay.refused');
	sql($origin, "INSERT INTO fairq_relay.outbox (queue, payload, group_key) VALUES ('letters', '\"newcomer\"', 'zz')");
	open_gate();
	ok(wait_for(sub { sql($target, "SELECT count(*) FROM fairq.tasks('letters', group_key => 'zz')") eq '1' }), 'the newcomer has come');
	kill_relay($relay);

	# One machine, one clock
	my ($turn) = column($target, 'SELECT moved_at FROM fairq_relay.moved ORDER BY id DESC LIMIT 1');
	my $behind = count_of($target, "fairq_relay.moved WHERE moved_at < '$turn'") + count_of($origin, "fairq_relay.refused WHERE refused_at < '$turn'");
	sql($origin, 'DELETE FROM fairq_relay.outbox; DELETE FROM fairq_relay.refused');
	sql($target, "SELECT fairq.purge('letters'); DELETE FROM fairq_relay.moved");
	cmp_ok($left, '>', 10 * $batch, "much was left: $left");
	return $behind - $before;
}

my $insert = 'INSERT INTO fairq_relay.outbox (queue, payload, group_key)';
my $rows = rows_before_newcomer("$insert SELECT 'letters', to_jsonb(n), 'flood' FROM generate_series(1, 20000) n");
cmp_ok($rows, '<=', 2 * $batch, "a newcomer behind a tenant with 20,000 rows: $rows come before");

$rows = rows_before_newcomer("$insert SELECT 'letters', to_jsonb(n), 'tenant ' || n % 200 FROM generate_series(1, 20000) n");
cmp_ok($rows, '<=', (1 + 3) * $batch, "behind two hundred of them: $rows");

$rows = rows_before_newcomer(
	"$insert SELECT 'letters', to_jsonb(n), 'some' FROM generate_series(1, 5000) n;
	$insert SELECT 'none', to_jsonb(n), 'bad' FROM generate_series(1, 20000) n");
cmp_ok($rows, '<=', 2 * $batch, "beside a tenant with 20,000 rows that are refused: $rows");

$rows = rows_before_newcomer(
	"$insert SELECT 'letters', to_jsonb(n), 'some' FROM generate_series(1, 5000) n;
	$insert SELECT 'letters', to_jsonb(repeat(md5(n::text), 4000)), 'large' FROM generate_series(1, 500) n");
cmp_ok($rows, '<=', 2 * $batch, "beside a tenant with 500 rows of 128 kB: $rows");

# Rows that were removed, and cannot go as long as a snapshot is held
my $holder = session($origin);
$holder->safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM fairq_relay.outbox');
my $relay = start_relay('--batch', '1000');
sql($origin, "$insert SELECT 'letters', to_jsonb(n), 'g' || n % 20 FROM generate_series(1, 20000) n");
ok(wait_for(sub { count_of($origin, 'fairq_relay.outbox') eq '0' }), '20,000 rows are moved');
is(sql($origin, "SELECT count(*) FROM fairq_relay.outbox"), 0, 'the outbox is empty');
is($holder->safe('SELECT count(*) FROM fairq_relay.outbox'), 0, 'a snapshot is held, which has them not');

# What is read, and how many rows have been removed, as the relay's session has told last.
sub figures
{
	return split /\|/, sql($origin, <<'SQL');
SELECT n_tup_del, (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relid = 'fairq_relay.outbox'::regclass)
FROM pg_stat_user_tables WHERE relid = 'fairq_relay.outbox'::regclass
SQL
}
my ($removed, $read);
ok(wait_for(sub { ($removed, $read) = figures(); $removed >= 20000 }), 'its figures are told');
my @reads;
foreach my $n (1 .. 6)
{
	my ($before, $now) = ($read);

	sql($origin, "$insert VALUES ('letters', '1', 'g$n')");
	wait_for(sub { ($now, $read) = figures(); $now >= $removed + $n });
	push @reads, $read - $before;
}
# A sweep, every half minute or more seldom, reads them all.
cmp_ok(min(@reads), '<', 500, "a row that comes then reads few index entries: @reads");
end_relay($relay);

$_->stop foreach $origin, $target;
done_testing();
