package pgfairq_test

// What one queue, task or hook does to others, which is nothing. Seen to fail, all of them, with
// one claim of all queues, one line of settlements, hooks that are called in it, and stops that
// wait for hooks.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgfairq"
)

// withOther adds a queue to the one of a fixture.
func (f *fixture) withOther() *pgfairq.Queue {
	f.Helper()
	other := f.client.Queue("other")
	f.must(other.Create(background, pgfairq.QueueOpts{BackoffBase: pgfairq.None}))
	return other
}

func (f *fixture) enqueueOther(to string) int64 {
	f.Helper()
	return f.enqueue(Send{To: to}, &pgfairq.EnqueueOpts{Queue: "other"})
}

func (f *fixture) leftOfOther() int {
	f.Helper()
	return f.number("SELECT count(*) FROM fairq.tasks('other')")
}

var both = []string{"other", "emails"}

func TestAQueueThatIsDroppedIsPutOff(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.withOther()
	var told notes
	f.start(sending(write), pgfairq.RunnerConfig{Queues: both, Logger: noteLogger{&told}})
	f.enqueueOther("first")
	until(t, "it works", func() bool { return f.leftOfOther() == 0 })
	execute(t, f.db, "SELECT fairq.drop_queue('other')")
	for n := 0; n < 2; n++ {
		f.enqueue(Send{}, nil)
		until(t, "a task of the other queue is done", func() bool { return f.left() == 0 })
	}
	until(t, "that is told", func() bool { return told.count("a queue is put off queue other") > 0 })
	equal(t, "the good one is put off", told.count("a queue is put off queue emails"), 0)
	f.withOther()
	f.enqueueOther("again")
	until(t, "it is attended to again", func() bool { return f.leftOfOther() == 0 })
}

func TestALockedQueueKeepsNoOtherFromBeingClaimed(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.withOther()
	var told notes
	f.start(sending(write), pgfairq.RunnerConfig{Queues: both, Logger: noteLogger{&told}})
	f.enqueueOther("first")
	until(t, "it works", func() bool { return f.leftOfOther() == 0 })
	tx, err := f.db.Begin()
	f.must(err)
	defer tx.Rollback()
	execute(t, tx, "LOCK TABLE fairq.q_other IN ACCESS EXCLUSIVE MODE")
	f.enqueue(Send{}, nil)
	until(t, "a task of the queue that is not locked is done", func() bool { return f.left() == 0 })
	until(t, "the locked one is put off", func() bool { return told.count("a queue is put off queue other") > 1 })
	f.enqueue(Send{}, nil)
	until(t, "another one is done", func() bool { return f.left() == 0 })
	f.must(tx.Commit())
	f.enqueueOther("again")
	until(t, "it is attended to again", func() bool { return f.leftOfOther() == 0 })
	equal(t, "runs", f.number("SELECT count(*) FROM sent WHERE attempt = 1"), 4)
}

func TestAConnectionThatIsLostWhileAQueueIsGone(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.withOther()
	f.start(sending(write), pgfairq.RunnerConfig{Queues: both})
	f.enqueueOther("first")
	until(t, "it works", func() bool { return f.leftOfOther() == 0 })
	execute(t, f.db, "SELECT fairq.drop_queue('other')")
	until(t, "there is one to terminate", func() bool { return f.terminate("%wait_any%") > 0 })
	f.enqueue(Send{}, nil)
	until(t, "a task of the other queue is done", func() bool { return f.left() == 0 })
}

// A heartbeat asks for the tasks in work, too, of each queue.
func TestAPrivilegeThatIsTakenAwayEndsNoSession(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.withOther()
	role := "go_worker_" + f.database
	execute(t, f.db, "CREATE ROLE "+role+" LOGIN; GRANT USAGE ON SCHEMA fairq TO "+role)
	t.Cleanup(func() { execute(t, f.db, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	execute(t, f.db, "GRANT SELECT, UPDATE, DELETE ON fairq.q_emails, fairq.q_other TO "+role)
	db := open(t, strings.Replace(dataSource(f.database), "user="+os.Getenv("PGUSER"), "user="+role, 1))
	begun, lost := make(chan struct{}, 9), make(chan error, 9)
	runner, err := pgfairq.NewRunner(db, sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		begun <- struct{}{}
		<-ctx.Done()
		lost <- fmt.Errorf("%s: %w", job.Queue, pgfairq.Cause(ctx))
		return nil
	}), pgfairq.RunnerConfig{Queues: both, TTL: 4 * time.Second, StopTimeout: time.Millisecond, Logger: testLogger{t}})
	f.must(err)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(background) }()
	id := f.enqueue(Send{}, nil)
	f.enqueueOther("")
	<-begun
	<-begun
	session := texts(t, f.db, "SELECT session::text FROM fairq.sessions")
	execute(t, f.db, "REVOKE ALL ON fairq.q_other FROM "+role)
	execute(t, f.db, "CREATE TABLE began AS SELECT now() AS began")
	until(t, "it has had heartbeats for longer than it lives", func() bool {
		return f.number("SELECT count(*) FROM fairq.sessions, began WHERE alive_until > began + '10 s'") == 1
	})
	equal(t, "session", fmt.Sprint(texts(t, f.db, "SELECT session::text FROM fairq.sessions")), fmt.Sprint(session))
	_, err = f.queue.Cancel(background, id)
	f.must(err)
	if err := <-lost; !strings.HasPrefix(err.Error(), "emails:") || !errors.Is(err, pgfairq.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	f.must(runner.Stop(background))
	f.must(<-ended)
	if err := <-lost; !errors.Is(err, pgfairq.ErrStopped) {
		t.Errorf("cause %v", err)
	}
}

func TestALockHoldsUpNoOtherSettlement(t *testing.T) {
	for name, lock := range map[string]string{
		"a row":   "SELECT FROM fairq.q_other WHERE id = 1 FOR UPDATE",
		"a table": "LOCK TABLE fairq.q_other IN ACCESS EXCLUSIVE MODE",
	} {
		t.Run(name, func(t *testing.T) {
			f := newQueue(t, pgfairq.QueueOpts{})
			f.withOther()
			begun, goOn := make(chan struct{}), map[string]chan struct{}{"locked": make(chan struct{}), "": make(chan struct{})}
			var runs atomic.Int64
			f.start(sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
				runs.Add(1)
				begun <- struct{}{}
				<-goOn[job.Args.To]
				return nil
			}), pgfairq.RunnerConfig{Queues: both})
			f.enqueueOther("locked")
			f.enqueue(Send{}, nil)
			<-begun
			<-begun
			tx, err := f.db.Begin()
			f.must(err)
			defer tx.Rollback()
			execute(t, tx, lock)
			close(goOn["locked"])
			until(t, "its settlement waits for the lock", func() bool {
				return f.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
					AND query LIKE '%fairq.ack_many%' AND wait_event_type = 'Lock'`) > 0
			})
			close(goOn[""])
			until(t, "the other one is settled", func() bool { return f.left() == 0 })
			f.must(tx.Commit())
			until(t, "and so is this one", func() bool { return f.leftOfOther() == 0 })
			equal(t, "runs", runs.Load(), 2)
		})
	}
}

// CREATE INDEX locks a table so, and VACUUM: its tasks can be claimed, and not be settled.
func TestAQueueOfWhichNothingIsSettledIsPutOff(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.withOther()
	execute(t, f.db, "SELECT fairq.enqueue('other', '{}', name => 'send') FROM generate_series(1, 300)")
	tx, err := f.db.Begin()
	f.must(err)
	defer tx.Rollback()
	execute(t, tx, "LOCK TABLE fairq.q_other IN SHARE MODE")
	var told notes
	var runs atomic.Int64
	f.start(sending(func(context.Context, *pgfairq.Job[Send]) error {
		runs.Add(1)
		return nil
	}), pgfairq.RunnerConfig{Queues: both, Concurrency: 20, Prefetch: -1, Logger: noteLogger{&told}})
	until(t, "it is put off", func() bool { return told.count("wait to be settled") > 0 })
	f.enqueue(Send{}, nil)
	until(t, "a task of the other queue is done", func() bool { return f.left() == 0 })
	if count := runs.Load(); count >= 300 {
		t.Errorf("all are claimed: %d", count)
	}
	f.must(tx.Commit())
	until(t, "all are done", func() bool { return f.leftOfOther() == 0 })
	equal(t, "runs", runs.Load(), 301)
}

func TestAnErrorThatATableRefusesIsAFailureAllTheSame(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 2})
	execute(t, f.db, "ALTER TABLE fairq.q_emails ADD CONSTRAINT no_error CHECK (last_error IS NULL)")
	id := f.enqueue(Send{}, nil)
	var told, lines notes
	f.drain(sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
		return fmt.Errorf("attempt %d", job.Attempt)
	}), pgfairq.RunnerConfig{Logger: noteLogger{&lines}, Hooks: []pgfairq.Hooks{{
		After: func(_ context.Context, _ *pgfairq.Task, end pgfairq.End) { told.add(string(end.Outcome)) },
	}}})
	status := f.get(id)
	equal(t, "state", string(status.State), "dead")
	equal(t, "failed attempts", status.Attempts, 2)
	equal(t, "failed", told.count("failed"), 1)
	equal(t, "dead", told.count("dead"), 1)
	equal(t, "refusals in the log", lines.count("the server refuses what is said of a task"), 2)
}

func TestAFailureThatATableRefusesIsGivenBackByAndBy(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	execute(t, f.db, "ALTER TABLE fairq.q_emails ADD CONSTRAINT no_failure CHECK (attempts = 0)")
	id := f.enqueue(Send{To: "bad"}, nil)
	begun := make(chan time.Time, 100)
	var told notes
	runner := f.runner(sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
		if job.Args.To == "bad" {
			begun <- time.Now()
			return errors.New("no")
		}
		return nil
	}), pgfairq.RunnerConfig{Hooks: []pgfairq.Hooks{{
		After: func(_ context.Context, _ *pgfairq.Task, end pgfairq.End) { told.add(string(end.Outcome)) },
	}}})
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(background) }()
	first := <-begun
	f.enqueue(Send{}, nil)
	until(t, "another task is done", func() bool { return f.left() == 1 })
	if second := <-begun; second.Sub(first) < 5*time.Second {
		t.Errorf("it runs again after %s", second.Sub(first))
	}
	until(t, "the hook is told", func() bool { return told.count("snoozed") == 1 })
	f.must(runner.Stop(background))
	f.must(<-ended)
	equal(t, "failed attempts", f.get(id).Attempts, 0)
	equal(t, "sessions", f.number("SELECT count(*) FROM fairq.sessions"), 0)
}

func TestATaskOfAQueueThatIsUnfitIsGivenBackWhenItIsFit(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.withOther()
	begun, goOn := make(chan struct{}, 9), make(chan struct{})
	var lines notes
	f.start(sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
		if job.Queue == "other" {
			begun <- struct{}{}
			<-goOn
		}
		return nil
	}), pgfairq.RunnerConfig{Queues: both, Logger: noteLogger{&lines}})
	f.enqueueOther("")
	<-begun
	execute(t, f.db, `CREATE FUNCTION unfit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER unfit BEFORE UPDATE ON fairq.q_other FOR EACH ROW EXECUTE FUNCTION unfit()`)
	close(goOn)
	until(t, "its end is refused", func() bool { return lines.count("the server refuses") >= 2 })
	f.enqueue(Send{}, nil)
	until(t, "a task of the other queue is done", func() bool { return f.left() == 0 })
	execute(t, f.db, "DROP TRIGGER unfit ON fairq.q_other")
	<-begun
	until(t, "it is done", func() bool { return f.leftOfOther() == 0 })
}

func TestAHookThatDoesNotReturn(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.enqueue(Send{To: "stuck"}, nil)
	never := make(chan struct{})
	defer close(never)
	stuck := make(chan struct{}, 1)
	runner := f.runner(sending(func(context.Context, *pgfairq.Job[Send]) error {
		return nil
	}), pgfairq.RunnerConfig{StopTimeout: time.Millisecond, Hooks: []pgfairq.Hooks{{
		After: func(_ context.Context, task *pgfairq.Task, _ pgfairq.End) {
			if strings.Contains(string(task.Payload), "stuck") {
				stuck <- struct{}{}
				<-never
			}
		},
		Stop: func(context.Context, *pgfairq.Runner) { <-never },
	}}})
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(background) }()
	<-stuck
	execute(t, f.db, "SELECT fairq.enqueue('emails', '{}', name => 'send') FROM generate_series(1, 20)")
	until(t, "others are settled", func() bool { return f.left() == 0 })
	f.ends(runner, ended)
}

func TestWhatDoesNotReturnDoesNotHoldAStop(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	f := newQueue(t, pgfairq.QueueOpts{})
	id := f.enqueue(Send{}, nil)
	begun := make(chan struct{})
	runner := f.runner(sending(func(context.Context, *pgfairq.Job[Send]) error {
		close(begun)
		<-never
		return nil
	}), pgfairq.RunnerConfig{StopTimeout: time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(background) }()
	<-begun
	f.ends(runner, ended)
	equal(t, "given back", string(f.get(id).State), "ready")

	started := make(chan struct{})
	runner = f.runner(sending(write), pgfairq.RunnerConfig{StopTimeout: time.Millisecond, Hooks: []pgfairq.Hooks{{
		Start: func(context.Context, *pgfairq.Runner) { close(started); <-never },
	}}})
	go func() { ended <- runner.Run(background) }()
	<-started
	f.ends(runner, ended)
}

// ends stops a runner, which ends within its time.
func (f *fixture) ends(runner *pgfairq.Runner, ended chan error) {
	f.Helper()
	go runner.Stop(background)
	select {
	case err := <-ended:
		f.must(err)
	case <-time.After(patience):
		f.Fatal("the runner does not end")
	}
}

func TestDrainDoesWhatHooksEnqueue(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.enqueue(Send{To: "first"}, nil)
	watch := open(t, dataSource(f.database)) // the pool's connection would have another last query
	var told notes
	f.drain(sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
		told.add(job.Args.To)
		return nil
	}), pgfairq.RunnerConfig{Hooks: []pgfairq.Hooks{{
		After: func(_ context.Context, task *pgfairq.Task, _ pgfairq.End) {
			if !strings.Contains(string(task.Payload), "first") {
				return
			}
			until(t, "a claim comes after the acknowledgement", func() bool {
				return number(t, watch, `SELECT count(*) FROM pg_stat_activity c, pg_stat_activity a
					WHERE c.datname = current_database() AND a.datname = c.datname AND c.state = 'idle'
					AND c.query LIKE '%fairq.claim_any%' AND a.query LIKE '%fairq.ack_many%'
					AND c.pid <> pg_backend_pid() AND a.pid <> pg_backend_pid()
					AND c.query_start > a.query_start`) > 0
			})
			f.enqueue(Send{To: "of a hook"}, nil)
		},
	}}})
	equal(t, "runs", told.String(), "first\nof a hook")
	equal(t, "left", f.left(), 0)
}

func TestAStopWithoutTimeForWorkersHasTimeForItsHook(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	var told notes
	f.drain(sending(write), pgfairq.RunnerConfig{StopTimeout: time.Nanosecond, Hooks: []pgfairq.Hooks{{
		Stop: func(context.Context, *pgfairq.Runner) {
			f.number("SELECT 1 FROM pg_sleep(0.2)")
			told.add("stop")
		},
	}}})
	equal(t, "hooks that have returned", told.count("stop"), 1)
}

func TestDrainDoesNotWaitForAQueueThatIsDropped(t *testing.T) {
	for _, queues := range [][]string{both, {"other"}} {
		f := newQueue(t, pgfairq.QueueOpts{})
		f.withOther()
		f.enqueueOther("")
		f.enqueue(Send{}, nil)
		runner := f.runner(sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
			if job.Queue == "other" {
				execute(t, f.db, "SELECT fairq.drop_queue('other')")
			}
			return nil
		}), pgfairq.RunnerConfig{Queues: queues, Concurrency: 1, Prefetch: -1})
		ended := make(chan error, 1)
		go func() { ended <- runner.Drain(background) }()
		select {
		case err := <-ended:
			f.must(err)
		case <-time.After(patience):
			t.Fatal("the drain does not end")
		}
		equal(t, "left", f.left(), 2-len(queues))
	}
}
