# A large table that is read as a whole after a start holds up no other queue: a process
# of its own reads it, and the worker goes on.
#
# A read of the table is held up (lib/held_read.c), whoever reads it.  Shown: meanwhile
# another queue's tasks become due, its leases end and its schedule ticks.  When the
# reader is ended, or there is no process for it, the worker reads the table itself; when
# the worker ends, the reader does.
#
# Seen to fail: with queue_reader_reads() that answers false (it is the worker that is
# held up, and nothing becomes due); without queue_reader_end(); without what is noted in
# unread (a table that cannot be read is read again and again, and what failed is no more
# set aside); without file_read (what was read, and rewritten before the worker came to it,
# is read by the worker).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $tasks = 12000;
my $hold = PostgreSQL::Test::Utils::tempdir() . '/hold';
my $library = "$hold.so";

system_or_bail($ENV{CC} // 'cc', '-shared', '-fPIC', '-O', '-o', $library, "$FindBin::RealBin/lib/held_read.c", '-ldl');
my $node = fairq_node('reader', conf => "shared_buffers = 1MB\nmax_connections = 20\n");
# Who reads is to read himself.
$node->append_conf('postgresql.conf', "io_method = 'sync'") if $node->pg_version->major >= 18;

sql($node, <<SQL);
SELECT fairq.create_queue('large', max_ready_per_group => 1000, backoff_base => '0', max_lost => 0);
SELECT fairq.create_queue('small', backoff_base => '0', max_lost => 0);
SELECT cardinality(fairq.enqueue_many('large', array_fill(to_jsonb(repeat('x', 900)), ARRAY[$tasks]), '{a}'));
SQL
cmp_ok(sql($node, "SELECT pg_relation_size('fairq.q_large') / 8192"), '>', 1000, 'the table is a large one');
my $table = sql($node, "SELECT pg_relation_filepath('fairq.q_large')");

sub processes
{
	my ($type) = @_;

	return sql($node, "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE backend_type = 'pgfairq $type'");
}

# Do what has the table read; who reads it is held up after a few of its pages.  Answers who.
sub held_reader
{
	my ($what) = @_;

	unlink "$hold.held";
	append_to_file("$hold.new", "0 3 $table\n");
	rename "$hold.new", $hold or die "$hold: $!";
	$what->();
	ok(wait_for(sub { -s "$hold.held" }), 'the table is read, and the read is held up') or return '';
	return slurp_file("$hold.held") + 0;
}

sub start
{
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{FAIRQ_HOLD} = $hold;
	$node->restart;
	return;
}

sub go_on
{
	unlink $hold or die "$hold: $!";
	return;
}

# What waits for time comes in the other queue.
sub others_go_on
{
	my ($name) = @_;

	sql($node, "SELECT fairq.purge('small')");
	sql($node, "SELECT fairq.enqueue('small', '1', run_at => clock_timestamp() + '50 ms')");
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.claim('small', lease => '50 ms')") eq '1' }), "$name: another queue's task becomes due");
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.pop('small')") eq '1' }), "$name: its lease ends, and it comes back");
	return;
}

# All of the large queue's tasks are known.
sub counted
{
	my ($name) = @_;

	is(sql($node, "SELECT ready + overflow + scheduled + leased FROM fairq.queue_stats WHERE queue = 'large'"), $tasks, "$name: all rows are counted");
	return;
}

my $reader = held_reader(\&start);
is($reader, processes('reader'), 'by a process of its own');
others_go_on('while it is read');
sql($node, "SELECT fairq.schedule('often', 'small', '* * * * * *'), fairq.schedule('there', 'large', '* * * * * *')");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.pop('small')") eq '1' }), 'and its schedule ticks, though another ticks for the queue that is read');
sql($node, "SELECT fairq.unschedule('often'), fairq.unschedule('there')");
others_go_on('after that');
is($reader, processes('reader'), 'all the time it was held up');
go_on();
ok(wait_for(sub { processes('reader') eq '' }), 'the reader ends when it has read it');
$tasks += sql($node, "SELECT count(*) FROM fairq.q_large WHERE headers ? 'schedule'");
counted('read by the reader');

# So it is each time that all has to be read. Nobody comes to the new table before the read
# of it is held up, for it is locked until then; and the worker comes to all queues after a
# reload.
my $owner = session($node);
my $index = sql($node, "SELECT relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'fairq.q_large'::regclass AND indpred IS NULL");
$owner->safe("BEGIN; CLUSTER fairq.q_large USING $index");
$table = $owner->safe("SELECT pg_relation_filepath('fairq.q_large')");
$reader = held_reader(sub { $owner->safe('COMMIT'); sql($node, 'SELECT pg_reload_conf()') });
is($reader, processes('reader'), 'after CLUSTER it is a process of its own again');
others_go_on('after CLUSTER');

# Nor has it read in vain what is another table again before the worker comes to it: that is
# locked from the moment on that the reader ends.
$owner->send('BEGIN; LOCK TABLE fairq.q_large');
ok(wait_event_of($node, 'Lock', "query LIKE '%LOCK TABLE%'"), 'the table is going to be locked');
go_on();
is(join('', $owner->ended_with), '', 'it is, when it has been read');
$owner->safe("CLUSTER fairq.q_large USING $index");
$table = $owner->safe("SELECT pg_relation_filepath('fairq.q_large')");
$reader = held_reader(sub { $owner->safe('COMMIT'); sql($node, 'SELECT pg_reload_conf()') });
is($reader, processes('reader'), 'after two CLUSTER it is a process of its own');
go_on();
counted('after CLUSTER');
$owner->quit;

$reader = held_reader(\&start);
sql($node, "SELECT pg_terminate_backend($reader)");
go_on();
ok(wait_for(sub { processes('reader') eq '' }), 'the reader is ended');
others_go_on('after a reader that was ended');
counted('without the reader');

$reader = held_reader(\&start);
my $from = -s $node->logfile;
sql($node, "SELECT pg_terminate_backend(" . worker_pid($node) . ')');
go_on();
ok(wait_for(sub { slurp_file($node->logfile, $from) =~ /terminating background worker "pgfairq reader"/ }), 'the worker ends, and so does the reader');
counted('after the worker was ended');

# There are not enough entries for the groups, so that it cannot be read, by whoever: the
# reader tries once, and then the worker, later each time.
sql($node, "SELECT cardinality(fairq.enqueue_many('large', array_fill('1'::jsonb, ARRAY[100]), ARRAY(SELECT 'g' || n FROM generate_series(1, 100) n)))");
$tasks += 100;
$node->append_conf('postgresql.conf', 'pgfairq.max_groups = 16');
$from = -s $node->logfile;
$node->restart;

sub tried
{
	my ($type) = @_;

	return scalar(() = slurp_file($node->logfile, $from) =~ /$type.*more than 16 groups/g);
}
ok(wait_for(sub { tried('ERROR: ') > 0 }), 'the reader cannot read it');
ok(wait_for(sub { tried('WARNING: ') > 0 }), 'nor can the worker');
wait_for(sub { tried('ERROR: ') > 1 }, 5);
is(tried('ERROR: '), 1, 'it is not tried by another reader');
$node->append_conf('postgresql.conf', 'pgfairq.max_groups = 1000');

# One process for the launcher, and one for the worker.
$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
$node->restart;
others_go_on('with no process for a reader');
counted('with no process for a reader');
acknowledge_all($node, 'large');
is(sql($node, 'SELECT count(*) FROM fairq.q_large'), 0, 'all of them come');
nothing_swept($node);

$node->stop;
done_testing();
