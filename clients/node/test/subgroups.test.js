'use strict';
// Subgroups: the users of a tenant, between whom its share is fair. Seen to fail:
// - "as the task's own": ENQUEUE_MANY without subgroups, and with them in the place of names; TASK_COLUMNS
//   without them; scheduleOf() with another column
// - "by turns": ENQUEUE_MANY without subgroups
// - "bad arguments": namedSubgroup() takes anything

const test = require('node:test');
const assert = require('node:assert');
const { newQueue, until } = require('./support.js');

const subgroupsOf = (list) => list.map(({ subgroup }) => subgroup);

test('a subgroup goes with the task, as the task\'s own', async (t) => {
  const { queue, rows, start } = await newQueue(t, { subgroups: true, maxAttempts: 1 });
  await queue.add(1, { group: 'shop', subgroup: 10n ** 20n });
  await queue.addMany([{ data: 2, group: 'shop', subgroup: 'ann' }, { data: 3, group: 'shop' }, { data: 4, group: 'shop', subgroup: '' }]);
  await queue.addMany([{ data: 5, group: 'shop', subgroup: 7, headers: {} }, { data: 6, group: 'shop' }]);
  await queue.addBulk([{ name: 'c', data: 7, opts: { group: 'shop', subgroup: 'bob' } }]);
  await queue.subscribe('topic');
  await queue.publish('topic', 8, { group: 'shop', subgroup: 'ann' });
  const expected = ['100000000000000000000', 'ann', null, null, '7', null, 'bob', 'ann'];
  assert.deepStrictEqual(subgroupsOf(await queue.list()), expected);
  const shown = (await queue.peek()).sort((a, b) => a.data - b.data);
  assert.deepStrictEqual(subgroupsOf(shown), expected);
  assert.strictEqual((await queue.get(shown[1].id)).subgroup, 'ann');

  await queue.schedule('nightly', '@daily', { group: 'shop', subgroup: 'ann' });
  await queue.schedule('yearly', '@yearly');
  assert.deepStrictEqual(subgroupsOf(await queue.schedules()), ['ann', null]);

  for (const queues of ['emails', ['emails']]) {
    const worker = start(async (task) => task.subgroup, {}, queues);
    await until('all are done', () => worker.seen.completed.length === 8);
    const tasks = worker.seen.completed.map(({ task }) => task).sort((a, b) => a.data - b.data);
    assert.deepStrictEqual(subgroupsOf(tasks), expected);
    assert.deepStrictEqual(subgroupsOf(tasks.map((task) => JSON.parse(JSON.stringify(task)))), expected);
    await worker.close();
    await queue.addMany(expected.map((subgroup, n) => ({ data: n, group: 'shop', ...(subgroup === null ? {} : { subgroup }) })));
  }
  assert.deepStrictEqual(await rows('SELECT subgroups FROM fairq.queues'), [{ subgroups: true }]);
});

test('the users of a group are served by turns', async (t) => {
  const { queue, start } = await newQueue(t, { subgroups: true });
  await queue.addMany([...['a1', 'a2', 'a3'].map((data) => ({ data, group: 'shop', subgroup: 'ann' })),
    { data: 'b1', group: 'shop', subgroup: 'bob' }, { data: 'c1', group: 'other' }]);
  const order = [];
  start(async (task) => { order.push(task.data); }, { concurrency: 1, prefetch: 0 });
  await until('all are done', () => order.length === 5);
  assert.deepStrictEqual(order.slice(0, 3).sort(), ['a1', 'b1', 'c1']);
  assert.deepStrictEqual(order.slice(3), ['a2', 'a3']);
});

test('weights, limits and pauses of subgroups', async (t) => {
  const { queue, rows } = await newQueue(t);
  await assert.rejects(queue.add(1, { group: 5, subgroup: 'ann' }), (error) => error.code === '22023');
  await assert.rejects(queue.setSubgroup(5, 'ann', { weight: 2 }), (error) => error.code === '55000');
  await queue.alter({ subgroups: true });
  await queue.setSubgroup(5, 'ann', { weight: 2, maxLeased: 5, rate: 1000, burst: 9 });
  await queue.pauseSubgroup(5, 'ann');
  await queue.pauseSubgroup(5, '');
  assert.deepStrictEqual(await rows(`SELECT group_key, subgroup_key, weight, max_leased, rate, burst, paused FROM fairq.subgroup_settings
    WHERE subgroup_key <> ''`), [{ group_key: '5', subgroup_key: 'ann', weight: 2, max_leased: 5, rate: 1000, burst: 9, paused: true }]);
  await queue.addMany([{ data: 'a', group: 5, subgroup: 'ann' }, { data: 'b', group: 5, subgroup: 'bob' }, { data: 'none', group: 5 }]);
  assert.deepStrictEqual((await queue.peek()).map(({ data }) => data), ['b']);
  await queue.resumeSubgroup(5, 'ann');
  assert.deepStrictEqual((await queue.peek()).map(({ data }) => data).sort(), ['a', 'b']);
  assert.strictEqual(await queue.resetSubgroup(5, ''), true);
  assert.strictEqual(await queue.resetSubgroup(5, 'ann'), true);
  assert.strictEqual(await queue.resetSubgroup(5, 'ann'), false);
  assert.strictEqual((await queue.peek()).length, 3);
  await queue.setSubgroupDefaults({ weight: 3, maxLeased: 4, rate: 5, burst: 6 });
  assert.deepStrictEqual(await rows('SELECT subgroup_weight, subgroup_max_leased, subgroup_rate, subgroup_burst FROM fairq.queues'),
    [{ subgroup_weight: 3, subgroup_max_leased: 4, subgroup_rate: 5, subgroup_burst: 6 }]);
});

test('bad arguments name what is wrong', async (t) => {
  const { queue } = await newQueue(t, { subgroups: true });
  for (const [call, message] of [
    [() => queue.add(1, { subgroup: true }), /subgroup of add\(\) is true/],
    [() => queue.addMany([{ data: 1, subgroup: null }]), /subgroup of task 0 of addMany\(\) is null/],
    [() => queue.schedule('s', '@daily', { subgroup: {} }), /subgroup of schedule\(\) is an object/],
    [() => queue.pauseSubgroup('shop'), /subgroup of pauseSubgroup\(\) is undefined/],
    [() => queue.resumeSubgroup(undefined, 'ann'), /group of resumeSubgroup\(\) is undefined/],
    [() => queue.resetSubgroup('shop', null), /subgroup of resetSubgroup\(\) is null/],
    [() => queue.setSubgroup('shop', 'ann', { wait: 1 }), /setSubgroup\(\) has no option "wait"/],
    [() => queue.setSubgroupDefaults({ weight: 'x' }), /weight of setSubgroupDefaults\(\)/],
    [() => queue.alter({ subgroups: 1 }), /subgroups of alter\(\) is no boolean/],
  ]) await assert.rejects(call, message);
});
