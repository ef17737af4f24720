# The worker at rest: what it cannot do now it looks at once a second, no more often
# and no less.
#
# A queue may be in somebody's hands when it is time for something in it: its
# maintenance, or its table.  And a session may be over where there is no queue.
#
# To see it fail:
# - call maintain_tick only where the queue's maintenance was got (the worker does not
#   sleep any more while somebody else has it; nor after a session where there is no
#   queue);
# - take the lower of two times with Min() in database_worker_main, which asks for the
#   next lease twice, and it may be another one by then (the task is not put back: in
#   one round of twenty or so; FAIRQ_REST_ROUNDS=100 for sure).
#
# Not seen to fail: with told_at set at each pass in sessions_overdue(), also when nothing
# was told.  Then a lease that was granted in the moment in which its session is closed is
# not told again while passes are less than a second apart, and no SQL gets into that moment.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;
use Time::HiRes qw(time);

my $rounds = $ENV{FAIRQ_REST_ROUNDS} // 4;

my $node = fairq_node('rest');
my $holder = session($node);
my $user = session($node);

# How many transactions a second the worker has had.  One that asks is one, too.
sub rate
{
	my ($seconds) = @_;
	my $commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
	my $begin = time();
	my $before = sql($node, $commits);

	sql($node, 'SELECT pg_sleep(' . ($seconds // 2) . ')', 'template1');
	return (sql($node, $commits) - $before) / (time() - $begin);
}

# A round is two transactions here, and one or two rounds a second are all right.
sub rests
{
	my ($name) = @_;
	my $rate = rate();

	cmp_ok($rate, '<=', 20, "$name: the worker rests ($rate transactions a second)");
	return;
}

# Without a queue.
$user->safe("SELECT fairq.open_session(ttl => '100 ms')");
ok(wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.sessions WHERE alive_until > now()') eq '0' }), 'a session is over');
rests('a session is over, and there is no queue');

sql($node, <<'SQL');
SELECT fairq.create_queue('q', backoff_base => '0', max_attempts => 0, max_lost => 0);
SELECT fairq.enqueue('q', '1');
SQL

sub put_back
{
	my ($name) = @_;

	# A suspect, which it is soon, is ready only when it has a place.
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('q', 'ready')") eq '1' }, 30), "$name: the task is put back");
	return;
}

# Its maintenance, or its table, is in somebody's hands.
foreach my $hold ("SELECT fairq.maintain('q')", 'LOCK fairq.q_q IN ACCESS EXCLUSIVE MODE')
{
	sql($node, "SELECT count(*) FROM fairq.claim('q', lease => '1 s')");
	$holder->safe("BEGIN; $hold");
	sql($node, 'SELECT pg_sleep(1.1)', 'template1');
	rests($hold);
	$holder->safe('COMMIT');
	put_back($hold);
}

# Somebody else has the maintenance, and tries to put back a task again and again
# whose row is in the hands of a third, while the worker is woken: it comes to see the
# lease in the wheel or in the list of those that have run out.  Then it is left alone.
foreach my $round (1 .. $rounds)
{
	$user->safe("CREATE TEMP TABLE mine AS SELECT id FROM fairq.claim('q', lease => '1 h'); BEGIN; SELECT FROM fairq.q_q FOR UPDATE");
	$holder->send(<<'SQL');
DO $$
DECLARE
	ends timestamptz := clock_timestamp() + interval '0.5 s';
BEGIN
	WHILE clock_timestamp() < ends LOOP
		PERFORM fairq.maintain('q');
	END LOOP;
END $$
SQL
	sql($node, <<'SQL');
DO $$
DECLARE
	mine uuid := (SELECT receipt FROM fairq.leases);
	ends timestamptz := clock_timestamp() + interval '0.2 s';
BEGIN
	WHILE clock_timestamp() < ends LOOP
		PERFORM fairq.extend(mine, '1 microsecond');
	END LOOP;
END $$
SQL
	$holder->safe('SELECT 1');
	$user->safe('ROLLBACK; DROP TABLE mine');
	put_back("round $round");
}

# A group that was at its limit, until all its tasks had been claimed: then nothing
# waits, and the worker does not come to look after it.
sql($node, <<'SQL');
SELECT fairq.drop_queue('q');
SELECT fairq.create_queue('limited', buckets => 1);
SELECT fairq.set_group('limited', 'a', max_leased => 1);
SELECT cardinality(fairq.enqueue_many('limited', array_fill('1'::jsonb, ARRAY[6]), group_keys => ARRAY['a']));
SQL
is(sql($node, "SELECT count(*) FROM fairq.claim('limited', 5, lease => '1 h'); SELECT count(fairq.ack(receipt)) FROM fairq.leases"), "1\n1", 'one at a time')
  foreach 1 .. 6;
sql($node, "SELECT fairq.enqueue('limited', '1', 'b'); SELECT count(*) FROM fairq.claim('limited', lease => '10 ms')");
ok(wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.leases') eq '0' }), 'the worker comes by');
my $rate;
ok(wait_for(sub { ($rate = rate(5)) < 0.9 }, 60), 'nobody waits any more: nor does the worker look every second') or diag("$rate transactions a second");

nothing_swept($node);
done_testing();
