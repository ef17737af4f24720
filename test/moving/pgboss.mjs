// What the tests have pg-boss do, with its own functions. Prints JSON.
//
//   node pgboss.mjs MODULES CONNECTION COMMAND [ARGUMENT]
import { pathToFileURL } from 'node:url'

const [modules, connectionString, command, argument] = process.argv.slice(2)
const { PgBoss } = await import(pathToFileURL(`${modules}/pg-boss/dist/index.js`))
const boss = new PgBoss({ connectionString, supervise: false, schedule: false })
boss.on('error', error => { throw error })
await boss.start()

const commands = {
  async create (options) {
    await boss.createQueue('emails', options)
  },
  // [[data, options], …]; the ids
  async send (jobs) {
    const ids = []
    for (const [data, options] of jobs) ids.push(await boss.send('emails', data, options))
    return ids
  },
  // the jobs that a worker gets, which stay active
  fetch: () => boss.fetch('emails', { batchSize: 100, includeMetadata: true }),
  fail: id => boss.fail('emails', id, { message: 'no paper' }),
  complete: id => boss.complete('emails', id),
  schedule: ([cron, data, options]) => boss.schedule('emails', cron, data, options),
  // a job, and one that waits for it
  async flow () {
    await boss.flow([
      { ref: 'first', name: 'emails', data: { flow: 1 } },
      { ref: 'second', name: 'emails', data: { flow: 2 }, dependsOn: ['first'] }
    ])
  }
}

console.log(JSON.stringify((await commands[command](argument && JSON.parse(argument))) ?? null))
await boss.stop({ graceful: false })
