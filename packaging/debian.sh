#!/usr/bin/env bash
# Builds the Debian packages: a source package, and a binary package for each version of
# the server that the system supports (postgresql-server-dev-all).
#
#   packaging/debian.sh DIRECTORY [DPKG-BUILDPACKAGE-OPTION...]
#
# The packages are in DIRECTORY then. -S: only the source package. With
# DEB_BUILD_OPTIONS=nocheck the tests of the build are left out.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 1 ] || die "usage: packaging/debian.sh DIRECTORY [DPKG-BUILDPACKAGE-OPTION...]"
mkdir -p "$1"
directory=$(cd "$1" && pwd)
shift
for program in dpkg-buildpackage dh pg_buildext; do
	have "$program" || die "there is no $program; as root: apt-get install dpkg-dev debhelper postgresql-server-dev-all"
done

release_tree "$directory"
tar -c --sort=name --owner=0 --group=0 --numeric-owner -C "$directory" "pgfairq-$VERSION" |
	xz -T0 >"$directory/pgfairq_$VERSION.orig.tar.xz"
cp -R "$CHECKOUT/packaging/debian" "$TREE/debian"
cd "$TREE"
pg_buildext updatecontrol
DEB_BUILD_OPTIONS="parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage --no-sign "$@"
