package pgfairq

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// ScheduleOpts are the settings of a schedule. What is left out is the default.
type ScheduleOpts struct {
	// Queue, Group, Subgroup, Priority, Cost and Headers are as those of [EnqueueOpts].
	Queue    string
	Group    string
	Subgroup string
	Priority *int
	Cost     float64
	Headers  map[string]any

	// Timezone is by what clock, such as "Europe/Berlin"; UTC.
	Timezone string

	// CatchUp is what becomes of ticks for which there was no server: "one", "all" or
	// "none"; one.
	CatchUp string

	// Overlap is for ticks at which the last task of the schedule is still there, too.
	Overlap bool

	// Inactive is a schedule without ticks.
	Inactive bool
}

// Schedule has the server enqueue a task at every tick of a clock, or replaces the schedule
// of that name. It returns the next tick; zero if it is inactive.
func (c *Client) Schedule(
	ctx context.Context, name, cron string, args JobArgs, opts *ScheduleOpts,
) (time.Time, error) {
	if opts == nil {
		opts = &ScheduleOpts{}
	}
	task, err := c.newTask(args, &EnqueueOpts{Queue: opts.Queue, Group: opts.Group, Subgroup: opts.Subgroup,
		Priority: opts.Priority, Cost: opts.Cost, Headers: opts.Headers})
	if err != nil {
		return time.Time{}, err
	}
	call := newCall("schedule", name, task.Queue, cron)
	call.set("payload", "jsonb", call.check(jsonText(fmt.Sprintf("%T", args), args)))
	call.set("task_name", "text", task.Name)
	call.set("group_key", "text", optional(task.Opts.Group))
	call.set("subgroup_key", "text", optional(task.Opts.Subgroup))
	call.set("priority", "bigint", optionalPointer(task.Opts.Priority))
	call.set("cost", "float8", optional(task.Opts.Cost))
	call.set("headers", "jsonb", call.check(optionalHeaders(task.Opts.Headers)))
	call.set("timezone", "text", optional(opts.Timezone))
	call.set("catch_up", "text", optional(opts.CatchUp))
	call.set("overlap", "boolean", fmt.Sprint(opts.Overlap))
	call.set("active", "boolean", fmt.Sprint(!opts.Inactive))
	if call.err != nil {
		return time.Time{}, call.err
	}
	var next sql.NullTime
	if err := c.db.QueryRowContext(ctx, call.sql(), call.arguments...).Scan(&next); err != nil {
		return time.Time{}, fmt.Errorf("pgfairq: schedule %q: %w", name, err)
	}
	return next.Time, nil
}

// Unschedule removes a schedule. False: there is none.
func (c *Client) Unschedule(ctx context.Context, name string) (bool, error) {
	var was bool
	if err := c.db.QueryRowContext(ctx, "SELECT fairq.unschedule($1)", name).Scan(&was); err != nil {
		return false, fmt.Errorf("pgfairq: unschedule %q: %w", name, err)
	}
	return was, nil
}

// ScheduleStatus is a schedule as the server has it. A time is zero if there is none.
type ScheduleStatus struct {
	Name, Queue, Cron, Timezone string
	Active                      bool
	NextRun, LastRun            time.Time
	LastTask                    int64 // 0: none
	Skipped, Failures           int64
	LastError                   string
	TaskName                    string
	Group, Subgroup             string
}

const schedulesSQL = `SELECT name, queue, cron, timezone, active, next_run, last_run, last_task,
		skipped, failures, last_error, task_name, group_key, subgroup_key
	FROM fairq.schedules WHERE queue = $1 ORDER BY name`

// Schedules returns the schedules of the queue, by name.
func (q *Queue) Schedules(ctx context.Context) ([]ScheduleStatus, error) {
	rows, err := q.db.QueryContext(ctx, schedulesSQL, q.name)
	if err != nil {
		return nil, q.fail("schedules of", err)
	}
	defer rows.Close()
	var found []ScheduleStatus
	for rows.Next() {
		var s ScheduleStatus
		var next, last sql.NullTime
		var task sql.NullInt64
		var failure, taskName, group, subgroup sql.NullString
		err := rows.Scan(&s.Name, &s.Queue, &s.Cron, &s.Timezone, &s.Active, &next, &last, &task,
			&s.Skipped, &s.Failures, &failure, &taskName, &group, &subgroup)
		if err != nil {
			return nil, q.fail("schedules of", err)
		}
		s.NextRun, s.LastRun, s.LastTask = next.Time, last.Time, task.Int64
		s.LastError, s.TaskName = failure.String, taskName.String
		s.Group, s.Subgroup = group.String, subgroup.String
		found = append(found, s)
	}
	if err := rows.Err(); err != nil {
		return nil, q.fail("schedules of", err)
	}
	return found, nil
}
