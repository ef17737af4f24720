/** Numbers and times as people read them. */

import { html, type Markup } from './html.js';

export const NOTHING = '–';

const GROUPED = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function count(value: number | null): string {
  return value === null ? NOTHING : GROUPED.format(value);
}

/** Three digits are enough for a figure that is an estimate. */
export function decimal(value: number | null): string {
  if (value === null || !Number.isFinite(value)) {
    return NOTHING;
  }
  if (Math.abs(value) >= 100 || Number.isInteger(value)) {
    return GROUPED.format(value);
  }
  return String(Number(value.toPrecision(3)));
}

export function rate(value: number | null): string {
  return value === null ? NOTHING : `${decimal(value === 0 ? 0 : Number(value.toPrecision(3)))}/s`;
}

export function percent(part: number | null): string {
  if (part === null) {
    return NOTHING;
  }
  const value = part * 100;
  if (value === 0) {
    return '0 %';
  }
  if (Math.abs(value) < 0.1) {
    return `${value.toPrecision(1)} %`.replace(/e-(\d+)/, '×10⁻$1');
  }
  return `${Math.abs(value) >= 10 ? value.toFixed(0) : value.toFixed(1)} %`;
}

export function bytes(value: number | null): string {
  if (value === null) {
    return NOTHING;
  }
  const units = ['B', 'kB', 'MB', 'GB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${decimal(value)} ${units[unit]}`;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A length of time in seconds, in its two largest units. */
export function duration(seconds: number | null): string {
  if (seconds === null) {
    return NOTHING;
  }
  if (seconds < 0) {
    return `-${duration(-seconds)}`;
  }
  if (seconds < 1) {
    return seconds === 0 ? '0 s' : `${Number((seconds * 1000).toPrecision(2))} ms`;
  }
  if (seconds < MINUTE) {
    return `${Number(seconds.toPrecision(seconds < 10 ? 2 : 3))} s`;
  }
  const [unit, name, less, lessName] =
    seconds < HOUR
      ? [MINUTE, 'min', 1, 's']
      : seconds < DAY
        ? [HOUR, 'h', MINUTE, 'min']
        : ([DAY, 'd', HOUR, 'h'] as const);
  const whole = Math.floor(seconds / unit);
  const rest = Math.floor((seconds - whole * unit) / less);
  return rest === 0 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${lessName}`;
}

/** A moment, in seconds since 1970, as UTC. */
export function utc(epoch: number): string {
  const text = new Date(epoch * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

/** A moment beside the present one: "3 min ago", "in 2 h"; the whole time is in the title. */
export function moment(epoch: number | null, now: number): Markup {
  if (epoch === null) {
    return html`${NOTHING}`;
  }
  if (Math.abs(epoch) > 8e12) {
    return html`${epoch > 0 ? 'never' : 'always'}`;
  }
  const away = epoch - now;
  const words =
    Math.abs(away) < 1 ? 'now' : away < 0 ? `${duration(Math.floor(-away))} ago` : `in ${duration(Math.floor(away))}`;
  const iso = new Date(epoch * 1000).toISOString();
  return html`<time datetime="${iso}" title="${utc(epoch)}">${words}</time>`;
}
