// A module of its own, so that the library's has no requirements. lib/pq is that of Debian.
module pgfairq/bench

go 1.19

require (
	github.com/lib/pq v1.10.7
	pgfairq v0.3.0
)

replace (
	github.com/lib/pq => /usr/share/gocode/src/github.com/lib/pq
	pgfairq => ../../../../clients/go
)
