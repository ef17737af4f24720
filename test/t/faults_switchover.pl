# Which shutdown a lease file is of, and what is right where it and rows differ.
#
# A lease file is in force for the very shutdown it was written at: not on a server
# that starts as a standby or recovers, where tasks have been worked on elsewhere, and
# not once the server has been shut down again.  A durable lease is what its row
# says, whatever memory knows.  And an attempt that was counted stays so.
#
# Seen to fail without these guards: lease_file.c, load() without will_recover() (the
# switchover, the restore), without comparing the shutdown (the file that comes
# back); durable_leases.c, restore_row() without leases_displace() (the row); settle.c,
# put_back() with the number of the lease alone (attempts).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Copy;
use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $p = fairq_node(
	'p',
	init => { allows_streaming => 1 },
	conf => "wal_log_hints = on\nwal_keep_size = '64MB'\npgfairq.max_leases = 1000\n");
my $file = $p->data_dir . '/pg_stat/pgfairq.leases';

sub leases
{
	my ($node) = @_;

	return sql($node, "SELECT string_agg(queue || ' ' || id || ' ' || attempt, ', ' ORDER BY queue, id) FROM fairq.leases");
}

sub claimed
{
	my ($node, $queue) = @_;

	return sql($node, "SELECT receipt FROM fairq.claim('$queue')");
}

# Have a node follow another one.
sub follow
{
	my ($node, $primary) = @_;

	$node->enable_streaming($primary);
	$node->start;
	return;
}

sub logged
{
	my ($node, $what) = @_;

	return scalar(() = slurp_file($node->logfile) =~ /ignoring file .*pgfairq\.leases": $what/g);
}

sql($p, "SELECT fairq.create_queue(q, buckets => 1, lease => '2 h', backoff_base => '0', durable_leases => q = 'd') FROM (VALUES ('d'), ('e')) AS v (q)");
sql($p, "SELECT fairq.enqueue('d', '1'), fairq.enqueue('e', '1')");
$p->backup('b');
my $s = PostgreSQL::Test::Cluster->new('s');
$s->init_from_backup($p, 'b', has_streaming => 1);
$s->start;

# Over to the other one, and back
my $first = claimed($p, 'd');
my $of_e = claimed($p, 'e');
$p->wait_for_catchup($s, 'replay', $p->lsn('insert'));
$p->stop('fast');
ok(-e $file, 'switchover: the primary has left a file');
$s->promote;
is(leases($s), 'd 1 1, e 1 1', 'switchover: the leases have come along');
is(sql($s, "SELECT fairq.nack('$first', delay => '0')"), 't', 'switchover: it is settled there');
my $second = claimed($s, 'd');
is(sql($s, "SELECT fairq.nack('$of_e', delay => '0')"), 't', 'switchover: and the other one');
sql($s, "SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('e')") for 1 .. 2;

follow($p, $s);
ok(!-e $file, 'as a standby: the file is removed');
is(logged($p, 'the server is going to recover'), 1, 'as a standby: that is in the log');
$s->wait_for_catchup($p, 'replay', $s->lsn('insert'));
$s->stop('fast');
$p->promote;
is(leases($p), 'd 1 2', 'and back: there is the lease that was granted last, and no other');
is(sql($p, "SELECT fairq.ack('$first')"), 'f', 'and back: the receipt that was settled is void');
is(sql($p, "SELECT attempts FROM fairq.get_task('e', 1)"), 3, 'and back: attempts are those of the row');
is(sql($p, "SELECT attempt FROM fairq.claim('e')"), 4, 'and back: the task can be claimed');
is(sql($p, "SELECT fairq.ack('$second')"), 't', 'and back: the lease that was granted last is good');

# A file of the shutdown before
$p->stop('fast');
copy($file, "$file.old") or die "$file: $!";
$p->start;
is(leases($p), 'e 1 4', 'a restart keeps the lease');
$p->stop('fast');
move("$file.old", $file) or die "$file: $!";
$p->start;
is(logged($p, 'it was written at another shutdown'), 1, 'a file of another shutdown is ignored');
ok(!-e $file, 'and removed');
is(leases($p), '', 'no lease is taken from it');

# A copy of the data that was shut down, which is to recover
is(sql($p, "SELECT attempt FROM fairq.claim('e')"), 4, 'a lease once more');
$p->stop('fast');
$p->append_conf('postgresql.conf', "restore_command = 'false'\n");
$p->set_recovery_mode;
$p->start;
ok(wait_for_answer($p, 'SELECT NOT pg_is_in_recovery()'), 'recovered, to the end');
ok(!-e $file, 'the file is removed');
is(leases($p), '', 'no lease is taken from it');
is(logged($p, 'the server is going to recover'), 2, 'that is in the log');

# What a row says, and a file that knows better
my $crc_table;

sub crc32c
{
	my ($data) = @_;
	my $crc = 0xFFFFFFFF;

	$crc_table //= [
		map {
			my $c = $_;
			$c = $c & 1 ? ($c >> 1) ^ 0x82F63B78 : $c >> 1 for 1 .. 8;
			$c;
		} 0 .. 255
	];
	$crc = ($crc >> 8) ^ $crc_table->[ ($crc ^ $_) & 0xFF ] for unpack('C*', $data);
	return $crc ^ 0xFFFFFFFF;
}

sql($p, "SELECT fairq.purge('e'), fairq.enqueue('d', '2')");
my $receipt = claimed($p, 'd');
$p->stop('fast');
my $content = slurp_file($file, 0);
my $header = 48;
is( unpack('L', substr($content, $header - 4, 4)),
	crc32c(substr($content, $header)),
	'the file is as this test believes it to be');
# The token of the only lease, in a uuid's second half: another one.
substr($content, -56, 8) = pack('Q', unpack('Q', substr($content, -56, 8)) ^ 1);
substr($content, $header - 4, 4) = pack('L', crc32c(substr($content, $header)));
open my $out, '>:raw', $file or die "$file: $!";
print $out $content;
close $out;
$p->start;
ok(wait_for(sub { sql($p, "SELECT receipt FROM fairq.leases") eq $receipt }, 60),
	'a durable lease is what its row says')
  or diag("$receipt\n" . sql($p, 'SELECT * FROM fairq.leases'));
is(sql($p, "SELECT fairq.ack('$receipt')"), 't', 'its receipt is good');

# The row knows of more attempts than the lease
sql($p, "SELECT fairq.enqueue('e', '3')");
$receipt = claimed($p, 'e');
sql($p, "UPDATE fairq.q_e SET attempts = 7");
is(sql($p, "SELECT fairq.nack('$receipt', delay => '0')"), 't', 'nack');
is(sql($p, "SELECT attempts FROM fairq.tasks('e')"), 8, 'attempts that were counted are not forgotten');

$p->stop;
done_testing();
