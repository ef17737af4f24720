#!/usr/bin/env bash
# build.sh PROGRAM: compiles the subject, with the library beside it and lib/pq of Debian.
set -euo pipefail
cd "$(dirname "$0")"
export GO111MODULE=on GOFLAGS=-mod=mod GOPROXY=off GOCACHE=${GOCACHE:-$TMPDIR/gocache} GOPATH=$TMPDIR/modules
exec go build -o "$1" .
