package pgfairq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"
)

// Worker does the tasks of one kind.
type Worker[T JobArgs] interface {
	// Work does a task. If it returns nil the task is done; an error says that the
	// attempt has failed, or what else is to become of the task: see [Unrecoverable],
	// [Cancel], [Snooze] and [RetryAfter]. The context ends when the task is no longer
	// the runner's, and when the time of the handler is over; [Cause] says why.
	Work(ctx context.Context, job *Job[T]) error
}

// WorkFunc makes a [Worker] of a function.
func WorkFunc[T JobArgs](f func(ctx context.Context, job *Job[T]) error) Worker[T] {
	return workFunc[T](f)
}

type workFunc[T JobArgs] func(ctx context.Context, job *Job[T]) error

func (f workFunc[T]) Work(ctx context.Context, job *Job[T]) error { return f(ctx, job) }

// WorkerOpts are the options of a worker. What is left out is as the task or its queue
// has it.
type WorkerOpts struct {
	// Timeout is how long an attempt may take. Then its context ends, its transaction is
	// rolled back, and it has failed.
	Timeout time.Duration

	// MaxAttempts is after how many attempts that failed a task is dead, if its own limit
	// is not lower. Leases that were lost do not count.
	MaxAttempts int

	// Backoff returns how long after an attempt that failed the next one comes. The
	// first attempt is 1.
	Backoff func(attempt int) time.Duration

	// GiveUp reports whether no other attempt would fare better after an error, as if it
	// were [Unrecoverable]. Errors that say themselves what comes next are not asked for.
	GiveUp func(err error) bool
}

// Workers are the workers of a runner, by the kinds of their tasks. It is filled before
// [NewRunner] is given it.
type Workers struct {
	byKind   map[string]*registration
	fallback *registration
	err      error
}

type registration struct {
	opts WorkerOpts
	work func(ctx context.Context, a *attempt) error
}

// NewWorkers returns a set without any workers.
func NewWorkers() *Workers { return &Workers{byKind: make(map[string]*registration)} }

// AddWorker adds the worker of a kind. A kind that has one already, or is empty, is an error
// of [NewRunner].
func AddWorker[T JobArgs](workers *Workers, worker Worker[T]) {
	AddWorkerOpts(workers, worker, WorkerOpts{})
}

// AddWorkerOpts is [AddWorker] with options.
func AddWorkerOpts[T JobArgs](workers *Workers, worker Worker[T], opts WorkerOpts) {
	kind, err := kindOf[T]()
	if err != nil {
		workers.refuse(err)
		return
	}
	if err := opts.check(); err != nil {
		workers.refuse(fmt.Errorf("pgfairq: the worker of %q: %w", kind, err))
		return
	}
	if workers.byKind[kind] != nil {
		workers.refuse(fmt.Errorf("pgfairq: there are two workers of %q; a kind has one", kind))
		return
	}
	workers.byKind[kind] = &registration{opts, func(ctx context.Context, a *attempt) error {
		job := &Job[T]{Task: a.task, attempt: a}
		if err := json.Unmarshal(a.task.Payload, &job.Args); err != nil {
			return fmt.Errorf("the payload is no %T: %w", job.Args, err)
		}
		return worker.Work(ctx, job)
	}}
}

// AddFallback adds what does the tasks that have no name, or one that no worker has.
// Without it such a task fails, since another runner may have its worker.
func AddFallback(
	workers *Workers, work func(ctx context.Context, job *Job[json.RawMessage]) error, opts WorkerOpts,
) {
	if err := opts.check(); err != nil {
		workers.refuse(fmt.Errorf("pgfairq: the fallback: %w", err))
		return
	}
	if workers.fallback != nil {
		workers.refuse(errors.New("pgfairq: there are two fallbacks; a runner has one"))
		return
	}
	workers.fallback = &registration{opts, func(ctx context.Context, a *attempt) error {
		return work(ctx, &Job[json.RawMessage]{Task: a.task, Args: a.task.Payload, attempt: a})
	}}
}

// kindOf returns the kind of a type's zero value; of a pointer's, that of a new value.
func kindOf[T JobArgs]() (string, error) {
	var args T
	if of := reflect.TypeOf(&args).Elem(); of.Kind() == reflect.Pointer {
		args, _ = reflect.New(of.Elem()).Interface().(T)
	} else if of.Kind() == reflect.Interface {
		return "", fmt.Errorf("pgfairq: a worker of %s; give one of a type that is no interface", of)
	}
	kind := args.Kind()
	if kind == "" {
		return "", fmt.Errorf("pgfairq: Kind of %T is empty; give 1 to 100 bytes", args)
	}
	return kind, nil
}

func (o WorkerOpts) check() error {
	if o.Timeout < 0 {
		return fmt.Errorf("Timeout is %s; give a duration above zero, or leave it out", o.Timeout)
	}
	if o.MaxAttempts < 0 {
		return fmt.Errorf("MaxAttempts is %d; give a number above zero, or leave it out", o.MaxAttempts)
	}
	return nil
}

// The first mistake is kept for NewRunner.
func (w *Workers) refuse(err error) {
	if w.err == nil {
		w.err = err
	}
}

// find returns the worker of a name, or nil.
func (w *Workers) find(name string) *registration {
	if of := w.byKind[name]; of != nil {
		return of
	}
	return w.fallback
}

// call runs the handler of an attempt. A panic of it is an error.
func (r *registration) call(ctx context.Context, a *attempt) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, debug.Stack()}
		}
	}()
	if r == nil {
		return fmt.Errorf("there is no worker of %q here", a.task.Name)
	}
	return r.work(ctx, a)
}
