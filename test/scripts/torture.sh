#!/usr/bin/env bash
# make torture: random faults under load for an hour, and a checker that proves
# from what clients wrote down and from the tables that nothing was lost and
# nothing done twice. It asks the engine nothing. Prints the faults by kind.
#
#   FAULTS=n     so many faults
#   MINUTES=n    so long at most (60)
#   UPGRADE_CONFIG=FILE
#                pg_config of a server of a later version, for pg_upgrade; else the
#                newest of Debian's that is installed beside
#   SEED=n       the same choice of faults again; the last line says which it was
#   ONLY=text    only faults with this in their name
#   BUT=text     no faults with this in their name
#   PLANT=loss, PLANT=doubling
#                does that, behind everybody's back, to see that it is found
#   VERBOSE=1    a line for each fault
#   BUILD="…"    variables for make when pgfairq is built
#
# Root mounts two small disks, in a namespace of its own, to fill them. Without
# root the faults that need them are left out; the table says so.
set -euo pipefail
if [ "$(id -u)" -eq 0 ] && [ -z "${TORTURE_MOUNTS:-}" ] && unshare --mount true 2>/dev/null; then
	TORTURE_MOUNTS=1 exec unshare --mount -- "${BASH_SOURCE[0]}" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/load.sh"
prepare torture

# A later version, to upgrade to.
if [ -z "${UPGRADE_CONFIG:-}" ]; then
	for major in $(seq $NEWEST_SUPPORTED -1 $(($(pg_major "$PG_CONFIG") + 1))); do
		candidate=/usr/lib/postgresql/$major/bin/pg_config
		if complete_server "$candidate" 2>/dev/null; then
			UPGRADE_CONFIG=$candidate
			break
		fi
	done
fi
newer=()
if [ -n "${UPGRADE_CONFIG:-}" ]; then
	this=$PG_CONFIG bindir=$BINDIR
	PG_CONFIG=$UPGRADE_CONFIG
	copy_tree "$tree-newer"
	build "$tree-newer" "$root-newer"
	newer=(--newer-bindir "$BINDIR")
	PG_CONFIG=$this BINDIR=$bindir
fi

disks=()
if [ -n "${TORTURE_MOUNTS:-}" ]; then
	for disk in wal space; do
		as_test_user mkdir "$WORK/$disk"
		mount -t tmpfs -o "size=256m,mode=0700,uid=$(id -u "$TEST_USER"),gid=$(id -g "$TEST_USER")" torture "$WORK/$disk" || break
		disks+=("--$disk=$WORK/$disk")
	done
	[ ${#disks[@]} -eq 2 ] || disks=()
fi

drive torture/torture.py "${disks[@]}" "${newer[@]}" --faults "${FAULTS:-0}" --minutes "${MINUTES:-60}" --only "${ONLY:-}" --but "${BUT:-}"
