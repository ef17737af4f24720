package pgfairq

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Queue is a queue: to look at, and to administer. It is safe for concurrent use.
type Queue struct {
	name string
	db   DBTX
}

// Name returns the name of the queue.
func (q *Queue) Name() string { return q.name }

// WithTx returns the queue for a transaction: what is done with it is done when that
// commits.
func (q *Queue) WithTx(tx DBTX) *Queue { return &Queue{name: q.name, db: tx} }

func (q *Queue) fail(what string, err error) error {
	return fmt.Errorf("pgfairq: %s queue %q: %w", what, q.name, err)
}

// State is what a task is just now.
type State string

// The states of a task.
const (
	StateReady     State = "ready"
	StateLeased    State = "leased"    // in flight
	StateScheduled State = "scheduled" // it waits for its time, or for a retry
	StateOverflow  State = "overflow"  // ready, in a group that has many
	StateHeld      State = "held"      // behind one of its unique key, or behind those that it comes after
	StateDead      State = "dead"
)

// The states of a task that has ended; besides them there is [StateDead].
const (
	StateAcked     State = "acked"
	StateCancelled State = "cancelled"
	StateExpired   State = "expired"
)

// TaskStatus is a task in whatever state.
type TaskStatus struct {
	Task        // Attempt is that of the next or present run, and Payload and Headers as they are
	State       State
	Cost        float64
	Attempts    int // that have failed
	MaxAttempts int // 0: any number
	Lost        int // leases that ended without an answer
	MaxLost     int // 0: any number
	RunAt       time.Time
	LeaseUntil  time.Time
	UniqueKey   string
	LastError   string
	History     []TaskEnd       // its last ten ends that were failures or losses, the earliest first
	Progress    json.RawMessage // what [Job.Progress] was given
}

// TaskEnd is one end of a task that was a failure or a loss.
type TaskEnd struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	End     string    `json:"end"`    // "failed" or "lost"
	Worker  string    `json:"worker"` // for people to read
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error"`
}

const statusColumns = `id, state, group_key, subgroup_key, name, payload::text, headers::text, priority,
	cost::float8, attempts, max_attempts, lost, max_lost, enqueued_at, run_at, lease_until, expires_at,
	unique_key, last_error, history::text`

// Get returns a task, or ErrNotFound if there is none, which is also when it is done.
func (q *Queue) Get(ctx context.Context, id int64) (*TaskStatus, error) {
	rows, err := q.db.QueryContext(ctx, "SELECT "+statusColumns+" FROM fairq.get_task($1, $2::bigint)", q.name, id)
	found, err := q.statuses(rows, err)
	switch {
	case err != nil:
		return nil, q.fail("get a task of", err)
	case len(found) == 0:
		return nil, fmt.Errorf("%w: %d in queue %q", ErrNotFound, id, q.name)
	}
	return &found[0], nil
}

// TaskFilter says which tasks to list; what is left out does not matter.
type TaskFilter struct {
	State State
	Group *string
	Name  string
	Limit int // 100
}

// Tasks returns tasks by their ids. It reads the whole table of the queue.
func (q *Queue) Tasks(ctx context.Context, filter TaskFilter) ([]TaskStatus, error) {
	if filter.Limit < 0 {
		return nil, fmt.Errorf("pgfairq: Limit is %d; give a number above zero, or leave it out", filter.Limit)
	}
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	var group any
	if filter.Group != nil {
		group = *filter.Group
	}
	rows, err := q.db.QueryContext(ctx, "SELECT "+statusColumns+
		" FROM fairq.tasks($1, $2::text, $3::text, $4::text) ORDER BY id LIMIT $5::bigint",
		q.name, optional(filter.State), group, optional(filter.Name), filter.Limit)
	found, err := q.statuses(rows, err)
	if err != nil {
		return nil, q.fail("list", err)
	}
	return found, nil
}

func (q *Queue) statuses(rows *sql.Rows, err error) ([]TaskStatus, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []TaskStatus
	for rows.Next() {
		one := TaskStatus{Task: Task{Queue: q.name}}
		var subgroup, name, headers, key, last, history sql.NullString
		var run, lease, expires sql.NullTime
		var payload string
		err := rows.Scan(&one.ID, &one.State, &one.Group, &subgroup, &name, &payload, &headers, &one.Priority,
			&one.Cost, &one.Attempts, &one.MaxAttempts, &one.Lost, &one.MaxLost, &one.EnqueuedAt, &run, &lease,
			&expires, &key, &last, &history)
		if err != nil {
			return nil, err
		}
		one.Subgroup, one.Name, one.Payload = subgroup.String, name.String, json.RawMessage(payload)
		one.Attempt = one.Attempts + one.Lost + 1
		one.RunAt, one.LeaseUntil, one.ExpiresAt = run.Time, lease.Time, expires.Time
		one.UniqueKey, one.LastError = key.String, last.String
		one.Headers = headersOf(headers.String)
		if progress, ok := one.Headers["progress"]; ok {
			one.Progress, _ = json.Marshal(progress)
		}
		if history.Valid && json.Unmarshal([]byte(history.String), &one.History) != nil {
			one.History = nil // an owner of the queue has written something else there
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// The columns of claimSQL.
const peekSQL = `SELECT $1::text, id, '', group_key, subgroup_key, name, attempt, priority,
		enqueued_at, expires_at, payload::text, headers::text
	FROM fairq.peek($1::text, $2::int)`

// Peek returns what would be claimed next, in order.
func (q *Queue) Peek(ctx context.Context, limit int) ([]Task, error) {
	rows, err := q.db.QueryContext(ctx, peekSQL, q.name, limit)
	if err != nil {
		return nil, q.fail("peek at", err)
	}
	defer rows.Close()
	var found []Task
	for rows.Next() {
		var a attempt
		if err := a.scan(rows); err != nil {
			return nil, q.fail("peek at", err)
		}
		found = append(found, a.task)
	}
	if err := rows.Err(); err != nil {
		return nil, q.fail("peek at", err)
	}
	return found, nil
}

// Stats are the figures of a queue. Rates are for a second of the last minute, quantiles and
// totals since the counting began. A duration is 0 while there is none.
type Stats struct {
	Ready, Leased, Scheduled, Overflow, Held, Dead int64
	EnqueueRate, ClaimRate, AckRate                float64
	OldestReadyAge                                 time.Duration
	WaitP50, WaitP95, WaitP99                      time.Duration
	RunP50, RunP95, RunP99                         time.Duration
	Enqueued, Acked, Nacked, DeadTotal             int64
}

const statsSQL = `SELECT ready, leased, scheduled, overflow, held, dead, enqueue_rate, claim_rate, ack_rate,
		extract(epoch FROM oldest_ready_age)::float8,
		extract(epoch FROM wait_p50)::float8, extract(epoch FROM wait_p95)::float8,
		extract(epoch FROM wait_p99)::float8, extract(epoch FROM run_p50)::float8,
		extract(epoch FROM run_p95)::float8, extract(epoch FROM run_p99)::float8,
		enqueued, acked, nacked, dead_total
	FROM fairq.queue_stats WHERE queue = $1`

// Stats returns the figures of the queue.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	var times [7]sql.NullFloat64
	err := q.db.QueryRowContext(ctx, statsSQL, q.name).Scan(
		&s.Ready, &s.Leased, &s.Scheduled, &s.Overflow, &s.Held, &s.Dead, &s.EnqueueRate, &s.ClaimRate, &s.AckRate,
		&times[0], &times[1], &times[2], &times[3], &times[4], &times[5], &times[6],
		&s.Enqueued, &s.Acked, &s.Nacked, &s.DeadTotal)
	if errors.Is(err, sql.ErrNoRows) {
		err = errors.New("there is none, or not for this role")
	}
	if err != nil {
		return Stats{}, q.fail("stats of", err)
	}
	for n, to := range []*time.Duration{
		&s.OldestReadyAge, &s.WaitP50, &s.WaitP95, &s.WaitP99, &s.RunP50, &s.RunP95, &s.RunP99,
	} {
		*to = seconds(times[n].Float64)
	}
	return s, nil
}

// Position is how far a task is from its turn.
type Position struct {
	State    State
	Ahead    int64     // tasks that come before it; -1 if that cannot be said of its state
	StartsAt time.Time // about when it will start; zero: not known
	Exact    bool      // the tasks ahead were counted, not estimated
}

const positionSQL = "SELECT state, ahead, starts_at, exact FROM fairq.get_task_position($1, $2::bigint)"

// Position returns how many tasks are ahead of one, or ErrNotFound.
func (q *Queue) Position(ctx context.Context, id int64) (Position, error) {
	var state sql.NullString
	var ahead sql.NullInt64
	var starts sql.NullTime
	var exact sql.NullBool
	err := q.db.QueryRowContext(ctx, positionSQL, q.name, id).Scan(&state, &ahead, &starts, &exact)
	switch {
	case err != nil:
		return Position{}, q.fail("position of a task of", err)
	case !state.Valid:
		return Position{}, fmt.Errorf("%w: %d in queue %q", ErrNotFound, id, q.name)
	case !ahead.Valid:
		ahead.Int64 = -1
	}
	return Position{State(state.String), ahead.Int64, starts.Time, exact.Bool}, nil
}

// TaskOutcome is how a task has ended, or its present state.
type TaskOutcome struct {
	State     State
	Result    json.RawMessage // what [Job.SetResult] was given; nil: nothing
	LastError string
	DoneAt    time.Time
}

// Ended reports whether the task has ended: a dead one may be revived, all the same.
func (o *TaskOutcome) Ended() bool {
	switch o.State {
	case StateAcked, StateDead, StateCancelled, StateExpired:
		return true
	}
	return false
}

const awaitSQL = `SELECT state, result::text, last_error, done_at
	FROM fairq.await($1, $2::bigint, $3::interval)`

// awaitRound is how long one statement waits: it has a snapshot, which holds up vacuum.
const awaitRound = 5 * time.Second

// Outcome returns how a task has ended, or its present state, or ErrNotFound.
func (q *Queue) Outcome(ctx context.Context, id int64) (*TaskOutcome, error) {
	return q.lookAt(ctx, id, 0)
}

// Await returns how a task has ended, as soon as it has, or ErrNotFound. It waits until the
// context ends, and keeps a connection meanwhile. While the server is away it tries again.
func (q *Queue) Await(ctx context.Context, id int64) (*TaskOutcome, error) {
	pause := backoff{first: 50 * time.Millisecond, longest: 2 * time.Second}
	for {
		wait := awaitRound
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			wait = time.Until(deadline)
		}
		if wait < 0 {
			wait = 0
		}
		outcome, err := q.lookAt(ctx, id, wait)
		_, isPool := q.db.(*sql.DB)
		switch {
		case err == nil && outcome.Ended():
			return outcome, nil
		case errors.Is(err, ErrNotFound):
			return nil, err
		case ctx.Err() != nil && outcome != nil:
			return nil, fmt.Errorf("pgfairq: task %d is %s: %w", id, outcome.State, ctx.Err())
		case ctx.Err() != nil: // a driver may say that as an error of its own
			return nil, fmt.Errorf("pgfairq: await task %d: %w", id, ctx.Err())
		case err != nil && (!isPool || !isConnectionError(err)):
			return nil, err
		case err != nil:
			select {
			case <-time.After(pause.next()):
			case <-ctx.Done():
			}
		}
	}
}

func (q *Queue) lookAt(ctx context.Context, id int64, wait time.Duration) (*TaskOutcome, error) {
	var state, result, last sql.NullString
	var done sql.NullTime
	err := q.db.QueryRowContext(ctx, awaitSQL, q.name, id, interval(wait)).Scan(&state, &result, &last, &done)
	switch {
	case err != nil:
		return nil, q.fail("await a task of", err)
	case !state.Valid:
		return nil, fmt.Errorf("%w: %d in queue %q, or its end is not remembered; see KeepDone", ErrNotFound, id, q.name)
	}
	outcome := &TaskOutcome{State: State(state.String), LastError: last.String, DoneAt: done.Time}
	if result.Valid {
		outcome.Result = json.RawMessage(result.String)
	}
	return outcome, nil
}

// Result waits for the end of a task and reads its result into value, which may be nil. If
// the task has ended without success the error is a [*TaskError].
func (q *Queue) Result(ctx context.Context, id int64, value any) error {
	outcome, err := q.Await(ctx, id)
	if err != nil {
		return err
	}
	if outcome.State != StateAcked {
		return &TaskError{ID: id, State: string(outcome.State), LastError: outcome.LastError}
	}
	if value == nil || outcome.Result == nil {
		return nil
	}
	if err := json.Unmarshal(outcome.Result, value); err != nil {
		return fmt.Errorf("pgfairq: the result of task %d is no %T: %w", id, value, err)
	}
	return nil
}
