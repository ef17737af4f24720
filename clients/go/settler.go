package pgfairq

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// How a lease is to end.
type verdictKind int

const (
	ackVerdict    verdictKind = iota
	resultVerdict             // an ack with a result
	nackVerdict
	releaseVerdict
	cancelVerdict
	verdictKinds
)

type verdict struct {
	kind   verdictKind
	result string        // of an ack: JSON
	err    string        // of a nack
	delay  time.Duration // of a release, and of a nack if it has one
	delays bool          // a nack has one
	final  bool          // of a nack: no other attempt would fare better
	most   int           // of a nack: so many attempts may fail; 0: as the task says
}

// A settlement is what is to be settled, and who is told.
type settlement struct {
	attempt *attempt
	verdict verdict
	unsure  bool // a transaction that has acknowledged may still be open at the server
	tries   int

	// settled is called once. Not mine: the lease was lost, or nobody can say. dead: it
	// was the last attempt.
	settled func(mine, dead bool, err error)
}

const (
	ackManySQL = "SELECT fairq.ack_many($1::uuid[])::text"

	ackResultsSQL = `WITH keeping AS MATERIALIZED (SELECT queue FROM fairq.queues WHERE keep_done > '0')
		SELECT receipt::text
		FROM jsonb_to_recordset($1::jsonb) AS t (receipt uuid, queue text, result jsonb)
		WHERE fairq.ack(receipt, CASE WHEN queue IN (SELECT queue FROM keeping) THEN result END)`

	// Before the answer the task counts one attempt less than after it.
	nackSQL = `SELECT receipt::text, dead FROM (
			SELECT t.receipt, t.error, t.delay,
				t.final OR t.most > 0 AND s.attempts + 1 >= t.most AS final,
				t.final OR t.most > 0 AND s.attempts + 1 >= t.most
				OR s.max_attempts > 0 AND s.attempts + 1 >= s.max_attempts AS dead
			FROM jsonb_to_recordset($1::jsonb) AS t
				(receipt uuid, queue text, id bigint, error text, delay interval, final boolean, most int)
			CROSS JOIN LATERAL fairq.get_task(t.queue, t.id) s OFFSET 0) answers
		WHERE fairq.nack(receipt, error, delay => CASE WHEN NOT final THEN delay END, final => final)`

	releaseSQL = `SELECT receipt::text
		FROM jsonb_to_recordset($1::jsonb) AS t (receipt uuid, delay interval)
		WHERE fairq.release(receipt, delay)`

	// Only the holder of a lease cancels the task.
	cancelOursSQL = `SELECT receipt::text
		FROM jsonb_to_recordset($1::jsonb) AS t (receipt uuid, queue text, id bigint)
		WHERE CASE WHEN fairq.extend(receipt) IS NOT NULL
			THEN fairq.cancel(queue, id) ELSE false END`
)

var verdictSQL = [verdictKinds]string{ackManySQL, ackResultsSQL, nackSQL, releaseSQL, cancelOursSQL}

const (
	mostAtOnce = 1000

	// One that was refused and is unsure is tried again, so often and at such intervals.
	unsureTries = 30
	unsurePause = 200 * time.Millisecond
)

// settler settles in batches: what is given while a statement is under way goes with the
// next one. Nothing waits for a batch to fill. A batch of which one cannot be settled is
// settled one by one.
type settler struct {
	place   *place
	timeout time.Duration
	onError func(error)
	changed func() // there is less that is not settled

	mu       sync.Mutex
	pending  []*settlement
	underWay int
	again    int           // that wait to be tried again
	working  chan struct{} // closed when there is nothing more to do; nil while there is nothing
}

func (s *settler) add(one *settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(one)
}

func (s *settler) addLocked(one *settlement) {
	s.pending = append(s.pending, one)
	if s.working == nil {
		s.working = make(chan struct{})
		go s.work(s.working)
	}
}

func (s *settler) unsettled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) + s.underWay + s.again
}

// idle returns when all that was added is settled, or when the context ends.
func (s *settler) idle(ctx context.Context) {
	for {
		s.mu.Lock()
		working, again := s.working, s.again
		s.mu.Unlock()
		if working == nil && again == 0 {
			return
		}
		var tick <-chan time.Time
		if working == nil {
			tick = time.After(unsurePause)
		}
		select {
		case <-working:
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

func (s *settler) work(done chan struct{}) {
	defer close(done)
	for {
		batch := s.take()
		s.changed()
		if batch == nil {
			return
		}
		s.settle(batch)
	}
}

// take returns the first that is pending, and what can go with it.
func (s *settler) take() []*settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay = 0
	if len(s.pending) == 0 {
		s.working = nil
		return nil
	}
	kind := s.pending[0].verdict.kind
	var batch, rest []*settlement
	for _, one := range s.pending {
		if one.verdict.kind == kind && len(batch) < mostAtOnce {
			batch = append(batch, one)
		} else {
			rest = append(rest, one)
		}
	}
	s.pending, s.underWay = rest, len(batch)
	return batch
}

func (s *settler) settle(batch []*settlement) {
	pause := backoff{first: 50 * time.Millisecond, longest: 2 * time.Second}
	for {
		var alive []*settlement
		for _, one := range batch {
			if one.attempt.session.isAlive() {
				alive = append(alive, one)
			} else {
				one.settled(false, false, nil)
			}
		}
		if len(alive) == 0 {
			return
		}
		mine, err := s.send(alive)
		switch {
		case err == nil:
			s.tell(alive, mine)
			return
		case !isTransient(err) && len(alive) == 1:
			alive[0].settled(false, false, err)
			return
		case !isTransient(err):
			for _, one := range alive {
				s.settle([]*settlement{one})
			}
			return
		}
		s.onError(err)
		alive[0].attempt.session.doubt()
		time.Sleep(pause.next())
		batch = alive
	}
}

func (s *settler) tell(batch []*settlement, mine map[string]bool) {
	for _, one := range batch {
		dead, ok := mine[one.attempt.receipt]
		if !ok && one.unsure && one.tries < unsureTries {
			s.later(one)
			continue
		}
		one.settled(ok, dead, nil)
	}
}

// later adds one again: the server may not have seen yet that its connection is gone.
func (s *settler) later(one *settlement) {
	one.tries++
	s.mu.Lock()
	s.again++
	s.mu.Unlock()
	time.AfterFunc(unsurePause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.again--
		s.addLocked(one)
	})
}

// A record is what the statements read, as JSON.
type record struct {
	Receipt string          `json:"receipt"`
	Queue   string          `json:"queue,omitempty"`
	ID      int64           `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Delay   *string         `json:"delay,omitempty"`
	Final   bool            `json:"final"`
	Most    int             `json:"most"`
}

// send settles some of one kind. It returns the receipts that were ours, and whether their
// tasks are dead now.
func (s *settler) send(batch []*settlement) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	kind := batch[0].verdict.kind
	argument, err := argumentOf(kind, batch)
	if err != nil {
		return nil, err
	}
	rows, err := s.place.query(ctx, verdictSQL[kind], argument)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	mine := make(map[string]bool, len(batch))
	for rows.Next() {
		var receipt string
		var dead bool
		if kind == nackVerdict {
			err = rows.Scan(&receipt, &dead)
		} else {
			err = rows.Scan(&receipt)
		}
		if err != nil {
			return nil, err
		}
		mine[receipt] = dead
	}
	return mine, rows.Err()
}

func argumentOf(kind verdictKind, batch []*settlement) (string, error) {
	if kind == ackVerdict {
		receipts := make([]string, len(batch))
		for n, one := range batch {
			receipts[n] = one.attempt.receipt
		}
		return arrayText(receipts), nil
	}
	records := make([]record, len(batch))
	for n, one := range batch {
		v, task := one.verdict, &one.attempt.task
		records[n] = record{Receipt: one.attempt.receipt, Queue: task.Queue, ID: task.ID,
			Error: v.err, Final: v.final, Most: v.most}
		if v.result != "" {
			records[n].Result = json.RawMessage(v.result)
		}
		if v.delays || kind == releaseVerdict {
			records[n].Delay = Ptr(interval(v.delay))
		}
	}
	return jsonText("a settlement", records)
}

// verdictOf says what the error of a handler means for its task.
func verdictOf(
	err error, opts WorkerOpts, attempt int, giveUp func(error) bool,
) (verdict, Outcome) {
	var snooze *SnoozeError
	var cancel *CancelError
	var retry *RetryError
	var unrecoverable *UnrecoverableError
	failed := verdict{kind: nackVerdict, err: errorText(err), most: opts.MaxAttempts}
	switch {
	case errors.As(err, &snooze):
		if wrong := checkDelay("the delay of Snooze", snooze.Delay); wrong != nil {
			failed.err = wrong.Error()
			return failed, OutcomeFailed
		}
		return verdict{kind: releaseVerdict, delay: snooze.Delay}, OutcomeSnoozed
	case errors.As(err, &cancel):
		return verdict{kind: cancelVerdict}, OutcomeCancelled
	case errors.As(err, &retry):
		if wrong := checkDelay("the delay of RetryAfter", retry.Delay); wrong != nil {
			failed.err += "\n" + wrong.Error()
			return failed, OutcomeFailed
		}
		failed.delay, failed.delays = retry.Delay, true
		return failed, OutcomeFailed
	case errors.As(err, &unrecoverable),
		opts.GiveUp != nil && opts.GiveUp(err), giveUp != nil && giveUp(err):
		failed.final = true
		return failed, OutcomeFailed
	}
	if opts.Backoff != nil {
		failed.delays = true
		if failed.delay = opts.Backoff(attempt); failed.delay < 0 {
			failed.delay = 0
		}
	}
	return failed, OutcomeFailed
}
