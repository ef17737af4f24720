"""Headers of chords that are generators, with Celery 5.2.

Before 5.3 a group of a generator hands out its results and its tasks from one iterator. A backend that
keeps the group of a chord, as this one does, reads the results first, and tasks are missing then: they
are not sent, and the chord never ends. As a list the tasks are there however often they are read.
"""

from __future__ import annotations

from typing import Any

from celery import VERSION
from celery.canvas import group
from celery.utils.functional import _regen


def make_lists() -> None:
    """Of what is a generator, before its results are asked for."""
    if VERSION[:2] >= (5, 3):
        return
    freeze = group._freeze_group_tasks

    def freeze_list(tasks: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tasks.tasks, _regen):
            tasks.tasks = list(tasks.tasks)
        return freeze(tasks, *args, **kwargs)

    group._freeze_group_tasks = freeze_list
