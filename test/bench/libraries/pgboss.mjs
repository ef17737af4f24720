import { pathToFileURL } from 'node:url'

async function start ({ modules, pg }, options) {
  const { PgBoss } = await import(pathToFileURL(`${modules}/pg-boss/dist/index.js`))
  const boss = new PgBoss({ connectionString: pg, schedule: false, ...options })
  boss.on('error', error => console.error(error))
  await boss.start()
  return boss
}

export default {
  async setup (options) {
    const boss = await start(options, { supervise: false })
    await boss.createQueue('bench', { notify: true })
    await boss.stop({ graceful: false })
  },
  async producer (options) {
    const boss = await start(options, { supervise: false })
    return {
      add: data => boss.send('bench', data, { group: { id: data.tenant } }),
      addMany: jobs => boss.insert('bench', jobs.map(data => ({ data, group: { id: data.tenant } }))),
      close: () => boss.stop({ graceful: false })
    }
  },
  // It fetches and completes by the batch, so jobs of a batch are handled `concurrency` at a time.
  async work (handle, options) {
    const boss = await start(options, { useListenNotify: true })
    const batch = async jobs => {
      let next = 0
      await Promise.all(Array.from({ length: options.concurrency }, async () => {
        while (next < jobs.length) await handle(jobs[next++].data)
      }))
    }
    await boss.work('bench', { batchSize: options.ahead, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }, batch)
  }
}
