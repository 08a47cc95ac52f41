import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plan } from '../plan/plan.js';
import type { AgentLine, Facts, FlowRow } from '../records/raw.js';
import { dumbbellPlan } from '../testing/dumbbell-network.js';
import { needsGuest, runInGuest } from '../testing/guest.js';
import { agentOptions } from './main.js';
import { judgeRealTime, parseHostTime, realTimeBounds } from './realtime.js';
import { Lateness } from './loop.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

const main = fileURLToPath(new URL('./main.js', import.meta.url));
const s = 1e9;

/** A dumbbell that any kernel can make: no netem, a plain FIFO. Flows from a to b for `seconds`. */
function plainPlan(seconds: number): Plan {
  const plan = dumbbellPlan({ rateBps: 5e6, rttNs: 0, queue: 'pfifo', warmupNs: 1 * s, durationNs: (seconds - 1) * s, flows: [{ bytes: 20000 }, { cc: 'reno' }] });
  const [access, bottleneck] = plan.links as [Plan['links'][0], Plan['links'][0]];
  return {
    ...plan,
    links: [access, { ...bottleneck, forward: { ...bottleneck.forward, queue: { kind: 'pfifo', in: 'kernel', params: { limit: 100 } } }, reverse: { ...bottleneck.reverse, wire: [] } }],
  };
}

describe('the agent on this host, in namespaces of its own', function () {
  this.timeout(60_000);
  let folder = '';
  let tag = '';
  before(function () {
    if (process.getuid?.() !== 0) this.skip(); // namespaces need root
  });
  beforeEach(() => {
    folder = temporaryFolder('testbed-agent-');
    tag = `t${Math.random().toString(36).slice(2).padEnd(7, '0').slice(0, 7)}`;
  });
  afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

  const lines = (): AgentLine[] => fs.existsSync(path.join(folder, 'agent.jsonl'))
    ? fs.readFileSync(path.join(folder, 'agent.jsonl'), 'utf8').split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as AgentLine) : [];
  const rules = (): unknown[] => lines().filter(({ type }) => type === 'finding').map((line) => (line as { rule?: unknown }).rule);
  const namespaces = (): string[] => (fs.existsSync('/run/netns') ? fs.readdirSync('/run/netns').filter((name) => name.startsWith(tag)) : []);
  const rows = (): FlowRow[] => fs.readFileSync(path.join(folder, 'flows.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as FlowRow);
  const args = (): string[] => [main, '--raw', folder, '--clock', 'real', '--tag', tag, '--hosts', 'netns', '--mode', 'local'];
  const environment = (): NodeJS.ProcessEnv => ({ ...process.env, XDG_STATE_HOME: folder, XDG_CACHE_HOME: folder, TESTBED_STATE: folder });
  const start = (): ChildProcess => spawn(process.execPath, args(), { stdio: ['ignore', 'ignore', 'pipe'], env: environment() });
  const ended = (child: ChildProcess): Promise<number | null> => new Promise((resolve) => { child.on('close', (code) => resolve(code)); });
  const until = async (what: string, condition: () => boolean): Promise<void> => {
    for (let i = 0; i < 3000; i++) {
      if (condition()) return;
      await new Promise((resolve) => { setTimeout(resolve, 10); });
    }
    assert.fail(`never: ${what}`);
  };
  const trafficRuns = (): boolean => lines().some((line) => line.type === 'progress' && line['phase'] === 'traffic' && (line['tNs'] as number) >= 0.9 * s);

  it('runs a plan in real time to its end, removes everything and says done', async () => {
    fs.writeFileSync(path.join(folder, 'plan.json'), JSON.stringify(plainPlan(2)));
    const child = start();
    let said = '';
    child.stderr!.on('data', (data: Buffer) => { said += data.toString(); });
    assert.equal(await ended(child), 0, said + JSON.stringify(lines()));
    assert.deepEqual((lines().at(-1) as Facts)['phase'], 'done');
    const [fixed, bulk] = rows() as [FlowRow, FlowRow];
    assert.deepEqual([fixed.id, fixed.status, fixed.bytes], [0, 'complete', 20000]);
    assert.deepEqual([bulk.id, bulk.status], [1, 'running']);
    assert.ok(bulk.bytes_at_end! > bulk.bytes_at_warmup!);
    const facts = Object.assign({}, ...lines().filter(({ type }) => type === 'facts')) as { realTime?: { lateP99Ns: number }; network?: { upNs: number; downNs: number } };
    assert.ok(facts.realTime !== undefined && facts.realTime.lateP99Ns >= 0, 'lateness is measured');
    assert.ok(facts.network !== undefined && facts.network.upNs > 0 && facts.network.downNs > 0, 'so is bringing the network up and down');
    assert.deepEqual(namespaces(), []);
  });

  it('ends early on SIGTERM, keeps what was recorded and removes everything', async () => {
    fs.writeFileSync(path.join(folder, 'plan.json'), JSON.stringify(plainPlan(3600)));
    const child = start();
    await until('traffic', trafficRuns);
    assert.equal(namespaces().length, 3);
    child.kill('SIGTERM');
    assert.equal(await ended(child), 130);
    assert.ok(rules().includes('interrupted'));
    assert.ok(!lines().some((line) => (line as Facts)['phase'] === 'done'));
    assert.deepEqual(new Map(rows().map(({ id, status }) => [id, status])), new Map([[0, 'complete'], [1, 'running']]));
    assert.deepEqual(namespaces(), []);
  });

  it('ends and cleans up when its parent is killed', async () => {
    fs.writeFileSync(path.join(folder, 'plan.json'), JSON.stringify(plainPlan(3600)));
    const parent = spawn(process.execPath, ['-e', `require('child_process').spawn(process.execPath, ${JSON.stringify(args())}, { stdio: 'ignore' }); setInterval(() => {}, 1000)`], { stdio: 'ignore', env: environment() });
    await until('traffic', trafficRuns);
    parent.kill('SIGKILL');
    await until('no namespace of ours is left', () => namespaces().length === 0);
    await until('the interruption is told', () => rules().includes('interrupted'));
  });

  it('says what is wrong with its command line', () => {
    assert.throws(() => agentOptions(['--clock', 'real', '--tag', 'abcdefgh']), /--raw is missing/);
    assert.throws(() => agentOptions(['--raw', '/x', '--clock', 'soon', '--tag', 'abcdefgh']), /virtual or real/);
    assert.throws(() => agentOptions(['--raw', '/x', '--clock', 'real', '--tag', '../evil1']), /--tag/);
    assert.throws(() => agentOptions(['--raw', '/x', '--clock', 'real', '--tag', 'abcdefgh', '--hosts', 'jails']), /--hosts/);
  });
});

describe('the agent when the disk fills up', function () {
  this.timeout(300_000);
  before(needsGuest);

  it('ends the run with a clear failure instead of hanging', async () => {
    const flows = Array.from({ length: 200 }, (_, i) => ({ bytes: 1000, startNs: i * 20e6, srcPort: 20000 + i }));
    const options = { rateBps: 20e6, rttNs: 10e6, queue: 'pfifo limit 1000', warmupNs: 1 * s, durationNs: 9 * s, flows };
    const { stdout, stderr } = await runInGuest(new URL('../testing/traffic.guest.js', import.meta.url), { args: [JSON.stringify(options), '96k'], memoryMiB: 1024 });
    const { code, files } = JSON.parse(stdout) as { code: number; files: Readonly<Record<string, string>> };
    assert.equal(code, 1);
    assert.match(stderr, /disk-full: the disk that holds .* is full \(ENOSPC\)/);
    assert.ok(!files['agent.jsonl']!.includes('"done"'));
    const whole = files['flows.jsonl']!.split('\n').slice(0, -1).map((line) => JSON.parse(line) as FlowRow);
    assert.ok(whole.length > 10, 'what fitted is kept');
  });
});

describe('the check that a host kept real time', () => {
  const idle = parseHostTime('cpu  100 0 100 800 0 0 0 0 0 0\n', '00000001 00000000 00000000 0 0\n');
  it('reads steal time and used-up packet budgets', () => {
    const now = parseHostTime('cpu  200 0 200 1500 0 0 0 100 0 0\ncpu0 1 2 3\n', '0 0 0000000a 0\n0 0 00000010 0\n');
    assert.deepEqual(now, { stealTicks: 100, allTicks: 2000, squeezes: 26 });
    const { finding } = judgeRealTime({ lateness: new Lateness(), wakeLateness: new Lateness() }, idle, now, 10);
    assert.match(finding!.message, /10\.0 % of the CPU time.*virtual time/s);
    assert.equal(finding!.level, 'invalid');
    assert.equal(finding!.rule, 'late');
  });
  const punctual = (): Lateness => {
    const lateness = new Lateness();
    for (let i = 0; i < 1000; i++) lateness.add(50_000);
    return lateness;
  };
  const told = (lateness: Lateness, wakeLateness: Lateness): string | undefined => judgeRealTime({ lateness, wakeLateness }, idle, idle, 10).finding?.message;
  it('finds a machine that wakes the agent late', () => {
    assert.equal(told(punctual(), punctual()), undefined);
    const late = punctual();
    for (let i = 0; i < 20; i++) late.add(2 * realTimeBounds.lateP99Ns);
    assert.match(told(punctual(), late)!, /1 of 100 waits for a timer ended 2\.00 ms late/);
  });
  it('lets the agent be busy for as long as shifts no packet by more than a target, and no longer', () => {
    const busy = punctual();
    for (let i = 0; i < 20; i++) busy.add(2 * realTimeBounds.lateP99Ns);
    assert.equal(told(busy, punctual()), undefined);
    for (let i = 0; i < 20; i++) busy.add(2 * realTimeBounds.timerP99Ns);
    assert.match(told(busy, punctual())!, /1 of 100 timers ran 10\.00 ms late/);
  });
  it('finds one timer that is far too late', () => {
    const once = punctual();
    once.add(2 * realTimeBounds.lateMaxNs, 3e9);
    assert.match(told(once, punctual())!, /a timer ran 100\.00 ms late, 3\.00 s into the run/);
  });
});
