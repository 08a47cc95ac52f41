/** The machine uml, with a stand-in agent in real guests, in virtual time. Skipped, with the reason, where no kernel is built. */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { companions } from '../../kernel/preload.js';
import { findProgram, projectFile, projectRoot } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import type { Plan } from '../plan/plan.js';
import { emptyPlan, oneQueue, request, runFolder } from './fixtures/plan.js';
import { Uml, type UmlOptions } from './uml.js';
import { eventually } from '../testing/command.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

const agent = projectFile('testbed', 'machines', 'fixtures', 'agent.mjs');
const folders: string[] = [];

async function runNamed(name: string, options: UmlOptions & { version?: string; clock?: 'virtual' | 'real'; plan?: Partial<Plan>; signal?: AbortSignal } = {}) {
  const asked = request(emptyPlan({ name, ...options.plan }), { clock: options.clock ?? 'virtual', ...(options.signal ? { signal: options.signal } : {}) });
  folders.push(asked.runDir);
  const outcome = await new Uml(options.version ?? '', { agent, ...options }).run(asked);
  return { outcome, lines: asked.lines, raw: (file: string) => readFileSync(path.join(asked.runDir, 'raw', file), 'utf8'), runDir: asked.runDir };
}

/** Processes (zombies aside) whose working folder is below `folder` or whose environment names it. */
function processesOf(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(folder) && !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
      return false;
    }
  });
}

describe('a kernel that does not boot', () => {
  it('is a message with what it said and its log', async function () {
    if (findProgram('gcc') === null) return this.skip();
    const place = temporaryFolder('testbed-noboot-');
    const before = process.env['TESTBED_CACHE'];
    process.env['TESTBED_CACHE'] = path.join(place, 'cache');
    try {
      const folder = path.join(place, 'cache', 'kernels', 'source-mine');
      mkdirSync(folder, { recursive: true });
      writeFileSync(path.join(folder, 'linux'), '#!/bin/sh\necho "VFS: Unable to mount root fs"\nexit 6\n', { mode: 0o755 });
      writeFileSync(path.join(folder, 'kernel.json'), JSON.stringify({ schema: 1, name: 'mine', release: '9.9.1', package: null, source: '/s', configHash: '', options: [], notAsAsked: [], seccomp: false, virtualTime: true, compiler: '', builtAt: '', buildSeconds: 0, makeLines: 1 }));
      const asked = request(emptyPlan());
      const outcome = await new Uml('mine', { agent }).run(asked);
      assert.match(outcome.error!, /^uml:mine: the kernel did not boot \(exit code 6\): VFS: Unable to mount root fs; log: .*console\.log$/);
      rmSync(path.join(folder, 'linux'));
      assert.match((await new Uml('mine', { agent }).run(asked)).error!, /cannot be started: .*ENOENT/);
      rmSync(asked.runDir, { recursive: true });
    } finally {
      if (before === undefined) delete process.env['TESTBED_CACHE'];
      else process.env['TESTBED_CACHE'] = before;
      rmSync(place, { recursive: true });
    }
  });
});

describe('the machine uml', function () {
  this.timeout(180_000);
  before(function () {
    if (!selectKernel('').kernel) {
      console.log('      skipped: no UML kernel is built (testbed kernel build)');
      this.skip();
    }
  });
  after(() => { for (const folder of folders) rmSync(folder, { recursive: true, force: true }); });

  it('runs the agent and passes its lines on, each once', async () => {
    const { outcome, lines } = await runNamed('empty');
    assert.deepEqual(outcome, { status: 'complete' });
    assert.deepEqual(lines, [{ type: 'progress', phase: 'setup', tNs: 0 }, { type: 'progress', phase: 'done', tNs: 1e9 }]);
  });

  it('shows a guest the same clock, random numbers, environment and devices in every run of a seed', async () => {
    const [first, second, other] = [await runNamed('observe', { plan: { seed: 7 } }), await runNamed('observe', { plan: { seed: 7 } }), await runNamed('observe', { plan: { seed: 8 } })];
    assert.equal(first.raw('observed.json'), second.raw('observed.json'));
    const observed = JSON.parse(first.raw('observed.json')) as { env: Record<string, string>; random: string; tmp: number; writeBack: readonly string[] };
    assert.deepEqual(observed.writeBack, ['100', '100'], 'what is recorded reaches the host each second');
    assert.deepEqual(Object.keys(observed.env).sort(), ['HOME', 'LANG', 'PATH', 'TMPDIR', 'TZ', 'UV_THREADPOOL_SIZE']);
    assert.equal(observed.tmp, 0);
    assert.notEqual(observed.random, (JSON.parse(other.raw('observed.json')) as { random: string }).random);
  });

  it('has namespaces, shapers, AQMs and netem', async () => {
    const { outcome, raw } = await runNamed('queues');
    assert.equal(outcome.status, 'complete', outcome.error);
    for (const kind of ['htb 1:', 'fq_codel', 'netem']) assert.match(raw('queues.txt'), new RegExp(`qdisc ${kind}`));
  });

  it('runs in real time too', async () => {
    const { outcome, raw } = await runNamed('queues', { clock: 'real' });
    assert.equal(outcome.status, 'complete', outcome.error);
    assert.match(raw('queues.txt'), /qdisc netem/);
  });

  it('runs guests side by side without one changing what another sees', async () => {
    const alone = await runNamed('observe', { plan: { seed: 3 } });
    const together = await Promise.all([3, 3].map((seed) => runNamed('observe', { plan: { seed } })));
    for (const each of together) assert.equal(each.raw('observed.json'), alone.raw('observed.json'));
  });

  it('runs from a folder under /tmp with blanks and commas in its name, and Node sees the project there', async () => {
    const place = temporaryFolder('a place, ');
    folders.push(place);
    cpSync(agent, path.join(place, 'agent.mjs'));
    const { outcome } = await runNamed('empty', { agent: path.join(place, 'agent.mjs') });
    assert.equal(outcome.status, 'complete', outcome.error);
  });

  it('lets a guest write nowhere on the host but in the raw folder', async () => {
    const outside = path.join(temporaryFolder('outside-', path.join(projectRoot, 'dist')), 'file');
    folders.push(path.dirname(outside));
    writeFileSync(outside, '');
    const { raw } = await runNamed('write-host', { plan: { outside } as Partial<Plan> });
    // A checkout below /tmp, which is the guest's own there, is not even seen by its path.
    assert.match(raw('answer.txt'), outside.startsWith('/tmp/') ? /^ENOENT/ : /^EROFS EROFS/);
    assert.equal(readFileSync(outside, 'utf8'), '');
  });

  it('reports the agent\'s own failure in its words, with the log', async () => {
    const { outcome } = await runNamed('fail');
    assert.equal(outcome.status, 'failed');
    assert.match(outcome.error!, /port 5201 is taken.*console\.log/s);
  });

  it('reports an agent that throws by its error', async () => {
    const { outcome } = await runNamed('throw');
    assert.match(outcome.error!, /exit code 1.*a bug in the agent.*console\.log/s);
  });

  it('ends a guest whose program waits for ever, and says so', async () => {
    const { outcome, runDir } = await runNamed('silent', { watchdogMs: 4000 });
    assert.match(outcome.error!, /no progress for 4 s of wall time/);
    assert.deepEqual(processesOf(path.basename(runDir)), []);
  });

  it('ends a guest that busy-waits in virtual time', async () => {
    const { outcome } = await runNamed('busy', { watchdogMs: 4000 });
    assert.match(outcome.error!, /no progress for 4 s/);
  });

  it('names a guest that runs out of memory', async () => {
    const { outcome } = await runNamed('memory', { memoryBytes: 160 * 2 ** 20 });
    assert.match(outcome.error!, /ran out of its 0\.16 GiB of memory/);
  });

  it('refuses a memory no guest boots with, before it starts', async () => {
    const { outcome } = await runNamed('empty', { memoryBytes: 2 ** 20 });
    assert.match(outcome.error!, /give it 0\.13 GiB or more/);
  });

  it('reports a kernel panic in the kernel\'s words', async function () {
    if (!selectKernel('').kernel!.has(['MAGIC_SYSRQ'])) this.skip();
    const { outcome } = await runNamed('panic', { watchdogMs: 20_000 });
    assert.match(outcome.error!, /the kernel panicked.*console\.log/s);
  });

  /** With a temporary folder of its own, which then marks every process and boot folder of the run. */
  async function inOwnPlace(call: (place: string) => Promise<void>): Promise<void> {
    const place = temporaryFolder('testbed-place-');
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = place;
    try {
      await call(place);
    } finally {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
      rmSync(place, { recursive: true, force: true });
    }
  }

  it('stops at once when aborted, and leaves no process and no boot folder', async () => {
    await inOwnPlace(async (place) => {
      const controller = new AbortController();
      const asked = request(emptyPlan({ name: 'silent' }), { signal: controller.signal, onLine: () => {
        assert.equal(bootFolders(place).length, 1);
        assert.ok(processesOf(place).length > 0);
        controller.abort();
      } });
      assert.deepEqual(await new Uml('', { agent }).run(asked), { status: 'aborted' });
      assert.deepEqual(bootFolders(place), []);
      await eventually('no process is left', () => processesOf(place).length === 0);
      assert.equal(existsSync(path.join(asked.runDir, 'raw', 'agent.jsonl')), true);
    });
  });

  for (const version of ['', '7.3', 'debian']) {
    it(`leaves no process of ${version || 'the default kernel'} when the process that started it is killed with -9`, async function () {
      const { kernel } = selectKernel(version);
      if (!kernel) {
        console.log(`        skipped: uml:${version} is not there`);
        return this.skip();
      }
      const runDir = runFolder(emptyPlan({ name: 'silent' }));
      folders.push(runDir);
      const temporary = temporaryFolder('testbed-kill-');
      folders.push(temporary);
      const script = `
        import { Uml } from ${JSON.stringify(projectFile('dist', 'testbed', 'machines', 'uml.js'))};
        import { emptyPlan } from ${JSON.stringify(projectFile('dist', 'testbed', 'machines', 'fixtures', 'plan.js'))};
        await new Uml(${JSON.stringify(version)}, { agent: ${JSON.stringify(agent)} }).run({ plan: emptyPlan({ name: 'silent' }), runDir: ${JSON.stringify(runDir)},
          clock: ${JSON.stringify(kernel.virtualTime ? 'virtual' : 'real')}, hosts: 'netns', tag: 'abcd1234', signal: new AbortController().signal, onLine: () => undefined });`;
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit', env: { ...process.env, TMPDIR: temporary } });
      await eventually('the agent starts', () => existsSync(path.join(runDir, 'raw', 'agent.jsonl')));
      assert.ok(processesOf(temporary).length > 1);
      child.kill('SIGKILL');
      await eventually('every process of the guest is gone', () => processesOf(temporary).length === 0);
    });
  }

  it('writes lines to the host as the agent writes them: kill -9 of the kernel loses none', async () => {
    await inOwnPlace(async (place) => {
      const asked = request(emptyPlan({ name: 'silent' }));
      const outcome = await new Uml('', { agent }).run({ ...asked, onLine: (line) => {
        asked.onLine(line);
        for (const pid of processesOf(place)) {
          try { process.kill(Number(pid), 'SIGKILL'); } catch { /* went with its parent */ }
        }
      } });
      assert.equal(outcome.status, 'failed');
      assert.match(outcome.error!, /killed by SIGKILL/);
      assert.equal(asked.lines.length, 1);
    });
  });

  it('runs Debian\'s ready kernel in real time', async function () {
    if (!selectKernel('debian').kernel) {
      console.log('        skipped: the package user-mode-linux is not installed');
      return this.skip();
    }
    if (findProgram('modprobe') === null) {
      console.log("        skipped: its queue disciplines are modules, and modprobe (package kmod) is not installed");
      return this.skip();
    }
    const link = oneQueue({ kind: 'fq_codel', in: 'kernel', params: {} }, { wire: [{ delayNs: 1e6, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1000 }] });
    const { outcome, raw } = await runNamed('queues', { version: 'debian', clock: 'real', plan: { links: [link] } });
    assert.equal(outcome.status, 'complete', outcome.error);
    assert.match(raw('queues.txt'), /fq_codel/);
    assert.deepEqual((await new Uml('debian').check(emptyPlan(), 'virtual')).map(({ what }) => what), ['virtual time in uml:debian']);
  });

  it('needs no root: an ordinary user runs the same and gets the same bytes', async function () {
    const setpriv = findProgram('setpriv');
    const nobody = 65534;
    if (process.getuid?.() !== 0 || setpriv === null) {
      console.log('        skipped: this is not root, so every other test here has shown it already');
      return this.skip();
    }
    const place = temporaryFolder('testbed-user-');
    folders.push(place);
    chmodSync(place, 0o755);
    // Everything an ordinary user may read: kernel and companions in a cache of theirs, the compiled code by its path.
    const kernel = selectKernel('').kernel!;
    cpSync(path.dirname(kernel.binary), path.join(place, 'cache', 'kernels', path.basename(path.dirname(kernel.binary))), { recursive: true });
    cpSync(path.dirname((await companions()).preload), path.join(place, 'cache', 'companions', path.basename(path.dirname((await companions()).preload))), { recursive: true });
    const asked = runFolder(emptyPlan({ name: 'observe', seed: 7 }), place);
    for (const each of [path.join(place, 'cache'), asked, path.join(asked, 'raw')]) chownSync(each, nobody, nobody);
    mkdirSync(path.join(place, 'home'));
    const script = `
      import { Uml } from ${JSON.stringify(projectFile('dist', 'testbed', 'machines', 'uml.js'))};
      import { emptyPlan } from ${JSON.stringify(projectFile('dist', 'testbed', 'machines', 'fixtures', 'plan.js'))};
      console.log(JSON.stringify(await new Uml('', { agent: ${JSON.stringify(agent)} }).run({ plan: emptyPlan({ name: 'observe', seed: 7 }), runDir: ${JSON.stringify(asked)},
        clock: 'virtual', hosts: 'netns', tag: 'abcd1234', signal: new AbortController().signal, onLine: () => undefined })));`;
    const result = spawnSync(setpriv, [`--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups', '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all', process.execPath, '--input-type=module', '-e', script],
      { encoding: 'utf8', env: { PATH: process.env['PATH']!, HOME: path.join(place, 'home'), TESTBED_CACHE: path.join(place, 'cache') }, cwd: '/' });
    assert.equal(result.stdout.trim(), '{"status":"complete"}', result.stderr + result.stdout);
    const asRoot = await runNamed('observe', { plan: { seed: 7 } });
    assert.equal(readFileSync(path.join(asked, 'raw', 'observed.json'), 'utf8'), asRoot.raw('observed.json'));
  });

  it('finds before anything starts what the kernel, the clock or the host lacks, and says where it is to be had', async () => {
    const plan = emptyPlan({ links: [oneQueue({ kind: 'no_such_queue', in: 'kernel', params: {} })] });
    const missing = await new Uml('').check(plan, 'virtual');
    assert.equal(missing.length, 1);
    assert.match(missing[0]!.what, /^qdisc no_such_queue \(queue of BL\) in kernel 6\./);
    const dual = await new Uml('').check(emptyPlan({ links: [oneQueue({ kind: 'dualpi2', in: 'kernel', params: {} })] }), 'virtual');
    assert.match(dual[0]!.fix, /6\.17.*uml:7\.3/);
    assert.deepEqual(await new Uml('').check(emptyPlan({ links: [oneQueue({ kind: 'fq_codel', in: 'kernel', params: {} })] }), 'virtual'), []);
  });

  it('says how to get a kernel that is not there', async () => {
    const missing = await new Uml('mine').check(emptyPlan(), 'virtual');
    assert.match(missing[0]!.what, /UML kernel mine/);
    assert.match(missing[0]!.fix, /--source DIR --name mine/);
    assert.equal((await new Uml('mine').run(request(emptyPlan()))).status, 'failed');
  });
});

const bootFolders = (place: string): string[] => readdirSync(place).filter((entry) => entry.startsWith('testbed-boot-')).sort();
