# The tasks of a node that is drained are moved to the others, with all that is known of
# them, in their order, once each: also when the mover dies between any two of its steps,
# when the node that gets them is away, and under load.
#
# To see it fail: let arrive() not look whether a batch has arrived; take the look at leases
# or at keys out of depart(), or the line of dependencies; forget before arrive in deliver(); leave run_as_owner() out of fairq_as_owner;
# let node_of_predecessors() ask the node that gave an id only; in move_queue() leave out
# may_depart(), or the ELSE after deliver().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, $one, $two) = fairq_cluster(2);

sub drained
{
	my ($number) = @_;
	my $other = 3 - $number;

	sql($proxy, "SELECT fairq.undrain_node($other), fairq.drain_node($number)");
	return;
}

# what a queue has, but for ids and places
sub content
{
	my ($node, $queue) = @_;

	return sql($node, "SELECT payload, headers, group_key, priority, cost, attempts, max_attempts, unique_key, last_error, expires_at, enqueued_at,
		CASE WHEN state = 'scheduled' THEN run_at END, CASE state WHEN 'overflow' THEN 'ready' ELSE state END
		FROM fairq.tasks('$queue') ORDER BY payload::text");
}

# wait until the worker has given places to what has arrived
sub settled
{
	my ($node, $queue, $held) = @_;

	return wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('$queue', 'held')") eq ($held // 0) });
}

# all states and columns, made at node 1
sql($proxy, "SELECT fairq.drain_node(2); SELECT fairq.create_queue('q', buckets => 1, max_ready_per_group => 3, default_priority => 5, keep_done => '1 day')");
sql($proxy, <<'SQL');
SELECT fairq.enqueue('q', to_jsonb('plain ' || i), 'g', headers => '{"h": "\\u00e9"}', cost => 0.1, max_attempts => i, priority => 7,
	expires_at => '2100-01-01 00:00:00.123456+00', lease => '17 min') FROM generate_series(10, 19) i;
SELECT fairq.enqueue('q', 'null', headers => 'null'), fairq.enqueue('q', '"late"', run_at => '2099-05-05 01:02:03.456789+00'),
	fairq.enqueue('q', '{"big": 12345678901234567890.10}', 'it''s "one"'), fairq.enqueue('q', '"keyed"', unique_key => 'k');
SELECT fairq.enqueue('q', '"dying"', 'die', max_attempts => 1), fairq.enqueue('q', '"failing"', 'fail');
SELECT fairq.nack(receipt, 'no good', '1 h') FROM fairq.claim('q', 1, group_keys => '{die}');
SELECT fairq.nack(receipt, 'no luck', '0') FROM fairq.claim('q', 1, group_keys => '{fail}');
SQL
my $before = content($one, 'q');
like($before, qr/\|dead$/m, 'there are dead tasks');
like($before, qr/"failing".*\|1\|20\|\|no luck\|/m, 'and some that have failed');
is(sql($one, "SELECT count(*) > 0 FROM fairq.tasks('q', 'overflow')"), 't', 'and an overflow');
refused($proxy, 'SELECT fairq.move_tasks(1)', '55000', qr/not being drained/, qr/drain_node/, 'a node that is not drained keeps its tasks');
refused($proxy, 'SELECT fairq.move_tasks(1, 0)', '22023', qr/"batch": "0"/, undef, 'a batch of nothing');
refused($proxy, 'SELECT fairq.move_tasks(5)', '42704', qr/no node 5/, undef, 'a node that there is not');
refused($proxy, 'SELECT fairq.drop_node(1)', '55000', qr/gets new tasks/, qr/drain_node/, 'and is not dropped');
drained(1);
refused($proxy, 'SELECT fairq.drop_node(1)', '55000', qr/has 16 tasks, of which 0 are leased/, qr/move_tasks/, 'nor if it has tasks');
is(sql($proxy, 'SELECT fairq.move_tasks(1, 4)'), 16, 'all are moved, in batches');
ok(settled($two, 'q'), 'and get their places');
is(sql($one, "SELECT count(*) FROM fairq.tasks('q')"), 0, 'the node has none any more');
is(content($two, 'q'), $before, 'the other one has all that is known of them');
is(sql($two, "SELECT lease FROM fairq.q_q WHERE payload = '\"plain 11\"'"), '00:17:00', 'and their leases');
is(sql($two, "SELECT bool_and(fairq.node_of_id(id) = 1) FROM fairq.tasks('q')"), 't', 'they keep their ids');
is(sql($proxy, "SELECT count(*) FROM fairq.tasks('q') t, fairq.get_task('q', t.id) found WHERE found.payload = t.payload"), 16, 'by which they are found');
is(join(' ', column($proxy, "SELECT payload #>> '{}' FROM generate_series(1, 10) i, fairq.claim('q', 1 + 0 * i, group_keys => '{g}')")),
	join(' ', map { "plain $_" } 10 .. 19), 'and the order in their group');
sql($proxy, "SELECT fairq.purge('q')");

# a task that has moved is waited for where it is; one that no node has is over
sql($proxy, "SELECT fairq.drop_queue('q'), fairq.create_queue('q')");
drained(2);
my ($moved, $over) = column($proxy, "SELECT fairq.enqueue('q', to_jsonb(name)) FROM unnest('{moved,over}'::text[]) name");
sql($proxy, "SELECT fairq.cancel('q', $over)");
drained(1);
sql($proxy, 'SELECT fairq.move_tasks(1)');
my ($waiting) = column($proxy, "SELECT fairq.enqueue('q', '\"waiting\"', after => ARRAY[$over, $moved])");
is(sql($proxy, "SELECT fairq.node_of_id($waiting)"), 2, 'what waits for a task that was moved goes to the node that has it');
is(join(' ', column($proxy, "SELECT payload #>> '{}' FROM fairq.claim('q', 10)")), 'moved', 'and waits there');

# what stays: leased, behind a leased one of its key, tasks that wait or are waited for
sql($proxy, "SELECT fairq.drop_queue('q'), fairq.create_queue('q', lease => '1 h')");
drained(2);
sql($proxy, "SELECT fairq.enqueue('q', '\"in flight\"', unique_key => 'k')");
my ($receipt) = column($proxy, "SELECT receipt FROM fairq.claim('q')");
sql($proxy, "SELECT fairq.enqueue('q', '\"behind\"', unique_key => 'k'); SELECT fairq.enqueue('q', '\"after\"', after => ARRAY[fairq.enqueue('q', '\"before\"')]);
	SELECT fairq.enqueue('q', '\"free\"')");
drained(1);
my ($ret, $out, $notice) = answer_of($proxy, 'SELECT fairq.move_tasks(1)');
is($out, 1, 'what is free is moved');
like($notice, qr/NOTICE:  node 1 has 4 tasks still, of which 1 are leased/, 'what stays is said');
is(join(' ', column($one, "SELECT payload #>> '{}' FROM fairq.tasks('q') ORDER BY id")), 'in flight behind before after', 'what is in flight, what is behind it, what waits and is waited for');
is(sql($proxy, "SELECT fairq.ack('$receipt')"), 't', 'a task in flight ends where it is');
refused($proxy, 'SELECT fairq.drop_node(1)', '55000', qr/has 3 tasks/, undef, 'the node is not dropped before');
is(sql($proxy, 'SELECT fairq.move_tasks(1)'), 1, 'then the one behind it goes');
ok( wait_for(
		sub {
			sql($proxy, "SELECT fairq.ack(receipt) FROM fairq.claim('q', 10)");
			sql($proxy, "SELECT count(*) FROM fairq.tasks('q')") eq '0';
		}),
	'and all are done');
sql($proxy, 'SELECT fairq.drop_node(1)');
is(sql($proxy, 'SELECT string_agg(node::text, $$ $$) FROM fairq.node'), '2', 'then the node is dropped');
refused($proxy, 'SELECT fairq.drop_node(2)', '55000', qr/gets new tasks/, undef, 'the last one is not');
add_node($proxy, 1, $one);

# a mover that dies after each of its steps
sub stepping
{
	my ($name, @steps) = @_;

	sql($proxy, "SELECT fairq.undrain_node(1)");
	drained(2);
	sql($proxy, "SELECT fairq.enqueue('q', to_jsonb(i)) FROM generate_series(1, 30) i");
	drained(1);
	my ($id) = column($one, 'SELECT gen_random_uuid()');
	my $batch = "'$id'";
	my $ids = "ARRAY(SELECT id FROM fairq_internal.node_tasks_to_move(1, 'q', 10, '{}'))";
	sql($proxy, $_ =~ s/BATCH/$batch/gr =~ s/IDS/$ids/gr) for @steps;
	sql($proxy, 'SELECT fairq.move_tasks(1, 7)');
	ok(settled($two, 'q'), "$name: the next one ends it");
	is(sql($two, "SELECT string_agg(payload::text, ' ' ORDER BY payload::text::int) FROM fairq.tasks('q')"), join(' ', 1 .. 30), "$name: nothing is lost, and nothing there twice");
	is(sql($one, "SELECT count(*) FROM fairq.tasks('q')") . sql($one, 'SELECT count(*) FROM fairq_internal.departing'), '00', "$name: and nothing left");
	sql($proxy, "SELECT fairq.purge('q')");
	return;
}

my $depart = "SELECT fairq_internal.node_depart(1, 'q', IDS, BATCH, 2)";
my $arrive = "SELECT fairq_internal.node_arrive(2, BATCH, 'q', fairq_internal.node_departing_tasks(1, BATCH))";
my $forget = 'SELECT fairq_internal.node_forget_departed(1, BATCH)';
stepping('none', ());
stepping('departed', $depart);
stepping('arrived', $depart, $arrive);
stepping('arrived twice', $depart, $arrive, $arrive);
stepping('forgotten', $depart, $arrive, $forget);

# a step that comes late, from a mover that is thought dead: its batch has a name
drained(2);
sql($proxy, "SELECT fairq.enqueue('q', '\"late\"')");
drained(1);
my $late = "'11111111-2222-8333-9444-555555555555'";
sql($proxy, "SELECT fairq_internal.node_depart(1, 'q', ARRAY(SELECT id FROM fairq.tasks('q')), $late, 2)");
my $tasks = sql($proxy, "SELECT fairq_internal.node_departing_tasks(1, $late)");
is(sql($proxy, 'SELECT fairq.move_tasks(1)'), 1, 'what was on its way has come');
is(sql($proxy, "SELECT fairq_internal.node_arrive(2, $late, 'q', \$\$$tasks\$\$)"), 0, 'and does not come again');
is(sql($two, "SELECT count(*) FROM fairq.tasks('q')"), 1, 'it is there once');

# to a node that is away, and one that is lost
ok(settled($two, 'q'), 'it has its place');
sql($proxy, "SELECT fairq.ack(receipt) FROM fairq.claim('q', 10)");
drained(2);
sql($proxy, "SELECT fairq.enqueue('q', to_jsonb(i)) FROM generate_series(1, 20) i");
drained(1);
my $left = "SELECT (SELECT count(*) FROM fairq.tasks('q')), (SELECT count(*) FROM fairq_internal.departing)";
sql($two, <<'SQL');
CREATE FUNCTION be_lost() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'lost' USING ERRCODE = 'connection_failure'; END $$;
CREATE TRIGGER be_lost BEFORE INSERT ON fairq_internal.arrived EXECUTE FUNCTION be_lost();
SQL
($ret, $out, $notice) = answer_of($proxy, 'SELECT fairq.move_tasks(1, 4)');
like($notice, qr/WARNING:  node 2 is out of reach: 4 tasks of node 1 are on their way/, 'a node that is lost meanwhile gets them later');
is($out, 0, 'which are not counted');
is(sql($one, $left), '16|4', 'and no more leave for it');
sql($two, 'DROP TRIGGER be_lost ON fairq_internal.arrived');
$two->stop('immediate');
($ret, $out, $notice) = answer_of($proxy, 'SELECT fairq.move_tasks(1, 4)');
like($notice, qr/WARNING:  node 2 is out of reach: tasks of queue "q" that would go there stay at node 1/, 'tasks do not leave for one that is away');
is(sql($one, $left), '16|4', 'none of them');
is(sql($proxy, "SELECT count(fairq.release(receipt)) FROM fairq.claim('q', 16)"), 16, 'and are claimed where they are');
refused($proxy, 'SELECT fairq.drop_node(1)', '55000', qr/4 tasks are on their way/, qr/move_tasks/, 'the node is kept until all have moved');
$two->start;
is(sql($proxy, 'SELECT fairq.move_tasks(1)'), 20, 'then they come');
ok(settled($two, 'q'), 'and get their places');
is(sql($two, "SELECT count(DISTINCT payload) FROM fairq.tasks('q')"), 20, 'once each');
$two->stop('immediate');
sql($proxy, "SELECT fairq.undrain_node(1)");
sql($proxy, "SELECT fairq.enqueue('q', '\"to the lost one\"')");
sql($proxy, "SELECT fairq_internal.node_depart(1, 'q', ARRAY(SELECT id FROM fairq_internal.node_tasks_to_move(1, 'q', 9, '{}')), gen_random_uuid(), 2)");
sql($proxy, 'SELECT fairq.drop_node(2, lost => true)');
is(sql($proxy, 'SELECT string_agg(node::text, $$ $$) FROM fairq.node'), '1', 'a node that is lost is dropped');
is(sql($proxy, 'SELECT node, object, problem, repaired FROM fairq.check_cluster(true)'), '1|queue "q"|1 tasks are on their way to node 2|yes', 'and what was on its way there');
ok(settled($one, 'q'), 'has its place');
is(sql($proxy, "SELECT payload, fairq.ack(receipt) FROM fairq.claim('q')"), '"to the lost one"|t', 'where it was');
$two->start;
add_node($proxy, 2, $two);
is(sql($proxy, "SELECT count(*) FROM fairq.tasks('q')"), 20, 'a node that was lost may come back with its tasks');
sql($proxy, "SELECT fairq.purge('q')");

# what an owner has attached to a table runs as the owner
sql($_, "CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA fairq TO owner; CREATE TABLE seen (who text); GRANT ALL ON seen TO PUBLIC") for $one, $two;
sql($proxy, "CREATE ROLE owner LOGIN");
sql($proxy, "SELECT fairq.create_queue('owned')", 'postgres');
sql($_, <<'SQL') for $one, $two;
ALTER TABLE fairq.q_owned OWNER TO owner;
CREATE SCHEMA own AUTHORIZATION owner;
SET ROLE owner;
CREATE FUNCTION own.note() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES (current_user); RETURN true; END $$;
ALTER TABLE fairq.q_owned ADD CHECK (own.note());
SQL
drained(2);
sql($proxy, "SELECT fairq.enqueue('owned', '1')");
sql($two, 'TRUNCATE seen');
drained(1);
is(sql($proxy, 'SELECT fairq.move_tasks(1) > 0'), 't', 'tasks of a queue with a constraint are moved');
is(sql($two, 'SELECT DISTINCT who FROM seen'), 'owner', 'which does not run as the administrator');

# under load, to and fro, with movers that are killed
my $load = start_load($proxy, 'q', nodes => [ $one, $two ]);
$load->goes_on(50);
sql($proxy, "SELECT fairq.enqueue_many('q', array_agg(to_jsonb(i)), array_agg('many'::text)) FROM generate_series(1, 3000) i");
my $kills = 0;
for my $round (1 .. 6)
{
	drained(1 + $round % 2);
	my $session = session($proxy);
	my $pid = $session->pid;
	$session->send('SELECT fairq.move_tasks(' . (1 + $round % 2) . ', 20)');
	$load->goes_on(30);
	$kills++ if sql($proxy, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $pid AND query LIKE '%move_tasks%' AND state = 'active'") eq '1';
	$session->quit;
	sql($proxy, 'SELECT fairq.move_tasks(' . (1 + $round % 2) . ')');
}
note("$kills movers were killed at work");
my ($enqueued, $acked, $errors) = $load->stop;
is($errors, '', 'no call of a client has failed');
my $drained = 0;
ok( wait_for(
		sub {
			$drained += sql($proxy, "SELECT count(*) FROM fairq.claim('q', 1000) t, fairq.ack(t.receipt) a WHERE a");
			sql($proxy, "SELECT count(*) FROM fairq.tasks('q')") eq '0';
		}),
	'all are done in the end');
is(sql($_, 'SELECT count(*) FROM fairq_internal.departing'), 0, 'none is on its way') for $one, $two;
is($acked + $drained, $enqueued + 3000, 'each once');

done_testing();
