'use strict';
// A process with a worker whose handler is a file, for a test that kills it.

const path = require('node:path');
const { Pool } = require('pg');
const { Worker } = require('pgfairq');

const { config } = JSON.parse(process.argv[2]);
new Worker(new Pool(config), 'emails', { '': { file: path.join(__dirname, 'compute.js') } }).run();
