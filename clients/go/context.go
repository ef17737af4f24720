package pgfairq

import (
	"context"
	"sync"
	"time"
)

// jobContext is the context of a handler. It is not cancelled by the context of the
// runner, since handlers are let end, but by the runner: when the lease is lost, when the
// time of the handler or that of the runner is over. It has the values of its parent.
type jobContext struct {
	parent   context.Context
	deadline time.Time // zero: none

	mu    sync.Mutex
	done  chan struct{}
	err   error // of Err
	cause error
}

type causeKey struct{}

func newJobContext(parent context.Context, timeout time.Duration) *jobContext {
	ctx := &jobContext{parent: parent, done: make(chan struct{})}
	if timeout > 0 {
		ctx.deadline = time.Now().Add(timeout)
	}
	return ctx
}

func (c *jobContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
func (c *jobContext) Done() <-chan struct{}       { return c.done }

func (c *jobContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *jobContext) Value(key any) any {
	if key == (causeKey{}) {
		return c
	}
	return c.parent.Value(key)
}

// cancel ends the context, once.
func (c *jobContext) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err, c.cause = context.Canceled, cause
	if cause == ErrTimeout {
		c.err = context.DeadlineExceeded
	}
	close(c.done)
}

func (c *jobContext) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Cause returns why the context of a handler was cancelled by its runner: an error that
// is [ErrLeaseLost], [ErrStopped] or [ErrTimeout] to errors.Is. It returns nil for a
// context that the runner has not cancelled, and for any other one.
func Cause(ctx context.Context) error {
	if of, ok := ctx.Value(causeKey{}).(*jobContext); ok {
		return of.reason()
	}
	return nil
}

// detached is a context with the values of another one that does not end with it.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }
