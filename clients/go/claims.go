package pgfairq

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

const (
	// The claim asks for what has set its patience, so it comes after that.
	claimSQL = `SELECT queue, id, receipt::text, group_key, subgroup_key, name, attempt, priority,
			enqueued_at, expires_at, payload::text, headers::text
		FROM (SELECT set_config('lock_timeout', $5, true) OFFSET 0) AS bound (patience)
		CROSS JOIN LATERAL fairq.claim_any(CASE WHEN bound.patience IS NOT NULL THEN $1::text[] END,
			$2::int, session => $3::uuid, wait => $4::interval)`
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
	attended  *attendance
	grace     time.Duration
	idle      bool
}

func openClaims(ctx context.Context, r *Runner, db *sql.DB, atNode bool) (*claims, error) {
	ctx, cancelOpen := context.WithTimeout(ctx, r.config.TTL)
	defer cancelOpen()
	conn, pid, err := ownConn(ctx, db, lockPatience)
	if err != nil {
		return nil, err
	}
	c := &claims{conn: conn, pid: pid, attended: r.attended, grace: grace}
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
// vain in the procedure, for longest. A queue that is put off ends the sleep when it is due.
func (c *claims) claim(s *session, most int, wait bool, longest time.Duration) ([]*attempt, error) {
	var claimed []*attempt
	settler := s.place.settler
	for _, queue := range c.attended.there() {
		if err := settler.full(queue); err != nil {
			c.attended.putOff(queue, err)
		}
	}
	err := c.attended.call(func(queue string) (bool, error) {
		if err := settler.full(queue); err != nil {
			return true, err
		}
		some, err := c.send(s, []string{queue}, most-len(claimed), 0, alonePatience)
		claimed = append(claimed, some...)
		return len(claimed) < most, err
	}, func(queues []string) error {
		if len(claimed) > 0 {
			return nil
		}
		var short time.Duration
		if wait {
			if err := c.sleep(queues, shorter(longest, c.attended.dueIn())); err != nil {
				return err
			}
			short = shorter(shortWait, c.attended.dueIn())
		}
		some, err := c.send(s, queues, most, short, lockPatience)
		claimed = some
		c.idle = wait && len(some) == 0
		return err
	})
	if len(claimed) > 0 {
		return claimed, nil // they are ours; the next call meets the error again
	}
	return nil, err
}

func shorter(d, other time.Duration) time.Duration {
	if d < other {
		return d
	}
	return other
}

func longer(d, other time.Duration) time.Duration {
	if d > other {
		return d
	}
	return other
}

// sleep waits for tasks, if the last claim has waited in vain.
func (c *claims) sleep(queues []string, longest time.Duration) error {
	if !c.idle {
		return nil
	}
	longest = shorter(longest, longWait)
	ctx, cancel := context.WithTimeout(c.ctx, longest+c.grace)
	defer cancel()
	c.idle = false
	_, err := c.waitStmt.ExecContext(ctx, arrayText(queues), interval(longest))
	return err
}

func (c *claims) send(
	s *session, queues []string, most int, wait, patience time.Duration,
) ([]*attempt, error) {
	ctx, cancel := context.WithTimeout(c.ctx, wait+c.grace)
	defer cancel()
	rows, err := c.claimStmt.QueryContext(
		ctx, arrayText(queues), most, s.id, interval(wait), milliseconds(patience))
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
