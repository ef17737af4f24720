// What the bench has pgfairq's library for Go do.
//
//	driver ROLE OPTIONS
//
// ROLE is fill, send or work, and OPTIONS is JSON, as in driver.mjs.
package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/lib/pq"
	"pgfairq"
)

const fillBatch = 5000 // jobs of one call

type options struct {
	Conninfo    string
	Notes       string
	Jobs        int
	Millis      int `json:"ms"`
	Tenant      string
	Count       int
	Gap         float64
	Concurrency int
	Ahead       int
}

type benchJob struct {
	Millis int    `json:"ms"`
	Tenant string `json:"tenant"`
	Time   string `json:"t,omitempty"` // of its call
}

func (benchJob) Kind() string { return "bench" }

// A recorder counts what was handled, for the bench to read: a number in a file of this
// process's own, a hundred times a second.
type recorder struct {
	notes string
	count int64
	mu    sync.Mutex // of the samples
}

func (r *recorder) write() {
	file, err := os.Create(filepath.Join(r.notes, fmt.Sprintf("count-%d", os.Getpid())))
	if err != nil {
		log.Fatal(err)
	}
	var number [8]byte
	for range time.Tick(10 * time.Millisecond) {
		binary.LittleEndian.PutUint64(number[:], uint64(atomic.LoadInt64(&r.count)))
		if _, err := file.WriteAt(number[:], 0); err != nil {
			log.Fatal(err)
		}
	}
}

func (r *recorder) arrived(job benchJob) error {
	began, err := strconv.ParseInt(job.Time, 10, 64)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %d %d\n", job.Tenant, began, time.Now().UnixNano()-began)
	r.mu.Lock()
	defer r.mu.Unlock()
	file, err := os.OpenFile(filepath.Join(r.notes, "samples"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line)
	return err
}

func (r *recorder) Work(ctx context.Context, job *pgfairq.Job[benchJob]) error {
	if job.Args.Time != "" {
		if err := r.arrived(job.Args); err != nil {
			return err
		}
	}
	if job.Args.Millis > 0 {
		time.Sleep(time.Duration(job.Args.Millis) * time.Millisecond)
	}
	atomic.AddInt64(&r.count, 1)
	return nil
}

func fill(ctx context.Context, client *pgfairq.Client, o options) error {
	one := pgfairq.EnqueueParams{
		Args: benchJob{Millis: o.Millis, Tenant: o.Tenant},
		Opts: &pgfairq.EnqueueOpts{Group: o.Tenant},
	}
	for sent := 0; sent < o.Jobs; {
		var params []pgfairq.EnqueueParams
		for ; len(params) < fillBatch && sent < o.Jobs; sent++ {
			params = append(params, one)
		}
		if _, err := client.EnqueueMany(ctx, params); err != nil {
			return err
		}
	}
	return nil
}

// One at a time, each with the time of its call.
func send(ctx context.Context, client *pgfairq.Client, o options) error {
	for n := 0; n < o.Count; n++ {
		job := benchJob{Tenant: o.Tenant, Time: strconv.FormatInt(time.Now().UnixNano(), 10)}
		if _, err := client.Enqueue(ctx, job, &pgfairq.EnqueueOpts{Group: o.Tenant}); err != nil {
			return err
		}
		time.Sleep(time.Duration(o.Gap * float64(time.Millisecond)))
	}
	return nil
}

func work(ctx context.Context, db *sql.DB, o options) error {
	r := &recorder{notes: o.Notes}
	go r.write()
	workers := pgfairq.NewWorkers()
	pgfairq.AddWorker[benchJob](workers, r)
	runner, err := pgfairq.NewRunner(db, workers, pgfairq.RunnerConfig{
		Queues:      []string{"bench"},
		Concurrency: o.Concurrency,
		Prefetch:    o.Ahead,
	})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

func run(role, text string) error {
	var o options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	db, err := sql.Open("postgres", o.Conninfo+" sslmode=disable")
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, client := context.Background(), pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: "bench"})
	switch role {
	case "fill":
		return fill(ctx, client, o)
	case "send":
		return send(ctx, client, o)
	case "work":
		return work(ctx, db, o)
	}
	return fmt.Errorf("there is no role %q; there are fill, send and work", role)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: driver fill|send|work OPTIONS")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
