#!/usr/bin/env bash
# make check-valgrind: the tests with the server under valgrind, a PostgreSQL
# with assertions that tells valgrind what of its memory is allocated. It takes
# hours. SUITES and PROVE_TESTS as in check.sh.
INSTRUMENT=valgrind exec "$(dirname "${BASH_SOURCE[0]}")/instrumented.sh"
