package pgfairq

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Task is a task as a runner has claimed it.
type Task struct {
	ID         int64
	Queue      string
	Group      string
	Subgroup   string // "" if there is none
	Name       string // "" if there is none
	Attempt    int    // 1 is the first
	Priority   int64
	EnqueuedAt time.Time
	ExpiresAt  time.Time // zero: it does not expire
	Payload    json.RawMessage
	Headers    map[string]any // nil if there are none
}

// String returns what messages call the task.
func (t *Task) String() string {
	if t.Name == "" {
		return fmt.Sprintf("task %d of queue %q", t.ID, t.Queue)
	}
	return fmt.Sprintf("task %d (%q) of queue %q", t.ID, t.Name, t.Queue)
}

// Job is a task in the hands of its worker. One that a test makes, as in
// &Job[SendArgs]{Args: args}, can be given to Work without a server; its Tx, Progress and
// Extend return [ErrNotRunning].
type Job[T any] struct {
	Task
	Args T

	attempt *attempt
	result  json.RawMessage
}

// Tx returns the transaction of the task, which begins with the first call. It is
// committed together with the acknowledgement of the task when the worker returns nil,
// and rolled back when it returns an error or the lease is lost: what it writes is written
// exactly once. The worker must not commit it or roll it back. It lasts as long as the
// context that Work was given; ctx is for the wait for a connection.
func (j *Job[T]) Tx(ctx context.Context) (*sql.Tx, error) {
	if j.attempt == nil {
		return nil, ErrNotRunning
	}
	return j.attempt.begin(ctx)
}

// SetResult says what came of the task, as JSON. It is kept if the task is done, and its
// queue keeps done tasks: see [Queue.Result].
func (j *Job[T]) SetResult(value any) error {
	text, err := jsonText("the result", value)
	if err != nil {
		return err
	}
	j.result = json.RawMessage(text)
	if j.attempt != nil {
		j.attempt.setResult(text)
	}
	return nil
}

// Result returns what SetResult was given, for tests of workers.
func (j *Job[T]) Result() json.RawMessage { return j.result }

// Progress notes how far the task is, as JSON. Others see it at once: [TaskStatus].
func (j *Job[T]) Progress(ctx context.Context, value any) error {
	text, err := jsonText("the progress", value)
	if err != nil {
		return err
	}
	if j.attempt == nil {
		return ErrNotRunning
	}
	return j.attempt.progress(ctx, text)
}

// Extend makes sure that the task is still the runner's, and returns until when it is
// without a further heartbeat. Else the error is [ErrLeaseLost], and the job's context ends.
// There is no need to call it: the lease lasts as long as the runner lives.
func (j *Job[T]) Extend(ctx context.Context) (time.Time, error) {
	if j.attempt == nil {
		return time.Time{}, ErrNotRunning
	}
	return j.attempt.extend(ctx)
}
