# Shares of groups with overflow: weights are kept however fast claims are.
#
# A group may have max_ready_per_group tasks ready, and what is beyond waits for the
# worker.  If claims are faster, a group must not be passed over for want of places:
# the claim that uses up the last of them gives it new ones.  Checked is the bound of
# doc/fairness.md, at every prefix of what one claimer got,
#
#     | served_f / w_f - served_m / w_m |  <=  c_f / w_f + c_m / w_m
#
# for claims of 1, and what claims of many may have in hand on top.
#
# To see it fail, take one of these guards out of the engine:
# - a turn is taken at the tag of its line, and that goes on by what it is charged
#   (take_first in turns.c), and what leads nowhere gives its charge back (led_nowhere);
# - a claim that comes to a line without candidates reads on (take_unread): claims of all
#   sizes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('shares_of_overflow', conf => <<'CONF');
max_connections = 30
shared_buffers = 128MB
synchronous_commit = off
CONF

sql($node, <<'SQL');
CREATE UNLOGGED TABLE got (place bigserial, group_key text, cost float8);
CREATE PROCEDURE claims(q text, batch int, at_least int) LANGUAGE plpgsql AS $$
DECLARE
    n int;
    total int := 0;
    vain int := 0;
BEGIN
    TRUNCATE got RESTART IDENTITY;
    WHILE total < at_least AND vain < 100 LOOP
        INSERT INTO got (group_key, cost)
            SELECT group_key, (payload ->> 'cost')::float8 FROM fairq.claim(q, batch, '1 h') WITH ORDINALITY ORDER BY ordinality;
        GET DIAGNOSTICS n = ROW_COUNT;
        COMMIT;
        total := total + n;
        vain := CASE WHEN n = 0 THEN vain + 1 ELSE 0 END;
    END LOOP;
END
$$;
CREATE PROCEDURE fill(q text, g text, n int, dear bool) LANGUAGE sql AS $$
    SELECT fairq.enqueue_many(q, p, group_keys => ARRAY[g], costs => c)
        FROM (SELECT array_agg(jsonb_build_object('cost', k) ORDER BY i), array_agg(k::real ORDER BY i)
                FROM generate_series(1, n) i, LATERAL (SELECT CASE WHEN dear THEN 1 + i * 7919 % 4 ELSE 1 END) x (k)) y (p, c);
$$;
SQL

my %weight = (big => 8, map { $_ => 1 } qw(a b c d));

# A queue in which all have work until so many were claimed.
sub fill
{
	my ($q, $claims, $dear, @settings) = @_;

	sql($node,
		"SELECT fairq.create_queue('$q', " . join(', ', @settings) . ");\n"
		  . join('', map {
			my $share = $claims * $weight{$_} / 12;

			"SELECT fairq.set_group('$q', '$_', weight => $weight{$_});\n"
			  . "CALL fill('$q', '$_', " . int($share * 1.3 + 300) . ", " . ($dear ? 'true' : 'false') . ");\n"
		  } sort keys %weight));
	return;
}

# By how much the bound is exceeded at the worst prefix, where so many tasks may be in
# flight; and how many prefixes there are.
sub excess
{
	my ($in_flight, @order) = @_;
	my %cost = map { $_ => 0 } keys %weight;
	my %served = %cost;
	my $worst = 0;

	foreach my $row (@order)
	{
		$cost{ $row->[0] } = max($cost{ $row->[0] }, $row->[1] / $weight{ $row->[0] });
	}
	foreach my $row (@order)
	{
		$served{ $row->[0] } += $row->[1] / $weight{ $row->[0] };
		foreach my $f (keys %served)
		{
			foreach my $m (keys %served)
			{
				# Sums of costs are not exact here.
				$worst = max($worst,
					$served{$f} - $served{$m} - $cost{$f} - $cost{$m} - $in_flight * max($cost{$f}, $cost{$m}) - 1e-6);
			}
		}
	}
	return $worst;
}

my $queues = 0;

sub one_claimer
{
	my ($batch, $claims, $dear, @settings) = @_;
	my $q = 'one_' . ++$queues;
	my $name = "claims of $batch, " . join(', ', @settings) . ($dear ? ', costs' : '');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	fill($q, $claims, $dear, @settings);
	sql($node, "CALL claims('$q', $batch, $claims)");
	my @order = rows($node, 'SELECT group_key, cost FROM got ORDER BY place');
	cmp_ok(scalar(@order), '>=', $claims, "$name: as many as wanted");
	cmp_ok(excess($batch > 1 ? $batch : 0, @order), '<=', 0, "$name: shares");
	sql($node, "SELECT fairq.drop_queue('$q')");
	return;
}

# The worker is there.
foreach my $batch (1, 10, 100)
{
	one_claimer($batch, $batch == 1 ? 1000 : 3000, 0, "max_ready_per_group => $_") foreach 1, 2, 16, 256;
	one_claimer($batch, $batch == 1 ? 2000 : 8000, 0, 'max_ready_per_group => 256', 'buckets => 4');
	one_claimer($batch, $batch == 1 ? 1000 : 3000, 1, 'max_ready_per_group => 20', 'buckets => 1');
}
one_claimer(100, 12000, 0, 'max_ready_per_group => 1000');
one_claimer(100, 24000, 0, 'buckets => 4');

# Several claimers: in the order in which their claims returned.
sub claimers
{
	my ($q, @more) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[ python_program('claimers.py'), '--conninfo' => $node->connstr('postgres'), '--queue' => $q, @more ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(300));
	die "claimers.py: $err" if $out eq '';
	return map { [ $_->[2], $_->[3] ] } @{ decode_json($out) };
}
foreach my $case ([ 4, 10, 'max_ready_per_group => 256', 'buckets => 4' ], [ 4, 10, 'max_ready_per_group => 5' ])
{
	my ($claimers, $batch, @settings) = @$case;
	my $q = 'several_' . ++$queues;
	my $claims = 8000;

	fill($q, $claims, 0, @settings);
	my @order = claimers($q, '--claimers' => $claimers, '--batch' => $batch, '--limit' => $claims);
	cmp_ok(scalar(@order), '>=', $claims, "$claimers claimers of $batch, @settings: as many as wanted");
	cmp_ok(excess($claimers * $batch, @order), '<=', 0, "$claimers claimers of $batch, @settings: shares");
	sql($node, "SELECT fairq.drop_queue('$q')");
}
nothing_swept($node, 'nothing was overlooked');

done_testing();
