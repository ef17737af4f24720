"""W3C's traceparent: version, trace, span, flags."""

import re

from . import context as contexts
from . import trace

TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def inject(carrier):
    of = trace.get_current_span().get_span_context()
    if of.trace_id:
        carrier["traceparent"] = f"00-{of.trace_id:032x}-{of.span_id:016x}-{of.trace_flags:02x}"


def extract(carrier):
    found = TRACEPARENT.fullmatch(carrier.get("traceparent", ""))
    if not found:
        return contexts.get_current()
    return trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(int(found[1], 16), int(found[2], 16))))
