// What the tests have graphile-worker do, with its own functions. Prints JSON.
//
//   node graphile.mjs MODULES CONNECTION COMMAND [ARGUMENT]
import { createRequire } from 'node:module'

const [modules, connectionString, command, argument] = process.argv.slice(2)
const { makeWorkerUtils, runOnce, run, Logger } = createRequire(`${modules}/x.js`)('graphile-worker')
const logger = new Logger(() => () => {})

async function add (jobs) {
  const utils = await makeWorkerUtils({ connectionString, logger })
  await utils.migrate()
  const ids = []
  for (const [payload, spec] of jobs) {
    if (spec.runAt) spec.runAt = new Date(spec.runAt)
    ids.push((await utils.addJob('send_email', payload, spec)).id)
  }
  await utils.release()
  return ids
}

// All that is to be done now; what was in it.
async function once () {
  const done = []
  await runOnce({ connectionString, logger, taskList: { send_email: async payload => { done.push(payload) } } })
  return done
}

// Takes one job, says so, and ends as an attempt that fails when a line comes.
async function hold () {
  let started
  const taken = new Promise(resolve => { started = resolve })
  const ended = new Promise(resolve => process.stdin.once('data', resolve))
  const runner = await run({
    connectionString,
    logger,
    concurrency: 1,
    noHandleSignals: true,
    taskList: {
      send_email: async payload => {
        started(payload)
        await ended
        throw new Error('no paper')
      }
    }
  })
  console.log(JSON.stringify(await taken))
  await ended
  await runner.stop()
  process.stdin.pause()
  return 'failed'
}

const commands = { add, once, hold }
console.log(JSON.stringify(await commands[command](argument && JSON.parse(argument))))
