// Runs all tests in two lanes side by side, one core each: those that change this host or look at it (network namespaces,
// containers, servers, processes, real time), which are alone with one another, and all others. What a suite prints stays together.
// Arguments go to mocha: `npm test -- --grep CoDel`. Ends with a line "N passed, N failed" and exit code 0 or 1.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import * as path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const here = path.dirname(fileURLToPath(import.meta.url));
const { spec } = require('./mocha.cjs');
const mocha = path.join(path.dirname(require.resolve('mocha/package.json')), 'bin', 'mocha.js');

const host = /^(kernel|daemon\/(daemon|router|run)|testbed\/(agent|hosts|influx|journal|machines|network)|testbed\/run\/every-machine|testbed\/cli\/housekeeping|testbed\/rules\/(command-line|faults|killed|real-time|roughly-used|rules))\b/;
const onHost = (file) => host.test(path.relative('dist', file));

const totals = { passing: 0, pending: 0, failing: 0 };
const children = [];

/** @returns whether mocha ended with 0 */
function lane(files) {
  const child = spawn(process.execPath, [mocha, '--config', path.join(here, 'lane.cjs'), ...process.argv.slice(2), ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  let suite = [];
  let summary = false;
  const flush = () => {
    if (suite.length > 0) process.stdout.write(`${suite.join('\n')}\n`);
    suite = [];
  };
  createInterface({ input: child.stdout }).on('line', (line) => {
    const count = /^ {2}(\d+) (passing|pending|failing)\b/.exec(line);
    if (count) totals[count[2]] += Number(count[1]);
    summary ||= count !== null;
    if (!summary && /^ {2}\S/.test(line)) flush(); // the next suite's title
    suite.push(line);
  });
  return new Promise((resolve) => {
    child.on('close', (code, signal) => {
      flush();
      if (!summary) process.stdout.write(`mocha ended without a summary (${signal ?? `exit code ${code}`})\n`);
      resolve(code === 0 && summary);
    });
  });
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => { for (const child of children) child.kill(signal); });
const ended = await Promise.all([lane(spec.filter(onHost)), lane(spec.filter((file) => !onHost(file)))]);
process.stdout.write(`\n${totals.pending} pending\n${totals.passing} passed, ${totals.failing} failed\n`);
process.exitCode = ended.every(Boolean) ? 0 : 1;
