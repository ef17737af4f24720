# What is committed while a claim reads the index of a lane: the read of one of its pages
# is held up (lib/held_read.c).
#
# Shown: what comes into a page that has been read already is not lost; and what comes far
# behind the place up to which the lane is read is not claimed before what is between.
#
# Seen to fail without these guards (lanes.c): offers are entered into the window while a
# lane is being read, wherever they belong (lanes_offer_of_group; a task never comes); and
# those beyond the new frontier leave it when that is over (drop_from in
# lanes_refill_end; order).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $hold = "$dir/hold";

system_or_bail($ENV{CC} // 'cc', '-shared', '-fPIC', '-O', '-o', "$dir/held_read.so", "$FindBin::RealBin/lib/held_read.c", '-ldl');
my $node = fairq_node('refill', conf => "shared_buffers = 1MB\nmax_connections = 20\n");
# Who reads is to read himself.
$node->append_conf('postgresql.conf', "io_method = 'sync'") if $node->pg_version->major >= 18;
$node->stop;
{
	local $ENV{LD_PRELOAD} = "$dir/held_read.so";
	local $ENV{FAIRQ_HOLD} = $hold;
	$node->start;
}

sql($node, <<'SQL');
CREATE TABLE got (at bigint GENERATED ALWAYS AS IDENTITY, who text, group_key text, n int);
CREATE FUNCTION numbers(a int, b int) RETURNS jsonb[] LANGUAGE sql AS $$ SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(a, b) n $$;
CREATE TABLE other AS SELECT i, repeat('x', 700) AS filler FROM generate_series(1, 20000) i;
CREATE INDEX ON other (i);
SELECT fairq.create_queue('q', buckets => 1, max_ready_per_group => 100000);
SELECT fairq.set_group('q', 'b', weight => 0.05);
SELECT cardinality(fairq.enqueue_many('q', numbers(1, 3000), '{a}'));
SQL
my $index = sql($node, <<'SQL');
SELECT pg_relation_filepath(indexrelid) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = 1
WHERE i.indrelid = 'fairq.q_q'::regclass AND a.attname = 'address'
SQL

sub take
{
	my ($who, $n) = @_;

	return "INSERT INTO got (who, group_key, n) SELECT '$who', group_key, payload::int FROM fairq.pop('q', $n)";
}

my $claimer = session($node);
my $other = session($node);
my $producer = session($node);
my $pid = $claimer->pid;

# The lane is read, up to some place; a few pages of its index are known, and are
# forgotten again, but for those where new tasks come.
$claimer->safe(take('first', 100));
sql($node, "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(filler) FROM other WHERE i > 0") foreach 1 .. 2;
sql($node, "SELECT fairq.enqueue('q', '3001', 'a')");

append_to_file("$hold.new", "$pid 1 $index\n");
rename "$hold.new", $hold or die "$hold: $!";
$claimer->send(take('reader', 350));
ok(wait_for(sub { -s "$hold.held" }), 'a claim reads on in the index of the lane');

# Then another claim makes room for what is committed meanwhile.  (With lanes as small as
# in a build for tests there is nothing for it, and it waits.)
$other->send(take('other', 40));
wait_for(sub { sql($node, "SELECT count(*) FROM got WHERE who = 'other'") == 40 }, 20);
sql($node, "SELECT cardinality(fairq.enqueue_many('q', numbers(3002, 3021), '{a}'))");
# Nor have they come far then, and the page that is held up is where b's tasks belong: then
# the enqueue waits for it.
$producer->send("SELECT cardinality(fairq.enqueue_many('q', numbers(1, 4), '{b}'))");
wait_for(sub { sql($node, "SELECT count(*) FROM fairq.q_q WHERE group_key = 'b'") == 4 }, 20);
unlink $hold or die "$hold: $!";
$_->safe('SELECT 1') foreach $claimer, $other, $producer;
is(sql($node, "SELECT count(*) FROM got WHERE who IN ('reader', 'other')"), 390, 'both claims have what they asked for');

sql($node, take('last', 100000));
is( sql(
		$node,
		"SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY group_key ORDER BY at) AS swap FROM got WHERE who = 'last') x WHERE swap"),
	0,
	'what comes then is in order');
is(sql($node, "SELECT group_key, count(*), count(DISTINCT n) FROM got GROUP BY 1 ORDER BY 1"), "a|3021|3021\nb|4|4", 'all come, each once');
is(sql($node, 'SELECT count(*) FROM fairq.q_q'), 0, 'and nothing is left');
nothing_swept($node);

$node->stop;
done_testing();
