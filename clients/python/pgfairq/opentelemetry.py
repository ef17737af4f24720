"""Traces with OpenTelemetry: a span for what is enqueued and one for each attempt, in one trace across processes.

    from pgfairq.opentelemetry import instrument

    instrument(emails)

What ties them together travels in the headers of tasks, as W3C's `traceparent` (and whatever else the
application's propagators write). It needs the package opentelemetry-api: pip install 'pgfairq[opentelemetry]'.
"""

from __future__ import annotations

from contextvars import Token
from typing import Any, Dict, Optional, Tuple, TypeVar

from opentelemetry import context as contexts
from opentelemetry import propagate, trace

from .context import ContextBase
from .hooks import Ending, Sending
from .queue_base import QueueBase

Q = TypeVar("Q", bound=QueueBase[Any])

SYSTEM = {"messaging.system": "pgfairq"}
FAILURES = ("failed", "lost")


class Instrumentation:
    """The functions that a queue calls. A span is current while its handler runs, in the handler's thread or task."""

    def __init__(self, tracer_provider: Optional[trace.TracerProvider]) -> None:
        self.tracer = trace.get_tracer("pgfairq", tracer_provider=tracer_provider)
        self.open: Dict[int, Tuple[trace.Span, "Token[Any]"]] = {}     # by the context of the handler

    def enqueue(self, sending: Sending) -> None:
        destination = sending.queue or sending.topic or ""
        attributes: Dict[str, Any] = {
            **SYSTEM, "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
            "messaging.destination.name": destination, "messaging.batch.message_count": sending.count}
        if sending.name is not None:
            attributes["pgfairq.task.name"] = sending.name
        with self.tracer.start_as_current_span(f"enqueue {sending.name or destination}", kind=trace.SpanKind.PRODUCER, attributes=attributes):
            propagate.inject(sending.headers)

    def before(self, context: ContextBase) -> None:
        carrier = {name: value for name, value in context.headers.items() if isinstance(value, str)} if isinstance(context.headers, dict) else {}
        attributes: Dict[str, Any] = {
            **SYSTEM, "messaging.operation.name": "process", "messaging.operation.type": "process",
            "messaging.destination.name": context.queue, "messaging.message.id": str(context.id), "pgfairq.group": context.group,
            "pgfairq.attempt": context.attempt}
        for name, value in (("pgfairq.task.name", context.name), ("pgfairq.subgroup", context.subgroup)):
            if value is not None:
                attributes[name] = value
        span = self.tracer.start_span(f"process {context.name or context.queue}", context=propagate.extract(carrier),
                                      kind=trace.SpanKind.CONSUMER, attributes=attributes)
        self.open[id(context)] = span, contexts.attach(trace.set_span_in_context(span))

    def after(self, context: ContextBase, ending: Ending) -> None:
        span, token = self.open.pop(id(context), (None, None))
        if span is None or token is None:
            return      # it has not come to its handler
        contexts.detach(token)
        span.set_attribute("pgfairq.outcome", ending.outcome)
        if ending.outcome in FAILURES:
            if ending.error is not None:
                span.record_exception(ending.error)
                span.set_attribute("error.type", type(ending.error).__qualname__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(ending.error)))
        span.end()


def instrument(queue: Q, tracer_provider: Optional[trace.TracerProvider] = None) -> Q:
    """Trace what this queue enqueues, and what workers of this process do of it. Once for a queue."""
    if not isinstance(queue, QueueBase):
        raise TypeError(f"instrument takes a Queue or an AsyncQueue, not {queue!r}")
    if any(isinstance(getattr(function, "__self__", None), Instrumentation) for function in queue.hooks.of("before")):
        raise ValueError(f"queue {queue.name!r} is instrumented already")
    made = Instrumentation(tracer_provider)
    queue.on("enqueue", made.enqueue)
    queue.on("before", made.before)
    queue.on("after", made.after)
    return queue
