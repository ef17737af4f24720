# A database of an earlier version, when the server has a new library: nothing is
# done with the old SQL but said what is to be done, and ALTER EXTENSION UPDATE
# makes it what a new database is, with all its tasks.
#
# test/upgrade has the install script of each earlier version, and a dump with tasks
# in every state that it wrote. Shown: every function refuses, before it looks at
# an argument; the worker says so once and leaves the database alone; the tables can
# be written, dumped and dropped; the update can be rolled back; open sessions know
# of it at once; afterwards the catalog is that of a new database, to the last
# comment and privilege; and all tasks are served.
#
# To see it fail: take extension_version_require() out of arguments.c, the check out
# of fairq_row_written() or of the worker's list_queues(), or
# CacheInvalidateRelcacheByRelid() out of extension_version.c; leave a line out of
# sql/update/0.1.0--0.2.0.sql, or the EXCEPTION out of update_queues() or retire(); add
# a column there with its default, or an attribute without CASCADE.

use strict;
use warnings;

use File::Copy;
use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $scripts = "$FindBin::RealBin/../upgrade";

# The server has to find the old install script beside the new one.
chomp(my $sharedir = `pg_config --sharedir`);
my $installed = "$sharedir/extension/pgfairq--0.1.0.sql";
if (!-e $installed && !copy("$scripts/pgfairq--0.1.0.sql", $installed))
{
	plan skip_all => "cannot write $installed: $!";
}

my $node = fairq_node('upgrade');
my $new = sql($node, "SELECT extversion FROM pg_extension WHERE extname = 'pgfairq'");
my $library = quotemeta $new;
isnt($new, '0.1.0', 'there is a later version');

sub load_old
{
	my ($db) = @_;

	sql($node, "CREATE DATABASE $db");
	sql($node, "CREATE EXTENSION pgfairq VERSION '0.1.0'", $db);
	$node->command_ok(
		[ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', "$scripts/tasks-0.1.0.sql", $node->connstr($db) ],
		"$db: a database of 0.1.0 with tasks is restored");
	return;
}

sql($node, 'CREATE ROLE clerk; CREATE ROLE reader');
load_old('old');

#
# What the old SQL does with the new library
#
my @refuse = ('55000', qr/version 0\.1\.0 in database "old".*library has version $library/, qr/ALTER EXTENSION pgfairq UPDATE/);
my %exceptions = map { $_ => 1 } qw(row_written durable_lease_written dead_of_queues);
foreach my $function (rows($node, <<'SQL', 'old'))
SELECT proname, CASE prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT ' END || oid::regproc || '('
		|| coalesce((SELECT string_agg('NULL::' || t::regtype, ', ' ORDER BY n) FROM unnest(proargtypes) WITH ORDINALITY a(t, n)), '') || ')'
  FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace AND proname !~ '^address_|^(bucket|class|block|slot)$' ORDER BY proname
SQL
{
	my ($name, $call) = @$function;

	refused($node, $call, @refuse, "$name refuses", 'old') unless $exceptions{$name};
}
refused($node, 'SELECT * FROM fairq.dead_tasks', @refuse, 'so does what calls it', 'old');
my $line = qr/LOG:  .*extension "pgfairq" has version 0\.1\.0 in database "old", and the server's library has version $library/;
ok(wait_for(sub { slurp_file($node->logfile) =~ $line }), 'the worker says so');
is(sql($node, 'SELECT count(*) FROM fairq.queues', 'old'), 4, 'what is SQL alone still answers');
is( sql($node, "INSERT INTO fairq.q_jobs (id, enqueued_at, state, group_key, payload, priority, cost, attempts, address)
			VALUES (900, now(), 'r', '', '900', 7, 1, 0, '(0,7,900)'), (901, now(), 'r', '', '901', 8, 1, 0, '(0,8,901)');
		UPDATE fairq.q_jobs SET payload = '\"9xx\"' WHERE id = 900; DELETE FROM fairq.q_jobs WHERE id = 901;
		SELECT array_agg(id ORDER BY id) FROM fairq.q_jobs", 'old'),
	'{1,2,3,900}', 'rows are written with SQL');
my $directory = PostgreSQL::Test::Utils::tempdir();
$node->command_ok([ 'pg_dump', '-f', "$directory/old", $node->connstr('old') ], 'the database is dumped');

load_old('dropped');
sql($node, 'DROP EXTENSION pgfairq CASCADE', 'dropped');
is(sql($node, "SELECT count(*) FROM pg_class WHERE relname LIKE 'q\\_%'", 'dropped'), 0, 'the extension can be dropped');
sql($node, 'CREATE EXTENSION pgfairq', 'dropped');
is(sql($node, "SELECT fairq.create_queue('new'); SELECT fairq.enqueue('new', '1')", 'dropped'), "\n1", 'and created in the new version');

# A lease that outlived the old server, as its table has it: no dump does.
my $receipt = '00000000-e1bb-83ce-8158-0140ba04b4be';
sql($node, <<"SQL", 'old');
ALTER TABLE fairq.durable_lease DISABLE TRIGGER fairq_durable_lease_written;
INSERT INTO fairq.durable_lease (queue, attempt, task, lease_until, claimed_at, receipt, of_session)
	VALUES ('fairq.q_mail', 1, 5, now() + interval '1 h', now(), '$receipt', false);
ALTER TABLE fairq.durable_lease ENABLE ALWAYS TRIGGER fairq_durable_lease_written;
SQL

#
# The update, in vain and for good, and what sessions that are open know of it
#
my $session = session($node, 'old');
my $another = session($node, 'old');
my $ready = q{SELECT count(*) FROM fairq.tasks('jobs')};
$another->query($ready);
like($another->error, qr/version 0\.1\.0/, 'a session is refused');
$session->safe('BEGIN; ALTER EXTENSION pgfairq UPDATE');
is($session->safe($ready), 4, 'whoever updates is not');
$session->safe('ROLLBACK');
$session->query($ready);
like($session->error, qr/version 0\.1\.0/, 'unless it is rolled back');
sql($node, 'ALTER TABLE fairq.q_jobs OWNER TO clerk; GRANT SELECT ON fairq.q_mail TO reader', 'old');
sql($node, 'CREATE TABLE fairq.done_tasks (id bigint)', 'old');
$session->safe('ALTER EXTENSION pgfairq UPDATE');
is(sql($node, "SELECT 'fairq.tasks_done'::regclass", 'old'), 'fairq.tasks_done', 'the done table of a queue "tasks" leaves the view its name');
is($another->safe($ready), 4, 'once it is committed, nobody is');
$session->quit;
$another->quit;
my $lines = () = slurp_file($node->logfile) =~ /$line/g;
is($lines, 1, 'there was one line in the log');
my $worker = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = 'old'";
ok(wait_for(sub { sql($node, $worker) == 1 }), 'and there is a worker now');

#
# The catalog
#
sql($node, 'CREATE DATABASE fresh');
sql($node, q{CREATE EXTENSION pgfairq; SELECT fairq.create_queue('mail', keep_done => '1 h')}, 'fresh');
sql($node, 'REVOKE SELECT ON fairq.q_mail FROM reader; UPDATE pg_class SET relacl = NULL WHERE oid = \'fairq.q_mail\'::regclass', 'old');
my $catalog = sub {
	my ($db) = @_;
	return [ split /\n/, sql($node, slurp_file("$scripts/catalog.sql"), $db) ];
};
my ($fresh, $updated) = ($catalog->('fresh'), $catalog->('old'));
cmp_ok(scalar(@$fresh), '>', 500, 'the catalog of a new database');
my %lines_of_fresh = map { $_ => 1 } @$fresh;
my %lines_of_updated = map { $_ => 1 } @$updated;
is(join("\n", grep { !$lines_of_updated{$_} } @$fresh), '', 'the updated one lacks nothing');
is(join("\n", grep { !$lines_of_fresh{$_} } @$updated), '', 'and has nothing else');
is(join("\n", @$updated), join("\n", @$fresh), 'in the same order');

#
# The settings, and the tasks
#
is( join("\n", column($node, 'SELECT queue || \' \' || policy || \' \' || buckets || \' \' || lease || \' \' || max_ready_per_group || \' \' || paused FROM fairq.queues ORDER BY queue COLLATE "C"', 'old')),
	join("\n", 'Größe "x" a.b fair 16 00:00:30 10000 true', 'jobs priority 1 00:05:00 10000 false', 'mail fair 2 00:00:30 3 false', 'when time 1 00:00:30 10000 false'),
	'the settings of queues');
is(sql($node, 'SELECT owner FROM fairq.queues WHERE queue = \'jobs\'', 'old'), 'clerk', 'owners');
is(join(' ', column($node, 'SELECT topic || \'>\' || queue FROM fairq.topics ORDER BY 1', 'old')), 'orders.#>mail orders.*.paid>Größe "x" a.b', 'topics');
is( join("\n", column($node, "SELECT concat_ws(' ', group_key, weight, max_leased, rate, burst, paused) FROM fairq.group_settings WHERE group_key IN ('heavy', 'slow', 'paused') ORDER BY 1", 'old')),
	join("\n", 'heavy 3 2 f', 'paused t', 'slow 0.5 4 f'),
	'settings of groups');

my $claimed = sub { join(' ', column($node, "SELECT payload #>> '{}' FROM $_[0]", 'old')) };
is(sql($node, "SELECT id, receipt FROM fairq.leases", 'old'), "5|$receipt", 'the durable lease holds');
is(sql($node, "SELECT id, state FROM fairq.tasks('mail') WHERE state IN ('dead', 'held', 'leased') ORDER BY id", 'old'), "1|dead\n5|leased\n6|held", 'what is dead, leased and held');
is($claimed->("fairq.pop('mail', 100, group_keys => '{heavy}')"), 'first', 'a task of its class');
is(sql($node, "SELECT fairq.ack('$receipt')", 'old'), 't', 'the receipt of before is good');
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('mail') WHERE state IN ('held', 'overflow') OR (state = 'scheduled' AND run_at < now())", 'old') eq '0'
		|| ($claimed->("fairq.pop('mail', 1, group_keys => '{many}')") && 0) }),
	'what was held, due or in the overflow becomes ready');
is(join(' ', sort split / /, $claimed->("fairq.pop('mail', 100, group_keys => '{leased,retried}')")), 'failed held', 'and is served');
is($claimed->("fairq.pop('mail', 100, group_keys => '{paused}')"), '', 'a paused group is paused');
is($claimed->("fairq.pop('jobs', 100)"), '3 2 1 9xx', 'by priority, with what was written with SQL');
is($claimed->("fairq.pop('when', 100)"), '3 2 1', 'by time');
is($claimed->(q{fairq.pop('Größe "x" a.b', 100)}), '', 'a paused queue is paused');
sql($node, q{SELECT fairq.resume('Größe "x" a.b')}, 'old');
is($claimed->(q{fairq.pop('Größe "x" a.b', 100)}), '{"a": [1, null, "ü"]}', 'until it is resumed');
is(sql($node, "SELECT fairq.publish('orders.1.paid', '1')", 'old'), 2, 'topics are served');
is(sql($node, "SELECT min(id) > 17 FROM fairq.tasks('mail') WHERE payload = '1'", 'old'), 't', 'ids go on');
is(sql($node, "SELECT count(*) FROM fairq.done_mail WHERE id IN (2, 3)", 'old'), 2, 'the archive is there');
is( sql($node, "SELECT count(*) FROM fairq.done_mail d, fairq.await('mail', d.id) o WHERE d.id IN (2, 3) AND o.state = d.outcome AND o.result IS NULL", 'old'),
	2, 'its tasks are known');
is( sql($node, "SELECT fairq.enqueue('mail', '2') AS id \\gset\nSELECT count(fairq.ack(receipt, '2')) FROM fairq.claim('mail', 100) WHERE id = :id;"
		  . " SELECT result FROM fairq.await('mail', :id)", 'old'), "1\n2", 'and it takes results');

#
# A done table as a dump of 0.1.0 has it, in a new database
#
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

#
# What owners have done to their queues is no reason for the others to stay behind
#
load_old('odd');
sql($node, <<'SQL', 'odd');
CREATE ROLE tenant;
CREATE SCHEMA tenant AUTHORIZATION tenant;
ALTER TABLE fairq.q_mail OWNER TO tenant;
ALTER TABLE fairq.q_when OWNER TO tenant;
ALTER TABLE fairq."q_Größe ""x"" a.b" OWNER TO tenant;
SET ROLE tenant;
ALTER TABLE fairq.q_mail ADD expires_at int;
ALTER TABLE fairq.q_when RENAME state TO stat;
SQL
my $holder = session($node, 'odd');
$holder->safe('BEGIN; SET ROLE tenant; LOCK TABLE fairq."q_Größe ""x"" a.b"');
my ($failed, undef, $warnings) = $node->psql('odd', 'ALTER EXTENSION pgfairq UPDATE');
is($failed, 0, 'a column, a name and a lock of owners: the extension is updated');
foreach my $queue (qw(mail when), 'Größe "x" a.b')
{
	like($warnings, qr/WARNING:  queue "\Q$queue\E" is not updated, and cannot be used: .*\nHINT:  .*update_queue/, "$queue: is named");
	refused($node, "SELECT fairq.enqueue('$queue', '1')", '42P16', undef, undef, "$queue: calls are refused", 'odd') if $queue =~ /^[mw]/;
}
is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('jobs', 100)", 'odd'), 3, 'the other queue is served');
sql($node, 'SELECT * FROM fairq.queue_stats; SELECT * FROM fairq.queues; SELECT * FROM fairq.dead_tasks', 'odd');
$holder->safe('ROLLBACK');
$holder->quit;
sql($node, 'ALTER TABLE fairq.q_mail DROP expires_at; ALTER TABLE fairq.q_when RENAME stat TO state', 'odd');
sql($node, 'SELECT fairq_internal.update_queues()', 'odd');
is(sql($node, "SELECT count(fairq.enqueue(queue, '1')) FROM fairq.queues", 'odd'), 4, 'what is undone is repaired');

#
# Nor is what any role has built upon what was there: upon each function a function in SQL, a
# view and a default, upon each table and view a view and a column, upon each type a table
#
sql($node, 'CREATE ROLE builder');
load_old('built');
sql($node, <<'SQL', 'built');
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
CREATE VIEW builder.acks AS SELECT fairq.ack(NULL);
SQL
my $built = q{SELECT count(*) FROM (SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_proc) o JOIN pg_depend d ON d.objid = o.oid AND d.refobjid = 'builder'::regnamespace};
my $was = sql($node, $built, 'built');
cmp_ok($was, '>', 150, 'much is built upon the extension');
($failed, undef, $warnings) = $node->psql('built', 'ALTER EXTENSION pgfairq UPDATE');
is($failed, 0, 'it is updated all the same') or diag($warnings);
is(sql($node, $built, 'built'), $was, 'and nothing of others is dropped');
like($warnings, qr/WARNING:  function fairq\.ack\(uuid\) is gone, and others are built upon it\nDETAIL:  .*builder\.acks.*\nHINT:  .* drop fairq\.ack_0_1\(uuid\)/s, 'what is built upon a function that is gone is named');
refused($node, 'SELECT * FROM builder.acks', '42883', qr/fairq\.ack\(uuid\) is gone with version 0\.1\.0/, qr/of this version/, 'and says so when it is called', 'built');
is(sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('jobs', 100)", 'built'), 3, 'queues are served');
$node->command_ok([ 'pg_dump', '-f', "$directory/built", $node->connstr('built') ], 'it is dumped');
sql($node, 'CREATE DATABASE again');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', "$directory/built", $node->connstr('again') ], 'and restored');
sql($node, 'DROP FUNCTION fairq.ack_0_1(uuid) CASCADE', 'built');
is(sql($node, "SELECT to_regclass('builder.acks') IS NULL", 'built'), 't', 'it can be dropped by hand');

#
# SQL that is newer than the library
#
sql($node, "UPDATE pg_extension SET extversion = '9.9.9' WHERE extname = 'pgfairq'", 'fresh');
refused($node, "SELECT fairq.enqueue('mail', '1')", '55000', qr/has version 9\.9\.9 in .*library has version $library/,
	qr/install that of version 9\.9\.9/, 'newer SQL is refused, too', 'fresh');

$node->stop;
done_testing();
