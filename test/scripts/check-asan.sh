#!/usr/bin/env bash
# make check-asan: the tests with gcc's address and undefined-behaviour
# sanitizers in pgfairq, on a PostgreSQL with assertions that tells the sanitizer
# what of its memory is allocated. SUITES and PROVE_TESTS as in check.sh.
#
# The server is built with -fwrapv, under which integers may overflow; so is
# pgfairq, and that is not looked for.
INSTRUMENT=asan COPT="-O1 -g -fsanitize=address,undefined,float-cast-overflow -fno-omit-frame-pointer" \
	exec "$(dirname "${BASH_SOURCE[0]}")/instrumented.sh"
