# What the scripts of packaging/ share; sourced.
. "$(dirname "${BASH_SOURCE[0]}")/../test/scripts/common.sh"

# The version of a release: META.json's. versions.py sees that it is that of all.
VERSION=$(sed -n '1,/"provides"/s/^\t"version": "\([^"]*\)",$/\1/p' "$CHECKOUT/META.json")
[ -n "$VERSION" ] || die "META.json has no version"

# When the release was made: of the last commit, so that two builds of it are alike.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' -C "$CHECKOUT" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# Writes the tree, without what is built, below a new directory pgfairq-VERSION of
# DIRECTORY, and sets TREE to that.
release_tree() { # release_tree DIRECTORY
	TREE=$1/pgfairq-$VERSION
	rm -rf "$TREE"
	mkdir -p "$TREE"
	(pack_tree) | tar -x --no-same-owner -C "$TREE" -f - || die "the tree could not be copied to $TREE"
	# A copy that is no git checkout may have been built.
	rm -rf "$TREE"/sql/pgfairq--"$VERSION".sql "$TREE"/sql/pgfairq_cluster--"$VERSION".sql "$TREE"/sql/*.tmp "$TREE"/dist
	rm -rf "$TREE/clients/node/node_modules" "$TREE/clients/node/dist"
	find "$TREE" -name __pycache__ -prune -exec rm -rf {} +
	find "$TREE" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
