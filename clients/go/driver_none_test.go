//go:build !pq && !pgx4

package pgfairq_test

// The module has no requirements, so what needs a driver is compiled with a tag for it:
// go test -tags pq, or pgx4. test/run does both.
const (
	driverName     = ""
	pooledSettings = ""
)
