#!/usr/bin/env bash
# make bench-clients: installs what is missing, builds pgfairq into a copy of
# the installed PostgreSQL and takes the measurements of test/bench/libraries.sh
# there, which says what they are.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$CHECKOUT/test/scripts/prerequisites.sh" bench-clients
BUILD=1 exec "$CHECKOUT/test/bench/libraries.sh" "$@"
