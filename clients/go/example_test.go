package pgfairq_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"pgfairq"
)

// SendArgs is a task: an email that is to be sent.
type SendArgs struct {
	To string `json:"to"`
}

func (SendArgs) Kind() string { return "send" }

// SendWorker does it. What it needs is in its fields.
type SendWorker struct{ from string }

func (w *SendWorker) Work(ctx context.Context, job *pgfairq.Job[SendArgs]) error {
	fmt.Printf("from %s to %s\n", w.from, job.Args.To)
	return nil
}

func Example() {
	ctx := context.Background()
	db, err := sql.Open("postgres", "sslmode=disable") // PGHOST, PGDATABASE … say where
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	client := pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: "emails"})
	if err := client.Queue("").CreateIfNotExists(ctx, pgfairq.QueueOpts{MaxAttempts: 5}); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Enqueue(ctx, SendArgs{To: "ann@example.com"}, &pgfairq.EnqueueOpts{Group: "42"}); err != nil {
		log.Fatal(err)
	}

	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker[SendArgs](workers, &SendWorker{from: "ops@example.com"})
	runner, err := pgfairq.NewRunner(db, workers, pgfairq.RunnerConfig{
		Queues: []string{"emails"},
		Logger: pgfairq.DiscardLogger,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Drain(ctx); err != nil { // one that stays: Run
		log.Fatal(err)
	}
	// Output: from ops@example.com to ann@example.com
}

// Run until SIGTERM or Ctrl-C; then workers may end, and what does not is given back. A second
// signal does not wait.
func ExampleRunner_Run() {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		log.Fatal(err)
	}
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker[SendArgs](workers, &SendWorker{from: "ops@example.com"})
	runner, err := pgfairq.NewRunner(db, workers, pgfairq.RunnerConfig{Queues: []string{"emails"}, Concurrency: 20})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() { <-ctx.Done(); stop() }() // a second signal ends the process at once
	if err := runner.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// The task is there when, and only when, the transaction commits.
func ExampleClient_EnqueueTx() {
	ctx, db, client := setUp("orders", pgfairq.QueueOpts{})
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, "CREATE TABLE orders (shop int)"); err != nil {
		log.Fatal(err)
	}
	if _, err := client.EnqueueTx(ctx, tx, SendArgs{To: "ann@example.com"}, nil); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	stats, err := client.Queue("").Stats(ctx)
	fmt.Println(stats.Ready, err)
	// Output: 1 <nil>
}

func ExampleClient_EnqueueMany() {
	ctx, db, client := setUp("many", pgfairq.QueueOpts{})
	defer db.Close()
	ids, err := client.EnqueueMany(ctx, []pgfairq.EnqueueParams{
		{Args: SendArgs{To: "ann@example.com"}, Opts: &pgfairq.EnqueueOpts{Group: "42", UniqueKey: "welcome ann"}},
		{Args: SendArgs{To: "bob@example.com"}, Opts: &pgfairq.EnqueueOpts{Group: "43", Priority: pgfairq.Ptr(0)}},
		{Args: SendArgs{To: "ann@example.com"}, Opts: &pgfairq.EnqueueOpts{Group: "42", UniqueKey: "welcome ann"}},
	})
	fmt.Println(len(ids), ids[0] == ids[2], err)
	// Output: 3 true <nil>
}

// What is written with the task's transaction is written exactly once.
func ExampleJob_Tx() {
	ctx, db, client := setUp("invoices", pgfairq.QueueOpts{KeepDone: time.Hour})
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE sent (task bigint, address text)"); err != nil {
		log.Fatal(err)
	}
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker(workers, pgfairq.WorkFunc(func(ctx context.Context, job *pgfairq.Job[SendArgs]) error {
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO sent VALUES ($1, $2)", job.ID, job.Args.To); err != nil {
			return err
		}
		return job.SetResult(map[string]string{"sent": job.Args.To})
	}))
	id, err := client.Enqueue(ctx, SendArgs{To: "ann@example.com"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	drain(ctx, db, workers, "invoices")

	var result struct{ Sent string }
	err = client.Queue("").Result(ctx, id, &result)
	fmt.Println(result.Sent, err)
	// Output: ann@example.com <nil>
}

func ExampleAddWorkerOpts() {
	ctx, db, client := setUp("scans", pgfairq.QueueOpts{})
	defer db.Close()
	errNoPage := errors.New("there is no such page")
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorkerOpts(workers, pgfairq.WorkFunc(func(ctx context.Context, job *pgfairq.Job[SendArgs]) error {
		return errNoPage
	}), pgfairq.WorkerOpts{
		Timeout:     time.Minute,
		MaxAttempts: 5,
		Backoff:     func(attempt int) time.Duration { return time.Duration(attempt) * time.Minute },
		GiveUp:      func(err error) bool { return errors.Is(err, errNoPage) },
	})
	id, err := client.Enqueue(ctx, SendArgs{To: "ann@example.com"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	drain(ctx, db, workers, "scans")

	var failed *pgfairq.TaskError
	if err := client.Queue("").Result(ctx, id, nil); errors.As(err, &failed) {
		fmt.Println(failed.State, failed.LastError)
	}
	// Output: dead there is no such page
}

// Where groups have subgroups, the share of each is fair between these.
func ExampleQueue_SetSubgroup() {
	ctx, db, client := setUp("prints", pgfairq.QueueOpts{Subgroups: pgfairq.Ptr(true)})
	defer db.Close()
	if err := client.Queue("").SetSubgroup(ctx, "42", "ann", pgfairq.GroupOpts{MaxLeased: 5}); err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"ann", "ann", "bob"} {
		if _, err := client.Enqueue(ctx, SendArgs{To: user}, &pgfairq.EnqueueOpts{Group: "42", Subgroup: user}); err != nil {
			log.Fatal(err)
		}
	}
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker(workers, pgfairq.WorkFunc(func(_ context.Context, job *pgfairq.Job[SendArgs]) error {
		fmt.Println(job.Subgroup)
		return nil
	}))
	drain(ctx, db, workers, "prints")
	// Output:
	// ann
	// bob
	// ann
}

// A worker is tested without a server.
func ExampleJob() {
	worker := &SendWorker{from: "ops@example.com"}
	err := worker.Work(context.Background(), &pgfairq.Job[SendArgs]{Args: SendArgs{To: "ann@example.com"}})
	fmt.Println(err)
	// Output:
	// from ops@example.com to ann@example.com
	// <nil>
}

func ExampleHooks() {
	hooks := pgfairq.Hooks{
		Before: func(ctx context.Context, task *pgfairq.Task) context.Context {
			return context.WithValue(ctx, requestKey{}, task.Headers["request"])
		},
		Dead: func(ctx context.Context, task *pgfairq.Task, err error) {
			log.Printf("%s of request %v is dead: %v", task, ctx.Value(requestKey{}), err)
		},
	}
	_ = pgfairq.RunnerConfig{Queues: []string{"emails"}, Hooks: []pgfairq.Hooks{hooks}}
}

type requestKey struct{}

// A runner that is given a proxy works at the nodes of the cluster.
func ExampleOpenNodes() {
	const proxy = "host=proxy dbname=app user=worker"
	db, err := sql.Open("postgres", proxy)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	_ = pgfairq.RunnerConfig{
		Queues:   []string{"emails"},
		OpenNode: pgfairq.OpenNodes("postgres", proxy),
	}
}

// setUp makes a queue for an example.
func setUp(queue string, opts pgfairq.QueueOpts) (context.Context, *sql.DB, *pgfairq.Client) {
	ctx := context.Background()
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		log.Fatal(err)
	}
	client := pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: queue})
	if err := client.Queue("").Create(ctx, opts); err != nil {
		log.Fatal(err)
	}
	return ctx, db, client
}

// drain does all tasks of a queue, one at a time.
func drain(ctx context.Context, db *sql.DB, workers *pgfairq.Workers, queue string) {
	runner, err := pgfairq.NewRunner(db, workers, pgfairq.RunnerConfig{
		Queues: []string{queue}, Concurrency: 1, Prefetch: -1, Logger: pgfairq.DiscardLogger})
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Drain(ctx); err != nil {
		log.Fatal(err)
	}
}
