"""Spans that are recorded."""

import random
from typing import NamedTuple

from ... import trace


class Event(NamedTuple):
    name: str
    attributes: dict


class Span(trace.NonRecordingSpan):
    def __init__(self, name, parent, kind, attributes, processor):
        own = parent.get_span_context()
        super().__init__(trace.SpanContext(own.trace_id or random.getrandbits(128), random.getrandbits(64)))
        self.name, self.kind, self.attributes, self.processor = name, kind, dict(attributes or {}), processor
        self.parent = own if own.trace_id else None
        self.status, self.events, self.has_ended = trace.Status(), [], False

    def set_attribute(self, name, value):
        self.attributes[name] = value

    def set_status(self, status):
        self.status = status

    def record_exception(self, error):
        self.events.append(Event("exception", {"exception.type": type(error).__name__, "exception.message": str(error)}))

    def end(self):
        assert not self.has_ended
        self.has_ended = True
        self.processor.on_end(self)


class RecordingTracer(trace.Tracer):
    def __init__(self, provider):
        self.provider = provider

    def start_span(self, name, context=None, kind=trace.SpanKind.INTERNAL, attributes=None):
        return Span(name, trace.get_current_span(context), kind, attributes, self.provider.processor)


class TracerProvider(trace.TracerProvider):
    def add_span_processor(self, processor):
        self.processor = processor

    def get_tracer(self, name):
        return RecordingTracer(self)
