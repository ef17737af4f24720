/** Small charts as SVG. Colours are classes, so that the stylesheet has them in light and dark. */

import { html, type Child, type Markup } from './html.js';
import { duration, NOTHING, utc } from './format.js';

export interface Series {
  name: string;
  /** the class of its colour: one to four */
  colour: 'one' | 'two' | 'three' | 'four';
  values: readonly (number | null)[];
}

export interface ChartOptions {
  title: string;
  times: readonly number[];
  series: readonly Series[];
  format: (value: number) => string;
}

const WIDTH = 360;
const HEIGHT = 120;
const TOP = 8;
const BOTTOM = 18;
/** Room for the numbers of the axis, and parts of a chart that each say what was there. */
const LEFT = 46;
const PARTS = 60;
/** A gap that is so many steps long is one, and no line. */
const GAP = 3;

/** A round number that is not below a value: 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  if (!(value > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= value * (1 - 1e-9))!;
  return step * power;
}

type Point = readonly [x: number, y: number];

/** Lines without the gaps. A point that stands alone is a short line, so that it is seen. */
function path(points: readonly (Point | null)[]): string {
  let text = '';
  points.forEach((point, index) => {
    if (point === null) {
      return;
    }
    const begins = index === 0 || points[index - 1] === null;
    const at = `${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    text += `${begins ? 'M' : 'L'}${at}`;
    if (begins && (points[index + 1] ?? null) === null) {
      text += 'h1';
    }
  });
  return text;
}

interface Area {
  left: number;
  right: number;
  top: number;
  bottom: number;
  highest: number;
}

/** Where a time is in a chart. */
function across(times: readonly number[], index: number, { left, right }: Pick<Area, 'left' | 'right'>): number {
  const first = times[0] ?? 0;
  const span = Math.max((times.at(-1) ?? 0) - first, 1e-9);
  return times.length < 2 ? right : left + ((times[index]! - first) / span) * (right - left);
}

/** The points of values; null where there is none, and where nothing was seen for long before. */
function places(times: readonly number[], values: readonly (number | null)[], area: Area): (Point | null)[] {
  const { top, bottom, highest } = area;
  const steps = times.slice(1).map((time, index) => time - times[index]!);
  const usual = [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
  return values.flatMap((value, index) => {
    const gap = index > 0 && steps[index - 1]! > GAP * usual;
    const point =
      value === null
        ? null
        : ([across(times, index, area), bottom - (Math.min(value, highest) / highest) * (bottom - top)] as const);
    return gap ? [null, point] : [point];
  });
}

/** Parts from top to bottom, over which a browser shows what was there at the time. */
function hovers({ times, series, format }: ChartOptions, area: Area): Markup[] {
  const step = Math.max(1, Math.ceil(times.length / PARTS));
  const starts = times.map((_, index) => index).filter((index) => index % step === 0);
  return starts.map((start) => {
    const end = Math.min(start + step, times.length - 1);
    const x = across(times, start, area);
    const width = Math.max(across(times, end, area) - x, 2);
    const last = Math.max(start, end - 1);
    const lines = series.map((one) => {
      const value = one.values[last] ?? null;
      return `${one.name}: ${value === null ? NOTHING : format(value)}`;
    });
    return html`<rect class="hover" x="${x.toFixed(1)}" y="${area.top}" width="${width.toFixed(1)}" height="${
      area.bottom - area.top
    }"><title>${[utc(times[last]!), ...lines].join('\n')}</title></rect>`;
  });
}

function highestOf(series: readonly Series[]): number {
  let highest = 0;
  for (const { values } of series) {
    for (const value of values) {
      highest = Math.max(highest, value ?? 0);
    }
  }
  return highest;
}

function lastOf(values: readonly (number | null)[]): number | null {
  return values.filter((value) => value !== null).at(-1) ?? null;
}

/** Not more points than the chart has room for: of neighbours the highest stays. */
function thinned({ times, series }: ChartOptions): { times: number[]; series: Series[] } {
  const step = Math.ceil(times.length / (WIDTH / 2));
  const starts = times.map((_, index) => index).filter((index) => index % step === 0);
  return {
    times: starts.map((index) => times[Math.min(index + step, times.length) - 1]!),
    series: series.map((one) => ({
      ...one,
      values: starts.map((index) => {
        const some = one.values.slice(index, index + step).filter((value) => value !== null);
        return some.length === 0 ? null : Math.max(...some);
      }),
    })),
  };
}

/** A chart over time, with the last values beside the names. */
export function lineChart(options: ChartOptions): Markup {
  const { title, format } = options;
  const { times, series } = thinned(options);
  const highest = roundUp(highestOf(series));
  const bottom = HEIGHT - BOTTOM;
  const area = { left: LEFT, right: WIDTH, top: TOP, bottom, highest };
  const middle = (TOP + bottom) / 2;
  const span = times.length < 2 ? 0 : times.at(-1)! - times[0]!;
  const lines = series.map((one) => {
    const points = places(times, one.values, area);
    return html`<path class="line ${one.colour}" d="${path(points)}"/>`;
  });
  const legend = series.map((one, index) => {
    const last = lastOf(options.series[index]!.values);
    return html`<li><span class="key ${one.colour}"></span>${one.name}
            <b>${last === null ? NOTHING : format(last)}</b></li>`;
  });
  const before = span < 1 ? 'just begun' : `${duration(Math.round(span))} ago`;
  return html`<figure class="chart"><figcaption>${title}</figcaption>
        <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}">
            <path class="grid" d="M${LEFT} ${bottom}H${WIDTH}M${LEFT} ${TOP}H${WIDTH}M${LEFT} ${middle}H${WIDTH}M${LEFT} ${TOP}V${bottom}"/>
            <text x="${LEFT - 5}" y="${TOP + 6}" class="end">${format(highest)}</text>
            <text x="${LEFT - 5}" y="${middle + 4}" class="end">${format(highest / 2)}</text>
            <text x="${LEFT - 5}" y="${bottom + 1}" class="end">0</text>
            ${lines}${hovers({ ...options, times, series }, area)}
            <text x="${LEFT}" y="${HEIGHT - 4}">${before}</text>
            ${span >= 120 && html`<text x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 4}" class="middle">${duration(Math.round(span / 2))} ago</text>`}
            <text x="${WIDTH}" y="${HEIGHT - 4}" class="end">now</text>
        </svg><ul class="legend">${legend}</ul></figure>`;
}

/** A line as high as a row of a table. */
export function sparkline(times: readonly number[], values: readonly (number | null)[], label: string): Markup {
  const all = { title: label, times, format: String, series: [{ name: label, colour: 'one', values }] } as const;
  const { times: some, series } = thinned(all);
  const area = { left: 0, right: 90, top: 2, bottom: 20, highest: Math.max(highestOf(series), 1) };
  const points = places(some, series[0]!.values, area);
  return html`<svg class="spark" viewBox="0 0 90 22" role="img" aria-label="${label}">
        <path class="grid" d="M0 20.5H90"/><path class="line one" d="${path(points)}"/></svg>`;
}

export interface Bar {
  name: string;
  value: number | null;
}

/** Bars from the least to the greatest, on one scale, which is logarithmic over decades. */
export function barChart(
  title: string,
  bars: readonly Bar[],
  format: (value: number) => string,
  mark?: { name: string; value: number },
  note?: Child,
): Markup {
  const known = [...bars.map((bar) => bar.value), mark?.value ?? null].filter((value) => value !== null);
  const highest = Math.max(...known, 1e-6);
  const lowest = Math.min(...known.filter((value) => value > 0), highest) / 3;
  const width = (value: number): number =>
    value <= lowest ? 1 : 1 + (Math.log(value / lowest) / Math.log(highest / lowest)) * 219;
  const rows = bars.map(({ name, value }, index) => {
    const y = index * 22 + 4;
    return html`<text x="30" y="${y + 12}" class="end">${name}</text>
            ${value !== null && html`<rect class="bar one" x="36" y="${y}" width="${width(value).toFixed(1)}" height="15" rx="2"/>`}
            <text x="${value === null ? 36 : (42 + width(value)).toFixed(1)}" y="${y + 12}" class="value">${
              value === null ? 'none yet' : format(value)
            }</text>`;
  });
  const height = bars.length * 22 + (mark === undefined ? 4 : 20);
  const x = mark === undefined ? 0 : 36 + width(mark.value);
  return html`<figure class="chart"><figcaption>${title}</figcaption>
        <svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}">${rows}
            ${
              mark !== undefined &&
              html`<path class="mark" d="M${x.toFixed(1)} 2V${bars.length * 22}"/>
                <text x="${x.toFixed(1)}" y="${height - 6}" class="middle">${mark.name} ${format(mark.value)}</text>`
            }
        </svg>${note !== undefined && html`<p class="note">${note}</p>`}</figure>`;
}

/** What a tenant has got, and a mark at what it is due. */
export function shareBar(share: number | null, expected: number | null, highest: number): Markup {
  const scale = (value: number): string => (Math.min(value / Math.max(highest, 1e-9), 1) * 98).toFixed(1);
  return html`<svg class="share" viewBox="0 0 100 14" role="img" aria-label="share and expected share">
        <path class="grid" d="M0 7H100"/>
        ${share !== null && html`<rect class="bar one" x="0" y="3" width="${scale(share)}" height="8" rx="1"/>`}
        ${expected !== null && html`<path class="mark" d="M${scale(expected)} 0V14"/>`}</svg>`;
}

/** How full something is. */
export function fillBar(part: number): Markup {
  const level = part >= 0.9 ? 'bad' : part >= 0.7 ? 'warn' : 'one';
  return html`<svg class="fill" viewBox="0 0 100 10" role="img" aria-label="in use">
        <rect class="track" x="0" y="1" width="100" height="8" rx="2"/>
        <rect class="bar ${level}" x="0" y="1" width="${(Math.min(part, 1) * 100).toFixed(1)}" height="8" rx="2"/></svg>`;
}
