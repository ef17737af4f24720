# Shared memory that is full is a clear error, never a crash and never a
# silent drop (I10); and the places where pgfairq does not work say so.
#
# To see it fail, take one of these guards out of the engine:
# - the test for room in the table of leases, groups, lanes, limits or queues: the
#   server crashes, or tasks are lost;
# - that lanes are looked for before a group gives a tag, and for tasks that get theirs
#   later (placement_prepare): they are accepted, and stay where they are;
# - that an error half way through a claim gives back the leases it took:
#   tasks that nobody can claim until their leases run out;
# - that a group without work gives its place back: the limit of groups is
#   reached although few have work;
# - the test for room in the table of names: the server crashes, or there are
#   more names than there may be; that a queue that is reset or dropped makes
#   room for others: names go on to be counted together;
# - the tests for recovery, a read-only transaction, a prepared transaction (one
#   for each of what it may not have done), and the preloaded library.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

# A call of every function, of a queue "q", a receipt and a session.
sub calls_of
{
	my ($node, $r, $s) = @_;
	my %calls = map { split /\t/ } split /\n/, sql($node, <<"SQL");
CREATE TEMP TABLE given (argument text, value text);
INSERT INTO given VALUES ('queue', '''q'''), ('id', '1'), ('session', '''$s'''),
    ('receipt', '''$r'''), ('receipts', 'ARRAY[''$r'']::uuid[]');
\\i $FindBin::RealBin/../sql/include/good_calls.sql
SELECT function || E'\\t' || statement FROM good_call
    WHERE function NOT IN ('this_node', 'node_of_id', 'node_of_receipt', 'node_of_session');
SELECT proname || E'\\t' || format('SELECT * FROM fairq_internal.%I()', proname) FROM pg_proc
    WHERE pronamespace = 'fairq_internal'::regnamespace AND prorettype = 'record'::regtype AND pronargs = 0
        AND proname NOT IN ('queue_definitions', 'departures');
SQL

	$calls{tasks_page} = "SELECT * FROM fairq_internal.tasks_page('q', 0, 10, 10, NULL, NULL)";
	$calls{done_page} = "SELECT * FROM fairq_internal.done_page('q', NULL, NULL, 10, 10, NULL, NULL)";
	$calls{attendance} = "SELECT * FROM fairq_internal.attendance(ARRAY['q'], NULL)";
	$calls{wait_ready} = "SELECT fairq_internal.wait_ready(ARRAY['q'])";
	return %calls;
}

# Those that change nothing: where nothing may be written they can be called.
my @looks = qw(heartbeat await peek get_task get_task_by_key get_done_task get_task_position tasks reset_stats tasks_page done_page
  stats_of_queues histograms_of_queues stats_of_names histograms_of_names stats_of_buckets stats_of_groups stats_of_subgroups live_leases open_sessions dead_of_queues done_of_queues);

# One test: none of the functions is left out.  (Those of the type and
# those that tell numbers of nodes and ids of groups work everywhere.)
sub every_function
{
	my ($node, $name, %calls) = @_;
	my @functions = column($node, <<'SQL');
SELECT DISTINCT proname FROM pg_proc WHERE prorettype <> 'trigger'::regtype AND NOT 'fairq.address'::regtype = ANY (proargtypes)
    AND proname NOT IN ('group_id', 'this_node', 'node_of_id', 'node_of_receipt', 'node_of_session')
    -- what an administrator's calls at a proxy need of a node, which cluster_administration and cluster_moves test
    AND proname NOT IN ('queue_definitions', 'tasks_to_move', 'departures')
    AND (pronamespace = 'fairq'::regnamespace OR (pronamespace = 'fairq_internal'::regnamespace AND (prorettype = 'record'::regtype OR proname = 'wait_ready')))
SQL

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join(' ', sort keys %calls), join(' ', sort @functions), "$name: every function");
	return;
}

#
# Not preloaded
#
{
	my $node = fairq_node('bare', preload => 0);

	sql($node, 'CREATE EXTENSION pgfairq');
	pass('not preloaded: CREATE EXTENSION works');

	my $nothing = '00000000-0000-0000-0000-000000000001';
	my %calls = calls_of($node, $nothing, $nothing);
	every_function($node, 'not preloaded', %calls);
	delete $calls{dead_of_queues};      # where there are no queues it has nothing to call
	foreach my $name (sort keys %calls)
	{
		refused($node, $calls{$name}, '55000', undef,
			qr/shared_preload_libraries/, "not preloaded: $name");
	}
	foreach my $view ('queue_stats', 'queue_histograms', 'name_stats', 'name_histograms', 'group_stats', 'subgroup_stats', 'bucket_stats', 'leases', 'sessions', 'done_tasks')
	{
		refused($node, "SELECT * FROM fairq.$view",
			'55000', undef, qr/shared_preload_libraries/,
			"not preloaded: view $view");
	}
	is(sql($node, 'SELECT * FROM fairq.queues'),
		'', 'not preloaded: the settings can be read');
	is( sql(
			$node,
			"SELECT '(3,7.5,9)'::fairq.address, fairq.bucket('(3,7.5,9)')"),
		'(3,7.5,9)|3',
		'not preloaded: the type works');
	is( sql($node, 'DROP EXTENSION pgfairq CASCADE; CREATE EXTENSION pgfairq; LOAD \'pgfairq\'; SELECT 1'),
		'1', 'not preloaded: dropped, created, loaded');

	# A queue table of a server with the library, in one without: rows are
	# not accepted silently, as nobody would hear of them.
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pgfairq'\n");
	$node->restart;
	sql($node, "SELECT fairq.create_queue('q'); SELECT fairq.enqueue('q', '1')");
	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
	$node->restart;
	is(sql($node, 'SELECT payload FROM fairq.q_q'),
		'1', 'not preloaded any more: the table is a table');
	refused($node, "SELECT fairq.claim('q')", '55000', undef,
		qr/shared_preload_libraries/, 'not preloaded any more: claim');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pgfairq'\n");
	$node->restart;
	is(sql($node, "SELECT payload FROM fairq.claim('q')"),
		'1', 'preloaded again: the task is there');
	$node->stop;
}

#
# Tiny limits
#
{
	my $node = fairq_node('tiny', conf => <<'CONF');
pgfairq.max_queues = 4
pgfairq.max_lanes = 40
pgfairq.max_groups = 100
pgfairq.max_leases = 50
pgfairq.max_limits = 16
pgfairq.max_names = 16
max_connections = 30
CONF
	my $count = sub { return sql($node, "SELECT count(*) FROM fairq.q_$_[0]") };

	# Limits
	sql($node, "SELECT fairq.create_queue('q', buckets => 4)");
	my ($limited, @refused) = (0);
	foreach my $i (1 .. 100)
	{
		@refused = error_of($node, "SELECT fairq.set_group('q', 'limited $i', max_leased => 1)");
		last if $refused[0];
		$limited++;
	}
	is("$refused[0] $limited", '53400 16', 'limits: clear error after as many as there may be');
	like($refused[2], qr/pgfairq\.max_limits/, 'limits: the hint names the setting');
	is(sql($node, "SELECT fairq.set_group('q', 'limited 1', max_leased => 2); SELECT count(*) FROM fairq.group_settings"),
		"\n16", 'limits: those that there are can be changed, and nothing else is');
	sql($node, "SELECT fairq.drop_queue('q')");

	# Names: what has no room is counted together, and nothing fails.
	my $names = sub {
		return sql($node, "SELECT string_agg(concat_ws(' ', queue, count, sum), ', ' ORDER BY queue, other)
			FROM (SELECT queue || CASE WHEN other THEN '+' ELSE '' END AS queue, other, count(*), sum(enqueued) FROM fairq.name_stats GROUP BY 1, 2) s");
	};
	sql($node, "SELECT fairq.create_queue('a', buckets => 1), fairq.create_queue('b', buckets => 1), fairq.create_queue('c', buckets => 1)");
	sql($node, "SELECT fairq.enqueue('a', '1', name => 'name ' || i % 10) FROM generate_series(1, 20) i");
	sql($node, "SELECT fairq.enqueue('b', '1', name => 'name ' || i) FROM generate_series(1, 6) i") for 1 .. 2;
	is($names->(), 'a 10 20, b 6 12', 'names: as many as there may be');
	sql($node, "SELECT fairq.enqueue('$_', '1', name => 'further ' || i) FROM generate_series(1, 3) i") for qw(b c b);
	sql($node, "SELECT fairq.enqueue('a', '1', name => 'name 1')");
	is($names->(), 'a 10 21, b 6 12, b+ 1 6, c+ 1 3', 'names: further ones together, by queue; those that there are go on');
	sql($node, "BEGIN; SELECT fairq.enqueue('c', '1', name => 'many ' || i) FROM generate_series(1, 50) i; COMMIT");
	is($names->(), 'a 10 21, b 6 12, b+ 1 6, c+ 1 53', 'names: more in a transaction than there may be');
	is(sql($node, "SELECT count(*), sum(count) FILTER (WHERE le = 'Infinity') FROM fairq.name_histograms WHERE other"), '80|0', 'names: with histograms');
	sql($node, "SELECT fairq.reset_stats('b')");
	sql($node, "SELECT fairq.enqueue('b', '1', name => 'further ' || i) FROM generate_series(1, 3) i");
	is($names->(), 'a 10 21, b 3 3, c+ 1 53', 'names: a reset makes room');
	sql($node, "SELECT fairq.drop_queue('a')");
	sql($node, "BEGIN; SELECT fairq.enqueue('b', '1', name => 'many ' || i) FROM generate_series(1, 50) i; COMMIT");
	is($names->(), 'b 16 16, b+ 1 37, c+ 1 53', 'names: and so does a queue that is dropped');
	sql($node, "SELECT fairq.drop_queue('b'), fairq.drop_queue('c')");

	# Leases
	sql($node, <<'SQL');
SELECT fairq.create_queue('q', buckets => 4);
SELECT count(fairq.enqueue_many('q', array_fill('{}'::jsonb, ARRAY[500]), group_keys => ARRAY['a']));
CREATE TABLE held (receipt uuid);
SQL
	# In ever smaller claims until even one is refused: a claim of more than
	# there is room for may give fewer or nothing, but what it takes it says.
	my $state = '';
	foreach my $n (100, 30, 10, (1) x 200)
	{
		($state) = error_of($node,
			"INSERT INTO held SELECT receipt FROM fairq.claim('q', $n, lease => '1 h')"
		);
		last if $n == 1 && $state;
	}
	is($state, '53400', 'leases: the last claim of one is refused');
	my $held = sql($node, 'SELECT count(*) FROM held');
	cmp_ok($held, '>=', 40, "leases: $held could be held");
	cmp_ok($held, '<=', 100, 'leases: and no more than a little beyond the limit');
	refused($node, "SELECT count(*) FROM fairq.claim('q', 100)",
		'53400', undef, qr/pgfairq\.max_leases/,
		'leases: the error names the setting');
	is(sql($node, 'SELECT count(*) FROM fairq.leases'),
		$held, 'leases: what a refused claim took it gave back');
	is($count->('q'), 500, 'leases: nothing is lost');

	# In a function that catches the error
	is( sql(
			$node, <<'SQL'),
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		BEGIN
			PERFORM fairq.claim('q', 100);
			RAISE 'no error';
		EXCEPTION WHEN configuration_limit_exceeded THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT count(*) FROM fairq.leases;
SQL
		$held,
		'leases: also if the error is caught');

	# pop needs room too, or not, but never loses anything
	my ($pop) = error_of($node, "SELECT fairq.pop('q', 20)");
	like($pop, qr/^(53400)?$/, "pop when there is no room: $pop");
	my $left = $pop ? 500 : 480;
	is($count->('q'), $left, 'pop: nothing is lost');

	is( sql(
			$node,
			'SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM held))'
		),
		$held,
		'leases: acks work');
	$left -= $held;
	# And everything else comes, in rounds of what there is room for.
	acknowledge_all($node, 'q');
	is($count->('q'), 0, "leases: works again after acks, the $left left came");

	# An error of another kind in the middle of a claim, when some tasks are
	# leased and others are on their way: its result does not fit.  Payloads
	# that were stored out of line would not be in it.
	sql($node, <<'SQL');
SELECT fairq.create_queue('big', buckets => 2);
ALTER TABLE fairq.q_big ALTER payload SET STORAGE PLAIN;
SELECT count(fairq.enqueue('big', to_jsonb((SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 200) j))))
  FROM generate_series(1, 30) i;
SQL
	my ($full, $why) = error_of($node,
		"SET work_mem = '64kB'; SET temp_file_limit = '64kB'; SELECT count(*) FROM fairq.claim('big', 30)"
	);
	# 18 has the setting in quotes.
	is("$full: $why" =~ s/"//gr,
		'53400: temporary file size exceeds temp_file_limit (64kB)',
		'a claim whose result does not fit is refused');
	is(sql($node, 'SELECT count(*) FROM fairq.leases'),
		0, 'and gives back what it took');
	is(sql($node, "SELECT count(*) FROM fairq.pop('big', 100)"),
		30, 'so that it comes');
	is(sql($node, "SELECT fairq.drop_queue('big')"), 't', 'dropped');

	# Lanes: 40 are there; a queue with 16 buckets and several classes
	# needs many.
	sql($node, "SELECT fairq.create_queue('lanes', buckets => 16)");
	my ($s, $m, $h);
	my $tried = 0;
	foreach my $priority (0 .. 9)
	{
		($s, $m, $h) = error_of($node,
			"SELECT count(fairq.enqueue_many('lanes', array_fill('{}'::jsonb, ARRAY[50]), priorities => ARRAY[$priority]))"
		);
		last if $s;
		$tried++;
	}
  SKIP:
	{
		# Where a lane needs no memory of its own until it is claimed from,
		# enqueue need not fail; then the claim must.
		my $rows = $count->('lanes');
		is($rows, 50 * $tried, "lanes: what was accepted is there ($tried classes)");
		if (!$s)
		{
			($s, $m, $h) = error_of($node, "SELECT count(*) FROM fairq.pop('lanes', 40) x, generate_series(1, 20)");
		}
		is($s, '53400', 'lanes: clear error');
		like($h, qr/pgfairq\.max_lanes/, 'lanes: the hint names the setting');
		is($count->('lanes'), $rows, 'lanes: nothing is lost');
	}
	# What is for later is refused as well: the worker could not help it.
	refused($node, "SELECT fairq.enqueue('lanes', '1', priority => $tried, run_at => now() + interval '1 h')",
		'53400', undef, qr/pgfairq\.max_lanes/, 'lanes: a scheduled task');
	# And however often: what is refused takes no room in its group.
	sql($node, "SELECT fairq.alter_queue('lanes', max_ready_per_group => 3)");
	is(join(' ', map { (error_of($node, "SELECT fairq.enqueue('lanes', '1', priority => $tried)"))[0] } 1 .. 5),
		'53400 53400 53400 53400 53400', 'lanes: the fifth time as the first');
	is(sql($node, "SELECT fairq.drop_queue('lanes')"), 't', 'lanes: dropped');
	is( sql(
			$node,
			"SELECT fairq.create_queue('again', buckets => 16); SELECT fairq.enqueue('again', '7') > 0; SELECT payload FROM fairq.claim('again'); SELECT fairq.drop_queue('again')"
		),
		"\nt\n7\nt",
		'lanes: works again');

	# Groups
	sql($node, "SELECT fairq.create_queue('g', buckets => 2)");
	$state = '';
	my $groups = 0;
	foreach my $i (1 .. 1000)
	{
		($s, $m, $h) = error_of($node,
			"SELECT fairq.enqueue_many('g', array_fill('{}'::jsonb, ARRAY[20]), group_keys => ARRAY(SELECT 'g$i-' || j FROM generate_series(1, 20) j))"
		);
		last if $s;
		$groups += 20;
		last if $groups > 2000;
	}
	is($s, '53400', "groups: clear error after $groups");
	like($h, qr/pgfairq\.max_groups/, 'groups: the hint names the setting');
	is($count->('g'), $groups, 'groups: nothing is lost and nothing half done');
	is( sql(
			$node,
			"SELECT fairq.enqueue('g', '{}', group_key => 'g1-1') > 0"),
		't',
		'groups: one that is known goes on');
	acknowledge_all($node, 'g');
	is($count->('g'), 0, 'groups: all come');
	# Groups without work give their places back, so any number may pass.
	my ($one) = error_of($node, <<'SQL');
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		PERFORM fairq.enqueue('g', '{}', group_key => 'passing' || i);
		COMMIT;
		PERFORM fairq.ack(receipt) FROM fairq.claim('g', 1);
		COMMIT;
	END LOOP;
END $$;
SQL
	is($one, '', 'groups: a thousand may come and go where a hundred have room');
	is($count->('g'), 0, 'groups: and be served');
	# Also those whose enqueue was rolled back
	($one) = error_of($node, <<'SQL');
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		PERFORM fairq.enqueue('g', '{}', group_key => 'undone' || i);
		ROLLBACK;
	END LOOP;
END $$;
SQL
	is($one, '', 'groups: a thousand whose enqueue is rolled back');
	sql($node, "SELECT fairq.drop_queue('g')");

	# Queues
	$state = '';
	my $queues = 0;
	my $hint = '';
	foreach my $i (1 .. 10)
	{
		($state, $m, $hint) = error_of($node,
			"SELECT fairq.create_queue('n$i', buckets => 1); SELECT fairq.enqueue('n$i', '{}'); SELECT fairq.claim('n$i')"
		);
		last if $state;
		$queues++;
	}
	is($state, '53400', "queues: clear error after $queues and one");
	like($hint, qr/pgfairq\.max_queues/, 'queues: the hint names the setting');
	# The one that was refused may exist, only without a place.
	my $refused = $queues + 1;
	is(sql($node, "SELECT fairq.drop_queue('n$refused'); SELECT fairq.drop_queue('n1')") =~ s/^.*\n//r,
		't', 'queues: drop one');
	is( sql(
			$node,
			"SELECT fairq.create_queue('more', buckets => 1); SELECT fairq.enqueue('more', '8') > 0; SELECT payload FROM fairq.claim('more')"
		),
		"\nt\n8",
		'queues: and there is room');
	unlike(
		PostgreSQL::Test::Utils::slurp_file($node->logfile),
		qr/PANIC|TRAP|terminated by signal/,
		'tiny limits: no process broke down');
	$node->stop;
}

#
# A million groups
#
{
	my $node = fairq_node('million', conf => <<'CONF');
shared_buffers = 512MB
max_wal_size = 4GB
statement_timeout = 600s
CONF
	sql($node, <<'SQL');
SELECT fairq.create_queue('m', max_attempts => 0);
SELECT count(*) FROM (
	SELECT fairq.enqueue_many('m', ARRAY['{}'::jsonb],
		group_keys => ARRAY(SELECT 'group ' || g FROM generate_series(c * 10000, c * 10000 + 9999) g))
	  FROM generate_series(0, 99) c OFFSET 0) x;
SQL
	is(sql($node, 'SELECT count(*), count(DISTINCT group_key) FROM fairq.q_m'),
		'1000000|1000000', 'a million groups with a task each');
	is( sql(
			$node,
			"SELECT fairq.enqueue('m', '{}', group_key => 'group 5') > 0; SELECT group_key FROM fairq.claim('m', 1, group_keys => ARRAY['group 999999'])"
		),
		"t\ngroup 999999",
		'the last is found');
	sql($node, 'SELECT fairq.ack(receipt) FROM fairq.leases');
	# All of them served, and as many others: places are used again. (When
	# only half were, the served ones would have to be remembered: nobody
	# knows yet that the others have had their turn.)
	is( sql(
			$node, <<'SQL'),
SELECT count(*) FROM (SELECT fairq.pop('m', 10000) FROM generate_series(1, 101)) x;
SELECT count(*) FROM (
	SELECT fairq.enqueue_many('m', ARRAY['{}'::jsonb],
		group_keys => ARRAY(SELECT 'other ' || g FROM generate_series(c * 10000, c * 10000 + 9999) g))
	  FROM generate_series(0, 59) c OFFSET 0) x;
SELECT count(*), count(DISTINCT group_key) FROM fairq.q_m;
SQL
		"1000000\n60\n600000|600000",
		'600,000 others after they were served');

	# More rows in one transaction than are remembered one by one, while
	# others go on; and the same undone in part.
	sql($node, "SELECT fairq.create_queue('big', buckets => 4, max_ready => 10000000, max_ready_per_group => 10000000)");
	my $p = session($node);
	$p->safe('BEGIN');
	foreach my $group ('x', 'y', 'x')
	{
		$p->safe("SAVEPOINT a; SELECT count(*) FROM (SELECT fairq.enqueue_many('big', array_fill('{}'::jsonb, ARRAY[10000]), group_keys => ARRAY['$group']) FROM generate_series(1, 55)) x");
		$p->safe('ROLLBACK TO a') if $group eq 'y';
	}
	is( sql(
			$node,
			"SELECT count(fairq.enqueue_many('big', array_fill('{}'::jsonb, ARRAY[20000]), group_keys => ARRAY['z'])); SELECT count(*) FROM fairq.pop('big', 50000)"
		),
		"1\n20000",
		'others go on beside a transaction that enqueues more than a million');
	$p->safe('COMMIT');
	# In transactions of their own: each holds a lease for every task.
	my $came = 0;
	$came += $_
	  foreach column($node, "SELECT count(*) FROM fairq.pop('big', 100000);\n" x 13);
	is($came, 1100000, 'its 1,100,000 tasks come');
	is(sql($node, 'SELECT count(*) FROM fairq.q_big'), 0, 'and no others');
	$p->quit;
	$node->stop;
}

#
# Hot standby
#
{
	my $node = fairq_node('primary', init => { allows_streaming => 1 });
	sql($node, "SELECT fairq.create_queue('q', buckets => 1); SELECT fairq.enqueue('q', '1'); SELECT fairq.enqueue('q', '2'); SELECT fairq.enqueue('q', '3', group_key => 'b')");
	$node->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'b', has_streaming => 1);
	$standby->start;
	sql($node, "SELECT fairq.enqueue('q', '4')");
	$node->wait_for_catchup($standby);

	my $r = sql($node, "SELECT receipt FROM fairq.claim('q', lease => '1 h')");
	my %calls = calls_of($node, $r, sql($node, 'SELECT fairq.open_session()'));
	every_function($node, 'where nothing may be written', %calls);
	foreach my $name (@looks)
	{
		is((error_of($standby, $calls{$name}))[0], '', "hot standby: $name can be called");
		is((error_of($node, "SET default_transaction_read_only = on; $calls{$name}"))[0],
			'', "read-only transaction: $name can be called");
		delete $calls{$name};
	}
	foreach my $name (sort keys %calls)
	{
		refused($standby, $calls{$name}, '25006', undef, undef, "hot standby: $name");
		refused($node, "SET default_transaction_read_only = on; $calls{$name}",
			'25006', undef, undef, "read-only transaction: $name");
	}
	foreach my $look (
		'fairq.queues', "fairq.tasks('q')", "fairq.get_task('q', 1)",
		'fairq.dead_tasks', 'fairq.q_q')
	{
		is((error_of($standby, "SELECT * FROM $look"))[0],
			'', "hot standby: $look can be read");
		is((error_of($node, "BEGIN READ ONLY; SELECT * FROM $look"))[0],
			'', "read-only transaction: $look can be read");
	}
	is(sql($standby, 'SELECT count(*) FROM fairq.q_q'),
		4, 'the standby has the tasks');

	# Looking at a queue on the standby must not make it believe that it
	# knows the queue: the primary goes on.
	foreach my $look ("fairq.peek('q')", 'fairq.queue_stats',
		'fairq.bucket_stats', 'fairq.leases')
	{
		is((error_of($standby, "SELECT * FROM $look"))[0],
			'', "hot standby: $look can be read");
	}
	sql($node, "SELECT fairq.enqueue('q', '\"low\"', priority => 5); SELECT fairq.enqueue('q', '\"late\"')");
	$node->wait_for_catchup($standby);
	is( sql($standby, "SELECT string_agg(payload::text, ' ') FROM fairq.peek('q')"),
		'1 3 2 4 "late" "low"',
		'hot standby: peek shows what is there now');

	# Promoted it goes on without anyone doing anything (I9). What the
	# primary had leased when it broke off is claimable.
	$node->stop('immediate');
	$standby->promote;
	is( sql(
			$standby,
			"SELECT fairq.enqueue('q', '5') > 0; SELECT string_agg(payload::text, ' ') FROM fairq.claim('q', 10)"
		),
		"t\n1 3 2 4 \"late\" 5 \"low\"",
		'promoted: tasks are claimable in their order, new ones behind');
	is(sql($standby, "SELECT fairq.ack('$r')"),
		'f', 'promoted: receipts of the primary are no good');
	$standby->stop;
}

#
# Prepared transactions
#
{
	# Without a worker: while it maintains the queue, maintain() has nothing to do.
	my $node = fairq_node('prepare', conf => "max_prepared_transactions = 5\npgfairq.max_workers = 0\n");

	sql($node, <<'SQL');
SELECT fairq.create_queue('q', buckets => 1, max_attempts => 0);
SELECT fairq.enqueue('q', to_jsonb(i)) FROM generate_series(1, 20) i;
CREATE TABLE held AS SELECT * FROM fairq.claim('q', 10, lease => '1 h');
SQL
	my $task = '(SELECT receipt FROM held ORDER BY id LIMIT 1)';
	foreach my $verb (
		"fairq.claim('q')", "fairq.pop('q')", "fairq.ack($task)",
		"fairq.nack($task, 'no', '0')", "fairq.release($task)",
		"fairq.ack_and_claim('q', ARRAY[$task])")
	{
		refused($node,
			"BEGIN; SELECT * FROM $verb; PREPARE TRANSACTION 'p'",
			'0A000', undef, undef, "PREPARE TRANSACTION after $verb");
	}
	refused(
		$node,
		"BEGIN; SAVEPOINT a; SELECT * FROM fairq.claim('q'); RELEASE a; PREPARE TRANSACTION 'p'",
		'0A000', undef, undef,
		'PREPARE TRANSACTION after a claim in a savepoint');
	foreach my $case (
		[ "SELECT fairq.maintain('q')", qr/maintained/, 'fairq.maintain()' ],
		[ "SELECT fairq.drop_queue('q')", qr/dropped/, 'fairq.drop_queue()' ],
		[ 'DROP TABLE fairq.q_q', qr/dropped/, 'DROP TABLE' ],
		[ 'DROP EXTENSION pgfairq CASCADE', qr/dropped/, 'DROP EXTENSION' ],
		[ "SELECT fairq.create_queue('new'); SELECT fairq.enqueue('new', '1')", qr/created/, 'fairq.create_queue() and its use' ])
	{
		my ($what, $message, $name) = @$case;

		refused($node, "SET client_min_messages = error; BEGIN; $what; PREPARE TRANSACTION 'p'",
			'0A000', $message, qr/not prepared|its own/, "PREPARE TRANSACTION after $name");
		is( sql($node, "SET client_min_messages = error; BEGIN; SAVEPOINT a; $what; ROLLBACK TO a; SELECT fairq.enqueue('q', '99') > 0; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'") =~ /^t\z/m ? 't' : 'f',
			't', "but not after $name that was rolled back");
	}
	is(sql($node, "BEGIN; SELECT fairq.create_queue('new'); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'; SELECT fairq.enqueue('new', '1') > 0; SELECT fairq.drop_queue('new')") =~ /^t$/m ? 't' : 'f',
		't', 'nor after a queue was created and not used');
	is( sql(
			$node,
			"BEGIN; SAVEPOINT a; SELECT FROM fairq.claim('q'); ROLLBACK TO a; SELECT fairq.enqueue('q', '99') > 0; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'"
		),
		't',
		'but not after one that was rolled back');
	is(sql($node, 'SELECT count(*) FROM pg_prepared_xacts'),
		0, 'nothing is prepared');
	is(sql($node, 'SELECT count(*) FROM held WHERE fairq.ack(receipt)'),
		10, 'all leases are as they were');
	is( sql(
			$node,
			"SELECT string_agg(payload::text, ' ') FROM fairq.claim('q', 100)"),
		join(' ', 11 .. 20),
		'and so are the tasks');
	$node->stop;
}

done_testing();
