package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"pgfairq"
)

// Args are the arguments of all kinds of tasks.
type Args struct {
	Do      string `json:"do"`
	Key     string `json:"key"`
	Millis  int    `json:"ms,omitempty"`
	Message string `json:"message,omitempty"`
}

// The kinds of tasks.
type (
	Effect  struct{ Args }
	Plain   struct{ Args }
	Compute struct{ Args }
	Fail    struct{ Args }
	Final   struct{ Args }
	Poison  struct{ Args }
	Snooze  struct{ Args }
)

func (Effect) Kind() string  { return "effect" }
func (Plain) Kind() string   { return "plain" }
func (Compute) Kind() string { return "compute" }
func (Fail) Kind() string    { return "fail" }
func (Final) Kind() string   { return "final" }
func (Poison) Kind() string  { return "poison" }
func (Snooze) Kind() string  { return "snooze" }

// ofKind returns the arguments of the kind that they name.
func ofKind(args Args) (pgfairq.JobArgs, error) {
	kinds := []pgfairq.JobArgs{
		Effect{args}, Plain{args}, Compute{args}, Fail{args}, Final{args}, Poison{args}, Snooze{args},
	}
	for _, one := range kinds {
		if one.Kind() == args.Do {
			return one, nil
		}
	}
	return nil, fmt.Errorf("there is no task that does %q", args.Do)
}

// A task is one of these kinds.
type task interface {
	pgfairq.JobArgs
	args() Args
}

func (a Args) args() Args { return a }

const (
	startedSQL = "INSERT INTO conformance.started (key, pid) VALUES ($1, $2)"
	timesSQL   = "SELECT count(*) FROM conformance.started WHERE key = $1"
	effectSQL  = "INSERT INTO conformance.effects (key, pid) VALUES ($1, $2)"
)

// handlers do the tasks. They have the pool of the application.
type handlers struct{ db *sql.DB }

func (h handlers) workers() *pgfairq.Workers {
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker(workers, noted(h.db, effect))
	pgfairq.AddWorker(workers, noted(h.db, h.plain))
	pgfairq.AddWorker(workers, noted(h.db, compute))
	pgfairq.AddWorker(workers, noted(h.db, fail))
	pgfairq.AddWorker(workers, noted(h.db, final))
	pgfairq.AddWorker(workers, noted(h.db, poison))
	pgfairq.AddWorker(workers, noted(h.db, h.snooze))
	return workers
}

// noted returns a worker that notes what it begins, and then calls a function.
func noted[T task](
	db *sql.DB, work func(ctx context.Context, job *pgfairq.Job[T]) error,
) pgfairq.Worker[T] {
	return pgfairq.WorkFunc(func(ctx context.Context, job *pgfairq.Job[T]) error {
		_, err := db.ExecContext(ctx, startedSQL, job.Args.args().Key, os.Getpid())
		if err != nil {
			return err
		}
		return work(ctx, job)
	})
}

func effect(ctx context.Context, job *pgfairq.Job[Effect]) error {
	if err := wait(ctx, job.Args.Millis); err != nil {
		return err
	}
	return once(ctx, job)
}

func (h handlers) plain(ctx context.Context, job *pgfairq.Job[Plain]) error {
	return atLeastOnce(ctx, h.db, job)
}

func compute(ctx context.Context, job *pgfairq.Job[Compute]) error {
	for end := time.Now().Add(millis(job.Args.Millis)); time.Now().Before(end); {
	}
	return once(ctx, job)
}

func fail(ctx context.Context, job *pgfairq.Job[Fail]) error {
	return errors.New(job.Args.Message)
}

func final(ctx context.Context, job *pgfairq.Job[Final]) error {
	return pgfairq.Unrecoverable(errors.New(job.Args.Message))
}

func poison(ctx context.Context, job *pgfairq.Job[Poison]) error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

func (h handlers) snooze(ctx context.Context, job *pgfairq.Job[Snooze]) error {
	var times int
	if err := h.db.QueryRowContext(ctx, timesSQL, job.Args.Key).Scan(&times); err != nil {
		return err
	}
	if times == 1 {
		return pgfairq.Snooze(millis(job.Args.Millis))
	}
	return atLeastOnce(ctx, h.db, job)
}

// once writes in the transaction of the task.
func once[T task](ctx context.Context, job *pgfairq.Job[T]) error {
	tx, err := job.Tx(ctx)
	if err != nil {
		return err
	}
	return write(ctx, tx, job)
}

// atLeastOnce waits, and writes on a connection of the application.
func atLeastOnce[T task](ctx context.Context, db *sql.DB, job *pgfairq.Job[T]) error {
	if err := wait(ctx, job.Args.args().Millis); err != nil {
		return err
	}
	return write(ctx, db, job)
}

func write[T task](ctx context.Context, db pgfairq.DBTX, job *pgfairq.Job[T]) error {
	key := job.Args.args().Key
	if _, err := db.ExecContext(ctx, effectSQL, key, os.Getpid()); err != nil {
		return err
	}
	return job.SetResult(map[string]string{"key": key})
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func wait(ctx context.Context, n int) error {
	select {
	case <-time.After(millis(n)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
