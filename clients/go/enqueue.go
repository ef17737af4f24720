package pgfairq

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// NoLimit is MaxAttempts or MaxLost of tasks that are tried for as long as it takes.
const NoLimit = -1

// OnDead says what it means for a task that one of those that it waits for has failed.
type OnDead string

// What becomes of a task that waits for one that has failed.
const (
	OnDeadHold   OnDead = "hold"   // it stays held until that one is revived and done; the default
	OnDeadCancel OnDead = "cancel" // it ends as cancelled
	OnDeadRun    OnDead = "run"    // it runs as if that one were done
)

// EnqueueOpts are what can be said of a task beside its arguments. What is left out is
// as the queue has it.
type EnqueueOpts struct {
	// Queue is where it goes; else that of the client's config.
	Queue string

	// Group is whom the task counts for, such as a tenant; fairness is between groups.
	Group string

	// Subgroup is whom of the group it counts for, such as a user of the tenant. For
	// queues with [QueueOpts].Subgroups.
	Subgroup string

	// Priority is a class from 0 to 9 in a fair queue, the lower first; else any number.
	Priority *int

	// Cost is how many turns of its group the task takes; else 1.
	Cost float64

	// Delay is how long from now it is not begun, and RunAt until when. Not both.
	Delay time.Duration
	RunAt time.Time

	// ExpiresAt is a time from which on it is not begun any more. NeverExpires takes
	// away what the queue's ExpireAfter says.
	ExpiresAt    time.Time
	NeverExpires bool

	// UniqueKey is what the task is about: at most one task of a key waits, and at most
	// one is in flight. UniqueFor is how long the key is remembered, also when the task
	// has ended. Replace makes a task of the key that waits what this one says; else it
	// is kept as it is.
	UniqueKey string
	UniqueFor time.Duration
	Replace   bool

	// MaxAttempts is how many attempts may fail until the task is dead, and MaxLost how
	// many leases may be lost; [NoLimit] for any number.
	MaxAttempts int
	MaxLost     int

	// Lease is how long a claim without a session lasts. A [Runner] has one.
	Lease time.Duration

	// Headers travel with the arguments, as JSON.
	Headers map[string]any

	// After are tasks of the queue whose ends it waits for, and OnDead what it means
	// that one of them has failed.
	After  []int64
	OnDead OnDead
}

// with returns the options with what is given in others in their place.
func (o EnqueueOpts) with(others EnqueueOpts) EnqueueOpts {
	override(&o.Queue, others.Queue)
	override(&o.Group, others.Group)
	override(&o.Subgroup, others.Subgroup)
	override(&o.Priority, others.Priority)
	override(&o.Cost, others.Cost)
	override(&o.UniqueKey, others.UniqueKey)
	override(&o.UniqueFor, others.UniqueFor)
	override(&o.Replace, others.Replace)
	override(&o.MaxAttempts, others.MaxAttempts)
	override(&o.MaxLost, others.MaxLost)
	override(&o.Lease, others.Lease)
	override(&o.OnDead, others.OnDead)
	// Each of these says when, so one that is given takes the place of both.
	if others.Delay != 0 || !others.RunAt.IsZero() {
		o.Delay, o.RunAt = others.Delay, others.RunAt
	}
	if others.NeverExpires || !others.ExpiresAt.IsZero() {
		o.ExpiresAt, o.NeverExpires = others.ExpiresAt, others.NeverExpires
	}
	if others.After != nil {
		o.After = others.After
	}
	o.Headers = merged(o.Headers, others.Headers)
	return o
}

// merged returns a new map of all that is in maps, of which the later ones win.
func merged(maps ...map[string]any) map[string]any {
	all := make(map[string]any)
	for _, one := range maps {
		for key, value := range one {
			all[key] = value
		}
	}
	return all
}

func override[T comparable](to *T, value T) {
	var zero T
	if value != zero {
		*to = value
	}
}

// NewTask is a task that is about to be enqueued, as the hook Enqueue gets it. The hook
// may change Opts.Headers, which is never nil.
type NewTask struct {
	Queue string // "" if it is published to a topic
	Name  string
	Opts  EnqueueOpts
}

// A column is an argument of fairq.enqueue.
type column struct{ name, kind string }

// What a topic takes, then the rest. The first so many are what enqueue_many has.
var (
	columns = []column{
		{"payload", "jsonb"}, {"group_key", "text"}, {"priority", "bigint"}, {"cost", "float8"},
		{"run_at", "timestamptz"}, {"unique_key", "text"}, {"name", "text"}, {"subgroup_key", "text"},
		{"delay", "interval"}, {"on_duplicate", "text"}, {"unique_for", "interval"},
		{"max_attempts", "int"}, {"max_lost", "int"}, {"lease", "interval"}, {"headers", "jsonb"},
		{"expires_at", "timestamptz"}, {"after", "bigint[]"}, {"on_dead", "text"},
	}
	fastColumns  = columns[:8]
	topicColumns = columns[:16]
)

var (
	enqueueSQL = "SELECT fairq.enqueue($1, " + namedArguments(columns) + ")"
	publishSQL = "SELECT fairq.publish($1, " + namedArguments(topicColumns) + ")"

	enqueueManySQL = `SELECT n, id
		FROM unnest(fairq.enqueue_many($1, $2::text[]::jsonb[], $3::text[], $4::bigint[], $5::float8[],
			$6::timestamptz[], $7::text[], names => $8::text[], subgroup_keys => $9::text[]))
		WITH ORDINALITY AS t (id, n)`
	enqueueEachSQL = eachSQL()
)

// namedArguments are those of one task, the parameters from $2 on.
func namedArguments(columns []column) string {
	arguments := make([]string, len(columns))
	for n, column := range columns {
		arguments[n] = fmt.Sprintf("%s => $%d::%s", column.name, n+2, column.kind)
	}
	return strings.Join(arguments, ", ")
}

// eachSQL calls enqueue for each row of arrays. Keys are taken in their order, so that two
// such statements do not wait for each other in a circle.
func eachSQL() string {
	var arguments, arrays, names []string
	for n, column := range columns {
		arguments = append(arguments, fmt.Sprintf("%s => v_%s::%s", column.name, column.name, column.kind))
		arrays = append(arrays, fmt.Sprintf("$%d::text[]", n+2))
		names = append(names, "v_"+column.name)
	}
	return fmt.Sprintf(`SELECT n, fairq.enqueue($1, %s)
		FROM (SELECT * FROM unnest(%s) WITH ORDINALITY AS t (%s, n)
			ORDER BY v_unique_key COLLATE "C", n) t`,
		strings.Join(arguments, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// values are the arguments of the columns, as texts or nil.
func (t *NewTask) values(args JobArgs) ([]any, error) {
	o := t.Opts
	var onDuplicate, after any
	if o.Replace {
		onDuplicate = "replace"
	}
	if len(o.After) > 0 {
		after = arrayText(o.After)
	}
	expiresAt := moment(o.ExpiresAt)
	if o.NeverExpires {
		if expiresAt != nil {
			return nil, fmt.Errorf("pgfairq: a task has ExpiresAt %s and NeverExpires; give one of them", o.ExpiresAt)
		}
		expiresAt = "infinity"
	}
	var c checker
	values := []any{
		c.check(jsonText(fmt.Sprintf("%T", args), args)), optional(o.Group), optionalPointer(o.Priority), optional(o.Cost),
		moment(o.RunAt), optional(o.UniqueKey), t.Name, optional(o.Subgroup),
		c.check(optionalInterval("Delay", o.Delay)), onDuplicate, c.check(optionalInterval("UniqueFor", o.UniqueFor)),
		c.check(limit("MaxAttempts", int64(o.MaxAttempts))), c.check(limit("MaxLost", int64(o.MaxLost))),
		c.check(optionalInterval("Lease", o.Lease)), c.check(optionalHeaders(o.Headers)),
		expiresAt, after, optional(o.OnDead),
	}
	return values, c.err
}

// A batch are the tasks of one queue, and their places among those that were given.
type batch struct {
	queue string
	rows  [][]any
	at    []int
}

func (b *batch) isFast() bool {
	for _, row := range b.rows {
		for _, value := range row[len(fastColumns):] {
			if value != nil {
				return false
			}
		}
	}
	return true
}

func (b *batch) send(ctx context.Context, db DBTX, ids []int64) error {
	statement, width := enqueueEachSQL, len(columns)
	if b.isFast() {
		statement, width = enqueueManySQL, len(fastColumns)
	}
	arguments := []any{b.queue}
	for n := 0; n < width; n++ {
		values := make([]any, len(b.rows))
		for row := range b.rows {
			values[row] = b.rows[row][n]
		}
		arguments = append(arguments, arrayText(values))
	}
	rows, err := db.QueryContext(ctx, statement, arguments...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n, id int64
		if err := rows.Scan(&n, &id); err != nil {
			return err
		}
		ids[b.at[n-1]] = id
	}
	return rows.Err()
}
