// Command conformance is the Go library as the subject of the adversary: clients/conformance.md.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/lib/pq"
	"pgfairq"
)

// A line of the input: a task to enqueue.
type line struct {
	Payload   Args
	Group     string
	UniqueKey string `json:"unique_key"`
}

type subject struct {
	db     *sql.DB
	client *pgfairq.Client
	queue  string
	input  *json.Decoder
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: conformance work|enqueue|transact|await QUEUE [commit|rollback]")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

func run(verb, queue string, rest []string) error {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		return err
	}
	defer db.Close()
	client := pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: queue})
	s := &subject{db: db, client: client, queue: queue, input: json.NewDecoder(os.Stdin)}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch verb {
	case "work":
		return s.work(ctx)
	case "enqueue":
		return s.enqueue(ctx)
	case "transact":
		return s.transact(ctx, len(rest) > 0 && rest[0] == "commit")
	case "await":
		return s.await(ctx)
	}
	return fmt.Errorf("there is no %q; there are work, enqueue, transact and await", verb)
}

func (s *subject) work(ctx context.Context) error {
	runner, err := pgfairq.NewRunner(s.db, handlers{s.db}.workers(), pgfairq.RunnerConfig{
		Queues:      []string{s.queue},
		Concurrency: setting("CONCURRENCY", 2),
		TTL:         time.Duration(setting("LEASE", 2)) * time.Second,
	})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

func (s *subject) enqueue(ctx context.Context) error {
	return s.each(func(one line) error {
		id, err := one.enqueue(ctx, s.client)
		if err != nil {
			return err
		}
		fmt.Println(id)
		return nil
	})
}

func (s *subject) transact(ctx context.Context, commit bool) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	err = s.each(func(one line) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO conformance.orders VALUES ($1)", one.Payload.Key)
		if err != nil {
			return err
		}
		_, err = one.enqueue(ctx, s.client.WithTx(tx))
		return err
	})
	if err != nil || !commit {
		return err
	}
	return tx.Commit()
}

func (s *subject) await(ctx context.Context) error {
	var one line
	if err := s.input.Decode(&one); err != nil {
		return err
	}
	id, err := one.enqueue(ctx, s.client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(setting("TIMEOUT", 60))*time.Second)
	defer cancel()
	var result any
	err = s.client.Queue("").Result(ctx, id, &result)
	var failed *pgfairq.TaskError
	switch {
	case errors.As(err, &failed):
		reason, _, _ := strings.Cut(failed.LastError, "\n")
		result = map[string]string{"failed": reason}
	case err != nil:
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func (s *subject) each(do func(line) error) error {
	for {
		var one line
		if err := s.input.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(one); err != nil {
			return err
		}
	}
}

func (l line) enqueue(ctx context.Context, client *pgfairq.Client) (int64, error) {
	args, err := ofKind(l.Payload)
	if err != nil {
		return 0, err
	}
	return client.Enqueue(ctx, args, &pgfairq.EnqueueOpts{Group: l.Group, UniqueKey: l.UniqueKey})
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
