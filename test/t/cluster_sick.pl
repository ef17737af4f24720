# A node that is sick, that is, neither there nor dead: its processes are stopped, or only
# its backends, or nobody answers at its address. Calls go on at the others, each call has
# an end, whatever ends it, and what is not known is said to be so.
#
# The nodes go on only when the tests of their sickness are over: a call that waits for
# them would wait until its statement_timeout, two minutes, or for ever.
#
# Seen to fail:
# - without the timer (enable_timeout_every() in call_limit.c): the first call at a backend
#   that hangs ends by its statement_timeout;
# - without hide_cancel(): the cancels hang in libpq, and this test with them;
# - without the verdict of the probe in cluster_nodes_closed(): the calls of new sessions
#   take two seconds each at the node that hangs, and it is tried too often;
# - without the verdict in tick(): a claim under a session at the node waits on;
# - without hang_up(): a claim that was cancelled takes a task at its node;
# - without COST_FACTOR in cluster_nodes_lost(): a listener that does not answer is tried
#   with each call;
# - without the last line of cluster_nodes_connected(): a call that waits for a lock keeps
#   the session from the node's other queues for minutes;
# - with each look repeated in node_call_look(): a long one is made twice;
# - without client_connection_check_interval in at_this_node(): a backend that was left goes
#   on with its claim.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $small = "statement_timeout = 0\nmax_connections = 40\nshared_buffers = 16MB\npgfairq.max_leases = 10000\npgfairq.max_groups = 10000\n";
my ($proxy, @nodes) = fairq_cluster(3, conf => $small, proxy => "pgfairq.node_timeout = 5s\nshared_preload_libraries = 'pgfairq'\nwal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n");
my $sick = $nodes[2];
my %stopped;

# A session finds out by itself: there is no probe here.
my $plain = fairq_proxy('plain', conf => "pgfairq.node_timeout = 5s\n");
add_node($plain, $_, $nodes[ $_ - 1 ]) for 1 .. 3;

# Stop processes, and let them go on.
sub stop
{
	my (@pids) = @_;

	kill 'STOP', @pids;
	@stopped{@pids} = ();
	return;
}

sub go_on
{
	kill 'CONT', keys %stopped;
	%stopped = ();
	return;
}

END { local $?; go_on() }

# All processes of a node, the postmaster first: it starts no others then.
sub stop_node
{
	my ($node) = @_;
	my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');

	FairqConnection::end_kept();
	stop($postmaster);
	stop(split /\s+/, `pgrep -P $postmaster`);
	return;
}

# The pid of the backend at a node that has run what is like this.
sub backend_of
{
	my ($node, $query) = @_;

	return sql($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%$query%' AND pid <> pg_backend_pid() ORDER BY state_change DESC LIMIT 1");
}

# A session that is connected to all nodes.
sub connected
{
	my ($at) = @_;
	my $session = session($at);

	$session->safe("SELECT count(*) FROM fairq.tasks('q')");
	return $session;
}

sql($proxy, "SELECT fairq.create_queue('q', lease => '1 h')");

$proxy->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($proxy, 'copy', has_streaming => 1);
$standby->start;

#
# All processes of a node are stopped
#
my @sessions = map { connected($proxy) } 1 .. 3;
my $waiter = session($proxy);
my $receipt = sql($sick, "SELECT fairq.enqueue('q', '0'); SELECT receipt FROM fairq.claim('q')") =~ s/.*\n//r;
my $own = '';
while ($own !~ /^\w+-0003-/)
{
	$own = $waiter->safe("SELECT fairq.open_session('at 3', '1 h', bound => false)");
}
$waiter->send("SELECT count(*) FROM fairq.claim('q', session => '$own', wait => '100 h')");
ok(wait_for_answer($sick, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%fairq.claim(%'"),
	'a claim waits at the node');
stop_node($sick);

my (%told, @unknown);
for my $i (1 .. 60)
{
	my $session = $sessions[ $i % 3 ];
	my $id = $session->query("SELECT fairq.enqueue('q', '$i')");

	if ($session->error eq '')
	{
		$told{$id} = $i;
		next;
	}
	push @unknown, $i;
	like($session->error, qr/ERROR:  node 3 is out of reach.*HINT:  .*whether it has taken effect is not known/s, 'a call that was under way is not known');
}
cmp_ok(scalar @unknown, '<=', 3, 'each session has one at most') or diag("@unknown");
like($waiter->ended, qr/ERROR:  node 3 is out of reach/, 'the claim that waited ends');

# What the probe has found all know, new sessions too.
is(sql($proxy, 'SELECT reachable, problem FROM fairq.nodes WHERE node = 3'), 'f|node 3 is out of reach', 'nodes says which');
for my $look ("DISTINCT missing FROM fairq.queue_stats", "DISTINCT missing FROM fairq.queues")
{
	is(sql($proxy, "SELECT $look"), '{3}', "$look: missing");
}
is(sql($proxy, "SELECT DISTINCT node, problem FROM fairq.check_cluster()"), '3|node 3 is out of reach', 'check_cluster says which');
like(sql($proxy, "SELECT node FROM fairq.worker_node('q')"), qr/^[12]$/, 'worker_node leaves it out');
is(sql($proxy, "SELECT string_agg(DISTINCT fairq.node_of_id(fairq.enqueue('q', to_jsonb(i)))::text, ' ') FROM generate_series(1, 40) i"), '1 2', 'new sessions do not go there');
refused($proxy, "SELECT fairq.ack('$receipt')", '08006', qr/^node 3 is out of reach$/, qr/Nothing was done there/, 'what is meant for it is refused');
ok(wait_for(sub { (error_of($standby, "SELECT fairq.ack('$receipt')"))[3] =~ /DETAIL:  Its server does not answer, and is not asked/ }),
	'a hot standby of the proxy has a probe, too, for new sessions');
my @error = error_of($plain, "SELECT fairq.ack('$receipt')");
like($error[3], qr/DETAIL:  It could not be connected to within 2000 ms/, 'a session without a probe tries it once');
like($error[2], qr/Nothing was done there/, 'and says what that means');
{
	my $begin = time();
	my $session = session($proxy);

	$session->query("SELECT fairq.ack('$receipt')") for 1 .. 200;
	cmp_ok(time() - $begin, '<', 60, 'at once: two hundred calls, where one that tries takes two seconds');
}

go_on();
ok(wait_for(sub { sql($proxy, "SELECT bool_and(reachable) FROM fairq.nodes") eq 't' }), 'the node goes on');
ok(wait_for(sub { $sessions[0]->safe("SELECT fairq.node_of_id(fairq.enqueue('q', '0'))") eq '3' }), 'and is used again');
is(sql($proxy, "SELECT fairq.ack('$receipt')"), 't', 'what is meant for it is done');
my %there = map { $_->[0] => $_->[1] } rows($proxy, "SELECT id, payload FROM fairq.tasks('q')");
is(join(' ', grep { !exists $there{$_} } sort keys %told), '', 'no task is lost that was told');
my %times;
$times{$_}++ for grep { $_ > 0 } values %there;
my @twice = grep { $times{$_} > 1 && $_ > 40 } keys %times;
is("@twice", '', 'and none is there twice');

# Whatever ends a call, with nothing else that would: neither probe nor limit.
my @held = map { connected($plain) } 1 .. 4;
for my $session (@held)
{
	$session->safe("SET pgfairq.node_timeout = 0; SET statement_timeout = 0; SELECT count(*) FROM fairq.tasks('q')");
}
my @pids = map { $_->pid } @held;
$receipt = sql($sick, "SELECT fairq.enqueue('q', '0'); SELECT receipt FROM fairq.claim('q', group_keys => '{}')") =~ s/.*\n//r;
($receipt) = column($sick, "SELECT receipt FROM fairq.claim('q', 1)") if $receipt !~ /-/;
stop_node($sick);
$held[0]->query("SET statement_timeout = '300ms'; SELECT fairq.extend('$receipt', '1 h')");
like($held[0]->error, qr/ERROR:  canceling statement due to statement timeout/, 'statement_timeout');
$_->send("SELECT fairq.extend('$receipt', '1 h')") for @held[ 1 .. 3 ];
for my $i (1 .. 3)
{
	ok(wait_for_answer($plain, "SELECT query LIKE '%extend%' AND state = 'active' FROM pg_stat_activity WHERE pid = $pids[$i]"), "call $i is under way");
}
sql($plain, "SELECT pg_cancel_backend($pids[1])");
like($held[1]->ended, qr/ERROR:  canceling statement due to user request/, 'pg_cancel_backend');
sql($plain, "SELECT pg_terminate_backend($pids[2])");
ok(wait_for_answer($plain, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pids[2]"), 'pg_terminate_backend');
$plain->stop('fast');
ok(1, 'and a fast shutdown of the proxy');
go_on();
$plain->start;
$_->quit for @held;

#
# Only the backend of a session is stopped
#
my $kept = connected($proxy);
$kept->safe("SELECT fairq.extend('$receipt', '1 h')");
my $hangs = backend_of($sick, 'fairq.extend(');
stop($hangs);
$kept->query("SELECT fairq.extend('$receipt', '1 h')");
like($kept->error, qr/ERROR:  node 3 is out of reach.*DETAIL:  It has not answered within 5000 ms.*HINT:  .*not known/s, 'a backend that hangs: the call ends, and is not known');
is($kept->safe("SELECT fairq.extend('$receipt', '1 h') > now()"), 't', 'the next one goes by a new connection');
is($kept->safe("SELECT DISTINCT missing FROM fairq.queue_stats"), '{}', 'and views see the node');
go_on();
ok(wait_for_answer($sick, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $hangs"), 'the backend ends when it goes on');

# The time that a call waits is its own.
$kept->safe("SET pgfairq.node_timeout = '3s'");
my $id = sql($sick, "SELECT fairq.enqueue('q', '1', delay => '1 h')");
is($kept->safe("SELECT fairq.await('q', $id, '6 s')"), $kept->safe("SELECT fairq.await('q', $id, '0 s')"), 'it may be longer than the limit');

# A claim that is cancelled takes no task at its node afterwards.
$own = '';
while ($own !~ /^\w+-0003-/)
{
	$own = $kept->safe("SELECT fairq.open_session('again at 3', '1 h', bound => false)");
}
sql($sick, "SELECT fairq.purge('q')");
my $pid = $kept->pid;
$kept->send("SELECT count(*) FROM fairq.claim('q', session => '$own', wait => '100 h')");
my $waits = "FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%fairq.claim(%' AND state = 'active'";
ok(wait_for_answer($sick, "SELECT count(*) = 1 $waits"), 'a claim waits at its node');
sql($proxy, "SELECT pg_cancel_backend($pid)");
like($kept->ended, qr/canceling statement due to user request/, 'and is cancelled');
ok(wait_for_answer($sick, "SELECT count(*) = 0 $waits"), 'it ends there');
sql($sick, "SELECT fairq.enqueue('q', '1')");
is(sql($sick, "SELECT count(*) FROM fairq.claim('q')"), 1, 'so a task that comes is there');

#
# A call waits for a lock at a node that is well
#
sql($proxy, "SELECT fairq.create_queue('locked'), fairq.create_queue('free')");
my $caller = connected($plain);
my $locker = session($sick);
$locker->safe('BEGIN; LOCK TABLE fairq.q_locked IN ACCESS EXCLUSIVE MODE');
sql($sick, "SELECT fairq.enqueue('free', '1')");
is($caller->safe("SET pgfairq.node_timeout = '12s'; SELECT count(*) FROM fairq.claim('locked')"), 0, 'a claim is given up at a node where a table is locked');
ok(wait_for(sub { $caller->safe("SELECT count(*) FROM fairq.claim('free')") eq '1' }), 'and claims of another queue come back to the node');

# A look that may take long is not made twice: its time is what the caller waits for.
sql($sick, "ALTER SYSTEM SET log_statement = 'all'");
$sick->reload;
ok(wait_for(sub { sql($sick, 'SHOW log_statement') eq 'all' }), 'statements are logged');
$caller = connected($plain);
my $log = -s $sick->logfile;
$caller->query("SET pgfairq.node_timeout = '50ms'; SELECT count(*) FROM fairq.tasks('locked')");
like($caller->error, qr/WARNING:  nodes? .*3.* out of reach/, 'a long look is given up');
my $looks = () = slurp_file($sick->logfile, $log) =~ /fairq\.tasks\(/g;
is($looks, 1, 'and is not repeated');
sql($sick, 'ALTER SYSTEM RESET log_statement');
$sick->reload;
$locker->quit;

#
# Somebody takes connections and does not answer
#
{
	my $directory = PostgreSQL::Test::Utils::tempdir_short();
	my $tries = "$directory/tries";
	my $listener = IO::Socket::UNIX->new(Local => "$directory/.s.PGSQL.5999", Listen => 100) or die "no socket: $!";
	my $child = fork;

	if (!$child)
	{
		my @open;
		while (my $connection = $listener->accept)
		{
			# that of the probe asks for nothing but encryption
			sysread $connection, my $packet, 8;
			append_to_file($tries, 'x') if unpack('N', substr $packet, 0, 4) > 8;
			push @open, $connection;
		}
		POSIX::_exit(0);
	}
	close $listener;
	append_to_file($tries, '');
	for my $at ($plain, $proxy)
	{
		my $name = $at == $plain ? 'without a probe' : 'with a probe';
		my $session = session($at);

		sql($at, "INSERT INTO fairq.node VALUES (9, 9, 'host=$directory port=5999 dbname=postgres')");
		is($session->safe("SELECT count(fairq.enqueue('q', '1')) FROM generate_series(1, 200)"), 200, "$name: beside a server that does not answer");
		ok(wait_for(sub { $session->query("SELECT DISTINCT missing FROM fairq.queue_stats") eq '{9}' }), "$name: views say which");
		my $before = length slurp_file($tries);
		$session->query("SELECT DISTINCT missing FROM fairq.queue_stats") for 1 .. 50;
		cmp_ok(length(slurp_file($tries)) - $before, '<=', 10, "$name: and try it seldom, where each of fifty could");
		sql($at, "DELETE FROM fairq.node WHERE node = 9");
	}
	kill 'KILL', $child;
	waitpid $child, 0;
}

done_testing();
