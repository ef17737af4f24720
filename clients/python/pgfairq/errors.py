"""What the library raises, beside the errors of psycopg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple, Type, Union

if TYPE_CHECKING:
    from .models import Outcome
    from .values import Duration

Exceptions = Union[Type[Exception], Sequence[Type[Exception]]]


def exceptions(given: Any, name: str) -> Tuple[Type[Exception], ...]:
    """Classes of exceptions: one, or several, as after `except`."""
    some = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for one in some:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"{name} takes classes of exceptions, like (ValueError, KeyError), not {one!r}")
    return some


class FairqError(Exception):
    """The base of what is raised here."""


class LeaseLost(FairqError):
    """The task is no longer this worker's: another one may have it. The handler must stop."""


class NoConnection(FairqError):
    """There is no connection for the task's transaction just now. The task comes again, and no attempt is counted."""


class TaskFailed(FairqError):
    """A task that was awaited has not been acknowledged.

    Its message says what the worker's error says; where in the worker's code that was is in outcome.last_error alone.
    """

    def __init__(self, message: str, outcome: Optional[Outcome], reason: Optional[str] = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.reason = reason    # type and message of the last error


class AwaitTimeout(FairqError, TimeoutError):
    """A task that was awaited has not ended in time. It goes on."""


class Snooze(Exception):
    """Raised by a handler: not now, but after a delay. No attempt is counted."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class Retry(Exception):
    """Raised by a handler: the attempt failed, and the next one comes after this delay.

    Without a delay the queue's backoff decides, as for any other exception.
    """

    def __init__(self, error: str = "retry", delay: Optional[Duration] = None) -> None:
        super().__init__(error)
        self.delay = delay


class Unrecoverable(Exception):
    """Raised by a handler: the attempt failed, and no other one would fare better. The task is dead at once."""


class TaskTimeout(FairqError, TimeoutError):
    """A handler took longer than its timeout: the attempt has failed."""


class BadPayload(FairqError, ValueError):
    """What a task has is not of the type that its handler takes, or its result not of the one that is awaited."""
