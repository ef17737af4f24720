package pgfairq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// work has its worker do a task, and settles it.
func (r *Runner) work(a *attempt) {
	a.began = time.Now()
	defer func() {
		r.pace.end(time.Since(a.began))
		r.begin()
		r.ring()
	}()
	worker := r.workers.find(a.task.Name)
	var opts WorkerOpts
	if worker != nil {
		opts = worker.opts
	}
	a.ctx = newJobContext(r.values, opts.Timeout)
	a.hookCtx = detached{a.ctx}
	if !a.session.hold(a) {
		return // it is put back
	}
	r.setActive(a, true)
	defer r.setActive(a, false)
	defer a.ctx.cancel(nil) // what was made of it ends, too
	ctx := r.before(a)
	if opts.Timeout > 0 {
		timer := time.AfterFunc(opts.Timeout, a.expire)
		defer timer.Stop()
	}
	err := worker.call(ctx, a)
	took := time.Since(a.began)
	if !a.settle() {
		a.endTx()
		<-a.told
		outcome := OutcomeLost
		if errors.Is(a.reason, ErrStopped) {
			outcome = OutcomeReturned
		}
		r.tellEnd(a, End{outcome, a.reason, took})
		return
	}
	if a.ctx.reason() == ErrTimeout {
		err = &timeoutError{opts.Timeout, err}
	}
	if err == nil {
		r.succeed(a, opts, took)
	} else {
		a.endTx()
		r.fail(a, opts, err, took, false)
	}
}

func (r *Runner) setActive(a *attempt, active bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if active {
		r.active[a] = struct{}{}
	} else {
		delete(r.active, a)
	}
}

// timeoutError is the error of a handler whose time was over when it ended, with what it has
// returned: that may say what comes next, or what it was that was cancelled.
type timeoutError struct {
	timeout time.Duration
	err     error
}

func (e *timeoutError) Error() string {
	text := fmt.Sprintf("%v: more than %s", ErrTimeout, e.timeout)
	if e.err == nil || errors.Is(e.err, context.DeadlineExceeded) || errors.Is(e.err, context.Canceled) {
		return text
	}
	return text + ": " + e.err.Error()
}

func (e *timeoutError) Unwrap() error        { return e.err }
func (e *timeoutError) Is(target error) bool { return target == ErrTimeout }

// succeed acknowledges: in the transaction of the task if it has begun, else with others.
func (r *Runner) succeed(a *attempt, opts WorkerOpts, took time.Duration) {
	if a.usedTx() == nil {
		v := verdict{kind: ackVerdict}
		if a.result != nil {
			v.kind, v.result = resultVerdict, *a.result
		}
		r.settle(a, v, End{Outcome: OutcomeCompleted, Duration: took}, false)
		return
	}
	mine, err := a.commit(a.place.settler.timeout)
	a.endTx()
	switch {
	case err != nil:
		r.fail(a, opts, err, took, errors.Is(err, errUnsure) || sqlState(err) == "")
	case mine:
		a.end()
		r.tellEnd(a, End{Outcome: OutcomeCompleted, Duration: took})
	default:
		r.lostAtLast(a, fmt.Errorf("%w: what the transaction has written is rolled back", ErrLeaseLost), took)
	}
}

// fail settles a task whose attempt has failed, or is to end otherwise. unsure: its
// transaction may have been committed.
func (r *Runner) fail(a *attempt, opts WorkerOpts, err error, took time.Duration, unsure bool) {
	v, outcome := r.verdictOf(a, opts, &err)
	r.settle(a, v, End{outcome, err, took}, unsure)
}

// verdictOf asks functions of the application, too, whose panic is the error of the attempt.
func (r *Runner) verdictOf(a *attempt, opts WorkerOpts, err *error) (v verdict, outcome Outcome) {
	defer func() {
		if value := recover(); value != nil {
			*err = &panicError{value, debug.Stack()}
			v, outcome = verdict{kind: nackVerdict, err: errorText(*err)}, OutcomeFailed
		}
	}()
	return verdictOf(*err, opts, a.task.Attempt, r.config.GiveUp)
}

func (r *Runner) settle(a *attempt, v verdict, end End, unsure bool) {
	r.submit(&settlement{attempt: a, verdict: v, unsure: unsure}, end)
}

func (r *Runner) submit(one *settlement, end End) {
	a := one.attempt
	one.settled = func(mine, dead bool, err error) {
		switch {
		case err != nil:
			r.refused(one, err, end)
		case mine:
			a.end()
			if dead {
				end.Outcome = OutcomeDead
			}
			r.tell(func() { r.tellEnd(a, end) })
		default:
			r.lostAtLast(a, fmt.Errorf("%w, or it is not known whether the task was settled", ErrLeaseLost), end.Duration)
		}
	}
	a.place.settler.add(one)
}

// refused is for what the server does not take, such as a result that no jsonb can hold, or an
// error that a constraint of the table refuses: the attempt has failed, with what may be said of
// it. If the server takes no failure either, the task is given back, after a while, since it runs
// again at once then.
func (r *Runner) refused(one *settlement, err error, end End) {
	a, v := one.attempt, one.verdict
	r.log.Warn("the server refuses what is said of a task", append(a.attributes(), "err", err)...)
	if v.kind != nackVerdict {
		end.Err = err
	}
	bare := v.kind == nackVerdict && !v.delays && v.err == ""
	if v.kind == cancelVerdict || bare {
		end.Outcome = OutcomeSnoozed
		back := &settlement{attempt: a, verdict: verdict{kind: releaseVerdict}, last: true,
			due: time.Now().Add(around(refusedPause, 0.5, 1))}
		r.submit(back, end)
		return
	}
	failed := verdict{kind: nackVerdict, final: v.final, most: v.most}
	if v.kind != nackVerdict || v.delays {
		if failed.err = errorText(err); v.err != "" {
			failed.err = v.err + "\n" + failed.err
		}
	}
	end.Outcome = OutcomeFailed
	r.submit(&settlement{attempt: a, verdict: failed}, end)
}

// lostAtLast is for a task whose handler has ended, and that was not ours any more.
func (r *Runner) lostAtLast(a *attempt, reason error, took time.Duration) {
	a.end()
	r.tell(func() {
		r.tellLost(a, reason)
		r.tellEnd(a, End{OutcomeLost, reason, took})
	})
}

// --- what is told ---

func (a *attempt) attributes() []any {
	t := &a.task
	return []any{"task", t.ID, "queue", t.Queue, "group", t.Group, "name", t.Name, "attempt", t.Attempt}
}

// eachHook calls something of each Hooks. What panics there is logged.
func (r *Runner) eachHook(what string, call func(Hooks)) {
	for _, hooks := range r.config.Hooks {
		func() {
			defer func() {
				if value := recover(); value != nil {
					r.log.Error("a hook has panicked", "hook", what, "err", value)
				}
			}()
			call(hooks)
		}()
	}
}

// announce calls a hook of each Hooks about the runner itself. It does not wait for them
// beyond the end of patience.
func (r *Runner) announce(
	what string, end <-chan struct{}, of func(Hooks) func(context.Context, *Runner),
) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.eachHook(what, func(h Hooks) {
			if call := of(h); call != nil {
				call(r.values, r)
			}
		})
	}()
	select {
	case <-done:
	case <-end:
		r.log.Warn("a hook has not returned; the runner goes on without it", "hook", what)
	}
}

// tell calls hooks of an attempt where its worker has ended. Not where it was settled, or a
// hook that takes long would hold up the settlements of others.
func (r *Runner) tell(hooks func()) {
	r.telling.Add(1)
	go func() {
		defer r.ring()
		defer r.telling.Add(-1)
		hooks()
	}()
}

// before returns the context of the handler, with what the hooks have put on it.
func (r *Runner) before(a *attempt) context.Context {
	var ctx context.Context = a.ctx
	r.eachHook("Before", func(h Hooks) {
		if h.Before == nil {
			return
		}
		if with := h.Before(ctx, &a.task); with != nil {
			ctx = with
		}
	})
	a.mu.Lock()
	a.hookCtx = detached{ctx}
	a.mu.Unlock()
	return ctx
}

func (a *attempt) contextOfHooks() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hookCtx
}

func (r *Runner) tellLost(a *attempt, reason error) {
	r.log.Warn("a task was lost", append(a.attributes(), "err", reason)...)
	r.eachHook("Lost", func(h Hooks) {
		if h.Lost != nil {
			h.Lost(a.contextOfHooks(), &a.task, reason)
		}
	})
}

// tellEnd tells how an attempt has ended.
func (r *Runner) tellEnd(a *attempt, end End) {
	ctx := a.contextOfHooks()
	about := append(a.attributes(), "duration", end.Duration, "outcome", string(end.Outcome))
	switch end.Outcome {
	case OutcomeFailed:
		r.log.Warn("an attempt has failed", append(about, "err", end.Err)...)
	case OutcomeDead:
		r.log.Error("a task is dead", append(about, "err", end.Err)...)
	default:
		r.log.Debug("an attempt has ended", about...)
	}
	if end.Outcome == OutcomeFailed || end.Outcome == OutcomeDead {
		r.eachHook("Failed", func(h Hooks) {
			if h.Failed != nil {
				h.Failed(ctx, &a.task, end.Err)
			}
		})
	}
	if end.Outcome == OutcomeDead {
		r.eachHook("Dead", func(h Hooks) {
			if h.Dead != nil {
				h.Dead(ctx, &a.task, end.Err)
			}
		})
	}
	r.eachHook("After", func(h Hooks) {
		if h.After != nil {
			h.After(ctx, &a.task, end)
		}
	})
}
