# The order in which tasks come.
#
# With one bucket it is exactly that of start-time fair queueing: a task of
# cost c in a group g is given S = max(v, F_g), and F_g becomes S + c; tasks
# come by (S, the group's slot), where v is the largest S claimed so far.  A
# model of a few lines is run beside the queue, on random mixtures of
# arrivals, claims, acks, nacks and releases, and must say the same order.
#
# With several buckets and claimers the order is not exact.  The bound (I7):
# at every moment at which two groups f and m have both had ready work since
# the start,
#
#     |served_f - served_m| <= cost_f + cost_m + C * n * c
#
# where served is the sum of the costs of a group's tasks claimed so far, in
# the order in which the claims returned; cost_f and cost_m are the largest
# costs of a task of each; C the number of claimers, n the tasks each takes at
# once and c the largest cost: C * n tasks are in flight, taken from the queue
# by claims that have not returned.  It is computed at every prefix of the
# order.
#
# To see it fail, take one of these guards out of the engine:
# - v: let a new group start at 0 (it overtakes everybody until it has caught
#   up) or at the largest F (it waits behind everybody's backlog, as in FIFO);
# - F_g: give every task S = v, which is FIFO;
# - the cost, in F_g;
# - the fresh address of a nack (a group whose tasks all fail overtakes);
# - the choice of the lane that is least far along: let a claim always begin
#   with lane 0;
# - the class before the bucket in that choice.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use List::Util qw(max min sum);
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{FAIRQ_ORDER_SEED} // time;
srand($seed);
note("seed $seed");

my $node = fairq_node('order', conf => <<'CONF');
max_connections = 30
shared_buffers = 128MB
CONF

#
# One bucket: the model
#
sql($node, <<'SQL');
CREATE TABLE held (rn serial, receipt uuid, id bigint, address fairq.address);
CREATE FUNCTION act(actions text[]) RETURNS TABLE (line text) LANGUAGE plpgsql AS $$
DECLARE
	h record;
	i int := 0;
BEGIN
	FOR h IN SELECT * FROM held ORDER BY rn LOOP
		i := i + 1;
		line := concat_ws('|', 'C', h.id, (fairq.block(h.address) * 4294967296)::numeric(40,0),
			fairq.slot(h.address), actions[i]);
		PERFORM CASE actions[i]
			WHEN 'ack' THEN fairq.ack(h.receipt)
			WHEN 'nack' THEN fairq.nack(h.receipt, NULL, '0')
			WHEN 'release' THEN fairq.release(h.receipt) END;
		RETURN NEXT;
	END LOOP;
	DELETE FROM held;
END $$;
SQL

# A cost as the column holds it, in units of 2^-32.
sub units
{
	my ($cost) = @_;

	return 0 + sprintf('%.0f', unpack('f', pack('f', $cost)) * 2**32);
}

# Events of one scenario: [ 'E', group, cost ] or [ 'C', number, actions ].
# At least as many arrivals as claims: the queue is never empty before the end.
sub scenario
{
	my (%p) = @_;
	my (@events, $ready);

	for (1 .. $p{start}) { push @events, [ 'E', int rand $p{groups} ] }
	$ready = $p{start};
	while (@events < $p{events})
	{
		my $n = 1 + int rand $p{batch};

		if ($ready <= $n + 1 || rand() < 0.65)
		{
			push @events, [ 'E', int rand(1 + rand $p{groups}) ];
			$ready++;
		}
		else
		{
			push @events,
			  [
				'C', $n,
				[
					map { $p{actions}[ rand @{ $p{actions} } ] } 1 .. $n
				]
			  ];
			# What is put back is not counted: better too few than none.
			$ready -= $n;
		}
	}
	# All that is left
	push @events, [ 'C', 1000, [ ('keep') x 1000 ] ] for 1 .. 3;
	foreach my $e (grep { $_->[0] eq 'E' } @events)
	{
		$e->[2] = $p{costs}[ rand @{ $p{costs} } ];
	}
	return @events;
}

sub run_scenario
{
	my ($name, @events) = @_;
	my $script = "SELECT fairq.drop_queue('s');\n"
	  . "SELECT fairq.create_queue('s', buckets => 1, lease => '1 h', max_attempts => 0);\n";

	foreach my $e (@events)
	{
		if ($e->[0] eq 'E')
		{
			$script .=
			  "SELECT 'E', fairq.enqueue('s', '{}', group_key => 'g$e->[1]', cost => $e->[2]);\n";
		}
		else
		{
			my $actions = join ',', map { "'$_'" } @{ $e->[2] };
			$script .=
			  "INSERT INTO held (receipt, id, address) SELECT receipt, id, address FROM fairq.claim('s', $e->[1]);\n"
			  . "SELECT act(ARRAY[$actions]); SELECT 'X';\n";
		}
	}

	my (@entered, @claims);
	my $claim = [];
	foreach my $line (split /\n/, sql($node, $script))
	{
		my @f = split /\|/, $line;
		next unless @f;
		if ($f[0] eq 'E') { push @entered, $f[1] }
		if ($f[0] eq 'C') { push @$claim, [ @f[ 1 .. 4 ] ] }
		if ($f[0] eq 'X') { push @claims, $claim; $claim = [] }
	}

	# The slot of a group is what its tasks say: one that has nothing ready
	# or in flight may be forgotten, and be given another.
	my (%slot_of, $problem);
	foreach my $c (map { @$_ } @claims)
	{
		$slot_of{"$c->[0] $c->[1]"} = $c->[2];
	}

	# The model
	my ($v, %f, %task, %ready) = (0);
	my $at = 0;
	my $address = sub {
		my ($id) = @_;
		my $t = $task{$id};
		my $s = max($v, $f{ $t->{group} } // 0);

		$f{ $t->{group} } = $s + $t->{cost};
		$t->{s} = $s;
		$ready{$id} = 1;
	};
	my $claimed = 0;
  EVENT: foreach my $e (@events)
	{
		if ($e->[0] eq 'E')
		{
			my $id = shift @entered;
			$task{$id} = { group => $e->[1], cost => units($e->[2]) };
			$address->($id);
			next;
		}
		my $got = shift @claims;
		my @expected =
		  sort {
			     $task{$a}{s} <=> $task{$b}{s}
			  || ($slot_of{"$a $task{$a}{s}"} // -1) <=> ($slot_of{"$b $task{$b}{s}"} // -1)
		  } keys %ready;
		splice @expected, $e->[1] if @expected > $e->[1];
		my $is = join ' ', map { "$_->[0]\@$_->[1]" } @$got;
		my $should = join ' ', map { "$_\@$task{$_}{s}" } @expected;
		if ($is ne $should)
		{
			$problem =
			  "after $claimed claimed, claim of $e->[1]:\n got      $is\n expected $should";
			last EVENT;
		}
		$claimed += @$got;
		foreach my $c (@$got)
		{
			delete $ready{ $c->[0] };
			$v = max($v, $task{ $c->[0] }{s});
		}
		foreach my $c (@$got)
		{
			$address->($c->[0]) if $c->[3] eq 'nack';
			$ready{ $c->[0] } = 1 if $c->[3] eq 'release';
		}
	}
	ok(!defined $problem, "$name: $claimed claimed in the order of the model")
	  or diag("seed $seed\n$problem");

	return;
}

my @one = (1);
my @some = (1, 1, 0.5, 2, 10, 0.25, 100);
my @odd = (0.1, 1, 3.3, 0.001, 1000000, 7, 0.7);
run_scenario('costs 1, all kept',
	scenario(groups => 5, start => 20, events => 400, batch => 3, costs => \@one, actions => ['keep']));
run_scenario('many groups, all kept',
	scenario(groups => 60, start => 5, events => 600, batch => 4, costs => \@one, actions => ['keep']));
run_scenario('costs, all kept',
	scenario(groups => 8, start => 30, events => 500, batch => 5, costs => \@some, actions => ['keep']));
run_scenario('odd costs, all kept',
	scenario(groups => 8, start => 30, events => 500, batch => 5, costs => \@odd, actions => ['keep']));
run_scenario('acknowledged',
	scenario(groups => 20, start => 30, events => 600, batch => 3, costs => \@one, actions => ['ack']));
run_scenario('acknowledged, costs',
	scenario(groups => 20, start => 30, events => 600, batch => 3, costs => \@odd, actions => ['ack']));
run_scenario(
	'acks, nacks and releases',
	scenario(
		groups => 6, start => 40, events => 600, batch => 3, costs => \@some,
		actions => [ 'ack', 'ack', 'ack', 'nack', 'release', 'keep' ]));

# These arrivals in one enqueue_many, and in one transaction, and from two
# sessions in turn, make the same order.
{
	my @groups = map { 'g' . int rand 7 } 1 .. 200;
	my @costs = map { $some[ rand @some ] } 1 .. 200;
	my $many = sprintf(
		"fairq.enqueue_many('%%s', ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 200) i), group_keys => ARRAY[%s], costs => ARRAY[%s]::real[])",
		join(',', map { "'$_'" } @groups),
		join(',', @costs));
	my @single = map {
		"SELECT fairq.enqueue('%s', '$_', group_key => '$groups[$_ - 1]', cost => $costs[$_ - 1])"
	} 1 .. 200;
	my %order;
	my @two = (session($node), session($node));

	foreach my $how ('single', 'many', 'transaction', 'sessions')
	{
		sql($node, "SELECT fairq.create_queue('$how', buckets => 1)");
		if ($how eq 'many') { sql($node, sprintf("SELECT $many", $how)) }
		elsif ($how eq 'sessions')
		{
			$two[ $_ % 2 ]->safe(sprintf $single[$_], $how) foreach 0 .. 199;
		}
		else
		{
			my $script = join ";\n", map { sprintf $_, $how } @single;
			$script = "BEGIN;\n$script;\nCOMMIT" if $how eq 'transaction';
			sql($node, $script);
		}
		$order{$how} = join ' ', column($node, "SELECT payload FROM fairq.claim('$how', 200)");
	}
	# Slots are given in the order of first appearance.
	my %first;
	$first{$_} //= scalar keys %first foreach @groups;
	is( join(' ', column($node, "SELECT group_key FROM fairq.q_single GROUP BY group_key, fairq.slot(address) ORDER BY fairq.slot(address)")),
		join(' ', sort { $first{$a} <=> $first{$b} } keys %first),
		'one slot for each group, in order of first appearance');
	is($order{many}, $order{single}, 'enqueue_many gives the same order');
	is($order{transaction}, $order{single}, 'one transaction as well');
	is($order{sessions}, $order{single}, 'two sessions in turn as well');
	$_->quit foreach @two;
}

# When nothing is ready a new busy period begins: nobody pays for the last.
sql($node, <<'SQL');
SELECT fairq.create_queue('idle', buckets => 1);
SELECT fairq.enqueue('idle', '{}', group_key => 'rich', cost => 1000);
SELECT fairq.ack(receipt) FROM fairq.claim('idle', 1);
SELECT fairq.enqueue('idle', '{}', group_key => g) FROM generate_series(1, 5), (VALUES ('rich'), ('new')) v(g);
SQL
like(
	join(' ', column($node, "SELECT group_key FROM fairq.claim('idle', 10)")),
	qr/^(rich new ?){5}|(new rich ?){5}$/,
	'a new busy period owes nothing to the last');

# A group whose tasks all fail does not overtake the rest.
is( sql(
		$node, <<'SQL'),
SELECT fairq.create_queue('fails', buckets => 1, max_attempts => 0);
SELECT count(fairq.enqueue('fails', '{}', group_key => g)) FROM generate_series(1, 50), (VALUES ('bad'), ('good')) v(g);
CREATE TABLE served (g text);
DO $$ BEGIN
	FOR i IN 1 .. 60 LOOP
		INSERT INTO served SELECT group_key FROM fairq.claim('fails') c
		 WHERE CASE group_key WHEN 'bad' THEN fairq.nack(receipt, NULL, '0') ELSE fairq.ack(receipt) END;
		COMMIT;
	END LOOP;
END $$;
SELECT count(*) FROM served WHERE g = 'good';
SQL
	"\n100\n30",
	'tasks that fail have been served');

#
# bob has 100,000; alice comes after him with 10
#
sub bob
{
	my ($q, $number) = @_;

	return
	  "SELECT count(fairq.enqueue_many('$q', array_fill('{}'::jsonb, ARRAY[10000]), group_keys => ARRAY['bob'])) FROM generate_series(1, $number / 10000);";
}

sub positions
{
	my ($group, @order) = @_;

	return grep { $order[ $_ - 1 ] eq $group } 1 .. @order;
}
my $alice =
  "array_fill('{}'::jsonb, ARRAY[10]), group_keys => ARRAY['alice']";
my $one_by_one =
  "SELECT group_key FROM generate_series(1, %d), LATERAL fairq.claim('%s', 1 + 0 * generate_series)";

sql($node, "SELECT fairq.create_queue('b1', buckets => 1);" . bob('b1', 100000));
sql($node, "SELECT fairq.enqueue_many('b1', $alice)");
is( join(' ',
		positions('alice', column($node, sprintf($one_by_one, 30, 'b1')))),
	'2 4 6 8 10 12 14 16 18 20',
	'alice after 100,000 of bob, one bucket');
sql($node,
	"SELECT count(*) FROM (SELECT 1 FROM fairq.claim('b1', 5000)) c; SELECT fairq.enqueue_many('b1', $alice)"
);
my @at = positions('alice', column($node, "SELECT group_key FROM fairq.claim('b1', 40)"));
is("@at", '1 3 5 7 9 11 13 15 17 19',
	'alice comes again when 5000 more of bob have been claimed');
sql($node, "SELECT fairq.drop_queue('b1')");

foreach my $batch (1, 10, 100)
{
	my $q = "b16_$batch";

	sql($node, "SELECT fairq.create_queue('$q', buckets => 16);" . bob($q, 30000));
	sql($node, sprintf($one_by_one, 200, $q)) if $batch == 1;
	sql($node, "SELECT count(*) FROM (SELECT fairq.claim('$q', $batch) FROM generate_series(1, 20)) c")
	  if $batch > 1;
	sql($node, "SELECT fairq.enqueue_many('$q', $alice)");
	my @order = column($node, sprintf(
			"SELECT group_key FROM generate_series(1, %d), LATERAL fairq.claim('%s', %d + 0 * generate_series)",
			int(300 / $batch), $q, $batch));
	my @alice_at = positions('alice', @order);
	# served_bob <= served_alice + 2 + n while she has work
	my $worst = max(map { $alice_at[$_] - 2 * ($_ + 1) } 0 .. $#alice_at) // 1e9;
	is(scalar(@alice_at), 10, "16 buckets, claims of $batch: alice is served");
	cmp_ok($worst, '<=', 2 + $batch,
		"16 buckets, claims of $batch: within the bound (@alice_at)");
	sql($node, "SELECT fairq.drop_queue('$q')");
}

#
# Eight claimers of 10 each
#
sub claimers
{
	my ($q, @more) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[
			python_program('claimers.py'),
			'--conninfo' => $node->connstr('postgres'),
			'--queue' => $q,
			@more
		],
		'>', \$out, '2>', \$err,
		IPC::Run::timeout(300)) or die "claimers.py: $err";
	return @{ decode_json($out) };
}

# The largest difference in service between two groups that have both had
# work since the start, over all prefixes, and the bound.
sub unfairness
{
	my ($claimers, $batch, @order) = @_;
	my (%left, %served, %cost);

	foreach my $row (@order)
	{
		$left{ $row->[2] }++;
		$cost{ $row->[2] } = max($cost{ $row->[2] } // 0, $row->[3]);
	}
	$served{$_} = 0 foreach keys %left;
	my $worst = 0;
	foreach my $row (@order)
	{
		my $g = $row->[2];

		$served{$g} += $row->[3];
		if (--$left{$g} == 0) { delete $served{$g} }
		last if keys %served < 2;
		my @all = values %served;
		$worst = max($worst, max(@all) - min(@all));
	}
	my $c = max(values %cost);
	return ($worst, 2 * $c + $claimers * $batch * $c);
}

foreach my $case (
	[ 'equal costs', 16, 8, 10, '1' ],
	[ 'costs 1 to 4', 16, 8, 10, '1 + (i * 7919) % 4' ],
	[ 'equal costs', 1, 8, 10, '1' ],
	[ 'equal costs', 16, 1, 1, '1' ])
{
	my ($what, $buckets, $claimers, $batch, $cost) = @$case;
	my $per = $claimers > 1 ? 600 : 150;
	my $name =
	  "$buckets buckets, $claimers claimers of $batch, $what";

	# Group after group, so that first in, first out would be the worst order.
	sql($node, <<"SQL");
SELECT fairq.create_queue('u', buckets => $buckets);
SELECT count(fairq.enqueue_many('u', p, group_keys => ARRAY['g' || g], costs => c)) FROM
	(SELECT g, array_agg(jsonb_build_object('cost', $cost) ORDER BY i), array_agg(($cost)::real ORDER BY i)
	   FROM generate_series(1, 20) g, generate_series(1, $per) i GROUP BY g) x (g, p, c);
SQL
	my @order = claimers('u', '--claimers' => $claimers, '--batch' => $batch);
	is(scalar(@order), 20 * $per, "$name: each task once");
	my ($worst, $bound) = unfairness($claimers, $batch, @order);
	cmp_ok($worst, '<=', $bound,
		"$name: unfairness $worst within the bound of $bound");
	sql($node, "SELECT fairq.drop_queue('u')");
}

# A newcomer among eight claimers at work: from her first task on the others are
# served at most as much as she, and the bound; and the first comes at once,
# but for what is claimed while she enqueues and commits.
sql($node, "SELECT fairq.create_queue('n', buckets => 16);" . bob('n', 60000));
my @order = claimers('n', '--limit' => 20000, '--newcomer', 'alice', '10', '5000');
my ($since) = grep { !defined $order[$_][1] } 0 .. $#order;
my @alice_at = positions('alice', map { $_->[2] } @order[ $since + 1 .. $#order ]);
is(scalar(@alice_at), 10, 'a newcomer among 8 claimers of 10 is served');
push @alice_at, 1e9 unless @alice_at;
cmp_ok($alice_at[0], '<=', 5000, "soon ($alice_at[0] after she came)");
{
	# While she has work: until the claim that takes her last task.  What is counted are
	# claims that returned; who has taken some of hers may return late.
	my @after = @order[ $since + 1 .. $#order ];
	my $until = max(map { $_->[5] } grep { $_->[2] eq 'alice' } @after) // 0;
	my ($hers, $others, $worst) = (0, 0, 0);

	foreach my $row (@after)
	{
		last if $row->[0] > $until;
		next unless $hers || $row->[2] eq 'alice';
		$row->[2] eq 'alice' ? $hers++ : $others++;
		$worst = max($worst, $others - $hers);
	}
	cmp_ok($worst, '<=', 2 + 80, "within the bound: $worst (@alice_at)");
}
sql($node, "SELECT fairq.drop_queue('n')");

#
# Classes
#
foreach my $buckets (1, 16)
{
	sql($node, <<"SQL");
SELECT fairq.create_queue('c', buckets => $buckets);
SELECT fairq.enqueue('c', jsonb_build_object('n', i), priority => 9 - p, group_key => 'g' || i % 3)
  FROM generate_series(0, 9) p, generate_series(1, 30) i;
SQL
	my @classes = column($node,
		"SELECT priority FROM generate_series(1, 95), LATERAL fairq.claim('c', 1 + 0 * generate_series)"
	);
	is( "@classes",
		join(' ', ('0') x 30, ('1') x 30, ('2') x 30, ('3') x 5),
		"$buckets buckets: classes one after the other");
	sql($node,
		"SELECT fairq.enqueue('c', '{}', priority => p) FROM (VALUES (0), (2), (1)) v(p)"
	);
	my @next = column($node, "SELECT priority FROM fairq.claim('c', 8)");
	is( join(' ', $buckets == 1 ? @next : sort @next),
		'0 1 2 3 3 3 3 3',
		"$buckets buckets: a lower class that arrives is next");
	my @rest = column($node, "SELECT priority FROM fairq.claim('c', 1000)");
	is(scalar(@rest), 200, "$buckets buckets: the rest in one claim");
	is("@rest", join(' ', sort @rest), 'by class as well') if $buckets == 1;
	sql($node, "SELECT fairq.drop_queue('c')");
}

# Within each class groups take turns.
{
	sql($node, <<'SQL');
SELECT fairq.create_queue('c', buckets => 1);
SELECT fairq.enqueue('c', '{}', priority => 5, group_key => 'a') FROM generate_series(1, 5);
SELECT fairq.enqueue('c', '{}', priority => 5, group_key => 'b') FROM generate_series(1, 5);
SELECT fairq.enqueue('c', '{}', priority => 0, group_key => 'a') FROM generate_series(1, 5);
SELECT fairq.enqueue('c', '{}', priority => 0, group_key => 'c') FROM generate_series(1, 5);
SQL
	is( join(' ', column($node, "SELECT group_key || priority FROM fairq.claim('c', 20)")),
		join(' ', ('a0 c0') x 5, ('a5 b5') x 5),
		'groups take turns within a class');
	sql($node, "SELECT fairq.drop_queue('c')");
}

#
# Policies priority and time: first in, first out among equals, also from two
# sessions in turn
#
{
	my @two = (session($node), session($node));
	my @priorities = (
		'-9223372036854775808', '9223372036854775807', '-1', '0', '1', '5',
		'-4294967296', '4294967296', '1000000000000');
	my (@should, @is);

	sql($node, "SELECT fairq.create_queue('p', policy => 'priority', buckets => 1)");
	foreach my $i (1 .. 150)
	{
		my $p = $priorities[ rand @priorities ];
		$two[ rand 2 ]->safe("SELECT fairq.enqueue('p', '$i', priority => $p, group_key => 'g' || $i % 4)");
		push @should, [ $p, $i ];
		if ($i % 10 == 0)
		{
			# Strings of bigint do not fit a double.
			@should = sort { compare($a->[0], $b->[0]) || $a->[1] <=> $b->[1] } @should;
			push @is, [ [ column($node, "SELECT payload FROM fairq.claim('p', 4)") ], [ map { $_->[1] } splice @should, 0, 4 ] ];
		}
	}
	@should = sort { compare($a->[0], $b->[0]) || $a->[1] <=> $b->[1] } @should;
	push @is, [ [ column($node, "SELECT payload FROM fairq.claim('p', 1000)") ], [ map { $_->[1] } @should ] ];
	is_deeply([ map { $_->[0] } @is ], [ map { $_->[1] } @is ],
		'policy priority: by priority, then first in, first out');

	sql($node, "SELECT fairq.create_queue('t', policy => 'time', buckets => 1)");
	$two[ $_ % 2 ]->safe("SELECT fairq.enqueue('t', '$_', group_key => 'g' || $_ % 4)") foreach 1 .. 60;
	is( join(' ', column($node, "SELECT payload FROM fairq.claim('t', 100)")),
		join(' ', 1 .. 60),
		'policy time: first in, first out');

	sql($node, <<'SQL');
SELECT fairq.create_queue('p16', policy => 'priority');
SELECT fairq.enqueue('p16', '{}', priority => (i * 7919) % 100) FROM generate_series(1, 400) i;
SQL
	my @order16 = column($node,
		"SELECT priority FROM generate_series(1, 400), LATERAL fairq.claim('p16', 1 + 0 * generate_series)"
	);
	is( "@order16",
		join(' ', sort { $a <=> $b } @order16),
		'policy priority, 16 buckets, one at a time: by priority');
	$_->quit foreach @two;
}

# Compare integers of 64 bits given as text.
sub compare
{
	my ($x, $y) = @_;
	my ($sx, $sy) = map { /^-/ ? -1 : 1 } $x, $y;

	return $sx <=> $sy if $sx != $sy;
	my ($ax, $ay) = map { s/^-//r } $x, $y;
	return $sx * (length $ax <=> length $ay || $ax cmp $ay);
}

$node->stop;
done_testing();
