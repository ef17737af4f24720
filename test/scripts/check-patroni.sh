#!/usr/bin/env bash
# make check-patroni: two servers under Patroni, with etcd, configured as
# doc/high-availability.md shows, and clients that see nothing of it but lost
# connections. In each round, in random order: the primary's postmaster is killed;
# it and its Patroni; the same after replication has stalled; and a switchover and
# another one back, each standby restarted before, as for an upgrade. In the end
# each task whose enqueue committed has one result. The blocks of the page are what
# the test runs with; other are only hosts, ports, directories and passwords.
#
#   ROUNDS=n     so many (5, about 20 minutes)
#   SEED=n       the same order of faults again
#   VERBOSE=1    a line for each fault
#   BUILD="…"    variables for make when pgfairq is built
#   PLANT=apart         workers that acknowledge outside of the result's transaction
#   PLANT=asynchronous  synchronous_mode off
#                Both to see the test fail: with the first tasks had two results,
#                with the second answered enqueues and acks were lost.
#
# It is not part of make check, for the time that it takes and for what it installs:
# Debian's patroni and etcd-server, whose services are not started.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/load.sh"
prepare check-patroni
say "$(patroni --version)"
drive patroni/failovers.py --page "$tree/doc/high-availability.md" --rounds "${ROUNDS:-5}"
