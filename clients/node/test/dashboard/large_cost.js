/**
 * What a dashboard costs the server while it stands open: the processor time of its connections, and how many claims
 * a second are left to others.
 */
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

/** Of /proc, in most systems. */
const TICKS_A_SECOND = 100;
const LIVE_SECONDS = 5;
const CLAIMERS = 4;

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** The processor time of a process so far, in seconds; 0: it is gone, or not seen. */
function processorTime(pid) {
  try {
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
  } catch {
    return 0;
  }
}

/**
 * Who has a page open: loads it again every few seconds, until closed; how long each time took, in milliseconds, Infinity
 * for one that did not come.
 */
function openPage(visit) {
  let stop;
  const stopped = new Promise((resolve) => (stop = () => resolve(true)));
  const loading = (async () => {
    const times = [];
    do {
      const begin = performance.now();
      const came = await visit().then(
        () => true,
        () => false,
      );
      times.push(came ? performance.now() - begin : Infinity);
    } while (!(await Promise.race([sleep(LIVE_SECONDS), stopped])));
    return times;
  })();
  return {
    close() {
      stop();
      return loading;
    },
  };
}

/** The processor time of a dashboard so far, in seconds: of its connections, by process of the server, and its own. */
async function processorNow(client, dashboard) {
  const { rows } = await client.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgfairq-dashboard'");
  return { backends: new Map(rows.map(({ pid }) => [pid, processorTime(pid)])), own: processorTime(dashboard.pid) };
}

/** What a dashboard has taken of a processor while something was done, in seconds, and how long that took. */
async function processorOf(client, dashboard, work) {
  const before = await processorNow(client, dashboard);
  const begin = performance.now();
  await work();
  const took = (performance.now() - begin) / 1000;
  const after = await processorNow(client, dashboard);
  const server = [...after.backends].reduce((sum, [pid, time]) => sum + time - (before.backends.get(pid) ?? 0), 0);
  return { server, own: after.own - before.own, took };
}

/** Claims and acknowledges one by one for some seconds: how many a second, and how long each took, in milliseconds. */
async function claimLoop(database, seconds) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'claims-'));
  const script = path.join(directory, 'claim.sql');
  fs.writeFileSync(script, "SELECT fairq.ack(receipt) FROM fairq.claim('large');\n");
  const args = ['-n', '-M', 'prepared', '-f', script, '-c', CLAIMERS, '-T', seconds, '-l', '--log-prefix', path.join(directory, 'log'), database];
  const child = spawn('pgbench', args.map(String), {
    env: { ...process.env, PGUSER: 'postgres' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const code = await new Promise((resolve) => child.once('exit', resolve));
  if (code !== 0) {
    throw new Error(`pgbench: ${code}`);
  }
  const times = fs
    .readdirSync(directory)
    .filter((name) => name.startsWith('log'))
    .flatMap((name) => fs.readFileSync(path.join(directory, name), 'utf8').trim().split('\n'))
    .map((line) => Number(line.split(' ')[2]) / 1000);
  fs.rmSync(directory, { recursive: true, force: true });
  times.sort((a, b) => a - b);
  const part = (of) => times[Math.min(times.length - 1, Math.floor(times.length * of))];
  return { rate: times.length / seconds, p99: part(0.99), longest: times.at(-1) };
}

module.exports = { claimLoop, openPage, processorOf, sleep };
