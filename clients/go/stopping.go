package pgfairq

import (
	"context"
	"time"
)

const (
	// What is under way at the server when a runner stops has so long to answer.
	lastAnswers = 5 * time.Second

	// While a claim that waits is to be ended it is cancelled so often: a cancel may
	// come between two statements.
	cancelPause = 50 * time.Millisecond
)

// Stop ends Run as the end of its context does, and returns when that has returned. When
// ctx ends first, workers have no more time: their tasks are given back at once, and the
// error is that of ctx.
func (r *Runner) Stop(ctx context.Context) error {
	r.stop()
	if r.started.CompareAndSwap(false, true) {
		close(r.ended) // it has never run, and never will
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
	}
	r.hurry.Do(func() { close(r.hurrying) })
	<-r.ended
	return ctx.Err()
}

func (r *Runner) stop() {
	r.stopOnce.Do(func() {
		close(r.stopping)
		time.AfterFunc(r.config.StopTimeout, func() { r.hurry.Do(func() { close(r.hurrying) }) })
	})
}

func (r *Runner) isStopping() bool {
	select {
	case <-r.stopping:
		return true
	default:
		return false
	}
}

// endWait ends a claim that waits when the runner stops or the session is over.
func (r *Runner) endWait(s *session, c *claims, ended chan struct{}) {
	select {
	case <-ended:
		return
	case <-s.over:
		c.cancel()
		return
	case <-r.stopping:
	}
	for end := time.Now().Add(lastAnswers); time.Now().Before(end); {
		if r.isClaiming() {
			s.cancelBackend(c.pid)
		}
		select {
		case <-ended:
			return
		case <-time.After(cancelPause):
		}
	}
	c.cancel()
}

// shutDown lets workers end, gives back the rest, and closes the sessions.
func (r *Runner) shutDown() {
	r.stop()
	r.giveBackAhead()
	r.waitUntil(r.hurrying, func() bool { return r.pace.running() == 0 })
	for _, a := range r.attempts() {
		a.lose(ErrStopped)
	}
	r.mu.Lock()
	var open []*session
	for s := range r.sessions {
		open = append(open, s)
	}
	r.mu.Unlock()
	for _, s := range open {
		s.place.settler.hurry(true)
	}
	r.waitAtLast(func() bool {
		for _, a := range r.attempts() {
			if a.isSettling() {
				return false
			}
		}
		return true
	})
	for _, s := range open {
		ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
		s.place.settler.idle(ctx)
		cancel()
		s.close()
	}
	r.leaving.Wait()
	r.waitAtLast(func() bool {
		unsettled, _ := r.home.settler.unsettled()
		return unsettled == 0 && r.telling.Load() == 0
	})
	r.home.close()
}

// waitAtLast waits for a condition of which the bell tells, but not for long.
func (r *Runner) waitAtLast(condition func() bool) {
	last := make(chan struct{})
	timer := time.AfterFunc(lastAnswers, func() { close(last) })
	defer timer.Stop()
	r.waitUntil(last, condition)
}

// waitUntil waits for a condition of which the bell tells, or for the end of patience.
func (r *Runner) waitUntil(end chan struct{}, condition func() bool) {
	for !condition() {
		select {
		case <-r.bell:
		case <-end:
			return
		}
	}
}

// attempts returns those that workers have.
func (r *Runner) attempts() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := make([]*attempt, 0, len(r.active))
	for a := range r.active {
		some = append(some, a)
	}
	return some
}
