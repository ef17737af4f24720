# Exactly-once results with workers that are paused.
#
# A worker that is stopped with SIGSTOP (a laptop that is closed, a virtual
# machine that is moved) past the end of its session does not know that others
# have its tasks, and goes on with SIGCONT where it was: it writes its result and
# acknowledges, in one transaction.  The ack answers false, it rolls back, and
# nothing is written.  So each task has one result, however workers are paused
# (I2, I3); and nobody waits for the paused one (I8).
#
# That this shows something is shown by workers that commit without looking at
# the answer: with them some tasks have two results.
#
# To see it fail, take one of these guards out of the engine:
# - the token that tells a lease from the next one in the same place: the ack of
#   the resumed worker finishes somebody else's task;
# - that a receipt is no good once its session is over: see the part with the
#   paused background worker;
# - that sessions that are over have their leases ended: nobody else does their
#   tasks;
# - that a session is looked at when its lease begins: see the claim that waits.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FaultLoad;
use PostgreSQL::Test::Utils;
use Test::More;

# How long after the end of its session a task is in somebody's hands again: I8
# says a second.  The rest is for a machine that has other things to do, which may
# keep one of them for longer, but not half of them.
my $again = 1 + 2;
my $last = 10;

my $node = fairq_node('paused', conf => <<'CONF');
max_connections = 30
shared_buffers = 32MB
CONF

# A claim that has to wait, for the queue's table here, until its session is over.
# It must not get a lease that nobody ends any more, or that a session of others
# takes over.
sql($node, "SELECT fairq.create_queue('locked'); SELECT fairq.enqueue('locked', '1')");
{
	my ($owner, $worker) = map { session($node) } 1 .. 2;

	$owner->safe('BEGIN; LOCK TABLE fairq.q_locked');
	my $pid = $worker->pid;
	my $session = $worker->safe("SELECT fairq.open_session('late', '5 s')");
	$worker->send("SELECT id FROM fairq.claim('locked', session => '$session')");
	ok(wait_event_of($node, 'Lock', "pid = $pid"), 'a claim waits');
	ok(wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.sessions') eq '0' }), 'its session is over, and forgotten');
	$owner->safe('COMMIT');
	$worker->query('SELECT 1');
	like($worker->error, qr/the session is over/, 'the claim is refused');
	is(sql($node, "SELECT fairq.open_session('next') IS NOT NULL; SELECT fairq.ack(receipt) FROM fairq.leases"), 't', 'there is no lease');
	is(sql($node, "SELECT attempt FROM fairq.claim('locked')"), 1, 'others have the task');
	$_->quit foreach $owner, $worker;
}

# The background worker is paused itself, so nobody has put back the tasks of a
# session that is over. Its receipts are lost all the same.
sql($node, "SELECT fairq.create_queue('asleep', backoff_base => '0'); SELECT fairq.enqueue('asleep', '1')");
{
	ok(wait_event_of($node, 'Extension', "backend_type = 'pgfairq worker'"), 'the background worker is asleep');
	my $pid = worker_pid($node);
	kill 'STOP', $pid;
	my ($session, $receipt) = split /\n/, sql($node, <<'SQL');
SELECT fairq.open_session('paused', '3 s') AS session \gset
SELECT :'session';
SELECT receipt FROM fairq.claim('asleep', session => :'session');
SQL
	my $over = wait_for(sub { sql($node, "SELECT count(*) FROM fairq.sessions WHERE alive_until > clock_timestamp()") eq '0' }, 60);
	my $heartbeat = sql($node, "SELECT fairq.heartbeat('$session')");
	my $leases = sql($node, "SELECT count(*) FROM fairq.leases WHERE queue = 'asleep'");
	my $ack = sql($node, "SELECT fairq.ack('$receipt')");
	my $extend = sql($node, "SELECT fairq.extend('$receipt') IS NULL");
	kill 'CONT', $pid;
	ok($over, 'the session is over');
	is("$heartbeat $leases", 'f 1', 'it cannot be kept alive any more, and its lease is still there');
	is("$ack $extend", 'f t', 'but its receipt acknowledges nothing, and extends nothing');
	ok( wait_for(sub { sql($node, "SELECT state || lost FROM fairq.tasks('asleep')") eq 'ready1' }, 20),
		'the task is put back when the background worker goes on');
}

my $workers = 'producer,producer,session,session,session,session,lease,lease';
my $load = FaultLoad->new($node->connstr('postgres'), '--clients' => $workers);

# For long enough that others have their tasks when they go on, and about as
# long as the session lasts: the resumed worker and the end of its session meet.
# Sessions last one second.
foreach my $pause ([ session => 2.5 ], [ session => 0.9 ], [ session => 0.97 ], [ session => 1.0 ], [ lease => 2.5 ],
	[ session => 1.03 ], [ session => 1.1 ], [ session => 1.2 ], [ session => 2.5 ])
{
	my ($kind, $seconds) = @$pause;

	is($load->command('progress 20'), 'done', 'tasks are acknowledged');
	is($load->command("pause $kind $seconds 2"), 'paused', "two workers are paused for $seconds s");
}
my $r = $load->finish('paused');
cmp_ok($r->{'acks refused'}, '>', 0, "paused: $r->{'acks refused'} results were rolled back because the ack answered false");
cmp_ok($r->{paused}, '>', 0, "paused: $r->{paused} tasks were in the hands of the paused");
is($r->{paused_never}, 0, 'paused: all of them were done by others');
cmp_ok($r->{paused_median}, '<=', $again, 'paused: half of them in time');
cmp_ok($r->{paused_last}, '<=', $last,
	"paused: they are in others' hands after $r->{paused_median} s (median), $r->{paused_last} s (last)");
is($r->{paused_uncounted}, 0, 'paused: the attempt is counted');

# With workers that do not look at the answer.
$load = FaultLoad->new($node->connstr('postgres'), '--clients' => $workers, '--careless');
# Not each of those that are paused has passed its last look by then.
foreach (1 .. 6)
{
	is($load->command('progress 20'), 'done', 'careless workers: tasks are acknowledged');
	is($load->command('pause session 2.5 3'), 'paused', 'careless workers are paused');
}
$r = $load->finish('careless workers', doubled => 1);
my ($twice) = @{ $r->{wrong}{doubled} };
cmp_ok($twice, '>', 0, "careless workers: $twice tasks have two results");

$node->stop;
done_testing();
