package pgfairq

import (
	"context"
	"fmt"
	"time"
)

// None is a duration that takes a setting away: no backoff, nothing kept, no expiry.
const None time.Duration = -1

// Policy is the order of a queue.
type Policy string

// The orders that there are.
const (
	PolicyFair     Policy = "fair"     // by class, then fair between groups; the default
	PolicyPriority Policy = "priority" // by the number given, lowest first
	PolicyTime     Policy = "time"     // by RunAt
)

// QueueOpts are the settings of a queue. In [Queue.Create] what is left out is the default,
// and in [Queue.Alter] it stays as it is. The reference says what each is.
type QueueOpts struct {
	Policy           Policy // of Create alone
	Buckets          int
	Lease            time.Duration
	MaxAttempts      int // NoLimit: any number
	MaxLost          int // NoLimit: any number
	BackoffBase      time.Duration
	BackoffMax       time.Duration
	BackoffJitter    *float64
	MaxReady         int64
	MaxReadyPerGroup int64
	MaxDepth         int64         // NoLimit: any number
	KeepDone         time.Duration // how long done tasks and their results are kept; None: not at all
	DurableLeases    *bool
	Charge           string // "cost" or "seconds"
	Notify           *bool
	ExpireAfter      time.Duration
	DefaultPriority  *int
	GroupRequired    *bool
	ClassWeights     []float64 // empty and not nil: a lower class goes first
	Subgroups        *bool
}

// GroupOpts are the settings of a group, or of a subgroup within its group. What is left out
// stays as it is.
type GroupOpts struct {
	Weight    float64
	MaxLeased int     // tasks in flight; NoLimit: any number
	Rate      float64 // claims a second; NoLimit: any number
	Burst     int     // claims at once after a while with fewer; NoLimit: as many as Rate
}

// A call is a call of a function with the arguments that are given.
type call struct {
	function  string
	texts     []string
	arguments []any
	checker
}

func newCall(function string, first ...any) *call {
	c := &call{function: function}
	for _, value := range first {
		c.arguments = append(c.arguments, value)
		c.texts = append(c.texts, fmt.Sprintf("$%d", len(c.arguments)))
	}
	return c
}

// set gives an argument its value, unless that is nil.
func (c *call) set(name, kind string, value any) {
	if value != nil {
		c.arguments = append(c.arguments, value)
		c.texts = append(c.texts, fmt.Sprintf("%s => $%d::%s", name, len(c.arguments), kind))
	}
}

func (c *call) setDuration(name, what string, d time.Duration) {
	if d == None {
		c.set(name, "interval", "0")
		return
	}
	c.set(name, "interval", c.check(optionalInterval(what, d)))
}

func (c *call) setLimit(name, kind, what string, n int64) {
	c.set(name, kind, c.check(limit(what, n)))
}

func (c *call) sql() string {
	text := "SELECT fairq." + c.function + "("
	for n, one := range c.texts {
		if n > 0 {
			text += ", "
		}
		text += one
	}
	return text + ")"
}

func (c *call) do(ctx context.Context, q *Queue, condition string, more ...any) error {
	if c.err != nil {
		return c.err
	}
	_, err := q.db.ExecContext(ctx, c.sql()+condition, append(c.arguments, more...)...)
	if err != nil {
		return q.fail(c.function, err)
	}
	return nil
}

func (c *call) setQueue(o QueueOpts) {
	c.set("policy", "text", optional(o.Policy))
	c.set("buckets", "int", optional(o.Buckets))
	c.setDuration("lease", "Lease", o.Lease)
	c.setLimit("max_attempts", "int", "MaxAttempts", int64(o.MaxAttempts))
	c.setLimit("max_lost", "int", "MaxLost", int64(o.MaxLost))
	c.setDuration("backoff_base", "BackoffBase", o.BackoffBase)
	c.setDuration("backoff_max", "BackoffMax", o.BackoffMax)
	c.set("backoff_jitter", "float8", optionalPointer(o.BackoffJitter))
	c.set("max_ready", "bigint", optional(o.MaxReady))
	c.set("max_ready_per_group", "bigint", optional(o.MaxReadyPerGroup))
	c.setLimit("max_depth", "bigint", "MaxDepth", o.MaxDepth)
	c.setDuration("keep_done", "KeepDone", o.KeepDone)
	c.set("durable_leases", "boolean", optionalPointer(o.DurableLeases))
	c.set("charge", "text", optional(o.Charge))
	c.set("notify", "boolean", optionalPointer(o.Notify))
	c.setDuration("expire_after", "ExpireAfter", o.ExpireAfter)
	c.set("default_priority", "bigint", optionalPointer(o.DefaultPriority))
	c.set("group_required", "boolean", optionalPointer(o.GroupRequired))
	if o.ClassWeights != nil {
		c.set("class_weights", "float8[]", arrayText(o.ClassWeights))
	}
	c.set("subgroups", "boolean", optionalPointer(o.Subgroups))
}

func (c *call) setGroup(o GroupOpts) {
	c.set("weight", "float8", optional(o.Weight))
	c.setLimit("max_leased", "int", "MaxLeased", int64(o.MaxLeased))
	if o.Rate == NoLimit {
		c.set("rate", "float8", "0")
	} else {
		c.set("rate", "float8", optional(o.Rate))
	}
	c.setLimit("burst", "int", "Burst", int64(o.Burst))
}

// Create creates the queue.
func (q *Queue) Create(ctx context.Context, opts QueueOpts) error {
	c := newCall("create_queue", q.name)
	c.setQueue(opts)
	return c.do(ctx, q, "")
}

// CreateIfNotExists creates the queue, and leaves one of the name as it is. Then it takes no
// privilege.
func (q *Queue) CreateIfNotExists(ctx context.Context, opts QueueOpts) error {
	c := newCall("create_queue", q.name)
	c.setQueue(opts)
	c.set("if_not_exists", "boolean", "true")
	condition := fmt.Sprintf(" WHERE NOT EXISTS (SELECT FROM fairq.queues WHERE queue = $%d::text)", len(c.arguments)+1)
	return c.do(ctx, q, condition, q.name)
}

// Alter changes settings of the queue.
func (q *Queue) Alter(ctx context.Context, opts QueueOpts) error {
	if opts.Policy != "" {
		return fmt.Errorf("pgfairq: Alter has Policy %q, which cannot be changed; create another queue", opts.Policy)
	}
	c := newCall("alter_queue", q.name)
	c.setQueue(opts)
	return c.do(ctx, q, "")
}

// Drop drops the queue with all its tasks. False: there is none.
func (q *Queue) Drop(ctx context.Context) (bool, error) {
	return scanCall[bool](ctx, q, "drop_queue")
}

// Pause has claims return nothing of the queue until Resume.
func (q *Queue) Pause(ctx context.Context) error {
	return newCall("pause", q.name).do(ctx, q, "")
}

// Resume ends a Pause.
func (q *Queue) Resume(ctx context.Context) error {
	return newCall("resume", q.name).do(ctx, q, "")
}

// SetGroup says what a group may have.
func (q *Queue) SetGroup(ctx context.Context, group string, opts GroupOpts) error {
	c := newCall("set_group", q.name, group)
	c.setGroup(opts)
	return c.do(ctx, q, "")
}

// ResetGroup takes away what SetGroup and PauseGroup have said. False: that was nothing.
func (q *Queue) ResetGroup(ctx context.Context, group string) (bool, error) {
	return scanCall[bool](ctx, q, "reset_group", group)
}

// SetGroupDefaults says what groups may have that were not given something else.
func (q *Queue) SetGroupDefaults(ctx context.Context, opts GroupOpts) error {
	c := newCall("set_group_defaults", q.name)
	c.setGroup(opts)
	return c.do(ctx, q, "")
}

// PauseGroup has claims return nothing of a group until ResumeGroup.
func (q *Queue) PauseGroup(ctx context.Context, group string) error {
	return newCall("pause_group", q.name, group).do(ctx, q, "")
}

// ResumeGroup ends a PauseGroup.
func (q *Queue) ResumeGroup(ctx context.Context, group string) error {
	return newCall("resume_group", q.name, group).do(ctx, q, "")
}

// SetSubgroup says what a subgroup of a group may have. "" is that of tasks without any.
func (q *Queue) SetSubgroup(ctx context.Context, group, subgroup string, opts GroupOpts) error {
	c := newCall("set_subgroup", q.name, group, subgroup)
	c.setGroup(opts)
	return c.do(ctx, q, "")
}

// ResetSubgroup is as [Queue.ResetGroup].
func (q *Queue) ResetSubgroup(ctx context.Context, group, subgroup string) (bool, error) {
	return scanCall[bool](ctx, q, "reset_subgroup", group, subgroup)
}

// SetSubgroupDefaults is as [Queue.SetGroupDefaults].
func (q *Queue) SetSubgroupDefaults(ctx context.Context, opts GroupOpts) error {
	c := newCall("set_subgroup_defaults", q.name)
	c.setGroup(opts)
	return c.do(ctx, q, "")
}

// PauseSubgroup is as [Queue.PauseGroup].
func (q *Queue) PauseSubgroup(ctx context.Context, group, subgroup string) error {
	return newCall("pause_subgroup", q.name, group, subgroup).do(ctx, q, "")
}

// ResumeSubgroup ends a PauseSubgroup.
func (q *Queue) ResumeSubgroup(ctx context.Context, group, subgroup string) error {
	return newCall("resume_subgroup", q.name, group, subgroup).do(ctx, q, "")
}

// Cancel removes a task in whatever state; a runner that has it is told. False: there is
// none.
func (q *Queue) Cancel(ctx context.Context, id int64) (bool, error) {
	return scanCall[bool](ctx, q, "cancel", id)
}

// Revive makes a dead task ready again, with all its attempts. False: it is not dead, or is
// held by another one of its unique key.
func (q *Queue) Revive(ctx context.Context, id int64) (bool, error) {
	count, err := scanCall[int64](ctx, q, "revive", id)
	return count > 0, err
}

// ReviveGroup is [Queue.Revive] for all dead tasks of a group. It returns how many.
func (q *Queue) ReviveGroup(ctx context.Context, group string) (int64, error) {
	return scanCall[int64](ctx, q, "revive_group", group)
}

// ReviveAll is [Queue.Revive] for all dead tasks. It returns how many.
func (q *Queue) ReviveAll(ctx context.Context) (int64, error) {
	return scanCall[int64](ctx, q, "revive_all")
}

// Purge removes all tasks that are not leased. It returns how many.
func (q *Queue) Purge(ctx context.Context) (int64, error) {
	return scanCall[int64](ctx, q, "purge")
}

// PurgeGroup is [Queue.Purge] for a group.
func (q *Queue) PurgeGroup(ctx context.Context, group string) (int64, error) {
	return scanCall[int64](ctx, q, "purge_group", group)
}

// ForgetKey forgets a unique key that is remembered. False: it was not.
func (q *Queue) ForgetKey(ctx context.Context, uniqueKey string) (bool, error) {
	return scanCall[bool](ctx, q, "forget_key", uniqueKey)
}

// Subscribe has the queue get a task of all that is published to a topic that matches.
func (q *Queue) Subscribe(ctx context.Context, topic string) error {
	return newCall("subscribe", topic, q.name).do(ctx, q, "")
}

// Unsubscribe ends a subscription. False: there is none.
func (q *Queue) Unsubscribe(ctx context.Context, topic string) (bool, error) {
	var was bool
	err := q.db.QueryRowContext(ctx, "SELECT fairq.unsubscribe($1, $2)", topic, q.name).Scan(&was)
	if err != nil {
		return false, q.fail("unsubscribe", err)
	}
	return was, nil
}

// scanCall calls a function of the queue, and returns its answer.
func scanCall[T any](
	ctx context.Context, q *Queue, function string, arguments ...any,
) (answer T, err error) {
	c := newCall(function, append([]any{q.name}, arguments...)...)
	if err := q.db.QueryRowContext(ctx, c.sql(), c.arguments...).Scan(&answer); err != nil {
		return answer, q.fail(function, err)
	}
	return answer, nil
}
