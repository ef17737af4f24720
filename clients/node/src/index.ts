export { Queue } from './queue';
export type {
  AddOptions, BulkTask, CallOptions, Counts, ManyOptions, NewTask, Outcome, Position, QueueOptions, Stats,
} from './queue';
export { Worker } from './worker';
export type { CloseOptions, WorkerEvents, WorkerOptions } from './worker';
export type { Handler, HandlerOptions, Handlers, WorkOptions } from './handlers';
export { NamedTask } from './named';
export type { TaskDefaults, TaskDefinition } from './named';
export type { FileContext, FileHandler } from './child';
export type { EnqueuedTask, Hooks, WorkerInfo } from './hooks';
export { Task } from './task';
export type { TaskContext } from './run';
export type { TaskTransaction as Transaction } from './transaction';
export { closeOnSignal } from './signals';
export type { SignalOptions } from './signals';
export {
  FairqError, HandlerCrashed, HandlerTimeout, LeaseLost, NoHandler, RetryLater, Snooze, TaskFailed, Unrecoverable, WaitTimeout,
  WorkerClosed,
} from './errors';
export type { ErrorClass } from './errors';
export type { CreateSettings, GroupSettings, QueueSettings } from './administration';
export type { TaskOptions } from './enqueue';
export type { Schedule, ScheduleOptions } from './schedules';
export type { State, TaskEnd, TaskStatus } from './status';
export type { Connection, PoolClientLike, PoolLike, Queryable } from './database';
export type { Duration, GroupKey, Moment, TaskId } from './values';
