# The worker never waits: whatever table is locked, and whatever the owner of a queue has
# attached to its own, for 15 seconds, what is due in another queue comes within 8 seconds,
# and what the machine takes besides. Who waits for what is held is up to 15 seconds late.
#
# Each case has a database of its own, copied from one that has a queue "theirs", in which
# something needs each of the tables in each second, and queues of another role, in which
# tasks become due, leases run out and tasks expire twice a second, and a schedule ticks.
# The cases are all tables of the extension and of "theirs", each locked in ACCESS EXCLUSIVE
# mode, as they are in the catalogs, so that a new one is among them; and what else may hold
# up a pass.  All are held at the same time, and the database "control", where nothing is,
# says how late things come on this machine just now.
#
# To see it fail:
# - leave out cancel() in patience.c (the worker waits for done_theirs, dependency,
#   remembered_key, durable_lease, the index, and the codes, as long as they last);
# - have one_pass() in queue_passes.c and begin_transaction() in schedule_worker.c give up
#   when queue_catalog_lock_settings() is false (table fairq.queue);
# - leave out gave_up in look() of patience.c (code that catches its end).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = 15;
my $steps = 1200;    # twice a second: for longer than setting up may take, and the locks

my $node = fairq_node('locks', conf => "max_connections = 200\nmax_worker_processes = 60\npgfairq.max_workers = 50\nstatement_timeout = 0\n");
sql($node, 'CREATE DATABASE control');
sql($node, <<'SQL', 'control');
CREATE EXTENSION pgfairq;
CREATE ROLE tenant LOGIN;
CREATE SCHEMA tenant AUTHORIZATION tenant;
SELECT fairq.create_queue('theirs', keep_done => '1 h', durable_leases => true, backoff_base => '0', max_attempts => 0);
ALTER TABLE fairq.q_theirs OWNER TO tenant;
ALTER TABLE fairq.done_theirs OWNER TO tenant;
SELECT fairq.create_queue('theirs too', keep_done => '1 s');
SELECT fairq.create_queue(q, backoff_base => '0') FROM unnest('{due,leases,ticks}'::text[]) q;
SELECT fairq.create_queue('ends', keep_done => '1 h');
CREATE TABLE late (kind text, at timestamptz, late float8);

-- Something of theirs in each second.
CREATE PROCEDURE theirs(steps int) LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
	first bigint;
BEGIN
	FOR i IN 1 .. steps / 2 LOOP
		first := fairq.enqueue('theirs', jsonb_build_object('n', i), expires_at => start + i * interval '1 s');
		PERFORM fairq.enqueue('theirs', '1', after => ARRAY[first], on_dead => 'cancel');
		PERFORM fairq.enqueue('theirs', '1', run_at => start + i * interval '1 s');
		PERFORM fairq.enqueue('theirs', '1', unique_key => 'k' || i, unique_for => start + i * interval '1 s' - clock_timestamp());
		PERFORM fairq.enqueue('theirs too', '1', expires_at => start + i * interval '1 s');
	END LOOP;
	COMMIT;
	FOR i IN 1 .. steps / 2 LOOP
		PERFORM fairq.claim('theirs', lease => greatest(start + i * interval '1 s' - clock_timestamp(), '1 ms'));
	END LOOP;
	COMMIT;
	PERFORM fairq.schedule('theirs', 'theirs', '* * * * * *', overlap => true);
END $$;

-- And of ours.
CREATE PROCEDURE ours(steps int) LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
	at timestamptz;
BEGIN
	PERFORM fairq.schedule('tick', 'ticks', '* * * * * *', overlap => true, catch_up => 'all');
	FOR i IN 1 .. steps LOOP
		at := start + (i + 4) * interval '500 ms';
		PERFORM fairq.enqueue('due', to_jsonb(at), run_at => at);
		PERFORM fairq.enqueue('ends', to_jsonb(at), expires_at => at);
		PERFORM fairq.enqueue('leases', to_jsonb(at));
	END LOOP;
	COMMIT;
	FOR i IN 1 .. steps LOOP
		PERFORM fairq.claim('leases', lease => greatest(start + (i + 4) * interval '500 ms' - clock_timestamp(), '1 ms'));
	END LOOP;
	COMMIT;
END $$;

-- Take what has come until a time.
CREATE PROCEDURE take(kind text, until timestamptz) LANGUAGE plpgsql AS $$
BEGIN
	WHILE clock_timestamp() < until LOOP
		INSERT INTO late SELECT kind, (payload #>> '{}')::timestamptz,
			extract(epoch FROM clock_timestamp() - (payload #>> '{}')::timestamptz)
			FROM fairq.claim(kind, 100, lease => '1 h', wait => '1 s');
		COMMIT;
	END LOOP;
END $$;
SQL

# What is done in a case before, and by whom, and what holds the worker up.
my %cases = (control => {});
foreach my $table (column($node, <<'SQL', 'control'))
SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND (c.relname IN ('q_theirs', 'done_theirs') AND n.nspname = 'fairq'
	OR EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
		WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e' AND e.extname = 'pgfairq'))
SQL
{
	$cases{"table $table"} = { hold => "LOCK TABLE $table IN ACCESS EXCLUSIVE MODE" };
}
cmp_ok(scalar(keys %cases), '>', 10, 'there are tables to lock');

# Code of the owner's, which is harmless until there is something in tenant.begun, and in
# sessions of ours.
my $function = <<'CODE';
CREATE TABLE tenant.begun ();
CREATE FUNCTION tenant.code() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('our.session', true) IS NULL AND EXISTS (SELECT FROM tenant.begun) THEN
		%s
	END IF;
	RETURN true;
END $$;
GRANT ALL ON tenant.begun TO tenant;
CODE
my $trigger = $function . <<'CODE';
CREATE FUNCTION tenant.fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM tenant.code(); RETURN NEW; END $$;
CREATE TRIGGER code BEFORE INSERT ON fairq.done_theirs FOR EACH ROW WHEN (NEW.outcome = 'expired') EXECUTE FUNCTION tenant.fired();
CODE
my $go = 'INSERT INTO tenant.begun DEFAULT VALUES; COMMIT; BEGIN';
my $again = 'LOOP BEGIN PERFORM pg_sleep(100); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;';

$cases{'a unique index of theirs, and an open transaction that has its key'} = {
	before => q{CREATE UNIQUE INDEX ON fairq.done_theirs ((payload ->> 'n'))},
	hold => q{INSERT INTO fairq.done_theirs (id, enqueued_at, done_at, priority, cost, attempts, outcome, group_key, payload)
		SELECT -n, now(), now(), 4, 1, 0, 'expired', '', jsonb_build_object('n', n) FROM generate_series(1, 10000) n ON CONFLICT DO NOTHING} };
$cases{'their rows are locked'} = { hold => 'SELECT count(*) FROM (SELECT FROM fairq.q_theirs FOR UPDATE) r' };
$cases{'an index of theirs is being made'} = { hold => 'CREATE INDEX ON fairq.done_theirs (group_key, done_at)' };
$cases{'their code sleeps'} = { before => sprintf($trigger, 'PERFORM pg_sleep(100);'), hold => $go };
$cases{'their code runs on'} = { before => sprintf($trigger, 'LOOP NULL; END LOOP;'), hold => $go };
$cases{'their code waits for a lock, without a lock_timeout'} = {
	before => 'CREATE TABLE tenant.locked (); GRANT ALL ON tenant.locked TO tenant;'
	  . sprintf($trigger, q{PERFORM set_config('lock_timeout', '0', true); PERFORM FROM tenant.locked;}),
	hold => "$go; LOCK TABLE tenant.locked" };
$cases{'their code catches its end'} = { before => sprintf($trigger, $again), hold => $go };
$cases{'a check of theirs sleeps'} = {
	before => sprintf($function, 'PERFORM pg_sleep(100);') . 'ALTER TABLE fairq.q_theirs ADD CHECK (tenant.code())', hold => $go };

# Databases, and their sessions, which have used the queues before these are locked.
my $n = 0;
foreach my $name (sort grep { $_ ne 'control' } keys %cases)
{
	my $case = $cases{$name};

	$case->{db} = 'case' . ++$n;
	sql($node, "CREATE DATABASE $case->{db} TEMPLATE control");
	sql($node, $case->{before}, $case->{db}) if $case->{before};
}
$cases{control}{db} = 'control';
foreach my $case (values %cases)
{
	$case->{$_} = session($node, $case->{db}) foreach qw(due leases holder);
	$case->{due}->send("CALL ours($steps)");
	$case->{leases}->send("SET our.session = 1; SELECT count(*) FROM fairq.claim('leases', group_keys => '{none}'); CALL theirs($steps)");
}
foreach my $case (values %cases)
{
	is($case->{$_}->ended, '', "$case->{db}: set up") foreach qw(due leases);
	$case->{$_}->send("CALL take('$_', clock_timestamp() + interval '" . ($steps / 2) . " s')") foreach qw(due leases);
}

# The first of ours come 2.5 s after the procedure has begun.
my $first = time + 3;

# Held, all at the same time.
$_->{holder}->safe('BEGIN; SET LOCAL lock_timeout = \'60 s\'; ' . ($_->{hold} // 'SELECT 1')) foreach values %cases;
sleep($first - time) if $first > time;
my $begin = sql($node, 'SELECT clock_timestamp()');
sleep($seconds);
my $end = sql($node, 'SELECT clock_timestamp()');
is(sql($node, q{SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'}), scalar(keys %cases), 'all were held to the end');

# What has come meanwhile; nothing may be looked at in a locked table, so the locks go.
$_->{holder}->safe('ROLLBACK') foreach values %cases;
my $figures = <<"SQL";
SELECT kind, count(*), max(late) FROM (
	SELECT kind, at, late FROM late
	UNION ALL
	SELECT 'ends', (payload #>> '{}')::timestamptz, extract(epoch FROM done_at - (payload #>> '{}')::timestamptz) FROM fairq.done_ends
	UNION ALL
	SELECT 'ticks', (headers ->> 'tick')::timestamptz, extract(epoch FROM enqueued_at - (headers ->> 'tick')::timestamptz) FROM fairq.q_ticks) all_of
WHERE at BETWEEN '$begin' AND timestamptz '$end' - interval '1 s' GROUP BY kind
SQL

# How many there are to be, and how late they were.
sub lateness
{
	my ($case) = @_;
	my %late;

	wait_for(
		sub {
			%late = map { $_->[0] => [ $_->[1], $_->[2] ] } rows($node, $figures, $case->{db});
			return 4 == grep { ($late{$_}[0] // 0) >= ($_ eq 'ticks' ? $seconds - 2 : 2 * $seconds - 4) } qw(due leases ends ticks);
		}, 60);
	return \%late;
}

my $control = lateness($cases{control});
my $usual = 0;
$usual = $_->[1] > $usual ? $_->[1] : $usual foreach values %$control;
note("where nothing is locked: at most $usual s late");
foreach my $name (sort keys %cases)
{
	my $late = lateness($cases{$name});
	my @kinds = $name eq 'table fairq.schedule' ? qw(due leases ends) : qw(due leases ends ticks);
	my @wrong = grep { !defined $late->{$_} || $late->{$_}[1] > 8 + $usual || $late->{$_}[0] < ($_ eq 'ticks' ? $seconds - 2 : 2 * $seconds - 4) } @kinds;

	is("@wrong", '', "$name: all comes in time")
	  or diag("$usual s late without");
	note(join ', ', map { sprintf '%s: %d, %.2f s', $_, @{ $late->{$_} // [ 0, 0 ] } } qw(due leases ends ticks));
}

# The log says who it was.
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
like($log, qr/WARNING:  could not end tasks that have expired of queue "theirs": waited for relation "fairq.done_theirs" for longer than \d+ ms\n.*DETAIL:  Process \d+ has it\./,
	'the log names the queue, the table and the process');
like($log, qr/WARNING:  could not end tasks that have expired of queue "theirs": it took longer than \d+ ms/, 'and says of code that it takes too long');
$node->stop('immediate');
done_testing();
