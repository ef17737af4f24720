package pgfairq_test

// Sessions and connections that are lost while tasks are in work. Seen to fail:
// - "A session that is lost": attempts are not told
// - "The connection for claims": it is not opened again
// - "A small pool": another session is opened while the earlier one has a task
// - "A commit that is lost on its way": the nack is not repeated while the server has not seen
//   that the connection is gone
// - "A locked table": the session waits for the lock without a limit; the acknowledgement is
//   given up after its TTL

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
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
	until(t, "there is one session", func() bool { return f.number("SELECT count(*) FROM fairq.sessions") == 1 })
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

func TestASmallPoolWhoseConnectionForClaimsIsLost(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.enqueue(Send{}, nil)
	small := open(t, dataSource(f.database))
	small.SetMaxOpenConns(3)
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	var told notes
	runner, err := pgfairq.NewRunner(small, sending(func(context.Context, *pgfairq.Job[Send]) error {
		begun <- struct{}{}
		<-goOn
		return nil
	}), pgfairq.RunnerConfig{Queues: []string{"emails"}, Logger: noteLogger{&told}})
	f.must(err)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(background) }()
	<-begun
	until(t, "it waits", func() bool { return f.terminate("%wait_any%") > 0 })
	until(t, "the runner waits for its task", func() bool { return told.count("the pool is too small") == 1 })
	f.enqueue(Send{}, nil)
	close(goOn)
	<-begun // it claims again
	until(t, "both are done", func() bool { return f.left() == 0 })
	f.must(runner.Stop(background))
	f.must(<-ended)
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

// A network that drops a commit: the client's end is closed, and the server waits for it.
func TestACommitThatIsLostOnItsWay(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 3})
	f.enqueue(Send{}, nil)
	network := newNetwork(t)
	between := open(t, strings.Replace(dataSource(f.database), "host="+os.Getenv("PGHOST"), "host="+network.directory, 1))
	runner, err := pgfairq.NewRunner(between, sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if job.Attempt == 1 {
			network.dropCommit.Store(true)
		}
		return write(ctx, job)
	}), pgfairq.RunnerConfig{Queues: []string{"emails"}, Logger: testLogger{t}})
	f.must(err)
	ended := make(chan error, 1)
	go func() { ended <- runner.Drain(background) }()
	until(t, "the runner has said that the attempt failed", func() bool {
		return f.number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '%fairq.nack%' AND pid <> pg_backend_pid()`) > 0
	})
	close(network.heal)
	f.must(<-ended)
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 1)
	equal(t, "in the second attempt", f.number("SELECT count(*) FROM sent WHERE attempt = 2"), 1)
	equal(t, "left", f.left(), 0)
}

// network is a socket between clients and the server.
type network struct {
	directory  string
	dropCommit atomic.Bool   // the next one
	heal       chan struct{} // the server sees that the connection is gone
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{directory: t.TempDir(), heal: make(chan struct{})}
	listener, err := net.Listen("unix", filepath.Join(n.directory, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(os.Getenv("PGHOST"), ".s.PGSQL.5432"))
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(client, server)
				client.Close()
			}()
			go n.forward(client, server)
		}
	}()
	return n
}

func (n *network) forward(client, server net.Conn) {
	defer server.Close()
	defer client.Close()
	buffer := make([]byte, 65536)
	for {
		count, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(bytes.ToUpper(buffer[:count]), []byte("COMMIT")) && n.dropCommit.CompareAndSwap(true, false) {
			client.Close()
			<-n.heal
			return
		}
		if _, err := server.Write(buffer[:count]); err != nil {
			return
		}
	}
}

func TestALockedTableDoesNotEndTheSession(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.enqueue(Send{}, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	f.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		close(begun)
		<-goOn
		return write(ctx, job)
	}), pgfairq.RunnerConfig{TTL: 12 * time.Second})
	<-begun
	tx, err := f.db.Begin()
	f.must(err)
	execute(t, tx, "LOCK TABLE fairq.q_emails IN ACCESS EXCLUSIVE MODE")
	close(goOn) // its acknowledgement waits for the lock
	// it lives on for longer than its TTL
	until(t, "it has had several heartbeats", func() bool {
		return number(t, tx, "SELECT count(*) FROM fairq.sessions WHERE alive_until > now() + '26 s'") == 1
	})
	f.must(tx.Commit())
	until(t, "it is done", func() bool { return f.left() == 0 })
	equal(t, "sent", f.number("SELECT count(*) FROM sent WHERE attempt = 1"), 1)
}
