#!/usr/bin/env bash
# make mutants: plants small faults in copies of the sources and counts how many
# the tests find, see test/mutation/mutants.py.
#
#   SEED=n   which faults (1)
#   N=n      how many (60)
#   FILES="turn limit"
#            only in sources whose names begin so
#   ONLY="n…" of these only those with these numbers
#   JOBS=n   at a time (as many as processors)
#   SLOWER=3 tests may take that much longer
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SEED=${SEED:-1}
N=${N:-60}
ONLY=${ONLY:-}
JOBS=${JOBS:-$(nproc)}
for number in "$N" "$JOBS" $ONLY; do
	[[ $number =~ ^[1-9][0-9]*$ ]] || die "N, JOBS and those of ONLY are numbers from 1 on, not '$number'"
done

"$CHECKOUT/test/scripts/prerequisites.sh" check
find_test_user
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
	if [ -n "${BINDIR:-}" ]; then
		stop_clusters_below "$WORK"
	fi
	rm -rf "${WORK:-/nonexistent}"
}
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
make_work_directory mutants
# So that only what is changed is compiled where the machine has a compiler cache.
if have ccache && [ -d /usr/lib/ccache ]; then
	export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=${CCACHE_DIR:-$WORK/ccache} CCACHE_NOHASHDIR=1 CCACHE_UMASK=000
	mkdir -m 0777 "$CCACHE_DIR" 2>/dev/null || true
fi
# The bitcode takes half of a build's time, and no test needs it.
for place in $(seq "$JOBS"); do
	as_test_user mkdir "$WORK/$place"
	if [ "$place" = 1 ]; then
		copy_tree "$WORK/1/tree"
	else
		as_test_user cp -a "$WORK/1/tree" "$WORK/$place/"
	fi
	make_private_server "$WORK/$place/root"
	build_and_install "$WORK/$place/tree" "$WORK/$place/root" with_llvm=no >"$WORK/build.log" 2>&1 || die "$(cat "$WORK/build.log")"
done
(EXEC=yes as_test_user env FAIRQ_PYTHON="$PYTHON" "$PYTHON" "$WORK/1/tree/test/mutation/mutants.py" "$WORK" "$SEED" "$N" "$JOBS" $ONLY) &
running=$!
wait $running
