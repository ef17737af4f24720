import { ROOT_CONTEXT, Span, SpanKind, SpanStatusCode, TracerProvider, context, propagation, trace } from '@opentelemetry/api';
import { Snooze } from './errors';
import type { Hooks } from './hooks';
import type { Task } from './task';
import { checkOptions } from './values';

/**
 * Spans for tasks, as hooks: one where tasks are added, and for each attempt one, which is its child.
 * Between the two goes what the propagator writes into the headers: `traceparent` and `tracestate`.
 */

export interface OpenTelemetryOptions {
  /** In place of the global one. */
  tracerProvider?: TracerProvider;
}

const SYSTEM = { 'messaging.system': 'pgfairq' };

export function openTelemetry(options: OpenTelemetryOptions = {}): Hooks {
  checkOptions('openTelemetry()', options, ['tracerProvider']);
  const tracer = (options.tracerProvider ?? trace).getTracer('pgfairq');
  const spans = new WeakMap<Task, Span>();
  const end = (task: Task, outcome: string, error?: unknown): void => {
    const span = spans.get(task);
    if (!span) return;
    spans.delete(task);
    span.setAttribute('pgfairq.outcome', outcome);
    if (error !== undefined) failed(span, error);
    span.end();
  };
  return {
    async enqueue(tasks, next) {
      const [{ queue, name }] = tasks;
      const same = tasks.every((task) => task.name === name);
      const named = same && name !== undefined;
      const span = tracer.startSpan(`enqueue ${named ? name : queue}`, {
        kind: SpanKind.PRODUCER,
        attributes: {
          ...SYSTEM, 'messaging.operation.name': 'enqueue', 'messaging.operation.type': 'send', 'messaging.destination.name': queue,
          'messaging.batch.message_count': tasks.length,
          ...(named ? { 'pgfairq.task.name': name } : {}),
        },
      });
      const within = trace.setSpan(context.active(), span);
      const carrier: Record<string, unknown> = {};
      propagation.inject(within, carrier);
      for (const { headers } of tasks) Object.assign(headers, { ...carrier, ...headers }); // what the application says goes first
      try {
        return await context.with(within, next);
      } catch (error) {
        failed(span, error);
        throw error;
      } finally {
        span.end();
      }
    },

    async around(task, _, next) {
      const parent = propagation.extract(ROOT_CONTEXT, task.headers ?? {});
      const { id, queue, name, group, subgroup, attempt } = task;
      const span = tracer.startSpan(`process ${name === '' ? queue : name}`, {
        kind: SpanKind.CONSUMER,
        attributes: {
          ...SYSTEM, 'messaging.operation.name': 'process', 'messaging.operation.type': 'process',
          'messaging.destination.name': queue, 'messaging.message.id': id, 'pgfairq.group': group, 'pgfairq.attempt': attempt,
          ...(name === '' ? {} : { 'pgfairq.task.name': name }),
          ...(subgroup === null ? {} : { 'pgfairq.subgroup': subgroup }),
        },
      }, parent);
      spans.set(task, span);
      try {
        return await context.with(trace.setSpan(parent, span), next);
      } catch (error) {
        if (error instanceof Snooze) end(task, 'snoozed');
        throw error;
      }
    },
    after: (task) => end(task, 'done'),
    failed: (task, error) => end(task, 'failed', error),
    lost: (task, reason) => end(task, 'lost', reason),
  };
}

function failed(span: Span, error: unknown): void {
  const shown = error instanceof Error ? error : new Error(`thrown: ${String(error)}`);
  span.recordException(shown);
  span.setAttribute('error.type', shown.name);
  span.setStatus({ code: SpanStatusCode.ERROR, message: shown.message });
}
