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
#   VERBOSE=1         a line for each fault
#   BUILD="…"         variables for make when pgfairq is built
#
# Root makes a network namespace for it, where packets can be dropped. Without root, or
# without nft, the faults of the network are left out; the table says so.
set -euo pipefail
if [ "$(id -u)" -eq 0 ] && [ -z "${TORTURE_NETWORK:-}" ] && unshare --net true 2>/dev/null; then
	# While there is a network to install from.
	"$(dirname "${BASH_SOURCE[0]}")/prerequisites.sh" torture-cluster
	TORTURE_NETWORK=1 exec unshare --net -- "${BASH_SOURCE[0]}" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/load.sh"
prepare torture-cluster

old=()
if [ -n "${OLD:-}" ]; then
	bindir=$BINDIR
	as_test_user mkdir "$tree-old"
	git -C "$CHECKOUT" archive "$OLD" | as_test_user tar -x -f - -C "$tree-old"
	build "$tree-old" "$root-old"
	old=(--old-bindir "$BINDIR")
	BINDIR=$bindir
fi

# The right to change the namespace's network is all that is left of root's.
network=()
PATH=$PATH:/usr/sbin:/sbin
if [ -n "${TORTURE_NETWORK:-}" ] && ip link set lo up && nft list ruleset >/dev/null 2>&1 && have setpriv; then
	network=(--network) right=+net_admin
	may=(env -i "PATH=$PATH" "HOME=$WORK" LANG=C.UTF-8 LC_ALL=C.UTF-8 setpriv --reuid "$TEST_USER" --regid "$(id -g "$TEST_USER")"
		--init-groups "--inh-caps=$right" "--ambient-caps=$right" --)
fi

drive torture/cluster.py "${network[@]}" "${old[@]}" --longest "${LONGEST:-10}" --rounds "${ROUNDS:-100}" --seconds "$((${MINUTES:-600} * 60))" \
	${FAULTS:+--faults "$FAULTS"}
