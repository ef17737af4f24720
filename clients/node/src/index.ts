export { Queue } from './queue';
export type {
  AddOptions, BulkTask, Counts, ManyOptions, NewTask, Outcome, Position, QueueOptions, Stats,
} from './queue';
export { Worker } from './worker';
export type { CloseOptions, Handler, WorkerEvents, WorkerOptions } from './worker';
export { Task } from './task';
export type { TaskContext } from './run';
export type { Transaction } from './transaction';
export { closeOnSignal } from './signals';
export type { SignalOptions } from './signals';
export { FairqError, LeaseLost, RetryLater, Snooze, TaskFailed, Unrecoverable, WaitTimeout, WorkerClosed } from './errors';
export type { ErrorClass } from './errors';
export type { CreateSettings, GroupSettings, QueueSettings } from './administration';
export type { TaskOptions } from './enqueue';
export type { Schedule, ScheduleOptions } from './schedules';
export type { State, TaskEnd, TaskStatus } from './status';
export type { Connection, PoolClientLike, PoolLike, Queryable } from './database';
export type { Duration, GroupKey, Moment, TaskId } from './values';
