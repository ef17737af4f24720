import { createRequire } from 'node:module'

function open ({ clients, modules, pg: connectionString }, max) {
  const { Queue, Worker } = createRequire(`${clients}/`)(`${clients}/dist/index.js`)
  const { Pool } = createRequire(`${modules}/`)('pg')
  const pool = new Pool({ connectionString, max })
  return { pool, Worker, queue: new Queue(pool, 'bench') }
}

export default {
  setup () {},
  producer (options) {
    const { pool, queue } = open(options, 1)
    return {
      add: data => queue.add(data, { group: data.tenant }),
      addMany: jobs => queue.addMany(jobs.map(data => ({ data, group: data.tenant }))),
      close: () => pool.end()
    }
  },
  async work (handle, options) {
    const { pool, Worker } = open(options, 10)
    const worker = new Worker(pool, ['bench'], task => handle(task.data),
      { concurrency: options.concurrency, prefetch: options.ahead })
    worker.on('error', error => console.error(error))
    await worker.run()
  }
}
