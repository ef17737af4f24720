"""Spans, and which is current."""

from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from . import context as contexts


class SpanKind(Enum):
    INTERNAL = 0
    PRODUCER = 3
    CONSUMER = 4


class StatusCode(Enum):
    UNSET = 0
    OK = 1
    ERROR = 2


class Status:
    def __init__(self, status_code=StatusCode.UNSET, description=None):
        self.status_code, self.description = status_code, description


class SpanContext(NamedTuple):
    trace_id: int
    span_id: int
    trace_flags: int = 1


class NonRecordingSpan:
    """Of another process; and of where there is none."""

    def __init__(self, context):
        self.context = context

    def get_span_context(self):
        return self.context

    def set_attribute(self, name, value):
        pass

    set_status = record_exception = set_attribute

    def end(self):
        pass


class Tracer:
    """Where there is no provider."""

    def start_span(self, name, context=None, kind=SpanKind.INTERNAL, attributes=None):
        return get_current_span(context)

    @contextmanager
    def start_as_current_span(self, name, context=None, kind=SpanKind.INTERNAL, attributes=None):
        span = self.start_span(name, context, kind, attributes)
        token = contexts.attach(set_span_in_context(span))
        try:
            yield span
        finally:
            contexts.detach(token)
            span.end()


class TracerProvider:
    def get_tracer(self, name):
        return Tracer()


def get_tracer(name, tracer_provider=None):
    return (tracer_provider or TracerProvider()).get_tracer(name)


def set_span_in_context(span, context=None):
    return {**(contexts.get_current() if context is None else context), "span": span}


def get_current_span(context=None):
    return (contexts.get_current() if context is None else context).get("span") or NonRecordingSpan(SpanContext(0, 0))
