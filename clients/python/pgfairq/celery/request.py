"""A task in the hands of Celery's worker, which tells its broker that a message is rejected, and not why."""

from __future__ import annotations

from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.exceptions import Reject, WorkerLostError
from celery.worker import request, state

from ..report import LONGEST, clean, error_head


class Request(request.Request):
    def on_failure(self, exc_info: ExceptionInfo, *args: Any, **kwargs: Any) -> Any:
        self.message.why = why(exc_info)  # of the channel; the message of another broker does not mind
        self.message.counts = is_lost(exc_info)
        return super().on_failure(exc_info, *args, **kwargs)


def is_lost(exc_info: ExceptionInfo) -> bool:
    """Whether its process in the pool has died, for no reason that the worker knows: when this one ends, it ends its pool."""
    ends = any(code is not None and code is not False for code in (state.should_stop, state.should_terminate))
    return isinstance(error_of(exc_info), WorkerLostError) and not ends


def error_of(exc_info: ExceptionInfo) -> BaseException:
    error = exc_info.exception
    return error.exc if isinstance(error, ExceptionWithTraceback) else error    # not of a process that sends the exception itself


def why(exc_info: ExceptionInfo) -> str:
    """What an operator reads in last_error: type and message, then the frames. Of a Reject, those of its reason."""
    error = error_of(exc_info)
    head = error_head(error)
    if isinstance(error, Reject):
        head = error_head(error.reason) if isinstance(error.reason, BaseException) else f"Reject: {error.reason or ''}".rstrip(": ")
    return clean(f"{clean(head, LONGEST // 2)}\n{exc_info.traceback or ''}".strip())
