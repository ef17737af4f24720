package pgfairq

// What needs no server. Seen to fail:
// - "Connection strings": the first port for each host
// - "Merging options": the arguments' own before those of the call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestConnectionStrings(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`host=a,b port = 1,2 dbname='my \'db\'' x=`:       {"host": "a,b", "port": "1,2", "dbname": "my 'db'", "x": ""},
		"postgres://ann:s%40x@proxy:7/px?sslmode=disable": {"host": "proxy", "port": "7", "dbname": "px", "user": "ann", "password": "s@x", "sslmode": "disable"},
		"postgresql:///px?host=/run/x&connect_timeout=3":  {"host": "/run/x", "dbname": "px", "connect_timeout": "3"},
		"": {},
	} {
		got, err := keywordsOf(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"host", "host=a secret", "=x", "postgres://u:secret@h:bad port/"} {
		if _, err := keywordsOf(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
	got, err := dataSourceAt("host=n1 dbname=app keepalives_idle=5 tcp_user_timeout=3000 connect_timeout=2", "postgres://ann:x@proxy:7/px?sslmode=disable")
	if want := "connect_timeout='2' dbname='app' host='n1' password='x' sslmode='disable' user='ann'"; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	hosts := hostsOf("host=a,b port=1,2 dbname=app")
	if want := []string{"dbname='app' host='a' port='1'", "dbname='app' host='b' port='2'"}; !reflect.DeepEqual(hosts, want) {
		t.Errorf("hosts %q", hosts)
	}
	hosts = hostsOf("host=name hostaddr=10.0.0.1,10.0.0.2 port=5")
	if want := []string{"host='10.0.0.1' port='5'", "host='10.0.0.2' port='5'"}; !reflect.DeepEqual(hosts, want) {
		t.Errorf("hosts %q", hosts)
	}
}

func TestValues(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.000000 s", 1500 * time.Millisecond: "1.500000 s", 100 * time.Hour: "360000.000000 s", 7 * time.Microsecond: "0.000007 s"} {
		if got := interval(d); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
	if got, _ := optionalInterval("Delay", time.Nanosecond); got != "0.000001 s" {
		t.Errorf("a nanosecond is %v", got)
	}
	if got := arrayText([]any{nil, `a"\`, "", 1.5}); got != `{NULL,"a\"\\","","1.5"}` {
		t.Error(got)
	}
	if got := shortened("aé", 2); got != "a" {
		t.Errorf("%q", got)
	}
}

func TestMergingOptions(t *testing.T) {
	own := EnqueueOpts{Queue: "a", Group: "a", Subgroup: "a", Priority: Ptr(1), Cost: 1, Delay: 1, ExpiresAt: time.Unix(1, 0), UniqueKey: "a",
		UniqueFor: 1, MaxAttempts: 1, MaxLost: 1, Lease: 1, Headers: map[string]any{"a": 1}, After: []int64{1}, OnDead: OnDeadRun}
	if got := own.with(EnqueueOpts{}); !reflect.DeepEqual(got, own) {
		t.Errorf("with nothing: %+v", got)
	}
	call := EnqueueOpts{Queue: "b", Group: "b", Subgroup: "b", Priority: Ptr(0), Cost: 2, RunAt: time.Unix(2, 0), NeverExpires: true, UniqueKey: "b",
		UniqueFor: 2, Replace: true, MaxAttempts: 2, MaxLost: 2, Lease: 2, Headers: map[string]any{"b": 2}, After: []int64{2}, OnDead: OnDeadHold}
	got := own.with(call)
	if !reflect.DeepEqual(got.Headers, map[string]any{"a": 1, "b": 2}) || len(own.Headers) != 1 {
		t.Errorf("headers %v, %v", got.Headers, own.Headers)
	}
	if got.Headers = call.Headers; !reflect.DeepEqual(got, call) {
		t.Errorf("with all: %+v", got)
	}
}

type args struct{ N int }

func (args) Kind() string { return "args" }

type pointerArgs struct{ N int }

func (p *pointerArgs) Kind() string { return fmt.Sprint("pointer", p.N) }

type nameless struct{}

func (nameless) Kind() string { return "" }

func work[T JobArgs](context.Context, *Job[T]) error { return nil }

func TestWorkersThatAreRefused(t *testing.T) {
	for part, add := range map[string]func(*Workers){
		`two workers of "args"`:             func(w *Workers) { AddWorker(w, WorkFunc(work[args])); AddWorker(w, WorkFunc(work[args])) },
		"Kind of pgfairq.nameless is empty": func(w *Workers) { AddWorker(w, WorkFunc(work[nameless])) },
		"a worker of pgfairq.JobArgs":       func(w *Workers) { AddWorker(w, WorkFunc(work[JobArgs])) },
		"Timeout is -1s":                    func(w *Workers) { AddWorkerOpts(w, WorkFunc(work[args]), WorkerOpts{Timeout: -time.Second}) },
		"MaxAttempts is -1":                 func(w *Workers) { AddWorkerOpts(w, WorkFunc(work[args]), WorkerOpts{MaxAttempts: -1}) },
		"two fallbacks": func(w *Workers) {
			none := func(context.Context, *Job[json.RawMessage]) error { return nil }
			AddFallback(w, none, WorkerOpts{})
			AddFallback(w, none, WorkerOpts{})
		},
	} {
		workers := NewWorkers()
		add(workers)
		if _, err := NewRunner(nil, workers, RunnerConfig{}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v instead of %q", err, part)
		}
	}
	workers := NewWorkers()
	AddWorker(workers, WorkFunc(work[*pointerArgs]))
	if workers.err != nil || workers.find("pointer0") == nil {
		t.Errorf("arguments that are a pointer: %v", workers.err)
	}
}

func TestConfigThatIsRefused(t *testing.T) {
	queues := []string{"a"}
	for part, config := range map[string]RunnerConfig{
		"Queues has 0 names":         {},
		"Queues has an empty name":   {Queues: []string{""}},
		"Concurrency is -1":          {Queues: queues, Concurrency: -1},
		"Prefetch is 10001":          {Queues: queues, Prefetch: 10001},
		"TTL is 1ms":                 {Queues: queues, TTL: time.Millisecond},
		"StopTimeout is -1ns":        {Queues: queues, StopTimeout: -1},
		"Queues has 33 names; give ": {Queues: strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33")},
	} {
		if _, err := NewRunner(nil, NewWorkers(), config); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v instead of %q", err, part)
		}
	}
	if _, err := NewRunner(nil, nil, RunnerConfig{Queues: queues}); err == nil {
		t.Error("a runner without workers")
	}
	config, err := RunnerConfig{Queues: []string{"b", "a", "b"}, Name: strings.Repeat("é", 60)}.complete()
	if err != nil || !reflect.DeepEqual(config.Queues, []string{"b", "a"}) || len(config.Name) != 62 {
		t.Errorf("%v, %v", config, err)
	}
}

func TestAJobOfATest(t *testing.T) {
	job := &Job[args]{Args: args{1}}
	if err := job.SetResult(map[string]bool{"ok": true}); err != nil || string(job.Result()) != `{"ok":true}` {
		t.Errorf("result %s, %v", job.Result(), err)
	}
	if _, err := job.Tx(context.Background()); err != ErrNotRunning {
		t.Errorf("Tx: %v", err)
	}
	if err := job.Progress(context.Background(), 1); err != ErrNotRunning {
		t.Errorf("Progress: %v", err)
	}
	if _, err := job.Extend(context.Background()); err != ErrNotRunning {
		t.Errorf("Extend: %v", err)
	}
}

func TestTheContextOfAWorker(t *testing.T) {
	type key struct{}
	runner, end := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	ctx := newJobContext(detached{runner}, time.Hour)
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	end()
	if ctx.Err() != nil || child.Err() != nil || child.Value(key{}) != "value" || Cause(child) != nil {
		t.Errorf("%v, %v, %v", ctx.Err(), child.Value(key{}), Cause(child))
	}
	if deadline, ok := child.Deadline(); !ok || time.Until(deadline) > time.Hour {
		t.Errorf("deadline %v", deadline)
	}
	lost := fmt.Errorf("%w: why", ErrLeaseLost)
	ctx.cancel(lost)
	ctx.cancel(ErrTimeout)
	<-child.Done()
	if ctx.Err() != context.Canceled || Cause(child) != lost || !errors.Is(Cause(child), ErrLeaseLost) {
		t.Errorf("%v, %v", ctx.Err(), Cause(child))
	}
	late := newJobContext(context.Background(), 0)
	late.cancel(ErrTimeout)
	if late.Err() != context.DeadlineExceeded {
		t.Errorf("%v", late.Err())
	}
	if Cause(context.Background()) != nil {
		t.Error("another context has a cause")
	}
}

func TestErrorsAreOfTheirCause(t *testing.T) {
	cause := errors.New("cause")
	for _, err := range []error{Unrecoverable(cause), Cancel(cause), RetryAfter(cause, 1), &panicError{value: cause}} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "cause") {
			t.Errorf("%v", err)
		}
	}
	if text := Snooze(time.Minute).Error(); text != "snoozed for 1m0s" {
		t.Error(text)
	}
	failed := &TaskError{ID: 1, State: "dead", LastError: "first\nsecond"}
	if failed.Error() != "pgfairq: task 1 is dead: first" {
		t.Error(failed)
	}
}

func TestPauses(t *testing.T) {
	pause := backoff{first: time.Second, longest: 10 * time.Second}
	for n, most := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if got := pause.next(); got < most*time.Second/2 || got > most*time.Second {
			t.Errorf("pause %d is %s", n, got)
		}
	}
	pause.reset()
	if got := pause.next(); got > time.Second {
		t.Errorf("%s after a reset", got)
	}
}

func TestPace(t *testing.T) {
	p := newPace(RunnerConfig{Concurrency: 4, Prefetch: 100})
	expect := func(what string, most int, idle bool) {
		t.Helper()
		if gotMost, gotIdle, _ := p.wanted(0, 0); gotMost != most || gotIdle != idle {
			t.Errorf("%s: %d, %v instead of %d, %v", what, gotMost, gotIdle, most, idle)
		}
	}
	expect("nothing is known", 4, true)
	p.add([]*attempt{{}, {}, {}, {}}, false)
	if begun := p.begin(); len(begun) != 4 {
		t.Errorf("%d have begun", len(begun))
	}
	expect("all are busy", 0, false)
	p.end(time.Millisecond)
	expect("as many as begin within 20 ms", 1+80, true)
	p.end(time.Second)
	expect("one was slow", 2, true)
	if most, _, _ := p.wanted(1000, 0); most != 0 {
		t.Errorf("%d while many are not settled", most)
	}
	p.end(time.Millisecond)
	p.end(time.Millisecond)
	if most, _, _ := p.wanted(1000, 1000); most == 0 {
		t.Error("those that wait keep others from being claimed")
	}
	if _, _, quiet := p.wanted(0, 0); !quiet {
		t.Error("not quiet")
	}
	if _, _, quiet := p.wanted(1, 0); quiet {
		t.Error("quiet while one is not settled")
	}
}

func TestTheGuide(t *testing.T) {
	g := newGuide(nil, RunnerConfig{}, newAttendance([]string{"a"}, nil))
	if g.dueIn() != forever {
		t.Error("it asks although it does not know that there is a proxy")
	}
	g.isProxy = true
	g.postpone()
	if d := g.dueIn(); d < time.Second || d > 3*time.Second {
		t.Errorf("due in %s", d)
	}
	at := &node{number: 2}
	g.lost(at)
	if one := g.unreached[2]; one == nil || time.Until(one.until) < 2*time.Second {
		t.Errorf("unreached %v", one)
	}
	g.found(at, 1)
	if len(g.unreached) != 0 {
		t.Error("it was reached")
	}
	g.found(at, 0)
	if d := g.dueIn(); d > 750*time.Millisecond {
		t.Errorf("due in %s although the node has become empty", d)
	}
}

func TestAttendance(t *testing.T) {
	refused := map[string]bool{"b": true, "c": true}
	var calls, put []string
	var a *attendance
	a = newAttendance([]string{"a", "b", "c", "d"}, func(queue string, err error, pause time.Duration) {
		put = append(put, queue)
		a.away[queue].until = time.Now().Add(time.Hour)
		if pause < firstAbsence/2 || pause > longestAbsence {
			t.Errorf("put off for %s", pause)
		}
	})
	alone := func(queue string) (bool, error) { return true, refusalOf(refused, queue) }
	together := func(queues []string) error {
		calls = append(calls, strings.Join(queues, ""))
		return refusalOf(refused, queues...)
	}
	dueNow := func() {
		for _, one := range a.away {
			one.until = time.Time{}
		}
	}
	call := func() (string, error) {
		calls, put = nil, nil
		err := a.call(alone, together)
		return fmt.Sprint(calls, put), err
	}
	for n, want := range []string{"[abcd a] [b]", "[a] [c]", "[ad] []", "[ad] []"} {
		if got, err := call(); got != want || err != nil {
			t.Errorf("call %d: %s, %v instead of %s", n, got, err, want)
		}
	}
	delete(refused, "c")
	dueNow()
	if got, _ := call(); got != "[ad] [b]" {
		t.Errorf("one refused queue a call: %s", got)
	}
	if got, _ := call(); got != "[acd] []" || a.dueIn() <= 0 || a.dueIn() == forever {
		t.Errorf("one that is there again: %s, %s", got, a.dueIn())
	}
	for _, queue := range a.queues {
		refused[queue] = true
	}
	if got, err := call(); !errors.Is(err, errAllAway) || got != "[acd] [a c d]" {
		t.Errorf("all are refused: %s, %v", got, err)
	}
	gone := &hopeless{"08006", "gone"}
	a = newAttendance([]string{"a", "b"}, nil)
	if err := a.call(alone, func([]string) error { return gone }); err != gone || len(a.away) != 0 {
		t.Errorf("a lost connection: %v, %v", err, a.away)
	}
	several := &hopeless{"42883", "of no queue"}
	delete(refused, "a")
	delete(refused, "b")
	if err := a.call(alone, func([]string) error { return several }); err != several || len(a.there()) != 2 {
		t.Errorf("what is of no queue: %v, %v", err, a.there())
	}
}

func TestWhatADrainAwaits(t *testing.T) {
	a := newAttendance([]string{"a"}, func(string, error, time.Duration) {})
	for state, want := range map[string]bool{"42704": false, "42501": false, lockNotAvailable: true, "53400": true} {
		if a.putOff("a", &hopeless{state, "x"}); a.awaits() != want {
			t.Errorf("awaited after %s: %v", state, !want)
		}
	}
	a.renew()
	if !a.awaits() {
		t.Error("what is in doubt is not awaited")
	}
}

func refusalOf(refused map[string]bool, queues ...string) error {
	for _, queue := range queues {
		if refused[queue] {
			return &hopeless{"42704", queue}
		}
	}
	return nil
}

func TestWhatErrorsSay(t *testing.T) {
	for state, want := range map[string]string{
		"": "transient", "08006": "transient", "57P01": "transient", "57014": "transient", "40001": "transient",
		"53200": "transient refusal", "53400": "transient refusal", "58030": "transient refusal", "55P03": "transient refusal",
		"23514": "refusal", "42501": "refusal", "42704": "refusal", "P0001": "refusal", "22P02": "refusal", "55000": "",
	} {
		var err error = &hopeless{state, "x"}
		var said []string
		if isTransient(err) {
			said = append(said, "transient")
		}
		if isRefusal(err) {
			said = append(said, "refusal")
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s is %q instead of %q", state, got, want)
		}
	}
	if isRefusal(nil) {
		t.Error("no error is a refusal")
	}
}

// asideOf returns a settler that tries nothing, and settlements of these queues in it.
func asideOf(queues ...string) (*settler, []*settlement) {
	s := &settler{aside: newAside(), onError: func(error) {}}
	s.aside.working = true
	for _, queue := range queues {
		s.putAside(&settlement{attempt: &attempt{task: Task{Queue: queue}}})
	}
	return s, append([]*settlement(nil), s.aside.list...)
}

func TestATableThatIsLockedIsTriedOnce(t *testing.T) {
	s, list := asideOf("locked", "locked", "locked", "other")
	first, _ := s.takeAside()
	s.settledAlone(first, nil, &hopeless{lockNotAvailable, "locked"})
	if count, waiting := s.unsettled(); waiting != 3 || s.aside.waiting["locked"] != 3 {
		t.Errorf("%d of %d wait", waiting, count)
	}
	if one, _ := s.takeAside(); one != list[3] {
		t.Error("another queue waits for the locked one")
	}
	s, _ = asideOf("a", "a")
	first, _ = s.takeAside()
	s.settledAlone(first, nil, &hopeless{"53200", "memory"})
	if _, waiting := s.unsettled(); waiting != 1 {
		t.Errorf("%d wait for no lock", waiting)
	}
}

func TestPausesAreShortWhenTheRunnerStops(t *testing.T) {
	s, list := asideOf("a")
	list[0].pause = backoff{first: longestAside, longest: longestAside}
	s.hurry(false)
	one, _ := s.takeAside()
	s.settledAlone(one, nil, &hopeless{lockNotAvailable, "locked"})
	if left := time.Until(one.due); left < firstAside {
		t.Errorf("the next try comes in %s although the runner goes on", left)
	}
	s.hurry(true)
	one, _ = s.takeAside()
	s.settledAlone(one, nil, &hopeless{lockNotAvailable, "locked"})
	if left := time.Until(one.due); left > firstAside {
		t.Errorf("the next try comes in %s", left)
	}
}

func TestACallForAllWhenAllArePutOff(t *testing.T) {
	refused := map[string]bool{"b": true}
	a := newAttendance([]string{"a", "b"}, func(string, error, time.Duration) {})
	for _, queue := range a.queues {
		a.putOff(queue, refusalOf(refused, "b"))
	}
	var calls []string
	err := a.callTogether(false, func(queues []string) error {
		calls = append(calls, strings.Join(queues, ""))
		return refusalOf(refused, queues...)
	})
	if got := fmt.Sprint(calls); got != "[ab a b a]" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if len(a.there()) != 0 {
		t.Errorf("%v are there before a claim has found that", a.there())
	}
}
