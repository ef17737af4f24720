//go:build go1.21

package pgfairq_test

import (
	"log/slog"

	"pgfairq"
)

var _ pgfairq.Logger = (*slog.Logger)(nil)
