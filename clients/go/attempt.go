package pgfairq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	extendSQL   = "SELECT fairq.extend($1::uuid)"
	progressSQL = "SELECT fairq.set_progress($1::uuid, $2::jsonb)"
	ackSQL      = "SELECT fairq.ack($1::uuid)"

	// A result is kept where the queue keeps what is done; elsewhere it would be refused.
	ackResultSQL = `SELECT fairq.ack($1::uuid, CASE WHEN EXISTS
		(SELECT FROM fairq.queues WHERE queue = $2 AND keep_done > '0') THEN $3::jsonb END)`
)

type state int

const (
	running  state = iota
	settling       // the handler has ended
	over           // settled, or lost
)

// An attempt is a claimed task, and what becomes of it.
type attempt struct {
	task    Task
	receipt string
	claimed time.Time
	session *session
	place   *place

	// Of the handler: what the runner cancels, and that with what the hooks have put on it.
	ctx     *jobContext
	hookCtx context.Context
	began   time.Time

	mu     sync.Mutex
	state  state
	result *string
	reason error         // why it was lost
	told   chan struct{} // closed when the hooks know that

	txMu sync.Mutex // while it begins
	conn *sql.Conn
	tx   *sql.Tx
}

func (a *attempt) mustRun() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reason != nil {
		return a.reason
	}
	if a.state != running {
		return ErrNotRunning
	}
	return nil
}

func (a *attempt) begin(ctx context.Context) (*sql.Tx, error) {
	a.txMu.Lock()
	defer a.txMu.Unlock()
	if err := a.mustRun(); err != nil {
		return nil, err
	}
	if a.tx != nil {
		return a.tx, nil
	}
	conn, err := a.place.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("pgfairq: no connection for the transaction of %s: %w", &a.task, err)
	}
	// Not ctx, which may end before the handler does.
	tx, err := conn.BeginTx(a.ctx, nil)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("pgfairq: begin the transaction of %s: %w", &a.task, err)
	}
	a.conn, a.tx = conn, tx
	return tx, nil
}

// usedTx returns the transaction if it has begun.
func (a *attempt) usedTx() *sql.Tx {
	a.txMu.Lock()
	defer a.txMu.Unlock()
	return a.tx
}

// endTx rolls back what is not committed, and gives the connection back to its pool.
func (a *attempt) endTx() {
	a.txMu.Lock()
	defer a.txMu.Unlock()
	if a.tx != nil {
		a.tx.Rollback() // does nothing after the commit
		a.conn.Close()
	}
}

// errUnsure says that an answer was lost: what was asked for may be done.
var errUnsure = errors.New("it is not known whether the transaction was committed")

// commit acknowledges in the transaction and commits it. False: the task was not ours any
// more. After an error that is errUnsure it may have been committed.
func (a *attempt) commit(timeout time.Duration) (bool, error) {
	// Commit takes no context of its own.
	ctx, cancel := a.session.whileAlive(timeout, func() { a.ctx.cancel(errUnsure) })
	defer cancel()
	var mine bool
	if err := a.ackRow(ctx).Scan(&mine); err != nil {
		switch {
		case errors.Is(err, sql.ErrTxDone):
			return false, fmt.Errorf("the handler has ended the transaction of the task, which its runner commits: %w", err)
		case sqlState(err) == "25P02":
			return false, fmt.Errorf("a statement in the transaction of the task failed, and the handler went on: %w", err)
		}
		return false, fmt.Errorf("the acknowledgement: %w", err)
	}
	if !mine {
		return false, nil
	}
	if err := a.tx.Commit(); err != nil {
		if sqlState(err) == "" {
			return false, fmt.Errorf("%w: %v", errUnsure, err)
		}
		return false, fmt.Errorf("the commit: %w", err)
	}
	return true, nil
}

func (a *attempt) ackRow(ctx context.Context) *sql.Row {
	query, arguments := ackSQL, []any{a.receipt}
	if a.result != nil {
		query, arguments = ackResultSQL, []any{a.receipt, a.task.Queue, *a.result}
	}
	if stmt := a.place.statement(query); stmt != nil {
		return a.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, arguments...)
	}
	return a.tx.QueryRowContext(ctx, query, arguments...)
}

func (a *attempt) setResult(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == running {
		a.result = &text
	}
}

func (a *attempt) progress(ctx context.Context, value string) error {
	if err := a.mustRun(); err != nil {
		return err
	}
	if _, err := a.place.db.ExecContext(ctx, progressSQL, a.receipt, value); err != nil {
		return fmt.Errorf("pgfairq: progress of %s: %w", &a.task, err)
	}
	return nil
}

func (a *attempt) extend(ctx context.Context) (time.Time, error) {
	if err := a.mustRun(); err != nil {
		return time.Time{}, err
	}
	var until sql.NullTime
	if err := a.place.db.QueryRowContext(ctx, extendSQL, a.receipt).Scan(&until); err != nil {
		return time.Time{}, fmt.Errorf("pgfairq: extend the lease of %s: %w", &a.task, err)
	}
	if !until.Valid {
		a.lose(ErrLeaseLost)
		return time.Time{}, ErrLeaseLost
	}
	return until.Time, nil
}

// expire ends the context of a handler that has taken too long.
func (a *attempt) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == running {
		a.ctx.cancel(ErrTimeout)
	}
}

// lose tells the handler that the task is not ours any more. When it has ended, the
// answer to its acknowledgement says it.
func (a *attempt) lose(reason error) {
	a.mu.Lock()
	if a.state != running {
		a.mu.Unlock()
		return
	}
	a.state, a.reason, a.told = over, reason, make(chan struct{})
	a.ctx.cancel(reason)
	a.mu.Unlock()
	a.session.drop(a)
	// Not here, where a hook that takes long would hold up the heartbeats.
	go func() {
		defer close(a.told)
		if !errors.Is(reason, ErrStopped) {
			a.session.runner.tellLost(a, reason)
		}
	}()
}

// settle says that the handler has ended; false: the task was lost before.
func (a *attempt) settle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != running {
		return false
	}
	a.state = settling
	return true
}

// end says that the task is settled, or lost.
func (a *attempt) end() {
	a.mu.Lock()
	a.state = over
	a.mu.Unlock()
	a.session.drop(a)
}

func (a *attempt) isRunning() bool  { return a.in(running) }
func (a *attempt) isSettling() bool { return a.in(settling) }

func (a *attempt) in(one state) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state == one
}
