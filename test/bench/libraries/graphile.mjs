import { createRequire } from 'node:module'

const load = options => createRequire(`${options.modules}/`)('graphile-worker')

export default {
  async setup (options) {
    const { runMigrations } = load(options)
    await runMigrations({ connectionString: options.pg })
  },
  async producer (options) {
    const { makeWorkerUtils } = load(options)
    const utils = await makeWorkerUtils({ connectionString: options.pg, maxPoolSize: 1 })
    return {
      add: data => utils.addJob('bench', data),
      addMany: jobs => utils.addJobs(jobs.map(payload => ({ identifier: 'bench', payload }))),
      close: () => utils.release()
    }
  },
  // batched as its page on performance has it
  async work (handle, options) {
    const { run, Logger } = load(options)
    const runner = await run({
      preset: {
        worker: {
          connectionString: options.pg,
          concurrentJobs: options.concurrency,
          maxPoolSize: Math.min(options.concurrency + 1, 25),
          localQueue: { size: options.ahead },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0
        }
      },
      logger: new Logger(() => () => {}),
      taskList: { bench: handle }
    })
    await runner.promise
  }
}
