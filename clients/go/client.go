package pgfairq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// JobArgs are the arguments of a task: a struct that encoding/json can write and read.
// They are its payload.
type JobArgs interface {
	// Kind is what is to be done: the name of the task, 1 to 100 bytes. It is called on
	// a zero value, too.
	Kind() string
}

// JobArgsWithEnqueueOpts are arguments that bring options of their own. What a call to
// [Client.Enqueue] says goes before them.
type JobArgsWithEnqueueOpts interface {
	JobArgs
	EnqueueOpts() EnqueueOpts
}

// ClientConfig are the settings of a [Client].
type ClientConfig struct {
	// Queue is where tasks go for which neither the call nor the arguments name one.
	// The default is "default".
	Queue string

	// Hooks are told of tasks that are enqueued.
	Hooks []Hooks
}

// Client enqueues tasks. It is safe for concurrent use.
type Client struct {
	db     DBTX
	config ClientConfig
}

// NewClient returns a client that uses a pool of the application's. The driver may be
// lib/pq or pgx. A nil config stands for the defaults.
func NewClient(db *sql.DB, config *ClientConfig) *Client {
	client := &Client{db: db}
	if config != nil {
		client.config = *config
	}
	if client.config.Queue == "" {
		client.config.Queue = "default"
	}
	return client
}

// WithTx returns a client that does all within a transaction: what it enqueues is there
// when that commits.
func (c *Client) WithTx(tx DBTX) *Client { return &Client{db: tx, config: c.config} }

// Queue returns a queue by its name, to look at it or to administer it. An empty name is
// that of the client's config.
func (c *Client) Queue(name string) *Queue {
	if name == "" {
		name = c.config.Queue
	}
	return &Queue{name: name, db: c.db}
}

// Enqueue adds a task, and returns its id. If a task of its unique key waits, or the key
// is remembered, there is no new one, and the id is that of the earlier.
func (c *Client) Enqueue(ctx context.Context, args JobArgs, opts *EnqueueOpts) (int64, error) {
	task, err := c.newTask(args, opts)
	if err != nil {
		return 0, err
	}
	c.tell(ctx, task)
	values, err := task.values(args)
	if err != nil {
		return 0, err
	}
	var id int64
	err = c.db.QueryRowContext(ctx, enqueueSQL, append([]any{task.Queue}, values...)...).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("pgfairq: enqueue %q in queue %q: %w", task.Name, task.Queue, err)
	}
	return id, nil
}

// EnqueueTx is [Client.Enqueue] within a transaction: the task is there when, and only
// when, that commits.
func (c *Client) EnqueueTx(
	ctx context.Context, tx DBTX, args JobArgs, opts *EnqueueOpts,
) (int64, error) {
	return c.WithTx(tx).Enqueue(ctx, args, opts)
}

// EnqueueParams is one of many tasks.
type EnqueueParams struct {
	Args JobArgs
	Opts *EnqueueOpts
}

// EnqueueMany adds many tasks, all or none of them, and returns their ids in the order
// given. It is fastest where no more is said of them than Group, Subgroup, Priority, Cost,
// RunAt and UniqueKey.
func (c *Client) EnqueueMany(ctx context.Context, params []EnqueueParams) ([]int64, error) {
	batches, err := c.batches(ctx, params)
	if err != nil {
		return nil, err
	}
	db := c.db
	if outside, ok := db.(beginner); ok && len(batches) > 1 {
		tx, err := outside.BeginTx(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("pgfairq: enqueue in several queues: %w", err)
		}
		defer tx.Rollback() // does nothing after the commit
		db = tx
	}
	ids := make([]int64, len(params))
	for _, one := range batches {
		if err := one.send(ctx, db, ids); err != nil {
			return nil, fmt.Errorf("pgfairq: enqueue %d tasks in queue %q: %w", len(one.rows), one.queue, err)
		}
	}
	if tx, ok := db.(*sql.Tx); ok && c.db != db {
		if err := tx.Commit(); err != nil {
			return nil, fmt.Errorf("pgfairq: enqueue in several queues: %w", err)
		}
	}
	return ids, nil
}

// A beginner is what is no transaction: a *sql.DB or a *sql.Conn, or what has one in it.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// EnqueueManyTx is [Client.EnqueueMany] within a transaction.
func (c *Client) EnqueueManyTx(
	ctx context.Context, tx DBTX, params []EnqueueParams,
) ([]int64, error) {
	return c.WithTx(tx).EnqueueMany(ctx, params)
}

// Publish adds a task to every queue that has a subscription that matches the topic, and
// returns to how many. After, OnDead and Queue cannot be said of it.
func (c *Client) Publish(
	ctx context.Context, topic string, args JobArgs, opts *EnqueueOpts,
) (int, error) {
	if opts != nil && (opts.Queue != "" || opts.After != nil || opts.OnDead != "") {
		return 0, errors.New(
			"pgfairq: Publish has no Queue, After and OnDead: it goes to the queues that have subscribed")
	}
	task, err := c.newTask(args, opts)
	if err != nil {
		return 0, err
	}
	task.Queue, task.Opts.Queue = "", ""        // of the config, and of the arguments' own options
	task.Opts.After, task.Opts.OnDead = nil, "" // of these, too
	c.tell(ctx, task)
	values, err := task.values(args)
	if err != nil {
		return 0, err
	}
	var count int
	values = append([]any{topic}, values[:len(topicColumns)]...)
	if err := c.db.QueryRowContext(ctx, publishSQL, values...).Scan(&count); err != nil {
		return 0, fmt.Errorf("pgfairq: publish %q to topic %q: %w", task.Name, topic, err)
	}
	return count, nil
}

func (c *Client) newTask(args JobArgs, opts *EnqueueOpts) (*NewTask, error) {
	if args == nil {
		return nil, errors.New("pgfairq: the arguments of a task are nil; give a JobArgs")
	}
	task := &NewTask{Name: args.Kind()}
	if task.Name == "" {
		return nil, fmt.Errorf("pgfairq: Kind of %T is empty; give 1 to 100 bytes", args)
	}
	if with, ok := args.(JobArgsWithEnqueueOpts); ok {
		task.Opts = with.EnqueueOpts()
	}
	if opts != nil {
		task.Opts = task.Opts.with(*opts)
	}
	task.Queue = task.Opts.Queue
	if task.Queue == "" {
		task.Queue = c.config.Queue
	}
	task.Opts.Headers = merged(task.Opts.Headers)
	return task, nil
}

// tell has the hooks add headers to a task that is to be sent.
func (c *Client) tell(ctx context.Context, task *NewTask) {
	for _, hooks := range c.config.Hooks {
		if hooks.Enqueue != nil {
			hooks.Enqueue(ctx, task)
		}
	}
}

func (c *Client) batches(ctx context.Context, params []EnqueueParams) ([]*batch, error) {
	var batches []*batch
	byQueue := make(map[string]*batch)
	for n, param := range params {
		task, err := c.newTask(param.Args, param.Opts)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", n, err)
		}
		c.tell(ctx, task)
		values, err := task.values(param.Args)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", n, err)
		}
		one := byQueue[task.Queue]
		if one == nil {
			one = &batch{queue: task.Queue}
			byQueue[task.Queue] = one
			batches = append(batches, one)
		}
		one.rows = append(one.rows, values)
		one.at = append(one.at, n)
	}
	return batches, nil
}
