//go:build pgx4

package pgfairq_test

import _ "github.com/jackc/pgx/v4/stdlib"

const (
	driverName     = "pgx"
	pooledSettings = "statement_cache_capacity=0 default_query_exec_mode=exec"
)
