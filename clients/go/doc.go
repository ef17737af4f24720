/*
Package pgfairq enqueues and works on tasks of pgfairq, queues in PostgreSQL that are fair
between tenants. It uses database/sql, with lib/pq or pgx as its driver.

A task is a struct with a Kind; what does it is a [Worker]:

	type SendArgs struct {
		To string `json:"to"`
	}

	func (SendArgs) Kind() string { return "send" }

	type SendWorker struct{ mailer *Mailer }

	func (w *SendWorker) Work(ctx context.Context, job *pgfairq.Job[SendArgs]) error {
		return w.mailer.Send(ctx, job.Args.To)
	}

A [Client] enqueues tasks, in a transaction of the application if it likes:

	client := pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: "emails"})
	id, err := client.EnqueueTx(ctx, tx, SendArgs{To: "ann@example.com"}, &pgfairq.EnqueueOpts{Group: "42"})

A [Runner] claims them and has workers do them:

	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker[SendArgs](workers, &SendWorker{mailer}) // from Go 1.21 on without [SendArgs]
	runner, err := pgfairq.NewRunner(db, workers, pgfairq.RunnerConfig{Queues: []string{"emails"}})
	...
	err = runner.Run(ctx) // until ctx ends

What a worker writes with [Job.Tx] is written exactly once: it is committed together with the
acknowledgement of the task, or not at all. All else is done at least once.
*/
package pgfairq
