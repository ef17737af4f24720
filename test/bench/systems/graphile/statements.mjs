// Prints what Graphile Worker sends: to make its tables, to add jobs, to get some
// and to complete them. node statements.mjs <its node_modules>
//
// Its own functions are called with a client that only notes what it is given.
import { createRequire } from 'node:module'
import path from 'node:path'

const home = path.join(process.argv[2], 'graphile-worker', 'dist')
const load = createRequire(path.join(home, 'index.js'))
const helpers = load('./helpers.js')
const { batchGetJobs } = load('./sql/getJobs.js')
const { batchCompleteJobs } = load('./sql/completeJobs.js')
const { migrations } = load('./generated/sql.js')

const options = {
  escapedWorkerSchema: 'graphile_worker',
  workerSchema: 'graphile_worker',
  resolvedPreset: { worker: { preparedStatements: true, useNodeTime: false } },
  logger: { error: console.error }
}

async function noted (send) {
  const texts = []
  const client = {
    query: async (query, values) => {
      texts.push(typeof query === 'string' ? query : query.text)
      return { rows: [{ id: 1, identifier: 'bench' }] }
    }
  }
  const withPgClient = callback => callback(client)
  withPgClient.withRetries = withPgClient
  await send(withPgClient)
  return texts.at(-1).trim().replace(/;$/, '')
}

const get = size => noted(client => batchGetJobs(options, client, { bench: () => {} }, 'bench', [], size))
const complete = jobs => noted(client => batchCompleteJobs(options, client, 'bench', jobs))
const job = { id: 1, job_queue_id: null }

console.log(JSON.stringify({
  schema: ['CREATE SCHEMA graphile_worker',
    'CREATE TABLE graphile_worker.migrations (id int PRIMARY KEY, ts timestamptz NOT NULL DEFAULT now(), breaking boolean NOT NULL DEFAULT false)',
    // each in a transaction of its own, as it does it
    ...Object.keys(migrations).sort().map(name => 'BEGIN;\n' +
      migrations[name].replace(/:GRAPHILE_WORKER_SCHEMA\b/g, 'graphile_worker') + ';\nCOMMIT')].join(';\n'),
  add: await noted(client => helpers.makeAddJob(options, client)('bench', {})),
  addMany: await noted(client => helpers.makeAddJobs(options, client)([], false)),
  getOne: await get(1),
  getHundred: await get(100),
  completeOne: await complete([job]),
  completeMany: await complete([job, job])
}))
