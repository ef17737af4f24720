# What happens while a claim has tasks in hand, or reads a line: the read of a page of the
# queue's table is held up (lib/held_read.c), so each of these is met every time.
#
# Shown: what becomes claimable with an id before where a line is being read, or comes back
# to it meanwhile, is not lost; a group whose line is read is passed by if that takes long,
# and has made up for it afterwards; whoever waits for a reader that fails or is
# terminated goes on; what a claim has in hand when it fails comes back, in order, with the
# room that was kept for it, and is charged to nobody; and settings that change between a
# claim's take and its grant hold for what it has in hand: never more than may be are
# leased, and nobody waits for room that was kept and is not needed.
#
# Seen to fail without these guards:
# - a reading that is under way is told of what comes before its end (lowered, in
#   turns_read_end and turn_candidates_put_back): who commits late, what is given back;
# - who waits for a line passes it by (overdue), and goes on when the reading has
#   ended or failed (turns_read_end, turns_at_abort): the other claim waits for ever;
# - what is in hand goes back when a claim fails (claim_at_abort), to its turn and with its
#   charge (turns_return), and so does its room (return_entry): a claim that fails;
# - room is kept for what is in hand (limit_room_keep), at both levels or at none
#   (limit_room_reserve), and asked for when it is leased (group_limits_take): settings;
# - what is kept for those behind does not count then: the first ones come, not the last;
# - a group that has a limit by default by now joins it (joins), with what it has in flight
#   (limit_entry_count): limits by default;
# - settings that change let a group go on (group_limits_change), and room that was kept by
#   a limit which it has no more is given up (had_room): settings;
# - what a refused task had kept is given up as any other (group_limits_take): two levels.

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
my $node = fairq_node('in_hand', conf => "shared_buffers = 1MB\nmax_connections = 20\n");
# Who reads is to read himself.
$node->append_conf('postgresql.conf', "io_method = 'sync'") if $node->pg_version->major >= 18;
$node->stop;
{
	local $ENV{LD_PRELOAD} = "$dir/held_read.so";
	local $ENV{FAIRQ_HOLD} = $hold;
	$node->start;
}
sql($node, <<'SQL');
CREATE TABLE other AS SELECT i, repeat('x', 700) AS filler FROM generate_series(1, 7000) i;
CREATE INDEX ON other (i);
SQL

my $one = session($node);

sub told { return $one->safe($_[0]); }

# A queue q with so many tasks of a group, each in a transaction of its own (one) or all in
# one (many).  The first has an address, unless the queue has subgroups, and is gone: so the
# others are of the overflow.  In between, and behind, are rows that fill some pages.
sub make_queue
{
	my ($settings, @tasks) = @_;

	told("SELECT fairq.drop_queue('q')") if told("SELECT count(*) FROM fairq.queues WHERE queue = 'q'");
	$settings .= ', buckets => 1' if $settings !~ /buckets/;
	told("SELECT fairq.create_queue('q', lease => '1 h', max_attempts => 0, $settings)");
	add(@$_) foreach @tasks;
	return;
}

# Tasks from to of a group ("a/x": of a subgroup).
sub add
{
	my ($how, $key, $from, $to) = @_;
	my ($group, $subgroup) = split '/', $key;
	my $whose = "group_keys => '{$group}'" . (defined $subgroup ? ", subgroup_keys => '{$subgroup}'" : '');
	my $numbers = "SELECT array_agg(to_jsonb(i) ORDER BY i) FROM generate_series(%d, %d) i";

	told(join ";\n", map { sprintf "SELECT cardinality(fairq.enqueue_many('q', ($numbers), $whose))", @$_ }
		  $how eq 'many' ? [ $from, $to ] : map { [ $_, $_ ] } $from .. $to);
	return;
}

sub fill_pages
{
	told("SELECT cardinality(fairq.enqueue_many('q', array_fill('1'::jsonb, '{300}'), group_keys => '{later}', run_ats => ARRAY[now() + '1 day']))");
	return;
}

sub first_gone
{
	told("SELECT count(*) FROM fairq.pop('q', $_[0])");
	return;
}

# Claims in a session of its own, and is held when it reads the table, after so many reads.
# So nothing of the table is in the server's memory before.
sub held
{
	my ($claim, $skip) = @_;
	my $session = session($node);
	my $pid = $session->pid;

	# What it has to read before that is known.
	$session->safe("SELECT count(*) FROM fairq.claim('q', 1, group_keys => '{nobody}')");
	my $file = told("SELECT pg_relation_filepath('fairq.q_q')");
	told("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SELECT count(filler) FROM other WHERE i > 0; COMMIT") foreach 1 .. 2;
	unlink "$hold.held", "$hold.fails";
	append_to_file("$hold.new", "$pid " . ($skip // 0) . " $file\n");
	rename "$hold.new", $hold or die "$hold: $!";
	$session->send($claim);
	wait_for(sub { -s "$hold.held" }) or die 'no read of the table was held up';
	return $session;
}

# It goes on.  Answers what it has claimed, and its error.
sub goes_on
{
	my ($session) = @_;

	unlink $hold or die "$hold: $!";
	my ($out, $error) = $session->ended_with;
	$session->quit;
	return (join(' ', $out =~ /(\d+)/g), $error);
}

sub fails { append_to_file("$hold.fails", "yes\n"); return; }

sub claim { return "SELECT payload FROM fairq.claim('q', $_[0])"; }

sub claimed { return join ' ', split /\n/, told(claim(@_)); }

sub acknowledged { return told("SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'q'"); }

# Who is held.
my $reader;

#
# A line that is being read
#
make_queue('max_ready_per_group => 1', [ 'one', 'a', 1, 1 ]);
my $late = session($node);
$late->safe("BEGIN; SELECT fairq.enqueue('q', '2', 'a')");
add('many', 'a', 3, 12);
first_gone(1);
fill_pages();
$reader = held(claim(4));
$late->safe('COMMIT');
is((goes_on($reader))[0], '2 3 4 5', 'who commits late, while the line is read, comes first');
is(claimed(20), '6 7 8 9 10 11 12', 'and the others in order');

# A task that was leased when the reader came to it.
make_queue('max_ready_per_group => 1', [ 'one', 'a', 1, 1 ]);
$late->safe("BEGIN; SELECT fairq.enqueue('q', '2', 'a')");
add('one', 'a', 3, 3);
first_gone(1);
my $back = session($node);
$back->safe('BEGIN');
is($back->safe(claim(1)), '3', 'a task is leased');
fill_pages();
add('many', 'a', 4, 12);
$late->safe("SELECT fairq.enqueue('q', '13', 'a'); COMMIT");
$reader = held(claim(3), 1);
$back->safe('ROLLBACK');
is((goes_on($reader))[0], '2 3 4', 'what is given back while the line is read comes when it is its turn');
is(claimed(20), join(' ', 5 .. 13), 'and nothing comes twice');

#
# Others, while a line is being read: a's is, and b has tasks, too, in another lane
#
sub two_groups
{
	make_queue('max_ready_per_group => 1, buckets => 2', [ 'many', 'a', 1, 20 ], [ 'one', 'b', 101, 101 ]);
	fill_pages();
	add('many', 'b', 102, 113);
	first_gone(2);
	return;
}
two_groups();
$reader = held(claim(1));
my $other = session($node);
# (Where it is waited for this does not end.)
$other->send(claim(4));

my $goes_by = wait_for(sub { told("SELECT count(*) FROM fairq.leases WHERE queue = 'q'") == 4 });
ok($goes_by, 'a line that is read for long is passed by');
is(claimed(1), 105 + $_, 'also by who wants one task') foreach 1 .. ($goes_by ? 4 : 0);
is((goes_on($reader))[0], '2', 'then it goes on');
is(($other->ended_with)[1], '', 'and so does the other');
is(join(' ', map { claimed(1) } 1 .. 8), join(' ', 3 .. 10), 'and makes up for what the other group has had meanwhile');
is(join(' ', map { claimed(1) } 1 .. 4), '110 11 111 12', 'and no more');

# Who waits for the reader because there is nothing else.
foreach my $end ('fails', 'is terminated', 'goes on')
{
	make_queue('max_ready_per_group => 1', [ 'many', 'a', 1, 20 ]);
	first_gone(1);
	fill_pages();
	$reader = held(claim(1));
	$other = session($node);
	my $pid = $other->pid;
	$other->send("SET statement_timeout = '60 s'; " . claim(3));
	ok(wait_event_of($node, 'Extension', "pid = $pid"), "a reader, which $end: another claim waits");
	fails() if $end eq 'fails';
	my ($got, $error) = ('', '');
	if ($end eq 'is terminated')
	{
		told("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%fairq.claim%' AND pid NOT IN (pg_backend_pid(), $pid)");
		unlink $hold or die "$hold: $!";
	}
	else
	{
		($got, $error) = goes_on($reader);
		like($error, $end eq 'fails' ? qr/could not read block/ : qr/^$/, "it $end");
	}
	my ($out, $late) = $other->ended_with;
	$other->quit;
	is($late, '', 'and the other one goes on');
	my @got = split ' ', "$got $out";
	push @got, split(' ', claimed(30));
	is(join(' ', sort { $a <=> $b } @got), join(' ', 2 .. 20), 'all come, each once');
	is($got[-1], 20, 'in order');
}

#
# A claim that fails with tasks in hand
#
sub four_and_six
{
	make_queue('max_ready_per_group => 1', [ 'one', 'a', 1, 4 ], [ 'one', 'b', 101, 104 ]);
	fill_pages();
	add('one', 'a', 5, 10);
	add('one', 'b', 105, 110);
	first_gone(2);
	return;
}
four_and_six();
told("SELECT fairq.set_group('q', 'a', max_leased => 4)");
$reader = held(claim(6));
is(claimed(10), '5 105 106 107 108 109 110', 'what is in hand is nobody else\'s, nor the room that it takes');
is(acknowledged(), 7, 'that is done');
fails();
like((goes_on($reader))[1], qr/could not read block/, 'a claim fails with three tasks of each group in hand');
is(claimed(20), '102 103 104 2 3 4 6', 'they come, in order, within the limit');
is(acknowledged(), 7, 'that is done');
is(claimed(20), '7 8 9 10', 'and there is room again');

four_and_six();
$reader = held(claim(5) . " WHERE group_key = 'a'");
fails();
like((goes_on($reader))[1], qr/could not read block/, 'a claim fails with tasks of two groups in hand');
is(join(' ', map { claimed(1) } 1 .. 8), '2 102 3 103 4 104 5 105', 'and is charged to none of them');

#
# Settings that change between take and grant
#
foreach my $case (
	[ 'max_leased => 5', "fairq.set_group('q', 'a', max_leased => 2)", 2, '' ],
	[ 'max_leased => 5', "fairq.set_group('q', 'a', max_leased => 8)", 5, '7 8' ],
	[ 'max_leased => 5', "fairq.reset_group('q', 'a')", 5, '7 8' ],
	[ 'max_leased => 5', "fairq.pause_group('q', 'a')", 0, '' ],
	[ undef, "fairq.set_group('q', 'a', max_leased => 2)", 0, '7 8' ],
	[ undef, "fairq.set_group_defaults('q', max_leased => 3)", 1, '7 8' ],
	[ undef, "fairq.pause_group('q', 'a')", 0, '' ])
{
	my ($before, $change, $may, $others) = @$case;
	my $name = ($before // 'no limit') . ", then $change";

	make_queue('max_ready_per_group => 1', [ 'one', 'a', 1, 6 ]);
	fill_pages();
	add('one', 'a', 7, 15);
	first_gone(1);
	told("SELECT fairq.set_group('q', 'a', $before)") if defined $before;
	$reader = held(claim(5));
	told("SELECT $change");
	my $more = claimed(2);
	is((goes_on($reader))[0], join(' ', 2 .. 1 + $may), "$name: what is in hand, as far as it may be");
	is($more, $others, "$name: others have had what was left of it");
	my $leased = $may + split ' ', $more;
	is(told("SELECT leased FROM fairq.group_stats WHERE queue = 'q' AND group_key = 'a'"), $leased, "$name: counted");
	is(acknowledged(), $leased, "$name: these are done");
	told("SELECT fairq.set_group_defaults('q', max_leased => 0), fairq.set_group('q', 'a', max_leased => 3, rate => 0), fairq.resume_group('q', 'a')");
	my @rest;
	while ((my $now = claimed(10)) ne '')
	{
		push @rest, $now;
		acknowledged();
	}
	like("@rest[0 .. $#rest - 1]", qr/^(\d+ \d+ \d+ ?)*$/, "$name: then three at a time");
	is("@rest", join(' ', grep { my $n = $_; !grep { $n == $_ } split ' ', $more } 2 + $may .. 15), "$name: all, in order");
}

# In what was leased before there was a limit, too.
make_queue('max_ready_per_group => 1', [ 'one', 'a', 1, 9 ]);
is(claimed(3), '1 2 3', 'three are leased');
fill_pages();
$reader = held(claim(4));
told("SELECT fairq.set_group_defaults('q', max_leased => 4)");
is((goes_on($reader))[0], '4', 'a limit of four by default: one more of the four in hand');
is(claimed(9), '', 'and no more');
is(acknowledged(), 4, 'they are done');
is(claimed(9), '5 6 7 8', 'then the next four');

# Of two levels: room of the group that was kept for the task of a subgroup, which may not
# have it now, is another's.
make_queue('subgroups => true', [ 'one', 'a/x', 1, 1 ]);
fill_pages();
add('one', 'a/y', 2, 2);
told("SELECT fairq.set_group('q', 'a', max_leased => 1)");
$reader = held("SELECT payload, pg_sleep(0) FROM fairq.claim('q', 1)");
is(claimed(1), '', 'one task of the group at a time: another subgroup waits');
told("SELECT fairq.pause_subgroup('q', 'a', 'x')");
is(join(' ', (goes_on($reader))[0] || (), claimed(1) || ()), '2', 'the first one is paused: the other goes on');
is(claimed(1), '', 'alone');
told("SELECT fairq.resume_subgroup('q', 'a', 'x')");
is(acknowledged(), 1, 'that is done');
is(claimed(1), '1', 'then the first one does');

#
# What a claim has in hand goes to another group, or is deleted behind the engine
#
make_queue('max_ready_per_group => 1', [ 'one', 'a', 1, 2 ]);
fill_pages();
add('one', 'a', 3, 7);
first_gone(1);
told("SELECT fairq.pause_group('q', 'z')");
my ($three, $four) = split /\n/, told("SELECT id FROM fairq.q_q WHERE payload IN ('3', '4') ORDER BY id");
$reader = held(claim(4));
# (The page that is held up is in the way of those who read the table.)
told("SET enable_seqscan = off; UPDATE fairq.q_q SET group_key = 'z' WHERE id = $three; SET session_replication_role = replica; DELETE FROM fairq.q_q WHERE id = $four; RESET session_replication_role; RESET enable_seqscan");
is((goes_on($reader))[0], '2 5 6 7', 'a task is in another group, which is paused, and one is gone: these are not claimed');
is(acknowledged(), 4, 'the others are done');
is(claimed(9), '', 'nothing is left');
told("SELECT fairq.resume_group('q', 'z')");
is(told("SELECT payload, group_key FROM fairq.claim('q', 9)"), '3|z', 'and it comes when its group is resumed');
$one->quit;
nothing_swept($node);

$node->stop;
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (6|11)/, 'no process broke down');
done_testing();
