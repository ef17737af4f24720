//go:build pgx4

package pgfairq_test

import (
	"database/sql"

	"github.com/jackc/pgx/v4/stdlib"
)

// By the name that examples give it.
func init() { sql.Register("postgres", stdlib.GetDefaultDriver()) }

const (
	driverName     = "pgx"
	pooledSettings = "statement_cache_mode=describe"
)
