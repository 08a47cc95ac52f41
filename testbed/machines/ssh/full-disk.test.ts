/** The machine ssh where the disk there fills up: when our program is shipped, when a run is to start, and in the middle of one. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { namespacesOf, Place, runJson, skip, type Ended } from '../../testing/command.js';
import { noSshd, PrivateSshd } from '../../testing/private-sshd.js';
import { mayUseNamespaces } from '../local.js';

const MiB = 2 ** 20;

const scenario = (durationS: number): string => `name: full
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: { kind: pfifo, limit: 50 } } }
  hosts: { S: { count: 2, at: R1 }, D: { count: 2, at: R2 } }
traffic: { bulk: { kind: bulk, from: S, to: D, cc: reno } }
measure: { warmup: 500ms, duration: ${durationS}s }
collect: { queue: 1ms, sockets: 1ms, packets: true }
`;

describe('a full disk of a machine by ssh', function () {
  this.timeout(180_000);
  let place: Place;
  let server: PrivateSshd | undefined;

  before(function () {
    const reason = noSshd();
    if (reason !== null) skip(this, reason);
    if (!mayUseNamespaces()) skip(this, 'a small disk needs the right to mount one');
  });
  beforeEach(() => { place = new Place(); });
  afterEach(async () => {
    await server?.cutOff();
    place.remove();
  });

  async function run(homeBytes: number, durationS: number, fill: (home: string) => void = () => undefined): Promise<Ended> {
    server = await PrivateSshd.start(place.folder, { homeBytes });
    place.write('home/.ssh/known_hosts', server.known());
    place.write('testbed.config.yaml', `machines:\n  small: { ssh: "${server.target}", key: ${server.key()} }\n`);
    place.write('full.yaml', scenario(durationS));
    const env = { HOME: place.path('home') };
    if (homeBytes > 4 * MiB) assert.equal((await place.testbed(['doctor', '--machine', 'small', '--json'], { env })).code, 0);
    fill(server.home);
    return place.testbed(['run', place.path('full.yaml'), '--machine', 'small', '--out', place.path('out'), '--no-report'], { env });
  }
  /** Files of ours there, but for the program and the filling. */
  const left = (): string[] => fs.readdirSync(server!.home, { recursive: true, encoding: 'utf8' }).filter((name) => !/^\.cache(\/testbed(\/remote|\/program-[0-9a-f]{16}(\/.*)?)?)?$/.test(name) && name !== 'filling');
  const fillBut = (roomBytes: number) => (home: string): void => {
    const { bavail, bsize } = fs.statfsSync(home);
    fs.writeFileSync(path.join(home, 'filling'), Buffer.alloc(bavail * bsize - roomBytes));
  };

  it('that does not hold our program is told, and nothing of it stays', async () => {
    const { code, stderr } = await run(2 * MiB, 2);
    assert.equal(code, 3, stderr);
    assert.match(stderr, /ssh:\/\/\S+: tar failed: .*No space left on device.* Free some space on its disk/);
    assert.deepEqual(fs.readdirSync(server!.home, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('program')), []);
    assert.deepEqual(place.runs('out'), []);
  });

  it('that has no room for a run is told before it starts', async () => {
    const { code, stderr } = await run(16 * MiB, 2, fillBut(128 * 1024));
    assert.notEqual(code, 0);
    assert.match(stderr, /ssh:\/\/\S+: dd failed: .*No space left on device.* Free some space on its disk/);
    assert.deepEqual(left(), []);
    const dir = place.run('out');
    assert.equal(runJson(dir).status, 'failed');
    assert.equal(fs.existsSync(path.join(dir, 'remote.json')), false, 'nothing waits there');
  });

  it('that fills up in the middle of a run ends it, says so, and what was recorded is brought', async () => {
    const { code, stderr } = await run(16 * MiB, 30, fillBut(768 * 1024));
    assert.equal(code, 1, stderr);
    assert.match(stderr, /ssh:\/\/\S+: the disk there that holds \S+ is full: records are cut off \(at [\d.]+ s of the run\)\. Free some space there, then run again/);
    assert.deepEqual(left(), []);
    const dir = place.run('out');
    assert.deepEqual(namespacesOf(dir), []);
    assert.equal(runJson(dir).status, 'failed');
    assert.equal(fs.existsSync(path.join(dir, 'remote.json')), false, 'nothing waits there');
    assert.ok(fs.statSync(path.join(dir, 'raw', 'agent.jsonl')).size > 0);
  });
});
