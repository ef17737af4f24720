# Nuisances that somebody without any right on a queue or a database could be, and an
# owner's code in the worker.
#
# Shown: a command on a database that its user may not carry out does not end that
# database's worker; receipts that are none, from who may settle nothing, have nobody
# read the durable leases; session locks that an owner's code takes in the worker are
# given back after his turn, and nothing else of his is left there.
#
# To see it fail: without the look at the template's owner in may_copy()
# (database_hooks.c): another worker each time; without "mine" in find_restored() (settle.c):
# a scan for each call; without LockReleaseSession() in maintain_one(): the locks stay.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('nuisance');

sql($node, <<'SQL');
CREATE ROLE creator LOGIN CREATEDB;
CREATE ROLE stranger LOGIN;
CREATE ROLE tenant LOGIN;
SELECT fairq.create_queue('q'), fairq.create_queue('d', durable_leases => true);
SELECT count(fairq.enqueue('d', '1')) FROM generate_series(1, 100);
SELECT count(*) FROM fairq.claim('d', 100, lease => '1 h');
CREATE TABLE receipt AS SELECT receipt FROM fairq.leases;
SQL

#
# The worker stays.  It would leave at once, before the command is refused.
#
my $worker = worker_pid($node);
foreach my $command (
	'CREATE DATABASE copy TEMPLATE postgres',
	'CREATE DATABASE copy TEMPLATE postgres STRATEGY file_copy',
	'DROP DATABASE postgres',
	'ALTER DATABASE postgres RENAME TO other',
	'ALTER DATABASE postgres SET TABLESPACE pg_default')
{
	my ($ret, $out, $err) = $node->psql('template1', $command, extra_params => [ '-U', 'creator' ]);

	like($err, qr/permission denied|must be owner/, "$command: not allowed");
	is(worker_pid($node), $worker, 'and the worker is still the same');
}
sql($node, 'ALTER DATABASE postgres OWNER TO creator');
$node->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres', extra_params => [ '-U', 'creator' ]);
isnt(worker_pid($node), $worker, 'its owner may copy it, and then it leaves');
$node->safe_psql('template1', 'DROP DATABASE copy', extra_params => [ '-U', 'creator' ]);
sql($node, 'ALTER DATABASE postgres OWNER TO postgres');

#
# Receipts that are none.  One queue stays unknown after a start: it cannot be opened.
#
sql($node, 'CREATE RULE r AS ON DELETE TO fairq.q_q DO NOTHING');
$node->restart;
sub scans
{
	return sql($node, q{SELECT pg_stat_force_next_flush(); SELECT seq_scan FROM pg_stat_all_tables WHERE relid = 'fairq.durable_lease'::regclass}) =~ s/^\n//r;
}
sql($node, q{SELECT count(*) FROM fairq.leases});
my $before = scans();
my $ack = q{SELECT count(*) FILTER (WHERE fairq.ack('00000000-0000-8000-8000-000000000001'::uuid)) FROM generate_series(1, 50); SELECT pg_stat_force_next_flush()};
like($node->safe_psql('postgres', $ack, extra_params => [ '-U', 'stranger' ]), qr/^0/, 'a receipt that is none is void');
cmp_ok(scans() - $before, '<', 10, 'and the leases are not read for it, from a stranger');
sql($node, 'DROP RULE r ON fairq.q_q; GRANT SELECT, UPDATE, DELETE ON fairq.q_d TO tenant');
$node->stop('immediate');
$node->start;
is(sql($node, 'SELECT count(*) FROM fairq.durable_lease'), '100', 'there are durable leases');
sql($node, 'GRANT SELECT ON receipt TO PUBLIC');
is($node->safe_psql('postgres', 'SELECT count(*) FROM receipt WHERE fairq.ack(receipt)', extra_params => [ '-U', 'tenant' ]),
	'100', 'who may settle them does so at once after a crash');

#
# What an owner's code leaves behind in the worker.
#
sql($node, <<'SQL');
SELECT fairq.create_queue('theirs');
ALTER TABLE fairq.q_theirs OWNER TO tenant;
CREATE SCHEMA tenant AUTHORIZATION tenant;
SQL
$node->safe_psql('postgres', <<'SQL', extra_params => [ '-U', 'tenant' ]);
CREATE TABLE tenant.tried (what text, outcome text, pid int DEFAULT pg_catalog.pg_backend_pid());
CREATE FUNCTION tenant.leave() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	what text;
BEGIN
	FOREACH what IN ARRAY ARRAY[
		'SELECT pg_catalog.pg_advisory_lock(4711)',
		'SELECT pg_catalog.pg_advisory_lock_shared(4712)',
		'SELECT pg_catalog.set_config(''pgfairq.sweep_interval'', ''1'', false)',
		'SELECT pg_catalog.set_config(''lock_timeout'', ''0'', false)',
		'SELECT pg_catalog.set_config(''search_path'', ''tenant'', false)',
		'SELECT pg_catalog.set_config(''session_authorization'', ''postgres'', false)',
		'SELECT pg_catalog.set_config(''role'', ''none'', false)',
		'LISTEN tenant',
		'PREPARE tenant AS SELECT 1',
		'DECLARE tenant CURSOR WITH HOLD FOR SELECT 1',
		'CREATE TEMP TABLE tenant (i int)',
		'CREATE TEMP VIEW tenant AS SELECT 1']
	LOOP
		BEGIN
			EXECUTE what;
			INSERT INTO tenant.tried (what, outcome) VALUES (what, 'done');
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO tenant.tried (what, outcome) VALUES (what, sqlstate);
		END;
	END LOOP;
	RETURN true;
END $$;
ALTER TABLE fairq.q_theirs ADD CHECK (tenant.leave());
SQL
sql($node, q{SELECT fairq.enqueue('theirs', '1', run_at => now() + interval '100 ms')});
$worker = worker_pid($node);
ok(wait_for(sub { sql($node, "SELECT count(*) FROM tenant.tried WHERE pid = $worker") > 0 }), 'an owner\'s code runs in the worker');
is(sql($node, "SELECT string_agg(split_part(what, '(', 2) || outcome, ' ' ORDER BY what) FROM tenant.tried WHERE pid = $worker AND outcome = 'done' AND what LIKE '%lock%(47%'"),
	'4711)done 4712)done', 'and takes locks for the session');
is(sql($node, "SELECT string_agg(split_part(what, ' ', 1), ' ' ORDER BY what) FROM tenant.tried WHERE pid = $worker AND outcome <> 'done' AND what NOT LIKE 'SELECT%'"),
	'CREATE CREATE DECLARE LISTEN PREPARE', 'what would stay in the session is not allowed');
ok(wait_for(sub { sql($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}) eq '0' }, 30), 'the locks are given back');
is(worker_pid($node), $worker, 'and it is the same worker');

# In the session of a producer they stay, as doc/security.md says.
{
	my $producer = session($node);
	my $held = q{SELECT string_agg(objid || ' ' || mode, ' ' ORDER BY objid) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()};

	$producer->safe(q{BEGIN; SELECT fairq.enqueue('theirs', '1'); ROLLBACK});
	is($producer->safe($held), '4711 ExclusiveLock 4712 ShareLock', 'a producer keeps them, also after a rollback');
	$producer->safe('SELECT pg_advisory_unlock_all()');
	is($producer->safe($held), '', 'until he lets go of all that he has');
}
sql($node, q{SELECT fairq.enqueue('d', '2', run_at => now() + interval '100 ms')});
ok(wait_for(sub { sql($node, q{SELECT count(*) FROM fairq.tasks('d', 'ready')}) eq '1' }), 'which goes on with others\' queues');
$node->stop;
done_testing();
