package pgfairq

import (
	"errors"
	"sync"
	"time"
)

const (
	// A queue that is refused is put off for so long at first, and at last.
	firstAbsence   = time.Second
	longestAbsence = time.Minute

	// How long a statement about many tasks or queues waits for a lock, and one about a
	// task or a queue that may be what is locked.
	lockPatience  = time.Second
	alonePatience = 50 * time.Millisecond
)

// errAllAway says that all queues are put off.
var errAllAway = errors.New("pgfairq: all queues are put off")

// attendance knows which queues a runner attends to. The server refuses a call about several
// queues if it refuses one of them, and the call waits for the lock of each of their tables. So
// a queue that is refused, or locked, is put off, for longer each time, while the others are
// attended to without it.
type attendance struct {
	queues []string
	onPut  func(queue string, err error, pause time.Duration)

	mu   sync.Mutex
	away map[string]*absence
}

type absence struct {
	until time.Time // from then on the queue is called for alone
	pause backoff
	gone  bool // it was refused for what does not pass by itself
}

func newAttendance(queues []string, onPut func(string, error, time.Duration)) *attendance {
	return &attendance{queues: queues, onPut: onPut, away: make(map[string]*absence)}
}

// call has together make a call for the queues that are there. If one of them is refused, each
// is called for alone, as are those that were put off for long enough; more: there is room for
// what another one has. Those that are there call one refused queue at a time, so that it costs
// them little.
func (a *attendance) call(
	alone func(queue string) (more bool, err error), together func(queues []string) error,
) error {
	var refusal error
	for {
		if err := a.look(alone); err != nil {
			return err
		}
		there := a.there()
		if len(there) == 0 {
			return errAllAway
		}
		err := together(there)
		if refusal != nil || !isRefusal(err) {
			return err
		}
		refusal = err
		a.doubt()
	}
}

// callTogether makes a call for the queues that are there, or for all if none is, or if it is
// strict. If it is refused, and not strict, those that are refused alone are put off, and the
// others called for. Whether one that is put off is there again is for call to find out.
func (a *attendance) callTogether(strict bool, call func(queues []string) error) error {
	some := a.there()
	if strict || len(some) == 0 {
		some = a.queues
	}
	err := call(some)
	if strict || !isRefusal(err) {
		return err
	}
	var good []string
	for _, queue := range some {
		refusal := call([]string{queue})
		switch {
		case isRefusal(refusal):
			a.putOff(queue, refusal)
		case refusal != nil:
			return refusal
		default:
			good = append(good, queue)
		}
	}
	if len(good) == 0 {
		return err
	}
	return call(good)
}

// look calls for those that may be there again.
func (a *attendance) look(alone func(queue string) (bool, error)) error {
	for _, queue := range a.due() {
		more, err := alone(queue)
		switch {
		case err == nil:
			a.mu.Lock()
			delete(a.away, queue)
			a.mu.Unlock()
		case !isRefusal(err):
			return err
		default:
			a.putOff(queue, err)
			more = len(a.there()) == 0
		}
		if !more {
			return nil
		}
	}
	return nil
}

func (a *attendance) putOff(queue string, err error) {
	a.mu.Lock()
	one := a.absence(queue)
	pause := one.pause.next()
	one.until = time.Now().Add(pause)
	one.gone = !isTransient(err)
	a.mu.Unlock()
	a.onPut(queue, err, pause)
}

// absence returns that of a queue, with the lock held.
func (a *attendance) absence(queue string) *absence {
	one := a.away[queue]
	if one == nil {
		one = &absence{pause: backoff{first: firstAbsence, longest: longestAbsence}}
		a.away[queue] = one
	}
	return one
}

// doubt has each queue called for alone, before it is called for with others.
func (a *attendance) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, queue := range a.queues {
		if a.away[queue] == nil {
			a.absence(queue)
		}
	}
}

// renew has those called for that are put off: it is another node by now.
func (a *attendance) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.away {
		*one = absence{pause: backoff{first: firstAbsence, longest: longestAbsence}}
	}
}

// there returns the queues that are not put off, in their order.
func (a *attendance) there() []string {
	return a.those(func(one *absence) bool { return one == nil })
}

// due returns those that were put off for long enough.
func (a *attendance) due() []string {
	now := time.Now()
	return a.those(func(one *absence) bool { return one != nil && !now.Before(one.until) })
}

func (a *attendance) those(are func(*absence) bool) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var some []string
	for _, queue := range a.queues {
		if are(a.away[queue]) {
			some = append(some, queue)
		}
	}
	return some
}

// awaits reports whether one that is put off, or in doubt, may have tasks that can be claimed
// before long: it is locked, or there is no room. One that is dropped or revoked is not awaited.
func (a *attendance) awaits() bool {
	return len(a.those(func(one *absence) bool { return one != nil && !one.gone })) > 0
}

// dueIn returns how soon one is to be called for alone.
func (a *attendance) dueIn() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	least := forever
	for _, one := range a.away {
		if left := time.Until(one.until); left < least {
			least = left
		}
	}
	if least < 0 {
		return 0
	}
	return least
}

func (r *Runner) queueIsPutOff(queue string, err error, pause time.Duration) {
	r.log.Warn("a queue is put off", "queue", queue, "err", err, "pause", pause)
}
