// What the bench has a library for Node do.
//
//   node driver.mjs SYSTEM ROLE OPTIONS
//
// SYSTEM is a file beside this one. ROLE is setup, fill, send or work; OPTIONS is JSON:
//   modules, pg (connection string), redis (socket), clients (compiled library of this repository)
//   fill: jobs, ms, tenant      send: count, gap, tenant      work: concurrency, ahead, notes (directory)
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const [system, role, text] = process.argv.slice(2)
const options = JSON.parse(text)
const { default: library } = await import(`./${system}.mjs`)

const FILL_BATCH = 5000     // jobs of one call

// Counts what was handled, for the bench to read: a number in a file of this process's own, a hundred times a second.
function recorder () {
  const count = new BigInt64Array(1)
  const file = fs.openSync(path.join(options.notes, `count-${process.pid}`), 'w')
  let written = -1n
  setInterval(() => {
    if (count[0] !== written) fs.writeSync(file, Buffer.from(count.buffer), 0, 8, 0)
    written = count[0]
  }, 10)
  return async data => {
    if (data.t) {
      const waited = process.hrtime.bigint() - BigInt(data.t)
      fs.appendFileSync(path.join(options.notes, 'samples'), `${data.tenant} ${data.t} ${waited}\n`)
    }
    if (data.ms) await sleep(data.ms)
    count[0]++
  }
}

const roles = {
  async setup () {
    await library.setup(options)
  },
  async fill () {
    const producer = await library.producer(options)
    for (let sent = 0; sent < options.jobs; sent += FILL_BATCH) {
      const size = Math.min(FILL_BATCH, options.jobs - sent)
      await producer.addMany(Array.from({ length: size }, () => ({ ms: options.ms, tenant: options.tenant })))
    }
    await producer.close()
  },
  // one at a time, each with the time of its call
  async send () {
    const producer = await library.producer(options)
    for (let n = 0; n < options.count; n++) {
      await producer.add({ ms: 0, tenant: options.tenant, t: String(process.hrtime.bigint()) })
      await sleep(options.gap)
    }
    await producer.close()
  },
  async work () {
    await library.work(recorder(), options)
  }
}

await roles[role]()
if (role !== 'work') process.exit(0)
