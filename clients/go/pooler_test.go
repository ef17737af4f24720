package pgfairq_test

// Through PgBouncer in transaction mode, with a direct pool for the session and the claims. Seen
// to fail: without Direct; with prepared statements in spite of it.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pgfairq"
)

// pooler starts one with two connections to the server, and returns its directory.
func pooler(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	user := os.Getenv("PGUSER")
	ini := fmt.Sprintf("[databases]\n* = host=%s\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = %s\n"+
		"auth_type = trust\nauth_file = %s/users\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\nlogfile = %s/log\n"+
		"ignore_startup_parameters = extra_float_digits\n",
		os.Getenv("PGHOST"), directory, directory, directory)
	for name, text := range map[string]string{"ini": ini, "users": fmt.Sprintf("%q \"\"\n", user)} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := "pgbouncer"
	if _, err := exec.LookPath(program); err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	command := exec.Command(program, "-q", filepath.Join(directory, "ini"))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	until(t, "the pooler listens", func() bool {
		conn, err := net.Dial("unix", filepath.Join(directory, ".s.PGSQL.6432"))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return directory
}

func TestBehindAPooler(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{KeepDone: time.Hour, MaxAttempts: 2})
	pooled := open(t, fmt.Sprintf("host=%s port=6432 user=%s dbname=%s sslmode=disable %s", pooler(t), os.Getenv("PGUSER"), f.database, pooledSettings))
	client := pgfairq.NewClient(pooled, &pgfairq.ClientConfig{Queue: "emails"})
	var params []pgfairq.EnqueueParams
	for n := 0; n < 100; n++ {
		params = append(params, pgfairq.EnqueueParams{Args: Send{To: fmt.Sprint(n)}, Opts: &pgfairq.EnqueueOpts{Group: fmt.Sprint(n % 3)}})
	}
	ids, err := client.EnqueueMany(background, params)
	f.must(err)
	var told notes
	runner, err := pgfairq.NewRunner(pooled, sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if job.ID%2 == 0 {
			if err := write(ctx, job); err != nil {
				return err
			}
		}
		if job.ID%10 == 9 && job.Attempt == 1 {
			return errors.New("once more")
		}
		return job.SetResult(job.Args.To)
	}), pgfairq.RunnerConfig{Queues: []string{"emails"}, Direct: f.db, Logger: noteLogger{&told}})
	f.must(err)
	f.must(runner.Drain(background))
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 50)
	equal(t, "failed", told.count("WARN an attempt has failed"), 10)
	equal(t, "other warnings", told.count("WARN"), 10)
	var result string
	f.must(client.Queue("").Result(background, ids[7], &result))
	equal(t, "result", result, "7")
	equal(t, "left", f.left(), 0)
}
