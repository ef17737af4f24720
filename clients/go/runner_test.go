package pgfairq_test

// What a runner does with tasks, in one process. Seen to fail:
// - "A transaction and its acknowledgement": commit before fairq.ack is asked; a begin in the
//   context of the caller
// - "A timeout": no timer in work
// - "A task that is cancelled": no look at what is held with the heartbeat
// - "MaxAttempts of a worker": the attempts of claims in place of those that failed
// - "What an error means": Unrecoverable is not final; Cancel is a failure
// - "A fallback": it is not asked for
// - "Stop": no wait for those that run
// - "Ahead of slow tasks": what has not begun is kept
// - "Hooks and logs": Dead is not called
// - "A result": keep_done is not asked for

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgfairq"
)

func TestTasksAreDone(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	id := f.enqueue(Send{To: "ann"}, &pgfairq.EnqueueOpts{Group: "42", Headers: map[string]any{"a": 1.5}, Priority: pgfairq.Ptr(0)})
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		equal(t, "id", job.ID, id)
		equal(t, "to", job.Args.To, "ann")
		equal(t, "task", fmt.Sprint(job.Queue, job.Group, job.Subgroup, job.Name, job.Attempt, job.Priority), "emails42send1 0")
		equal(t, "header", fmt.Sprint(job.Headers), "map[a:1.5]")
		equal(t, "payload", string(job.Payload), `{"to": "ann"}`)
		if since := time.Since(job.EnqueuedAt); since < -time.Minute || since > time.Hour || !job.ExpiresAt.IsZero() {
			t.Errorf("enqueued at %v, expires at %v", job.EnqueuedAt, job.ExpiresAt)
		}
		return write(ctx, job)
	}), pgfairq.RunnerConfig{})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 1)
	equal(t, "left", f.left(), 0)
}

func TestManyTasksEachOnce(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	var params []pgfairq.EnqueueParams
	for n := 0; n < 2000; n++ {
		params = append(params, pgfairq.EnqueueParams{Args: Send{To: fmt.Sprint(n)}, Opts: &pgfairq.EnqueueOpts{Group: fmt.Sprint(n % 7)}})
	}
	ids, err := f.client.EnqueueMany(context.Background(), params)
	f.must(err)
	equal(t, "ids", len(ids), 2000)
	var plain atomic.Int64
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if job.ID%2 == 0 {
			plain.Add(1) // acknowledged with others
			return nil
		}
		return write(ctx, job)
	}), pgfairq.RunnerConfig{})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 1000)
	equal(t, "tasks", f.number("SELECT count(DISTINCT task) FROM sent"), 1000)
	equal(t, "without a transaction", plain.Load(), 1000)
	equal(t, "left", f.left(), 0)
	equal(t, "sessions", f.number("SELECT count(*) FROM fairq.sessions"), 0)
}

func TestATransactionAndItsAcknowledgementAreOne(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 2})
	execute(t, f.db, "CREATE TABLE late (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	for _, how := range []string{"good", "returns", "panics", "goes on", "commits", "at the commit", "caller's context"} {
		f.enqueue(Send{To: how}, nil)
	}
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		caller, cancel := context.WithCancel(ctx)
		tx, err := job.Tx(caller)
		cancel()
		if err != nil {
			return err
		}
		again, err := job.Tx(ctx)
		if err != nil || again != tx {
			t.Errorf("another transaction, %v", err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO sent VALUES ($1)", job.ID); err != nil {
			return err
		}
		switch job.Args.To {
		case "returns":
			return errors.New("no")
		case "panics":
			panic("no")
		case "goes on":
			tx.ExecContext(ctx, "SELECT 1 / 0")
		case "commits":
			tx.Rollback()
		case "at the commit":
			_, err = tx.ExecContext(ctx, "INSERT INTO late VALUES (1), (1)")
		}
		return err
	}), pgfairq.RunnerConfig{Concurrency: 1})
	equal(t, "sent", strings.Join(texts(t, f.db, "SELECT task FROM sent ORDER BY task"), " "), "1 7")
	for id, part := range map[int64]string{2: "no", 3: "panic: no", 4: "a statement in the transaction of the task failed",
		5: "the handler has ended the transaction", 6: "late_a_key"} {
		status := f.get(id)
		equal(t, "state", status.State, pgfairq.StateDead)
		equal(t, "attempts", status.Attempts, 2)
		contains(t, status.LastError, part)
	}
	contains(t, f.get(3).LastError, "runner_test.go") // the stack
	// what was lent is given back
	until(t, "no connection is in use", func() bool { return f.db.Stats().InUse == 0 })
}

func TestWhatAnErrorMeans(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{KeepDone: time.Hour, MaxAttempts: 3})
	cause := errors.New("the scanner is off")
	kinds := map[string]func() error{
		"plain":       func() error { return fmt.Errorf("scan: %w", cause) },
		"hopeless":    func() error { return fmt.Errorf("scan: %w", pgfairq.Unrecoverable(cause)) },
		"not wanted":  func() error { return pgfairq.Cancel(cause) },
		"later":       func() error { return pgfairq.Snooze(time.Hour) },
		"retry":       func() error { return pgfairq.RetryAfter(cause, time.Hour) },
		"given up":    func() error { return sql.ErrNoRows },
		"bad snooze":  func() error { return pgfairq.Snooze(-time.Second) },
		"long snooze": func() error { return pgfairq.Snooze(20 * 365 * 24 * time.Hour) },
		"bytes":       func() error { return errors.New("a\x00b\xff" + strings.Repeat("é", 9000)) },
		"nothing":     func() error { return pgfairq.Unrecoverable(nil) },
	}
	ids := map[string]int64{}
	for kind := range kinds {
		ids[kind] = f.enqueue(Send{To: kind}, &pgfairq.EnqueueOpts{MaxAttempts: 2})
	}
	unknown := f.enqueue(unknownArgs{}, nil)
	execute(t, f.db, `SELECT fairq.enqueue('emails', '"no object"', name => 'send', max_attempts => 1)`)
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		tx, err := job.Tx(ctx)
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO sent VALUES ($1)", job.ID)
		}
		if err != nil {
			return err
		}
		return kinds[job.Args.To]()
	}), pgfairq.RunnerConfig{GiveUp: func(err error) bool { return errors.Is(err, sql.ErrNoRows) }})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 0)
	for _, one := range []struct {
		kind     string
		state    pgfairq.State
		attempts int
		last     string
	}{
		{"plain", pgfairq.StateDead, 2, "scan: the scanner is off"},
		{"hopeless", pgfairq.StateDead, 1, "scan: the scanner is off"},
		{"later", pgfairq.StateScheduled, 0, ""},
		{"retry", pgfairq.StateScheduled, 1, "the scanner is off"},
		{"given up", pgfairq.StateDead, 1, sql.ErrNoRows.Error()},
		{"bad snooze", pgfairq.StateDead, 2, "the delay of Snooze is -1s"},
		{"long snooze", pgfairq.StateDead, 2, "175200:00:00"},
		{"bytes", pgfairq.StateDead, 2, `a\0b�é`},
		{"nothing", pgfairq.StateDead, 1, "no reason was given"},
	} {
		status := f.get(ids[one.kind])
		equal(t, one.kind, fmt.Sprint(status.State, status.Attempts), fmt.Sprint(one.state, one.attempts))
		contains(t, status.LastError, one.last)
	}
	if size := len(f.get(ids["bytes"]).LastError); size < 8000 || size > 8100 {
		t.Errorf("an error of %d bytes", size)
	}
	outcome, err := f.queue.Outcome(context.Background(), ids["not wanted"])
	f.must(err)
	equal(t, "not wanted", outcome.State, pgfairq.StateCancelled)
	equal(t, "unknown", f.get(unknown).LastError, `there is no worker of "unknown" here`)
	contains(t, f.get(unknown+1).LastError, "the payload is no pgfairq_test.Send")
}

type unknownArgs struct{}

func (unknownArgs) Kind() string { return "unknown" }

func TestOptionsOfAWorker(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{BackoffBase: time.Hour})
	opts := pgfairq.WorkerOpts{
		MaxAttempts: 3,
		Backoff: func(attempt int) time.Duration {
			if attempt == 1 {
				return time.Millisecond
			}
			return 0
		},
		GiveUp: func(err error) bool { return err.Error() == "give up" },
	}
	tried := f.enqueue(Send{To: "try"}, nil)
	given := f.enqueue(Send{To: "give up"}, nil)
	careless := f.enqueue(Send{To: "panic"}, nil)
	opts.GiveUp = func(err error) bool {
		if err.Error() == "panic" {
			panic("GiveUp")
		}
		return err.Error() == "give up"
	}
	f.start(sendingWith(opts, func(_ context.Context, job *pgfairq.Job[Send]) error {
		return errors.New(job.Args.To)
	}), pgfairq.RunnerConfig{})
	until(t, "two are dead", func() bool { return f.number("SELECT count(*) FROM fairq.dead_tasks") == 2 })
	equal(t, "tried", f.get(tried).Attempts, 3)
	equal(t, "given up", f.get(given).Attempts, 1)
	until(t, "GiveUp has panicked", func() bool { return strings.Contains(f.get(careless).LastError, "panic: GiveUp") })
}

func TestMaxAttemptsOfAWorkerDoNotCountLosses(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	id := f.enqueue(Send{}, nil)
	execute(t, f.db, "SELECT fairq.claim('emails', lease => '1 ms')")
	until(t, "it is lost", func() bool {
		f.number("SELECT fairq.maintain('emails')") // the database may have no background worker
		return f.get(id).Lost == 1 && f.get(id).State == pgfairq.StateReady
	})
	f.drain(sendingWith(pgfairq.WorkerOpts{MaxAttempts: 2}, func(_ context.Context, job *pgfairq.Job[Send]) error {
		return fmt.Errorf("run %d", job.Attempt)
	}), pgfairq.RunnerConfig{})
	status := f.get(id)
	equal(t, "attempts", status.Attempts, 2)
	equal(t, "last", status.LastError, "run 3")
}

func TestATimeoutEndsAnAttempt(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	for _, how := range []string{"waits", "queries", "own error", "late"} {
		f.enqueue(Send{To: how}, &pgfairq.EnqueueOpts{MaxAttempts: 1})
	}
	f.drain(sendingWith(pgfairq.WorkerOpts{Timeout: 100 * time.Millisecond}, func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		if job.Args.To == "own error" {
			<-ctx.Done()
			return errors.New("half of it")
		}
		if err := write(ctx, job); err != nil {
			return err
		}
		switch job.Args.To {
		case "queries":
			tx, err := job.Tx(ctx)
			if err == nil {
				_, err = tx.ExecContext(ctx, "SELECT pg_sleep(1000)")
			}
			return err
		case "late":
			<-ctx.Done()
			return nil
		}
		<-ctx.Done()
		if !errors.Is(pgfairq.Cause(ctx), pgfairq.ErrTimeout) {
			t.Errorf("cause %v", pgfairq.Cause(ctx))
		}
		return ctx.Err()
	}), pgfairq.RunnerConfig{})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 0)
	for id, last := range map[int64]string{1: "pgfairq: the handler has taken too long: more than 100ms",
		2: "pgfairq: the handler has taken too long: more than 100ms", 3: "pgfairq: the handler has taken too long: more than 100ms: half of it",
		4: "pgfairq: the handler has taken too long: more than 100ms"} {
		contains(t, f.get(id).LastError, last)
	}
}

func TestATaskThatIsCancelledEndsItsContext(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	ids := []int64{f.enqueue(Send{To: "waits"}, nil), f.enqueue(Send{To: "queries"}, nil)}
	begun, ended := make(chan string, 2), make(chan error, 2)
	var lost notes
	f.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if err := write(ctx, job); err != nil {
			return err
		}
		begun <- job.Args.To
		if job.Args.To == "queries" {
			tx, _ := job.Tx(ctx)
			tx.ExecContext(ctx, "SELECT pg_sleep(1000)")
		}
		<-ctx.Done()
		ended <- pgfairq.Cause(ctx)
		if _, err := job.Tx(ctx); err != pgfairq.Cause(ctx) {
			t.Errorf("Tx of a lost task: %v", err)
		}
		return nil
	}), pgfairq.RunnerConfig{TTL: 8 * time.Second, Hooks: []pgfairq.Hooks{{
		Lost: func(_ context.Context, task *pgfairq.Task, reason error) {
			lost.add(fmt.Sprint("hook ", task.ID, " ", reason))
		},
		After: func(_ context.Context, task *pgfairq.Task, end pgfairq.End) {
			lost.add(fmt.Sprint("after ", task.ID, " ", end.Outcome))
		},
	}}})
	<-begun
	<-begun
	for _, id := range ids {
		was, err := f.queue.Cancel(context.Background(), id)
		f.must(err)
		equal(t, "cancelled", was, true)
	}
	for range ids {
		if err := <-ended; !errors.Is(err, pgfairq.ErrLeaseLost) {
			t.Errorf("cause %v", err)
		}
	}
	until(t, "the hooks are told", func() bool { return lost.count("after") == 2 })
	equal(t, "lost", lost.count("hook"), 2)
	equal(t, "outcome lost", lost.count("after 1 lost")+lost.count("after 2 lost"), 2)
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 0)
	// the runner goes on, under the same session
	f.enqueue(Send{To: "waits"}, nil)
	<-begun
	equal(t, "sessions", f.number("SELECT count(*) FROM fairq.sessions"), 1)
}

func TestResultProgressAndExtend(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{KeepDone: time.Hour})
	f.must(f.client.Queue("plain").Create(context.Background(), pgfairq.QueueOpts{}))
	id, inTx := f.enqueue(Send{To: "ann"}, nil), f.enqueue(Send{To: "tx"}, nil)
	bad := f.enqueue(Send{To: "bad"}, &pgfairq.EnqueueOpts{MaxAttempts: 1})
	f.enqueue(Send{To: "plain"}, &pgfairq.EnqueueOpts{Queue: "plain"})
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if job.Args.To == "bad" {
			if err := job.SetResult(make(chan int)); err == nil {
				t.Error("a channel has JSON")
			}
			return job.SetResult("\x00")
		}
		if job.Args.To == "tx" {
			if err := write(ctx, job); err != nil {
				return err
			}
		}
		if err := job.Progress(ctx, map[string]int{"pages": 3}); err != nil {
			return err
		}
		equal(t, "progress", string(mustGet(t, f.client.Queue(job.Queue), job.ID).Progress), `{"pages":3}`)
		until, err := job.Extend(ctx)
		if err != nil || !until.After(time.Now()) {
			t.Errorf("extended until %v, %v", until, err)
		}
		return job.SetResult(map[string]string{"sent": job.Args.To})
	}), pgfairq.RunnerConfig{Queues: []string{"emails", "plain"}})
	ctx := context.Background()
	for _, one := range []int64{id, inTx} {
		var result map[string]string
		f.must(f.queue.Result(ctx, one, &result))
		if result["sent"] == "" {
			t.Errorf("result %v", result)
		}
	}
	var failed *pgfairq.TaskError
	if err := f.queue.Result(ctx, bad, nil); !errors.As(err, &failed) || failed.State != "dead" || failed.ID != bad {
		t.Errorf("result of a dead task: %v", err)
	}
	contains(t, failed.Error(), "dead: ")
	// a queue that keeps nothing takes an acknowledgement with a result all the same
	equal(t, "left of it", f.number("SELECT count(*) FROM fairq.tasks('plain')"), 0)
}

func mustGet(t *testing.T, q *pgfairq.Queue, id int64) *pgfairq.TaskStatus {
	t.Helper()
	status, err := q.Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestAFallbackDoesWhatHasNoWorker(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	execute(t, f.db, `SELECT fairq.enqueue('emails', '[1]'), fairq.enqueue('emails', '2', name => 'other'),
		fairq.enqueue('emails', '{"to": "x"}', headers => '{"task": "send"}')`)
	var seen notes
	workers := sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
		seen.add("send " + job.Args.To)
		return nil
	})
	pgfairq.AddFallback(workers, func(_ context.Context, job *pgfairq.Job[json.RawMessage]) error {
		seen.add(fmt.Sprintf("%q %s", job.Name, job.Args))
		return nil
	}, pgfairq.WorkerOpts{})
	f.drain(workers, pgfairq.RunnerConfig{Concurrency: 1})
	equal(t, "seen", seen.String(), "\"\" [1]\n\"other\" 2\nsend x")
}

func TestStopLetsWorkersEndAndGivesBackTheRest(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 1})
	for n := 0; n < 10; n++ {
		f.enqueue(Send{}, nil)
	}
	begun, goOn := make(chan int64, 10), make(chan struct{})
	runner := f.runner(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		begun <- job.ID
		<-goOn
		return write(ctx, job)
	}), pgfairq.RunnerConfig{Concurrency: 3})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	for n := 0; n < 3; n++ {
		<-begun
	}
	cancel()
	until(t, "what has not begun is given back", func() bool {
		return f.number("SELECT count(*) FROM fairq.tasks('emails', 'ready')") == 7
	})
	select {
	case err := <-ended:
		t.Errorf("Run has not waited: %v", err)
	default:
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 3)
	equal(t, "ready, not tried", f.number("SELECT count(*) FROM fairq.tasks('emails', 'ready') WHERE attempts = 0 AND lost = 0"), 7)
	equal(t, "sessions", f.number("SELECT count(*) FROM fairq.sessions"), 0)
	if err := runner.Run(context.Background()); err == nil {
		t.Error("a runner has run twice")
	}
}

func TestStopGivesBackWhatDoesNotEnd(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 1})
	id := f.enqueue(Send{}, nil)
	begun, ended := make(chan error, 1), make(chan error, 1)
	var told notes
	runner := f.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if err := write(ctx, job); err != nil {
			return err
		}
		begun <- nil
		<-ctx.Done()
		ended <- pgfairq.Cause(ctx)
		return nil
	}), pgfairq.RunnerConfig{Hooks: []pgfairq.Hooks{{
		Lost:  func(context.Context, *pgfairq.Task, error) { told.add("lost") },
		After: func(_ context.Context, _ *pgfairq.Task, end pgfairq.End) { told.add(string(end.Outcome)) },
	}}})
	<-begun
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := runner.Stop(now); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v", err)
	}
	if err := <-ended; !errors.Is(err, pgfairq.ErrStopped) {
		t.Errorf("cause %v", err)
	}
	status := f.get(id)
	equal(t, "task", fmt.Sprint(status.State, status.Attempts, status.Lost), "ready0 0")
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 0)
	until(t, "the hook is told", func() bool { return told.String() == "returned" })
	if err := runner.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestAheadOfSlowTasksNothingIsKept(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	var params []pgfairq.EnqueueParams
	for n := 0; n < 400; n++ {
		params = append(params, pgfairq.EnqueueParams{Args: Send{To: "quick"}})
	}
	params[200].Args = Send{To: "slow"}
	_, err := f.client.EnqueueMany(context.Background(), params)
	f.must(err)
	release := make(chan struct{})
	var done atomic.Int64
	work := sending(func(_ context.Context, job *pgfairq.Job[Send]) error {
		if job.Args.To == "slow" {
			<-release
		}
		done.Add(1)
		return nil
	})
	f.start(work, pgfairq.RunnerConfig{Concurrency: 1})
	f.start(work, pgfairq.RunnerConfig{Concurrency: 1})
	until(t, "the others are done by the other runner", func() bool { return done.Load() == 399 })
	close(release)
	until(t, "all are done", func() bool { return f.left() == 0 })
}

func TestHooksAndLogs(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.client = pgfairq.NewClient(f.db, &pgfairq.ClientConfig{Queue: "emails", Hooks: []pgfairq.Hooks{{
		Enqueue: func(ctx context.Context, task *pgfairq.NewTask) {
			task.Opts.Headers["trace"] = fmt.Sprint(ctx.Value(key("trace")), task.Name)
		},
	}}})
	ctx := context.WithValue(context.Background(), key("trace"), "t1 ")
	_, err := f.client.Enqueue(ctx, Send{To: "good"}, nil)
	f.must(err)
	_, err = f.client.EnqueueMany(ctx, []pgfairq.EnqueueParams{{Args: Send{To: "bad"}, Opts: &pgfairq.EnqueueOpts{MaxAttempts: 2}}})
	f.must(err)
	var told, lines notes
	tell := func(what string) func(context.Context, *pgfairq.Task, error) {
		return func(ctx context.Context, task *pgfairq.Task, err error) {
			told.add(fmt.Sprint(what, " ", task.ID, " ", err, " ", ctx.Value(key("span")), " ", ctx.Err()))
		}
	}
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		told.add(fmt.Sprint("work ", ctx.Value(key("span"))))
		if job.Args.To == "bad" {
			return errors.New("no")
		}
		return nil
	}), pgfairq.RunnerConfig{Concurrency: 1, Prefetch: -1, Logger: noteLogger{&lines}, Hooks: []pgfairq.Hooks{{
		Start: func(_ context.Context, r *pgfairq.Runner) {
			told.add("start " + fmt.Sprint(r.Queues(), r.Name() != ""))
		},
		Stop:   func(context.Context, *pgfairq.Runner) { told.add("stop") },
		Failed: tell("failed"),
		Dead:   tell("dead"),
	}, {
		Before: func(ctx context.Context, task *pgfairq.Task) context.Context {
			return context.WithValue(ctx, key("span"), fmt.Sprint("span of ", task.Headers["trace"]))
		},
		After: func(ctx context.Context, task *pgfairq.Task, end pgfairq.End) {
			tell("after")(ctx, task, fmt.Errorf("%s %v", end.Outcome, end.Err))
			if end.Duration <= 0 {
				t.Error("no duration")
			}
		},
	}, {
		Before: func(context.Context, *pgfairq.Task) context.Context { panic("a hook") },
	}}})
	span := "span of t1 send"
	want := []string{"start [emails] true", "work " + span, "after 1 completed <nil> " + span + " <nil>"}
	for attempt := 1; attempt <= 2; attempt++ {
		want = append(want, "work "+span, "failed 2 no "+span+" <nil>")
		if attempt == 2 {
			want = append(want, "dead 2 no "+span+" <nil>", "after 2 dead no "+span+" <nil>")
		} else {
			want = append(want, "after 2 failed no "+span+" <nil>")
		}
	}
	want = append(want, "stop")
	got := told.String()
	// a task that fails may begin anew before the hooks of its failure are called
	for _, line := range want {
		equal(t, line, strings.Count("\n"+got+"\n", "\n"+line+"\n") > 0, true)
	}
	equal(t, "lines told", strings.Count(got, "\n")+1, len(want))
	for _, part := range []string{"runner starts", "WARN an attempt has failed", "ERROR a task is dead", "runner has stopped",
		"ERROR a hook has panicked"} {
		if lines.count(part) == 0 {
			t.Errorf("no line %q in\n%s", part, lines.String())
		}
	}
	for _, attribute := range []string{"task 2", "queue emails", "group ", "name send", "attempt 2", "outcome dead", "err no", "duration "} {
		if lines.count(attribute) == 0 {
			t.Errorf("no line has %q in\n%s", attribute, lines.String())
		}
	}
}

type key string

// noteLogger keeps all lines, with their levels.
type noteLogger struct{ notes *notes }

func (l noteLogger) line(level, msg string, args []any) {
	for n := 0; n+1 < len(args); n += 2 {
		msg += fmt.Sprintf(" %v %v", args[n], args[n+1])
	}
	l.notes.add(level + " " + msg)
}

func (l noteLogger) Debug(msg string, args ...any) { l.line("DEBUG", msg, args) }
func (l noteLogger) Info(msg string, args ...any)  { l.line("INFO", msg, args) }
func (l noteLogger) Warn(msg string, args ...any)  { l.line("WARN", msg, args) }
func (l noteLogger) Error(msg string, args ...any) { l.line("ERROR", msg, args) }

func TestARunnerThatCannotStart(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	workers := sending(func(context.Context, *pgfairq.Job[Send]) error { return nil })
	err := f.runner(workers, pgfairq.RunnerConfig{Queues: []string{"emails", "nowhere"}}).Run(context.Background())
	if err == nil || err.Error() != `pgfairq: there is no queue "nowhere"; make it with Queue.Create or fairq.create_queue` {
		t.Errorf("no queue: %v", err)
	}
	execute(t, f.db, "CREATE ROLE go_stranger_"+f.database+" LOGIN")
	t.Cleanup(func() {
		execute(t, f.db, "DROP OWNED BY go_stranger_"+f.database+"; DROP ROLE go_stranger_"+f.database)
	})
	execute(t, f.db, "GRANT USAGE ON SCHEMA fairq TO go_stranger_"+f.database)
	stranger := open(t, strings.Replace(dataSource(f.database), "user="+os.Getenv("PGUSER"), "user=go_stranger_"+f.database, 1))
	runner, err := pgfairq.NewRunner(stranger, workers, pgfairq.RunnerConfig{Queues: []string{"emails"}, Logger: pgfairq.DiscardLogger})
	f.must(err)
	if err := runner.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "GRANT SELECT, UPDATE, DELETE ON fairq.q_emails") {
		t.Errorf("no privilege: %v", err)
	}
	f.db.SetMaxOpenConns(2)
	if _, err := pgfairq.NewRunner(f.db, workers, pgfairq.RunnerConfig{Queues: []string{"emails"}}); err == nil ||
		!strings.Contains(err.Error(), "the pool allows 2 connections; a runner needs 3") {
		t.Errorf("a small pool: %v", err)
	}
	f.db.SetMaxOpenConns(1)
	if _, err := pgfairq.NewRunner(f.db, workers, pgfairq.RunnerConfig{Queues: []string{"emails"}, Direct: f.db}); err == nil ||
		!strings.Contains(err.Error(), "the pool Direct allows 1 connection; a runner needs 2") {
		t.Errorf("a small direct pool: %v", err)
	}
}

func TestAPoolOfThreeConnections(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	for n := 0; n < 20; n++ {
		f.enqueue(Send{}, nil)
	}
	f.db.SetMaxOpenConns(4)
	f.drain(sending(write), pgfairq.RunnerConfig{Concurrency: 5})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 20)
}

func TestStopBeforeRun(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	runner := f.runner(sending(write), pgfairq.RunnerConfig{})
	f.must(runner.Stop(context.Background()))
	if err := runner.Run(context.Background()); err == nil {
		t.Error("a runner that was stopped has run")
	}
}
