package otelfairq

// The hooks with the SDK of OpenTelemetry. Seen to fail: without Inject; without Extract; without
// the end of the span.

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"pgfairq"
)

func TestAnAttemptIsASpanOfTheTraceOfItsTask(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	hooks := Hooks(&Options{TracerProvider: provider})

	ctx, request := provider.Tracer("test").Start(context.Background(), "request")
	enqueued := &pgfairq.NewTask{Queue: "emails", Name: "send", Opts: pgfairq.EnqueueOpts{Headers: map[string]any{"other": 1}}}
	hooks.Enqueue(ctx, enqueued)
	request.End()
	if header, _ := enqueued.Opts.Headers["traceparent"].(string); len(header) != 55 {
		t.Fatalf("traceparent %q", header)
	}

	for _, end := range []pgfairq.End{{Outcome: pgfairq.OutcomeCompleted}, {Outcome: pgfairq.OutcomeDead, Err: errors.New("no")}} {
		task := &pgfairq.Task{ID: 7, Queue: "emails", Name: "send", Group: "42", Attempt: 2, Headers: enqueued.Opts.Headers}
		inner := hooks.Before(context.Background(), task)
		if trace.SpanContextFromContext(inner).TraceID() != request.SpanContext().TraceID() {
			t.Error("the worker is not in the trace")
		}
		hooks.After(inner, task, end)
		ended := spans.Ended()
		span := ended[len(ended)-1]
		if span.Name() != "process send" || span.SpanKind() != trace.SpanKindConsumer ||
			span.Parent().SpanID() != request.SpanContext().SpanID() {
			t.Errorf("span %q, kind %v, parent %v", span.Name(), span.SpanKind(), span.Parent())
		}
		attributes := map[string]string{}
		for _, one := range span.Attributes() {
			attributes[string(one.Key)] = one.Value.Emit()
		}
		for key, want := range map[string]string{"messaging.system": "pgfairq", "messaging.destination.name": "emails",
			"messaging.message.id": "7", "pgfairq.task.name": "send", "pgfairq.task.group": "42", "pgfairq.task.attempt": "2",
			"pgfairq.task.outcome": string(end.Outcome)} {
			if attributes[key] != want {
				t.Errorf("%s: %q instead of %q", key, attributes[key], want)
			}
		}
		if failed := span.Status().Code == codes.Error; failed != (end.Err != nil) || len(span.Events()) != map[bool]int{true: 1}[failed] {
			t.Errorf("status %v, events %v", span.Status(), span.Events())
		}
	}

	// a task that nothing traces
	plain := hooks.Before(context.Background(), &pgfairq.Task{ID: 8, Queue: "emails"})
	hooks.After(plain, &pgfairq.Task{}, pgfairq.End{Outcome: pgfairq.OutcomeCompleted})
	if ended := spans.Ended(); ended[len(ended)-1].Name() != "process emails" || ended[len(ended)-1].Parent().IsValid() {
		t.Error("a task without headers has a parent, or no span")
	}
}
