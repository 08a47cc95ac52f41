/** Hosts in containers on a machine reached by ssh: a real sshd on loopback, in whose environment is an engine of the test's own. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { openEngine } from '../../hosts/engine.js';
import { assertWentThrough, eventually, Place, runJson, skip, type Ended } from '../../testing/command.js';
import { noEngine, PrivateEngine } from '../../testing/private-engine.js';
import { noSshd, PrivateSshd } from '../../testing/private-sshd.js';

const scenario = (durationS: number): string => `name: contained-there
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: { kind: pfifo, limit: 50 } } }
  hosts: { S: { count: 1, at: R1 }, D: { count: 1, at: R2 } }
traffic: { bulk: { kind: bulk, from: S, to: D, cc: reno, tool: iperf3 } }
probes: { ping: { from: S[0], to: D[0], interval: 20ms, tool: ping } }
measure: { warmup: 500ms, duration: ${durationS}s }
`;

describe('hosts in containers on a machine by ssh', function () {
  this.timeout(240_000);
  const private_ = new PrivateEngine();
  let place: Place;
  let server: PrivateSshd | undefined;

  before(async function () {
    const reason = noSshd() ?? noEngine() ?? (await private_.start());
    if (reason !== null) skip(this, reason);
    place = new Place();
    server = await PrivateSshd.start(place.folder, { environment: { DOCKER_HOST: private_.host } });
    place.write('home/.ssh/known_hosts', server.known());
    place.write('testbed.config.yaml', `machines:\n  there: { ssh: "${server.target}", key: ${server.key()}, hosts: docker }\n`);
    place.write('short.yaml', scenario(2));
    place.write('long.yaml', scenario(60));
  });
  after(async () => {
    await server?.cutOff();
    await private_.stop();
    place?.remove();
  });

  const env = (): Record<string, string> => ({ HOME: place.path('home') });
  const run = (out: string): Promise<Ended> => place.testbed(['run', place.path('short.yaml'), '--machine', 'there', '--no-report', '--out', place.path(out)], { env: env() });
  const containers = async (): Promise<string[]> => (await (await openEngine(private_.socket)).docker.listContainers({ all: true })).map(({ Names }) => Names[0]!).sort();

  it('are refused without their image, with the command that builds it there', async () => {
    const { code, stderr } = await run('refused');
    assert.equal(code, 3, stderr);
    assert.match(stderr, /has no image testbed-host:1 \(on 127\.0\.0\.1\)\s+→ testbed image build --machine ssh:\/\/\S+@127\.0\.0\.1:\d+/);
    assert.deepEqual(place.runs('refused'), []);
  });

  it('need an image, which is built there from here', async () => {
    const { code, stdout, stderr } = await place.testbed(['image', 'build', '--from', 'machine', '--machine', 'there'], { env: env() });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /testbed-host:1 is built, from the programs of there/);
    assert.match((await place.testbed(['doctor', '--machine', 'there'], { env: env() })).stdout.replaceAll(/\s+/g, ' '), /Docker \S+ answers; it has the image testbed-host:1/);
  });

  it('carry iperf3 and ping, are gone afterwards, and every record is brought', async () => {
    const ended = await run('out');
    const dir = place.run('out');
    assertWentThrough(dir, ended);
    assert.deepEqual([runJson(dir).hosts, runJson(dir).machine], ['docker', `ssh://${server!.target}`]);
    const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as { bottlenecks: { BL: { utilisation: number } }; probes: { ping: { rttMs: { n: number } } } };
    assert.ok(metrics.bottlenecks.BL.utilisation > 0.5, ended.stdout);
    assert.ok(metrics.probes.ping.rttMs.n > 10, ended.stdout);
    assert.deepEqual(await containers(), []);
  });

  it('of an agent that was killed are removed there at once, and testbed clean says whether more is left', async () => {
    const started = place.start(['run', place.path('long.yaml'), '--machine', 'there', '--no-report', '--out', place.path('killed')], { env: env() });
    await eventually('traffic', () => text(place, 'killed').includes('"phase":"traffic"') || started.child.exitCode !== null);
    assert.equal((await containers()).length, 4, started.output());
    const folder = (JSON.parse(fs.readFileSync(path.join(place.run('killed'), 'remote.json'), 'utf8')) as { folder: string }).folder;
    const agent = processes().find(({ words }) => words.includes('agent') && words.includes(path.join(folder, 'raw')) && words[0] !== 'timeout');
    assert.ok(agent !== undefined, started.output());
    process.kill(agent.pid, 'SIGKILL');
    assert.equal((await started.ended).code, 1, started.output());
    assert.equal(runJson(place.run('killed')).status, 'failed');
    assert.deepEqual(await containers(), []);
    const { code, stdout, stderr } = await place.testbed(['clean', '--machine', 'there', '--dry-run'], { env: env() });
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stdout, /container/);
  });
});

const text = (place: Place, out: string): string => {
  const [dir] = place.runs(out);
  const file = dir === undefined ? '' : path.join(dir, 'raw', 'agent.jsonl');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
};

const processes = (): { readonly pid: number; readonly words: readonly string[] }[] => fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).flatMap((pid) => {
  try {
    return [{ pid: Number(pid), words: fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0') }];
  } catch {
    return [];
  }
});
