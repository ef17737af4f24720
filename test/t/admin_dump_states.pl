# Dump and restore with tasks in every state, in queues of every kind (I9).
#
# Shown, for pg_dump as a script and in its custom format, and for pg_dumpall
# into a new cluster, as for an upgrade: all that is known of a task is carried,
# but for the lease; tasks come in the same order as they would have come in the
# original; what was scheduled or waits after a failed attempt becomes ready
# when it is time, and nobody has to do anything for that; what is paused stays
# paused, what is dead dead; and ids go on where they were.
#
# To see it fail, take one of these guards out of the engine:
# - that the background worker looks at a queue that is incomplete, for its
#   indexes are restored last, every second: what is due waits for many seconds;
# - that the worker is told when the trigger of a table is restored, which comes
#   last: what was due soon does not become ready;
# - that the settings of queues are dumped with the extension: there are none.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = fairq_node('dump', conf => <<'CONF');
max_connections = 30
shared_buffers = 64MB
CONF

# The states: name, what makes tasks of it in a queue, and the state that these
# have in the copy.  The tasks are those of the group of that name.  A state that
# does not last is called soon: in the copy it is what it comes to; when it is, is
# set when all are there.
my $soon = "clock_timestamp() + interval '1 h'";
my $claim = sub {
	my ($q, $group, $more) = @_;
	return "fairq.claim($q, 100, group_keys => '{$group}', lease => '1 h')";
};
my @states = (
	[ 'ready', sub { "SELECT put($_[0], 'ready', 5)" }, 'ready' ],
	[ 'leased', sub { "SELECT put($_[0], 'leased', 3); SELECT FROM " . $claim->($_[0], 'leased') }, 'ready' ],
	[
		'leased again',
		sub {
			my $again = $claim->($_[0], 'leased again');
			"SELECT put($_[0], 'leased again', 3); SELECT fairq.nack(receipt, 'no good', '0') FROM $again; SELECT FROM $again";
		},
		'ready'
	],
	[
		'retried',
		sub { "SELECT put($_[0], 'retried', 3); SELECT fairq.nack(receipt, 'once more', '0') FROM " . $claim->($_[0], 'retried') },
		'ready'
	],
	[ 'scheduled', sub { "SELECT put($_[0], 'scheduled', 3, '2100-01-01')" }, 'scheduled' ],
	[ 'scheduled soon', sub { "SELECT put($_[0], 'scheduled soon', 3, $soon)" }, 'ready' ],
	[
		'backing off',
		sub { "SELECT put($_[0], 'backing off', 3); SELECT fairq.nack(receipt, 'try later', '1 h') FROM " . $claim->($_[0], 'backing off') },
		'scheduled'
	],
	[
		'backing off soon',
		sub {
			"SELECT put($_[0], 'backing off soon', 3); SELECT fairq.nack(receipt, 'try soon', $soon - clock_timestamp()) FROM "
			  . $claim->($_[0], 'backing off soon');
		},
		'ready'
	],
	[
		'dead',
		sub { "SELECT put($_[0], 'dead', 3); SELECT fairq.nack(receipt, 'hopeless') FROM " . $claim->($_[0], 'dead') },
		'dead'
	],);

# The queues: name, and how it is created; paused if it says so.
my @queues = (
	[ 'plain', '' ],
	[ 'one bucket', 'buckets => 1, lease => \'77 s\', backoff_base => \'3 s\'' ],
	[ 'by priority', q{policy => 'priority', buckets => 4} ],
	[ 'by time', q{policy => 'time', buckets => 3} ],
	[ 'paused', 'max_attempts => 7', 'paused' ],
	[ q{Größe "x" a.b}, '' ],
	[ q{it's $q$ \\ %I; DROP TABLE x; --}, '' ],
	[ 'x' x 48, q{policy => 'priority'}, 'paused' ],
	[ 'fichiers-à-traiter', 'buckets => 100' ]);

sub literal
{
	my ($text) = @_;

	return "'" . $text =~ s/'/''/gr . "'";
}

#
# The original
#
sql($node, 'CREATE DATABASE source');
sql($node, <<'SQL', 'source');
CREATE EXTENSION pgfairq;
CREATE FUNCTION put(q text, g text, n int, due timestamptz DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
	SELECT fairq.enqueue(q, jsonb_build_object('n', g || ' ' || i, 'more', '{"a": [1, null, "ü"]}'::jsonb), group_key => g,
			priority => CASE (SELECT policy FROM fairq.queues WHERE queue = q) WHEN 'fair' THEN i % 2 WHEN 'priority' THEN 100 - i ELSE 0 END,
			cost => CASE (SELECT policy FROM fairq.queues WHERE queue = q) WHEN 'fair' THEN 1 + i / 4.0 ELSE 1 END,
			run_at => due, headers => CASE WHEN i = 2 THEN '{"h": 1}'::jsonb END,
			max_attempts => CASE WHEN g = 'dead' THEN 1 WHEN i = 3 THEN 5 END, lease => CASE WHEN i = 1 THEN interval '5 s' END)
	  FROM generate_series(1, n) i ORDER BY i
$$;
-- The order in which tasks come, one claim each.
CREATE FUNCTION served(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	n text;
BEGIN
	LOOP
		SELECT id || ' ' || (payload->>'n') || ' ' || attempt INTO n FROM fairq.claim(q, lease => '1 h');
		EXIT WHEN NOT FOUND;
		RETURN NEXT n;
	END LOOP;
END $$;
CREATE FUNCTION numbers(q text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT group_key || ': ' || state || ' ' || count(*) FROM fairq.tasks(q) GROUP BY group_key, state
$$;
SQL
foreach my $queue (@queues)
{
	my ($name, $settings, $paused) = @$queue;
	my $q = literal($name);

	sql($node,
		join(";\n",
			"SELECT fairq.create_queue($q" . ($settings ? ", $settings" : '') . ')',
			(map { $_->[1]->($q) } @states),
			$paused ? "SELECT fairq.pause($q)" : ()),
		'source');
}

# Without what is not carried: the lease; and without what will change.
my $settings = 'SELECT to_jsonb(q) FROM fairq.queues q ORDER BY queue COLLATE "C"';
my $tasks = <<'SQL';
SELECT queue, to_jsonb(t) - 'lease_until' - CASE state WHEN 'leased' THEN 'state' WHEN 'ready' THEN 'state' ELSE '' END
  FROM fairq.queues q, LATERAL fairq.tasks(queue) t WHERE group_key !~ 'soon' ORDER BY queue COLLATE "C", id
SQL
my $leased = 'SELECT count(*) FROM fairq.queues, LATERAL fairq.tasks(queue) t WHERE state = \'leased\'';
my %settings_of = (source => sql($node, $settings, 'source'));
my %tasks_of = (source => sql($node, $tasks, 'source'));
my $last_id = 'SELECT array_agg((SELECT max(id) FROM fairq.tasks(queue)) ORDER BY queue COLLATE "C") FROM fairq.queues';
my %ids_of = (source => sql($node, $last_id, 'source'));
cmp_ok(sql($node, $leased, 'source'), '>', 0, 'in the original tasks are leased');

#
# Three copies
#
my $directory = PostgreSQL::Test::Utils::tempdir();
my $upgraded = fairq_node('upgraded', preload => 0, conf => "shared_preload_libraries = 'pgfairq'\npgfairq.sweep_interval = 0\nmax_connections = 30\nshared_buffers = 64MB\n");
my %copies = (
	'script' => [ $node, 'script' ],
	'custom format' => [ $node, 'custom' ],
	'pg_dumpall' => [ $upgraded, 'source' ]);

# Time for all dumps, and more.
my $begin = time();
$node->command_ok([ 'pg_dump', '-f', "$directory/first", $node->connstr('source') ], 'a dump takes its time');
my $delay = sprintf('%.0f', max(15, 10 * (time() - $begin)));
sql($node, <<"SQL", 'source');
DO \$\$
DECLARE
	q text;
BEGIN
	FOR q IN SELECT queue FROM fairq.queues LOOP
		EXECUTE format('UPDATE fairq.%I SET run_at = clock_timestamp() + interval ''$delay s'' WHERE group_key ~ ''soon''', 'q_' || q);
	END LOOP;
END \$\$;
SQL
my $due = time() + $delay;
$node->command_ok([ 'pg_dump', '-f', "$directory/script", $node->connstr('source') ], 'pg_dump');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/custom", $node->connstr('source') ], 'pg_dump, custom format');
$node->command_ok([ 'pg_dumpall', '--no-sync', '-f', "$directory/all", '-d', $node->connstr('postgres') ], 'pg_dumpall');
is( sql($node, "SELECT count(*) FROM fairq.queues, LATERAL fairq.tasks(queue) t WHERE group_key ~ 'soon' AND state <> 'scheduled'", 'source'),
	0,
	'when the dumps were made, nothing had become due');
sql($node, 'CREATE DATABASE script TEMPLATE template0');
sql($node, 'CREATE DATABASE custom TEMPLATE template0');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$directory/out", '-f', "$directory/script", $node->connstr('script') ],
	'script: restored without an error');
# In parts, as if there were so much data that it took until later.
my @pg_restore = ('pg_restore', '-e', '-d', $node->connstr('custom'), "$directory/custom");
$node->command_ok([ @pg_restore, '--section=pre-data', '--section=data' ], 'custom format: the data are restored');
# The background worker looks at the queues as they are, without indexes.
my $worker = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = 'custom'";
my $first_worker;
ok(wait_for(sub { ($first_worker = sql($node, $worker)) > 0 }), 'custom format: there is a background worker');
sql($node, "SELECT pg_terminate_backend($first_worker)");
ok(wait_for(sub { sql($node, $worker) !~ /^(0|$first_worker)$/ }), 'custom format: and a new one');
my $first_look = time();
{
	# The superuser is there already: the one error there may be.
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-X', '-q', '-f', "$directory/all", $upgraded->connstr('postgres') ], '>', \$out, '2>', \$err);
	is(join("\n", grep { /ERROR|FATAL/ && !/role ".*" already exists/ } split /\n/, $err), '', 'pg_dumpall: restored without an error');
}

foreach my $copy (sort { $b cmp $a } keys %copies)
{
	my ($where, $db) = @{ $copies{$copy} };

	# All is due by now in the others.
	if ($db eq 'custom')
	{
		# A worker that looks after 1, 3, 7, 15 and 31 seconds is to be late.
		wait_for(sub { time() > max($first_look + 17, $due + 1) });
		$node->command_ok([ @pg_restore, '--section=post-data' ], 'custom format: restored without an error');
	}
	is(sql($where, $settings, $db), $settings_of{source}, "$copy: the settings of all queues");
	is(sql($where, $tasks, $db), $tasks_of{source}, "$copy: all that is known of all tasks");
	is(sql($where, $leased, $db), 0, "$copy: nothing is leased");
	is(sql($where, $last_id, $db), $ids_of{source}, "$copy: no id is given twice, none is gone");

	# By itself, without a claim or an enqueue that might help.
	my $late = "SELECT count(*) FROM fairq.queues, LATERAL fairq.tasks(queue) t WHERE group_key ~ 'soon' AND state <> 'ready'";
	ok(wait_for(sub { sql($where, $late, $db) eq '0' }, $db eq 'custom' ? 10 : max(60, $delay + 45)), "$copy: what was due soon is ready");
}

# The original lets go of its leases, and is asked for the order.
sql($node, 'SELECT fairq.release(receipt) FROM fairq.leases', 'source');
foreach my $queue (@queues)
{
	my ($name, undef, $paused) = @$queue;
	my $q = literal($name);
	my $served = sub {
		my ($where, $db) = @_;
		sql($where, "SELECT fairq.resume($q)", $db) if $paused;
		return [ grep { !/soon/ } column($where, "SELECT served($q)", $db) ];
	};
	my $original = $served->($node, 'source');

	cmp_ok(scalar(@$original), '>=', 14, "$name: tasks in the original");
	foreach my $copy (sort keys %copies)
	{
		my ($where, $db) = @{ $copies{$copy} };
		my $last = sql($where, "SELECT max(id) FROM fairq.tasks($q)", $db);

		is( join(', ', sort { $a cmp $b } column($where, "SELECT numbers($q)", $db)),
			join(', ', sort { $a cmp $b } map { "$_->[0]: $_->[2] " . ($_->[0] eq 'ready' ? 5 : 3) } @states),
			"$copy, $name: states");
		is(sql($where, "SELECT count(*) FROM fairq.claim($q)", $db), 0, "$copy, $name: is paused") if $paused;
		is_deeply($served->($where, $db), $original, "$copy, $name: tasks come in the same order");
		is(sql($where, "SELECT fairq.enqueue($q, '1') > $last", $db), 't', "$copy, $name: ids go on");
		is( sql($where, "SELECT fairq.revive_all($q); SELECT count(*) FROM fairq.claim($q, 100, group_keys => '{dead}') WHERE attempt = 1", $db),
			"3\n3",
			"$copy, $name: the dead can be revived");
	}
}

$upgraded->stop;
$node->stop;
done_testing();
