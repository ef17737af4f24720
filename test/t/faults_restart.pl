# Leases and sessions across restarts of the server.
#
# A clean shutdown keeps them; a crash, an immediate shutdown and a damaged file
# do not, and the tasks are delivered again.  Seen to fail without the guard:
# lease_file.c, save() not called (the first part), last_shutdown() always
# true (immediate shutdown), the checksum not compared (damaged file); settle.c,
# placement_begin() not called by cancel and purge (the last part);
# lease_restore.c, leases_save() without those whose session is over; stat_queues.c,
# restore_leases() not closing what it has opened (the very last part).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('restart');
my $file = $node->data_dir . '/pg_stat/pgfairq.leases';

sql($node, "SELECT fairq.create_queue('r', backoff_base => '0')");

# Five tasks, of which four are leased: by a session, by a bound one, for an
# hour, and for a moment.
sub fill
{
	sql($node, "SELECT fairq.purge('r')");
	sql($node, "SELECT count(fairq.enqueue('r', to_jsonb(i))) FROM generate_series(1, 5) i");
	my $session = sql($node, "SELECT fairq.open_session('w', '1 h')");
	sql($node, "SELECT id FROM fairq.claim('r', session => '$session')");
	sql($node, "SELECT id FROM fairq.claim('r', session => fairq.open_session('b', '1 h', true))");
	my $hour = sql($node, "SELECT receipt FROM fairq.claim('r', lease => '1 h')");
	sql($node, "SELECT id FROM fairq.claim('r', lease => '10 ms')");
	return ($session, $hour);
}

sub leased
{
	return sql($node,
		"SELECT count(*) FROM fairq.leases WHERE queue = 'r' AND state = 'held' AND lease_until > now()");
}

# Clean: fast and smart
for my $mode ('fast', 'smart')
{
	my ($session, $hour) = fill();

	$node->stop($mode);
	ok(-e $file, "$mode shutdown: the file is written");
	$node->start;
	ok(!-e $file, "$mode shutdown: it is read once, and removed");
	is(leased(), 2, "$mode shutdown: the leases of the session and of the hour live");
	is(sql($node, "SELECT name FROM fairq.sessions"), 'w',
		"$mode shutdown: so does the session, but not the bound one");
	is(sql($node, "SELECT fairq.heartbeat('$session')"), 't',
		"$mode shutdown: it has its heartbeat");
	is(sql($node, "SELECT fairq.ack('$hour')"), 't',
		"$mode shutdown: a receipt of before is good");
	is(sql($node, "SELECT fairq.ack('$hour')"), 'f', "$mode shutdown: once");
	ok( wait_for(
			sub { sql($node, "SELECT count(*) FROM fairq.tasks('r', 'ready')") eq '3' }, 30),
		"$mode shutdown: what was leased to a connection or ran out is ready");
	# Both may have been put back before the shutdown, as lost.
	is( sql($node, "SELECT string_agg(attempts::text, ' '), sum(lost) <= 2 FROM fairq.tasks('r', 'ready')"),
		'0 0 0|t', "$mode shutdown: none of it was an attempt");
	is(sql($node, "SELECT fairq.close_session('$session')"), 1,
		"$mode shutdown: the session gives its lease back");
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('r', 10)"), 4,
		"$mode shutdown: nothing is lost, nothing doubled");
}

# A session that is over when the server is shut down, before its task is put
# back: the lock keeps the worker from it, and no claim.
{
	sql($node, "SELECT count(fairq.enqueue('r', to_jsonb(i))) FROM generate_series(1, 2) i");
	my $lock = session($node);
	$lock->safe('BEGIN; LOCK TABLE fairq.q_r IN SHARE MODE');
	my $bound = session($node);
	is( $bound->safe("SELECT count(*) FROM fairq.claim('r', session => fairq.open_session('b', '1 h', true))"),
		1, 'session over at shutdown: a bound one has a task');
	$bound->quit;
	is( sql($node, "SELECT count(*) FROM fairq.claim('r', session => fairq.open_session('t', '2 s'))"),
		1, 'session over at shutdown: so has one of two seconds');
	ok( wait_for(sub { sql($node, 'SELECT count(*) FROM fairq.sessions WHERE alive_until > clock_timestamp()') eq '0' }, 30),
		'session over at shutdown: both are');
	is(sql($node, "SELECT string_agg(attempts::text, ' ') FROM fairq.q_r"), '0 0',
		'session over at shutdown: nothing is put back yet');
	$node->stop('fast');
	$node->start;
	ok( wait_for(
			sub { sql($node, "SELECT string_agg(state || ' ' || attempts || ' ' || lost, ', ') FROM fairq.tasks('r')") eq 'ready 0 0, ready 0 0' },
			30),
		'session over at shutdown: they are put back as they were, for the shutdown came first')
	  or diag(sql($node, "SELECT state, attempts, lost, last_error FROM fairq.tasks('r')"));
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('r', 10)"), 2,
		'session over at shutdown: nothing is lost, nothing doubled');
}

# Not clean
my ($session, $hour) = fill();
my $open = session($node);
$open->safe('BEGIN');
is($open->safe("SELECT count(*) FROM fairq.claim('r', lease => '10 h')"), 1,
	'a claim is under way');
$node->stop('immediate');
ok(!-e $file, 'immediate shutdown: no file');
$node->start;
is(leased(), 0, 'immediate shutdown: leases are forgotten');
is(sql($node, "SELECT fairq.ack('$hour')"), 'f', 'immediate shutdown: receipts are void');
is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('r', 10)"), 5,
	'immediate shutdown: all tasks are delivered again');

# Damaged, cut off, of another version: never trusted
for my $damage ('a bit flipped', 'cut off', 'another version', 'empty')
{
	fill();
	$node->stop('fast');
	my $content = slurp_file($file);
	substr($content, length($content) - 20, 1) ^= "\x01" if $damage eq 'a bit flipped';
	$content = substr($content, 0, length($content) - 1) if $damage eq 'cut off';
	substr($content, 0, 1) ^= "\x01" if $damage eq 'another version';
	$content = '' if $damage eq 'empty';
	open my $out, '>:raw', $file or die "$file: $!";
	print $out $content;
	close $out;
	$node->start;
	ok(!-e $file, "$damage: the file is removed");
	is(leased(), 0, "$damage: it is not used");
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('r', 10)"), 5,
		"$damage: all tasks are delivered again");
}

# What is removed while the groups are not known yet, and read in the same
# transaction: they have room.
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
sql($node, "SELECT fairq.create_queue('room', max_ready_per_group => 1)");
foreach my $script (
	"SELECT fairq.cancel('room', id) FROM fairq.tasks('room')",
	"BEGIN; SELECT fairq.purge_group('room', 'a'); SELECT fairq.enqueue('room', '1', 'b'); COMMIT")
{
	sql($node, "SELECT fairq.enqueue('room', '1', 'a', unique_key => 'k')");
	$node->restart;
	sql($node, $script);
	sql($node, "SELECT fairq.enqueue('room', '1', 'a')");
	is(sql($node, "SELECT state FROM fairq.tasks('room', group_key => 'a')"), 'ready', "there is room after: $script");
	sql($node, "SELECT fairq.purge('room')");
}

# The view of leases is the first to open a queue, and keeps nothing open.
$node->restart;
my $said;
$node->psql('postgres', 'SELECT count(*) FROM fairq.leases', stderr => \$said, on_error_die => 1);
is($said, '', 'the first look after a restart is without a warning');

$node->stop;
done_testing();
