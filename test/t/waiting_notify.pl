# NOTIFY for those who listen: create_queue(notify => true).
#
# Shown: whatever makes tasks claimable is told on the channel fairq_<queue>, soon,
# in few notifications and by the background worker; producers never take the lock
# under which notifications are queued, so none of them waits for another.
#
# To see it fail:
# - let waiters_offered not note it (no notification);
# - let the worker send at once, however short ago the last one was (too many);
# - let the commits of producers notify (they wait for the lock, and it is not the
#   worker who sends);
# - publish the settings of a transaction that is rolled back (the queue "never");
# - let the worker forget what it could not send (the last one).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = fairq_node(
	'notify',
	init => { allows_streaming => 1 },
	conf => 'restart_after_crash = on');
my $worker = sub {
	sql($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'");
};
my ($listener, @received);

sub listen_to
{
	my (@channels) = @_;

	$listener = session($node);
	$listener->safe(join '; ', map { 'LISTEN "' . s/"/""/gr . '"' } @channels);
	@received = ();
	return;
}

# What has come since the last look.
sub receive
{
	my $out = $listener->safe('SELECT 1');

	push @received, { channel => $1, pid => $2 }
	  while $out =~ /Asynchronous notification "(.*)" (?:with payload .*)?received from server process with PID (\d+)/g;
	return scalar @received;
}

# One test: something comes. Then forget it.
sub told
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_for(sub { receive() > 0 }, 60), $name);
	# One that is on its way still.
	wait_for(
		sub {
			my $before = @received;

			usleep(200_000);
			return receive() == $before;
		}, 10);
	my @got = @received;
	@received = ();
	return @got;
}

# One test: nothing comes.
sub not_told
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	usleep(300_000);
	is(receive(), 0, $name);
	return;
}

ok(wait_for(sub { $worker->() ne '' }, 60), 'there is a worker');
listen_to('fairq_q');
sql($node, "SELECT fairq.create_queue('q', notify => true, backoff_base => '0')");
told('a new queue');
not_told('and then nothing');

#
# What makes tasks claimable
#
sql($node, "SELECT fairq.enqueue('q', '1')");
my @got = told('a task');
is(join(' ', map { $_->{pid} } @got), $worker->(), 'the worker says so, once');
sql($node, "BEGIN; SELECT fairq.enqueue('q', '1'); ROLLBACK");
not_told('nothing that is rolled back');
my $receipt = sql($node, "SELECT receipt FROM fairq.claim('q')");
not_told('no claim');
sql($node, "SELECT fairq.release('$receipt')");
told('a release');
sql($node, "BEGIN; SELECT fairq.claim('q'); ROLLBACK");
told('a claim that is rolled back');
sql($node, "SELECT fairq.nack(receipt) FROM fairq.claim('q')");
told('a nack');
sql($node, "SELECT fairq.claim('q', lease => '300 ms')");
told('a lease that runs out');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.claim('q')");
not_told('no ack');
sql($node, "SELECT fairq.enqueue('q', '2', run_at => now() + interval '10 s')");
not_told('no task that is scheduled');
told('but when it is due');

sql($node, "SELECT fairq.pause('q')");
sql($node, "SELECT fairq.enqueue('q', '3')");
not_told('nothing while it is paused');
sql($node, "SELECT fairq.resume('q')");
told('when it is resumed');
sql($node, "SELECT fairq.alter_queue('q', notify => false)");
sql($node, "SELECT fairq.enqueue('q', '4')");
not_told('nothing if that is not wanted any more');
sql($node, "SELECT fairq.alter_queue('q', notify => true)");
told('again if it is');

#
# Few
#
{
	my $begin = time();
	sql($node, join '', map { "SELECT fairq.enqueue('q', '$_');\n" } 1 .. 2000);
	my $took = time() - $begin;
	@got = told('2000 tasks, one by one');
	cmp_ok(scalar @got, '<=', 2 + ($took + 0.2) / 0.02, sprintf('%d notifications in %.2f s', scalar @got, $took));
}

#
# Names, and settings that are not in force
#
my $long = 'x' x 48;
listen_to('fairq_Über "alles"', "fairq_$long", 'fairq_never');
sql($node, "SELECT fairq.create_queue(q, notify => true) FROM unnest(ARRAY['Über \"alles\"', '$long']) q");
my %channels;
wait_for(
	sub {
		receive();
		$channels{ $_->{channel} } = 1 for splice @received;
		return keys %channels >= 2;
	}, 60);
is(join(',', sort keys %channels), "fairq_$long,fairq_Über \"alles\"", 'names of all kinds, each on its channel');
sql($node, "SELECT fairq.create_queue('never')");
sql($node, <<'SQL');
BEGIN;
SELECT fairq.alter_queue('never', notify => true);
SELECT fairq.enqueue('never', '1');
ROLLBACK;
SELECT fairq.enqueue('never', '1');
SQL
not_told('a setting that is rolled back');

#
# After a restart, before anybody has used the queue
#
# It must not be due before we listen: on a machine that is slow, once more, and later.
foreach my $seconds (3, 10, 30)
{
	sql($node, "SELECT fairq.enqueue('q', '5', run_at => now() + interval '$seconds s')");
	$node->restart;
	listen_to('fairq_q');
	last
	  if sql($node, "SELECT count(*) FROM fairq.q_q WHERE state = 's' AND run_at > clock_timestamp() + interval '500 ms'") ne '0';
}
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.q_q WHERE state = 's'") eq '0' }, 60), 'a task becomes due');
told('and that is told');

#
# Producers do not queue up for the lock under which notifications are queued.
# Somebody is kept in his commit with that lock, by a standby that does not exist.
#
sql($node, 'CREATE TABLE t (a int)');
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
$node->reload;
my ($holder, $other) = (session($node), session($node));
my $pid = $holder->pid;
$holder->send('BEGIN; INSERT INTO t VALUES (1); NOTIFY something; COMMIT');
my $locked = "SELECT count(*) FROM pg_locks WHERE classid = 'pg_database'::regclass AND objid = 0 AND mode = 'AccessExclusiveLock'";
ok(wait_for(sub { sql($node, "$locked AND granted AND pid = $pid") eq '1' }), 'somebody has the lock');
$other->send('SET synchronous_commit = off; NOTIFY something');
ok(wait_for(sub { sql($node, "$locked AND NOT granted") >= 1 }), 'others that NOTIFY wait for it');
my @producers = map { session($node) } 1 .. 4;
foreach my $round (1 .. 10)
{
	$_->safe("SET synchronous_commit = off; SET lock_timeout = '1 s'; SELECT fairq.enqueue('q', '6')") for @producers;
}
pass('producers do not');
is(sql($node, "$locked AND granted AND pid = $pid"), 1, 'and all the time it was held');
is(sql($node, "SET synchronous_commit = off; SELECT count(*) >= 40 FROM fairq.claim('q', 100)"), 't', 'the tasks are there');
@received = ();
sql($node, "SELECT pg_cancel_backend($pid)");
$holder->query('');
$other->query('');
told('when it is free again the listener is told');
$_->quit for $listener, $holder, $other, @producers;
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$node->reload;

#
# Queues that are dropped while their notification is due.  An earlier worker crashed
# without the look whether the queue still is (database_worker.c); this one passes without
# it: a name that is not there is printed as one, and the moment is hardly ever met.
#
sql($node, <<'SQL');
CREATE PROCEDURE come_and_go(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM fairq.create_queue('gone', notify => true);
        COMMIT;
        PERFORM fairq.enqueue('gone', '1');
        COMMIT;
        PERFORM pg_sleep((i % 50) * 0.0001);
        PERFORM fairq.drop_queue('gone');
        COMMIT;
    END LOOP;
END
$$;
SQL
is((answer_of($node, 'CALL come_and_go(600)'))[0], 0, 'queues that come and go before they are told of');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/was terminated by signal/, 'and no process died of it');

$node->stop;
done_testing();
