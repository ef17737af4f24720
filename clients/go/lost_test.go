package pgfairq_test

// Sessions and connections that are lost while tasks are in work. Seen to fail:
// - "A session that is lost": attempts are not told; the runner makes no new one
// - "The connection for claims": it is not opened again
// - "The connection of a transaction": the nack is not repeated while the server has not seen
//   that the connection is gone

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"pgfairq"
)

// terminate ends the connections whose last statement is like this, and returns how many.
func (f *fixture) terminate(like string) int {
	f.Helper()
	return f.number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE $1`, like)
}

func TestASessionThatIsLostEndsItsTasks(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	id := f.enqueue(Send{}, nil)
	begun, ended := make(chan int, 10), make(chan error, 10)
	var runs atomic.Int64 // a task that is given back has no other attempt
	f.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if err := write(ctx, job); err != nil {
			return err
		}
		begun <- job.Attempt
		if runs.Add(1) > 1 {
			return nil
		}
		<-ctx.Done()
		ended <- pgfairq.Cause(ctx)
		return nil
	}), pgfairq.RunnerConfig{TTL: 2 * time.Second})
	<-begun
	execute(t, f.db, "SELECT fairq.close_session(session) FROM fairq.sessions")
	if err := <-ended; !errors.Is(err, pgfairq.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	<-begun
	until(t, "it is done", func() bool { return f.left() == 0 })
	equal(t, "sent", f.number("SELECT count(*) FROM sent WHERE task = $1", id), 1)
	equal(t, "sessions", f.number("SELECT count(*) FROM fairq.sessions"), 1)
}

func TestTheConnectionOfASessionIsLost(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.enqueue(Send{}, nil)
	begun := make(chan int, 10)
	var runs atomic.Int64
	f.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		begun <- job.Attempt
		if runs.Add(1) == 1 {
			<-ctx.Done()
		}
		return write(ctx, job)
	}), pgfairq.RunnerConfig{TTL: 2 * time.Second})
	<-begun
	until(t, "there is one to terminate", func() bool { return f.terminate("SELECT fairq.heartbeat%") == 1 })
	<-begun
	until(t, "it is done", func() bool { return f.left() == 0 })
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 1)
}

func TestTheConnectionForClaimsIsLost(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.start(sending(write), pgfairq.RunnerConfig{})
	until(t, "it waits", func() bool { return f.terminate("%wait_any%") > 0 })
	f.enqueue(Send{}, nil)
	until(t, "it is done", func() bool { return f.left() == 0 })
	equal(t, "sent", f.number("SELECT count(*) FROM sent WHERE attempt = 1"), 1)
}

func TestTheConnectionOfATransactionIsLost(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 3})
	f.enqueue(Send{}, nil)
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if err := write(ctx, job); err != nil {
			return err
		}
		if job.Attempt == 1 {
			equal(t, "terminated", f.terminate("INSERT INTO sent%"), 1)
		}
		return nil
	}), pgfairq.RunnerConfig{})
	equal(t, "sent", f.number("SELECT count(*) FROM sent WHERE attempt = 2"), 1)
	equal(t, "left", f.left(), 0)
}

func TestALockedTableDoesNotEndTheSession(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.enqueue(Send{}, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	f.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		close(begun)
		<-goOn
		return write(ctx, job)
	}), pgfairq.RunnerConfig{TTL: time.Second})
	<-begun
	tx, err := f.db.Begin()
	f.must(err)
	execute(t, tx, "LOCK TABLE fairq.q_emails IN ACCESS EXCLUSIVE MODE")
	opened := number(t, tx, "SELECT count(*) FROM fairq.sessions WHERE alive_until > now() + '1 s'")
	equal(t, "a session that was opened within the transaction's time", opened, 0)
	// it lives on for several times its TTL
	until(t, "it has had several heartbeats", func() bool {
		return number(t, tx, "SELECT count(*) FROM fairq.sessions WHERE alive_until > now() + '4 s'") == 1
	})
	f.must(tx.Commit())
	close(goOn)
	until(t, "it is done", func() bool { return f.left() == 0 })
	equal(t, "sent", f.number("SELECT count(*) FROM sent WHERE attempt = 1"), 1)
}
