# The background worker's memory: passes leave nothing behind.
#
# A worker runs for months and makes a pass for every few commits, so what one
# pass leaves in a context that is never reset adds up.  After some hundred passes
# of each kind, when caches are filled, as many more may not make the worker's
# TopMemoryContext larger.  (test/bench/soak.sh looks at the whole process, for
# ten minutes.)
#
# To see it fail, let list_queues read the catalog in TopMemoryContext.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('memory');
my $pid = worker_pid($node);

isnt($pid, '', 'there is a worker');

# Bytes in use in the worker's TopMemoryContext, as it says itself.
sub used
{
	my $offset = -s $node->logfile;
	my $bytes;

	sql($node, "SELECT pg_log_backend_memory_contexts($pid)");
	wait_for(
		sub {
			($bytes) = slurp_file($node->logfile, $offset) =~
			  /\[$pid\].*TopMemoryContext: \d+ total in .*?; (\d+) used/;
			return defined $bytes;
		}) or BAIL_OUT('the worker does not say how much memory it uses');
	return $bytes;
}

# Each task makes the worker come at least once: it is due in a moment, or its
# lease runs out, and only the worker makes it ready (again).
sql($node, <<'SQL');
SELECT fairq.create_queue('scheduled'), fairq.create_queue('leased', backoff_base => '0', max_attempts => 0);
CREATE PROCEDURE passes(n int) LANGUAGE plpgsql AS $$
DECLARE
	due timestamptz;
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM fairq.enqueue('scheduled', '{}', run_at => clock_timestamp() + '1 ms');
		IF i % 10 = 0 THEN
			PERFORM fairq.enqueue('leased', '{}');
		END IF;
		COMMIT;
		PERFORM fairq.claim('leased', 1, lease => '1 ms');
		COMMIT;
		LOOP
			EXIT WHEN (SELECT count(*) FROM fairq.pop('scheduled')) = 1;
			COMMIT;
			PERFORM pg_sleep(0.001);
		END LOOP;
		COMMIT;
	END LOOP;
	PERFORM fairq.purge('leased');
END
$$;
SQL

sql($node, 'CALL passes(300)');
my $before = used();
sql($node, 'CALL passes(600)');
my $after = used();
my ($now) = column($node,
	"SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = current_database()");
is($now, $pid, 'it is still the same worker');
# What is left behind at each pass is at least 24 bytes.
cmp_ok($after - $before, '<', 600 * 8, "$before bytes in use, and after 600 more passes $after");

done_testing();
