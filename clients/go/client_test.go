package pgfairq_test

// What a client sends, and what a queue shows of it. Seen to fail:
// - "Every option": with two columns of enqueue in each other's place
// - "Many": with ids in the order of the statement's rows; without a transaction on a *sql.Conn
// - "Publish": with the queue of the config
// - "Administration", "Schedules": with NoLimit for what has no such limit
// - "A transaction": with the pool in place of the transaction

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgfairq"
)

var background = context.Background()

func TestEveryOptionOfEnqueue(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{Subgroups: pgfairq.Ptr(true)})
	first := f.enqueue(Send{To: "ann <b> & \u2028"}, nil)
	status := f.get(first)
	equal(t, "plain", fmt.Sprint(status.State, status.Group, status.Subgroup, status.Name, status.Priority, status.Cost,
		status.MaxAttempts, status.MaxLost, status.UniqueKey, status.Headers), "overflowsend4 1 20 5map[]") // where there are subgroups
	contains(t, string(status.Payload), "ann <b> & ")
	id := f.enqueue(Send{}, &pgfairq.EnqueueOpts{
		Group: "42", Subgroup: "ann", Priority: pgfairq.Ptr(0), Cost: 2.5, Delay: time.Hour, UniqueKey: "k",
		UniqueFor: time.Hour, Replace: true, MaxAttempts: 7, MaxLost: 8, Lease: time.Minute,
		Headers: map[string]any{"h": "v"}, ExpiresAt: time.Now().Add(2 * time.Hour), OnDead: pgfairq.OnDeadCancel,
	})
	status = f.get(id)
	equal(t, "all", fmt.Sprint(status.State, status.Group, status.Subgroup, status.Name, status.Priority, status.Cost,
		status.MaxAttempts, status.MaxLost, status.UniqueKey, status.Headers), "scheduled42annsend0 2.5 7 8kmap[h:v]")
	if d := time.Until(status.RunAt); d < 50*time.Minute || d > 70*time.Minute {
		t.Errorf("runs in %s", d)
	}
	if d := time.Until(status.ExpiresAt); d < 110*time.Minute || d > 130*time.Minute {
		t.Errorf("expires in %s", d)
	}
	equal(t, "lease", f.number("SELECT extract(epoch FROM lease)::int FROM fairq.get_task('emails', $1)", id), 60)
	replaced := f.enqueue(Send{To: "bob"}, &pgfairq.EnqueueOpts{UniqueKey: "k", Replace: true})
	equal(t, "replaced", replaced, id)
	contains(t, string(f.get(id).Payload), "bob")
	f.enqueue(Send{To: "eve"}, &pgfairq.EnqueueOpts{UniqueKey: "k"})
	contains(t, string(f.get(id).Payload), "bob") // kept
	held := f.get(f.enqueue(Send{}, &pgfairq.EnqueueOpts{After: []int64{first, id}, MaxAttempts: pgfairq.NoLimit, MaxLost: pgfairq.NoLimit}))
	equal(t, "held", fmt.Sprint(held.State, held.MaxAttempts, held.MaxLost), "held0 0")
	f.must(f.queue.Alter(background, pgfairq.QueueOpts{ExpireAfter: time.Hour}))
	equal(t, "expires", f.get(f.enqueue(Send{}, nil)).ExpiresAt.IsZero(), false)
	equal(t, "never expires", f.get(f.enqueue(Send{}, &pgfairq.EnqueueOpts{NeverExpires: true})).ExpiresAt.IsZero(), true)
	at := time.Now().Add(time.Hour).Round(time.Microsecond)
	equal(t, "run at", f.get(f.enqueue(Send{}, &pgfairq.EnqueueOpts{RunAt: at})).RunAt.Equal(at), true)
}

type withOpts struct {
	Tenant int
}

func (withOpts) Kind() string { return "with_opts" }

func (w withOpts) EnqueueOpts() pgfairq.EnqueueOpts {
	return pgfairq.EnqueueOpts{Queue: "emails", Group: fmt.Sprint(w.Tenant), MaxAttempts: 3, Delay: time.Hour,
		Headers: map[string]any{"a": 1, "b": 1}}
}

func TestOptionsOfArguments(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.client = pgfairq.NewClient(f.db, nil) // whose queue is "default"
	status := f.get(f.enqueue(withOpts{42}, nil))
	equal(t, "their own", fmt.Sprint(status.State, status.Group, " ", status.MaxAttempts), "scheduled42 3")
	at := time.Now().Add(2 * time.Hour).Round(time.Microsecond)
	status = f.get(f.enqueue(withOpts{42}, &pgfairq.EnqueueOpts{Group: "7", RunAt: at, Headers: map[string]any{"b": 2}}))
	equal(t, "the call's", fmt.Sprint(status.Group, " ", status.MaxAttempts, status.Headers), "7 3 map[a:1 b:2]")
	equal(t, "run at", status.RunAt.Equal(at), true)
	if _, err := f.client.Enqueue(background, Send{}, nil); err == nil || !strings.Contains(err.Error(), `"default"`) {
		t.Errorf("the default queue: %v", err)
	}
}

func TestATransactionOfTheApplication(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	for _, commit := range []bool{false, true} {
		tx, err := f.db.BeginTx(background, nil)
		f.must(err)
		_, err = f.client.EnqueueTx(background, tx, Send{}, nil)
		f.must(err)
		_, err = f.client.EnqueueManyTx(background, tx, []pgfairq.EnqueueParams{{Args: Send{}}, {Args: Send{}}})
		f.must(err)
		f.must(f.queue.WithTx(tx).SetGroup(background, "42", pgfairq.GroupOpts{Weight: 2}))
		equal(t, "seen by others", f.left(), 0)
		if commit {
			f.must(tx.Commit())
		} else {
			f.must(tx.Rollback())
		}
	}
	equal(t, "left", f.left(), 3)
	equal(t, "settings", f.number("SELECT count(*) FROM fairq.group_settings"), 1)
}

func TestManyTasks(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.must(f.client.Queue("other").Create(background, pgfairq.QueueOpts{}))
	var params []pgfairq.EnqueueParams
	for n := 0; n < 50; n++ {
		params = append(params, pgfairq.EnqueueParams{Args: Send{To: fmt.Sprintf(`%d "\,{}`, n)}, Opts: &pgfairq.EnqueueOpts{
			Group: fmt.Sprintf(`g"\ %d`, n%3), UniqueKey: fmt.Sprintf("k%02d", 50-n), Cost: 1.5}})
	}
	check := func(ids []int64, err error) {
		t.Helper()
		f.must(err)
		for n, id := range ids {
			status := f.get(id)
			contains(t, string(status.Payload), fmt.Sprintf(`"%d \"\\,{}"`, n))
			equal(t, "of the task", fmt.Sprint(status.Group, status.Name, status.Cost, status.UniqueKey),
				fmt.Sprintf(`g"\ %dsend1.5k%02d`, n%3, 50-n))
		}
	}
	check(f.client.EnqueueMany(background, params))
	_, err := f.queue.Purge(background)
	f.must(err)
	for n := range params {
		params[n].Opts.Headers = map[string]any{"n": n} // not what is fastest
	}
	params[0].Opts.After = []int64{1, 2}
	params[0].Opts.ExpiresAt = time.Now().Add(time.Hour)
	check(f.client.EnqueueMany(background, params))

	mixed := []pgfairq.EnqueueParams{{Args: Send{}, Opts: &pgfairq.EnqueueOpts{Queue: "other"}}, {Args: Send{}}, {Args: Send{}, Opts: &pgfairq.EnqueueOpts{Queue: "nowhere"}}}
	before := f.left()
	if _, err := f.client.EnqueueMany(background, mixed); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("a queue that is not there: %v", err)
	}
	equal(t, "other", f.number("SELECT count(*) FROM fairq.tasks('other')"), 0) // all or none
	equal(t, "emails", f.left(), before)
	conn, err := f.db.Conn(background)
	f.must(err)
	defer conn.Close()
	if _, err := f.client.WithTx(conn).EnqueueMany(background, mixed); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("a queue that is not there: %v", err)
	}
	equal(t, "other", f.number("SELECT count(*) FROM fairq.tasks('other')"), 0)
	ids, err := f.client.EnqueueMany(background, mixed[:2])
	f.must(err)
	equal(t, "other", mustGet(t, f.client.Queue("other"), ids[0]).Name, "send")
	equal(t, "emails", f.get(ids[1]).Name, "send")
	ids, err = f.client.EnqueueMany(background, nil)
	f.must(err)
	equal(t, "none", len(ids), 0)
}

func TestPublish(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	f.must(f.queue.Subscribe(background, "orders.*"))
	told := "nothing"
	f.client = pgfairq.NewClient(f.db, &pgfairq.ClientConfig{Queue: "emails", Hooks: []pgfairq.Hooks{{
		Enqueue: func(_ context.Context, task *pgfairq.NewTask) { told = task.Name + task.Queue + task.Opts.Queue }}}})
	count, err := f.client.Publish(background, "orders.new", withOpts{42}, nil)
	f.must(err)
	equal(t, "the hook is told", told, "with_opts")
	equal(t, "queues", count, 1)
	count, err = f.client.Publish(background, "orders.new", Send{To: "ann"}, &pgfairq.EnqueueOpts{Group: "42"})
	f.must(err)
	equal(t, "queues", count, 1)
	equal(t, "task", f.number("SELECT count(*) FROM fairq.tasks('emails') WHERE name = 'send' AND group_key = '42'"), 1)
	was, err := f.queue.Unsubscribe(background, "orders.*")
	f.must(err)
	equal(t, "unsubscribed", was, true)
	count, err = f.client.Publish(background, "orders.new", Send{}, nil)
	f.must(err)
	equal(t, "queues", count, 0)
	if _, err := f.client.Publish(background, "orders.new", Send{}, &pgfairq.EnqueueOpts{After: []int64{1}}); err == nil {
		t.Error("Publish has taken After")
	}
}

type badArgs struct{ C chan int }

func (badArgs) Kind() string { return "bad" }

type noKind struct{}

func (noKind) Kind() string { return "" }

func TestBadInputOfAClient(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	for _, one := range []struct {
		args pgfairq.JobArgs
		opts pgfairq.EnqueueOpts
		part string
	}{
		{nil, pgfairq.EnqueueOpts{}, "the arguments of a task are nil"},
		{badArgs{}, pgfairq.EnqueueOpts{}, "pgfairq_test.badArgs has no JSON"},
		{noKind{}, pgfairq.EnqueueOpts{}, "Kind of pgfairq_test.noKind is empty"},
		{Send{}, pgfairq.EnqueueOpts{Delay: -time.Second}, "Delay is -1s"},
		{Send{}, pgfairq.EnqueueOpts{MaxAttempts: -2}, "MaxAttempts is -2"},
		{Send{}, pgfairq.EnqueueOpts{ExpiresAt: time.Now(), NeverExpires: true}, "NeverExpires"},
		{Send{}, pgfairq.EnqueueOpts{Headers: map[string]any{"a": make(chan int)}}, "Headers has no JSON"},
		{Send{}, pgfairq.EnqueueOpts{Priority: pgfairq.Ptr(10)}, "priority"},
		{Send{}, pgfairq.EnqueueOpts{Cost: -1}, "cost"},
		{Send{}, pgfairq.EnqueueOpts{Subgroup: "ann"}, "subgroup"},
		{Send{}, pgfairq.EnqueueOpts{Queue: "nowhere"}, `"nowhere"`},
		{Send{}, pgfairq.EnqueueOpts{OnDead: "maybe", After: []int64{1}}, "on_dead"},
		{Send{}, pgfairq.EnqueueOpts{Delay: time.Second, RunAt: time.Now()}, "delay"},
		{Send{To: "\x00"}, pgfairq.EnqueueOpts{}, "unicode"},
	} {
		opts := one.opts
		if _, err := f.client.Enqueue(background, one.args, &opts); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(one.part)) {
			t.Errorf("Enqueue: %v instead of %q", err, one.part)
		}
		if _, err := f.client.EnqueueMany(background, []pgfairq.EnqueueParams{{Args: one.args, Opts: &opts}}); err == nil {
			t.Errorf("EnqueueMany has taken what is wrong in %q", one.part)
		}
	}
	equal(t, "left", f.left(), 0)
}

func TestLookingAtAQueue(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{MaxAttempts: 1})
	ready := f.enqueue(Send{To: "ready"}, &pgfairq.EnqueueOpts{Group: "42"})
	dead := f.enqueue(Send{To: "dead"}, nil)
	f.enqueue(Send{}, &pgfairq.EnqueueOpts{Delay: time.Hour})
	execute(t, f.db, "SELECT fairq.nack(receipt, 'no') FROM fairq.claim('emails', group_keys => '{\"\"}')")
	status := f.get(dead)
	equal(t, "history", len(status.History), 1)
	equal(t, "its end", fmt.Sprint(status.History[0].End, status.History[0].Attempt, status.History[0].Error), "failed1no")
	if status.History[0].At.IsZero() {
		t.Error("no time")
	}
	stats, err := f.queue.Stats(background)
	f.must(err)
	equal(t, "stats", fmt.Sprint(stats.Ready, stats.Scheduled, stats.Dead, stats.Enqueued, stats.Nacked), "1 1 1 3 1")
	for _, one := range []struct {
		filter pgfairq.TaskFilter
		want   int
	}{{pgfairq.TaskFilter{}, 3}, {pgfairq.TaskFilter{Limit: 2}, 2}, {pgfairq.TaskFilter{State: pgfairq.StateDead}, 1},
		{pgfairq.TaskFilter{Group: pgfairq.Ptr("")}, 2}, {pgfairq.TaskFilter{Name: "send"}, 3}, {pgfairq.TaskFilter{Name: "x"}, 0}} {
		found, err := f.queue.Tasks(background, one.filter)
		f.must(err)
		equal(t, fmt.Sprint(one.filter), len(found), one.want)
	}
	peeked, err := f.queue.Peek(background, 10)
	f.must(err)
	equal(t, "peek", fmt.Sprint(len(peeked), peeked[0].ID, peeked[0].Group), fmt.Sprint(1, ready, "42"))
	position, err := f.queue.Position(background, ready)
	f.must(err)
	equal(t, "position", fmt.Sprint(position.State, position.Ahead, position.Exact), "ready0 true")
	position, err = f.queue.Position(background, dead)
	f.must(err)
	equal(t, "position of a dead one", fmt.Sprint(position.State, position.Ahead), "dead-1")
	revived, err := f.queue.Revive(background, dead)
	f.must(err)
	equal(t, "revived", revived, true)
	for _, err := range []error{
		func() error { _, err := f.queue.Get(background, 999); return err }(),
		func() error { _, err := f.queue.Position(background, 999); return err }(),
		func() error { _, err := f.queue.Outcome(background, 999); return err }(),
		f.queue.Result(background, 999, nil),
	} {
		if !errors.Is(err, pgfairq.ErrNotFound) {
			t.Errorf("no such task: %v", err)
		}
	}
	if _, err := f.client.Queue("nowhere").Stats(background); err == nil || !strings.Contains(err.Error(), `queue "nowhere"`) {
		t.Errorf("stats of no queue: %v", err)
	}
	if _, err := f.queue.Tasks(background, pgfairq.TaskFilter{Limit: -1}); err == nil {
		t.Error("Tasks has taken a limit of -1")
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{KeepDone: time.Hour})
	id := f.enqueue(Send{}, nil)
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	if err := f.queue.Result(ctx, id, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Result: %v", err)
	}
	ended := make(chan error)
	var result int
	go func() { ended <- f.queue.Result(background, id, &result) }()
	until(t, "it waits", func() bool {
		return f.number("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%fairq.await%' AND pid <> pg_backend_pid() AND datname = current_database()") > 0
	})
	execute(t, f.db, "SELECT fairq.ack(receipt, '7') FROM fairq.claim('emails')")
	f.must(<-ended)
	equal(t, "result", result, 7)
	var wrong struct{}
	if err := f.queue.Result(background, id, &wrong); err == nil || !strings.Contains(err.Error(), "the result of task 1 is no *struct {}") {
		t.Errorf("a result of another type: %v", err)
	}
}

func TestAdministration(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	q := f.client.Queue("full")
	opts := pgfairq.QueueOpts{Policy: pgfairq.PolicyFair, Buckets: 4, Lease: time.Minute, MaxAttempts: 3, MaxLost: pgfairq.NoLimit,
		BackoffBase: pgfairq.None, BackoffMax: time.Second, BackoffJitter: pgfairq.Ptr(0.0), MaxReady: 100, MaxReadyPerGroup: 10,
		MaxDepth: 1000, KeepDone: time.Hour, DurableLeases: pgfairq.Ptr(true), Charge: "seconds", Notify: pgfairq.Ptr(true),
		ExpireAfter: 2 * time.Hour, DefaultPriority: pgfairq.Ptr(0), GroupRequired: pgfairq.Ptr(true), ClassWeights: []float64{2, 1},
		Subgroups: pgfairq.Ptr(true)}
	f.must(q.Create(background, opts))
	f.must(q.CreateIfNotExists(background, pgfairq.QueueOpts{Buckets: 8}))
	settings := func() string {
		return strings.Join(texts(t, f.db, `SELECT concat_ws(' ', policy, buckets, lease, max_attempts, max_lost, backoff_base, backoff_max,
			backoff_jitter, max_ready, max_ready_per_group, max_depth, keep_done, durable_leases, charge, notify, expire_after,
			default_priority, group_required, class_weights, subgroups) FROM fairq.queues WHERE queue = 'full'`), "")
	}
	equal(t, "created", settings(), "fair 4 00:01:00 3 0 00:00:00 00:00:01 0 100 10 1000 01:00:00 t seconds t 02:00:00 0 t {2,1} t")
	f.must(q.Alter(background, pgfairq.QueueOpts{KeepDone: pgfairq.None, ExpireAfter: pgfairq.None, MaxDepth: pgfairq.NoLimit,
		MaxAttempts: pgfairq.NoLimit, GroupRequired: pgfairq.Ptr(false), ClassWeights: []float64{}}))
	contains(t, settings(), "fair 4 00:01:00 0 0 00:00:00 00:00:01 0 100 10")
	contains(t, settings(), "t seconds t 0 f t")
	f.must(q.SetGroup(background, "42", pgfairq.GroupOpts{Weight: 2, MaxLeased: 3, Rate: 4.5, Burst: 5}))
	f.must(q.SetSubgroup(background, "42", "ann", pgfairq.GroupOpts{Weight: 3}))
	f.must(q.SetGroupDefaults(background, pgfairq.GroupOpts{MaxLeased: 9}))
	f.must(q.SetSubgroupDefaults(background, pgfairq.GroupOpts{Rate: 9}))
	groups := "SELECT concat_ws(' ', weight, max_leased, rate, burst, paused) FROM fairq.group_settings"
	equal(t, "group", strings.Join(texts(t, f.db, groups), ","), "2 3 4.5 5 f")
	f.must(q.SetGroup(background, "42", pgfairq.GroupOpts{MaxLeased: pgfairq.NoLimit, Rate: pgfairq.NoLimit}))
	f.must(q.PauseGroup(background, "42"))
	equal(t, "group", strings.Join(texts(t, f.db, groups), ","), "2 0 0 5 t")
	f.must(q.SetGroup(background, "42", pgfairq.GroupOpts{Burst: pgfairq.NoLimit}))
	equal(t, "group", strings.Join(texts(t, f.db, groups), ","), "2 0 0 0 t")
	f.must(q.ResumeGroup(background, "42"))
	f.must(q.PauseSubgroup(background, "42", "ann"))
	equal(t, "subgroup", strings.Join(texts(t, f.db, "SELECT concat_ws(' ', subgroup_key, weight, paused) FROM fairq.subgroup_settings"), ","), "ann 3 t")
	f.must(q.ResumeSubgroup(background, "42", "ann"))
	equal(t, "defaults", strings.Join(texts(t, f.db, "SELECT concat_ws(' ', group_max_leased, subgroup_rate) FROM fairq.queues WHERE queue = 'full'"), ","), "9 9")
	for _, reset := range []func() (bool, error){
		func() (bool, error) { return q.ResetGroup(background, "42") },
		func() (bool, error) { return q.ResetSubgroup(background, "42", "ann") },
	} {
		for _, want := range []bool{true, false} {
			was, err := reset()
			f.must(err)
			equal(t, "reset", was, want)
		}
	}
	f.must(q.Pause(background))
	equal(t, "paused", f.number("SELECT count(*) FROM fairq.queues WHERE paused"), 1)
	f.must(q.Resume(background))
	_, err := f.client.Enqueue(background, Send{}, &pgfairq.EnqueueOpts{Queue: "full", Group: "1", UniqueKey: "k", UniqueFor: time.Hour})
	f.must(err)
	was, err := q.ForgetKey(background, "k")
	f.must(err)
	equal(t, "forgotten", was, true)
	for _, count := range []func() (int64, error){
		func() (int64, error) { return q.PurgeGroup(background, "1") },
		func() (int64, error) { return q.Purge(background) },
		func() (int64, error) { return q.ReviveGroup(background, "1") },
		func() (int64, error) { return q.ReviveAll(background) },
	} {
		_, err := count()
		f.must(err)
	}
	equal(t, "left", f.number("SELECT count(*) FROM fairq.tasks('full')"), 0)
	for _, want := range []bool{true, false} {
		was, err := q.Drop(background)
		f.must(err)
		equal(t, "dropped", was, want)
	}
	if err := q.Alter(background, pgfairq.QueueOpts{Policy: pgfairq.PolicyTime}); err == nil || !strings.Contains(err.Error(), `Alter has Policy "time"`) {
		t.Errorf("Alter: %v", err)
	}
	if err := q.Create(background, pgfairq.QueueOpts{Lease: -time.Second}); err == nil || !strings.Contains(err.Error(), "Lease is -1s") {
		t.Errorf("Create: %v", err)
	}
	if err := f.queue.SetGroup(background, "42", pgfairq.GroupOpts{Weight: -1}); err == nil || !strings.Contains(err.Error(), `"weight" of fairq.set_group() for queue "emails": "-1"`) {
		t.Errorf("SetGroup: %v", err)
	}
	if err := f.queue.SetGroup(background, "42", pgfairq.GroupOpts{Burst: -2}); err == nil || !strings.Contains(err.Error(), "Burst is -2") {
		t.Errorf("SetGroup: %v", err)
	}
	if err := q.Create(background, pgfairq.QueueOpts{Buckets: -1}); err == nil || !strings.Contains(err.Error(), `"buckets"`) || !strings.Contains(err.Error(), `"-1"`) {
		t.Errorf("Create: %v", err)
	}
	if err := q.Create(background, pgfairq.QueueOpts{MaxLost: -3}); err == nil || !strings.Contains(err.Error(), "MaxLost is -3") {
		t.Errorf("Create: %v", err)
	}
}

func TestSchedules(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	next, err := f.client.Schedule(background, "nightly", "30 2 * * *", Send{To: "ops"}, &pgfairq.ScheduleOpts{Group: "42", Timezone: "Europe/Berlin",
		CatchUp: "all", Overlap: true, Priority: pgfairq.Ptr(1), Cost: 2, Headers: map[string]any{"h": 1}})
	f.must(err)
	if !next.After(time.Now()) {
		t.Errorf("next run %v", next)
	}
	none, err := f.client.Schedule(background, "off", "@hourly", Send{}, &pgfairq.ScheduleOpts{Inactive: true})
	f.must(err)
	equal(t, "inactive", none.IsZero(), true)
	schedules, err := f.queue.Schedules(background)
	f.must(err)
	equal(t, "schedules", len(schedules), 2)
	want := pgfairq.ScheduleStatus{Name: "nightly", Queue: "emails", Cron: "30 2 * * *", Timezone: "Europe/Berlin", Active: true,
		NextRun: schedules[0].NextRun, TaskName: "send", Group: "42"}
	if !reflect.DeepEqual(schedules[0], want) || !want.NextRun.Equal(next) {
		t.Errorf("%+v instead of %+v", schedules[0], want)
	}
	equal(t, "the rest", strings.Join(texts(t, f.db, "SELECT concat_ws(' ', catch_up, overlap, priority, cost, headers, payload) FROM fairq.schedules WHERE active"), ""),
		`all t 1 2 {"h": 1} {"to": "ops"}`)
	for _, want := range []bool{true, false} {
		was, err := f.client.Unschedule(background, "nightly")
		f.must(err)
		equal(t, "unscheduled", was, want)
	}
	if _, err := f.client.Schedule(background, "bad", "every day", Send{}, nil); err == nil || !strings.Contains(err.Error(), `schedule "bad"`) {
		t.Errorf("a bad cron: %v", err)
	}
	for part, bad := range map[string]struct {
		args pgfairq.JobArgs
		opts pgfairq.ScheduleOpts
	}{
		`argument "cost" of fairq.schedule(): "-1"`: {Send{}, pgfairq.ScheduleOpts{Cost: -1}},
		"pgfairq_test.badArgs has no JSON":          {badArgs{}, pgfairq.ScheduleOpts{}},
		"Headers has no JSON":                       {Send{}, pgfairq.ScheduleOpts{Headers: map[string]any{"a": make(chan int)}}},
	} {
		if _, err := f.client.Schedule(background, "bad", "@hourly", bad.args, &bad.opts); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Schedule: %v instead of %q", err, part)
		}
	}
}
