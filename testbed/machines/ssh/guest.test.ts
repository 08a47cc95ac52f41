/** The machine ssh against a computer whose kernel is another than this host's: sshd in a User-Mode Linux guest. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { selectKernel } from '../../../kernel/select.js';
import type { Plan } from '../../plan/plan.js';
import { assertWentThrough, needsUml, Place, runJson, skip, type Ended } from '../../testing/command.js';
import { GuestSshd } from '../../testing/guest-sshd.js';
import { noSshd } from '../../testing/private-sshd.js';

/** With what many a host's kernel lacks and this guest's has: a delay and an AQM. */
const scenario = `name: elsewhere
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 5mbit, queue: { kind: fq_codel, in: kernel } } }
  hosts: { S: { count: 1, at: R1 }, D: { count: 1, at: R2 } }
traffic: { bulk: { kind: bulk, from: S, to: D, cc: reno, rtt: 40ms } }
probes: { ping: { from: S[0], to: D[0], interval: 50ms } }
measure: { warmup: 500ms, duration: 3s }
`;

describe('the machine ssh with a kernel of its own', function () {
  this.timeout(300_000);
  let place: Place;
  let guest: GuestSshd;

  before(needsUml);
  before(async function () {
    const reason = noSshd();
    if (reason !== null) skip(this, reason);
    place = new Place();
    guest = await GuestSshd.start(place.path('guest'), selectKernel('').kernel!);
    place.write('home/.ssh/known_hosts', guest.known());
    place.write('scenario.yaml', scenario);
    place.write('testbed.config.yaml', `machines:\n  other: { ssh: "root@127.0.0.1:${guest.port}", key: ${guest.key}, node: ${process.execPath} }\n`);
  });
  after(async () => {
    await guest?.end();
    place?.remove();
  });

  const testbed = (words: readonly string[]): Promise<Ended> => place.testbed(words, { env: { HOME: place.path('home') }, boundMs: 240_000 });

  it('tells what that kernel has', async () => {
    const { code, stdout, stderr } = await testbed(['doctor', '--machine', 'other', '--json']);
    assert.equal(code, 0, stderr);
    const { machines } = JSON.parse(stdout) as { machines: { name: string; usable: boolean; kernel: string | null }[] };
    const local = machines.find(({ name }) => name === 'local');
    assert.deepEqual([local?.usable, local?.kernel], [true, guest.kernel.release], stdout);
  });

  it('runs a delay and an AQM in that kernel and brings every record back', async () => {
    const ended = await testbed(['run', place.path('scenario.yaml'), '--machine', 'other', '--out', place.path('out'), '--no-report']);
    const dir = place.run('out');
    assertWentThrough(dir, ended);
    const { machine, kernel } = runJson(dir);
    assert.deepEqual([machine, kernel?.release], [`ssh://root@127.0.0.1:${guest.port}`, guest.kernel.release]);
    assert.notEqual(kernel?.release, os.release());
    const { links } = JSON.parse(fs.readFileSync(path.join(dir, 'raw', 'plan.json'), 'utf8')) as Plan;
    assert.equal(links.find(({ name }) => name === 'BL')!.forward.queue!.in, 'kernel');
    const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as { bottlenecks: { BL: { utilisation: number } }; probes: { ping: { rttMs: { n: number; p5: number } } } };
    assert.ok(metrics.probes.ping.rttMs.p5 >= 40, `${metrics.probes.ping.rttMs.p5} ms`);
    assert.ok(metrics.bottlenecks.BL.utilisation > 0.5, `${metrics.bottlenecks.BL.utilisation}`);
  });

  it('refuses what that kernel lacks, and names it with the kernel', async function () {
    if (guest.kernel.has(['NET_SCH_DUALPI2'])) skip(this, `kernel ${guest.kernel.release} has dualpi2`);
    place.write('lacks.yaml', scenario.replace('fq_codel', 'dualpi2'));
    const { code, stderr } = await testbed(['run', place.path('lacks.yaml'), '--machine', 'other', '--out', place.path('refused'), '--no-report']);
    assert.equal(code, 3, stderr);
    assert.ok(stderr.includes(`qdisc dualpi2 (queue of BL) in kernel ${guest.kernel.release}`), stderr);
    assert.deepEqual(place.runs('refused'), []);
  });
});
