#!/usr/bin/env bash
# make dist: every archive of a release, from the last commit.
#
#   packaging/dist.sh [DIRECTORY]    (default: dist/ of the checkout)
#
#   pgfairq-VERSION.zip                  for PGXN
#   pgfairq_VERSION*.{dsc,tar.xz,…}      the Debian source package
#   pgfairq-VERSION*.{whl,tar.gz}        for PyPI
#   pgfairq-VERSION.tgz                  for npm
#   activejob-fairq-VERSION.gem          for RubyGems
#   SHA256SUMS
#
# Changes that are not committed are refused: a release is what a tag names.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A suite of make check has what it needs.
[ -n "${FAIRQ_CHECKOUT:-}" ] || SUITES=packaging "$CHECKOUT/test/scripts/prerequisites.sh" check
find_pg_config || die "no usable PostgreSQL"
"$CHECKOUT/packaging/versions.py" "$CHECKOUT" || die "these have to name one version: packaging/versions.py says which do not"
if git -c safe.directory='*' -C "$CHECKOUT" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	changes=$(git -c safe.directory='*' -C "$CHECKOUT" status --porcelain)
	[ -z "$changes" ] || die "there are changes that are not committed; commit or stash them:"$'\n'"$changes"
fi

mkdir -p "${1:-$CHECKOUT/dist}"
DIST=$(cd "${1:-$CHECKOUT/dist}" && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/pgfairq-dist.XXXXXX")
trap 'cd /; rm -rf "$WORK"' EXIT

# The install scripts are put together by make, and META.json names them.
pgxn_archive() {
	release_tree "$WORK/pgxn"
	make -s -C "$TREE" PG_CONFIG="$PG_CONFIG" "sql/pgfairq--$VERSION.sql" "sql/pgfairq_cluster--$VERSION.sql"
	rm -f "$DIST/pgfairq-$VERSION.zip"
	(cd "$WORK/pgxn" && find "pgfairq-$VERSION" | LC_ALL=C sort | zip -q -X "$DIST/pgfairq-$VERSION.zip" -@)
}

debian_source() {
	"$CHECKOUT/packaging/debian.sh" "$WORK/debian" -S -d
	cp "$WORK"/debian/pgfairq_* "$DIST/"
}

python_archives() {
	(cd "$TREE/clients/python" && "${FAIRQ_PYTHON:-/usr/bin/python3}" -m build --no-isolation --outdir "$DIST" .)
}

node_archive() {
	ln -s "${FAIRQ_NODE_MODULES:-$NODE_PACKAGES}" "$TREE/clients/node/node_modules"
	(cd "$TREE/clients/node" && npm pack --pack-destination "$DIST")
}

ruby_archive() {
	local specification
	for specification in "$TREE"/clients/ruby/*.gemspec; do
		(cd "$TREE/clients/ruby" && gem build "$specification" --output "$DIST/$(basename "$specification" .gemspec)-$VERSION.gem")
	done
}

# archive NAME FUNCTION: what it says is shown if it fails.
archive() {
	say "$1"
	"$2" >"$WORK/log" 2>&1 || { cat "$WORK/log" >&2; die "the archive could not be made: $1"; }
}

archive "PGXN" pgxn_archive
archive "Debian source package" debian_source
release_tree "$WORK/clients"
[ ! -f "$TREE/clients/python/pyproject.toml" ] || archive "Python" python_archives
[ ! -f "$TREE/clients/node/package.json" ] || archive "Node.js" node_archive
! compgen -G "$TREE/clients/ruby/*.gemspec" >/dev/null || archive "Ruby" ruby_archive
(cd "$DIST" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
say "In $DIST:"
(cd "$DIST" && ls -l | tail -n +2 | awk '{ printf "  %10d  %s\n", $5, $9 }')
