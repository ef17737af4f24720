# The wall clock is set, an hour forward and back: nothing stays, or ends, for the
# length of the step.
#
# Leases and sessions last as long as they would have; what is granted after the step
# ends in time; what waits in the table for a time is ready when the clock says so; rates,
# the archive and those who wait go on.  With the worker and without one.
#
# Seen to fail without these guards: database_worker.c without the bound on its sleep
# (the task of half an hour); wall_clock.c, wall_clock_steady() by the wall clock (leases of
# before, heartbeats), and wall_clock_shown() without the shift (when leases end, as users
# see it); limit_table.c, limit_table_count_tokens() (rates).
#
# Meant for these too, and not yet seen to fail without them: wall_clock_check() in
# maintain_tick() and the worker; clock_was_set() of maintain.c; sql_claim.c with the
# wall clock, and pass_after without wall_clock_ahead.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqClock;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# How long what is due may take after a step, on a machine that has other things to
# do; and what it must not come near to.
my $soon = 60;

my $node = fairq_node('clock', conf => "pgfairq.max_leases = 10000\npgfairq.max_groups = 1000\nstatement_timeout = 0\n");
$node->stop;
start_with_clock($node);

sub q1 { return sql($node, $_[0]) }

sub expires
{
	my ($name, $since) = @_;

	ok( wait_for(sub { q1("SELECT count(*) FROM fairq.leases WHERE queue = 'c'") eq '0' }, $soon),
		"$name: is put back")
	  or diag(q1("SELECT *, clock_timestamp() FROM fairq.leases"));
	q1("SELECT fairq.purge('c')");
	return;
}

sub claim_second
{
	my ($name) = @_;

	q1("SELECT fairq.enqueue('c', '1')");
	is(q1("SELECT count(*) FROM fairq.claim('c')"), 1, "$name: claimed");
	return;
}

q1("SELECT fairq.create_queue('c', lease => '1 s', backoff_base => '0')");

# A task of half an hour, and nothing else: no lease has the worker look now and then
sub sleeps
{
	ok(wait_event_of($node, 'Extension', "backend_type = 'pgfairq worker'"), 'the worker sleeps');
	return;
}

q1("SELECT fairq.enqueue('c', '1', run_at => clock_timestamp() + interval '30 min')");
sleeps();
set_clock(3600);
ok(wait_for(sub { q1("SELECT count(*) FROM fairq.tasks('c', 'ready')") eq '1' }, $soon), 'forward, and nothing else: the task is ready');
set_clock(0);
q1("SELECT fairq.purge('c')");

q1("SELECT fairq.create_queue('long', lease => '10 min', keep_done => '1 s')");
q1("SELECT fairq.create_queue('rate')");
q1("SELECT fairq.set_group('rate', 'g', rate => 20, burst => 1)");

# What lasts through all of it
q1("SELECT fairq.enqueue('long', '1'), fairq.enqueue('long', '2')");
my $session = q1("SELECT fairq.open_session('w', '10 min')");
my $receipt = q1("SELECT receipt FROM fairq.claim('long')");
is(q1("SELECT count(*) FROM fairq.claim('long', session => '$session')"), 1, 'a lease under a session');

sub lasts
{
	my ($name) = @_;

	is( q1("SELECT count(*) FROM fairq.leases WHERE queue = 'long' AND (lease_until BETWEEN clock_timestamp() + interval '1 min' AND clock_timestamp() + interval '10 min' OR lease_until = 'infinity')"),
		2,
		"$name: leases last as long as they would have")
	  or diag(q1("SELECT *, clock_timestamp() FROM fairq.leases"));
	return;
}

sub acked_are_removed
{
	my ($name) = @_;

	q1("SELECT fairq.enqueue('long', '3')");
	is(q1("SELECT fairq.ack(receipt) FROM fairq.claim('long')"), 't', "$name: acked");
	ok(wait_for(sub { q1('SELECT count(*) FROM fairq.done_long') eq '0' }, $soon),
		"$name: the archive is cleared");
	return;
}

sub rate_goes_on
{
	my ($name) = @_;
	my $got = 0;

	q1("SELECT fairq.purge('rate'), count(fairq.enqueue('rate', '1', 'g')) FROM generate_series(1, 30)");
	ok(wait_for(sub { ($got += q1("SELECT count(fairq.ack(receipt)) FROM fairq.claim('rate', 30)")) == 30 }, $soon),
		"$name: a rate goes on")
	  or diag("$got of 30");
	return;
}

# An hour forward
rate_goes_on('at first');
q1("SELECT fairq.enqueue('c', '1', run_at => clock_timestamp() + interval '30 min')");
sleeps();
set_clock(3600);
ok(wait_for(sub { q1("SELECT count(*) FROM fairq.tasks('c', 'ready')") eq '1' }, $soon), 'forward: a task of half an hour is ready');
q1("SELECT fairq.purge('c')");
lasts('forward');
is(q1("SELECT fairq.heartbeat('$session')"), 't', 'forward: a heartbeat is good');
claim_second('forward');
expires('forward: a lease of a second');
rate_goes_on('forward');
acked_are_removed('forward');

# And back
claim_second('back, before');
my $waiting = session($node);
$waiting->send("SELECT count(*) AS waited FROM fairq.claim('rate', wait => '4 s')");
ok(wait_event_of($node, 'Extension', "query LIKE '%AS waited%'"), 'somebody waits');
q1("SELECT fairq.maintain('c')");
set_clock(0);
expires('back: a lease of a second of before');
ok(wait_for(sub { q1("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%AS waited%' AND pid <> pg_backend_pid()") eq '0' }, $soon),
	'back: who waits has an end');
claim_second('back');
expires('back: a lease of a second');
lasts('back');
is(q1("SELECT fairq.heartbeat('$session')"), 't', 'back: a heartbeat is good');
rate_goes_on('back');
acked_are_removed('back');
q1("SELECT fairq.enqueue('c', '1', run_at => clock_timestamp() + interval '1 s')");
ok(wait_for(sub { q1("SELECT count(*) FROM fairq.tasks('c', 'ready')") eq '1' }, $soon), 'back: a task of a second is ready');
q1("SELECT fairq.purge('c')");

# Who comes first after a step, before the worker has looked
set_clock(3600);
is(q1("SELECT fairq.heartbeat('$session')"), 't', 'forward again: a heartbeat is good at once');
is(q1("SELECT fairq.ack('$receipt')"), 't', 'a receipt is good through all of it');
$waiting->quit;

# Without a worker
set_clock(0);
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
$node->stop;
start_with_clock($node);

sub comes_again
{
	my ($name) = @_;

	q1("SELECT fairq.enqueue('c', '1')");
	is(q1("SELECT attempt FROM fairq.claim('c')"), 1, "$name: claimed");
	ok(wait_for(sub { q1("SELECT attempt FROM fairq.claim('c')") eq '2' }, $soon), "$name: comes again");
	q1("SELECT fairq.cancel('c', id) FROM fairq.tasks('c')");
	return;
}
comes_again('no worker');
set_clock(3600);
comes_again('no worker, forward');
set_clock(0);
comes_again('no worker, back');

$node->stop;
done_testing();
