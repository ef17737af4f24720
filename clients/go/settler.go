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
	last    bool // nothing else can be said if it is refused, so it is tried again

	// Of one that is settled alone.
	due    time.Time // not before
	tries  int
	doubts int // answers that it is not ours, which may be untrue
	pause  backoff
	waits  bool // for a lock, or until it is due

	// settled is called once. Not mine: the lease was lost, or nobody can say. dead: it
	// was the last attempt.
	settled func(mine, dead bool, err error)
}

const (
	// How long a statement waits for a lock: for itself alone, and in one trip. What it does
	// asks for what has set that, or comes after it in the list, so it is done later.
	fromBound   = "FROM (SELECT set_config('lock_timeout', $2, true) OFFSET 0) AS bound (patience)"
	fromRecords = fromBound + ` CROSS JOIN LATERAL
		jsonb_to_recordset(CASE WHEN bound.patience IS NOT NULL THEN $1::jsonb END) AS t `

	ackManySQL = "SELECT fairq.ack_many($1::uuid[])::text " + fromBound

	ackResultsSQL = `WITH keeping AS MATERIALIZED (SELECT queue FROM fairq.queues WHERE keep_done > '0')
		SELECT receipt::text ` + fromRecords + `(receipt uuid, queue text, result jsonb)
		WHERE fairq.ack(receipt, CASE WHEN queue IN (SELECT queue FROM keeping) THEN result END)`

	// Before the answer the task counts one attempt less than after it.
	nackSQL = `SELECT receipt::text, dead FROM (
			SELECT t.receipt, t.error, t.delay,
				t.final OR t.most > 0 AND s.attempts + 1 >= t.most AS final,
				t.final OR t.most > 0 AND s.attempts + 1 >= t.most
				OR s.max_attempts > 0 AND s.attempts + 1 >= s.max_attempts AS dead
			` + fromRecords + `
				(receipt uuid, queue text, id bigint, error text, delay interval, final boolean, most int)
			CROSS JOIN LATERAL fairq.get_task(t.queue, t.id) s OFFSET 0) answers
		WHERE fairq.nack(receipt, error, delay => CASE WHEN NOT final THEN delay END, final => final)`

	releaseSQL = `SELECT receipt::text ` + fromRecords + `(receipt uuid, delay interval)
		WHERE fairq.release(receipt, delay)`

	// Only the holder of a lease cancels the task.
	cancelOursSQL = `SELECT receipt::text ` + fromRecords + `(receipt uuid, queue text, id bigint)
		WHERE CASE WHEN fairq.extend(receipt) IS NOT NULL
			THEN fairq.cancel(queue, id) ELSE false END`
)

var verdictSQL = [verdictKinds]string{ackManySQL, ackResultsSQL, nackSQL, releaseSQL, cancelOursSQL}

const mostAtOnce = 1000

// settler settles in batches: what is given while a statement is under way goes with the
// next one. Nothing waits for a batch to fill. A batch that is refused, or waits for a lock,
// is put aside, where each is settled alone.
type settler struct {
	place   *place
	timeout time.Duration
	onError func(error)
	changed func() // there is less that is not settled

	mu       sync.Mutex
	pending  []*settlement
	underWay int
	working  bool
	aside    aside
	hurried  bool // pauses are short from now on
}

func (s *settler) add(one *settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !one.due.IsZero() {
		s.noteWaits(one, true)
	}
	if s.aside.waiting[one.attempt.task.Queue] > 0 {
		s.putAside(one)
		return
	}
	s.pending = append(s.pending, one)
	if !s.working {
		s.working = true
		go s.work()
	}
}

// unsettled returns how many there are, and how many of them wait for locks, or for their time.
func (s *settler) unsettled() (count, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, some := range s.aside.waiting {
		waiting += some
	}
	return len(s.pending) + s.underWay + s.aside.count(), waiting
}

// idle returns when all that was added is settled, or when the context ends.
func (s *settler) idle(ctx context.Context) {
	ticker := time.NewTicker(idlePause)
	defer ticker.Stop()
	for {
		if count, _ := s.unsettled(); count == 0 {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *settler) work() {
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
		s.working = false
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
		if batch = living(batch); len(batch) == 0 {
			return
		}
		mine, err := s.send(batch, lockPatience)
		switch {
		case err == nil:
			for _, one := range batch {
				s.tell(one, mine)
			}
			return
		case !isConnectionError(err):
			s.part(batch, err)
			return
		}
		s.onError(err)
		batch[0].attempt.session.doubt()
		time.Sleep(pause.next())
	}
}

// living returns those whose session lives, and tells the others that they are lost.
func living(batch []*settlement) []*settlement {
	var alive []*settlement
	for _, one := range batch {
		if one.attempt.session.isAlive() {
			alive = append(alive, one)
		} else {
			one.settled(false, false, nil)
		}
	}
	return alive
}

// tell tells one what the server has said of some.
func (s *settler) tell(one *settlement, mine map[string]bool) {
	dead, ok := mine[one.attempt.receipt]
	if !ok && one.unsure && one.doubts < unsureTries {
		one.doubts++
		s.again(one, unsurePause)
		return
	}
	one.settled(ok, dead, nil)
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
func (s *settler) send(batch []*settlement, patience time.Duration) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	kind := batch[0].verdict.kind
	argument, err := argumentOf(kind, batch)
	if err != nil {
		return nil, err
	}
	rows, err := s.place.query(ctx, verdictSQL[kind], argument, milliseconds(patience))
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
