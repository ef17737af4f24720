#!/usr/bin/env bash
# The suite readme of check.sh, on a server that is there for it: PGHOST and so on.
#
#   readme.sh PYTHON CHECKOUT
#
# Each page has a new database, app, so that what it shows can be tried with it
# alone. The workers of the pages mostly sleep, so they run beside the examples.
set -uo pipefail
python=$1
checkout=$2
scripts=$checkout/test/scripts
workers=$(mktemp)
status=0

# The libraries, where examples find them.
export PYTHONPATH=$checkout/clients/python
export FAIRQ_CHECKOUT=$checkout FAIRQ_NODE_MODULES=${NODE_PATH%%:*}
(
	. "$checkout/clients/node/test/build.sh"
	mkdir -p node_modules/pgfairq && cp -r package.json dist node_modules/pgfairq/
) || status=1

"$python" "$scripts/readme_workers.py" "$checkout" >"$workers" 2>&1 &

new_database() { # new_database [SQL]
	psql -X -q -d postgres -c "SET client_min_messages = warning" -c "DROP DATABASE IF EXISTS app WITH (FORCE)" \
		-c "DROP DATABASE IF EXISTS restored WITH (FORCE)" -c "CREATE DATABASE app" &&
		{ [ -z "${1:-}" ] || psql -X -q -c "$1"; }
}

# README.md begins before there is the extension.
new_database && "$python" "$scripts/readme_commands.py" "$checkout/README.md" || status=1
for page in "$checkout"/doc/*.md; do
	case $page in
	*/cluster.md) first= ;; # it makes its database a proxy
	*) first="CREATE EXTENSION pgfairq" ;;
	esac
	new_database "$first" && "$python" "$scripts/readme_commands.py" "$page" || status=1
done
"$python" "$scripts/readme_reference.py" "$checkout" || status=1
"$python" "$scripts/readme_figures.py" "$checkout" || status=1
"$python" "$scripts/readme_links.py" "$checkout" || status=1
wait $! || status=1
cat "$workers"
rm -f "$workers"
exit $status
