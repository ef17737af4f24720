# Topics: subscriptions through dump and restore, and publishers against
# everything that changes who is to get what.
#
# Shown: a restored database has the subscriptions of its queues, and they
# work there; subscriptions whose table is gone are with nobody there either.
# Under load no publisher sees an error, and what publish() said is what is in
# the queues, while these are subscribed, unsubscribed, dropped and made anew.
#
# To see it fail: leave fairq.topic out of pg_extension_config_dump (nothing is
# published in the copy); leave the triggers of fairq.topic enabled (the settings of
# queues last); open the queues in topics_publish with
# queue_open() (publishers fail with 42704 while queues are dropped).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('topics', conf => "max_connections = 30\n");

#
# Dump and restore
#
sql($node, <<'SQL');
SELECT fairq.create_queue('a queue'), fairq.create_queue('other'), fairq.create_queue('gone');
SELECT fairq.subscribe('x.*', 'a queue'), fairq.subscribe('#', 'a queue'),
       fairq.subscribe('x.#.z', 'other'), fairq.subscribe('#', 'gone');
DROP TABLE fairq.q_gone;
SELECT fairq.publish('x.y', '"before"');
SQL
my $dump = $node->backup_dir . '/topics.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, 'postgres' ], 'pg_dump');

# With the settings of queues last, as pg_restore -j may load them.
my ($list) = run_command([ 'pg_restore', '-l', $dump ]);
my @settings = grep { /TABLE DATA fairq queue / } split /\n/, $list;
is(scalar @settings, 1, 'the settings of queues are in the archive');
append_to_file("$dump.list", join("\n", (grep { $_ ne $settings[0] } split /\n/, $list), @settings) . "\n");

foreach my $way ([], [ '-j', '2' ], [ '-L', "$dump.list" ], [ '--disable-triggers' ])
{
	my $copy = 'copy' . ($way->[0] // '');

	$node->command_ok([ 'createdb', $copy ], "createdb $copy");
	$node->command_ok([ 'pg_restore', @$way, '-d', $copy, $dump ], "pg_restore @$way");
	is(join(', ', map { "@$_" } rows($node, 'SELECT topic, queue FROM fairq.topics ORDER BY 1, 2', $copy)),
		'# a queue, x.#.z other, x.* a queue', 'the subscriptions of the queues are there');
	is(sql($node, q{SELECT fairq.publish('x.z', '"after"'), fairq.publish('y', '"after"')}, $copy),
		'2|1', 'and what is published comes in');
	sql($node, q{SELECT fairq.create_queue('gone')}, $copy);
	is(sql($node, q{SELECT fairq.publish('y', '"after"')}, $copy), '1',
		'a queue of a name that had subscriptions begins without');
}

#
# Publishers against the rest.  Each publisher notes what publish() said; a
# queue that was dropped has the tasks that were noted for it or its successor
# at most, one that stayed has them all.
#
sql($node, <<'SQL');
SELECT fairq.create_queue('stays'), fairq.subscribe('t.#', 'stays');
CREATE TABLE published (said int);
-- To one topic instead of another, if there is the queue: it may be being dropped.
CREATE FUNCTION subscribed(topic text, other text, queue text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fairq.subscribe(topic, queue), fairq.unsubscribe(other, queue);
	RETURN NULL;
EXCEPTION WHEN undefined_object OR undefined_table THEN
	RETURN sqlerrm;
END $$;
SQL
my %script = (
	publish => <<'SQL',
INSERT INTO published SELECT fairq.publish('t.a', '1');
SQL
	subscribe => <<'SQL',
\set n random(1, 3)
SELECT subscribed('t.*', 't.a', 'comes ' || :n);
SELECT subscribed('t.a', 't.*', 'comes ' || :n);
SQL
	drop => <<'SQL',
\set n random(1, 3)
BEGIN;
SELECT fairq.drop_queue('comes ' || :n);
SELECT fairq.create_queue('comes ' || :n, buckets => 1);
SELECT fairq.subscribe('#', 'comes ' || :n);
COMMIT;
SQL
);
my %clients = (publish => 4, subscribe => 2, drop => 1);
my %load = map { $_ => start_pgbench($node, { $_ => $script{$_} }, '-T', 5, '-c', $clients{$_}, '--max-tries=1') } keys %script;

$load{$_}->ran_well($_) foreach sort keys %load;
my ($published, $said) = @{ (rows($node, 'SELECT count(*), sum(said) FROM published'))[0] };
cmp_ok($published, '>', 0, "published $published times");
is(sql($node, q{SELECT count(*) FROM fairq.tasks('stays')}), $published,
	'each came into the queue that stayed');
my ($gone) = column($node, q{SELECT count(*) FROM fairq.topic t WHERE NOT EXISTS (SELECT FROM fairq.queue q WHERE q.queue = t.queue)});
is($gone, '0', 'no subscription is left of a queue that is not there');
my ($here) = column($node, q{SELECT sum(n) FROM fairq.queues, LATERAL (SELECT count(*) n FROM fairq.tasks(queue)) t WHERE queue LIKE 'comes%'});
cmp_ok($published + $here, '<=', $said, 'no more than publish() said is in the others');
cmp_ok($said, '>', $published, "which had some: said $said, of $published times");
$node->stop;
done_testing();
