package pgfairq

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

const (
	claimSQL = `SELECT queue, id, receipt::text, group_key, subgroup_key, name, attempt, priority,
			enqueued_at, expires_at, payload::text, headers::text
		FROM fairq.claim_any($1::text[], $2::int, session => $3::uuid, wait => $4::interval)`
	waitSQL = "CALL fairq.wait_any($1::text[], $2::interval)"
)

const (
	// A statement that waits has a snapshot, which holds up vacuum: so it does for no
	// longer than this. The procedure, which waits then, has none.
	shortWait = time.Second
	longWait  = 30 * time.Second

	// What an answer may take beyond the wait before the connection is taken for dead;
	// less at a node of a cluster, where there are others.
	grace       = 30 * time.Second
	graceAtNode = 10 * time.Second
)

// claims are made on a connection of their own, which waits at the server while there is
// nothing.
type claims struct {
	ctx       context.Context // ends a statement that is under way
	cancel    context.CancelFunc
	conn      *sql.Conn
	claimStmt *sql.Stmt
	waitStmt  *sql.Stmt
	pid       int
	queues    string
	grace     time.Duration
	idle      bool
}

func openClaims(ctx context.Context, r *Runner, db *sql.DB, atNode bool) (*claims, error) {
	ctx, cancelOpen := context.WithTimeout(ctx, r.config.TTL)
	defer cancelOpen()
	conn, pid, err := ownConn(ctx, db, 0)
	if err != nil {
		return nil, err
	}
	c := &claims{conn: conn, pid: pid, queues: arrayText(r.config.Queues), grace: grace}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if atNode {
		c.grace = graceAtNode
	}
	if c.claimStmt, err = conn.PrepareContext(ctx, claimSQL); err == nil {
		c.waitStmt, err = conn.PrepareContext(ctx, waitSQL)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *claims) close() {
	c.cancel()
	hangUp(c.conn)
}

// claim claims up to so many tasks. With wait it may sleep until there is something: for a
// short time in the claim itself, which then has the task at once, and when that was in
// vain in the procedure, for longest.
func (c *claims) claim(s *session, most int, wait bool, longest time.Duration) ([]*attempt, error) {
	if wait && c.idle {
		if longest > longWait {
			longest = longWait
		}
		ctx, cancel := context.WithTimeout(c.ctx, longest+c.grace)
		defer cancel()
		if _, err := c.waitStmt.ExecContext(ctx, c.queues, interval(longest)); err != nil {
			return nil, err
		}
		c.idle = false
	}
	var short time.Duration
	if wait {
		short = shortWait
	}
	claimed, err := c.send(s, most, short)
	c.idle = wait && len(claimed) == 0
	return claimed, err
}

func (c *claims) send(s *session, most int, wait time.Duration) ([]*attempt, error) {
	ctx, cancel := context.WithTimeout(c.ctx, wait+c.grace)
	defer cancel()
	rows, err := c.claimStmt.QueryContext(ctx, c.queues, most, s.id, interval(wait))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	now := time.Now()
	var claimed []*attempt
	for rows.Next() {
		a := &attempt{session: s, place: s.place, claimed: now}
		if err := a.scan(rows); err != nil {
			return nil, err
		}
		claimed = append(claimed, a)
	}
	return claimed, rows.Err()
}

func (a *attempt) scan(rows *sql.Rows) error {
	t := &a.task
	var subgroup, name, headers sql.NullString
	var expires sql.NullTime
	var payload string
	err := rows.Scan(&t.Queue, &t.ID, &a.receipt, &t.Group, &subgroup, &name, &t.Attempt, &t.Priority,
		&t.EnqueuedAt, &expires, &payload, &headers)
	if err != nil {
		return err
	}
	t.Subgroup, t.Name, t.ExpiresAt = subgroup.String, name.String, expires.Time
	t.Payload = json.RawMessage(payload)
	t.Headers = headersOf(headers.String)
	if before, ok := t.Headers["task"].(string); ok && !name.Valid {
		t.Name = before // where libraries of version 0.2 kept it
	}
	return nil
}

// headersOf returns headers that are an object; whoever writes SQL may have given others.
func headersOf(text string) map[string]any {
	var headers map[string]any
	if text == "" || json.Unmarshal([]byte(text), &headers) != nil {
		return nil
	}
	return headers
}
