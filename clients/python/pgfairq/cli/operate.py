"""pgfairq revive, purge, schedule"""

from __future__ import annotations

import json
from typing import Any

from .. import statements
from ..connections import Source
from ..queue import Queue
from .output import Bar, ask, counted, print_json, table

BATCH = 1000    # dead tasks that are revived in one transaction


def add_to(commands: Any) -> None:
    parser = commands.add_parser("revive", help="make dead tasks ready again")
    parser.add_argument("queue")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--id", type=int, action="append", help="this task; may be given several times")
    which.add_argument("--group", help="those of this group")
    which.add_argument("--all", action="store_true")
    parser.set_defaults(run=revive)

    parser = commands.add_parser("purge", help="remove tasks that are not leased")
    parser.add_argument("queue")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--group", help="those of this group")
    which.add_argument("--all", action="store_true", help="of the whole queue")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=purge)

    parser = commands.add_parser("schedule", help="tasks at the ticks of a clock")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    action = actions.add_parser("list", help="the schedules")
    action.add_argument("--queue")
    action.add_argument("--json", action="store_true")
    action.set_defaults(run=list_schedules)
    action = actions.add_parser("add", help="make a schedule, or replace the one of that name")
    action.add_argument("name")
    action.add_argument("queue")
    action.add_argument("cron", help='"30 2 * * *", "@hourly", "@every 15 s"')
    action.add_argument("payload", nargs="?", default="{}", help="JSON")
    action.add_argument("--task", help="the name of its tasks, and so their handler")
    action.add_argument("--group")
    action.add_argument("--subgroup", help="of the group")
    action.add_argument("--timezone")
    action.add_argument("--catch-up", choices=["one", "all", "none"])
    action.add_argument("--overlap", action="store_true")
    action.add_argument("--inactive", action="store_true")
    action.set_defaults(run=add_schedule)
    action = actions.add_parser("remove")
    action.add_argument("name")
    action.set_defaults(run=remove_schedule)


def revive(given: Any) -> int:
    queue = Queue(given.database, given.queue)
    if given.group is not None:
        count = queue.revive_group(given.group)
    elif given.id:
        count = sum(queue.revive(task) for task in given.id)
    else:
        count = revive_all(queue)
    print(f"{counted(count, 'task')} revived")
    return 0


def revive_all(queue: Queue) -> int:
    """By the thousand, so that it can be seen how far it is, and stopped."""
    bar = Bar("revived", queue.stats().dead or 0)
    done = last = 0
    while True:
        ids, count = queue.source.run(statements.revive_some(queue.name, last, BATCH))
        if not ids:
            bar.end()
            return done
        done, last = done + count, max(ids)
        bar.at(done)


def purge(given: Any) -> int:
    queue = Queue(given.database, given.queue)
    stats = queue.stats()
    what = f"the tasks of group {given.group!r}" if given.group is not None else "all tasks"
    there = sum(getattr(stats, state) or 0 for state in ("ready", "scheduled", "overflow", "held", "dead"))
    if not ask(f"Remove {what} of queue {given.queue!r} that are not leased ({there:,} in the queue)?", given.yes):
        print("nothing is removed")
        return 1
    count = queue.purge() if given.group is None else queue.purge_group(given.group)
    print(f"{counted(count, 'task')} removed")
    return 0


def list_schedules(given: Any) -> int:
    found = Source(given.database).run(statements.schedules(given.queue))
    if given.json:
        print_json(found)
        return 0
    print("\n".join(table(["name", "queue", "task", "cron", "timezone", "next", "last", "skipped", "failures", "error"], [
        [one.name, one.queue, one.task_name, one.cron, one.timezone, one.next_run, one.last_run, one.skipped, one.failures, one.last_error]
        for one in found])))
    return 0


def add_schedule(given: Any) -> int:
    try:
        payload = json.loads(given.payload)
    except ValueError as error:
        raise ValueError(f"the payload is no JSON: {error}") from error
    options: Any = {"group": given.group, "subgroup": given.subgroup, "overlap": given.overlap, "active": not given.inactive}
    options.update({name: value for name, value in (("timezone", given.timezone), ("catch_up", given.catch_up)) if value is not None})
    if given.task is not None:
        options["task_name"] = given.task
    following = Queue(given.database, given.queue).schedule(given.name, given.cron, payload, **options)
    print(f"next: {following.isoformat(' ', 'seconds')}" if following else "it is not active")
    return 0


def remove_schedule(given: Any) -> int:
    if not Source(given.database).run(statements.call("unschedule", [given.name], {})):
        raise LookupError(f"there is no schedule {given.name!r}")
    print("removed")
    return 0
