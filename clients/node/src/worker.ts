import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import * as pg from 'pg';
import { Attendance } from './attendance';
import { Claimed, Claims } from './claims';
import { Connection, Database, Row, Statement } from './database';
import {
  ErrorClass, FairqError, LeaseLost, WorkerClosed, errorClasses, hopeless, isHopeless, isPassing,
} from './errors';
import { Entry, Handler, HandlerTable, Handlers, timedOut } from './handlers';
import { Hooks, WorkerHooks, hooksOf } from './hooks';
import { Guide, Node, Place } from './place';
import { Run } from './run';
import { Session } from './session';
import { BOUND, Settlement, Settler, Verdict } from './settler';
import { Task } from './task';
import { arrayText, checkOptions, jsonText, milliseconds, queueName, wholeNumber } from './values';
import { verdictOf } from './verdict';
import { Backoff, Bell, sleep } from './waiting';

const QUEUES = new Statement(`SELECT q.queue, q.keep_done > '0', format('%I.%I', n.nspname, c.relname),
  has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
  FROM fairq.queues q JOIN pg_class c ON c.oid = q.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE q.queue = ANY ($1)`);

/** Whether a task is dead, and of this attempt; an owner may have written something else into its history. */
const DIED = new Statement(`SELECT FROM ${BOUND}, fairq.get_task($1, CASE WHEN bound <> '' THEN $2::bigint END)
  WHERE state = 'dead' AND history -> -1 ->> 'attempt' = $3`);

/** No more tasks are claimed ahead than are begun within this time, in milliseconds, as handlers go. */
const AHEAD = 20;
/** What was claimed ahead and has not begun after so long is given back: a handler takes longer than others did. */
const PATIENCE = 1000;
/** So many ended tasks may wait for their acknowledgement while others are claimed; or as many as are claimed at a time. */
const UNSETTLED = 10;
/** How often the settings of the queues are read again. */
const SETTINGS_AGE = 60_000;
/** What is under way at the server when a worker closes has so long to answer. */
const LAST_ANSWERS = 5000;

export interface WorkerOptions {
  /** How many handlers run at a time; 1. */
  concurrency?: number;
  /** Up to so many tasks are claimed ahead, as long as handlers are so quick that these begin within 20 ms; 100. */
  prefetch?: number;
  /** The session lives so long without a heartbeat, in milliseconds; 30,000. */
  ttl?: number;
  /** With several queues: each is the first in its turn, in place of the order given. */
  rotate?: boolean;
  /** Errors of the handler after which no other attempt would fare better: its task is dead at once. */
  giveUpOn?: readonly ErrorClass[];
  /** What is done around handlers, and when tasks and the worker end. */
  hooks?: Hooks | readonly Hooks[];
  /** Shown in `fairq.sessions`; the host and the process. */
  name?: string;
  /** Where the pool goes through a pooler in transaction mode: how to connect to the server itself. */
  direct?: string | pg.ClientConfig;
  /** Named prepared statements on the pool; true, without `direct`. */
  prepare?: boolean;
}

export interface WorkerEvents<Data = unknown, Result = unknown> {
  /** Acknowledged, and committed. */
  completed: (task: Task<Data>, result: Result) => void;
  /** The attempt failed, and was counted. */
  failed: (task: Task<Data>, error: unknown) => void;
  /** After `failed`: it was the last attempt, and the task is dead. */
  dead: (task: Task<Data>, error: unknown) => void;
  /** The task was no longer ours, or nobody can say: what its transaction wrote is not there, or the task is done. */
  lost: (task: Task<Data>, reason: Error) => void;
  /** Something went wrong that concerns no task, such as a lost connection. The worker goes on. */
  error: (error: Error) => void;
}

export interface CloseOptions {
  /** What handlers that run have left, in milliseconds; 30,000. Then their tasks are given back. */
  timeout?: number;
}

interface Settings {
  keepsResults: boolean;
}

/** Claims tasks and has the handler work on them, until it is closed. */
export class Worker<Data = unknown, Result = unknown> extends EventEmitter {
  readonly queues: readonly string[];
  readonly name: string;
  private readonly handlers: HandlerTable;
  private readonly hooks: WorkerHooks;
  /** Questions whether a task is dead. */
  private readonly inquiries = new Set<Promise<void>>();
  private readonly home: Place;
  private readonly guide: Guide;
  private readonly concurrency: number;
  private readonly prefetch: number;
  private readonly ttl: number;
  private readonly rotate: boolean;
  private readonly giveUpOn: readonly ErrorClass[];
  private readonly direct: string | pg.ClientConfig | undefined;
  private readonly bell = new Bell();
  private readonly runs = new Set<Run<Data>>();
  private readonly sessions = new Set<Session>();
  private readonly closed: Promise<void>;
  private settings = new Map<string, Settings>();
  private settingsAt = 0;
  private ahead: (Claimed & { at: number })[] = [];
  /** Where the worker claims; others are left when their tasks are settled. */
  private place: Place;
  private attendance: Attendance;
  private readonly left = new Set<Promise<void>>();
  private session: Session | undefined;
  private running: Promise<void> | undefined;
  private closing = false;
  private draining = false;
  private short = false;
  /** How long handlers take, in milliseconds: the slow count at once, the quick by and by. */
  private typical = Infinity;
  private startClosing!: () => void;
  private hurry!: () => void;
  private readonly hurried: Promise<void>;

  constructor(connection: Connection, queues: string | readonly string[], handlers: Handler<Data, Result> | Handlers,
    options: WorkerOptions = {}) {
    super();
    checkOptions('Worker', options, ['concurrency', 'prefetch', 'ttl', 'rotate', 'giveUpOn', 'hooks', 'name', 'direct', 'prepare']);
    this.queues = [...new Set((Array.isArray(queues) ? queues : [queues]).map(queueName))];
    wholeNumber('the number of queues', this.queues.length, 1, 32);
    this.handlers = new HandlerTable(handlers as Handler | Handlers, this.queues);
    this.hooks = new WorkerHooks(hooksOf(options.hooks), (error) => this.report(error));
    this.concurrency = wholeNumber('concurrency', options.concurrency ?? 1, 1, 10_000);
    this.prefetch = wholeNumber('prefetch', options.prefetch ?? 100, 0, 10_000);
    this.ttl = milliseconds('ttl', options.ttl ?? 30_000, 500);
    this.rotate = options.rotate ?? false;
    this.giveUpOn = errorClasses('giveUpOn', options.giveUpOn ?? []);
    this.direct = options.direct;
    this.name = (options.name ?? `${hostname().slice(0, 40)} ${process.pid}`).replaceAll('\0', '');
    this.home = this.placeOf(new Database(connection, options.prepare ?? options.direct === undefined), undefined);
    this.place = this.home;
    this.attendance = this.attendanceAt(this.home);
    this.guide = new Guide(this.home.database);
    this.closed = new Promise((resolve) => { this.startClosing = resolve; });
    this.hurried = new Promise((resolve) => { this.hurry = resolve; });
  }

  /** Works until `close` is called. Rejected when it cannot start: no such queue, no privilege. */
  run(): Promise<void> {
    if (this.running) throw new FairqError('the worker was started already; make another one');
    this.running = this.serve();
    return this.running;
  }

  /**
   * Works until nothing can be claimed and all is done; what waits for its time stays. A queue that is locked is
   * waited for, not one that is dropped meanwhile, or forbidden. Not at a proxy of a cluster.
   */
  drain(): Promise<void> {
    const running = this.run(); // which throws if the worker was started already
    this.draining = true;
    return running;
  }

  /** Stops claiming, gives back what has not begun, lets handlers end for a time, gives back the rest. */
  async close(options: CloseOptions = {}): Promise<void> {
    checkOptions('close()', options, ['timeout']);
    const timeout = milliseconds('timeout', options.timeout ?? 30_000, 0);
    this.closing = true;
    this.startClosing();
    this.bell.ring();
    const hurry = setTimeout(this.hurry, timeout);
    try {
      await this.running?.catch(() => {}); // whoever called run() is told
      if (!this.running) await this.home.database.close();
    } finally {
      clearTimeout(hurry);
    }
  }

  // --- the loop ---------------------------------------------------------------

  private async serve(): Promise<void> {
    const onPoolError = (error: Error): void => this.report(error);
    const { pool } = this.home.database;
    pool.on('error', onPoolError);
    const chores = setInterval(() => this.doChores(), PATIENCE);
    let started = false;
    try {
      started = await this.inTime(this.hooks.start(this));
      await this.connectAndClaim();
    } finally {
      clearInterval(chores);
      await this.shutDown();
      pool.removeListener('error', onPoolError);
      await Promise.all([...this.left, this.handlers.close()]);
      if (started) await this.inTime(this.hooks.stop(this));
      await this.home.database.close();
    }
  }

  /** A hook that never returns does not keep a worker from closing. */
  private async inTime(hooks: Promise<void>): Promise<boolean> {
    const ended = hooks.then(() => true);
    const late = this.hurried.then(() => sleep(LAST_ANSWERS, ended.catch(() => {}))).then(() => false);
    const inTime = await Promise.race([ended, late]);
    if (!inTime) this.report(new FairqError('a hook has not returned, and the worker closes without it'));
    return inTime;
  }

  private async connectAndClaim(): Promise<void> {
    const backoff = new Backoff();
    let first = true;
    let node: Node | undefined; // to go to
    while (!this.closing) {
      let session: Session, claims: Claims;
      try {
        const next = node ?? await this.guide.ask(this.queues, first);
        if (next && this.draining) throw hopeless('0A000', 'drain() is for one database; at a proxy of a cluster call run()');
        node = next;
        ({ session, claims } = await this.connect(node, first));
      } catch (error) {
        if (first && !node && isHopeless(error)) throw error;
        if (node) this.guide.unreached(node);
        node = undefined;
        this.report(error);
        await sleep(backoff.next(), this.closed);
        continue;
      }
      first = false;
      backoff.reset();
      const at = node;
      node = await this.claimUnder(session, claims).catch((error) => {
        if (at) this.guide.unreached(at);
        if (!this.closing) this.report(error);
        return undefined;
      });
      // What the last answer may have granted, and nobody has seen, is given back with the session.
      if (!this.closing) session.retire();
      if (!session.alive) this.ahead = [];
      await claims.connection.end();
    }
  }

  private async connect(node: Node | undefined, strict: boolean): Promise<{ session: Session; claims: Claims }> {
    this.giveBackAhead();
    const place = node ? this.placeOf(await this.guide.open(node), node) : this.home;
    const attendance = this.attendanceAt(place);
    const direct = node ? undefined : this.direct;
    const { pool } = place.database;
    let session: Session | undefined;
    let claims: Claims;
    try {
      session = await Session.open(pool, { name: this.name.slice(0, 63), ttl: this.ttl, direct });
      await this.readSettings(place, strict);
      claims = await Claims.open(pool, direct, this.ttl, attendance, this.rotate, node !== undefined);
    } catch (error) {
      await session?.close();
      if (node) await place.database.close();
      throw error;
    }
    const { connection } = claims;
    this.place = place;
    this.attendance = attendance;
    this.session = session;
    this.sessions.add(session);
    const over = session;
    void session.over.then((reason) => {
      this.sessions.delete(over);
      connection.destroy();
      place.settler.wake();
      this.bell.ring();
      if (reason) this.report(reason);
      if (node) this.leave(place);
    });
    return { session, claims };
  }

  private placeOf(database: Database, node: Node | undefined): Place {
    const settler = new Settler(database.pool, database.prepare, Math.max(this.ttl, 5000),
      (error) => this.report(error), () => this.bell.ring());
    return { node, database, settler };
  }

  /** Of a queue no more may wait apart for their settlement than are acknowledged together else. */
  private attendanceAt({ node, settler }: Place): Attendance {
    return new Attendance(this.queues, (queue) => settler.apart(queue) > this.mostUnsettled, node !== undefined,
      (error) => this.report(error));
  }

  private get mostUnsettled(): number {
    return Math.max(UNSETTLED, this.concurrency + this.prefetch);
  }

  /** Its session is over: what is under way there ends, and then its connections. */
  private leave(place: Place): void {
    const leaving = place.settler.idle().then(() => Promise.all(this.inquiries)).then(() => place.database.close()).catch((error) => this.report(error));
    this.left.add(leaving);
    void leaving.then(() => this.left.delete(leaving));
  }

  /** Until the worker or the session ends; or until it is another node's turn, which is returned. */
  private async claimUnder(session: Session, claims: Claims): Promise<Node | undefined> {
    const { node } = this.place;
    const stopWaiting = this.closed.then(async () => {
      while (!claims.connection.closed && this.claiming) { // a cancel may come between two statements
        await claims.cancel(session);
        await sleep(50);
      }
    });
    void stopWaiting;
    while (!this.closing && session.alive) {
      const most = this.wanted();
      const over = this.draining && !this.attendance.recovering; // where none is present there is nothing to wait for
      const pause = most === 0 ? Infinity : over ? 0 : this.attendance.pause();
      if (pause > 0) {
        await this.bell.heard(pause);
        continue;
      }
      const present = this.attendance.present();
      if (this.guide.dueIn() === 0 && present.length > 0) {
        // Whoever stays at a node needs no proxy.
        const following = await this.guide.ask(present, false, session.id).catch((error) => void this.report(error));
        if (following && following.number !== node?.number) return following;
      }
      const free = this.runs.size < this.concurrency;
      this.claiming = true;
      const claimed = await claims.claim(session, most, free && !this.draining, this.guide.dueIn())
        .finally(() => { this.claiming = false; });
      this.guide.found(node, claimed.length);
      this.short = !free && claimed.length < most;
      const at = performance.now();
      for (const one of claimed) this.ahead.push({ ...one, at });
      this.begin();
      if (this.draining && claimed.length === 0 && free) {
        await (this.attendance.recovering ? this.bell.heard(this.attendance.dueIn()) : this.whenDrained());
      }
    }
    return undefined;
  }
  private claiming = false;

  /** Closes when nothing is in work; else until something of that, or a hook, has ended, which may have added more. */
  private async whenDrained(): Promise<void> {
    if (this.runs.size + this.ahead.length + this.place.settler.unsettled + this.inquiries.size > 0) return this.bell.heard();
    if (this.hooks.telling) return Promise.race([this.hooks.told(), this.closed]);
    this.closing = true;
    this.startClosing();
  }

  /** How many to claim: for those who are free, and some ahead. */
  private wanted(): number {
    if (this.place.settler.backlog > this.mostUnsettled) return 0;
    const free = this.concurrency - this.runs.size;
    const ahead = Math.min(this.prefetch, Math.floor(AHEAD / this.typical * this.concurrency));
    if (free > 0) return free + ahead;
    return this.short || this.ahead.length > ahead / 2 ? 0 : ahead - this.ahead.length;
  }

  private begin(): void {
    while (this.runs.size < this.concurrency && this.ahead.length > 0 && !this.closing && this.session?.alive) {
      const { task, receipt } = this.ahead.shift() as Claimed;
      const run = new Run<Data>(task as Task<Data>, receipt, this.session, this.place, this.onLost);
      this.runs.add(run);
      void this.work(run);
    }
  }

  private readonly onLost = (run: Run<Data>, reason: Error): void => {
    this.tell('lost', run.task, reason);
    this.hooks.tell('lost', run.task, reason);
  };

  /** Each second. */
  private doChores(): void {
    const oldest = this.ahead[0];
    if (oldest && performance.now() - oldest.at > PATIENCE) {
      this.typical = Infinity;
      this.giveBackAhead();
    }
    if (performance.now() - this.settingsAt > SETTINGS_AGE) {
      this.settingsAt = performance.now();
      this.readSettings(this.place, false).catch((error) => this.report(error));
    }
  }

  private giveBackAhead(): void {
    const { session } = this;
    for (const { task: { queue }, receipt } of this.ahead) {
      this.place.settler.add({ queue, receipt, verdict: { kind: 'back', after: 0, delay: '0' }, alive: () => session?.alive ?? false, settled: () => {} });
    }
    this.ahead = [];
  }

  /** `strict`: a queue that is missing or closed to us is an error; once the worker has started it is put off. */
  private async readSettings({ database }: Place, strict: boolean): Promise<void> {
    const rows = await database.ask(QUEUES, [arrayText([...this.queues])]);
    const found = new Map(rows.map(([queue, keeps]) => [queue as string, { keepsResults: keeps === 't' }]));
    if (strict) this.checkQueues(rows);
    this.settings = found;
    this.settingsAt = performance.now();
  }

  private checkQueues(rows: Row[]): void {
    const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ');
    const missing = this.queues.filter((queue) => !rows.some(([found]) => found === queue));
    if (missing.length > 0) {
      throw hopeless('42704', `there is no queue ${quoted(missing)}; make it with queue.create() or fairq.create_queue`);
    }
    const closed = rows.filter((row) => row[3] !== 't');
    if (closed.length > 0) {
      throw hopeless('42501', `this role may not work on queue ${quoted(closed.map(([queue]) => queue as string))}; ` +
        `GRANT SELECT, UPDATE, DELETE ON ${closed.map((row) => row[2]).join(', ')}`);
    }
  }

  // --- a task -----------------------------------------------------------------

  private async work(run: Run<Data>): Promise<void> {
    let entry: Entry | undefined;
    let timer: NodeJS.Timeout | undefined;
    let late = false;
    try {
      const { call, timeout } = entry = this.handlers.find(run.task);
      if (timeout !== undefined) {
        timer = setTimeout(() => {
          late = run.state === 'running';
          if (late) void this.timeOut(run, entry as Entry);
        }, timeout);
      }
      const value = await this.hooks.run(run.task, run, () => call(run.task, run)) as Result;
      if (run.state === 'running') await this.succeed(run, value);
    } catch (error) {
      if (run.state !== 'over' && !late) await this.fail(run, error, entry);
    } finally {
      clearTimeout(timer);
      const took = Math.max(performance.now() - run.since, 0.001);
      this.typical = took > this.typical || this.typical === Infinity ? took : 0.9 * this.typical + 0.1 * took;
      this.runs.delete(run);
      this.begin();
      this.bell.ring();
    }
  }

  private async succeed(run: Run<Data>, value: Result): Promise<void> {
    const result = value !== undefined && this.settings.get(run.task.queue)?.keepsResults
      ? jsonText('the result of the handler', value) : null;
    const tx = run.usedTx;
    run.state = 'settling';
    if (!tx) return this.settle(run, { kind: 'ack', result }, value);
    const mine = await tx.commit(run.receipt, result);
    run.over();
    if (mine) this.done(run, value);
    else this.onLost(run, new LeaseLost(`the lease of ${String(run.task)} was lost, and its transaction is rolled back`));
  }

  /** The handler may still run, and has its slot until it has ended; but the attempt is over. */
  private async timeOut(run: Run<Data>, entry: Entry): Promise<void> {
    const error = timedOut(run.task, entry.timeout as number);
    run.timeOut(error);
    await this.fail(run, error, entry);
  }

  private async fail(run: Run<Data>, thrown: unknown, entry: Entry | undefined): Promise<void> {
    run.state = 'settling';
    await run.usedTx?.rollback();
    const { verdict, error } = verdictOf(thrown, this.giveUpOn, entry, run.task);
    this.settle(run, verdict, error);
  }

  /** The attempt is counted. Whether it was the last is asked for if somebody wants to know. */
  private failed({ task, place, session }: Run<Data>, error: unknown, final: boolean): void {
    this.tell('failed', task, error);
    this.hooks.tell('failed', task, error);
    if (this.listenerCount('dead') === 0 && !this.hooks.has('dead')) return;
    const died = (): void => {
      this.tell('dead', task, error);
      this.hooks.tell('dead', task, error);
    };
    if (final) return died();
    const inquiry = (async () => {
      const backoff = new Backoff();
      for (;;) {
        try {
          const rows = await place.database.ask(DIED, [task.queue, task.id, String(task.attempt)]);
          return rows.length > 0 ? died() : undefined;
        } catch (problem) {
          this.report(problem);
          if (!isPassing(problem) || !session.alive) return undefined;
          await sleep(backoff.next());
        }
      }
    })();
    this.inquiries.add(inquiry);
    void inquiry.then(() => {
      this.inquiries.delete(inquiry);
      this.bell.ring();
    });
  }

  /** `about`: the result of the handler, or the error that it has thrown. */
  private settle(run: Run<Data>, verdict: Verdict, about: unknown): void {
    const { task, receipt, session, place } = run;
    const settlement: Settlement = {
      queue: task.queue, receipt, verdict, alive: () => session.alive,
      settled: (mine) => {
        run.over();
        this.settled(run, mine, settlement, settlement.verdict.kind === verdict.kind ? about : settlement.refusal);
      },
    };
    place.settler.add(settlement);
  }

  private settled(run: Run<Data>, mine: boolean, { verdict, refusal }: Settlement, about: unknown): void {
    if (verdict.kind === 'back') {
      return this.onLost(run, new LeaseLost(`how the attempt of ${String(run.task)} had ended was refused by the server, ` +
        `and ${mine ? 'the task is given back' : 'its lease has ended'}`, { cause: refusal }));
    }
    if (!mine) return this.onLost(run, new LeaseLost(`the lease of ${String(run.task)} was lost, or it is not known whether it was settled`));
    if (verdict.kind === 'ack') {
      const settings = this.settings.get(run.task.queue);
      if (settings && refusal !== undefined) settings.keepsResults = false;
      this.done(run, about as Result);
    } else if (verdict.kind !== 'release') {
      this.failed(run, about, verdict.kind === 'final');
    }
  }

  private done({ task }: Run<Data>, value: Result): void {
    this.tell('completed', task, value);
    this.hooks.tell('after', task, value);
  }

  // --- the end ----------------------------------------------------------------

  private async shutDown(): Promise<void> {
    this.closing = true;
    this.giveBackAhead();
    const ended = (async () => {
      while (this.runs.size > 0) await this.bell.heard();
    })();
    await Promise.race([ended, this.hurried]);
    const late = new WorkerClosed('the worker was closed before the handler had ended; the task is given back');
    for (const run of this.runs) run.lose(late);
    this.place.settler.hurry();
    const settling = (async () => {
      while ([...this.runs].some((run) => run.state === 'settling')) await this.bell.heard();
      await this.place.settler.idle();
      await Promise.all(this.inquiries);
    })();
    await Promise.race([settling, sleep(LAST_ANSWERS, settling)]);
    await Promise.all([...this.sessions].map((session) => session.close()));
  }

  // --- events -----------------------------------------------------------------

  private tell<E extends 'completed' | 'failed' | 'dead' | 'lost'>(event: E, task: Task<Data>, about: unknown): void {
    if (this.listenerCount(event) === 0) return;
    try {
      super.emit(event, task, about);
    } catch (error) { // of a listener: no task may suffer from it
      this.report(error);
    }
  }

  private report(error: unknown): void {
    const shown = error instanceof Error ? error : new FairqError(String(error));
    if (this.listenerCount('error') > 0) super.emit('error', shown);
    else console.error(`pgfairq worker ${this.name}: ${shown.message}`);
  }

  override on<E extends keyof WorkerEvents>(event: E, listener: WorkerEvents<Data, Result>[E]): this {
    return super.on(event, listener as (...values: unknown[]) => void);
  }

  override once<E extends keyof WorkerEvents>(event: E, listener: WorkerEvents<Data, Result>[E]): this {
    return super.once(event, listener as (...values: unknown[]) => void);
  }

  override off<E extends keyof WorkerEvents>(event: E, listener: WorkerEvents<Data, Result>[E]): this {
    return super.off(event, listener as (...values: unknown[]) => void);
  }
}
