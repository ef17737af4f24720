#!/usr/bin/env bash
# What check-assert.sh, check-asan.sh and check-valgrind.sh share: make check
# on a server that is built for it, with INSTRUMENT. Not all suites: those that
# run code of the server, strangers' among them, and of the TAP tests those with
# many processes or with faults.
#
#   MAJOR=17       on this version, not that of the machine's server
#   PROVE_TESTS=…  these TAP tests instead
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/server_build.sh"

export INSTRUMENT SUITES=${SUITES:-regress isolation tap hostile}
# Those that have clients side by side say so by what they use, those with faults by their name.
export PROVE_TESTS=${PROVE_TESTS-$(cd "$CHECKOUT" && { ls test/t/faults_*.pl && grep -lE 'pgbench|python_program|FaultLoad' test/t/*.pl; } | sort -u | tr '\n' ' ')}
export BUILD="with_llvm=no ${BUILD:-}"

# Everything takes longer by about this factor, and so may wait that much longer.
case $INSTRUMENT in
valgrind) SLOWER=${SLOWER:-20} ;;
*) SLOWER=${SLOWER:-3} ;;
esac
export SLOWER PG_TEST_TIMEOUT_DEFAULT=$((180 * SLOWER)) PGCTLTIMEOUT=$((60 * SLOWER))

"$CHECKOUT/test/scripts/prerequisites.sh" "check-$INSTRUMENT"
if [ -z "${MAJOR:-}" ]; then
	find_pg_config || die "no usable PostgreSQL"
	MAJOR=$(pg_major "$PG_CONFIG")
fi
server_build "$INSTRUMENT" "$MAJOR"
server_take_plproxy "$MAJOR"
export PG_CONFIG
exec "$CHECKOUT/test/scripts/check.sh"
