package pgfairq_test

import (
	"context"
	"testing"

	"pgfairq"
)

func TestATaskIsDone(t *testing.T) {
	f := newQueue(t, pgfairq.QueueOpts{})
	id := f.enqueue(Send{To: "ann"}, nil)
	f.drain(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		equal(t, "id", job.ID, id)
		equal(t, "to", job.Args.To, "ann")
		return write(ctx, job)
	}), pgfairq.RunnerConfig{})
	equal(t, "sent", f.number("SELECT count(*) FROM sent"), 1)
	equal(t, "left", f.left(), 0)
}
