package pgfairq

import (
	"fmt"
	"time"
)

const (
	// One that was refused and is unsure is tried again, so often and at such intervals.
	unsureTries = 30
	unsurePause = 200 * time.Millisecond

	// One that waits for a lock, or whose server lacks something, is tried again. So is the last
	// that can be said of a task.
	firstAside   = 200 * time.Millisecond
	longestAside = 10 * time.Second

	// A task of which the server takes nothing but that it is given back has so long to wait.
	refusedPause = 10 * time.Second

	// So many tasks of a queue may wait to be settled while others of it are claimed.
	mostWaiting = 100

	idlePause = 10 * time.Millisecond // between looks whether all is settled
)

// aside are settlements that could not be made with others, each of which is tried alone: one
// that waits for the lock of a row or a table keeps no other one waiting for longer than such a
// try takes. Those of a queue that has some that wait come here at once.
type aside struct {
	list     []*settlement
	underWay int
	working  bool
	oldest   bool // whose turn it was
	wake     chan struct{}
	waiting  map[string]int // how many of a queue wait, and are not just tried
}

func newAside() aside {
	return aside{wake: make(chan struct{}, 1), waiting: make(map[string]int)}
}

func (a *aside) count() int { return len(a.list) + a.underWay }

// full returns an error for a queue of which too many tasks wait to be settled.
func (s *settler) full(queue string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if count := s.aside.waiting[queue]; count >= mostWaiting {
		text := fmt.Sprintf("%d tasks of it have ended, and wait to be settled", count)
		return &hopeless{lockNotAvailable, text}
	}
	return nil
}

// putAside adds one, with the lock held.
func (s *settler) putAside(one *settlement) {
	a := &s.aside
	a.list = append(a.list, one)
	if !a.working {
		a.working = true
		go s.workAside()
	} else {
		s.wakeAside()
	}
}

func (s *settler) wakeAside() {
	select {
	case s.aside.wake <- struct{}{}:
	default:
	}
}

// part puts a batch aside that cannot be settled as it is. One that is alone is settled, or has
// waited.
func (s *settler) part(batch []*settlement, err error) {
	if len(batch) == 1 {
		s.settledAlone(batch[0], nil, err)
		return
	}
	if isTransient(err) {
		s.onError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range batch {
		s.putAside(one)
	}
}

// again tries one another time: the server may not have seen yet that a connection is gone, or
// somebody has a lock.
func (s *settler) again(one *settlement, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hurried {
		pause = shorter(pause, firstAside)
	}
	one.tries++
	one.due = time.Now().Add(pause)
	s.putAside(one)
}

// hurry has all tried now, since the runner stops, or since a session is over. When it stops
// there is no time for longer pauses.
func (s *settler) hurry(stops bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = s.hurried || stops
	for _, one := range s.aside.list {
		one.due = time.Time{}
	}
	s.wakeAside()
}

func (s *settler) workAside() {
	for {
		one, pause := s.takeAside()
		s.changed()
		switch {
		case one != nil:
			s.settleAlone(one)
		case pause < 0:
			return
		default:
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-s.aside.wake:
			}
			timer.Stop()
		}
	}
}

// takeAside returns one that is due: in turn that which was tried least often and that which has
// been due for longest, so that neither those that come nor those that wait are kept by others.
// If none is due it returns how long to wait; below zero: there is none.
func (s *settler) takeAside() (*settlement, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.aside
	a.underWay = 0
	if len(a.list) == 0 {
		a.working = false
		return nil, -1
	}
	a.oldest = !a.oldest
	best, now := 0, time.Now()
	for n, one := range a.list {
		if one.before(a.list[best], now, a.oldest) {
			best = n
		}
	}
	one := a.list[best]
	if left := one.due.Sub(now); left > 0 {
		return nil, left
	}
	a.list = append(a.list[:best:best], a.list[best+1:]...)
	a.underWay = 1
	return one, 0
}

// before reports whether one is to be tried before another one. Those that are due come first.
func (one *settlement) before(other *settlement, now time.Time, oldest bool) bool {
	if oldest || one.due.After(now) || other.due.After(now) || one.tries == other.tries {
		return one.due.Before(other.due)
	}
	return one.tries < other.tries
}

func (s *settler) settleAlone(one *settlement) {
	if len(living([]*settlement{one})) == 0 {
		s.setWaits(one, false)
		return
	}
	mine, err := s.send([]*settlement{one}, alonePatience)
	s.settledAlone(one, mine, err)
}

func (s *settler) settledAlone(one *settlement, mine map[string]bool, err error) {
	switch {
	case err == nil:
		s.setWaits(one, false)
		s.tell(one, mine)
		return
	case !isTransient(err) && !one.last:
		s.setWaits(one, false)
		one.settled(false, false, err)
		return
	case isConnectionError(err):
		one.attempt.session.doubt()
	default:
		s.setWaits(one, true)
		if sqlState(err) == lockNotAvailable {
			s.postponeUntried(one.attempt.task.Queue)
		}
	}
	if one.pause.longest == 0 {
		s.onError(err)
		one.pause = backoff{first: firstAside, longest: longestAside}
	}
	s.again(one, one.pause.next())
}

// postponeUntried has those of a queue wait that were not tried yet. If its table is locked, the
// try of each would keep other queues waiting, and meanwhile nothing would be claimed.
func (s *settler) postponeUntried(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.aside.list {
		if one.tries == 0 && one.attempt.task.Queue == queue {
			one.tries++
			one.due = time.Now().Add(firstAside)
			s.noteWaits(one, true)
		}
	}
}

func (s *settler) setWaits(one *settlement, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteWaits(one, waits)
}

// noteWaits counts one among those of its queue that wait, with the lock held.
func (s *settler) noteWaits(one *settlement, waits bool) {
	if one.waits == waits {
		return
	}
	one.waits = waits
	queue := one.attempt.task.Queue
	if waits {
		s.aside.waiting[queue]++
	} else if s.aside.waiting[queue]--; s.aside.waiting[queue] == 0 {
		delete(s.aside.waiting, queue)
	}
}
