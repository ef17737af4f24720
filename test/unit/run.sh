#!/bin/sh
# Builds and runs the unit tests, which need the server's headers but no
# server, and looks how the sources are built (house.py); prints TAP.
# PG_CONFIG chooses the server.
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
	test/unit/arithmetic.c src/common/address.c src/common/virtual_time.c -lm
status=0
"$build/arithmetic" || status=1
"${FAIRQ_PYTHON:-python3}" test/unit/house.py . || status=1
exit $status
