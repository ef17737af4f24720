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
	Until   string `json:"until,omitempty"` // files
	Hold    string `json:"hold,omitempty"`
	Message string `json:"message,omitempty"`
}

// The kinds of tasks.
type (
	Effect  struct{ Args }
	Plain   struct{ Args }
	Compute struct{ Args }
	Block   struct{ Args }
	Fail    struct{ Args }
	Final   struct{ Args }
	Poison  struct{ Args }
	Snooze  struct{ Args }
)

func (Effect) Kind() string  { return "effect" }
func (Plain) Kind() string   { return "plain" }
func (Compute) Kind() string { return "compute" }
func (Block) Kind() string   { return "block" }
func (Fail) Kind() string    { return "fail" }
func (Final) Kind() string   { return "final" }
func (Poison) Kind() string  { return "poison" }
func (Snooze) Kind() string  { return "snooze" }

// ofKind returns the arguments of the kind that they name.
func ofKind(args Args) (pgfairq.JobArgs, error) {
	kinds := []pgfairq.JobArgs{
		Effect{args}, Plain{args}, Compute{args}, Block{args},
		Fail{args}, Final{args}, Poison{args}, Snooze{args},
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
	pgfairq.AddWorker(workers, noted(h.db, h.block))
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

// isFirst reports whether it is the first time that this is begun.
func (h handlers) isFirst(ctx context.Context, key string) (bool, error) {
	var times int
	err := h.db.QueryRowContext(ctx, timesSQL, key).Scan(&times)
	return times == 1, err
}

func effect(ctx context.Context, job *pgfairq.Job[Effect]) error {
	if err := job.Args.wait(ctx); err != nil {
		return err
	}
	return writeInTx(ctx, job)
}

func (h handlers) plain(ctx context.Context, job *pgfairq.Job[Plain]) error {
	if err := job.Args.wait(ctx); err != nil {
		return err
	}
	return write(ctx, h.db, job)
}

func compute(ctx context.Context, job *pgfairq.Job[Compute]) error {
	for end := time.Now().Add(job.Args.duration()); time.Now().Before(end); {
	}
	return writeInTx(ctx, job)
}

func (h handlers) block(ctx context.Context, job *pgfairq.Job[Block]) error {
	first, err := h.isFirst(ctx, job.Args.Key)
	if err != nil {
		return err
	}
	for first && !exists(job.Args.Until) {
	}
	return writeInTx(ctx, job)
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
	first, err := h.isFirst(ctx, job.Args.Key)
	if err != nil {
		return err
	}
	if first {
		return pgfairq.Snooze(job.Args.duration())
	}
	return write(ctx, h.db, job)
}

// writeInTx writes in the transaction of the task.
func writeInTx[T task](ctx context.Context, job *pgfairq.Job[T]) error {
	tx, err := job.Tx(ctx)
	if err != nil {
		return err
	}
	return write(ctx, tx, job)
}

func write[T task](ctx context.Context, db pgfairq.DBTX, job *pgfairq.Job[T]) error {
	args := job.Args.args()
	if _, err := db.ExecContext(ctx, effectSQL, args.Key, os.Getpid()); err != nil {
		return err
	}
	if err := waitFor(ctx, args.Hold); err != nil {
		return err
	}
	return job.SetResult(map[string]string{"key": args.Key})
}

func (a Args) duration() time.Duration { return time.Duration(a.Millis) * time.Millisecond }

func (a Args) wait(ctx context.Context) error {
	if err := sleep(ctx, a.duration()); err != nil {
		return err
	}
	return waitFor(ctx, a.Until)
}

// waitFor waits until the file is there, if one is named.
func waitFor(ctx context.Context, file string) error {
	for file != "" && !exists(file) {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
