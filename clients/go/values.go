package pgfairq

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DBTX is what the statements of a [Client] are sent with: a *sql.DB, a *sql.Tx or a
// *sql.Conn.
type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Ptr returns a pointer to a copy of a value, for options whose zero has a meaning of
// its own, as in EnqueueOpts{Priority: pgfairq.Ptr(0)}.
func Ptr[T any](value T) *T { return &value }

// Arguments are sent as texts that the server's functions take, with casts, or as nil.
// So it does not matter which types a driver knows.

// interval returns a duration as PostgreSQL reads it.
func interval(d time.Duration) string {
	return fmt.Sprintf("%d.%06d s", d/time.Second, d%time.Second/time.Microsecond)
}

// milliseconds returns a duration as the settings of a server have it.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// optionalInterval returns nil for 0, which stands for what is not given.
func optionalInterval(what string, d time.Duration) (any, error) {
	switch {
	case d < 0:
		return nil, fmt.Errorf("pgfairq: %s is %s; give a duration above zero, or leave it out", what, d)
	case d == 0:
		return nil, nil
	case d < time.Microsecond:
		d = time.Microsecond // the shortest that the server knows
	}
	return interval(d), nil
}

// checkDelay returns an error for what is no delay; 0 is one.
func checkDelay(what string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("pgfairq: %s is %s; give a duration from zero on", what, d)
	}
	return nil
}

func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
}

// optional returns nil for a zero, which stands for what is not given.
func optional[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return fmt.Sprint(value)
}

func optionalPointer[T any](value *T) any {
	if value == nil {
		return nil
	}
	return fmt.Sprint(*value)
}

// limit returns nil for 0, which stands for what is not given, and 0 for NoLimit.
func limit(what string, n int64) (any, error) {
	switch {
	case n == NoLimit:
		return "0", nil
	case n < 0:
		return nil, fmt.Errorf("pgfairq: %s is %d; give a number above zero, or NoLimit", what, n)
	}
	return optional(n), nil
}

func optionalHeaders(headers map[string]any) (any, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	return jsonText("Headers", headers)
}

// A checker keeps the first mistake in what is given.
type checker struct{ err error }

func (c *checker) check(value any, err error) any {
	if err != nil && c.err == nil {
		c.err = err
	}
	return value
}

// jsonText returns the JSON of a value. HTML is left as it is.
func jsonText(what string, value any) (string, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("pgfairq: %s has no JSON: %w", what, err)
	}
	return strings.TrimSuffix(buffer.String(), "\n"), nil
}

var quoteElement = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayText returns an array as the server reads it. An element that is nil is NULL.
func arrayText[T any](values []T) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, value := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		if any(value) == nil {
			b.WriteString("NULL")
			continue
		}
		b.WriteByte('"')
		b.WriteString(quoteElement.Replace(fmt.Sprint(value)))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// seconds returns a duration that the server has given as seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
