#!/usr/bin/env bash
# make torture-cluster: faults of a cluster under load, one of each kind in a round, and a
# checker that compares what producers were told with the results: nothing is lost, and
# nothing is done twice. Prints the rounds of each kind.
#
#   ROUNDS=n          so many (100)
#   MINUTES=n         and so long at most (600)
#   FAULTS="kill …"   only these: kill promote switch kill_proxy add_drain
#   SEED=n            other choices
#   PLANT=ack-first, PLANT=unanswered
#                     a worker that acknowledges before it writes, a producer that takes
#                     what was not answered for enqueued, to see that it is found
#   BUILD="…"         variables for make when pgfairq is built
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

read -ra build_variables <<<"${BUILD:-with_llvm=no}"
"$CHECKOUT/test/scripts/prerequisites.sh" cluster
find_test_user
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"

running=
cleanup() {
	local status=$?
	trap - EXIT INT TERM
	if [ -n "$running" ]; then
		kill "$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
	fi
	cd /
	stop_clusters_below "$WORK" # of a run that was killed itself
	rm -rf "${root:?}" "${tree:?}"
	if [ $status -ne 0 ] && [ -d "$WORK/run" ]; then
		warn "The data and the servers' logs are in $WORK/run, which may be deleted."
	else
		rm -rf "$WORK"
	fi
	exit $status
}
make_work_directory torture
tree=$WORK/tree root=$WORK/root
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

copy_tree "$tree"
make_private_server "$root"
build_and_install "$tree" "$root" "${build_variables[@]}" >"$WORK/build.log" 2>&1 || { cat "$WORK/build.log"; die "it cannot be built"; }
as_test_user mkdir "$WORK/run"

say "PostgreSQL $("$PG_CONFIG" --version | cut -d ' ' -f 2), as user $TEST_USER, in $WORK"
status=0
(EXEC=yes as_test_user "$PYTHON" -B "$tree/test/torture/cluster.py" --work "$WORK/run" --bindir "$BINDIR" \
	--rounds "${ROUNDS:-100}" --seconds "$((${MINUTES:-600} * 60))" --seed "${SEED:-1}" ${FAULTS:+--faults "$FAULTS"} ${PLANT:+--plant "$PLANT"}) </dev/null &
running=$!
wait $running || status=$?
running=
exit $status
