# Durable leases: they survive a crash and a failover, and their receipts are
# good afterwards.
#
# Shown, for an immediate stop, a postmaster killed with signal 9 and a backend
# killed with signal 9, with a queue that has durable leases and one that has
# not side by side, and for a standby that is promoted: no second delivery before
# the deadline (I2), each receipt acks once (I3), also at the same time; extend,
# nack and release know it; what ran out meanwhile comes back with its attempt
# counted (I8); a claim or a settlement that was not committed is as if it had not
# been (I9).  Of the queue without, tasks are delivered again and receipts are
# void.  And that leases of many at random are what they were told.
#
# To see it fail, take one of these guards out of the engine:
# - restore_row() has the group count the lease: more are in flight than may be;
# - look_after_state() restores the leases of a queue before it is used: tasks
#   that are leased are claimed again;
# - settle_receipt() looks for receipts of before (find_restored): they are
#   void; if it does so among the restored alone, those of a queue that nobody
#   has opened are;
# - a claim that lacks restored leases for want of room is refused
#   (durable_leases_require): tasks are claimed twice;
# - durable_leases_write() is called before the claim ends: all of it;
# - settle() deletes the row: what was acked comes back as a lease;
# - durable_leases_extend(): a lease has its old deadline after the crash;
# - form_row() writes when the claim began: a task that came later is delivered
#   again;
# - restore nothing while RecoveryInProgress(): leases that the standby saw are
#   there after the promotion, though they have ended.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node(
	'durable',
	init => { allows_streaming => 1 },
	conf => <<'CONF');
restart_after_crash = on
pgfairq.max_leases = 5000
CONF

# A queue with tasks a1 to a<n>.
my $setup = <<'SQL';
CREATE FUNCTION fill(q text, n int, durable bool) RETURNS void LANGUAGE sql AS $$
	SELECT fairq.drop_queue(q);
	SELECT fairq.create_queue(q, buckets => 1, lease => '1 h', backoff_base => '0', durable_leases => durable);
	SELECT count(fairq.enqueue(q, to_jsonb('a' || i))) FROM generate_series(1, n) i;
$$;
SQL
sql($node, $setup);

# Claim, and answer the receipts by payload.
sub claim
{
	my ($on, $q, $n, $options) = @_;

	$options //= "lease => '1 h'";
	return map { $_->[0] => $_->[1] }
	  rows($on, "SELECT payload #>> '{}', receipt FROM fairq.claim('$q', $n, $options)");
}

# What state a queue's tasks are in.
sub tasks
{
	my ($on, $q) = @_;

	return sql($on,
		"SELECT string_agg((payload #>> '{}') || ' ' || state || CASE WHEN attempts > 0 THEN attempts::text ELSE '' END, ', ' ORDER BY id) FROM fairq.tasks('$q')"
	);
}

# The receipts of tasks, to compare.
sub receipts
{
	my ($on, $q) = @_;

	return sql($on,
		"SELECT string_agg(t.payload #>> '{}' || ' ' || receipt, ', ' ORDER BY t.id) FROM fairq.leases l JOIN fairq.tasks('$q') t USING (id) WHERE l.queue = '$q' AND l.lease_until > now()"
	);
}

# Time goes on whatever we do: let it come to what a lease's deadline was.
sub wait_until
{
	my ($deadline) = @_;

	ok(wait_for(sub { time() > $deadline }, 60), 'time has come');
	return;
}

sub crash_backend
{
	my $session = session($node);

	crash_of($node, $session->pid);
	return wait_for_crash_restart($node);
}

my %ways = (
	'immediate stop' => sub { $node->stop('immediate'); $_[0]->(); return $node->start },
	'postmaster killed' => sub { $node->kill9; $_[0]->(); return start_after_kill($node) },
	'backend killed' => sub { my $good = crash_backend(); $_[0]->(); return $good },);

# One lease that lives through all of them.
sql($node, "SELECT fill('long', 1, true)");
my %long = claim($node, 'long', 1, "lease => '10 h'");

foreach my $way ('immediate stop', 'postmaster killed', 'backend killed')
{
	sql($node, "SELECT fill('d', 14, true), fill('p', 5, false)");
	my %d = claim($node, 'd', 7);
	my %p = claim($node, 'p', 3);

	is(sql($node, "SELECT fairq.ack('$d{a7}')"), 't', "$way: one is acked before");
	is( sql($node, "SELECT fairq.extend('$d{a6}', '5 h') > now() + interval '4 h'"),
		't', "$way: one is extended before");
	my $before = receipts($node, 'd');
	# a8: one that is going to run out after the server has stopped.  a9: one of a session.
	my %r = claim($node, 'd', 1);
	my $session = sql($node, "SELECT fairq.open_session('w', '1 h')");
	my %s = claim($node, 'd', 1, "session => '$session'");
	# Under way: a10 to a12 claimed, a1 acked and a2 given a new deadline.
	my $open = session($node);
	$open->safe('BEGIN');
	$open->safe("SELECT count(*) FROM fairq.claim('d', 3, lease => '7 h')");
	is($open->safe("SELECT fairq.ack('$d{a1}'), fairq.extend('$d{a2}', '7 h') > now()"),
		't|t', "$way: settled in a transaction that is open");

	# It must not run out before: then it counts as lost.
	my $deadline = sql($node, "SELECT extract(epoch FROM fairq.extend('$r{a8}', '4 s'))");
	ok($ways{$way}->(sub { wait_until($deadline) }), "$way: the server is up again");

	# New leases take the entries that the old ones had.
	is(join(' ', sort keys %{ { claim($node, 'p', 10) } }),
		'a1 a2 a3 a4 a5', "$way: without durable leases all is delivered again");
	is(sql($node, "SELECT fairq.ack('$p{a1}'), fairq.extend('$p{a2}') IS NULL, fairq.release('$p{a3}')"),
		'f|t|f', "$way: and receipts are void");

	is(receipts($node, 'd'), $before, "$way: durable leases live, and have their receipts");
	ok( wait_for(sub { tasks($node, 'd') eq join(', ', (map { "a$_ leased" } 1 .. 6), 'a8 ready', 'a9 ready', map { "a$_ ready" } 10 .. 14) }, 30),
		"$way: what ran out, or was a session's, comes back")
	  or diag(tasks($node, 'd'));
	is(sql($node, "SELECT count(*) FROM fairq.tasks('d') WHERE attempts + lost > 0 OR last_error IS NOT NULL OR history IS NOT NULL"),
		0, "$way: as it was, for no worker has lost it");
	is(sql($node, "SELECT fairq.ack('$s{a9}'), fairq.heartbeat('$session')"),
		'f|f', "$way: the session is over, and so are its receipts");
	is( sql($node, "SELECT count(*) FROM fairq.leases WHERE queue = 'd' AND lease_until > now() + interval '4 h'"),
		1, "$way: a deadline that was moved is where it was moved to, if that was committed");

	# One receipt: it has to be right in every bit but those that name the node,
	# and is good once.
	my $changed = 0;
	foreach my $bit (0 .. 31, 48 .. 127)
	{
		(my $hex = $d{a1}) =~ tr/-//d;
		my $bytes = pack 'H*', $hex;
		vec($bytes, $bit, 1) ^= 1;
		my $other = unpack 'H*', $bytes;
		$changed += sql($node, "SELECT fairq.ack('$other')") ne 'f' if $bit % 5 == 0 || $way eq 'immediate stop';
	}
	is($changed, 0, "$way: a receipt that is wrong in one bit is no receipt");
	my $other = session($node);
	$open = session($node);
	$open->safe('BEGIN');
	is($open->safe("SELECT fairq.ack('$d{a1}')"), 't', "$way: an old receipt acks");
	is($other->safe("SELECT fairq.ack('$d{a1}')"), 'f', "$way: not twice at the same time");
	$open->safe('ROLLBACK');
	is($other->safe("SELECT fairq.ack('$d{a1}')"), 't', "$way: the other may if that is rolled back");
	is($open->safe("SELECT fairq.ack('$d{a1}')"), 'f', "$way: and then nobody may");
	$_->quit foreach $open, $other;
	is( sql($node,
			"SELECT fairq.extend('$d{a2}', '3 h') > now() + interval '2 h', fairq.nack('$d{a3}', 'no', '0'), fairq.release('$d{a4}'), fairq.cancel('d', 5)"
		),
		't|t|t|t', "$way: extend, nack, release, cancel");
	is( sql($node, "SELECT fairq.nack('$d{a3}'), fairq.release('$d{a4}'), fairq.ack('$d{a5}'), fairq.ack('$d{a7}')"),
		'f|f|f|f', "$way: once");
	is(join(' ', sort keys %{ { claim($node, 'd', 20) } }),
		'a10 a11 a12 a13 a14 a3 a4 a8 a9', "$way: claims get what is not leased");
	is(sql($node, "SELECT count(*) FROM fairq.durable_lease WHERE queue = 'fairq.q_d'::regclass"),
		11, "$way: each lease has its row, and no more");
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'd'"),
		11, "$way: all is acked in the end");
	is(sql($node, "SELECT count(*) FROM fairq.durable_lease WHERE queue = 'fairq.q_d'::regclass"),
		0, "$way: no row is left");
}
$node->stop('fast');
$node->start;
is(receipts($node, 'long'), "a1 $long{a1}", 'one lease has lived through it all, and a clean restart');
is(sql($node, "SELECT fairq.ack('$long{a1}')"), 't', 'and its receipt is good');
is(sql($node, "SELECT fairq.ack('$long{a1}')"), 'f', 'once');

#
# Clean restarts: the leases of the file and those of the rows are the same
#
sql($node, "SELECT fill('d', 5, true)");
my %d = claim($node, 'd', 3);
my $session = sql($node, "SELECT fairq.open_session('w', '1 h')");
%d = (%d, claim($node, 'd', 1, "session => '$session'"));
my $open = session($node);
$open->safe('BEGIN');
is($open->safe("SELECT fairq.ack('$d{a1}')"), 't', 'clean restart: an ack is under way');
$node->stop('fast');
$node->start;
is(tasks($node, 'd'), 'a1 leased, a2 leased, a3 leased, a4 leased, a5 ready',
	'clean restart: all leases are there, that of the session, too');
is(sql($node, "SELECT count(*) FROM fairq.leases WHERE queue = 'd'"), 4, 'clean restart: once');
is(sql($node, join ';', map { "SELECT fairq.ack('$d{$_}')" } qw(a1 a2 a3 a4 a1 a4)),
	"t\nt\nt\nt\nf\nf", 'clean restart: their receipts are good once');
is(sql($node, 'SELECT count(*) FROM fairq.durable_lease'), 0, 'clean restart: no row is left');

#
# Without anybody working in the background: whoever comes first
#
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
my %firsts = (
	'an ack' => [ "SELECT fairq.ack('%s')", 't' ],
	'an ack in vain' => [ "SELECT fairq.ack('00000001-0000-8000-8000-000000000001')", 'f' ],
	'a nack' => [ "SELECT fairq.nack('%s', delay => '1 h')", 't' ],
	'an extend' => [ "SELECT fairq.extend('%s') > now()", 't' ],
	'a release of many' => [ "SELECT count(*) FROM fairq.release_many(ARRAY['%s']::uuid[])", 1 ],
	'a claim' => [ "SELECT string_agg(payload #>> '{}', ' ') FROM fairq.claim('d', 5)", 'a4 a5' ],
	'a claim of a group' =>
	  [ "SELECT count(*) FROM fairq.claim('d', 5, group_keys => '{\"\"}')", 2 ],
	'a pop' => [ "SELECT string_agg(payload #>> '{}', ' ') FROM fairq.pop('d', 5)", 'a4 a5' ],
	'ack_and_claim' =>
	  [ "SELECT string_agg(payload #>> '{}', ' ') FROM fairq.ack_and_claim('d', ARRAY['%s']::uuid[], 5)", 'a4 a5' ],
	'a purge' => [ "SELECT fairq.purge('d')", 2 ],
	'a cancel' => [ "SELECT fairq.cancel('d', 1)", 't' ],
	'maintain' => [ "SELECT fairq.maintain('d')", 0 ],
	'a look at tasks' => [ "SELECT count(*) FROM fairq.tasks('d', 'leased')", 3 ],
	'a look at a task' => [ "SELECT state FROM fairq.get_task('d', 1)", 'leased' ],
	'a peek' => [ "SELECT count(*) FROM fairq.peek('d')", 2 ],
	'a look at the figures' => [ "SELECT ready, leased FROM fairq.queue_stats WHERE queue = 'd'", '2|3' ],
	'a look at the leases' => [ "SELECT count(*) FROM fairq.leases WHERE queue = 'd'", 3 ],
	'SQL' => [ "DELETE FROM fairq.q_d WHERE id = 1 RETURNING payload #>> '{}'", 'a1' ],);
foreach my $first (sort keys %firsts)
{
	sql($node, "SELECT fill('d', 5, true), fill('p', 5, false)");
	%d = claim($node, 'd', 3);
	$node->stop('immediate');
	$node->start;
	sql($node, "SELECT count(*) FROM fairq.claim('p', 5)");
	is(sql($node, sprintf($firsts{$first}[0], $d{a1})),
		$firsts{$first}[1], "first after a crash comes $first");
	is(sql($node, "SELECT fairq.ack('$d{a2}'), fairq.ack('$d{a3}')"), 't|t', "$first: receipts are good");
	is(sql($node, "SELECT count(*) FROM fairq.durable_lease d WHERE NOT EXISTS (SELECT FROM fairq.leases l WHERE l.receipt = d.receipt)"),
		0, "$first: no row without a lease");
	is( sql($node, "SELECT count(*) FROM fairq.claim('d', 9) WHERE payload IN ('\"a2\"', '\"a3\"')"),
		0, "$first: what is acked does not come back");
}

#
# A group's limit counts what was restored
#
sql($node, "SELECT fill('d', 9, true), fairq.set_group_defaults('d', max_leased => 3)");
%d = claim($node, 'd', 9);
is(scalar keys %d, 3, 'a group has as many in flight as it may');
$node->stop('immediate');
$node->start;
is(sql($node, "SELECT count(*) FROM fairq.claim('d', 9)"), 0, 'after a crash, too');
is(sql($node, "SELECT fairq.ack('$d{a1}')"), 't', 'one ends');
is(sql($node, "SELECT count(*) FROM fairq.claim('d', 9)"), 1, 'and another begins');

#
# So does a unique key: what is held stays so until the task before it ends
#
sql($node, "SELECT fill('d', 0, true); SELECT fairq.enqueue('d', '\"first\"', unique_key => 'k')");
%d = claim($node, 'd', 1);
sql($node, "SELECT fairq.enqueue('d', '\"second\"', unique_key => 'k')");
$node->stop('immediate');
$node->start;
is(sql($node, "SELECT count(*) FROM fairq.claim('d', 9)"), 0, 'a task that is held behind one in flight stays held');
is(tasks($node, 'd'), 'first leased, second held', 'and says so');
is(sql($node, "SELECT fairq.ack('$d{first}')"), 't', 'the one in flight ends');
is(join(' ', keys %{ { claim($node, 'd', 9) } }), 'second', 'and the one behind it comes');

#
# A task that came while it was being claimed: its row is later than the claim
#
sql($node, "SELECT fill('d', 1, true)");
sql($node, "INSERT INTO fairq.q_d SELECT * FROM jsonb_populate_record((SELECT q FROM fairq.q_d q), jsonb_build_object('id', 2, 'payload', 'late'::text, 'enqueued_at', now() + interval '1 min'))");
%d = claim($node, 'd', 2);
is(join(' ', sort keys %d), 'a1 late', 'both are claimed');
$node->stop('immediate');
$node->start;
is(sql($node, "SELECT count(*) FROM fairq.claim('d', 9)"), 0, 'neither is delivered again after a crash');
is(sql($node, "SELECT fairq.ack('$d{a1}'), fairq.ack('$d{late}')"), 't|t', 'and both receipts are good');

#
# Fewer leases than there were
#
sql($node, "SELECT fill('d', 50, true), fill('p', 5, false)");
my %many = claim($node, 'd', 40);
$node->stop('immediate');
$node->adjust_conf('postgresql.conf', 'pgfairq.max_leases', 16);
$node->start;
refused($node, "SELECT count(*) FROM fairq.claim('d')", '53400', qr/cannot restore the leases of queue "d": there are 16 leases already/,
	qr/pgfairq\.max_leases/, 'no room for the leases: nothing is claimed');
refused($node, "SELECT fairq.purge('d')", '53400', undef, undef, 'no room for the leases: nothing is purged');
is(tasks($node, 'd') =~ tr/,//, 49, 'no room for the leases: one may look');
my %acked;
my $errors = 0;
my $void = 0;
for my $round (1 .. 10)
{
	foreach my $task (grep { !$acked{$_} } keys %many)
	{
		my ($ret, $out, $err) = answer_of($node, "SELECT fairq.ack('$many{$task}')");
		$acked{$task} = 1 if $out eq 't';
		$errors++ if $err =~ /cannot restore the leases/;
		$void++ if $out eq 'f';
	}
}
is($void, 0, 'no room for the leases: no receipt is void');
is(scalar keys %acked, 40, 'no room for the leases: as some are acked there is for the others');
cmp_ok($errors, '>', 0, 'before that their receipts are not void, but an error');
is(sql($node, "SELECT count(*), count(DISTINCT fairq.ack(receipt)) FROM fairq.claim('d', 10)"), '10|1', 'then claims go on');
$node->stop('fast');
$node->adjust_conf('postgresql.conf', 'pgfairq.max_leases', 5000);
$node->adjust_conf('postgresql.conf', 'pgfairq.max_workers', 8);
$node->start;

#
# A dump has no leases; another database has none of this one's
#
sql($node, "SELECT fill('d', 5, true)");
%d = claim($node, 'd', 3);
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'dump');
unlike(slurp_file($dump), qr/$d{a1}/, 'a dump has no receipts');
sql($node, 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
is(sql($node, "SELECT count(*) FROM fairq.durable_lease", 'restored'), 0, 'restored: no leases');
is(sql($node, "SELECT durable_leases FROM fairq.queues WHERE queue = 'd'", 'restored'), 't', 'restored: the setting');
is(sql($node, "SELECT fairq.ack('$d{a1}')", 'restored'), 'f', 'restored: no receipts');
is(sql($node, "SELECT count(*) FROM fairq.claim('d', 10)", 'restored'), 5, 'restored: all tasks are ready');
is(sql($node, 'SELECT count(*) FROM fairq.durable_lease', 'restored'), 5, 'restored: and leases durable');
$node->stop('immediate');
$node->start;
is(sql($node, "SELECT count(*) FROM fairq.tasks('d', 'leased')", 'restored'), 5, 'restored: through a crash');
is(sql($node, "SELECT fairq.ack('$d{a1}')", 'restored'), 'f', 'and no receipt of the other database is good');
is(sql($node, "SELECT fairq.ack('$d{a1}')"), 't', 'but in that database');
# A copy has the leases, but each database its own.
sql($node, 'CREATE DATABASE copied TEMPLATE postgres', 'template1');
for my $round (1, 2)
{
	$node->stop('immediate');
	$node->start;
	is(sql($node, "SELECT count(*) FROM fairq.tasks('d', 'leased')", 'copied'), 3 - $round,
		"a copied database has the leases of the other, round $round");
	is(sql($node, "SELECT count(*) FROM fairq.tasks('d', 'leased')"), 3 - $round, 'which has them still');
	is(sql($node, "SELECT fairq.ack('$d{'a' . ($round + 1)}')", 'copied'), 't', 'its receipts are good in the copy');
	is(sql($node, "SELECT fairq.ack('$d{'a' . ($round + 1)}')"), 't', 'and in the original');
}
# The worker of that database is in nobody's way.
sql($node, "DROP DATABASE copied");
sql($node, "DROP DATABASE restored");

#
# Many at random: leases are what their holders were told
#
foreach my $round (1 .. 3)
{
	my ($out, $err) = ('', '');
	sql($node, "SELECT fill('d', 3000, true)");
	my $load = IPC::Run::start(
		[ python_program('leaseholders.py'), $node->connstr('postgres'), 'd', 6, 3 ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(120));
	ok(wait_for(sub { $load->pump_nb; $out =~ /going/ }, 60), 'load is running');
	my $end = time() + 0.5 + rand(1);
	wait_for(sub { $load->pump_nb; time() > $end }, 30);
	if ($round % 2) { $node->stop('immediate') }
	else { $node->kill9 }
	$load->finish;
	is($err, '', 'nobody was told anything wrong');
	ok($round % 2 ? $node->start : start_after_kill($node), "round $round: the server is up again");

	my ($told) = $out =~ /^(\{.*\})$/m;
	$told = decode_json($told);
	my %lease =
	  map { $_->[0] => $_ } rows($node,
		"SELECT receipt, id, extract(epoch FROM lease_until)::float8 FROM fairq.leases WHERE queue = 'd'");
	my @lost = grep { !$lease{$_} || $lease{$_}[1] != $told->{held}{$_}[0] } keys %{ $told->{held} };
	is(scalar @lost, 0, "round $round: every lease that somebody holds is there")
	  or diag(join "\n", map { "$_: task $told->{held}{$_}[0]" } @lost);
	my @early = grep { $lease{$_} && ($lease{$_}[2] < $told->{held}{$_}[1] - 1e-3 || $lease{$_}[2] > $told->{held}{$_}[2] + 1e-3) } keys %{ $told->{held} };
	is(scalar @early, 0, "round $round: until when it was told");
	my @ghosts = grep { $lease{$_} } @{ $told->{over} };
	is(scalar @ghosts, 0, "round $round: none of those that were settled");
	my @unknown = grep { !$told->{held}{$_} && !$told->{tried}{$_} } keys %lease;
	cmp_ok(scalar @unknown, '<=', $told->{unknown}, "round $round: and others only where no answer came");
	note(scalar(keys %{ $told->{held} }) . " held, " . scalar(@{ $told->{over} }) . " over");

	my $held = join ',', map { "'$_'" } keys %{ $told->{held} };
	my $over = join ',', map { "'$_'" } @{ $told->{over} };
	is(sql($node, "SELECT count(*) FROM fairq.ack_many(ARRAY[$over]::uuid[])"), 0, "round $round: receipts of before are void");
	is( sql($node, "SELECT count(*) FROM fairq.ack_many(ARRAY[$held]::uuid[])"),
		scalar keys %{ $told->{held} }, "round $round: those that are held are good");
	is(sql($node, "SELECT count(*) FROM fairq.ack_many(ARRAY[$held]::uuid[])"), 0, "round $round: once");
}
$node->stop;

#
# Failover to a standby, with synchronous replication
#
my $primary = fairq_node('primary', init => { allows_streaming => 1 });
sql($primary, $setup);
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
$primary->reload;
ok(wait_for(sub { sql($primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") eq '1' }, 60),
	'replication is synchronous');

sql($primary, "SELECT fill('d', 8, true), fill('p', 4, false)");
%d = claim($primary, 'd', 5);
my %p = claim($primary, 'p', 2);
# A look at the standby shows no leases, and must not spoil them for later.
$primary->wait_for_catchup($standby, 'replay');
is(tasks($standby, 'd'), join(', ', map { "a$_ ready" } 1 .. 8), 'standby: no leases');
is(sql($standby, 'SELECT count(*) FROM fairq.leases'), 0, 'standby: none in the view');
is(sql($primary, "SELECT fairq.ack('$d{a5}'), fairq.extend('$d{a4}', '5 h') > now()"), 't|t', 'primary: leases end, and go on');
%d = (%d, claim($primary, 'd', 1));
my $deadline = sql($primary, "SELECT extract(epoch FROM lease_until) FROM fairq.claim('d', 1, lease => '1 s')");
my $before = receipts($primary, 'd');
$before =~ s/, a7 .*//;

$primary->stop('immediate');
wait_until($deadline);
$standby->promote;
is(join(' ', sort keys %{ { claim($standby, 'p', 10) } }), 'a1 a2 a3 a4', 'promoted: without durable leases all is delivered again');
is(sql($standby, "SELECT fairq.ack('$p{a1}')"), 'f', 'promoted: and receipts are void');
is(receipts($standby, 'd'), $before, 'promoted: durable leases live, and have their receipts');
ok(wait_for(sub { tasks($standby, 'd') eq 'a1 leased, a2 leased, a3 leased, a4 leased, a6 leased, a7 ready, a8 ready' }, 30),
	'promoted: what ran out comes back')
  or diag(tasks($standby, 'd'));
is(sql($standby, "SELECT count(*) FROM fairq.leases WHERE lease_until > now() + interval '4 h'"), 1, 'promoted: a deadline that was moved');
is( sql($standby, "SELECT fairq.ack('$d{a1}'), fairq.nack('$d{a2}', delay => '1 h'), fairq.release('$d{a3}'), fairq.extend('$d{a4}') > now()"),
	't|t|t|t', 'promoted: receipts are good');
is( sql($standby, "SELECT fairq.ack('$d{a1}'), fairq.nack('$d{a2}'), fairq.release('$d{a3}'), fairq.ack('$d{a5}')"),
	'f|f|f|f', 'promoted: once');
is(join(' ', sort keys %{ { claim($standby, 'd', 10) } }), 'a3 a7 a8', 'promoted: claims get what is not leased');
is(sql($standby, "SELECT fairq.ack('$d{a4}'), fairq.ack('$d{a6}')"), 't|t', 'promoted: the rest');
$standby->stop;

done_testing();
