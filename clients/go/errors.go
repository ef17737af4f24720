package pgfairq

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrLeaseLost is the cause of a handler's context, and the reason that the hook
	// Lost is given, when the task is no longer the runner's: it was cancelled, or the
	// session of the runner is over. Another worker may have it by now. What the
	// handler has written with [Job.Tx] is rolled back.
	ErrLeaseLost = errors.New("pgfairq: the lease is lost")

	// ErrStopped is the cause of a handler's context when the runner stops and has no
	// more time for it. Its task is given back, and no attempt is counted.
	ErrStopped = errors.New("pgfairq: the runner has stopped before the handler ended")

	// ErrTimeout is the cause of a handler's context when it has taken longer than
	// [WorkerOpts].Timeout. The attempt has failed.
	ErrTimeout = errors.New("pgfairq: the handler has taken too long")

	// ErrNotFound says that there is no such task, or that its end is not remembered.
	// Queues remember the ends of their tasks with [QueueOpts].KeepDone.
	ErrNotFound = errors.New("pgfairq: there is no such task")

	// ErrNotRunning is returned by methods of a [Job] that no runner has made, and by
	// those that are called after its handler has ended.
	ErrNotRunning = errors.New("pgfairq: the job is not running")
)

// UnrecoverableError is what [Unrecoverable] returns.
type UnrecoverableError struct{ Err error }

// Error returns the text of the error that it was made of.
func (e *UnrecoverableError) Error() string { return text(e.Err) }

// Unwrap returns the error that it was made of.
func (e *UnrecoverableError) Unwrap() error { return e.Err }

// Unrecoverable returns an error for a handler to return if no other attempt would fare
// better: the task is dead at once, whatever its MaxAttempts says.
func Unrecoverable(err error) error { return &UnrecoverableError{err} }

// CancelError is what [Cancel] returns.
type CancelError struct{ Err error }

// Error returns the text of the error that it was made of.
func (e *CancelError) Error() string { return text(e.Err) }

// Unwrap returns the error that it was made of.
func (e *CancelError) Unwrap() error { return e.Err }

// Cancel returns an error for a handler to return if its task is not wanted any more.
// The task ends as cancelled: it does not run again, and it is not among the dead.
func Cancel(err error) error { return &CancelError{err} }

// SnoozeError is what [Snooze] returns.
type SnoozeError struct{ Delay time.Duration }

// Error says for how long.
func (e *SnoozeError) Error() string { return fmt.Sprintf("snoozed for %s", e.Delay) }

// Snooze returns an error for a handler to return if its task is to run later. It comes
// again after the delay, and no attempt is counted.
func Snooze(delay time.Duration) error { return &SnoozeError{delay} }

// RetryError is what [RetryAfter] returns.
type RetryError struct {
	Err   error
	Delay time.Duration
}

// Error returns the text of the error that it was made of.
func (e *RetryError) Error() string { return text(e.Err) }

// Unwrap returns the error that it was made of.
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter returns an error for a handler to return if the attempt has failed, and the
// next one is to come after this delay in place of the backoff. The attempt counts.
func RetryAfter(err error, delay time.Duration) error { return &RetryError{err, delay} }

// TaskError is returned by [Queue.Result] for a task that has ended without success.
type TaskError struct {
	ID        int64
	State     string // "dead", "cancelled" or "expired"
	LastError string // of its last attempt that failed
}

// Error says what became of the task, with the first line of its last error.
func (e *TaskError) Error() string {
	if e.LastError == "" {
		return fmt.Sprintf("pgfairq: task %d is %s", e.ID, e.State)
	}
	line, _, _ := strings.Cut(e.LastError, "\n")
	return fmt.Sprintf("pgfairq: task %d is %s: %s", e.ID, e.State, line)
}

// A handler that calls Unrecoverable(nil) has an error all the same.
func text(err error) string {
	if err == nil {
		return "no reason was given"
	}
	return err.Error()
}

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

const lockNotAvailable = "55P03"

// sqlState returns the SQLSTATE of an error of the server, as lib/pq and pgx have it, or "".
func sqlState(err error) string {
	var of interface{ SQLState() string }
	if errors.As(err, &of) {
		return of.SQLState()
	}
	return ""
}

// isConnectionError reports whether the connection is gone, or the server cannot serve
// now: worth another try.
func isConnectionError(err error) bool {
	state := sqlState(err)
	return state == "" || state == "53300" || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P")
}

// isTransient reports whether the same statement may do another time: after a connection
// error, a timeout, a conflict of locks, and where the server lacks something.
func isTransient(err error) bool {
	state := sqlState(err)
	for _, class := range []string{"40", "53", "57", "58"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return state == lockNotAvailable || isConnectionError(err)
}

// isRefusal reports whether a call may fare better without one of its queues: that one is not
// there or not for this role, it is locked, or it has no room. A session that is over and a
// statement that was cancelled are of no queue.
func isRefusal(err error) bool {
	if err == nil || isConnectionError(err) {
		return false
	}
	switch state := sqlState(err); state {
	case "55000", "57014", "40001", "40P01":
		return false
	}
	return true
}

// isHopeless reports whether no later try will do: no such queue, role, database or
// function; no privilege; an argument that the server does not take.
func isHopeless(err error) bool {
	state := sqlState(err)
	for _, class := range []string{"42", "28", "3D", "3F", "22", "0A"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}

// hopeless is an error with the SQLSTATE that the server would have given.
type hopeless struct {
	state, text string
}

func (e *hopeless) Error() string    { return "pgfairq: " + e.text }
func (e *hopeless) SQLState() string { return e.state }

const longestError = 8000

// errorText is what is kept as last_error: bounded, valid UTF-8 and without NUL, which
// the server cannot store.
func errorText(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(text(err), "\x00", `\0`), "\uFFFD")
	if len(text) <= longestError {
		return text
	}
	// Head and tail both matter in a stack.
	half := longestError / 2
	head := strings.ToValidUTF8(text[:half], "")
	tail := strings.ToValidUTF8(text[len(text)-half:], "")
	return fmt.Sprintf("%s\n... %d bytes ...\n%s", head, len(text)-longestError, tail)
}
