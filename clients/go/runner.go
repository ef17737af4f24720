package pgfairq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const queuesSQL = `SELECT q.queue, format('%I.%I', n.nspname, c.relname),
		has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'UPDATE')
			AND has_table_privilege(c.oid, 'DELETE')
	FROM fairq.queues q
	JOIN pg_class c ON c.oid = q.relation
	JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE q.queue = ANY ($1::text[])`

const mostQueues = 32

// RunnerConfig are the settings of a [Runner].
type RunnerConfig struct {
	// Queues are the queues that it serves, 1 to 32: a later one when those before have
	// nothing ready.
	Queues []string

	// Concurrency is how many workers run at a time; 10.
	Concurrency int

	// Prefetch is how many tasks may be claimed ahead, as long as workers are so quick
	// that these begin within 20 ms; 100. A negative number is none.
	Prefetch int

	// TTL is how long the session of the runner lives without a heartbeat; 30 s. A
	// process that hangs for so long has lost its tasks. One that is killed has lost
	// them at once.
	TTL time.Duration

	// StopTimeout is how long workers may go on when the runner stops; 30 s. Then their
	// tasks are given back.
	StopTimeout time.Duration

	// GiveUp is as that of [WorkerOpts], for all workers.
	GiveUp func(err error) bool

	// Name is shown in fairq.sessions; the host and the process.
	Name string

	// Direct is for a runner whose pool goes through a pooler in transaction mode: a
	// pool that goes to the server itself. Its session and its claims need that.
	Direct *sql.DB

	// OpenNode opens a node of a cluster, for a runner whose pool goes to a proxy. It is
	// given keywords of libpq, with a host, port and database. See [OpenNodes].
	OpenNode func(connection string) (*sql.DB, error)

	// Logger is what it logs to; the standard library's log.
	Logger Logger

	// Hooks are told what happens.
	Hooks []Hooks
}

// Runner claims tasks and has workers do them.
type Runner struct {
	config  RunnerConfig
	workers *Workers
	log     Logger
	home    *place

	attended *attendance
	guide    *guide

	started  atomic.Bool
	stopping chan struct{} // closed by stop
	hurrying chan struct{} // closed when workers have no more time
	ended    chan struct{} // closed when Run is over
	stopOnce sync.Once
	hurry    sync.Once
	bell     chan struct{} // something has changed that the loop should look at

	values context.Context // of Run, for hooks and workers

	pace     pace
	mu       sync.Mutex // of what follows
	sessions map[*session]struct{}
	active   map[*attempt]struct{} // in the hands of workers
	leaving  sync.WaitGroup
	claiming bool

	telling atomic.Int64 // hooks are called of so many attempts beside their workers
}

// NewRunner returns a runner of workers. The pool needs three connections, for the session,
// for claims and for acknowledgements, and one for each worker that uses [Job.Tx].
func NewRunner(db *sql.DB, workers *Workers, config RunnerConfig) (*Runner, error) {
	if workers == nil {
		return nil, errors.New("pgfairq: a runner has no Workers; give those of NewWorkers")
	}
	if workers.err != nil {
		return nil, workers.err
	}
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	needed := 3
	if config.Direct != nil {
		needed = 1
		if most := config.Direct.Stats().MaxOpenConnections; most == 1 {
			return nil, errors.New("pgfairq: the pool Direct allows 1 connection; a runner needs 2 there")
		}
	}
	if most := db.Stats().MaxOpenConnections; most > 0 && most < needed {
		return nil, fmt.Errorf(
			"pgfairq: the pool allows %d connections; a runner needs %d, and one for each worker that uses Job.Tx",
			most, needed)
	}
	r := &Runner{
		config: config, workers: workers, log: config.Logger,
		stopping: make(chan struct{}), hurrying: make(chan struct{}), ended: make(chan struct{}),
		bell: make(chan struct{}, 1), pace: newPace(config),
		sessions: make(map[*session]struct{}), active: make(map[*attempt]struct{}),
	}
	r.attended = newAttendance(config.Queues, r.queueIsPutOff)
	r.guide = newGuide(db, config, r.attended)
	r.home = r.placeOf(db, nil)
	return r, nil
}

// complete returns the settings with the defaults.
func (c RunnerConfig) complete() (RunnerConfig, error) {
	seen := make(map[string]bool)
	var queues []string
	for _, queue := range c.Queues {
		if queue == "" {
			return c, errors.New("pgfairq: Queues has an empty name; give 1 to 48 bytes")
		}
		if !seen[queue] {
			seen[queue] = true
			queues = append(queues, queue)
		}
	}
	if c.Queues = queues; len(queues) < 1 || len(queues) > mostQueues {
		return c, fmt.Errorf("pgfairq: Queues has %d names; give 1 to %d", len(queues), mostQueues)
	}
	if c.Concurrency == 0 {
		c.Concurrency = 10
	}
	if c.Prefetch == 0 {
		c.Prefetch = 100
	}
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = stdLogger{}
	}
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%.40s %d", host, os.Getpid())
	}
	c.Name = shortened(strings.ReplaceAll(c.Name, "\x00", ""), 63)
	switch {
	case c.Concurrency < 1 || c.Concurrency > 10000:
		return c, fmt.Errorf("pgfairq: Concurrency is %d; give 1 to 10000", c.Concurrency)
	case c.Prefetch > 10000:
		return c, fmt.Errorf("pgfairq: Prefetch is %d; give up to 10000", c.Prefetch)
	case c.TTL < time.Second/2:
		return c, fmt.Errorf("pgfairq: TTL is %s; give 500ms or more", c.TTL)
	case c.StopTimeout < 0:
		return c, fmt.Errorf("pgfairq: StopTimeout is %s; give a duration above zero", c.StopTimeout)
	}
	return c, nil
}

// shortened returns as many whole characters as there is room for.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func (r *Runner) placeOf(db *sql.DB, at *node) *place {
	p := &place{node: at, db: db, prepare: at != nil || r.config.Direct == nil}
	p.settler = &settler{place: p, timeout: longer(r.config.TTL, lastAnswers),
		aside: newAside(), changed: r.ring,
		onError: func(err error) { r.log.Warn("cannot settle; trying again", "err", err) }}
	return p
}

// Name returns the name of the runner's session.
func (r *Runner) Name() string { return r.config.Name }

// Queues returns the queues that it serves.
func (r *Runner) Queues() []string { return append([]string(nil), r.config.Queues...) }

// Run works until the context ends or [Runner.Stop] is called. Then it claims no more, lets
// workers end for StopTimeout, gives back the rest, and returns nil. A server that is away is
// tried again, later each time. The error is one that no other try would mend: there is no
// such queue, or no privilege. A runner runs once.
//
// Workers get contexts with the values of ctx, which do not end with it.
func (r *Runner) Run(ctx context.Context) error { return r.run(ctx, false) }

// Drain is [Runner.Run] until nothing is left that could be claimed, all is done, and hooks have
// returned. It waits for a queue that is locked, and for none that is dropped or not allowed.
func (r *Runner) Drain(ctx context.Context) error { return r.run(ctx, true) }

func (r *Runner) ring() {
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

// sleep is shorter when the runner stops.
func (r *Runner) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stopping:
	}
}

func (r *Runner) run(ctx context.Context, drain bool) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("pgfairq: the runner has run already; make another one")
	}
	defer close(r.ended)
	r.values = detached{ctx}
	go func() {
		select {
		case <-ctx.Done():
			r.stop()
		case <-r.ended:
		}
	}()
	r.log.Info("runner starts", "name", r.config.Name, "queues", strings.Join(r.config.Queues, ","),
		"concurrency", r.config.Concurrency)
	r.announce("Start", r.hurrying, func(h Hooks) func(context.Context, *Runner) { return h.Start })
	over := make(chan struct{})
	go r.chores(over)
	err := r.serve(drain)
	close(over)
	r.shutDown()
	last := make(chan struct{})
	defer time.AfterFunc(longer(r.config.StopTimeout, lastAnswers), func() { close(last) }).Stop()
	r.announce("Stop", last, func(h Hooks) func(context.Context, *Runner) { return h.Stop })
	r.log.Info("runner has stopped", "name", r.config.Name)
	return err
}

// serve connects and claims, again and again, until the runner stops.
func (r *Runner) serve(drain bool) error {
	pause := backoff{first: 50 * time.Millisecond, longest: 10 * time.Second}
	first := true
	var to *node
	for r.waitForRoom() {
		s, c, at, err := r.connect(to, first)
		if err != nil {
			if first && at == nil && isHopeless(err) {
				return err
			}
			r.guide.lost(at)
			to = nil
			wait := pause.next()
			r.log.Warn("cannot work; trying again", "err", err, "pause", wait)
			r.sleep(wait)
			continue
		}
		first = false
		pause.reset()
		to, err = r.claimUnder(s, c, drain)
		if s.lost() != nil {
			r.guide.lost(at)
		}
		if err != nil && !r.isStopping() {
			r.guide.lost(at)
			s.doubt()
			r.log.Warn("cannot claim with this session; going on with another", "err", err)
		}
		c.close()
		// What the last answer may have granted, and nobody has seen, is given back with
		// the session.
		if !r.isStopping() {
			s.retire()
		}
		if err != nil {
			r.sleep(pause.next())
		}
	}
	return nil
}

// connect opens a session and claims; at a node, if that is where to go, or the proxy says so.
// All queues must be there for the first session.
func (r *Runner) connect(to *node, first bool) (s *session, c *claims, at *node, err error) {
	ctx, cancel := r.untilStop()
	defer cancel()
	r.giveBackAhead()
	if at = to; at == nil {
		if at, err = r.guide.ask(ctx, ""); err != nil {
			return nil, nil, nil, err
		}
	}
	p := r.home
	if at != nil {
		db, err := r.guide.connect(ctx, at)
		if err != nil {
			return nil, nil, at, err
		}
		db.SetMaxIdleConns(r.config.Concurrency + 2)
		p = r.placeOf(db, at)
		r.attended.renew()
	}
	db := p.db
	if at == nil && r.config.Direct != nil {
		db = r.config.Direct
	}
	if first {
		err = r.checkQueues(ctx, db)
	}
	if err == nil {
		err = p.prepareAll(ctx)
	}
	if err == nil {
		if s, err = openSession(ctx, r, p, db); err == nil {
			if c, err = openClaims(ctx, r, db, at != nil); err != nil {
				s.close()
			}
		}
	}
	if err != nil {
		if at != nil {
			p.close()
		}
		return nil, nil, at, err
	}
	r.mu.Lock()
	r.sessions[s] = struct{}{}
	r.mu.Unlock()
	r.leaving.Add(1)
	go r.leave(s)
	return s, c, at, nil
}

// untilStop returns a context that ends when the runner stops.
func (r *Runner) untilStop() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-r.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// leave waits for the end of a session. What is under way then ends, and so do the
// connections to its node.
func (r *Runner) leave(s *session) {
	defer r.leaving.Done()
	<-s.over
	r.mu.Lock()
	delete(r.sessions, s)
	r.mu.Unlock()
	s.place.settler.hurry(false)
	r.ring()
	if err := s.lost(); err != nil {
		r.log.Warn("the session is over; its tasks are put back", "err", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.place.settler.timeout)
	defer cancel()
	if s.place != r.home {
		s.place.settler.idle(ctx)
		s.place.close()
	}
}

// checkQueues returns an error if a queue is not there, or not for this role.
func (r *Runner) checkQueues(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.TTL)
	defer cancel()
	rows, err := db.QueryContext(ctx, queuesSQL, arrayText(r.config.Queues))
	if err != nil {
		return err
	}
	defer rows.Close()
	found := make(map[string]bool)
	for rows.Next() {
		var queue, table string
		var allowed bool
		if err := rows.Scan(&queue, &table, &allowed); err != nil {
			return err
		}
		if found[queue] = true; !allowed {
			return &hopeless{"42501", fmt.Sprintf(
				"this role may not work on queue %q; GRANT SELECT, UPDATE, DELETE ON %s", queue, table)}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, queue := range r.config.Queues {
		if !found[queue] {
			return &hopeless{"42704", fmt.Sprintf(
				"there is no queue %q; make it with Queue.Create or fairq.create_queue", queue)}
		}
	}
	return nil
}

// claimUnder claims until the runner or the session ends; or until it is another node's turn,
// which is returned.
func (r *Runner) claimUnder(s *session, c *claims, drain bool) (*node, error) {
	ended := make(chan struct{})
	defer close(ended)
	go r.endWait(s, c, ended)
	at := s.place.node
	pause := backoff{first: 50 * time.Millisecond, longest: 10 * time.Second}
	for !r.isStopping() && s.isAlive() {
		if r.guide.dueIn() == 0 {
			if following := r.following(s); following != nil {
				return following, nil
			}
		}
		most, idle, quiet := r.pace.wanted(s.place.settler.unsettled())
		if most == 0 {
			r.waitForChange(s, r.guide.dueIn())
			continue
		}
		quiet = quiet && r.hasTold(s) // before the claim, which is too early for what hooks enqueue
		r.setClaiming(true)
		claimed, err := c.claim(s, most, idle && !drain, r.guide.dueIn())
		r.setClaiming(false)
		switch {
		case err == nil:
		case !s.isAlive():
			return nil, nil
		case errors.Is(err, errAllAway) && at == nil && drain: // which may be at its end
		case errors.Is(err, errAllAway) && at == nil:
			r.waitForChange(s, r.attended.dueIn())
			continue
		case at != nil || isConnectionError(err):
			return nil, err
		default:
			if !r.isStopping() {
				r.log.Warn("cannot claim; trying again", "err", err)
				s.doubt()
			}
			r.sleep(pause.next())
			continue
		}
		pause.reset()
		r.guide.found(at, len(claimed))
		r.handOut(claimed, !idle && len(claimed) < most)
		switch {
		case !drain || len(claimed) > 0:
		case quiet && !r.attended.awaits():
			if following := r.following(s); following != nil && following.ready > 0 {
				return following, nil
			}
			r.stop()
		default:
			r.waitForChange(s, shorter(r.guide.dueIn(), r.attended.dueIn()))
		}
	}
	return nil, nil
}

// hasTold reports whether all that has ended is settled, and the hooks are told. They are told
// of what is settled, so what is not settled is counted first.
func (r *Runner) hasTold(s *session) bool {
	unsettled, _ := s.place.settler.unsettled()
	return unsettled == 0 && r.telling.Load() == 0
}

func (r *Runner) waitForChange(s *session, longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-r.bell:
	case <-r.stopping:
	case <-s.over:
	case <-timer.C:
	}
}

// following returns another node, if the runner is to go there. Whoever stays at a node needs
// no proxy.
func (r *Runner) following(s *session) *node {
	if s.place.node == nil {
		return nil
	}
	to, err := r.guide.ask(context.Background(), s.id)
	if err != nil {
		r.log.Warn("cannot ask the proxy for a node; staying", "err", err)
		return nil
	}
	if to == nil || to.number == s.place.node.number {
		return nil
	}
	return to
}

func (r *Runner) setClaiming(claiming bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claiming = claiming
}

func (r *Runner) isClaiming() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claiming
}

// handOut gives claimed tasks to workers.
func (r *Runner) handOut(claimed []*attempt, short bool) {
	r.pace.add(claimed, short)
	r.begin()
}

// begin has workers begin what is claimed, as far as they are free.
func (r *Runner) begin() {
	if r.isStopping() {
		return
	}
	for _, a := range r.pace.begin() {
		go r.work(a)
	}
}

func (r *Runner) giveBackAhead() { r.giveBack(r.pace.takeBack()) }

func (r *Runner) giveBack(some []*attempt) {
	for _, a := range some {
		a.place.settler.add(&settlement{attempt: a, verdict: verdict{kind: releaseVerdict}, last: true,
			settled: func(bool, bool, error) {}})
	}
}

// chores gives back, each second, what was claimed ahead and has not begun.
func (r *Runner) chores(over chan struct{}) {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
			r.giveBack(r.pace.stale(time.Now()))
		}
	}
}
