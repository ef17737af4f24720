'use strict';

const test = require('node:test');
const assert = require('node:assert');

test('the package can be required by its name', () => {
  assert.strictEqual(typeof require('pgfairq'), 'object');
});
