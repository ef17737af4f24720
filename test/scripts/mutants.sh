#!/usr/bin/env bash
# make mutants: plants small faults in copies of the sources and counts how many
# the tests find, see test/mutation/mutants.py.
#
#   SEED=n   which faults (1)
#   N=n      how many (60)
#   FROM=n   not those before this one (1)
#   JOBS=n   at a time (as many as processors)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SEED=${SEED:-1}
N=${N:-60}
FROM=${FROM:-1}
JOBS=${JOBS:-$(nproc)}
for number in "$N" "$FROM" "$JOBS"; do
	[[ $number =~ ^[1-9][0-9]*$ ]] || die "N, FROM and JOBS are numbers from 1 on, not '$number'"
done

"$CHECKOUT/test/scripts/prerequisites.sh" check
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"
export PG_CONFIG

running=
cleanup() {
	trap - EXIT INT TERM
	if [ -n "$running" ]; then
		kill "$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
	fi
	rm -rf "${WORK:-/nonexistent}"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
make_work_directory mutants
copy_tree "$WORK/tree"
chmod 0755 "$WORK"
# The bitcode takes half of a build's time, and no test needs it.
export BUILD=with_llvm=no
# So that only the changed file is compiled where the machine has a compiler cache.
if have ccache && [ -d /usr/lib/ccache ]; then
	export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=$WORK/ccache CCACHE_NOHASHDIR=1 CCACHE_UMASK=000
	mkdir -m 0777 "$CCACHE_DIR"
fi
JOBS=2 "$PYTHON" "$WORK/tree/test/mutation/mutants.py" "$WORK/tree" "$SEED" "$N" "$JOBS" "$FROM" &
running=$!
wait $running
