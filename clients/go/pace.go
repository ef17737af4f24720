package pgfairq

import (
	"math"
	"sync"
	"time"
)

const (
	// No more tasks are claimed ahead than are begun within this time, as workers go.
	aheadTime = 20 * time.Millisecond

	// What was claimed ahead and has not begun after so long is given back: a worker
	// takes longer than others did.
	patience = time.Second

	// So many ended tasks may wait for their acknowledgement while others are claimed; or
	// as many as are claimed at a time.
	mostUnsettled = 10
)

// pace decides how many tasks to claim, and when they begin.
type pace struct {
	concurrency int
	prefetch    int

	paceMu sync.Mutex
	busy   int        // in the hands of workers
	ahead  []*attempt // claimed, and not begun
	short  bool       // the last claim ahead found less than it asked for

	// How long workers take: the slow count at once, the quick by and by.
	typical time.Duration
}

func newPace(config RunnerConfig) pace {
	prefetch := config.Prefetch
	if prefetch < 0 {
		prefetch = 0
	}
	return pace{concurrency: config.Concurrency, prefetch: prefetch, typical: forever}
}

// wanted returns how many tasks to claim, for workers that are free and some ahead;
// whether a worker is free, so that it is worth waiting; and whether nothing is under way.
// Those that wait to be settled do not count for the limit: their queues are put off.
func (p *pace) wanted(unsettled, waiting int) (most int, idle, quiet bool) {
	p.paceMu.Lock()
	defer p.paceMu.Unlock()
	if soon := unsettled - waiting; soon > mostUnsettled && soon > p.concurrency+p.prefetch {
		return 0, false, false
	}
	free := p.concurrency - p.busy
	ahead := p.prefetch
	inTime := float64(aheadTime) / float64(p.typical) * float64(p.concurrency)
	if inTime < float64(ahead) {
		ahead = int(math.Floor(inTime))
	}
	quiet = p.busy == 0 && len(p.ahead) == 0 && unsettled == 0
	switch {
	case free > 0:
		return free + ahead - len(p.ahead), true, quiet
	case p.short || len(p.ahead) > ahead/2:
		return 0, false, false
	}
	return ahead - len(p.ahead), false, false
}

func (p *pace) add(claimed []*attempt, short bool) {
	p.paceMu.Lock()
	defer p.paceMu.Unlock()
	p.ahead = append(p.ahead, claimed...)
	p.short = short
}

// begin returns those whose turn it is.
func (p *pace) begin() []*attempt {
	p.paceMu.Lock()
	defer p.paceMu.Unlock()
	count := p.concurrency - p.busy
	if count > len(p.ahead) {
		count = len(p.ahead)
	}
	begun := p.ahead[:count:count]
	p.ahead = p.ahead[count:]
	p.busy += count
	return begun
}

// end says that a worker has ended.
func (p *pace) end(took time.Duration) {
	p.paceMu.Lock()
	defer p.paceMu.Unlock()
	p.busy--
	if took < time.Microsecond {
		took = time.Microsecond
	}
	if took > p.typical || p.typical == forever {
		p.typical = took
	} else {
		p.typical = (9*p.typical + took) / 10
	}
}

// takeBack returns all that has not begun.
func (p *pace) takeBack() []*attempt {
	p.paceMu.Lock()
	defer p.paceMu.Unlock()
	some := p.ahead
	p.ahead = nil
	return some
}

// stale returns all that has not begun if the first of it has waited for too long.
func (p *pace) stale(now time.Time) []*attempt {
	p.paceMu.Lock()
	if len(p.ahead) == 0 || now.Sub(p.ahead[0].claimed) < patience {
		p.paceMu.Unlock()
		return nil
	}
	p.typical = forever
	p.paceMu.Unlock()
	return p.takeBack()
}

func (p *pace) running() int {
	p.paceMu.Lock()
	defer p.paceMu.Unlock()
	return p.busy
}
