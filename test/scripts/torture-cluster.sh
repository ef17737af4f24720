#!/usr/bin/env bash
# make torture-cluster: faults of a cluster under load, one of each kind in a round, and a
# checker that compares what producers were told with the results: nothing is lost, and
# nothing is done twice. Prints the rounds of each kind.
#
#   ROUNDS=n          so many (100)
#   MINUTES=n         and so long at most (600)
#   FAULTS="kill …"   only these: nothing kill promote switch kill_proxy add_drain drain_kills
#                     lag restore stop_node stop_backends stop_walwriter drop_answers
#                     drop_all reset full_disk clock upgrade
#   LONGEST=s         how long a node is sick, at the most (10)
#   SEED=n            other choices
#   PLANT=ack-first, PLANT=unanswered, PLANT=unmarked
#                     a worker that acknowledges before it writes, a producer that takes
#                     what was not answered for enqueued, nodes that are not told that they
#                     are drained (FAULTS=lag), to see that it is found
#   OLD=commit        all servers begin with pgfairq as it was then, and are upgraded one
#                     after the other, each in the fault "upgrade": nodes, then proxies
#   BUILD="…"         variables for make when pgfairq is built
#
# Root makes a network namespace for it, where packets can be dropped. Without root, or
# without nft, the faults of the network are left out; the first lines say so.
set -euo pipefail
if [ "$(id -u)" -eq 0 ] && [ -z "${TORTURE_NETWORK:-}" ] && unshare --net true 2>/dev/null; then
	# While there is a network to install from.
	"$(dirname "${BASH_SOURCE[0]}")/prerequisites.sh" torture-cluster
	TORTURE_NETWORK=1 exec unshare --net -- "${BASH_SOURCE[0]}" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

read -ra build_variables <<<"${BUILD:-with_llvm=no}"
"$CHECKOUT/test/scripts/prerequisites.sh" torture-cluster
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
	rm -rf "${root:?}" "${tree:?}" "$WORK/old-root" "$WORK/old-tree"
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

# The tree, built into a server of its own.
build() {
	local tree=$1 root=$2
	make_private_server "$root"
	build_and_install "$tree" "$root" "${build_variables[@]}" >"$WORK/build.log" 2>&1 || { cat "$WORK/build.log"; die "it cannot be built"; }
}
old=()
if [ -n "${OLD:-}" ]; then
	as_test_user mkdir "$WORK/old-tree"
	git -C "$CHECKOUT" archive "$OLD" | as_test_user tar -x -f - -C "$WORK/old-tree"
	build "$WORK/old-tree" "$WORK/old-root"
	old=(--old-bindir "$BINDIR")
fi
copy_tree "$tree"
build "$tree" "$root"
as_test_user cc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$WORK/clock.so" "$tree/test/torture/clock.c"
as_test_user mkdir "$WORK/run"

# The right to change the namespace's network is all that is left of root's.
network=() may=(as_test_user)
PATH=$PATH:/usr/sbin:/sbin
if [ -n "${TORTURE_NETWORK:-}" ] && ip link set lo up && nft list ruleset >/dev/null 2>&1 && have setpriv; then
	network=(--network) right=+net_admin
	may=(env -i "PATH=$PATH" "HOME=$WORK" LANG=C.UTF-8 LC_ALL=C.UTF-8 setpriv --reuid "$TEST_USER" --regid "$(id -g "$TEST_USER")"
		--init-groups "--inh-caps=$right" "--ambient-caps=$right" --)
fi

say "PostgreSQL $("$PG_CONFIG" --version | cut -d ' ' -f 2), as user $TEST_USER, in $WORK"
status=0
(EXEC=yes "${may[@]}" "$PYTHON" -B "$tree/test/torture/cluster.py" --work "$WORK/run" --bindir "$BINDIR" \
	--clock "$WORK/clock.so" "${network[@]}" "${old[@]}" --longest "${LONGEST:-10}" --rounds "${ROUNDS:-100}" --seconds "$((${MINUTES:-600} * 60))" --seed "${SEED:-1}" ${FAULTS:+--faults "$FAULTS"} ${PLANT:+--plant "$PLANT"}) </dev/null &
running=$!
wait $running || status=$?
running=
exit $status
