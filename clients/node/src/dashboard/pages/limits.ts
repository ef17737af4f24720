/** What tenants and their subgroups may have: as it is in force, and as they were given it. */

import { count, decimal } from '../format.js';
import type { Markup } from '../html.js';
import { badge, facts } from '../layout.js';

interface Limited {
  leased: number;
  max_leased: number | null;
  rate: number | null;
  tokens: number | null;
  paused: boolean;
}

interface Given {
  weight: number | null;
  max_leased: number | null;
  rate: number | null;
  burst: number | null;
  paused: boolean | null;
}

/** What a tenant or a subgroup may have, where that is limited. */
export function limits(tenant: Limited): Markup[] {
  return [
    ...(tenant.paused ? [badge('paused', 'warn')] : []),
    ...(tenant.max_leased === null
      ? []
      : [
          badge(
            `${count(tenant.leased)} of ${count(tenant.max_leased)} in flight`,
            tenant.leased >= tenant.max_leased ? 'warn' : '',
          ),
        ]),
    ...(tenant.rate === null
      ? []
      : [
          badge(
            `${decimal(tenant.rate)}/s, ${decimal(Math.floor(tenant.tokens ?? 0))} left now`,
            (tenant.tokens ?? 0) < 1 ? 'warn' : '',
          ),
        ]),
  ];
}

/** A setting as it was given; null: it was not. */
export function settingWord(value: number | null | undefined): string {
  return value === null || value === undefined ? 'default' : value === 0 ? 'no limit' : decimal(value);
}

/** What one of them was given. */
export function ownSettings(own: Given | undefined): Markup {
  return facts([
    ['weight', settingWord(own?.weight)],
    ['in flight at most', settingWord(own?.max_leased)],
    ['claims a second', settingWord(own?.rate)],
    ['burst', settingWord(own?.burst)],
    ['paused', own?.paused === true ? 'yes' : 'no'],
  ]);
}
