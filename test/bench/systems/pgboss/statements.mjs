// Prints what pg-boss sends: to make its tables and a queue, to insert, to fetch
// and to complete. node statements.mjs <its node_modules>
import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const home = path.join(process.argv[2], 'pg-boss')
const plans = await import(pathToFileURL(path.join(home, 'dist/plans.js')))
const version = JSON.parse(fs.readFileSync(path.join(home, 'package.json'))).pgboss.schema
const table = plans.COMMON_JOB_TABLE
const fetch = limit => plans.fetchNextJob({ schema: 'pgboss', table, name: 'bench', policy: 'standard', limit }).text

console.log(JSON.stringify({
  schema: [plans.create('pgboss', version, { createSchema: true }),
    plans.createQueue('pgboss', 'bench', { policy: 'standard' })].join(';\n'),
  table: 'pgboss.' + table,
  insert: plans.insertJobs('pgboss', { table, name: 'bench', returnId: true }),
  insertMany: plans.insertJobs('pgboss', { table, name: 'bench', returnId: false }),
  fetchOne: fetch(1),
  fetchMany: fetch('@BATCH@'),
  fetchSome: fetch('{n}'),
  complete: plans.completeJobs('pgboss', table)
}))
