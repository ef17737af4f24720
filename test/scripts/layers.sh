#!/usr/bin/env bash
# Calls in src go down the folders, never up, and never round in a circle.
#
#   layers.sh TREE     TREE has been built
#
# An include of a folder above is refused, and so is a call, by what the object
# files define and need: between folders against the order below, and within one
# where files call each other in a circle.
set -euo pipefail
cd "$1"
order="common shmem xact storage verbs maintenance worker sql"
bad=0

rank() {
	awk -v order="$order" '
		BEGIN { n = split(order, name, " "); for (i = 1; i <= n; i++) rank[name[i]] = i }
		function of(path,    part) { split(path, part, "/"); return part[2] in rank ? rank[part[2]] : n + 1 }
		of($2) > of($1) { print "runs up: " $1 " -> " $2; found = 1 }
		END { exit found }'
}

includes=$(grep -o '^#include "[^"]*"' -r src --include='*.[ch]' |
	sed 's/:#include "/ src\//; s/"$//' |
	while read -r from to; do
		# What is not below src is the server's.
		if [ -f "$to" ]; then echo "$from $to"; fi
	done)
rank <<<"$includes" || bad=1

calls=$(nm -A $(find src -name '*.o') | awk '
	{ file = $1; sub(/:.*/, "", file); symbol = $NF; kind = $(NF - 1) }
	kind ~ /^[TDBRC]$/ { defined[symbol] = file }
	kind == "U" { needs[file " " symbol] }
	END { for (i in needs) { split(i, n, " "); if (n[2] in defined) print n[1], defined[n[2]] } }' | sort -u)
[ -n "$calls" ] || { echo "nothing was built in $1" >&2; exit 1; }
rank <<<"$calls" || bad=1
if ! tsort <<<"$calls" >/dev/null; then
	bad=1
fi

[ $bad = 0 ] && echo "layers: $(wc -l <<<"$includes") includes and $(wc -l <<<"$calls") calls between files go down, no circle"
exit $bad
