"""A queue for producers and operators, with asyncio."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Awaitable, Callable, List, Optional, Sequence, TypeVar, Union
from uuid import UUID

from psycopg import AsyncConnection

from . import statements, values
from .awaiting import async_awaiting_of
from .connections import AsyncGiven, AsyncSource, run_async
from .async_context import AsyncContext
from .handlers import Handled, P, R
from .models import (
    DeadTask, Dependency, DoneTask, GroupSettings, GroupStats, Lease, NameStats, Outcome, Position, QueueStats, Schedule,
    SessionStatus, Settings, SubgroupSettings, SubgroupStats, Task, TaskStatus,
)
from .options import TaskOptions, check
from .queue_base import QueueBase, result_of
from .statements import Statement
from .values import Duration, Group, seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import AlterOptions, EnqueueOptions, ManyOptions, PublishOptions, QueueOptions, ScheduleOptions

T = TypeVar("T")
Transaction = Optional["AsyncConnection[Any]"]


class AsyncHandler(Handled[P, R]):
    """A handler of an AsyncQueue, by the types of its payload and its result: call it as ever, or enqueue a task for it."""

    queue: "AsyncQueue"

    def __call__(self, payload: P, context: AsyncContext, /) -> Awaitable[R]:
        returned: Awaitable[R] = self.function(payload, context)
        return returned

    async def enqueue(self, payload: P, *, connection: Transaction = None, **details: Unpack[EnqueueOptions]) -> int:
        """Add a task and return its id; with what its decorator says, where the call does not."""
        written = self._payload(payload)    # which says what is wrong with it better than a function of the handler would
        return await self.queue.enqueue(written, connection=connection, **self._options(details, payload))

    async def enqueue_many(self, payloads: Sequence[P], *, connection: Transaction = None,
                           **details: Unpack[ManyOptions]) -> List[int]:
        written = self._payloads(payloads)
        return await self.queue.enqueue_many(written, connection=connection, **self._options_of_many(details, payloads))

    async def schedule(self, name: str, cron: str, payload: Optional[P] = None, *, connection: Transaction = None,
                       **details: Unpack[ScheduleOptions]) -> Optional[datetime]:
        made: Any = {} if payload is None else payload
        written = self._payload(made)
        return await self.queue.schedule(name, cron, written, connection=connection, **self._options(details, made, "task_name"))

    async def await_result(self, task: int, timeout: Duration = 30) -> R:
        """What the handler has returned, in its type; otherwise as await_result() of the queue."""
        result: R = self._result(await self.queue.await_result(task, timeout))
        return result


class AsyncQueue(QueueBase[AsyncSource]):
    """A queue, by its name, in the database of a connection string, a pool, or a function that connects.

    With settings, or create=True, it is created before its first use if it is not there. One that is
    there is left as it is: see alter().
    """

    is_async = True

    def __init__(self, connection: Union[AsyncGiven, AsyncSource], name: str, *, create: bool = False,
                 **settings: Unpack[QueueOptions]) -> None:
        super().__init__(connection if isinstance(connection, AsyncSource) else AsyncSource(connection), name, create, settings)

    async def _run(self, statement: Statement[T], connection: Transaction = None) -> T:
        await self.ensure()
        if connection is None:
            return await self.source.call(statement)
        return await run_async(connection, statement)

    async def ensure(self) -> None:
        """Create the queue, if that is asked for and it is not there."""
        if self._missing:
            await self.source.call(statements.create_queue(self.name, self._settings))
            self._missing = False

    async def close(self) -> None:
        """Close idle connections. The queue may be used again. A pool is its owner's to close."""
        await self.source.close()

    # -- producing

    async def enqueue(self, payload: Any, *, connection: Transaction = None, **details: Unpack[EnqueueOptions]) -> int:
        """Add a task and return its id. With a connection it is part of the transaction that is open there."""
        return await self._run(self._enqueue(payload, details), connection)

    async def enqueue_many(self, payloads: Sequence[Any], *, connection: Transaction = None,
                     **details: Unpack[ManyOptions]) -> List[int]:
        """Add tasks, all or none of them, and return their ids in order."""
        return await self._run(self._enqueue_many(payloads, details), connection)

    async def publish(self, topic: str, payload: Any, *, connection: Transaction = None, **details: Unpack[PublishOptions]) -> int:
        """Add a task to each queue that has subscribed to the topic; how many these are."""
        return await self._run(self._publish(topic, payload, details), connection)

    async def subscribe(self, topic: str) -> None:
        await self._run(statements.call("subscribe", [topic, self.name], {}, statements.nothing))

    async def topics(self) -> List[str]:
        """What it has subscribed to."""
        return await self._run(statements.topics(self.name))

    async def unsubscribe(self, topic: str) -> bool:
        return bool(await self._run(statements.call("unsubscribe", [topic, self.name], {})))

    # -- handlers

    def task(self, name: Optional[str] = None, **options: Unpack[TaskOptions]) -> Callable[[Callable[[P, AsyncContext], Awaitable[R]]], AsyncHandler[P, R]]:
        """Decorator: the function handles the tasks of this name; without one, those that no other handles.

        What its enqueue() gives tasks, unless the call says otherwise: max_attempts, max_lost, priority, lease; group,
        subgroup and unique_key, which are functions of the payload, with unique_for and on_duplicate; cost, a number
        or a function. What its worker does: backoff, the time to the next attempt, or a list of them, or a function
        of the attempt; timeout, after which an attempt has failed; give_up_on, exceptions after which no other
        attempt would fare better, so that the task is dead at once.
        """
        check(options, TaskOptions, "task")

        def register(function: Callable[[P, AsyncContext], Awaitable[R]]) -> AsyncHandler[P, R]:
            return AsyncHandler(self, name, function, options)

        return register

    # -- results

    async def outcome(self, task: int, timeout: Duration = 0) -> Optional[Outcome]:
        """How a task has ended, or its state after the time; None if it is not known.

        Those that wait for tasks of queues with keep_done share a connection; without it, each has its own.
        """
        wait = seconds(timeout, "timeout")
        if wait <= 0:
            return await self._run(statements.outcome(self.name, task, timeout))
        await self.ensure()
        return await async_awaiting_of(self.source).wait(self.source, self.name, task, wait)

    async def await_result(self, task: int, timeout: Duration = 30) -> Any:
        """What the handler has returned. TaskFailed if the task failed, AwaitTimeout if it has not ended in time."""
        return result_of(self.name, task, await self.outcome(task, timeout))

    # -- looking

    async def peek(self, count: int = 10) -> List[Task]:
        """The tasks that would be claimed next."""
        return await self._run(statements.peek(self.name, count))

    async def get(self, task: int) -> Optional[TaskStatus]:
        """A task that has not ended, or is dead. Of others get_done() has what is kept."""
        return await self._run(statements.get_task(self.name, task))

    async def tasks(self, state: Optional[str] = None, group: Optional[Group] = None, limit: int = 1000,
              name: Optional[str] = None) -> List[TaskStatus]:
        """Tasks of a state, of a group, of a name. Reads the whole table."""
        return await self._run(statements.tasks(self.name, state, group, name, limit))

    async def dead(self, limit: int = 100) -> List[DeadTask]:
        return await self._run(statements.dead_tasks(self.name, limit))

    async def position(self, task: int) -> Optional[Position]:
        return await self._run(statements.position(self.name, task))

    async def stats(self) -> QueueStats:
        rows = await self._run(statements.stats(self.name))
        if not rows:
            raise LookupError(f"there is no queue {self.name!r}, or it is not yours to read")
        return rows[0]

    async def get_by_key(self, unique_key: Group) -> Optional[TaskStatus]:
        """The task with this key, unless it is dead."""
        return await self._run(statements.get_by_key(self.name, unique_key))

    async def get_done(self, task: int) -> Optional[DoneTask]:
        """What a queue with keep_done has kept of a task that has ended: how, with its result and its last progress."""
        return await self._run(statements.get_done(self.name, task))

    async def done(self, limit: int = 100, name: Optional[str] = None) -> List[DoneTask]:
        """What is kept, the latest first."""
        return await self._run(statements.done_tasks(self.name, name, limit))

    async def leases(self) -> List[Lease]:
        """The tasks in flight."""
        return await self._run(statements.view("leases", Lease, self.name, "id"))

    async def dependencies(self) -> List[Dependency]:
        """Which tasks wait for which."""
        return await self._run(statements.view("dependencies", Dependency, self.name, "task, predecessor"))

    async def settings(self) -> Settings:
        rows = await self._run(statements.view("queues", Settings, self.name, "queue"))
        if not rows:
            raise LookupError(f"there is no queue {self.name!r}")
        return rows[0]

    async def group_stats(self) -> List[GroupStats]:
        """Of the groups that have work: their shares, waits and limits."""
        return await self._run(statements.view("group_stats", GroupStats, self.name, "group_key, group_id"))

    async def subgroup_stats(self) -> List[SubgroupStats]:
        return await self._run(statements.view("subgroup_stats", SubgroupStats, self.name, "group_id, subgroup_key, subgroup_id"))

    async def name_stats(self) -> List[NameStats]:
        """What became of the tasks of each name."""
        return await self._run(statements.view("name_stats", NameStats, self.name, "other, name"))

    async def group_settings(self) -> List[GroupSettings]:
        """What groups were given with set_group() and pause_group()."""
        return await self._run(statements.view("group_settings", GroupSettings, self.name, "group_key"))

    async def subgroup_settings(self) -> List[SubgroupSettings]:
        return await self._run(statements.view("subgroup_settings", SubgroupSettings, self.name, "group_key, subgroup_key"))

    async def group_id(self, group: Group) -> UUID:
        """What names a group, or a subgroup, in 16 bytes, in figures whose keys are cut."""
        found: UUID = await self._run(statements.call("group_id", [statements.named_group(group)], {}))
        return found

    async def sessions(self) -> List[SessionStatus]:
        """The workers of the database, of all queues."""
        return await self._run(statements.view("sessions", SessionStatus, None, "opened_at, session"))

    # -- operating

    async def pop(self, count: int = 1, *, wait: Duration = 0, groups: Optional[Sequence[Group]] = None,
                  connection: Transaction = None) -> List[Task]:
        """Claim tasks and acknowledge them at once: with a connection they are done when its transaction commits, and
        given back when it does not. For what needs no worker."""
        statement = statements.pop(self.name, count, wait, groups)
        if connection is None and wait:
            await self.ensure()
            return await self.source.run(statement)   # it waits at the server, and is in nobody's way
        return await self._run(statement, connection)

    async def maintain(self) -> int:
        """Do what the server's background worker does, for a database that has none; how many tasks that were."""
        return int(await self._run(statements.call("maintain", [self.name], {})))

    async def reset_stats(self) -> None:
        """Begin to count anew."""
        await self._run(statements.call("reset_stats", [self.name], {}, statements.nothing))

    async def forget_key(self, unique_key: Group, *, connection: Transaction = None) -> bool:
        """Forget a key that is remembered (unique_for); whether it was."""
        key = values.group_key(unique_key, "unique_key")
        return bool(await self._run(statements.call("forget_key", [self.name, key], {}), connection))

    async def forget_keys(self, *, connection: Transaction = None) -> int:
        """All of the queue; how many."""
        return int(await self._run(statements.call("forget_keys", [self.name], {}), connection))

    async def cancel(self, task: int, *, connection: Transaction = None) -> bool:
        return bool(await self._run(statements.call("cancel", [self.name, task], {}), connection))

    async def revive(self, task: int, *, connection: Transaction = None) -> bool:
        """Make a dead task ready again."""
        return bool(await self._run(statements.call("revive", [self.name, task], {}), connection))

    async def revive_group(self, group: Group, *, connection: Transaction = None) -> int:
        return int(await self._run(statements.of_group("revive_group", self.name, group), connection))

    async def revive_all(self, *, connection: Transaction = None) -> int:
        return int(await self._run(statements.call("revive_all", [self.name], {}), connection))

    async def purge(self, *, connection: Transaction = None) -> int:
        """Remove every task that is not leased; how many."""
        return int(await self._run(statements.call("purge", [self.name], {}), connection))

    async def purge_group(self, group: Group, *, connection: Transaction = None) -> int:
        return int(await self._run(statements.of_group("purge_group", self.name, group), connection))

    async def pause(self, *, connection: Transaction = None) -> None:
        await self._run(statements.call("pause", [self.name], {}), connection)

    async def resume(self, *, connection: Transaction = None) -> None:
        await self._run(statements.call("resume", [self.name], {}), connection)

    async def pause_group(self, group: Group, *, connection: Transaction = None) -> None:
        await self._run(statements.of_group("pause_group", self.name, group), connection)

    async def resume_group(self, group: Group, *, connection: Transaction = None) -> None:
        await self._run(statements.of_group("resume_group", self.name, group), connection)

    async def set_group(self, group: Group, *, weight: Optional[float] = None, max_leased: Optional[int] = None,
                  rate: Optional[float] = None, burst: Optional[int] = None, connection: Transaction = None) -> None:
        """Weight and limits of a group; None leaves one as it is."""
        await self._run(statements.limits("set_group", [self.name, statements.named_group(group)], weight, max_leased, rate, burst), connection)

    async def reset_group(self, group: Group, *, connection: Transaction = None) -> bool:
        return await self._run(statements.reset_group(self.name, group), connection)

    async def set_group_defaults(self, *, weight: Optional[float] = None, max_leased: Optional[int] = None,
                                 rate: Optional[float] = None, burst: Optional[int] = None, connection: Transaction = None) -> None:
        """Of groups that have none of their own; None leaves one as it is."""
        await self._run(statements.limits("set_group_defaults", [self.name], weight, max_leased, rate, burst), connection)

    async def pause_subgroup(self, group: Group, subgroup: Group, *, connection: Transaction = None) -> None:
        """Of a group. The subgroup of tasks that have none is ""."""
        await self._run(statements.of_subgroup("pause_subgroup", self.name, group, subgroup), connection)

    async def resume_subgroup(self, group: Group, subgroup: Group, *, connection: Transaction = None) -> None:
        await self._run(statements.of_subgroup("resume_subgroup", self.name, group, subgroup), connection)

    async def set_subgroup(self, group: Group, subgroup: Group, *, weight: Optional[float] = None, max_leased: Optional[int] = None,
                           rate: Optional[float] = None, burst: Optional[int] = None, connection: Transaction = None) -> None:
        """Weight and limits of a subgroup within its group; None leaves one as it is."""
        of = [self.name, *statements.named_subgroup(group, subgroup)]
        await self._run(statements.limits("set_subgroup", of, weight, max_leased, rate, burst), connection)

    async def reset_subgroup(self, group: Group, subgroup: Group, *, connection: Transaction = None) -> bool:
        return await self._run(statements.reset_subgroup(self.name, group, subgroup), connection)

    async def set_subgroup_defaults(self, *, weight: Optional[float] = None, max_leased: Optional[int] = None,
                                    rate: Optional[float] = None, burst: Optional[int] = None, connection: Transaction = None) -> None:
        """Of subgroups that have none of their own, of all groups; None leaves one as it is."""
        await self._run(statements.limits("set_subgroup_defaults", [self.name], weight, max_leased, rate, burst), connection)

    async def alter(self, *, connection: Transaction = None, **settings: Unpack[AlterOptions]) -> None:
        await self._run(self._alter(settings), connection)

    async def drop(self) -> bool:
        """Drop the queue, with what is in it."""
        return bool(await self.source.run(statements.call("drop_queue", [self.name], {})))

    # -- schedules

    async def schedule(self, name: str, cron: str, payload: Any = None, *, connection: Transaction = None,
                 **details: Unpack[ScheduleOptions]) -> Optional[datetime]:
        """A task at every tick; returns the next one."""
        following: Optional[datetime] = await self._run(
            self._schedule(name, cron, {} if payload is None else payload, details), connection)
        return following

    async def unschedule(self, name: str, *, connection: Transaction = None) -> bool:
        return bool(await self._run(statements.call("unschedule", [name], {}), connection))

    async def schedules(self) -> List[Schedule]:
        return await self._run(statements.schedules(self.name))
