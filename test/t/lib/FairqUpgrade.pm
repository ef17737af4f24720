# What the TAP tests of updates share: earlier versions beside the one under test, and
# whether an updated database is what a new one is.

package FairqUpgrade;

use strict;
use warnings;

use Exporter 'import';
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  old_file
  have_version
  same_catalog
);

my $old_files = __FILE__ =~ s{t/lib/[^/]*$}{upgrade}r;

# The path of a file of test/upgrade.
sub old_file
{
	my ($name) = @_;

	return "$old_files/$name";
}

# Put the install script of an earlier version where the server looks for it. The test is
# skipped where it may not be written. A script that names no library has all functions in
# that of a node, a proxy's, too.
sub have_version
{
	my ($extension, $version) = @_;

	chomp(my $sharedir = `pg_config --sharedir`);
	my $installed = "$sharedir/extension/$extension--$version.sql";
	if (!-e $installed)
	{
		my $script = slurp_file(old_file("$extension--$version.sql"));

		$script =~ s{'MODULE_PATHNAME'}{'\$libdir/pgfairq'}g unless $script =~ m{'\$libdir/pgfairq'};
		open my $file, '>', $installed or plan skip_all => "cannot write $installed: $!";
		print $file $script;
		close $file or die "cannot write $installed: $!";
	}
	return;
}

# Tests: the extension is the same in two databases, to the last comment and
# privilege. Each has a queue "mail" that keeps done tasks, or is a proxy.
sub same_catalog
{
	my ($node, $extension, $fresh_db, $updated_db, $name) = @_;
	my $catalog = sub {
		return split /\n/, sql($node, "\\set extension $extension\n" . slurp_file(old_file('catalog.sql')), $_[0]);
	};
	my @fresh = $catalog->($fresh_db);
	my @updated = $catalog->($updated_db);
	my %lines_of_fresh = map { $_ => 1 } @fresh;
	my %lines_of_updated = map { $_ => 1 } @updated;

	cmp_ok(scalar(@fresh), '>', 500, "$name: the catalog of a new database");
	is(join("\n", grep { !$lines_of_updated{$_} } @fresh), '', "$name: the updated one lacks nothing");
	is(join("\n", grep { !$lines_of_fresh{$_} } @updated), '', "$name: and has nothing else");
	is(join("\n", @updated), join("\n", @fresh), "$name: in the same order");
	return;
}

1;
