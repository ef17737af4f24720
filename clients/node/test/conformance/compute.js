'use strict';
// The handler compute of subject.js, for a process of its own: a file, as it does not yield.

const EFFECT = 'INSERT INTO conformance.effects (key, pid) VALUES ($1, $2)';

module.exports = async ({ data }, { tx }) => {
  const end = performance.now() + data.ms;
  while (performance.now() < end);
  await tx.query(EFFECT, [data.key, process.pid]);
  return { key: data.key };
};
