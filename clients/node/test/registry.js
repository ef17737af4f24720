'use strict';
// A registry of packages for npm: it has what the library is compiled with, as prerequisites.sh
// has installed it, and notes each name that it is asked for.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const PACKAGES = fs.realpathSync(path.join(__dirname, '../node_modules'));

function manifest(name) {
  try {
    return JSON.parse(fs.readFileSync(path.join(PACKAGES, name, 'package.json'), 'utf8'));
  } catch {
    return null;
  }
}

const tarballs = new Map();

function tarball(name) {
  if (!tarballs.has(name)) {
    tarballs.set(name, execFileSync('tar', ['-czf', '-', '-C', path.join(PACKAGES, name), '--exclude=./node_modules',
      '--transform=s,^\\.,package,', '.'], { maxBuffer: 100_000_000 }));
  }
  return tarballs.get(name);
}

function answer(name, wantsTarball, origin, response) {
  const found = manifest(name);
  if (!found) {
    response.writeHead(404).end('{"error": "Not found"}');
  } else if (wantsTarball) {
    response.end(tarball(name));
  } else {
    const { version } = found;
    const dist = { tarball: `${origin}/${name}/-/archive.tgz` };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions: { [version]: { ...found, dist } } }));
  }
}

/** Listens at a free port. `asked`: the names, `env`: what has npm ask here, and keep what it keeps in a directory. */
async function registry(directory) {
  const asked = new Set();
  let origin;
  const server = http.createServer((request, response) => {
    const [, name, file] = decodeURIComponent(request.url).match(/^\/((?:@[^/]+\/)?[^/]+)(\/-\/.*)?$/) ?? [null, request.url];
    asked.add(name);
    answer(name, file !== undefined, origin, response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${server.address().port}`;
  const inherited = Object.entries(process.env).filter(([name]) => !/^npm_|proxy$|^NODE_(PATH|ENV|TEST_CONTEXT)$/i.test(name));
  const env = {
    ...Object.fromEntries(inherited), HOME: directory, npm_config_registry: `${origin}/`, npm_config_cache: path.join(directory, '.npm'),
    npm_config_userconfig: path.join(directory, '.npmrc'), npm_config_globalconfig: path.join(directory, 'npmrc'),
    npm_config_update_notifier: 'false', npm_config_audit: 'false', npm_config_fund: 'false', npm_config_yes: 'true',
  };
  return { asked, env, close: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }) };
}

module.exports = { registry };
