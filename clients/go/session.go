package pgfairq

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	openSessionSQL  = "SELECT fairq.open_session($1, $2::interval, bound => true)::text"
	heartbeatSQL    = "SELECT fairq.heartbeat($1::uuid)"
	stillOursSQL    = "SELECT fairq.extend_many($1::uuid[])::text " + fromBound
	closeSessionSQL = "SELECT fairq.close_session($1::uuid)"
	cancelSQL       = "SELECT pg_cancel_backend($1::int)"

	// What limits the statements of an application does not limit a connection that
	// waits. One that waits for a table's lock would hold up the heartbeats.
	settingsSQL = `SELECT pg_backend_pid(), set_config('statement_timeout', '0', false),
		set_config('idle_session_timeout', '0', false), set_config('lock_timeout', $1, false)`
)

const longestBeat = 5 * time.Second

// ownConn takes a connection out of its pool for good; it is closed with discard.
func ownConn(ctx context.Context, db *sql.DB, lockTimeout time.Duration) (*sql.Conn, int, error) {
	var pid int
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	var ignored sql.NullString
	err = conn.QueryRowContext(ctx, settingsSQL, milliseconds(lockTimeout)).
		Scan(&pid, &ignored, &ignored, &ignored)
	if err != nil {
		hangUp(conn)
		return nil, 0, err
	}
	return conn, pid, nil
}

// hangUp closes a connection, which has settings of its own, instead of lending it to others.
func hangUp(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
	conn.Close()
}

// A session is the sign of life of a runner, on a connection of its own, to which it is
// bound: when the process dies, its tasks are put back at once. The tasks in work are
// asked for with each heartbeat, since one of them may have been cancelled.
type session struct {
	id     string
	runner *Runner
	place  *place
	ttl    time.Duration
	over   chan struct{} // closed when it is
	early  chan struct{} // asks for a heartbeat now

	connMu sync.Mutex // one statement at a time
	conn   *sql.Conn

	mu      sync.Mutex
	alive   bool
	retired bool
	reason  error // why it is over, if it was not closed
	held    map[*attempt]struct{}
}

func openSession(ctx context.Context, r *Runner, p *place, db *sql.DB) (*session, error) {
	ttl := r.config.TTL
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	conn, _, err := ownConn(ctx, db, beatInterval(ttl))
	if err != nil {
		return nil, err
	}
	s := &session{runner: r, place: p, ttl: ttl, conn: conn, alive: true,
		over: make(chan struct{}), early: make(chan struct{}, 1), held: make(map[*attempt]struct{})}
	opened := time.Now()
	err = conn.QueryRowContext(ctx, openSessionSQL, r.config.Name, interval(ttl)).Scan(&s.id)
	if err != nil {
		hangUp(conn)
		return nil, err
	}
	go s.beats(opened)
	return s, nil
}

// waitForRoom waits, in a pool of few connections, for the ends of earlier sessions that still
// have tasks in work: another one would leave no connection to settle these. False: the runner
// stops.
func (r *Runner) waitForRoom() bool {
	pool, needed := r.home.db, 3
	if r.config.Direct != nil {
		pool, needed = r.config.Direct, 2
	}
	most := pool.Stats().MaxOpenConnections
	hasRoom := func() bool { return most == 0 || r.sessionsAtHome()+needed <= most }
	if !hasRoom() {
		r.log.Warn("the pool is too small for another session; waiting until the tasks of the last one have ended",
			"connections", most)
		r.waitUntil(r.stopping, hasRoom)
	}
	return !r.isStopping()
}

func (r *Runner) sessionsAtHome() (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sessions {
		if s.place == r.home && s.isAlive() {
			count++
		}
	}
	return count
}

// beatInterval is such that three heartbeats in a row may fail to come.
func beatInterval(ttl time.Duration) time.Duration {
	if ttl/4 < longestBeat {
		return ttl / 4
	}
	return longestBeat
}

// beats sends heartbeats until the session is over. It lives for a ttl from when the
// server had the last one, which is after that was sent.
func (s *session) beats(last time.Time) {
	timer := time.NewTicker(beatInterval(s.ttl))
	defer timer.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-timer.C:
		case <-s.early:
		}
		sent := time.Now()
		if err := s.beat(sent, last); err != nil {
			s.lose(err)
			return
		}
		last = sent
	}
}

func (s *session) beat(sent, last time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), last.Add(s.ttl))
	defer cancel()
	s.connMu.Lock()
	defer s.connMu.Unlock()
	var alive bool
	if err := s.conn.QueryRowContext(ctx, heartbeatSQL, s.id).Scan(&alive); err != nil {
		return fmt.Errorf("the heartbeat failed: %w", err)
	}
	if !alive {
		return errors.New("no heartbeat had come in time")
	}
	return s.look(ctx, sent)
}

// look finds the tasks that were cancelled, or whose queue is gone: of each queue by itself,
// since one may be locked, or not for this role any more. All of them take no more than an
// interval between heartbeats.
func (s *session) look(ctx context.Context, sent time.Time) error {
	old := make(map[string][]*attempt)
	s.mu.Lock()
	for a := range s.held {
		if a.isRunning() && sent.Sub(a.claimed) >= beatInterval(s.ttl) {
			old[a.task.Queue] = append(old[a.task.Queue], a)
		}
	}
	s.mu.Unlock()
	for _, some := range old {
		patience := shorter(alonePatience, beatInterval(s.ttl)/time.Duration(len(old)))
		if err := s.lookAt(ctx, some, patience); err != nil && isConnectionError(err) {
			return fmt.Errorf("the heartbeat failed: %w", err)
		}
		// else it is not known, and asked for again with the next heartbeat
	}
	return nil
}

func (s *session) lookAt(ctx context.Context, some []*attempt, patience time.Duration) error {
	receipts := make([]string, len(some))
	for n, a := range some {
		receipts[n] = a.receipt
	}
	ours, err := receiptSet(s.conn.QueryContext(
		ctx, stillOursSQL, arrayText(receipts), milliseconds(patience)))
	if err != nil {
		return err
	}
	for _, a := range some {
		if !ours[a.receipt] {
			a.lose(fmt.Errorf("%w: the task was cancelled, or its lease has run out", ErrLeaseLost))
		}
	}
	return nil
}

// hold notes an attempt, unless the session is over.
func (s *session) hold(a *attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive {
		s.held[a] = struct{}{}
	}
	return s.alive
}

// drop forgets an attempt that is settled or lost.
func (s *session) drop(a *attempt) {
	s.mu.Lock()
	delete(s.held, a)
	ends := s.retired && len(s.held) == 0
	s.mu.Unlock()
	if ends {
		go s.close()
	}
}

// retire ends the session when what it holds is settled.
func (s *session) retire() {
	s.mu.Lock()
	s.retired = true
	ends := len(s.held) == 0
	s.mu.Unlock()
	if ends {
		s.close()
	}
}

func (s *session) isAlive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

// lost returns why the session is over, or nil if it was closed.
func (s *session) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// end marks it as over; false: it was already.
func (s *session) end(reason error) (held []*attempt, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive {
		return nil, false
	}
	s.alive, s.reason = false, reason
	for a := range s.held {
		held = append(held, a)
	}
	return held, true
}

func (s *session) lose(reason error) {
	held, first := s.end(reason)
	if !first {
		return
	}
	for _, a := range held {
		a.lose(fmt.Errorf("%w: the session is over: %v", ErrLeaseLost, reason))
	}
	s.connMu.Lock()
	hangUp(s.conn)
	s.connMu.Unlock()
	close(s.over)
}

// doubt has the session find out now whether it is over, since another connection was lost.
func (s *session) doubt() {
	select {
	case s.early <- struct{}{}:
	default:
	}
}

// close gives back what the session still has, at once and without counting an attempt.
func (s *session) close() {
	if _, first := s.end(nil); !first {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	s.connMu.Lock()
	s.conn.ExecContext(ctx, closeSessionSQL, s.id) // else it ends with its connection
	hangUp(s.conn)
	s.connMu.Unlock()
	close(s.over)
}

// whileAlive returns a context that ends when the session has been over for grace, and calls
// ended then. Before that the server answers: what takes long waits for a lock.
func (s *session) whileAlive(grace time.Duration, ended func()) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-s.over:
		}
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			cancel()
			ended()
		}
	}()
	return ctx, cancel
}

// cancelBackend stops what another connection of this role does.
func (s *session) cancelBackend(pid int) {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	s.connMu.Lock()
	defer s.connMu.Unlock()
	s.conn.ExecContext(ctx, cancelSQL, pid)
}

// receiptSet reads rows of one text.
func receiptSet(rows *sql.Rows, err error) (map[string]bool, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	set := make(map[string]bool)
	for rows.Next() {
		var receipt string
		if err := rows.Scan(&receipt); err != nil {
			return nil, err
		}
		set[receipt] = true
	}
	return set, rows.Err()
}
