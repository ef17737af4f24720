import { createRequire } from 'node:module'

function load (options) {
  const bullmq = createRequire(`${options.modules}/`)('bullmq')
  return { ...bullmq, connection: { path: options.redis, maxRetriesPerRequest: null } }
}

export default {
  setup () {},
  producer (options) {
    const { Queue, connection } = load(options)
    const queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } })
    return {
      add: data => queue.add('job', data),
      addMany: jobs => queue.addBulk(jobs.map(data => ({ name: 'job', data }))),
      close: () => queue.close()
    }
  },
  async work (handle, options) {
    const { Worker, connection } = load(options)
    const worker = new Worker('bench', job => handle(job.data), { connection, concurrency: options.concurrency })
    worker.on('error', error => console.error(error))
  }
}
