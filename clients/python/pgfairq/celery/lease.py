"""What a session has of a task that it was given."""

from __future__ import annotations

from typing import Any, NamedTuple


class Lease(NamedTuple):
    """What is needed to settle a task, also when its receipt is void."""

    queue: str
    id: int
    receipt: str
    enqueued_at: str
    name: str   # empty: none
    session: Any = None     # who settles it

    def __str__(self) -> str:
        return f"task {self.id}{f' ({self.name!r})' if self.name else ''} of queue {self.queue}"
