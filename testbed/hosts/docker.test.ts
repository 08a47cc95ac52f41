/** Hosts in containers, in an engine started for the test: all of it with Docker, what engines differ in with podman too. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Metrics } from '../analysis/metrics.js';
import type { Plan } from '../plan/plan.js';
import { assertWentThrough, eventually, needsFlent, Place, runJson, skip, type Ended } from '../testing/command.js';
import { noEngine, PrivateEngine } from '../testing/private-engine.js';
import { startContainers } from './containers.js';
import { openEngine, type Engine } from './engine.js';
import { findImage, imageName, importPrograms } from './image.js';

/** No delay: netem is not in every kernel. */
const scenario = (durationS: number, more = ''): string => `name: contained
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: { kind: pfifo, limit: 50 } } }
  hosts: { S: { count: 2, at: R1 }, D: { count: 2, at: R2 } }
traffic: { bulk: { kind: bulk, from: S, to: D, cc: reno, tool: iperf3 } }
probes: { ping: { from: S[0], to: D[0], interval: 20ms, tool: ping } }
measure: { warmup: 1s, duration: ${durationS}s }
${more}`;

for (const kind of ['docker', 'podman'] as const) describe(`hosts in containers of ${kind}`, function () {
  this.timeout(240_000);
  const private_ = new PrivateEngine(kind);
  /** What is the same whichever engine it is. */
  const onceOnly = (name: string, call: (this: Mocha.Context) => Promise<void>): void => { if (kind === 'docker') it(name, call); };
  let engine: Engine;
  let place: Place;

  before(async function () {
    const reason = noEngine(kind) ?? (await private_.start());
    if (reason !== null) skip(this, reason);
    engine = await openEngine(private_.socket);
    place = new Place();
    place.write('short.yaml', scenario(2));
    place.write('long.yaml', scenario(60));
  });
  after(async () => {
    await private_.stop();
    place?.remove();
  });

  const env = (more: Record<string, string> = {}): Record<string, string> => ({ DOCKER_HOST: private_.host, ...more });
  const run = (out: string, options: readonly string[] = [], more: Record<string, string> = {}): Promise<Ended> =>
    place.testbed(['run', place.path('short.yaml'), '--machine', 'local', '--hosts', 'docker', '--no-report', '--out', place.path(out), ...options], { env: env(more) });
  const containers = async (): Promise<string[]> => (await engine.docker.listContainers({ all: true })).map(({ Names }) => Names[0]!).sort();
  const refused = async (ended: Promise<Ended>, message: RegExp): Promise<void> => {
    const { code, stderr } = await ended;
    assert.ok(code === 3 || code === 2, `${code} ${stderr}`);
    assert.match(stderr, message);
    assert.deepEqual(await containers(), []);
  };

  it('are refused without their image, with the command that builds it', async () => {
    await refused(run('refused'), /has no image testbed-host:1\s+→ testbed image build/);
    assert.deepEqual(place.runs('refused'), []);
    assert.match((await place.testbed(['doctor'], { env: env() })).stdout.replaceAll(/\s+/g, ' '), /(Docker|podman) \S+ answers; it has no image testbed-host:1 .*→ testbed image build/);
  });

  it('need an image, which is built from the programs of this machine where no registry is', async () => {
    const { code, stdout, stderr } = await place.testbed(['image', 'build', '--from', 'machine'], { env: env() });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /testbed-host:1 is built, from the programs of this machine/);
    assert.match((await place.testbed(['doctor'], { env: env() })).stdout.replaceAll(/\s+/g, ' '), /(Docker|podman) \S+ answers; it has the image testbed-host:1/);
    assert.equal((await engine.docker.getImage((await findImage(engine))!).inspect()).Config.Labels['org.testbed.image'], imageName);
  });

  it('carry a dumbbell with iperf3 and ping, and are gone afterwards', async () => {
    const ended = await run('out');
    const { stdout } = ended;
    const dir = place.run('out');
    assertWentThrough(dir, ended);
    assert.equal(runJson(dir).hosts, 'docker');
    const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as { bottlenecks: { BL: { utilisation: number } }; probes: { ping: { rttMs: { n: number } } } };
    assert.ok(metrics.bottlenecks.BL.utilisation > 0.5, stdout);
    assert.ok(metrics.probes.ping.rttMs.n > 10, stdout);
    assert.deepEqual(await containers(), []);
  });

  onceOnly('run a test of flent with the Python, netperf, irtt and fping of the image', async function () {
    needsFlent.call(this);
    // Room for every flow's first packets: netperf gives up one whose SYN is lost.
    place.write('short.yaml', scenario(2).replace('limit: 50', 'limit: 500').replace(/^traffic: .*$/m, 'traffic: { load: { tool: flent, test: rrul_be, from: S[0], to: D[0], length: 2s, delay: 1s, step: 100ms } }').replace(/^measure: .*$/m, 'measure: { warmup: 1s, duration: 6s }'));
    const ended = await run('flent');
    place.write('short.yaml', scenario(2));
    const dir = place.run('flent');
    assertWentThrough(dir, ended);
    const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as Metrics;
    assert.deepEqual([metrics.classes['load.up']!.flows, metrics.classes['load.down']!.flows], [4, 4]);
    assert.ok(metrics.bottlenecks['BL']!.utilisation! > 0.2, ended.stdout);
    assert.ok(Object.keys(metrics.probes).length >= 2);
    for (const [name, { rttMs }] of Object.entries(metrics.probes)) assert.ok(rttMs.n > 10, `${name}: ${rttMs.n}`);
    assert.ok(fs.statSync(path.join(dir, 'raw', 'flent-0.flent.gz')).size > 1000);
    assert.deepEqual(await containers(), []);
  });

  onceOnly('have a delay and an AQM from the userspace bottleneck', async () => {
    const ended = await run('daemon', ['--queues', 'daemon', '--set', 'traffic.bulk.rtt=40ms', '--set', 'topology.links.BL.queue={kind: fq_codel}']);
    const dir = place.run('daemon');
    assertWentThrough(dir, ended);
    const plan = JSON.parse(fs.readFileSync(path.join(dir, 'raw', 'plan.json'), 'utf8')) as Plan;
    assert.equal(plan.links.find(({ name }) => name === 'BL')?.forward.queue?.in, 'daemon');
    const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as { bottlenecks: { BL: { packets: number } }; probes: { ping: { rttMs: { p5: number } } } };
    assert.ok(metrics.probes.ping.rttMs.p5 >= 40, `the probe's round trip is no shorter than the delay: ${metrics.probes.ping.rttMs.p5} ms`);
    const facts = (runJson(dir) as { facts?: { daemon?: { lateness: { packets?: number } } } }).facts;
    assert.ok(facts?.daemon !== undefined, 'the daemon tells how punctual it was');
    assert.deepEqual(await containers(), []);
  });

  onceOnly('have no rights but those over their own network', async () => {
    const started = place.start(['run', place.path('long.yaml'), '--machine', 'local', '--hosts', 'docker', '--no-report', '--out', place.path('rights')], { env: env() });
    await eventually('traffic', () => agentText(place, 'rights').includes('"phase":"traffic"') || started.child.exitCode !== null);
    const [first] = await engine.docker.listContainers();
    assert.ok(first !== undefined, started.output());
    const { HostConfig } = await engine.docker.getContainer(first.Id).inspect();
    assert.deepEqual([HostConfig.Privileged, HostConfig.NetworkMode, (HostConfig.CapAdd as string[] | undefined)?.map((name) => name.replace('CAP_', '')).sort()], [false, 'none', ['NET_ADMIN', 'NET_RAW']]);
    const nofile = /^Max open files\s+(\d+)\s+(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8'))!;
    assert.deepEqual((HostConfig.Ulimits as { Name: string; Soft: number; Hard: number }[]).find(({ Name }) => Name === 'nofile'), { Name: 'nofile', Soft: Number(nofile[1]), Hard: Number(nofile[2]) }, 'limits as in a namespace');
    assert.equal((await containers()).length, 6, 'four hosts and two routers');
    started.child.kill('SIGINT');
    assert.equal((await started.ended).code, 130, started.output());
    assert.deepEqual(await containers(), []);
  });

  it('of a killed run are removed by testbed clean, and no others', async () => {
    const other = await engine.docker.createContainer({ name: 'somebody-elses', Image: (await findImage(engine))!, Cmd: ['/usr/bin/sleep', 'infinity'], HostConfig: { NetworkMode: 'none' } });
    const started = place.start(['run', place.path('long.yaml'), '--machine', 'local', '--hosts', 'docker', '--no-report', '--out', place.path('killed')], { env: env() });
    await eventually('traffic', () => agentText(place, 'killed').includes('"phase":"traffic"') || started.child.exitCode !== null);
    const agent = place.processes().find(({ command }) => command.includes('agent.mjs') && !command.includes('testbed.cjs'));
    assert.ok(agent !== undefined, started.output());
    process.kill(agent.pid, 'SIGKILL');
    await started.ended;
    assert.equal((await containers()).length, 7);
    const { code, stdout, stderr } = await place.testbed(['clean'], { env: env() });
    assert.equal(code, 0, stderr);
    assert.equal([...stdout.matchAll(/removed container testbed-/g)].length, 6, stdout);
    assert.deepEqual(await containers(), ['/somebody-elses']);
    await other.remove({ force: true });
    await place.assertNothingLeft();
  });

  onceOnly('are refused where a name is taken, and what has it is left alone', async () => {
    const kept = process.env['DOCKER_HOST'];
    process.env['DOCKER_HOST'] = private_.host;
    try {
      const nodes = ['A', 'B', 'C'].map((name) => ({ node: name, netns: name }));
      const first = await startContainers([nodes[2]!], 'abcd1234', null);
      await assert.rejects(startContainers(nodes, 'abcd1234', null), /the container testbed-abcd1234-C of C exists already: run testbed clean, or end the run that uses it/);
      assert.deepEqual(await containers(), ['/testbed-abcd1234-C']);
      await first.close();
      assert.deepEqual(await containers(), []);
    } finally {
      if (kept === undefined) delete process.env['DOCKER_HOST'];
      else process.env['DOCKER_HOST'] = kept;
    }
  });

  onceOnly('are refused where their image lacks a program of the plan, with its name and who asks for it', async () => {
    // Engines tell when an image was made to the second, and the newest is taken.
    await new Promise((resolve) => { setTimeout(resolve, 1100); });
    await importPrograms(engine, ['sh', 'sleep']);
    const ended = await run('lacking');
    assert.equal(ended.code, 1, ended.stderr);
    assert.match(ended.stderr, /the image testbed-host:1 of hosts in containers has no iperf3 \(traffic bulk\), ping \(probe ping\): .*testbed image build/);
    assert.deepEqual(await containers(), []);
    await new Promise((resolve) => { setTimeout(resolve, 1100); });
    await importPrograms(engine, ['sh']);
    const without = await run('sleepless');
    assert.equal(without.code, 1, without.stderr);
    assert.match(without.stderr, /does not start: .*the image lacks \/usr\/bin\/sleep: testbed image build/);
    assert.deepEqual(await containers(), []);
  });

  onceOnly('are refused where there is no engine, no permission or another machine, each with what to do', async () => {
    await refused(run('refused', [], { DOCKER_HOST: `unix://${place.path('nobody')}` }), /does not answer at .*nobody \(ENOENT\).*(start it|systemctl)/s);
    await refused(run('refused', [], { DOCKER_HOST: 'tcp://192.0.2.1:2375' }), /tcp:\/\/192\.0\.2\.1:2375.*unix:\/\//s);
    await refused(place.testbed(['run', place.path('short.yaml'), '--machine', 'uml', '--hosts', 'docker', '--out', place.path('refused')], { env: env() }), /inside a UML guest.*--hosts netns/s);
    const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
    await refused(place.testbed(['image', 'build'], { env: env({ HOME: '/nonexistent' }), under: nobody, cwd: '/' }), /no permission for the container engine's socket .*: join its group .* or run as root/);
    assert.deepEqual(place.runs('refused'), []);
  });
});

const agentText = (place: Place, out: string): string => {
  const [dir] = place.runs(out);
  const file = dir === undefined ? '' : path.join(dir, 'raw', 'agent.jsonl');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
};
