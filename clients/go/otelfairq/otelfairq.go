/*
Package otelfairq has hooks for pgfairq that trace tasks with OpenTelemetry. A task carries the
trace in which it was enqueued in its headers, as the W3C traceparent, and each of its attempts
is a span of that trace:

	hooks := []pgfairq.Hooks{otelfairq.Hooks(nil)}
	client := pgfairq.NewClient(db, &pgfairq.ClientConfig{Queue: "emails", Hooks: hooks})
	runner, err := pgfairq.NewRunner(db, workers, pgfairq.RunnerConfig{
		Queues: []string{"emails"},
		Hooks:  hooks,
	})
*/
package otelfairq

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"pgfairq"
)

// Options are what [Hooks] takes. What is left out is the default.
type Options struct {
	// TracerProvider makes the tracer; that of the otel package.
	TracerProvider trace.TracerProvider

	// Propagator writes and reads headers; propagation.TraceContext.
	Propagator propagation.TextMapPropagator
}

const tracerName = "pgfairq/otelfairq"

// Hooks returns hooks for a client, a runner, or both. The span of an attempt has its handler in
// it, and ends when it is known what has become of the attempt.
func Hooks(options *Options) pgfairq.Hooks {
	var o Options
	if options != nil {
		o = *options
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	tracer := o.TracerProvider.Tracer(tracerName)
	return pgfairq.Hooks{
		Enqueue: func(ctx context.Context, task *pgfairq.NewTask) {
			o.Propagator.Inject(ctx, carrier(task.Opts.Headers))
		},
		Before: func(ctx context.Context, task *pgfairq.Task) context.Context {
			ctx = o.Propagator.Extract(ctx, carrier(task.Headers))
			about := trace.WithAttributes(
				attribute.String("messaging.system", "pgfairq"),
				attribute.String("messaging.destination.name", task.Queue),
				attribute.Int64("messaging.message.id", task.ID),
				attribute.String("pgfairq.task.name", task.Name),
				attribute.String("pgfairq.task.group", task.Group),
				attribute.Int("pgfairq.task.attempt", task.Attempt),
			)
			ctx, _ = tracer.Start(ctx, spanName(task), trace.WithSpanKind(trace.SpanKindConsumer), about)
			return ctx
		},
		After: func(ctx context.Context, task *pgfairq.Task, end pgfairq.End) {
			span := trace.SpanFromContext(ctx)
			span.SetAttributes(attribute.String("pgfairq.task.outcome", string(end.Outcome)))
			switch end.Outcome {
			case pgfairq.OutcomeFailed, pgfairq.OutcomeDead, pgfairq.OutcomeLost:
				span.RecordError(end.Err)
				span.SetStatus(codes.Error, end.Err.Error())
			}
			span.End()
		},
	}
}

func spanName(task *pgfairq.Task) string {
	if task.Name == "" {
		return "process " + task.Queue
	}
	return "process " + task.Name
}

// carrier has the headers of a task, of which those that are texts are seen.
type carrier map[string]any

func (c carrier) Get(key string) string {
	text, _ := c[key].(string)
	return text
}

func (c carrier) Set(key, value string) { c[key] = value }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
