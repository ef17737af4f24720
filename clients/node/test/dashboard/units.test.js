/**
 * Escaping, numbers and times, charts, parameters, reading in windows, and clocks that are set: without a server.
 *
 * Seen to fail: samples of the future kept in Histories.add(), minutes that only later ones follow, rates over a clock set
 * back, health by Date.now(), and the time of a sample without an answer counted.
 */
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { barChart, lineChart, roundUp, shareBar } = require('../../dist/dashboard/chart.js');
const { archivePage } = require('../../dist/dashboard/data/archive.js');
const { scan } = require('../../dist/dashboard/data/scan.js');
const { taskPage } = require('../../dist/dashboard/data/tasks.js');
const format = require('../../dist/dashboard/format.js');
const { address, foreign, html } = require('../../dist/dashboard/html.js');
const { parseOptions } = require('../../dist/dashboard/options.js');
const { isId, Params } = require('../../dist/dashboard/params.js');
const { asProblem } = require('../../dist/dashboard/problem.js');
const { Sampler } = require('../../dist/dashboard/sampler.js');
const { Dashboard } = require('../../dist/dashboard/server.js');
const { sameText, Visits } = require('../../dist/dashboard/visits.js');

test('a template escapes all but markup, in lists too', () => {
  const bad = `<b a="1" b='2'>&\``;
  const escaped = '&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;&#96;';
  assert.equal(
    String(html`<i title="${bad}">${bad}${[bad, [html`<u>${bad}</u>`]]}</i>`),
    `<i title="${escaped}">${escaped}${escaped}<u>${escaped}</u></i>`,
  );
  assert.equal(String(html`${null}${undefined}${false}${0}${''}`), '0');
  assert.equal(String(html`${{ toString: () => bad }}`), escaped, 'an object is no markup');
});

test('characters that are not seen are written out', () => {
  assert.equal(
    String(foreign('a\u202eb\u0000c\td\ne')),
    '<bdi class="foreign">a<span class="hidden-character">\\u202e</span>b<span class="hidden-character">\\u0000</span>c\td\ne</bdi>',
  );
});

test('addresses: values are encoded, empty ones stay, undefined ones go', () => {
  assert.equal(address('/x', { a: 'b&c=d', e: '', f: undefined, g: 1 }), '/x?a=b%26c%3Dd&e=&g=1');
  assert.equal(address('/x', {}), '/x');
});

test('durations, numbers, sizes', () => {
  const cases = [
    [0, '0 s'],
    [0.00012, '0.12 ms'],
    [0.0357, '36 ms'],
    [1.25, '1.3 s'],
    [59.94, '59.9 s'],
    [61, '1 min 1 s'],
    [3600, '1 h'],
    [90061, '1 d 1 h'],
    [-5, '-5 s'],
    [null, '–'],
  ];
  for (const [seconds, text] of cases) {
    assert.equal(format.duration(seconds), text);
  }
  assert.equal(format.count(1234567), '1,234,567');
  assert.equal(format.percent(0.048), '4.8 %');
  assert.equal(format.percent(0), '0 %');
  assert.equal(format.percent(0.00000954), '0.001 %');
  assert.equal(format.percent(1e-9), '1×10⁻7 %');
  assert.equal(format.bytes(9210), '9.21 kB');
  assert.equal(format.bytes(12), '12 B');
  assert.equal(format.rate(0.5851), '0.585/s');
  assert.match(String(format.moment(100, 40)), />in 1 min</);
  assert.match(String(format.moment(40, 100)), /datetime="1970-01-01T00:00:40\.000Z".*>1 min ago</);
  assert.match(String(format.moment(Infinity, 0)), /never/);
});

test('charts: round scales, gaps, one point, nothing', () => {
  assert.deepEqual([0, 0.3, 1, 1.1, 4, 7, 180].map(roundUp), [1, 0.5, 1, 2, 5, 10, 200]);
  const chart = (values) =>
    String(
      lineChart({
        title: 'T',
        times: values.map((_, index) => index),
        format: String,
        series: [{ name: 'n', colour: 'one', values }],
      }),
    );
  assert.match(chart([1, 2, null, 4, null]), /d="M46\.0 \S+L124\.5 \S+M281\.5 \S+h1"/);
  assert.match(chart([]), /d=""/);
  assert.match(chart([]), /just begun/);
  assert.doesNotMatch(chart([5]), /NaN|Infinity/);
  assert.doesNotMatch(chart([0, 0, 0]), /NaN|Infinity/);
  const many = chart(Array.from({ length: 1800 }, (_, index) => (index === 900 ? 1000 : 1)));
  assert.ok(many.length < 16_000, 'not more points than there is room for');
  assert.match(many, />1000</, 'and the highest stays');
  for (const values of [
    [null, null],
    [0, 0],
    [1, 1],
    [1e-9, 1e9],
  ]) {
    const bars = String(
      barChart(
        'B',
        values.map((value) => ({ name: 'x', value })),
        String,
        { name: 'm', value: 30 },
      ),
    );
    assert.doesNotMatch(bars, /NaN|Infinity/);
  }
  assert.match(String(barChart('B', [{ name: 'x', value: null }], String)), /none yet/);
  assert.doesNotMatch(String(shareBar(null, null, 0)) + String(shareBar(0.5, 0.5, 0)), /NaN|Infinity/);
});

test('ids and parameters', () => {
  assert.ok(isId('1') && isId('9223372036854775807'));
  for (const wrong of ['', '0', '-1', '01', '1e3', '9223372036854775808', '1 ', '１']) {
    assert.ok(!isId(wrong), wrong);
  }
  const params = new Params(new URLSearchParams('a=&b=1&b=2&n=-1.5e3&z=%00'));
  assert.equal(params.text('a'), '');
  assert.equal(params.text('c'), undefined);
  assert.throws(() => params.text('b'), /more than once/);
  assert.throws(() => params.text('z'), /code 0/);
  assert.equal(params.number('n'), -1500);
  assert.equal(new Params(new URLSearchParams('group=')).group(), undefined);
  assert.equal(new Params(new URLSearchParams('group=&nogroup=1')).group(), '');
});

/** A table of so many rows, of which some are wanted, read as a scan reads. */
function rowsOf(length, wanted) {
  const reads = [];
  const read = async (after, rows, most) => {
    const from = (after ?? -1) + 1;
    const window = Array.from({ length: Math.max(0, Math.min(rows, length - from)) }, (_, index) => from + index);
    reads.push(window.length);
    return { found: window.filter(wanted).slice(0, most), ...(window.length > 0 ? { last: window.at(-1) } : {}) };
  };
  return { read, reads };
}

test('a scan finds each wanted row once, page after page, whatever the windows', async () => {
  for (const [length, every, limit] of [
    [0, 1, 5],
    [5, 1, 5],
    [6, 1, 5],
    [10_000, 3, 50],
    [10_000, 2500, 3],
    [200_001, 40_000, 2],
  ]) {
    const { read } = rowsOf(length, (row) => row % every === 0);
    const found = [];
    let after;
    do {
      const page = await scan(limit, after, read);
      assert.ok(page.found.length <= limit);
      found.push(...page.found);
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(
      found,
      Array.from({ length }, (_, row) => row).filter((row) => row % every === 0),
      `${length} ${every} ${limit}`,
    );
  }
});

test('a scan that finds nothing stops when its time is over, and says where', async () => {
  const { read } = rowsOf(Number.MAX_SAFE_INTEGER, () => false);
  const slow = async (...args) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return read(...args);
  };
  const page = await scan(10, undefined, slow);
  assert.equal(page.unfinished, true);
  assert.ok(page.next > 0);
  assert.deepEqual(page.found, []);
});

test('quick windows, which get long, ask for no more tasks than the engine finds at once', async (t) => {
  t.mock.method(Date, 'now', () => 0);
  const asked = [];
  const reader = {
    row: async (_, values) => {
      asked.push(values);
      return asked.length < 12 ? { found: [], last: '1', id: '1', time: '1' } : { found: [], last: null, id: null, time: null };
    },
  };
  const query = { queue: { queue: 'jobs' }, name: 'send', limit: 50 };
  for (const [page, rows] of [[taskPage, 2], [archivePage, 3]]) {
    asked.length = 0;
    await page(reader, query);
    const windows = asked.map((values) => values.slice(rows, rows + 2));
    assert.equal(windows.length, 12);
    assert.ok(windows.some(([most]) => most > 10_000), `windows are long: ${windows}`);
    assert.ok(windows.every(([, most]) => most <= 10_000), `${page.name}: ${windows}`);
  }
});

test('a clock that is set back: samples go on, without what is of the future, and so do minutes', async (t) => {
  let clock;
  let enqueued = 0;
  t.mock.method(Date, 'now', () => clock * 1000);
  const figures = async () => [{
    queue: 'jobs', stats_reset: 'then', ready: 1, leased: 0, scheduled: 0, overflow: 0, held: 0, dead: 0, oldest_ready_age: null,
    enqueued: (enqueued += 60), claimed: 0, acked: 0, nacked: 0, expired: 0,
  }];
  const sampler = new Sampler({ read: (work) => work({ figures, rows: async () => [] }) }, 1);
  const day = 86_400;
  const noon = 20_000 * day;
  for (clock of [noon, noon + 30, noon + 60, noon + 62, noon + 61, noon + 121 - day, noon + 181 - day, noon + 211 - day]) {
    await sampler.trySample();
    assert.equal(sampler.failing, undefined);
  }
  const seen = (samples) => samples.map(({ time, enqueued }) => [time - noon + day, enqueued]);
  assert.deepEqual(seen(sampler.history('jobs')), [[121, null], [181, 1], [211, 2]]);
  assert.deepEqual(seen(await sampler.range(undefined, 'jobs', '3h')), [[121, null], [181, 1]]);
  clock = noon + 5 * day;
  await sampler.trySample();
  assert.equal(sampler.history('jobs').length, 1, 'set forward, what was before is long ago');
});

test('the time of a sample counts, but not where the server does not answer', async (t) => {
  let seconds = 0;
  t.mock.method(performance, 'now', () => 1000 * seconds);
  const took = (error) => {
    const read = async () => {
      seconds += 14;
      throw error;
    };
    return new Sampler({ read }, 1).trySample();
  };
  assert.equal(await took(asProblem(new Error('Query read timeout'))), 0);
  assert.equal(await took(asProblem({ severity: 'ERROR', code: '57014', message: 'canceling statement due to statement timeout' })), 14_000);
});

test('the health is asked for anew after a second, whatever the clock says', async (t) => {
  let asked = 0;
  let seconds = 0;
  t.mock.method(Date, 'now', () => -1000 * seconds);
  t.mock.method(performance, 'now', () => 1000 * seconds);
  const dashboard = new Dashboard({}, { read: async () => ({ extension: (asked += 1) > 1 ? null : '1' }) });
  const said = [];
  for (seconds of [0, 0.5, 2, 2.5]) {
    said.push((await dashboard.healthy()).status);
  }
  assert.deepEqual(said, [200, 200, 503, 503]);
});

test('tokens: equal texts, visits that end, and no more of them than there is room for', () => {
  assert.ok(sameText('a', 'a'));
  assert.ok(!sameText('a', 'b') && !sameText('a', 'aa') && !sameText('', 'a'));
  const visits = new Visits('the right token', 'c');
  assert.equal(visits.signIn('the wrong token'), undefined);
  const cookie = visits.signIn('the right token').split(';')[0];
  const visit = visits.find(`other=1; ${cookie}`);
  assert.ok(visit.csrf.length >= 32);
  visit.expires = Date.now() - 1;
  assert.equal(visits.find(cookie), undefined);
  const first = visits.signIn('the right token').split(';')[0];
  for (let more = 0; more < 1000; more += 1) {
    visits.signIn('the right token');
  }
  assert.equal(visits.find(first), undefined);
});

test('options: a token is made where one is needed', () => {
  const of = (...args) => parseOptions(args, {});
  assert.equal(of().token, undefined);
  assert.equal(of('--listen', '127.0.0.1:1').token, undefined);
  assert.ok(of('--write').tokenIsNew);
  assert.ok(of('--listen', '0.0.0.0:1').tokenIsNew);
  assert.ok(of('--listen', '[::]:1').tokenIsNew);
  assert.equal(of('--listen', '[::1]:1').host, '::1');
  assert.notEqual(of('--write').token, of('--write').token);
});
