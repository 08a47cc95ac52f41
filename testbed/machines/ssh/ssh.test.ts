/** The machine ssh against a real sshd on loopback, with keys and known_hosts of its own. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { assertWentThrough, eventually, namespacesOf, Place, runJson, skip, type Ended } from '../../testing/command.js';
import type { Plan } from '../../plan/plan.js';
import { mayUseNamespaces } from '../local.js';
import type { ExecuteResult } from '../../run/execute.js';
import { noSshd, PrivateSshd } from '../../testing/private-sshd.js';
import { readRemoteRun } from './remote-run.js';

/** Two hosts a side through a queue that every kernel has; no delay, which needs netem. */
const scenario = (durationS: number): string => `name: remote
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: { kind: pfifo, limit: 50 } } }
  hosts: { S: { count: 2, at: R1 }, D: { count: 2, at: R2 } }
traffic: { bulk: { kind: bulk, from: S, to: D, cc: reno, tool: builtin } }
measure: { warmup: 500ms, duration: ${durationS}s }
`;

describe('the machine ssh', function () {
  this.timeout(180_000);
  let place: Place;
  let port = 0;
  let server: PrivateSshd;

  before(async function () {
    const reason = noSshd();
    if (reason !== null) skip(this, reason);
    if (!mayUseNamespaces()) skip(this, 'a run on the remote kernel needs the right to make network namespaces');
    place = new Place();
    server = await PrivateSshd.start(place.folder);
    port = server.port;
    place.write('home/.ssh/known_hosts', server.known());
    place.write('stranger/.ssh/known_hosts', '');
    place.write('changed/.ssh/known_hosts', server.known('other'));
    place.write('testbed.config.yaml', `machines:
  loop: { ssh: "${os.userInfo().username}@127.0.0.1:${port}", key: ${place.path('user')} }
  wrong-key: { ssh: "${os.userInfo().username}@127.0.0.1:${port}", key: ${place.path('other')} }
  no-node: { ssh: "${os.userInfo().username}@127.0.0.1:${port}", key: ${place.path('user')}, node: /nonexistent/node }
`);
    place.write('short.yaml', scenario(2));
    place.write('long.yaml', scenario(12));
  });
  after(async () => {
    await server?.cutOff();
    place?.remove();
  });

  const home = (name = 'home'): Record<string, string> => ({ HOME: place.path(name), TESTBED_CACHE: process.env['TESTBED_CACHE'] ?? path.join(os.homedir(), '.cache', 'testbed') });
  const run = (machine: string, file: string, out: string, env = home()): Promise<Ended> => place.testbed(['run', place.path(file), '--machine', machine, '--out', place.path(out), '--no-report'], { env });

  it('tells what the machine there has', async () => {
    const { code, stdout, stderr } = await place.testbed(['doctor', '--machine', 'loop', '--json'], { env: home() });
    assert.equal(code, 0, stderr);
    const { machines } = JSON.parse(stdout) as { machines: { name: string; usable: boolean }[] };
    assert.equal(machines.find(({ name }) => name === 'local')?.usable, true);
  });

  it('runs a plan there and brings every record back, leaving nothing behind', async () => {
    const ended = await run('loop', 'short.yaml', 'out');
    assert.match(ended.stdout, /bulk/);
    const dir = place.run('out');
    assertWentThrough(dir, ended);
    const { machine, kernel } = runJson(dir);
    assert.deepEqual([machine, kernel?.release], [`ssh://${os.userInfo().username}@127.0.0.1:${port}`, os.release()]);
    const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as { bottlenecks: { BL: { utilisation: number } } };
    assert.ok(metrics.bottlenecks.BL.utilisation > 0.5, JSON.stringify(metrics.bottlenecks.BL.utilisation));
    assert.deepEqual(namespacesOf(dir), []);
    assert.equal(readRemoteRun(dir), null, 'nothing waits there');
    assert.deepEqual(fs.readdirSync(path.join(os.userInfo().homedir, '.cache', 'testbed', 'remote')), []);
  });

  it('runs a delay and an AQM there, from the userspace bottleneck where the kernel lacks them, and says so', async () => {
    place.write('aqm.yaml', scenario(2).replace('{ kind: pfifo, limit: 50 }', '{ kind: fq_codel }').replace('cc: reno', 'cc: reno, rtt: 40ms').replace('measure:', 'probes: { ping: { from: S[0], to: D[0], interval: 20ms } }\nmeasure:'));
    for (const [out, words] of [['as-it-is', []], ['daemon', ['--queues', 'daemon']]] as const) {
      const ended = await place.testbed(['run', place.path('aqm.yaml'), '--machine', 'loop', '--out', place.path(out), '--no-report', ...words], { env: home() });
      const dir = place.run(out);
      assertWentThrough(dir, ended);
      const { links } = JSON.parse(fs.readFileSync(path.join(dir, 'raw', 'plan.json'), 'utf8')) as Plan;
      const inDaemon = links.find(({ name }) => name === 'BL')!.forward.queue!.in === 'daemon';
      if (out === 'daemon') assert.ok(inDaemon && !ended.stderr.includes('lacks'), ended.stderr);
      else assert.equal(inDaemon, /in user space: queues and delays come from the daemon, as ssh:\S+ lacks qdisc /.test(ended.stderr), ended.stderr);
      const metrics = JSON.parse(fs.readFileSync(path.join(dir, 'metrics.json'), 'utf8')) as { probes: { ping: { rttMs: { p5: number } } } };
      assert.ok(metrics.probes.ping.rttMs.p5 >= 40, `${metrics.probes.ping.rttMs.p5} ms`);
    }
  });

  it('refuses what the scenario itself keeps in a kernel that lacks it', async function () {
    const { Local } = await import('../local.js');
    const text = scenario(2).replace('{ kind: pfifo, limit: 50 }', '{ kind: dualpi2, in: kernel }');
    const { compiled } = await import('../../rules/altered.js');
    if ((await new Local().check(compiled(place, text, 'real'), 'real')).length === 0) skip(this, 'this kernel has dualpi2');
    place.write('kept.yaml', text);
    const { code, stderr } = await run('loop', 'kept.yaml', 'refused');
    assert.equal(code, 3, stderr);
    assert.match(stderr, /qdisc dualpi2 \(queue of BL\)/);
  });

  for (const [what, env, machine, message] of [
    ['a host that is not in known_hosts', 'stranger', 'loop', /not in known_hosts.*ssh-keyscan -t ed25519 -p \d+ 127\.0\.0\.1 >> ~\/\.ssh\/known_hosts/s],
    ['a host whose key has changed', 'changed', 'loop', /NOT the one in known_hosts.*ssh-keygen -R/s],
    ['a key that is not accepted there', 'home', 'wrong-key', /accepts none of our keys .*other/s],
    ['a machine without Node', 'home', 'no-node', /has no \/nonexistent\/node: install Node 20 or newer/],
    ['a machine that is not configured', 'home', 'nowhere', /expected one of .*ssh:\/\/user@host/],
  ] as const) {
    it(`refuses ${what}, with what to do`, async () => {
      const { code, stderr } = await run(machine, 'short.yaml', 'refused', home(env));
      assert.ok(code === 3 || code === 2, `${code}: ${stderr}`);
      assert.match(stderr, message);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
      assert.deepEqual(place.runs('refused'), []);
    });
  }

  it('says what the kernel there lacks, before anything starts', async () => {
    place.write('nowhere.yaml', scenario(2).replace('{ kind: pfifo, limit: 50 }', '{ kind: raw, tc: [nonsense] }'));
    const { code, stderr } = await run('loop', 'nowhere.yaml', 'refused');
    assert.notEqual(code, 0);
    assert.match(stderr, /nonsense/);
    assert.deepEqual(place.runs('refused'), []);
  });

  it('ended by SIGINT keeps what was recorded and ends the run there', async () => {
    const started = place.start(['run', place.path('long.yaml'), '--machine', 'loop', '--out', place.path('stopped'), '--no-report'], { env: home() });
    await eventually('traffic', () => inTrafficBelow(place, 'stopped') || started.child.exitCode !== null);
    started.child.kill('SIGINT');
    assert.equal((await started.ended).code, 130, started.output());
    assert.equal(runJson(place.run('stopped')).status, 'incomplete');
    assert.deepEqual(namespacesOf(place.run('stopped')), []);
  });

  it('whose connection is lost goes on there, and fetch brings it whole', async () => {
    const started = place.start(['run', place.path('long.yaml'), '--machine', 'loop', '--out', place.path('lost'), '--no-report'], { env: { ...home(), TESTBED_SSH_ATTEMPTS: '1' } });
    await eventually('traffic', () => inTrafficBelow(place, 'lost') || started.child.exitCode !== null);
    await server.cutOff();
    const { code, stderr } = await started.ended;
    assert.equal(code, 1, stderr);
    assert.match(stderr, /cannot be reached|was lost/);
    assert.match(stderr, /testbed fetch /);
    const dir = place.run('lost');
    assert.equal(runJson(dir).status, 'failed');
    await server.listen();
    const fetched = await place.testbed(['fetch', dir, '--no-report'], { env: home() });
    assertWentThrough(dir, fetched);
    assert.ok(fs.existsSync(path.join(dir, 'metrics.json')));
    assert.deepEqual(namespacesOf(dir), []);
    const again = await place.testbed(['fetch', dir], { env: home() });
    assert.equal(again.code, 1);
    assert.match(again.stderr, /nothing to bring/);
  });

  /** With a dead-man timer that ends it in the middle. */
  async function runTooLong(onTraffic: () => void): Promise<{ readonly result: ExecuteResult; readonly dir: string }> {
    const { Ssh } = await import('./ssh.js');
    const { compiled, runPlan } = await import('../../rules/altered.js');
    const kept = process.env['HOME'];
    process.env['HOME'] = place.path('home');
    let dir = '';
    try {
      const machine = new Ssh({ user: os.userInfo().username, host: '127.0.0.1', port, key: place.path('user') }, { limitS: 4, attempts: 0 });
      const result = await runPlan(place, compiled(place, scenario(60), 'real'), { opened: machine, clock: 'real', onFolder: (folder) => { dir = folder; }, onProgress: () => { if (inTraffic(dir)) onTraffic(); } });
      return { result, dir };
    } finally {
      process.env['HOME'] = kept;
    }
  }

  it('ends a run that takes longer than it may', async () => {
    const { result, dir } = await runTooLong(() => undefined);
    assert.equal(result.status, 'failed');
    assert.match(result.error ?? '', /took longer than it may there and was ended|ended early by SIGTERM/);
    assert.deepEqual(namespacesOf(dir), []);
    assert.equal(readRemoteRun(dir), null);
  });

  it('ends a run that takes longer than it may although nobody listens, removes what it made, and fetch brings what was recorded', async () => {
    let cut: Promise<void> | undefined;
    const { result, dir } = await runTooLong(() => { cut ??= server.cutOff(); });
    await cut;
    assert.match(result.error ?? '', /goes on there and ends by itself; bring its records with: testbed fetch /);
    await eventually(() => `its namespaces are gone: ${namespacesOf(dir).join(' ')}`, () => namespacesOf(dir).length === 0);
    await server.listen();
    const { code, stdout, stderr } = await place.testbed(['fetch', dir, '--no-report'], { env: home() });
    assert.equal(code, 1, stderr);
    assert.match(stdout, /failed: .*(took longer than it may there and was ended|ended early by SIGTERM)/);
    assert.equal(runJson(dir).status, 'failed');
    assert.ok(fs.readFileSync(path.join(dir, 'raw', 'agent.jsonl'), 'utf8').includes('"phase":"traffic"'));
    assert.equal(readRemoteRun(dir), null, 'nothing waits there');
  });
});

const inTraffic = (dir: string): boolean => {
  const file = path.join(dir, 'raw', 'agent.jsonl');
  return fs.existsSync(file) && fs.readFileSync(file, 'utf8').includes('"phase":"traffic"');
};
const inTrafficBelow = (place: Place, out: string): boolean => place.runs(out).some(inTraffic);
