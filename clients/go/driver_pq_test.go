//go:build pq

package pgfairq_test

import _ "github.com/lib/pq"

const (
	driverName = "postgres"

	// A statement with parameters is one message then, which a pooler leaves together.
	pooledSettings = "binary_parameters=yes"
)
