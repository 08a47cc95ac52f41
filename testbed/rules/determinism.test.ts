/** The same seed twice gives the same bytes in virtual time: on a loaded host, in other folders, as another user. Other seeds differ. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { companions } from '../../kernel/preload.js';
import { findProgram } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import { digests, needsUml, Place, runJson, skip } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';

/** Everything that could bring chance in at once: both traffic tools, short flows with random arrivals, datagrams, both probes, red's random drops. */
const scenario = dumbbellText({
  name: 'everything', pairs: 3, queue: '{ kind: red, min: 10p, max: 40p, probability: 0.1 }',
  traffic: '{ bulk: { kind: bulk, from: S, to: D, rtt: 20ms, cc: cubic, tool: iperf3, start: uniform(0s, 0.3s) }, web: { kind: short, from: S[0], to: D[0], arrival: poisson(20/s), size: 20kB, cc: reno },'
    + ' voice: { kind: cbr, from: S[1], to: D[1], rate: 64kbit, packet: 200B } }',
  probes: '{ own: { from: S[0], to: D[0], interval: 20ms }, system: { from: S[1], to: D[1], interval: 50ms, tool: ping } }',
  measure: '{ warmup: 500ms, duration: 1500ms }',
});
const args = (file: string, ...more: readonly string[]): string[] => ['run', file, '--machine', 'uml', '--no-report', ...more];

describe('virtual time', function () {
  this.timeout(240_000);
  before(needsUml);
  const place = new Place();
  let reference: Record<string, string> = {};
  after(() => place.remove());

  before(async () => {
    const file = place.write('a.yaml', scenario);
    const ended = await place.testbed(args(file, '--seed', '7', '--out', place.path('first')));
    assert.equal(ended.code, 0, ended.stderr);
    const run = place.run('first');
    assert.equal(runJson(run).status, 'complete');
    reference = digests(run);
    assert.ok(['metrics.json', 'flows.parquet', 'packets.parquet', 'probes.parquet', 'queue.parquet', 'sockets.parquet'].every((name) => name in reference), Object.keys(reference).join());
    assert.ok(runJson(run).counts['packets']! > 1000, JSON.stringify(runJson(run).counts));
  });

  it('gives the same bytes for the same seed on a loaded host, from another folder, with another environment, file mode mask and output folder', async () => {
    const busy = Array.from({ length: 3 }, () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
    try {
      const elsewhere = new Place('a rather longer name, with blanks in it-');
      try {
        fs.writeFileSync(elsewhere.path('the same scenario.yaml'), scenario);
        const ended = await elsewhere.testbed(args('the same scenario.yaml', '--seed', '7', '--out', 'deeper/and/deeper still'), {
          env: { LANG: 'de_DE.UTF-8', TZ: 'Asia/Tokyo', SOMETHING: 'x'.repeat(5000), HOME: elsewhere.folder, TESTBED_CACHE: process.env['TESTBED_CACHE'] ?? path.join(os.homedir(), '.cache', 'testbed') },
          under: ['sh', '-c', 'umask 077; exec "$@"', 'sh'],
        });
        assert.equal(ended.code, 0, ended.stderr);
        assert.deepEqual(digests(elsewhere.run('deeper/and/deeper still')), reference);
      } finally {
        elsewhere.remove();
      }
    } finally {
      for (const each of busy) each.kill('SIGKILL');
    }
  });

  it('gives other bytes for another seed', async () => {
    const ended = await place.testbed(args(place.path('a.yaml'), '--seed', '8', '--out', place.path('other')));
    assert.equal(ended.code, 0, ended.stderr);
    const other = digests(place.run('other'));
    assert.deepEqual(Object.keys(other), Object.keys(reference));
    for (const name of Object.keys(reference)) assert.notEqual(other[name], reference[name], name);
  });

  it('gives the same bytes to an ordinary user', async function () {
    const setpriv = findProgram('setpriv');
    const nobody = 65534;
    if (process.getuid?.() !== 0) skip(this, 'this is not root: every test here has shown it already');
    if (setpriv === null) skip(this, 'there is no setpriv');
    const theirs = new Place('testbed-user-');
    try {
      fs.chmodSync(theirs.folder, 0o755);
      for (const folder of [path.dirname(selectKernel('').kernel!.binary), path.dirname((await companions()).preload)]) {
        fs.cpSync(folder, theirs.path('cache', path.basename(path.dirname(folder)), path.basename(folder)), { recursive: true });
      }
      theirs.write('a.yaml', scenario);
      for (const entry of ['', 'a.yaml', ...(fs.readdirSync(theirs.path('cache'), { recursive: true }) as string[]).map((name) => path.join('cache', name)), 'cache']) fs.chownSync(theirs.path(entry), nobody, nobody);
      const ended = await theirs.testbed(args('a.yaml', '--seed', '7'), {
        under: [setpriv, `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups', '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all'],
        env: { HOME: theirs.folder, TESTBED_CACHE: theirs.path('cache') },
      });
      assert.equal(ended.code, 0, ended.stderr);
      assert.deepEqual(digests(theirs.run()), reference);
      await theirs.assertNothingLeft();
    } finally {
      theirs.remove();
    }
  });
});
