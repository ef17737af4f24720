#!/usr/bin/env bash
# make bench: installs what is missing, builds pgfairq into a copy of the
# installed PostgreSQL and takes the measurements of test/bench/run.sh there,
# which explains the arguments.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$CHECKOUT/test/scripts/prerequisites.sh" bench
BUILD=1 exec "$CHECKOUT/test/bench/run.sh" ${QUICK:+quick} "$@"
