# A database of an earlier version, when the server has a new library: nothing is
# done with the old SQL but said what is to be done, and ALTER EXTENSION UPDATE
# makes it what a new database is, with all its tasks.
#
# test/upgrade has the install script of each earlier version, and a dump with tasks
# in every state that it wrote. Shown of each: every function refuses, before it looks at
# an argument; the worker says so once and leaves the database alone; the tables can
# be written, dumped and dropped; the update can be rolled back; open sessions know
# of it at once; afterwards the catalog is that of a new database, to the last
# comment and privilege; and all tasks are served.
#
# To see it fail: take extension_version_require() out of arguments.c, the check out
# of fairq_row_written() or of the worker's list_queues(), or
# CacheInvalidateRelcacheByRelid() out of extension_version.c; leave a line out of
# sql/update/0.2.0--0.3.0.sql, or the EXCEPTION out of update_queues() or retire(); add
# a column there with its default, or an attribute without CASCADE.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqUpgrade;
use PostgreSQL::Test::Utils;
use Test::More;

# What a version has that others have not.
#
#   exceptions    functions that answer with a later library, too: what they say is of no version
#   view          one that calls what refuses
#   arranged      what an administrator has done before the update
#   odd           what an owner has done to tables, how it is undone, and the queues that it
#                 keeps back
#   queues        settings: default_priority, expire_after, group_required
#   leased        the task that the test puts a durable lease on
#   waiting       what is dead, leased and held
#   last          the last id of queue "mail"
#   done          its done tasks
#   settled       how many of its held tasks stay so
#   known         queries after the update, before anything is served, and what they answer
#   served        what its groups have, besides
#   gone          a function whose arguments the update changes
my %versions = (
	'0.1.0' => {
		exceptions => [qw(row_written durable_lease_written dead_of_queues)],
		view => 'dead_tasks',
		arranged => 'CREATE TABLE fairq.done_tasks (id bigint)',
		odd => ['ALTER TABLE fairq.q_mail ADD expires_at int; ALTER TABLE fairq.q_when RENAME state TO stat',
			'ALTER TABLE fairq.q_mail DROP expires_at; ALTER TABLE fairq.q_when RENAME stat TO state', 'mail', 'when'],
		queues => { mail => '0 - f', jobs => '0 - f', when => '0 - f', 'Größe "x" a.b' => '0 - f' },
		leased => 5,
		waiting => '1 dead, 5 leased, 6 held',
		last => 17,
		done => [2, 3],
		settled => 0,
		known => [
			["SELECT 'fairq.tasks_done'::regclass", 'fairq.tasks_done', 'the done table of a queue "tasks" leaves the view its name'],
			["SELECT group_key FROM fairq.group_settings WHERE group_key IN ('nothing', 'as all', 'resumed')", '', 'settings that say nothing are gone'],
			['SELECT fairq.this_node()', 0, 'the node has no number'],
			["SELECT last_error FROM fairq.dead_tasks", 'hopeless', 'dead tasks'],
		],
		served => {},
		gone => 'ack(uuid)',
	},
	'0.2.0' => {
		exceptions => [qw(node_of_id node_of_receipt node_of_session this_node)],
		view => 'done_tasks',
		arranged => 'GRANT INSERT ON fairq.q_mail TO clerk',
		odd => ['ALTER TABLE fairq.q_mail ADD name int', 'ALTER TABLE fairq.q_mail DROP name', 'mail'],
		queues => { mail => '2 - f', jobs => '4 10 years t', when => '4 - f', 'Größe "x" a.b' => '4 - f' },
		leased => 8,
		waiting => '1 dead, 2 dead, 8 leased, 9 held, 10 held, 11 held',
		last => 24,
		done => [3, 4, 5, 6],
		settled => 1,
		known => [
			["SELECT string_agg(concat_ws(' ', task, predecessor, on_dead, failed), ', ' ORDER BY task, predecessor) FROM fairq.dependencies",
				'10 8 run f, 11 1 hold t, 11 8 hold f', 'what tasks wait for'],
			["SELECT fairq.enqueue('mail', '0', unique_key => 'once', unique_for => '1 h')", 6, 'a key is remembered'],
			["SELECT state, result FROM fairq.await('mail', 4)", 'acked|{"sum": 3}', 'a result'],
			["SELECT string_agg(concat_ws(' ', name, owner, queue, cron, timezone, active, payload), ', ' ORDER BY name) FROM fairq.schedules",
				'leap clerk jobs 0 0 29 2 * Europe/Berlin f "leap", yearly clerk mail 0 0 1 1 * UTC t "ticked"', 'schedules'],
			['SELECT fairq.this_node()', 7, 'the number of the node'],
			["SELECT string_agg(last_error, ', ' ORDER BY id) FROM fairq.dead_tasks", 'hopeless, no such address', 'dead tasks'],
			["SELECT expires_at = '2100-01-01 00:00+00' FROM fairq.get_task('mail', 23)", 't', 'when tasks expire'],
		],
		gone => 'tasks(text,text,text)',
		served => { after => 'after', expires => 'expires', ticks => 'ticked' },
	},
);

have_version('pgfairq', $_) foreach keys %versions;

my $node = fairq_node('upgrade', conf => "max_worker_processes = 30\npgfairq.max_workers = 20\n");
my $new = sql($node, "SELECT extversion FROM pg_extension WHERE extname = 'pgfairq'");
my $library = quotemeta $new;

# Of a lease that outlived the old server, as its table has it: no dump does.
my $receipt = '00000000-e1bb-83ce-8158-0140ba04b4be';

sub load_old
{
	my ($version, $db) = @_;

	sql($node, "CREATE DATABASE $db");
	sql($node, "CREATE EXTENSION pgfairq VERSION '$version'", $db);
	$node->command_ok(
		[ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', old_file("tasks-$version.sql"), $node->connstr($db) ],
		"$db: a database of $version with tasks is restored");
	return;
}

sql($node, 'CREATE ROLE clerk; CREATE ROLE reader; CREATE ROLE tenant; CREATE ROLE builder');
sql($node, 'CREATE DATABASE fresh');
sql($node, q{CREATE EXTENSION pgfairq; SELECT fairq.create_queue('mail', keep_done => '1 h')}, 'fresh');
foreach my $version (sort keys %versions)
{
	my $db = "old_$version" =~ tr/./_/r;

	isnt($new, $version, "$version: there is a later version");
	load_old($version, $db);
	refuses($version, $db);
	goes_and_comes($version, "dropped_$db");
	updates($version, $db);
	sql($node, 'REVOKE SELECT ON fairq.q_mail FROM reader; UPDATE pg_class SET relacl = NULL WHERE oid = \'fairq.q_mail\'::regclass', $db);
	same_catalog($node, 'pgfairq', 'fresh', $db, $version);
	has_settings($version, $db);
	serves($version, $db);
	stays_behind($version, "odd_$db");
	is_built_upon($version, "built_$db");
}
takes_old_done_table();

#
# SQL that is newer than the library
#
sql($node, "UPDATE pg_extension SET extversion = '9.9.9' WHERE extname = 'pgfairq'", 'fresh');
refused($node, "SELECT fairq.enqueue('mail', '1')", '55000', qr/has version 9\.9\.9 in .*library has version $library/,
	qr/install that of version 9\.9\.9/, 'newer SQL is refused, too', 'fresh');

$node->stop;
done_testing();

#
# What the old SQL does with the new library
#
sub log_line
{
	my ($version, $db) = @_;

	return qr/LOG:  .*extension "pgfairq" has version \Q$version\E in database "$db", and the server's library has version $library/;
}

sub refuses
{
	my ($version, $db) = @_;
	my @refuse = ('55000', qr/version \Q$version\E in database "$db".*library has version $library/, qr/ALTER EXTENSION pgfairq UPDATE/);
	my %exceptions = map { $_ => 1 } @{ $versions{$version}{exceptions} };
	my $refused = 0;

	foreach my $function (rows($node, <<'SQL', $db))
SELECT proname, CASE prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT ' END || oid::regproc || '('
		|| coalesce((SELECT string_agg('NULL::' || t::regtype, ', ' ORDER BY n) FROM unnest(proargtypes) WITH ORDINALITY a(t, n)), '') || ')'
  FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace AND proname !~ '^address_|^(bucket|class|block|slot)$' ORDER BY proname
SQL
	{
		my ($name, $call) = @$function;

		refused($node, $call, @refuse, "$version: $name refuses", $db) unless $exceptions{$name};
	}
	refused($node, "SELECT * FROM fairq.$versions{$version}{view}", @refuse, "$version: so does what calls it", $db);
	ok(wait_for(sub { slurp_file($node->logfile) =~ log_line($version, $db) }), "$version: the worker says so");
	is(sql($node, 'SELECT count(*) FROM fairq.queues', $db), 4, "$version: what is SQL alone still answers");
	is( sql($node, "INSERT INTO fairq.q_jobs (id, enqueued_at, state, group_key, payload, priority, cost, attempts, address)
				VALUES (900, now(), 'r', '', '900', 7, 1, 0, '(0,7,900)'), (901, now(), 'r', '', '901', 8, 1, 0, '(0,8,901)');
			UPDATE fairq.q_jobs SET payload = '\"9xx\"' WHERE id = 900; DELETE FROM fairq.q_jobs WHERE id = 901;
			SELECT array_agg(id ORDER BY id) FROM fairq.q_jobs", $db),
		'{1,2,3,900}', "$version: rows are written with SQL");
	my $directory = PostgreSQL::Test::Utils::tempdir();
	$node->command_ok([ 'pg_dump', '-f', "$directory/old", $node->connstr($db) ], "$version: the database is dumped");
	return;
}

sub goes_and_comes
{
	my ($version, $db) = @_;

	load_old($version, $db);
	sql($node, 'DROP EXTENSION pgfairq CASCADE', $db);
	is(sql($node, "SELECT count(*) FROM pg_class WHERE relname LIKE 'q\\_%'", $db), 0, "$version: the extension can be dropped");
	sql($node, 'CREATE EXTENSION pgfairq', $db);
	is(sql($node, "SELECT fairq.create_queue('new'); SELECT fairq.enqueue('new', '1')", $db), "\n1", "$version: and created in the new version");
	return;
}

#
# The update, in vain and for good, and what sessions that are open know of it
#
sub updates
{
	my ($version, $db) = @_;
	my $ready = q{SELECT count(*) FROM fairq.tasks('jobs')};

	sql($node, <<"SQL", $db);
ALTER TABLE fairq.durable_lease DISABLE TRIGGER fairq_durable_lease_written;
INSERT INTO fairq.durable_lease (queue, attempt, task, lease_until, claimed_at, receipt, of_session)
	VALUES ('fairq.q_mail', 1, $versions{$version}{leased}, now() + interval '1 h', now(), '$receipt', false);
ALTER TABLE fairq.durable_lease ENABLE ALWAYS TRIGGER fairq_durable_lease_written;
SQL
	my $session = session($node, $db);
	my $another = session($node, $db);
	$another->query($ready);
	like($another->error, qr/version \Q$version\E/, "$version: a session is refused");
	$session->safe('BEGIN; ALTER EXTENSION pgfairq UPDATE');
	is($session->safe($ready), 4, "$version: whoever updates is not");
	$session->safe('ROLLBACK');
	$session->query($ready);
	like($session->error, qr/version \Q$version\E/, "$version: unless it is rolled back");
	sql($node, 'ALTER TABLE fairq.q_jobs OWNER TO clerk; GRANT SELECT ON fairq.q_mail TO reader', $db);
	sql($node, $versions{$version}{arranged}, $db);
	$session->safe('ALTER EXTENSION pgfairq UPDATE');
	is($another->safe($ready), 4, "$version: once it is committed, nobody is");
	$session->quit;
	$another->quit;
	my $line = log_line($version, $db);
	my $lines = () = slurp_file($node->logfile) =~ /$line/g;
	is($lines, 1, "$version: there was one line in the log");
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = '$db'") == 1 }),
		"$version: and there is a worker now");
	if ($versions{$version}{served}{ticks})
	{
		ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('mail', group_key => 'ticks')", $db) == 1 }),
			"$version: it makes up for a tick of a schedule");
	}
	return;
}

#
# The settings, and the tasks
#
sub has_settings
{
	my ($version, $db) = @_;
	my $of_tasks = $versions{$version}{queues};
	my %queues = ('Größe "x" a.b' => 'fair 16 00:00:30 10000 t', jobs => 'priority 1 00:05:00 10000 f',
		mail => 'fair 2 00:00:30 3 f', when => 'time 1 00:00:30 10000 f');

	is( join("\n", column($node, "SELECT concat_ws(' ', queue, policy, buckets, lease, max_ready_per_group, paused,
			default_priority, coalesce(expire_after::text, '-'), group_required) FROM fairq.queues ORDER BY queue COLLATE \"C\"", $db)),
		join("\n", map { "$_ $queues{$_} $of_tasks->{$_}" } sort keys %queues), "$version: the settings of queues");
	is(sql($node, 'SELECT owner FROM fairq.queues WHERE queue = \'jobs\'', $db), 'clerk', "$version: owners");
	is(join(' ', column($node, 'SELECT topic || \'>\' || queue FROM fairq.topics ORDER BY 1', $db)), 'orders.#>mail orders.*.paid>Größe "x" a.b', "$version: topics");
	is( join("\n", column($node, "SELECT concat_ws(' ', group_key, weight, max_leased, rate, burst, paused) FROM fairq.group_settings WHERE group_key IN ('heavy', 'slow', 'paused') ORDER BY 1", $db)),
		join("\n", 'heavy 3 2 f', 'paused t', 'slow 0.5 4 f'),
		"$version: settings of groups");
	foreach my $known (@{ $versions{$version}{known} })
	{
		my ($query, $answer, $name) = @$known;

		is(sql($node, $query, $db), $answer, "$version: $name");
	}
	return;
}

sub serves
{
	my ($version, $db) = @_;
	my %old = %{ $versions{$version} };
	my $claimed = sub { join(' ', column($node, "SELECT payload #>> '{}' FROM $_[0]", $db)) };

	is(sql($node, "SELECT id, receipt FROM fairq.leases", $db), "$old{leased}|$receipt", "$version: the durable lease holds");
	is(sql($node, "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM fairq.tasks('mail') WHERE state IN ('dead', 'held', 'leased')", $db),
		$old{waiting}, "$version: what is dead, leased and held");
	is($claimed->("fairq.pop('mail', 100, group_keys => '{heavy}')"), 'first', "$version: a task of its class");
	is(sql($node, "SELECT fairq.ack('$receipt')", $db), 't', "$version: the receipt of before is good");
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('mail') WHERE state IN ('held', 'overflow') OR (state = 'scheduled' AND run_at < now())", $db) eq $old{settled}
			|| ($claimed->("fairq.pop('mail', 1, group_keys => '{many}')") && 0) }),
		"$version: what was held, due or in the overflow becomes ready");
	is(join(' ', sort split / /, $claimed->("fairq.pop('mail', 100, group_keys => '{leased,retried}')")), 'failed held', "$version: and is served");
	is($claimed->("fairq.pop('mail', 100, group_keys => '{$_}')"), $old{served}{$_}, "$version: $_") foreach sort keys %{ $old{served} };
	is($claimed->("fairq.pop('mail', 100, group_keys => '{paused}')"), '', "$version: a paused group is paused");
	is($claimed->("fairq.pop('jobs', 100)"), '3 2 1 9xx', "$version: by priority, with what was written with SQL");
	is($claimed->("fairq.pop('when', 100)"), '3 2 1', "$version: by time");
	is($claimed->(q{fairq.pop('Größe "x" a.b', 100)}), '', "$version: a paused queue is paused");
	sql($node, q{SELECT fairq.resume('Größe "x" a.b')}, $db);
	is($claimed->(q{fairq.pop('Größe "x" a.b', 100)}), '{"a": [1, null, "ü"]}', "$version: until it is resumed");
	is(sql($node, "SELECT fairq.publish('orders.1.paid', '1')", $db), 2, "$version: topics are served");
	is(sql($node, "SELECT min(id) > $old{last} FROM fairq.tasks('mail') WHERE payload = '1'", $db), 't', "$version: ids go on");
	my $ids = join ', ', @{ $old{done} };
	is(sql($node, "SELECT count(*) FROM fairq.done_mail WHERE id IN ($ids)", $db), scalar(@{ $old{done} }), "$version: the archive is there");
	is( sql($node, "SELECT count(*) FROM fairq.done_mail d, fairq.await('mail', d.id) o WHERE d.id IN ($ids) AND o.state = d.outcome AND o.result IS NOT DISTINCT FROM d.result", $db),
		scalar(@{ $old{done} }), "$version: its tasks are known");
	is( sql($node, "SELECT fairq.enqueue('mail', '2') AS id \\gset\nSELECT count(fairq.ack(receipt, '2')) FROM fairq.claim('mail', 100) WHERE id = :id;"
			  . " SELECT result FROM fairq.await('mail', :id)", $db), "1\n2", "$version: and it takes results");
	return;
}

#
# A done table as a dump of 0.1.0 has it, in a new database
#
sub takes_old_done_table
{
	sql($node, <<'SQL', 'fresh');
SELECT fairq.create_queue('dump');
CREATE TABLE fairq.done_dump (id bigint NOT NULL, enqueued_at timestamptz NOT NULL, claimed_at timestamptz, done_at timestamptz NOT NULL,
	run_at timestamptz, priority bigint NOT NULL, cost real NOT NULL, attempts int NOT NULL, outcome text NOT NULL, group_key text NOT NULL,
	payload jsonb NOT NULL, headers jsonb, unique_key text, last_error text);
ALTER TABLE ONLY fairq.done_dump ADD CONSTRAINT archived_of_dump PRIMARY KEY (done_at, id);
UPDATE fairq.queue SET keep_done = '1 day' WHERE queue = 'dump';
SELECT fairq.enqueue('dump', to_jsonb(n)) FROM generate_series(1, 3) n;
SQL
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('dump')", 'fresh'), 1, 'an old done table: an ack');
	is( sql($node, "SELECT id AS id, fairq.ack(receipt, to_jsonb(id)) FROM fairq.claim('dump') \\gset\nSELECT state, result = to_jsonb(:id) FROM fairq.await('dump', :id)", 'fresh'),
		'acked|t', 'one with a result is kept with it');
	is( sql($node, "SELECT count(fairq.ack(receipt, to_jsonb(id))) FROM fairq.claim('dump'); SELECT count(*), count(result) FROM fairq.done_tasks WHERE queue = 'dump'", 'fresh'),
		"1\n3|2", 'and so the next');
	return;
}

#
# What any role has built upon what was there keeps no update back: upon each function a
# function in SQL, a view and a default, upon each table and view a view and a column, upon
# each type a table
#
sub is_built_upon
{
	my ($version, $db) = @_;
	my $gone = $versions{$version}{gone};
	my ($name) = $gone =~ /^(\w+)/;
	my $retired = sprintf '%s_%s(%s', $name, $version =~ s/^(\d+)\.(\d+).*/$1_$2/r, $gone =~ s/^\w+\(//r;
	my $nulls = join ', ', map { "NULL::$_" } split /,/, $gone =~ s/^\w+\((.*)\)$/$1/r;
	my $built = q{SELECT count(*) FROM (SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_proc) o JOIN pg_depend d ON d.objid = o.oid AND d.refobjid = 'builder'::regnamespace};
	my $directory = PostgreSQL::Test::Utils::tempdir();

	load_old($version, $db);
	sql($node, <<'SQL' . "CREATE VIEW builder.upon_gone AS SELECT count(*) FROM fairq.$name($nulls);", $db);
CREATE SCHEMA builder AUTHORIZATION builder;
SET ROLE builder;
DO $$
DECLARE
	f record;
	call text;
BEGIN
	FOR f IN SELECT p.oid, proretset, prorettype::regtype, row_number() OVER (ORDER BY p.oid) AS n,
			(SELECT coalesce(string_agg('NULL::' || t::regtype, ', ' ORDER BY i), '') FROM unnest(proargtypes) WITH ORDINALITY a(t, i)) AS arguments
		FROM pg_proc p WHERE pronamespace = 'fairq'::regnamespace AND prokind = 'f'
		AND prorettype <> ALL ('{trigger,internal,cstring}'::regtype[]) AND '{internal,cstring}'::regtype[]::oid[] && proargtypes::oid[] IS NOT TRUE
	LOOP
		call := format('%s(%s)', f.oid::regproc, f.arguments);
		EXECUTE format('CREATE VIEW builder.v%s AS SELECT count(*) FROM %s', f.n, call);
		EXECUTE format('CREATE FUNCTION builder.f%s() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM %s; END', f.n, call);
		CONTINUE WHEN f.proretset OR f.prorettype = 'void'::regtype;
		EXECUTE format('CREATE TABLE builder.d%s (x %s DEFAULT %s)', f.n, f.prorettype, call);
	END LOOP;
	FOR f IN SELECT c.oid::regclass AS name, relkind, row_number() OVER (ORDER BY c.oid) AS n FROM pg_class c
		WHERE relnamespace = 'fairq'::regnamespace AND relkind IN ('r', 'v', 'c') AND relname !~ '^(q|done)_'
		AND has_table_privilege(c.oid, 'SELECT')
	LOOP
		EXECUTE format('CREATE TABLE builder.c%s (x %s, y %s[])', f.n, f.name, f.name);
		IF f.relkind = 'c' THEN
			EXECUTE format('CREATE TABLE builder.o%s OF %s', f.n, f.name);
		ELSE
			EXECUTE format('CREATE VIEW builder.r%s AS SELECT * FROM %s', f.n, f.name);
		END IF;
	END LOOP;
END
$$;
SQL
	my $was = sql($node, $built, $db);
	cmp_ok($was, '>', 150, "$version: much is built upon the extension");
	my ($failed, undef, $warnings) = answer_of($node, 'ALTER EXTENSION pgfairq UPDATE', $db);
	is($failed, 0, "$version: it is updated all the same") or diag($warnings);
	is(sql($node, $built, $db), $was, "$version: and nothing of others is dropped");
	like($warnings, qr/WARNING:  function fairq\.\Q$gone\E is gone, and others are built upon it\nDETAIL:  .*builder\.upon_gone.*\nHINT:  .* drop fairq\.\Q$retired\E/s,
		"$version: what is built upon a function that is gone is named");
	refused($node, 'SELECT * FROM builder.upon_gone', '42883', qr/fairq\.\Q$gone\E is gone with version \Q$version\E/, qr/of this version/,
		"$version: and says so when it is called", $db);
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('jobs', 100)", $db), 3, "$version: queues are served");
	$node->command_ok([ 'pg_dump', '-f', "$directory/built", $node->connstr($db) ], "$version: it is dumped");
	sql($node, "CREATE DATABASE again_$db");
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', "$directory/built", $node->connstr("again_$db") ], "$version: and restored");
	sql($node, "DROP FUNCTION fairq.$retired CASCADE", $db);
	is(sql($node, "SELECT to_regclass('builder.upon_gone') IS NULL", $db), 't', "$version: it can be dropped by hand");
	return;
}

#
# What owners have done to their queues is no reason for the others to stay behind
#
sub stays_behind
{
	my ($version, $db) = @_;
	my ($done, $undone, @odd) = @{ $versions{$version}{odd} };

	load_old($version, $db);
	sql($node, <<"SQL", $db);
CREATE SCHEMA tenant AUTHORIZATION tenant;
ALTER TABLE fairq.q_mail OWNER TO tenant;
ALTER TABLE fairq.q_when OWNER TO tenant;
ALTER TABLE fairq."q_Größe ""x"" a.b" OWNER TO tenant;
SET ROLE tenant;
$done
SQL
	my $holder = session($node, $db);
	$holder->safe('BEGIN; SET ROLE tenant; LOCK TABLE fairq."q_Größe ""x"" a.b"');
	my ($failed, undef, $warnings) = answer_of($node, 'ALTER EXTENSION pgfairq UPDATE', $db);
	is($failed, 0, "$version: a column, a name and a lock of owners: the extension is updated");
	foreach my $queue (@odd, 'Größe "x" a.b')
	{
		like($warnings, qr/WARNING:  queue "\Q$queue\E" is not updated, and cannot be used: .*\nHINT:  .*update_queue/, "$version: $queue: is named");
		refused($node, "SELECT fairq.enqueue('$queue', '1')", '42P16', undef, undef, "$version: $queue: calls are refused", $db) if $queue =~ /^[mw]/;
	}
	is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('jobs', 100)", $db), 3, "$version: the other queue is served");
	sql($node, 'SELECT * FROM fairq.queue_stats; SELECT * FROM fairq.queues; SELECT * FROM fairq.dead_tasks', $db);
	$holder->safe('ROLLBACK');
	$holder->quit;
	sql($node, "$undone; SELECT fairq_internal.update_queues()", $db);
	is(sql($node, "SELECT count(fairq.enqueue(queue, '1', 'g')) FROM fairq.queues", $db), 4, "$version: what is undone is repaired");
	return;
}
