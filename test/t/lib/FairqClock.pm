# Servers whose wall clock a test can set (test/torture/clock.c): those that are started
# with the library $clock_library preloaded.

package FairqClock;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;

our @EXPORT = qw($clock_library set_clock start_with_clock);

my $dir = PostgreSQL::Test::Utils::tempdir();
my $source = __FILE__ =~ s{t/lib/[^/]*$}{torture/clock.c}r;

our $clock_library = "$dir/clock.so";
system_or_bail($ENV{CC} // 'cc', '-shared', '-fPIC', '-O', '-o', $clock_library, $source);
append_to_file("$dir/clock", pack('q', 0));
$ENV{TORTURE_CLOCK} = "$dir/clock";

# So many seconds ahead of the machine's.
sub set_clock
{
	my ($seconds) = @_;

	open my $out, '+<:raw', "$dir/clock" or die "$dir/clock: $!";
	syswrite $out, pack('q', $seconds);
	close $out;
	return;
}

sub start_with_clock
{
	my ($node) = @_;

	local $ENV{LD_PRELOAD} = $clock_library;
	$node->start;
	return;
}

1;
