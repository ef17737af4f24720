// A producer and a worker of pgfairq in Go, with lib/pq.
//
//	worker produce 100 acme    enqueues 100 tasks of the tenant acme
//	worker work                until SIGTERM
//
// The database is that of PGHOST, PGUSER and so on. When the worker loses its session
// or the server it exits with 1: its connections close, so that its transactions are
// rolled back and its tasks are put back. What has started it starts it again.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/lib/pq"
)

const (
	queue = "letters"
	slots = 4                // tasks at a time
	ttl   = 5 * time.Second  // a worker that is silent for so long is taken for dead
	grace = 25 * time.Second // how long tasks may go on after SIGTERM
)

type task struct {
	id, receipt string
	name        string // what is to be done
	attempt     int
	payload     []byte
}

// An error that no other attempt would mend: the task is dead at once.
type final struct{ error }

// What is done with a task, by its name. It writes within tx.
func handle(tx *sql.Tx, t task) error {
	switch t.name {
	case "letter":
		return letter(tx, t)
	default: // another worker may know it
		return fmt.Errorf("there is no handler for %q", t.name)
	}
}

func letter(tx *sql.Tx, t task) error {
	var letter struct {
		To      string
		Seconds float64
	}
	if err := json.Unmarshal(t.payload, &letter); err != nil {
		return final{err}
	}
	if letter.To == "" {
		return final{errors.New("the letter goes to nobody")}
	}
	_, err := tx.Exec("INSERT INTO letter (task, attempt, text) VALUES ($1, $2, $3)", t.id, t.attempt, "Dear "+letter.To)
	time.Sleep(time.Duration(letter.Seconds * float64(time.Second)))
	return err
}

// What the handler writes and the acknowledgement are one transaction: both or neither.
func attempt(db *sql.DB, t task) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	if err := handle(tx, t); err != nil {
		return err
	}
	var mine bool
	if err := tx.QueryRow("SELECT fairq.ack($1)", t.receipt).Scan(&mine); err != nil || !mine {
		return err // not mine: another worker has the task, and nothing is written here
	}
	return tx.Commit()
}

func run(db *sql.DB, t task) {
	if err := attempt(db, t); err != nil {
		log.Printf("task %s (%q), attempt %d: %v", t.id, t.name, t.attempt, err)
		text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?") // as the server takes it
		if _, err := db.Exec("SELECT fairq.nack($1, left($2, 4000), final => $3)", t.receipt, text, errors.As(err, &final{})); err != nil {
			log.Fatal(err)
		}
	}
}

// Heartbeats beside the work, on a connection of their own, to which the session is bound.
func beat(beats *sql.Conn, session string) {
	for range time.Tick(ttl / 4) {
		answer, cancel := context.WithTimeout(context.Background(), ttl/2)
		var alive bool
		err := beats.QueryRowContext(answer, "SELECT fairq.heartbeat($1)", session).Scan(&alive)
		cancel()
		if err != nil || !alive {
			log.Fatal("the session is over: ", err)
		}
	}
}

func claim(db *sql.DB, session string, count int) (tasks []task, err error) {
	rows, err := db.Query("SELECT id, receipt, coalesce(name, ''), attempt, payload FROM fairq.claim($1, $2, session => $3)", queue, count, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t task
		if err := rows.Scan(&t.id, &t.receipt, &t.name, &t.attempt, &t.payload); err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, rows.Err()
}

func work(db *sql.DB) error {
	stop, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer forget()
	beats, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	var session string
	if err := beats.QueryRowContext(context.Background(),
		"SELECT fairq.open_session('letters in Go', $1::interval, bound => true)", ttl.String()).Scan(&session); err != nil {
		return err
	}
	go beat(beats, session)

	busy := make(chan struct{}, slots)
	for stop.Err() == nil {
		select {
		case busy <- struct{}{}: // waits for a free slot, and leaves it free
			<-busy
		case <-stop.Done():
			continue
		}
		tasks, err := claim(db, session, slots-len(busy))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			busy <- struct{}{}
			go func(t task) { run(db, t); <-busy }(t)
		}
		if len(tasks) == 0 {
			_, err := db.ExecContext(stop, "CALL fairq.wait($1, '10 s')", queue) // SIGTERM cancels it
			if err != nil && stop.Err() == nil {
				return err
			}
		}
	}
	for end := time.Now().Add(grace); len(busy) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	_, err = db.Exec("SELECT fairq.close_session($1)", session) // gives back what is left
	return err
}

// The tasks are there when and only when the transaction commits.
func produce(db *sql.DB, count int, tenant string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for i := 0; i < count; i++ {
		payload, _ := json.Marshal(map[string]string{"to": fmt.Sprintf("%s %d", tenant, i)})
		if _, err := tx.Exec("SELECT fairq.enqueue($1, $2, name => 'letter', group_key => $3)", queue, payload, tenant); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func main() {
	db, err := sql.Open("postgres", "sslmode=disable") // or what your server wants
	switch {
	case err == nil && len(os.Args) == 2 && os.Args[1] == "work":
		err = work(db)
	case err == nil && len(os.Args) == 4 && os.Args[1] == "produce":
		var count int
		if count, err = strconv.Atoi(os.Args[2]); err == nil {
			err = produce(db, count, os.Args[3])
		}
	default:
		err = errors.New("usage: worker work | produce COUNT TENANT")
	}
	if err != nil {
		log.Fatal(err)
	}
}
