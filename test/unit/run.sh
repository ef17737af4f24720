#!/bin/sh
# Builds and runs the unit tests, which need the server's headers but no
# server, and looks how the sources are built (house.py) and laid out
# (indent.sh), what SQL clients send (clients.py), how results are counted (results.sh), and for names in words that lead
# nowhere (names.py); prints TAP. PG_CONFIG chooses the server.
#
# To see the layout fail: put two spaces where there is one.
set -eu

cd "$(dirname "$0")/../.."
pg_config=${PG_CONFIG:-pg_config}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

# What only the server could resolve is in functions that are left out.
$("$pg_config" --cc) -O1 -g -Wall -Wextra -Wno-unused-parameter -fwrapv \
	-ffunction-sections -fdata-sections -Wl,--gc-sections \
	-Isrc -I"$("$pg_config" --includedir-server)" \
	-o "$build/arithmetic" \
	test/unit/arithmetic.c src/common/address.c src/common/group_id.c src/common/virtual_time.c -lm
status=0
"$build/arithmetic" || status=1
"${FAIRQ_PYTHON:-python3}" test/unit/house.py . || status=1
"${FAIRQ_PYTHON:-python3}" test/unit/clients.py . || status=1
PG_CONFIG="$pg_config" PYTHONDONTWRITEBYTECODE=1 "${FAIRQ_PYTHON:-python3}" test/unit/names.py . || status=1
test/unit/results.sh || status=1

if test/scripts/indent.sh --check >"$build/diff" 2>"$build/why"; then
	echo "ok 1 - the sources are laid out as make indent does"
elif [ $? -eq 2 ]; then
	echo "ok 1 - the sources are laid out as make indent does # skip $(tail -n 1 "$build/why")"
else
	status=1
	echo "not ok 1 - the sources are laid out as make indent does"
	sed 's/^/# /' "$build/diff" "$build/why"
fi
echo 1..1
exit $status
