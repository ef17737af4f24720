#!/usr/bin/env bash
# make check-versions: make check on each supported version of PostgreSQL, in a
# Debian of its own, and one table of what has passed and failed.
#
#   VERSIONS="17 18"   only these (15 16 17 18)
#   SOURCE_16=FILE     PostgreSQL 16's source, postgresql-16.*.tar.*
#   SUITES, PROVE_TESTS, JOBS, LANES, SLOWER, BUILD   as in check.sh
#
# Each version comes from the Debian suite that has it, as debootstrap makes it
# from the machine's own mirror (chroot.sh). No suite has
# 16, so that is built from source if there is any. The chroots are kept in
# $CACHE, and no package of the machine's is touched. Only root may make them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/server_build.sh"
. "$(dirname "${BASH_SOURCE[0]}")/chroot.sh"

VERSIONS=${VERSIONS:-15 16 17 18}
for version in $VERSIONS; do
	case $version in
	15 | 16 | 17 | 18) ;;
	*) die "there is no version '$version', only 15, 16, 17 and 18" ;;
	esac
done
if [ -n "${SOURCE_16:-}" ]; then
	[ -f "$SOURCE_16" ] || die "there is no file SOURCE_16=$SOURCE_16"
	found=$(tar -x -O -f "$SOURCE_16" --wildcards --no-wildcards-match-slash '*/configure' 2>/dev/null |
		sed -n "s/^PACKAGE_VERSION='\(.*\)'$/\1/p" || true)
	case $found in
	16 | 16[!0-9]*) ;;
	*) die "SOURCE_16=$SOURCE_16 is not a tar file of PostgreSQL 16's source${found:+, but of $found}" ;;
	esac
fi
if [ "$(id -u)" -ne 0 ]; then
	have sudo || die "only root can make chroots, and there is no sudo"
	exec sudo --preserve-env=VERSIONS,SOURCE_16,SUITES,PROVE_TESTS,JOBS,LANES,SLOWER,BUILD,CI "${BASH_SOURCE[0]}"
fi
"$CHECKOUT/test/scripts/prerequisites.sh" check-versions
LOGS=$(mktemp -d /tmp/pgfairq-versions.XXXXXX)

# --- one version ----------------------------------------------------------------

# Builds PostgreSQL 16 in the chroot, below /opt, with the pgTAP of 15: that is
# SQL only.
build_16() {
	local log=$LOGS/build-16.log
	cp "$SOURCE_16" "$ROOT/root/source-16"
	in_chroot bash -c '
		set -e
		[ ! -f /opt/16/complete ] || ! cmp -s /root/source-16 /opt/16/source || exit 0
		rm -rf /opt/16 /root/build-16
		apt-get -q update
		apt-get -q -y install --no-install-recommends build-essential bison flex perl libipc-run-perl \
			bzip2 xz-utils zlib1g-dev postgresql-15-pgtap
		mkdir /root/build-16
		tar -x -f /root/source-16 -C /root/build-16 --strip-components=1
		cd /root/build-16
		./configure --prefix=/opt/16 --enable-tap-tests --without-readline --without-icu
		make -s -j"$(nproc)"
		make -s install
		make -s -C contrib/amcheck
		make -s -C contrib/amcheck install
		cp /usr/share/postgresql/15/extension/pgtap* "$(/opt/16/bin/pg_config --sharedir)/extension/"
		cp /root/source-16 /opt/16/source
		rm -rf /root/build-16
		: >/opt/16/complete' </dev/null >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
}

# check_version VERSION: the output of check.sh goes to a log, too.
check_version() {
	local version=$1 config=/usr/lib/postgresql/$1/bin/pg_config
	if [ "$version" = 16 ] && [ -z "${SOURCE_16:-}" ]; then
		say "No Debian suite has PostgreSQL 16; SOURCE_16=postgresql-16.N.tar.bz2 would have it built."
		return 0
	fi
	chroot_make "$(debian_suite "$version")" || return
	if [ "$version" = 16 ]; then
		build_16 || return
		config=/opt/16/bin/pg_config
	fi
	rm -rf "$ROOT/root/pgfairq"
	mkdir "$ROOT/root/pgfairq"
	(pack_tree) | tar -x -f - --no-same-owner -C "$ROOT/root/pgfairq"
	in_chroot CI=true PG_CONFIG="$config" ${SUITES:+SUITES="$SUITES"} ${PROVE_TESTS:+PROVE_TESTS="$PROVE_TESTS"} \
		${JOBS:+JOBS="$JOBS"} ${LANES:+LANES="$LANES"} ${SLOWER:+SLOWER="$SLOWER"} \
		BUILD="${BUILD:-}" /root/pgfairq/test/scripts/check.sh </dev/null 2>&1 | tee "$LOGS/check-$version.log"
}

for version in $VERSIONS; do
	printf '\n##### PostgreSQL %s\n\n' "$version"
	check_version "$version" || say "PostgreSQL $version: failed"
done

# --- the table --------------------------------------------------------------------

# A cell is what passed, or "passed/failed"; "-" for what was not run.
printf '\n'
# shellcheck disable=SC2086
perl - "$LOGS" $VERSIONS <<'PERL'
use strict;
my ($logs, @versions) = @ARGV;
my (@columns, %seen, @rows);
my $bad = 0;

foreach my $version (@versions)
{
	my %row = (name => $version, seconds => '-');
	my ($summary, $ended, $failures) = (0, 0, 0);
	if (open my $log, '<', "$logs/check-$version.log")
	{
		while (<$log>)
		{
			$row{name} = $1 if /^PostgreSQL (\S+) of /;
			($summary, $row{seconds}) = (1, $1) if /^=== summary \((\d+) s\)/;
			$ended = 1 if $summary && /^\d+ passed, \d+ failed, \d+ skipped$/;
			next unless $summary && /^(\S+).*? (\d+) passed +(\d+) failed/;
			push @columns, $1 unless $seen{$1}++;
			$row{passed}{$1} += $2;
			$row{failed}{$1} += $3;
			$failures += $3;
		}
		$row{name} .= ' (broke off)' unless $ended;
		$bad++ if !$ended || $failures;
	}
	elsif ($version == 16 && !$ENV{SOURCE_16})
	{
		$row{name} .= ' (no source)';
	}
	else
	{
		$row{name} .= ' (not run)';
		$bad++;
	}
	push @rows, \%row;
}
my $format = "%-20s" . " %10s" x @columns . " %8s\n";
printf $format, 'PostgreSQL', @columns, 'seconds';
foreach my $row (@rows)
{
	my @cells = map {
		my ($passed, $failed) = ($row->{passed}{$_}, $row->{failed}{$_});
		!defined $passed ? '-' : $failed ? "$passed/$failed" : $passed
	} @columns;
	printf $format, $row->{name}, @cells, $row->{seconds};
}
print "The logs are in $logs.\n";
exit($bad != 0);
PERL
