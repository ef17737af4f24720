# Tasks that expire, by the clock: the background worker ends them wherever they are,
# also when they were leased or in somebody's hands when their time came; after a
# restart, a crash, VACUUM FULL and a restore; and a server without a worker does it, too.
#
# Seen to fail without these guards: leases_outlive() (what is given back); the number of
# ids that the queue remembers, with index_cursor_add() behind it (forty at once); the
# rows in hand of note_results(); index_cursor_add() in check_file() (VACUUM FULL);
# pending_expiry() in the row trigger (the restore); maintain_without_worker() after a
# claim that has found something; the reading anew in clock_was_set().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqClock;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $soon = 60;

$ENV{LD_PRELOAD} = $clock_library;
my $node = fairq_node('deadlines', conf => "max_prepared_transactions = 5\npgfairq.max_leases = 10000\n");
delete $ENV{LD_PRELOAD};

sub q1 { return sql($node, $_[0]) }

# So many tasks of a queue have expired, and no more.
sub ended
{
	my ($queue, $number, $name, $on) = @_;
	my $n;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_for(sub { ($n = sql($on // $node, "SELECT count(*) FROM fairq.done_$queue WHERE outcome = 'expired'")) >= $number }, $soon)
		  && $n == $number, $name)
	  or diag("$n, not $number");
	return;
}

my $past = "expires_at => clock_timestamp() + interval '0.3 s'";
my $options = "buckets => 2, lease => '1 h', backoff_base => '1 h', keep_done => '1 day'";

# By the clock, and deep: in the overflow, behind what does not expire, of groups at
# their limit and of one that is paused.
q1("SELECT fairq.create_queue('deep', max_ready_per_group => 100, $options)");
q1("SELECT fairq.set_group('deep', 'limit', max_leased => 1), fairq.pause_group('deep', 'paused')");
q1("SELECT count(fairq.enqueue('deep', to_jsonb(i), 'front')) FROM generate_series(1, 2000) i");
q1("SELECT fairq.enqueue('deep', '0', 'limit'); SELECT count(*) FROM fairq.claim('deep', 1, group_keys => '{limit}')");
q1("SELECT count(fairq.enqueue('deep', to_jsonb(i), g, $past)) FROM generate_series(1, 500) i, unnest('{front,back,limit,paused}'::text[]) g");
q1("SELECT count(*) FROM fairq.claim('deep', 100)");
ended('deep', q1("SELECT 2000 - count(*) FROM fairq.leases l, fairq.get_task('deep', l.id) t WHERE queue = 'deep' AND t.expires_at IS NOT NULL"), 'all in a backlog');
is(q1("SELECT count(*) FROM fairq.claim('deep', 5000)") + q1("SELECT count(*) FROM fairq.leases WHERE queue = 'deep'") > 1900 ? 't' : 'f', 't', 'the others can be claimed');
is(q1("SELECT scheduled + held + dead FROM fairq.queue_stats WHERE queue = 'deep'"), 0, 'nothing else is there');

# Leased when their time comes; forty, for the queue remembers fewer by id.
q1("SELECT fairq.create_queue('run', $options)");
sub leased
{
	my ($how) = @_;

	q1('DELETE FROM fairq.done_run');
	q1("SELECT count(fairq.enqueue('run', to_jsonb(i), expires_at => '2100-01-01')) FROM generate_series(1, 40) i");
	return;
}

# The time has come, and the pass that goes past them is over.
sub time_comes
{
	q1("UPDATE fairq.q_run SET expires_at = '2020-01-01'");
	q1("SELECT fairq.create_queue('after', $options), fairq.enqueue('after', '1', expires_at => '2020-01-01')");
	ended('after', 1, 'the worker has come by');
	q1("SELECT fairq.drop_queue('after'), fairq.maintain('run')");
	return;
}
leased();
my $claimer = session($node);
$claimer->safe('BEGIN');
is($claimer->safe("SELECT count(*) FROM fairq.claim('run', 50)"), 40, 'forty are leased');
time_comes();
$claimer->safe('ROLLBACK');
ended('run', 40, 'a claim is rolled back');

leased();
my $session = q1("SELECT fairq.open_session('s', '1 h')");
is(q1("SELECT count(*) FROM fairq.claim('run', 50, session => '$session')"), 40, 'forty of a session');
time_comes();
is(q1("SELECT fairq.close_session('$session')"), 40, 'it is closed');
ended('run', 40, 'and they have ended');

leased();
$session = $claimer->safe("SELECT fairq.open_session('s', '1 h', bound => true)");
is($claimer->safe("SELECT count(*) FROM fairq.claim('run', 50, session => '$session')"), 40, 'forty of a bound session');
time_comes();
$claimer->quit;
ended('run', 40, 'whose connection ends');

# In hands that do not say when they let go: locked by a user, and prepared.
leased();
my $user = session($node);
$user->safe('BEGIN; SELECT count(*) FROM (SELECT FROM fairq.q_run FOR UPDATE) t');
set_clock(86400 * 365 * 90);
q1("SELECT fairq.maintain('run')");
ended('run', 0, 'locked rows stay');
$user->safe('COMMIT');
ended('run', 40, 'until they are let go');
set_clock(0);
leased();
q1("BEGIN; DELETE FROM fairq.q_run WHERE id IN (SELECT id FROM fairq.q_run LIMIT 20); PREPARE TRANSACTION 'p'");
q1("BEGIN; SELECT count(fairq.enqueue('run', '\"new\"', expires_at => '2020-01-01')) FROM generate_series(1, 5); PREPARE TRANSACTION 'new'");
set_clock(86400 * 365 * 90);
ended('run', 20, 'rows of a prepared transaction stay');
q1("ROLLBACK PREPARED 'p'");
q1("COMMIT PREPARED 'new'");
ended('run', 45, 'until it has ended');
set_clock(0);

# The clock is set back: what claims have passed over comes again.
leased();
$user->safe('BEGIN; SELECT count(*) FROM (SELECT FROM fairq.q_run FOR UPDATE) t');
set_clock(86400 * 365 * 90);
is(q1("SELECT count(*) FROM fairq.claim('run', 50)"), 0, 'forward: none is claimed');
set_clock(0);
$user->safe('COMMIT');
ok(wait_for(sub { q1("SELECT count(*) FROM fairq.claim('run', 50)"); q1("SELECT count(*) FROM fairq.leases WHERE queue = 'run'") eq '40' }, $soon), 'and back: all are');
ended('run', 0, 'none has ended');
q1("SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'run'");
$user->quit;

# What shared memory knows is made again.
sub made_again
{
	my ($name, $how) = @_;

	leased();
	is(q1("SELECT count(*) FROM fairq.claim('run', 20)"), 20, "$name: twenty are leased");
	$how->();
	set_clock(86400 * 365 * 90);

	# A lease that was kept may run out meanwhile: one query counts both.
	my $n;
	ok(wait_for(sub { ($n = q1("SELECT (SELECT count(*) FROM fairq.done_run WHERE outcome = 'expired') + (SELECT count(*) FROM fairq.leases WHERE queue = 'run')")) eq '40' }, $soon),
		"$name: the others have ended")
	  or diag("$n ended or leased, not 40");
	q1("SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue = 'run'");
	ended('run', 40, "$name: and those, when they are given back");
	set_clock(0);
	return;
}
$ENV{LD_PRELOAD} = $clock_library;
made_again('VACUUM FULL', sub { q1('VACUUM FULL fairq.q_run') });
made_again('a restart', sub { $node->restart });
made_again('a crash', sub { $node->stop('immediate'); $node->start });
made_again('after it was expired', sub { set_clock(86400 * 365 * 90); $node->restart });

# A restore.
leased();
$node->command_ok([ 'pg_dump', '-f', "$dir/dump", $node->connstr('postgres') ], 'dumped');
q1('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-o', '/dev/null', '-f', "$dir/dump", $node->connstr('restored') ], 'restored');
set_clock(86400 * 365 * 90);
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.done_run WHERE outcome = 'expired'", 'restored') eq '40' }, $soon), 'in the other database they end');
ended('run', 40, 'and in this one');
set_clock(0);

# Without a worker claims do it, whether they find something or not.
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
$node->restart;
q1("SELECT fairq.create_queue('alone', $options)");
q1("SELECT count(fairq.enqueue('alone', to_jsonb(i), expires_at => '2020-01-01')) FROM generate_series(1, 3) i; SELECT fairq.enqueue('alone', '\"live\"')");
is(q1("SELECT payload FROM fairq.claim('alone', 1)"), '"live"', 'a claim finds the one that has not expired');
is(q1("SELECT count(*) FROM fairq.done_alone"), 3, 'and has ended the others');
q1("SELECT fairq.enqueue('alone', '4', expires_at => '2020-01-01')");
is(q1("SELECT count(*) FROM fairq.claim('alone', 1)"), 0, 'it finds nothing');
is(q1("SELECT count(*) FROM fairq.done_alone"), 4, 'and has ended that');
nothing_swept($node);

$node->stop;
done_testing();
