#!/usr/bin/env bash
# make check-assert: the tests on a PostgreSQL with assertions, which is built
# from the distribution's source package. SUITES and PROVE_TESTS as in check.sh.
INSTRUMENT=assert exec "$(dirname "${BASH_SOURCE[0]}")/instrumented.sh"
