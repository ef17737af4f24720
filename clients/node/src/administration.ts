import { Statement } from './database';
import { Duration, checkOptions, durationText, optionalNumber } from './values';

/** Settings of a queue; what is left out is the default, or stays as it is. */
export interface QueueSettings {
  buckets?: number;
  lease?: Duration;
  maxAttempts?: number;
  /** After how many lost leases a task is dead; 0: no limit. */
  maxLost?: number;
  backoffBase?: Duration;
  backoffMax?: Duration;
  backoffJitter?: number;
  maxReady?: number;
  maxReadyPerGroup?: number;
  maxDepth?: number;
  /** How long done tasks and their results are kept; 0: not at all. */
  keepDone?: Duration;
  durableLeases?: boolean;
  charge?: 'cost' | 'seconds';
  notify?: boolean;
  expireAfter?: Duration;
  defaultPriority?: number;
  groupRequired?: boolean;
  /** Classes share the queue by these; []: a lower class goes first. */
  classWeights?: readonly number[];
  /** Whether groups are divided into subgroups, between which the share of a group is fair. */
  subgroups?: boolean;
}

export interface CreateSettings extends QueueSettings {
  policy?: 'fair' | 'priority' | 'time';
  /** Leave a queue of the name as it is. */
  ifNotExists?: boolean;
}

/** Of a group, or of a subgroup within its group. */
export interface GroupSettings {
  weight?: number;
  /** At most so many of its tasks in flight; 0: no limit. */
  maxLeased?: number;
  /** At most so many claims a second; 0: no limit. */
  rate?: number;
  burst?: number;
}

type Kind = 'text' | 'int' | 'bigint' | 'float8' | 'float8[]' | 'interval' | 'boolean';
type Arguments = Record<string, { argument: string; type: Kind }>;

const SETTINGS: Arguments = {
  buckets: { argument: 'buckets', type: 'int' },
  lease: { argument: 'lease', type: 'interval' },
  maxAttempts: { argument: 'max_attempts', type: 'int' },
  maxLost: { argument: 'max_lost', type: 'int' },
  backoffBase: { argument: 'backoff_base', type: 'interval' },
  backoffMax: { argument: 'backoff_max', type: 'interval' },
  backoffJitter: { argument: 'backoff_jitter', type: 'float8' },
  maxReady: { argument: 'max_ready', type: 'bigint' },
  maxReadyPerGroup: { argument: 'max_ready_per_group', type: 'bigint' },
  maxDepth: { argument: 'max_depth', type: 'bigint' },
  keepDone: { argument: 'keep_done', type: 'interval' },
  durableLeases: { argument: 'durable_leases', type: 'boolean' },
  charge: { argument: 'charge', type: 'text' },
  notify: { argument: 'notify', type: 'boolean' },
  expireAfter: { argument: 'expire_after', type: 'interval' },
  defaultPriority: { argument: 'default_priority', type: 'bigint' },
  groupRequired: { argument: 'group_required', type: 'boolean' },
  classWeights: { argument: 'class_weights', type: 'float8[]' },
  subgroups: { argument: 'subgroups', type: 'boolean' },
};
const CREATE_SETTINGS: Arguments = {
  ...SETTINGS,
  policy: { argument: 'policy', type: 'text' },
  ifNotExists: { argument: 'if_not_exists', type: 'boolean' },
};
const GROUP_SETTINGS: Arguments = {
  weight: { argument: 'weight', type: 'float8' },
  maxLeased: { argument: 'max_leased', type: 'int' },
  rate: { argument: 'rate', type: 'float8' },
  burst: { argument: 'burst', type: 'int' },
};

/** A call with the arguments that are given, the others being the function's defaults. */
function call(what: string, name: string, first: string[], known: Arguments, given: object):
  { statement: Statement; values: unknown[] } {
  checkOptions(what, given, Object.keys(known));
  const values: unknown[] = [...first];
  const texts = first.map((_, n) => `$${n + 1}`);
  for (const [key, value] of Object.entries(given) as [string, unknown][]) {
    if (value === undefined) continue;
    const { argument, type } = known[key];
    values.push(settingText(`${key} of ${what}`, type, value));
    texts.push(`${argument} => $${values.length}::${type}`);
  }
  return { statement: new Statement(`SELECT fairq.${name}(${texts.join(', ')})`), values };
}

function settingText(what: string, type: Kind, value: unknown): string | null {
  if (type === 'interval') return durationText(what, value as Duration);
  if (type === 'boolean' || type === 'text') {
    if (typeof value !== (type === 'text' ? 'string' : 'boolean')) throw new TypeError(`${what} is no ${type}`);
    return String(value);
  }
  if (type === 'float8[]') {
    if (!Array.isArray(value)) throw new TypeError(`${what} is no array`);
    return `{${value.map((one: number) => optionalNumber(what, one)).join(',')}}`;
  }
  return optionalNumber(what, value as number);
}

type Call = ReturnType<typeof call>;

export const createQueue = (queue: string, settings: CreateSettings): Call =>
  call('create()', 'create_queue', [queue], CREATE_SETTINGS, settings);

export const alterQueue = (queue: string, settings: QueueSettings): Call =>
  call('alter()', 'alter_queue', [queue], SETTINGS, settings);

export const setGroup = (queue: string, group: string, settings: GroupSettings): Call =>
  call('setGroup()', 'set_group', [queue, group], GROUP_SETTINGS, settings);

export const setGroupDefaults = (queue: string, settings: GroupSettings): Call =>
  call('setGroupDefaults()', 'set_group_defaults', [queue], GROUP_SETTINGS, settings);

export const setSubgroup = (queue: string, group: string, subgroup: string, settings: GroupSettings): Call =>
  call('setSubgroup()', 'set_subgroup', [queue, group, subgroup], GROUP_SETTINGS, settings);

export const setSubgroupDefaults = (queue: string, settings: GroupSettings): Call =>
  call('setSubgroupDefaults()', 'set_subgroup_defaults', [queue], GROUP_SETTINGS, settings);
