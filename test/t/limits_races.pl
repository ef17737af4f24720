# Limits under fire: eight groups, most of which may have one task at a time, and twelve
# clients that claim as fast as they can, and end what they have in every way there is,
# while one of the groups is paused and resumed all the time, and limits change.
#
# Shown: of a group that may have one task nobody ever has another; whatever ended a lease,
# in whichever moment, its group goes on; each task is done once.
#
# Seen to fail without these guards:
# - the limit is asked once more, under its lock, before the line of what was parked is
#   blocked (limit_room_block): groups stand still at once;
# - a limit knows which lines are blocked (block, in limit_room.c): so, too;
# - the look for room and the block are under one lock (limit_room_reserve): with that let go
#   in between, and a pause of 20 us there. Without the pause two runs did not meet it;
# - take_over() gives up what was kept for the task itself, with a pause of 1 ms before it.
#   (So it was found, without the pause, on a loaded machine.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{FAIRQ_HAMMER_SECONDS} // 10;
my $node = fairq_node('races', conf => "max_connections = 60\nsynchronous_commit = off\n");

sql($node, <<'SQL');
SELECT fairq.create_queue('q', max_attempts => 0, max_lost => 0, backoff_base => '0', buckets => 3, max_ready_per_group => 5);
CREATE TABLE two (group_key text, way text);
CREATE TABLE done (id bigint PRIMARY KEY, way text);

-- Claims, sees that nobody else has a task of these groups, and ends what it has.
CREATE PROCEDURE work(n int, way text, keys text[]) LANGUAGE plpgsql AS $$
DECLARE
	tasks bigint[];
	receipts uuid[];
	groups text[];
	session uuid;
BEGIN
	IF way = 'session' THEN
		session := fairq.open_session(ttl => '1 h');
		COMMIT;
	END IF;
	IF way = 'savepoint' THEN
		BEGIN
			PERFORM 1 / (id - id) FROM fairq.claim('q', n);
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	ELSIF way = 'pop' THEN
		SELECT array_agg(id), array_agg(group_key) INTO tasks, groups FROM fairq.pop('q', n);
	ELSE
		SELECT array_agg(id), array_agg(receipt), array_agg(group_key) INTO tasks, receipts, groups
			FROM fairq.claim('q', n, lease => CASE way WHEN 'expire' THEN interval '1 ms' WHEN 'session' THEN NULL ELSE '1 h' END,
				group_keys => keys, session => session);
	END IF;
	IF way NOT IN ('rollback', 'pop') THEN
		COMMIT;
	END IF;
	FOR i IN 1 .. coalesce(cardinality(groups), 0) LOOP
		CONTINUE WHEN way = 'expire' OR groups[i] !~ '^one';
		IF NOT pg_try_advisory_lock(hashtext(groups[i])) THEN
			INSERT INTO two VALUES (groups[i], way);
		END IF;
	END LOOP;
	PERFORM pg_advisory_unlock_all();
	CASE way
		WHEN 'ack' THEN
			INSERT INTO done SELECT t, way FROM unnest(tasks, receipts) u (t, r) WHERE fairq.ack(r);
		WHEN 'nack' THEN
			PERFORM fairq.nack(r, delay => '0') FROM unnest(receipts) r;
		WHEN 'release' THEN
			PERFORM fairq.release(r) FROM unnest(receipts) r;
		WHEN 'cancel' THEN
			INSERT INTO done SELECT t, way FROM unnest(tasks) t WHERE fairq.cancel('q', t);
		WHEN 'pop' THEN
			INSERT INTO done SELECT t, way FROM unnest(tasks) t;
		WHEN 'session' THEN
			PERFORM fairq.close_session(session);
		WHEN 'rollback' THEN
			ROLLBACK;
		ELSE
			NULL;
	END CASE;
	COMMIT;
END $$;
SQL

my %groups = map { $_ => 0 } map({ "one$_" } 1 .. 5), 'changes', 'stops', 'rate';
my $produced = 0;

sub fill
{
	my ($n) = @_;

	sql($node, join ";\n", map { "SELECT cardinality(fairq.enqueue_many('q', array_fill('1'::jsonb, '{$n}'), group_keys => '{$_}'))" } sort keys %groups);
	# One of them in ten classes.
	sql($node, "SELECT count(*) FROM (SELECT fairq.enqueue_many('q', array_fill('1'::jsonb, ARRAY[$n / 10]), group_keys => '{classes}', priorities => ARRAY[p]) FROM generate_series(0, 9) p) x");
	$produced += $n * keys(%groups) + 10 * int($n / 10);
	return;
}
sql($node, join ";\n", map { "SELECT fairq.set_group('q', '$_', max_leased => 1)" } grep { /^one/ } keys %groups);
sql($node, "SELECT fairq.set_group('q', 'classes', max_leased => 1), fairq.set_group('q', 'changes', max_leased => 1), fairq.set_group('q', 'rate', max_leased => 1, rate => 200, burst => 1)");
fill(20_000);

# No group has a lease: each is claimed, when there is a token for it.
sub goes_on
{
	my ($when) = @_;
	my %came;
	my %has = map { $_ => 1 } column($node, 'SELECT DISTINCT group_key FROM fairq.q_q');

	# On a fast machine some have done all.
	foreach my $group (grep { !$has{$_} } 'classes', sort keys %groups)
	{
		sql($node, "SELECT fairq.enqueue('q', '1', group_key => '$group')");
		$produced++;
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for(
		sub {
			$came{$_}++ foreach column($node, "SELECT group_key FROM fairq.claim('q', 100 - " . keys(%came) . ", lease => '1 h')");
			return keys %came == 1 + keys %groups;
		},
		60);
	is(join(' ', sort keys %came), join(' ', sort 'classes', keys %groups), "$when: each group goes on");
	sql($node, "INSERT INTO done SELECT id, 'between' FROM (SELECT id, fairq.ack(receipt) AS acked FROM fairq.leases) l WHERE acked");
	return;
}

# Claims and acks as short as can be: leases end while others find their groups at the limit.
run_pgbench($node, { ack => "WITH c AS MATERIALIZED (SELECT id, receipt FROM fairq.claim('q', 9)) INSERT INTO done SELECT id, 'first' FROM c WHERE fairq.ack(receipt);\n" },
	'-c', 6, '-j', 2, '-T', int($seconds / 2) + 1)->ran_well('six clients claim and acknowledge');
goes_on('then');

my $work = "\\set n random(1, 4)\nCALL work(:n, '%s', %s);\n";
my %scripts = map { $_ => [ 2, sprintf($work, $_, 'NULL') ] } qw(nack release cancel pop rollback savepoint session);
$scripts{ack} = [ 30, sprintf($work, 'ack', 'NULL') ];
$scripts{some} = [ 4, sprintf($work, 'ack', "'{one1,one2,classes,stops}'") ];
$scripts{expire} = [ 1, sprintf($work, 'expire', 'NULL') ];
my %changes = (
	pause => [ 4, "SELECT fairq.pause_group('q', 'stops');\nSELECT fairq.resume_group('q', 'stops');\n" ],
	change => [ 4, "\\set n random(1, 3)\nSELECT fairq.set_group('q', 'changes', max_leased => :n);\n" ],
	reset => [ 1, "SELECT fairq.reset_group('q', 'changes');\n" ]);
my $changes = start_pgbench($node, \%changes, '-c', 1, '-T', $seconds);
run_pgbench($node, \%scripts, '-c', 12, '-j', 2, '-T', $seconds)->ran_well('twelve clients claim, and end what they have');
$changes->ran_well('while limits change');

is(sql($node, "SELECT string_agg(DISTINCT group_key || ' ' || way, ', ') FROM two"), '', 'nobody ever had a second task of a group that may have one');
my ($n) = sql($node, 'SELECT count(*) FROM done');
cmp_ok($n, '>', 100, "$n tasks are done");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.leases WHERE lease_until < now() + interval '1 minute'") == 0 }), 'leases that run out have');
# (What was lost twice would be claimed alone.)
sql($node, "SELECT count(fairq.release(receipt)) FROM fairq.leases");
$produced -= sql($node, "SELECT fairq.purge('q')");
sql($node, "SELECT fairq.set_group('q', 'changes', max_leased => 1), fairq.set_group('q', 'stops', max_leased => 1), fairq.set_group('q', 'rate', max_leased => 1, rate => 0)");
fill(20);
goes_on("round $_") foreach 1 .. 3;
is(sql($node, "SELECT string_agg(group_key || ' ' || n, ', ') FROM (SELECT group_key, count(*) AS n FROM fairq.claim('q', 100, lease => '1 h') GROUP BY 1) c WHERE n > 1"), '', 'and no more than that');
sql($node, "SELECT count(fairq.release(receipt)) FROM fairq.leases; " . join ';', map { "SELECT fairq.reset_group('q', '$_')" } 'classes', keys %groups);
while (sql($node, "INSERT INTO done SELECT id, 'drain' FROM fairq.pop('q', 10000); SELECT count(*) FROM fairq.q_q")) { }
is(sql($node, 'SELECT count(*) FROM done'), $produced, 'each task is done, and once');
is(sql($node, "SELECT ready, leased, overflow, scheduled, dead FROM fairq.queue_stats WHERE queue = 'q'"), '0|0|0|0|0', 'and so it is counted');
nothing_swept($node);

$node->stop;
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (6|11)/, 'no process broke down');
done_testing();
