/** A test of flent on another computer: a real sshd on loopback, flent, netperf, irtt and fping as they are installed there. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import type { Metrics } from '../../analysis/metrics.js';
import { assertWentThrough, needsFlent, Place, skip } from '../../testing/command.js';
import { noSshd, PrivateSshd } from '../../testing/private-sshd.js';
import { mayUseNamespaces } from '../local.js';

const scenario = `name: remote-flent
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: { kind: pfifo, limit: 500 } } }
  hosts: { S: { at: R1 }, D: { at: R2 } }
traffic: { load: { tool: flent, test: rrul_be, from: S, to: D, length: 2s, delay: 1s, step: 100ms } }
measure: { warmup: 1s, duration: 6s }
`;

describe('flent on the machine ssh', function () {
  this.timeout(180_000);
  let place: Place;
  let server: PrivateSshd | undefined;

  before(async function () {
    const reason = noSshd();
    if (reason !== null) skip(this, reason);
    if (!mayUseNamespaces()) skip(this, 'a run on the remote kernel needs the right to make network namespaces');
    needsFlent.call(this);
    place = new Place();
    server = await PrivateSshd.start(place.folder);
    place.write('home/.ssh/known_hosts', server.known());
    place.write('testbed.config.yaml', `machines: { loop: { ssh: "${server.target}", key: ${server.key()} } }\n`);
  });
  after(async () => {
    await server?.cutOff();
    place?.remove();
  });

  it('measures streams and pings, and brings flent\'s own file back', async () => {
    const env = { HOME: place.path('home'), TESTBED_CACHE: process.env['TESTBED_CACHE'] ?? path.join(os.homedir(), '.cache', 'testbed') };
    const ended = await place.testbed(['run', place.write('flent.yaml', scenario), '--machine', 'loop', '--out', place.path('out'), '--no-report'], { env });
    const dir = place.run('out');
    assertWentThrough(dir, ended);
    const { classes, probes, bottlenecks } = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as Metrics;
    assert.deepEqual([classes['load.up']!.flows, classes['load.down']!.flows], [4, 4]);
    assert.ok(bottlenecks['BL']!.utilisation! > 0.2, ended.stdout);
    assert.ok(Object.keys(probes).length >= 2);
    for (const [name, { rttMs }] of Object.entries(probes)) assert.ok(rttMs.n > 10, `${name}: ${rttMs.n}`);
    assert.ok(fs.statSync(path.join(dir, 'raw', 'flent-0.flent.gz')).size > 1000);
  });
});
