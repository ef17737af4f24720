package pgfairq

import (
	"context"
	"time"
)

// Hooks are functions that are told what happens. Each may be nil. They are called in a
// goroutine of what they are told of, so one that takes long holds that up, and nothing else.
// In a runner a panic of a hook is logged. Where there are several Hooks, they are called in
// their order.
//
// What a runner tells of one task comes in this order: Before; then Failed and Dead, or
// Lost, if that is how it ended; then After.
type Hooks struct {
	// Enqueue is called with each task before it is sent. It may add headers, such as
	// traceparent.
	Enqueue func(ctx context.Context, task *NewTask)

	// Before is called before a handler. The context that it returns is that of the
	// handler, and its values are in those of the hooks below. It should be made from
	// the one given.
	Before func(ctx context.Context, task *Task) context.Context

	// After is called once for each Before, when it is known what has become of the
	// attempt: it is committed.
	After func(ctx context.Context, task *Task, end End)

	// Failed is called when an attempt has failed, and was counted.
	Failed func(ctx context.Context, task *Task, err error)

	// Dead is called when that was the last attempt of the task.
	Dead func(ctx context.Context, task *Task, err error)

	// Lost is called when the task is no longer the runner's, or nobody can say:
	// what its transaction wrote is not there, or the task is done. It is called as soon
	// as that is known, be it that the handler goes on.
	Lost func(ctx context.Context, task *Task, reason error)

	// Start and Stop are called when a runner begins and when it has ended. A runner that
	// stops waits no longer than StopTimeout for either, and for Stop five seconds at least.
	Start func(ctx context.Context, runner *Runner)
	Stop  func(ctx context.Context, runner *Runner)
}

// Outcome is how an attempt has ended.
type Outcome string

// How an attempt has ended.
const (
	OutcomeCompleted Outcome = "completed" // acknowledged
	OutcomeFailed    Outcome = "failed"    // it comes again
	OutcomeDead      Outcome = "dead"      // it does not
	OutcomeSnoozed   Outcome = "snoozed"   // it comes again, and no attempt was counted
	OutcomeCancelled Outcome = "cancelled" // by its handler
	OutcomeLost      Outcome = "lost"      // see the hook Lost
	OutcomeReturned  Outcome = "returned"  // given back, since the runner stops
)

// End is what the hook After is told.
type End struct {
	Outcome  Outcome
	Err      error         // of the handler, or why its task was lost; nil if it has completed
	Duration time.Duration // of the handler
}
