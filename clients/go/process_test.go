package pgfairq_test

// Runners in processes of their own, which are stopped, killed, or lose their server. Seen to
// fail:
// - "Long tasks": no heartbeats
// - "Kill -9": a session that is not bound
// - "Each once": commit before fairq.ack is asked
// - "SIGTERM": shutDown does not wait for those that run
// - "A second SIGTERM": no stop in the program, which README.md has, too

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgfairq"
)

// program is what a process does.
type program struct {
	Database    string
	Concurrency int
	TTL         time.Duration
	StopTimeout time.Duration
	Millis      int  // that a task takes
	Begin       bool // it notes what it has begun, outside of the transaction
	Stubborn    bool // it looks at no context
}

// TestMain is that of the tests, and of the processes that they start. Examples have a database
// of their own, that of the environment; without a server they are not run.
func TestMain(m *testing.M) {
	if text := os.Getenv("PGFAIRQ_TEST_PROGRAM"); text != "" {
		if err := runProgram(text); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("ended")
		return
	}
	flag.Parse()
	if driverName == "" || os.Getenv("FAIRQ_CLUSTER") == "" {
		if flag.Lookup("test.run").Value.String() == "" {
			flag.Set("test.run", "^Test")
		}
		os.Exit(m.Run())
	}
	os.Exit(withDatabase(m))
}

func withDatabase(m *testing.M) int {
	name := fmt.Sprintf("example_go_%d", os.Getpid())
	admin, err := sqlOpen(dataSource("postgres"))
	if err != nil {
		log.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		log.Fatal(err)
	}
	defer func() {
		if _, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			log.Print(err)
		}
	}()
	os.Setenv("PGDATABASE", name)
	db, err := sqlOpen(dataSource(name))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE EXTENSION pgfairq"); err != nil {
		log.Print(err)
		return 1
	}
	return m.Run()
}

func runProgram(text string) error {
	var p program
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	db, err := sqlOpen(dataSource(p.Database))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); stop() }()
	config := pgfairq.RunnerConfig{Queues: []string{"emails"}, Concurrency: p.Concurrency, TTL: p.TTL, StopTimeout: p.StopTimeout,
		Prefetch: 20, Logger: stderrLogger{}}
	runner, err := pgfairq.NewRunner(db, sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if p.Begin {
			if _, err := db.Exec("INSERT INTO begun VALUES ($1, $2)", job.ID, os.Getpid()); err != nil {
				return err
			}
		}
		fmt.Println("begun")
		done := ctx.Done()
		if p.Stubborn {
			done = nil
		}
		select {
		case <-time.After(time.Duration(p.Millis) * time.Millisecond):
		case <-done:
			return ctx.Err()
		}
		return write(ctx, job)
	}), config)
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

type stderrLogger struct{}

func (stderrLogger) Debug(string, ...any)          {}
func (stderrLogger) Info(string, ...any)           {}
func (stderrLogger) Warn(msg string, args ...any)  { fmt.Fprintln(os.Stderr, "#", msg, args) }
func (stderrLogger) Error(msg string, args ...any) { fmt.Fprintln(os.Stderr, "#", msg, args) }

type process struct {
	*exec.Cmd
	lines notes
	ended chan error
}

// process runs a process, which is killed with the test.
func (f *fixture) process(p program) *process {
	f.Helper()
	p.Database = f.database
	text, err := json.Marshal(p)
	f.must(err)
	one := &process{Cmd: exec.Command(os.Args[0]), ended: make(chan error, 1)}
	one.Env = append(os.Environ(), "PGFAIRQ_TEST_PROGRAM="+string(text))
	one.Stderr = os.Stderr
	output, err := one.StdoutPipe()
	f.must(err)
	f.must(one.Start())
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			one.lines.add(lines.Text())
		}
		one.ended <- one.Wait()
	}()
	f.Cleanup(func() { one.Process.Kill() })
	return one
}

func (f *fixture) enqueueMany(count int) {
	f.Helper()
	var params []pgfairq.EnqueueParams
	for n := 0; n < count; n++ {
		params = append(params, pgfairq.EnqueueParams{Args: Send{}, Opts: &pgfairq.EnqueueOpts{Group: fmt.Sprint(n % 7)}})
	}
	_, err := f.client.EnqueueMany(context.Background(), params)
	f.must(err)
}

func processQueue(t *testing.T, opts pgfairq.QueueOpts) *fixture {
	t.Helper()
	f := newQueue(t, opts)
	execute(t, f.db, "CREATE TABLE begun (task bigint, worker int)")
	return f
}

func (f *fixture) states() string {
	f.Helper()
	return strings.Join(texts(f, f.db, "SELECT state || ' ' || attempts || ' ' || lost FROM fairq.tasks('emails') ORDER BY id"), ", ")
}

func TestLongTasksWithAShortSession(t *testing.T) {
	f := processQueue(t, pgfairq.QueueOpts{MaxAttempts: 2})
	f.enqueueMany(8)
	run := program{TTL: 10 * time.Second, Concurrency: 2, Begin: true, Millis: 6000}
	one, other := f.process(run), f.process(run)
	until(t, "all are done", func() bool { return f.number("SELECT count(*) FROM sent") == 8 })
	equal(t, "begun", f.number("SELECT count(*) FROM begun"), 8)
	equal(t, "tasks", f.number("SELECT count(DISTINCT task) FROM sent"), 8)
	equal(t, "left", f.left(), 0)
	for _, p := range []*process{one, other} {
		p.Process.Signal(syscall.SIGTERM)
		f.must(<-p.ended)
		equal(t, "ended", p.lines.count("ended"), 1)
	}
}

func TestKill9GivesTasksToOthersAtOnce(t *testing.T) {
	f := processQueue(t, pgfairq.QueueOpts{})
	f.enqueueMany(5)
	run := program{TTL: 10 * time.Minute, Concurrency: 5, Begin: true, Millis: 1_000_000} // it is no heartbeat that is missed
	first := f.process(run)
	until(t, "all have begun", func() bool { return f.number("SELECT count(*) FROM begun") == 5 })
	f.must(first.Process.Kill())
	<-first.ended
	run.Millis = 0
	f.process(run)
	until(t, "all are done", func() bool { return f.left() == 0 })
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 5)
	equal(t, "tasks", f.number("SELECT count(DISTINCT task) FROM sent WHERE attempt = 2"), 5)
}

func TestSigtermLetsWorkersEnd(t *testing.T) {
	f := processQueue(t, pgfairq.QueueOpts{MaxAttempts: 1})
	f.enqueueMany(10)
	p := f.process(program{Concurrency: 2, Begin: true, Millis: 500})
	until(t, "some have begun", func() bool { return p.lines.count("begun") >= 2 })
	f.must(p.Process.Signal(syscall.SIGTERM))
	f.must(<-p.ended)
	equal(t, "ended", p.lines.count("ended"), 1)
	sent := f.number("SELECT count(*) FROM sent")
	equal(t, "sent", sent, f.number("SELECT count(*) FROM begun"))
	equal(t, "left", f.states(), strings.TrimSuffix(strings.Repeat("ready 0 0, ", 10-sent), ", "))
}

func TestSigtermGivesBackWhatDoesNotEndInTime(t *testing.T) {
	f := processQueue(t, pgfairq.QueueOpts{MaxAttempts: 1})
	f.enqueueMany(1)
	p := f.process(program{StopTimeout: 50 * time.Millisecond, Begin: true, Millis: 1_000_000, Stubborn: true})
	until(t, "it has begun", func() bool { return p.lines.count("begun") == 1 })
	f.must(p.Process.Signal(syscall.SIGTERM))
	f.must(<-p.ended)
	equal(t, "left", f.states(), "ready 0 0")
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 0)
}

func TestASecondSigtermDoesNotWait(t *testing.T) {
	f := processQueue(t, pgfairq.QueueOpts{MaxAttempts: 1})
	f.enqueueMany(1)
	p := f.process(program{StopTimeout: time.Hour, Begin: true, Millis: 1_000_000, Stubborn: true})
	until(t, "it has begun", func() bool { return p.lines.count("begun") == 1 })
	var ended error
	until(t, "the process is at its end", func() bool {
		p.Process.Signal(syscall.SIGTERM) // the first, and one after it was seen
		select {
		case ended = <-p.ended:
			return true
		default:
			return false
		}
	})
	if ended == nil || p.lines.count("ended") != 0 {
		t.Errorf("it has ended by itself: %v", ended)
	}
	until(t, "its task is put back", func() bool {
		f.number("SELECT fairq.maintain('emails')") // the database may have no background worker
		return f.states() == "ready 0 1"
	})
}

func TestEachOnceThroughKillsAndRestarts(t *testing.T) {
	const tasks = 4000
	f := processQueue(t, pgfairq.QueueOpts{MaxAttempts: 1000, MaxLost: 1000, BackoffMax: pgfairq.None})
	for n := 0; n < tasks; n += 1000 {
		f.enqueueMany(1000)
	}
	run := program{TTL: time.Minute}
	processes := []*process{f.process(run), f.process(run), f.process(run)}
	done := func() int {
		var n int
		if f.db.QueryRow("SELECT count(*) FROM sent").Scan(&n) != nil {
			return 0 // the server is starting again
		}
		return n
	}
	for part, what := range []string{"kill", "fast", "immediate", "kill"} {
		until(t, "a part is done before the "+what, func() bool { return done() >= tasks*(part+1)/6 })
		if what == "kill" {
			f.must(processes[0].Process.Kill())
			<-processes[0].ended
			processes = append(processes[1:], f.process(run))
		} else {
			pgCtl(t, "restart", "-m", what)
		}
	}
	until(t, "all are done", func() bool { return done() >= tasks })
	until(t, "nothing is left", func() bool {
		var n int
		return f.db.QueryRow("SELECT count(*) FROM fairq.tasks('emails')").Scan(&n) == nil && n == 0
	})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), tasks)
	equal(t, "tasks", f.number("SELECT count(DISTINCT task) FROM sent"), tasks)
	for _, p := range processes {
		f.must(p.Process.Signal(syscall.SIGTERM))
		f.must(<-p.ended)
	}
}
