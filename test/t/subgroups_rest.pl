# Subgroups beside all else that a queue does: where rows are moved or written with SQL,
# where servers end, where entries are scarce; and everything at once, at random
# (test/load/subgroups_hammer.py).
#
# Shown: nothing is lost, nothing comes twice, and what is counted is what there is, at
# both levels, right after whatever happened.
#
# To see it fail, take one of these guards out of the engine:
# - a claim that is refused a task which has gone to another group by SQL does not give it
#   back to the line that it was in (pass_over): the claim does not end, nor the hammer;
# - a subgroup has the tasks of its own line only (claim_turns.c, look_at): SQL;
# - what alter_queue finds is read once more, with subgroups (change_subgroups): altered;
# - both levels count what a lease begins and ends (groups.c): counts;
# - a level that is told its limit tells that what it has parked (turn_lines_limited): an
#   assertion fails;
# - all groups of a dropped queue are emptied before they are forgotten
#   (group_forget_queue): few entries;
# - entries of subgroups are forgotten, and then those of their groups (two reclaims), also
#   when no claim has found that there is nothing (group_forget_if_idle): few entries.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

note('seed ' . (my $seed = $ENV{FAIRQ_HAMMER_SEED} // 1));
my $node = fairq_node('rest', conf => join "\n", 'max_connections = 40', 'max_prepared_transactions = 5', 'restart_after_crash = on',
	'pgfairq.max_groups = 64', 'pgfairq.max_limits = 16', '');

# What is counted of a queue and is not what its table says; '' if all is.
sql($node, <<'SQL');
CREATE FUNCTION wrong(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($f$
		WITH t AS (SELECT t.*, l.id IS NOT NULL AS leased, coalesce(subgroup_key, '') AS s FROM fairq.%I t LEFT JOIN fairq.leases l ON l.queue = %L AND l.id = t.id),
		all_of (what, n) AS (
			SELECT v.what, (SELECT count(*) FROM t WHERE CASE WHEN leased THEN 'l' ELSE state END = v.state)
				FROM (VALUES ('ready', 'r'), ('overflow', 'o'), ('leased', 'l'), ('scheduled', 's'), ('held', 'h'), ('dead', 'd')) v (what, state)
			UNION ALL SELECT concat_ws('/', group_key, s, CASE WHEN leased THEN 'leased' ELSE 'waits' END), count(*) FROM t
				WHERE (leased OR state IN ('r', 'o')) AND (SELECT subgroups FROM fairq.queues WHERE queue = %2$L) GROUP BY group_key, s, leased
			UNION ALL SELECT concat_ws('/', group_key, CASE WHEN leased THEN 'leased' WHEN state = 'r' THEN 'ready' ELSE 'overflow' END), count(*)
				FROM t WHERE leased OR state IN ('r', 'o') GROUP BY 1),
		counted (what, n) AS (
			SELECT v.* FROM fairq.queue_stats, LATERAL (VALUES ('ready', ready), ('overflow', overflow), ('leased', leased),
				('scheduled', scheduled), ('held', held), ('dead', dead)) v WHERE queue = %2$L
			UNION ALL SELECT concat_ws('/', group_key, subgroup_key, v.w), v.n FROM fairq.subgroup_stats,
				LATERAL (VALUES ('leased', leased), ('waits', overflow)) v (w, n) WHERE queue = %2$L AND v.n <> 0
			UNION ALL SELECT concat_ws('/', group_key, v.w), v.n FROM fairq.group_stats,
				LATERAL (VALUES ('leased', leased), ('ready', ready), ('overflow', overflow)) v (w, n) WHERE queue = %2$L AND v.n <> 0)
		SELECT string_agg(format('%%s: %%s, counted %%s', what, a.n, c.n), ', ') FROM all_of a FULL JOIN counted c USING (what)
			WHERE a.n IS DISTINCT FROM c.n$f$, 'q_' || q, q) INTO result;
	RETURN coalesce(result, '');
END $$;
SQL

# What is counted is what there is; when those have been by who are under way.
sub counts
{
	my ($q, $what, $wrong) = @_;
	ok(wait_for(sub { ($wrong = sql($node, "SELECT wrong('$q')")) eq '' }, 60), "$what: counts") or diag($wrong);
	return;
}

# Script: tasks of some subgroups, as "fill('q', 'a/x' => 3)".
sub fill
{
	my ($q, %n) = @_;
	return join '', map {
		my ($group, $subgroup) = split '/';
		"SELECT count(fairq.enqueue_many('$q', array_fill('1'::jsonb, '{$n{$_}}'), group_keys => '{$group}', subgroup_keys => '{$subgroup}'));\n"
	} sort keys %n;
}

my $keys_of = "string_agg(k || ' ' || n, ', ' ORDER BY k) FROM (SELECT concat_ws('/', group_key, subgroup_key), count(*) FROM";

sub claimed
{
	my ($q, $n, @more) = @_;
	return sql($node, "SELECT $keys_of fairq.claim(" . join(', ', "'$q'", $n, @more) . ') GROUP BY 1) x (k, n)');
}

# All that is left comes, each once.
sub drained
{
	my ($q, $wanted, $what, $came) = (@_, 0);
	sql($node, "SELECT count(fairq.release(receipt)) FROM fairq.leases WHERE queue = '$q'");
	wait_for(sub { $came += sql($node, "SELECT count(*) FROM fairq.pop('$q', 1000)"); return $came >= $wanted; }, 20);
	$came += sql($node, "SELECT count(*) FROM fairq.pop('$q', 1000)");
	is($came, $wanted, "$what: all come, each once");
	counts($q, "$what, at the end");
	return;
}

my $settle = "FROM fairq.leases l JOIN fairq.q_q t USING (id) WHERE l.queue = 'q' AND";

# A crash, a restart, and tables that are rewritten, with lines full
sql($node, "SELECT fairq.create_queue('q', subgroups => true, max_attempts => 0, lease => '1 h', buckets => 3);"
	  . "SELECT fairq.create_queue('kept', subgroups => true, durable_leases => true, lease => '1 h');"
	  . fill('q', map { $_ => 40 } qw(a/x a/y b/x c/z)) . fill('kept', 'a/x' => 20, 'a/y' => 20));
is(claimed('q', 12), 'a/x 2, a/y 2, b/x 4, c/z 4', 'each group has a third, and each subgroup its half');
sql($node, "BEGIN; SELECT count(*) FROM fairq.claim('q', 30); ROLLBACK; SELECT count(fairq.release(receipt)) $settle group_key = 'b'");
sql($node, "SELECT count(fairq.nack(receipt, 'no', '0')) $settle subgroup_key = 'y'; SELECT count(*) FROM fairq.claim('kept', 6)");
counts('q', 'released, failed, rolled back');
is(claimed('q', 4, "group_keys => '{b}'"), 'b/x 4', 'what was released is first');
sql($node, "CREATE INDEX backwards ON fairq.q_q ((-id)); VACUUM FULL fairq.q_q; CLUSTER fairq.q_q USING backwards; VACUUM FULL fairq.q_kept");
counts('q', 'VACUUM FULL and CLUSTER');
is(claimed('q', 6), 'a/x 1, a/y 1, b/x 2, c/z 2', 'and it goes on');
my $a = session($node);
$a->safe("BEGIN; SELECT count(*) FROM fairq.claim('q', 9); SAVEPOINT s; SELECT count(*) FROM fairq.pop('q', 9);" . fill('q', 'd/n' => 5));
kill 'KILL', $a->pid;
ok(wait_for_crash_restart($node), 'a backend is killed');
$a->quit;
counts('q', 'after a crash');
counts('kept', 'durable leases, after a crash');
is(sql($node, "SELECT leased FROM fairq.queue_stats WHERE queue = 'kept'"), 6, 'these are there');
is(claimed('q', 12), 'a/x 2, a/y 2, b/x 4, c/z 4', 'its shares');
$node->restart;
counts('q', 'after a restart');
is(claimed('q', 12), 'a/x 2, a/y 2, b/x 4, c/z 4', 'its shares');
drained('q', 160, 'restarts');
drained('kept', 40, 'durable');

# Verbs
sql($node, "SELECT fairq.alter_queue('q', max_attempts => 3, keep_done => '1 h', backoff_base => '1 ms')");
sub enqueue { return "SELECT fairq.enqueue('q', '1', $_[0])" =~ s/(\w)=/$1 => /gr; }
my $u = sql($node, enqueue("'a', subgroup_key='x', unique_key='u'"));
is(sql($node, enqueue("'b', subgroup_key='y', unique_key='u', on_duplicate='replace'")), $u, 'replaced');
counts('q', 'replaced');
is(claimed('q', 5, "group_keys => '{a}'"), '', 'it is not where it was');
is(claimed('q', 5), 'b/y 1', 'but in its new subgroup');
sql($node, enqueue("'c', subgroup_key='z', unique_key='u'") . ';' . enqueue("'c', subgroup_key='w', after=ARRAY[$u]"));
counts('q', 'held');
is(claimed('q', 5), '', 'held tasks wait');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.leases WHERE id = $u");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('q', 'held')") eq '0' }), 'until the first is done');
is(claimed('q', 5), 'c/w 1, c/z 1', 'then they are of their subgroups');
sql($node, "SELECT fairq.nack(receipt, 'no') $settle subgroup_key = 'w'; SELECT fairq.release(receipt, '1 ms') $settle subgroup_key = 'z'");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('q', 'scheduled')") eq '0' }), 'a backoff and a delay');
counts('q', 'delays are over');
is(claimed('q', 5, "session => fairq.open_session(ttl => '5 s')"), 'c/w 1, c/z 1', 'and they are claimed by a session');
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('q', NULL) WHERE lost = 1 AND state <> 'scheduled'") eq '2' }), 'which ends');
is(claimed('q', 5, "lease => '1 ms'"), 'c/w 1, c/z 1', 'claimed again');
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('q', NULL) WHERE lost = 2 AND state NOT IN ('scheduled', 'leased')") eq '2' }), 'and lost twice');
counts('q', 'suspects');
is(join(', ', sort map { claimed('q', 5) } 1 .. 2), 'c/w 1, c/z 1', 'each comes alone');
sql($node, "SELECT fairq.nack(receipt, final => true) $settle true");
counts('q', 'dead');
is(sql($node, "SELECT count(fairq.revive('q', id)) FROM fairq.tasks('q', 'dead')"), 2, 'revived');
is(join(' ', map { sql($node, "SELECT count(*) FROM fairq.pop('q', 9)") } 1 .. 2), '1 1', 'and done, one after the other');
sql($node, fill('q', 'e/x' => 4, 'e/y' => 4) . enqueue("'e', subgroup_key='x', expires_at=now() + '100 ms'") . ";UPDATE fairq.q_q SET expires_at = now() WHERE id IN (SELECT id FROM fairq.q_q WHERE subgroup_key = 'x' ORDER BY id LIMIT 2)");
is(claimed('q', 2), 'e/x 1, e/y 1', 'who has expired is passed over, and nobody is charged');
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.q_q WHERE expires_at IS NOT NULL") eq '0' }), 'and removed');
counts('q', 'expired');
is(sql($node, "SELECT fairq.cancel('q', min(id)) FROM fairq.tasks('q', 'overflow')"), 't', 'cancelled');
sql($node, "BEGIN; SELECT fairq.purge_group('q', 'e'); ROLLBACK");
counts('q', 'cancelled, and a purge rolled back');
is(sql($node, "SELECT fairq.purge_group('q', 'e')"), 3, 'purged, but for what is leased');
counts('q', 'purged');
sql($node, "SELECT fairq.schedule('tick', 'q', '\@every 1 s', '1', 'a', subgroup_key => 'tock')");
is(sql($node, "SELECT $keys_of fairq.pop('q', 1, wait => '20 s', group_keys => '{a}') GROUP BY 1) x (k, n)"), 'a/tock 1', 'a schedule, and who waits for its group');
sql($node, "SELECT fairq.unschedule('tick')");
$a = session($node);
$a->send("SELECT subgroup_key FROM fairq.pop('q', 1, wait => '20 s', group_keys => '{b}')");
sql($node, fill('q', 'a/x' => 1, 'b/late' => 1));
like(join('', $a->ended_with), qr/^late$/m, 'a waiter is told of what comes to a subgroup of its group');
drained('q', 3, 'verbs');

# Savepoints, and SQL of one's own
sql($node, fill('q', 'a/x' => 10, 'a/y' => 10, 'b/x' => 10));
$a->safe("BEGIN; SAVEPOINT s; SELECT FROM fairq.claim('q', 4); SAVEPOINT t; SELECT FROM fairq.claim('q', 4, group_keys => '{a}'); ROLLBACK TO s;"
	  . fill('q', 'a/x' => 3) . "SAVEPOINT u; SELECT FROM fairq.pop('q', 3); RELEASE u; ROLLBACK TO s; SELECT FROM fairq.claim('q', 2); ROLLBACK");
counts('q', 'savepoints');
is(claimed('q', 4), 'a/x 1, a/y 1, b/x 2', 'and the shares');
# Parked tasks, and a limit that comes later at the other level.
sql($node, "SELECT fairq.release(receipt) $settle true; SELECT fairq.set_group('q', 'a', max_leased => 1)");
is(claimed('q', 3), 'a/x 1, b/x 2', 'what was released waits for its group');
sql($node, "SELECT fairq.set_subgroup('q', 'a', 'x', max_leased => 8), fairq.set_subgroup('q', 'a', 'y', max_leased => 8)");
sql($node, "VACUUM FULL fairq.q_q; SELECT fairq.reset_group('q', 'a')");
is(claimed('q', 99), 'a/x 7, a/y 8, b/x 8', 'and comes when it may, within the other limit');
sql($node, "SELECT fairq.reset_subgroup('q', 'a', 'x'), fairq.reset_subgroup('q', 'a', 'y'); SELECT fairq.release(receipt) $settle true; SELECT fairq.pause_subgroup('q', 'b', 'held'), fairq.set_subgroup('q', 'a', 'x', max_leased => 2)");
sql($node, "UPDATE fairq.q_q SET group_key = 'b', subgroup_key = 'held' WHERE id IN (SELECT id FROM fairq.q_q WHERE state = 'o' AND group_key = 'a' ORDER BY id LIMIT 9)");
sql($node, "UPDATE fairq.q_q SET subgroup_key = NULL WHERE id = (SELECT max(id) FROM fairq.q_q); DELETE FROM fairq.q_q WHERE id = (SELECT max(id) FROM fairq.q_q WHERE group_key = 'a');"
	  . "UPDATE fairq.q_q SET state = 'd' WHERE id = (SELECT max(id) FROM fairq.q_q WHERE group_key = 'a');"
	  . "INSERT INTO fairq.q_q (id, enqueued_at, state, group_key, subgroup_key, payload, priority, cost, attempts) VALUES (900000, now(), 'o', 'n', 'm', '1', 4, 1, 0)");
counts('q', 'SQL');
like(claimed('q', 100), qr/^a\/x \d, a\/y \d, b 1, b\/x 9, n\/m 1$/, 'claims end, and go by what the rows say');
counts('q', 'SQL, and claimed');
sql($node, "SELECT fairq.reset_subgroup('q', 'b', 'held'), fairq.reset_subgroup('q', 'a', 'x'), fairq.revive_all('q')");
drained('q', 30, 'SQL');

# A queue that is divided later, with all there may be in it
sql($node, "SELECT fairq.create_queue('p', max_ready_per_group => 3, lease => '1 h', buckets => 2); SELECT count(fairq.enqueue_many('p', array_fill('1'::jsonb, '{30}'), group_keys => ARRAY[g])) FROM (VALUES ('a'), ('b'), ('c')) v (g);"
	  . "SELECT fairq.set_group('p', 'b', max_leased => 2), fairq.pause_group('p', 'c'), count(*) FROM fairq.claim('p', 8); SELECT fairq.release(receipt) FROM (SELECT receipt FROM fairq.leases WHERE queue = 'p' ORDER BY id LIMIT 2) x;"
	  . "SELECT fairq.enqueue('p', '1', 'a', delay => '1 h'), fairq.enqueue('p', '1', 'a', after => ARRAY[1]), fairq.enqueue('p', '1', 'a', unique_key => 'k'), fairq.enqueue('p', '1', 'a', max_attempts => 1);"
	  . "SELECT fairq.nack(receipt, final => true) FROM fairq.leases WHERE queue = 'p' ORDER BY id DESC LIMIT 1");
counts('p', 'before');
$a->safe("BEGIN; SELECT fairq.alter_queue('p', subgroups => true); SELECT fairq.enqueue('p', '1', 'a', subgroup_key => 'x'); ROLLBACK");
refused($node, "SELECT fairq.enqueue('p', '1', 'a', subgroup_key => 'x')", '22023', undef, undef, 'rolled back: it is not divided');
counts('p', 'rolled back');
my $before = sql($node, "SELECT count(*) FROM fairq.q_p WHERE state IN ('r', 'o')");
my @waiters = map { session($node) } 1 .. 2;
$_->send("SELECT 'got ' || group_key FROM fairq.claim('p', 1, wait => '60 s', group_keys => '{later}')") foreach @waiters;
sql($node, "SELECT fairq.alter_queue('p', subgroups => true)");
counts('p', 'divided');
sql($node, fill('p', 'later/x' => 1, 'later/y' => 1, 'a/x' => 10));
is(join(' ', map { join('', $_->ended_with) =~ /(got later)/ } @waiters), 'got later got later', 'those who waited are told');
counts('p', 'and enqueued');
like(claimed('p', 20), qr/^a \d+, a\/x \d+(, b \d)?$/, 'old tasks, and new ones');
sql($node, "SELECT fairq.reset_group('p', 'b'), fairq.resume_group('p', 'c')");
drained('p', $before + 13, 'divided, and what was held');
refused($node, "SELECT fairq.alter_queue('p', subgroups => false)", '55000', undef, undef, 'not back while there are tasks');
sql($node, "SELECT fairq.purge('p'); SELECT fairq.alter_queue('p', subgroups => false); SELECT count(fairq.enqueue_many('p', '{1,2,3}', group_keys => '{a,b,c}'))");
counts('p', 'not divided any more');
drained('p', 3, 'not divided any more');

# Prepared transactions, a dump
sql($node, 'BEGIN;' . fill('q', 'a/x' => 4, 'a/y' => 4) . "PREPARE TRANSACTION 'yes'; BEGIN;" . fill('q', 'b/x' => 4) . "PREPARE TRANSACTION 'no'; BEGIN;" . fill('q', 'b/y' => 4) . "PREPARE TRANSACTION 'later'");
is(claimed('q', 9), '', 'prepared');
sql($node, "COMMIT PREPARED 'yes'; ROLLBACK PREPARED 'no'");
my $came = '';
ok(wait_for(sub { ($came .= claimed('q', 9)) =~ /a\/x 4, a\/y 4/ }), 'committed') or diag($came);
refused($node, "BEGIN; SELECT fairq.ack(receipt) $settle true; PREPARE TRANSACTION 'ack'", '0A000', undef, undef, 'an ack is not prepared');
$node->stop('immediate');
$node->start;
sql($node, "COMMIT PREPARED 'later'");
ok(wait_for(sub { sql($node, "SELECT wrong('q')") eq '' && sql($node, "SELECT overflow FROM fairq.queue_stats WHERE queue = 'q'") eq '12' }, 20), 'and after a crash') or diag(sql($node, "SELECT wrong('q')"));
sql($node, "SELECT fairq.set_subgroup('q', 'a', 'x', weight => 3), count(*) FROM fairq.claim('q', 2)");
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
sql($node, 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('copy'), $dump ], 'pg_restore');
is(sql($node, "SELECT wrong('q')", 'copy'), '', 'counts of the copy');
is(sql($node, "SELECT $keys_of fairq.claim('q', 8) GROUP BY 1) x (k, n)", 'copy'), 'a/x 3, a/y 1, b/y 4', 'and its shares, with the weights');
sql($node, 'DROP DATABASE copy WITH (FORCE)');
drained('q', 12, 'prepared');

# Few entries
sql($node, "SELECT fairq.create_queue('again', subgroups => true, max_attempts => 0);" . fill('again', map { $_ => 2 } qw(a/x a/y b/x b/y c/x))
	  . "SELECT count(*) FROM fairq.claim('again', 3); SELECT fairq.drop_queue('again')") foreach 1 .. 50;
# A limit that has tasks parked in two classes.
sql($node, join '', map {
	my $subgroups = $_ % 2 ? 'true' : 'false';
	"SELECT fairq.create_queue('again', subgroups => $subgroups, lease => '1 h'); SELECT fairq.enqueue('again', '1', 'g$_', priority => 4 + i % 2) FROM generate_series(1, 10) i;"
	  . "SELECT FROM fairq.claim('again', 10); SELECT fairq.release(receipt) FROM fairq.leases WHERE queue = 'again'; SELECT fairq.set_group('again', 'g$_', max_leased => 1);"
	  . "SELECT FROM fairq.claim('again', 10); SELECT fairq.drop_queue('again');"
} 1 .. 100);
ok(1, 'dropped and made again');
sql($node, "SELECT fairq.enqueue('q', '1', 'g' || i % 2, subgroup_key => 's' || i), count(*) FROM generate_series(1, 40) i GROUP BY i");
my ($state) = error_of($node, "SELECT fairq.enqueue('q', '1', 'h' || i, subgroup_key => 's' || i) FROM generate_series(1, 40) i");
is($state, '53400', 'there are no more entries');
counts('q', 'and what failed is not counted');
foreach my $round (1 .. 5)
{
	drained('q', 40, "round $round");
	is(sql($node, "SELECT count(fairq.enqueue('q', '1', 'g$round' || i % 7, subgroup_key => 's' || i)) FROM generate_series(1, 40) i"), 40, 'others have their entries');
}
sql($node, "SELECT fairq.pause('q')");
foreach my $removal ("fairq.purge('q')", "count(fairq.cancel('q', id)) FROM fairq.q_q", "fairq.purge('q')")
{
	sql($node, "SELECT $removal");
	is(sql($node, "SELECT count(fairq.enqueue('q', '1', md5(random()::text), subgroup_key => 's')) FROM generate_series(1, 30) i"), 30, 'and so after a removal, without a claim');
	counts('q', 'removed');
}
sql($node, "SELECT fairq.resume('q'); SELECT fairq.enqueue('q', '1', 'last', subgroup_key => 's')");
is(sql($node, "SELECT count(*) FROM fairq.claim('q', 40)"), 31, 'all are leased');
($state) = error_of($node, "SELECT fairq.set_subgroup('q', 'l', 's' || i, max_leased => 1) FROM generate_series(1, 40) i");
is($state, '53400', 'there are no more limits');
sql($node, "SELECT fairq.set_subgroup('q', 'l', 's', max_leased => 1), fairq.reset_subgroup('q', 'l', 's')");
drained('q', 31, 'limits');

# Everything at once
foreach my $settings ('buckets => 4', "buckets => 2, charge => 'seconds', class_weights => '{1,2}', durable_leases => true")
{
	my ($out, $err) = ('', '');
	sql($node, "SELECT fairq.create_queue('h', subgroups => true, max_attempts => 0, max_lost => 0, backoff_base => '20 ms', $settings)");
	IPC::Run::run([ python_program('subgroups_hammer.py'), '--conninfo' => $node->connstr('postgres'), '--queue' => 'h', '--seed' => $seed,
			'--seconds' => $ENV{FAIRQ_HAMMER_SECONDS} // 5 ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(300));
	my $r = eval { decode_json($out) } // { wrong => ['no answer'] };
	note(JSON::PP->new->canonical->encode($r));
	is_deeply($r->{wrong}, [], "a hammer: nothing is wrong ($settings)") or diag("seed $seed: $out$err");
	is_deeply($r->{errors}, {}, 'and there was no error');
	counts('h', 'the hammer');
	nothing_swept($node, 'the hammer');
	sql($node, "SELECT fairq.drop_queue('h')");
}

$node->stop;
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (6|11)|LOG:  sweep of queue/, 'no process broke down');
done_testing();
