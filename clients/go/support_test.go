package pgfairq_test

// What the tests share: databases, queues, runners, waits for conditions. A test that needs a
// server has it of the environment, as test/run says: PGHOST, PGUSER, and FAIRQ_CLUSTER with its
// directory.

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgfairq"
)

// For a machine that hangs, not for one that is late.
const patience = 2 * time.Minute

var databases atomic.Int64

func dataSource(database string) string {
	return fmt.Sprintf("host=%s user=%s dbname=%s sslmode=disable", os.Getenv("PGHOST"), os.Getenv("PGUSER"), database)
}

func sqlOpen(source string) (*sql.DB, error) { return sql.Open(driverName, source) }

func open(t testing.TB, source string) *sql.DB {
	t.Helper()
	db, err := sqlOpen(source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t testing.TB, db pgfairq.DBTX, query string, arguments ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query, arguments...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// number returns the only value of a query.
func number(t testing.TB, db pgfairq.DBTX, query string, arguments ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(context.Background(), query, arguments...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// texts returns the values of a query of one column.
func texts(t testing.TB, db pgfairq.DBTX, query string, arguments ...any) []string {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), query, arguments...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	found := []string{}
	for rows.Next() {
		var one sql.NullString
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		found = append(found, one.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// newDatabase makes a database with the extension in it. It is dropped with the test, for each
// has a background worker.
func newDatabase(t testing.TB) (name string, db *sql.DB) {
	t.Helper()
	if driverName == "" || os.Getenv("FAIRQ_CLUSTER") == "" {
		t.Skip("no driver or no server; test/run has both")
	}
	name = fmt.Sprintf("test_go_%d_%d", os.Getpid(), databases.Add(1))
	makeDatabase(t, name)
	db = open(t, dataSource(name))
	execute(t, db, "CREATE EXTENSION pgfairq")
	return name, db
}

func makeDatabase(t testing.TB, name string) {
	t.Helper()
	admin := open(t, dataSource("postgres"))
	execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		admin := open(t, dataSource("postgres"))
		execute(t, admin, "DROP DATABASE "+name+" WITH (FORCE)")
	})
}

// fixture is a queue in a database of its own.
type fixture struct {
	testing.TB
	database string
	db       *sql.DB
	client   *pgfairq.Client
	queue    *pgfairq.Queue
}

func newQueue(t testing.TB, opts pgfairq.QueueOpts) *fixture {
	t.Helper()
	name, db := newDatabase(t)
	client := pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: "emails"})
	if opts.BackoffBase == 0 {
		opts.BackoffBase = pgfairq.None
	}
	f := &fixture{TB: t, database: name, db: db, client: client, queue: client.Queue("")}
	f.must(f.queue.Create(context.Background(), opts))
	execute(t, db, "CREATE TABLE sent (task bigint, attempt int, worker int)")
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) enqueue(args pgfairq.JobArgs, opts *pgfairq.EnqueueOpts) int64 {
	f.Helper()
	id, err := f.client.Enqueue(context.Background(), args, opts)
	f.must(err)
	return id
}

func (f *fixture) get(id int64) *pgfairq.TaskStatus {
	f.Helper()
	status, err := f.queue.Get(context.Background(), id)
	f.must(err)
	return status
}

func (f *fixture) number(query string, arguments ...any) int {
	f.Helper()
	return number(f, f.db, query, arguments...)
}

// left returns how many tasks there are in whatever state.
func (f *fixture) left() int {
	f.Helper()
	return f.number("SELECT count(*) FROM fairq.tasks('emails')")
}

// runner returns one that has not begun to run.
func (f *fixture) runner(workers *pgfairq.Workers, config pgfairq.RunnerConfig) *pgfairq.Runner {
	f.Helper()
	if config.Queues == nil {
		config.Queues = []string{"emails"}
	}
	if config.Logger == nil {
		config.Logger = testLogger{f}
	}
	runner, err := pgfairq.NewRunner(f.db, workers, config)
	f.must(err)
	return runner
}

// start runs a runner, which is stopped with the test.
func (f *fixture) start(workers *pgfairq.Workers, config pgfairq.RunnerConfig) *pgfairq.Runner {
	f.Helper()
	runner := f.runner(workers, config)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(context.Background()) }()
	f.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		runner.Stop(now)
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	})
	return runner
}

// drain runs a runner until nothing is left.
func (f *fixture) drain(workers *pgfairq.Workers, config pgfairq.RunnerConfig) {
	f.Helper()
	f.must(f.runner(workers, config).Drain(context.Background()))
}

// until asks until it holds.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v instead of %v", what, got, want)
	}
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q has no %q", text, part)
	}
}

// testLogger writes to the log of a test.
type testLogger struct{ testing.TB }

func (l testLogger) Debug(string, ...any)          {}
func (l testLogger) Info(string, ...any)           {}
func (l testLogger) Warn(msg string, args ...any)  { logged.note(msg, args) }
func (l testLogger) Error(msg string, args ...any) { logged.note(msg, args) }

var logged notes

// notes are lines that goroutines write and tests read.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) note(msg string, args []any) {
	n.add(msg + " " + fmt.Sprint(args...))
}

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notes) count(part string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, line := range n.lines {
		if strings.Contains(line, part) {
			count++
		}
	}
	return count
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

// Send is what most tests enqueue.
type Send struct {
	To string `json:"to"`
}

func (Send) Kind() string { return "send" }

// sending returns workers with a function for Send.
func sending(work func(ctx context.Context, job *pgfairq.Job[Send]) error) *pgfairq.Workers {
	return sendingWith(pgfairq.WorkerOpts{}, work)
}

func sendingWith(opts pgfairq.WorkerOpts, work func(ctx context.Context, job *pgfairq.Job[Send]) error) *pgfairq.Workers {
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorkerOpts(workers, pgfairq.WorkFunc(work), opts)
	return workers
}

// write notes in the transaction of the task that it is done.
func write(ctx context.Context, job *pgfairq.Job[Send]) error {
	tx, err := job.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO sent VALUES ($1, $2, $3)", job.ID, job.Attempt, os.Getpid())
	return err
}

// pgCtl controls the server of the suite.
func pgCtl(t testing.TB, arguments ...string) {
	t.Helper()
	cluster := os.Getenv("FAIRQ_CLUSTER")
	arguments = append([]string{"-D", filepath.Join(cluster, "data"), "-l", filepath.Join(cluster, "log"), "-w", "-t", "120", "-s"}, arguments...)
	if output, err := exec.Command("pg_ctl", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("pg_ctl: %v\n%s", err, output)
	}
}
