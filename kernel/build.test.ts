/** Building kernels, with a stand-in source tree whose Makefile takes no time. Debian's own are built by set-up. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildKernel, missingBuildTools, type BuildProgress } from './build.js';
import { buildFolder, builtKernels, findKernel, kernelsFolder, lockFile, removeKernel, sweepDeadBuilds } from './cache.js';
import { configHash, notAsAsked, parseConfig } from './config.js';
import { tryLock } from './lock.js';
import { cacheFolder, findProgram, projectFile } from './project.js';
import { selectKernel } from './select.js';
import { compareVersions, kernelVersion } from './versions.js';
import { UserError } from '../testbed/errors.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

/** A kernel tree as far as the build can tell: `linux` is a script that answers --version, `compile` holds what happens while it is made. */
function tree(folder: string, compile: string): string {
  mkdirSync(path.join(folder, 'arch', 'um'), { recursive: true });
  writeFileSync(path.join(folder, 'arch', 'um', 'Makefile'), '');
  writeFileSync(path.join(folder, 'Kconfig'), '');
  const required = ['UML', 'NET_SCHED', 'NET_NS', 'HOSTFS', 'NET_SCH_HTB', 'NET_SCH_NETEM'].map((name) => `CONFIG_${name}=y`).join('\\n');
  writeFileSync(path.join(folder, 'Makefile'), [
    'tinyconfig:', `\tprintf '${required}\\n' > $(O)/.config`,
    'olddefconfig:', '\tsed -i /DUALPI2/d $(O)/.config',
    'mrproper:', '\trm -f .config',
    'linux:', ...compile.split('\n').map((line) => `\t${line}`),
    `\tprintf '#!/bin/sh\\ncase $$1 in --version) echo 9.9.1;; *) echo time-travel=inf-cpu; exit 1;; esac\\n' > $(O)/linux`, '\tchmod +x $(O)/linux', '',
  ].join('\n'));
  return folder;
}

const contents = (folder: string): string => JSON.stringify((readdirSync(folder, { recursive: true }) as string[]).sort().map((name) => [name, statSync(path.join(folder, name)).mtimeMs]));

describe('kernel builds', () => {
  let place: string;
  let before: string | undefined;
  beforeEach(function () {
    if (missingBuildTools().length > 0) {
      console.log(`      skipped: ${missingBuildTools().join(', ')} missing`);
      this.skip();
    }
    place = temporaryFolder('testbed-build-');
    before = process.env['TESTBED_CACHE'];
    process.env['TESTBED_CACHE'] = path.join(place, 'cache');
  });
  afterEach(() => {
    if (before === undefined) delete process.env['TESTBED_CACHE'];
    else process.env['TESTBED_CACHE'] = before;
    if (place) rmSync(place, { recursive: true, force: true });
  });

  const leftovers = (): string[] => (existsSync(kernelsFolder()) ? readdirSync(kernelsFolder()).filter((name) => !name.endsWith('.lock')) : []);

  it('build a tree of the user\'s out of it, record what came out, and leave the tree as it was', async () => {
    const source = tree(path.join(place, 'mine'), 'echo "  CC one.o"\necho "  CC two.o"');
    const untouched = contents(source);
    const steps: BuildProgress[] = [];
    const { kernel, built } = await buildKernel({ source }, { onProgress: (progress) => steps.push(progress) });
    assert.equal(built, true);
    assert.equal(contents(source), untouched);
    assert.deepEqual([kernel.name, kernel.release, kernel.virtualTime, kernel.seccomp, kernel.source], ['mine', '9.9.1', true, false, source]);
    assert.ok(kernel.notAsAsked.includes('NET_SCH_DUALPI2'));
    assert.ok(!kernel.notAsAsked.includes('NET_SCH_CODEL') && kernel.options.includes('NET_SCH_CODEL'));
    assert.ok(steps.some(({ step, fraction }) => step === 'compile' && fraction !== null && fraction > 0 && fraction <= 1));
    assert.deepEqual(leftovers(), ['source-mine']);
    const selected = selectKernel('mine').kernel!;
    assert.equal(selected.has(['NET_SCH_CODEL']), true);
    assert.equal(selected.has(['NET_SCH_DUALPI2']), false);
  });

  it('build again replaces the kernel of that name', async () => {
    const source = tree(path.join(place, 'mine'), 'true');
    const first = (await buildKernel({ source })).kernel.builtAt;
    const second = (await buildKernel({ source })).kernel.builtAt;
    assert.notEqual(first, second);
    assert.deepEqual(builtKernels().map(({ builtAt }) => builtAt), [second]);
    assert.deepEqual(leftovers(), ['source-mine']);
  });

  it('copy a tree that was built in place, since the kernel\'s makefiles refuse it', async () => {
    const source = tree(path.join(place, 'used'), 'test ! -e .config');
    writeFileSync(path.join(source, '.config'), 'theirs');
    await buildKernel({ source });
    assert.equal(readFileSync(path.join(source, '.config'), 'utf8'), 'theirs');
  });

  it('name the step that failed, what it said and where its log is, and leave nothing half-made', async () => {
    const source = tree(path.join(place, 'broken'), 'echo "  CC one.o"\n@echo "sch_mine.c:7: error: no such thing" >&2; exit 1');
    await assert.rejects(buildKernel({ source }), (error: Error) => {
      assert.ok(error instanceof UserError);
      assert.match(error.message, /^kernel broken: step "compile" failed \(make: exit code 2\)/);
      assert.match(error.message, /sch_mine\.c:7: error: no such thing/);
      const log = /^log: (.*)$/m.exec(error.message)![1]!;
      assert.match(readFileSync(log, 'utf8'), /sch_mine\.c:7/);
      return true;
    });
    assert.deepEqual(leftovers(), []);
  });

  it('leave nothing half-made and no process when interrupted', async () => {
    const source = tree(path.join(place, 'slow'), `echo "  CC one.o"\nsh -c 'echo $$$$ > ${place}/pid; exec sleep 1000'`);
    const controller = new AbortController();
    const building = buildKernel({ source }, { signal: controller.signal });
    while (!existsSync(path.join(place, 'pid'))) await sleep(20);
    controller.abort();
    await assert.rejects(building, /interrupted; nothing of it is left, log: .*kernel-slow\.log/);
    assert.deepEqual(leftovers(), []);
    await gone(Number(readFileSync(path.join(place, 'pid'), 'utf8')));
  });

  it('that were killed with -9 end their compiler, and are swept by the next', async function () {
    if (findProgram('setpriv') === null) return this.skip();
    const source = tree(path.join(place, 'slow'), `echo "  CC one.o"\nsh -c 'echo $$$$ > ${place}/pid; exec sleep 1000'`);
    const script = `import { buildKernel } from ${JSON.stringify(projectFile('dist', 'kernel', 'build.js'))}; await buildKernel({ source: ${JSON.stringify(source)} });`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' });
    while (!existsSync(path.join(place, 'pid'))) await sleep(20);
    assert.deepEqual(sweepDeadBuilds(), [], 'a build under way is not swept');
    const ended = once(child, 'exit'); // the lock goes with the last thread of the process, which may outlive the compiler by a moment
    child.kill('SIGKILL');
    await Promise.all([ended, gone(Number(readFileSync(path.join(place, 'pid'), 'utf8')))]);
    assert.deepEqual(leftovers(), ['.source-slow.building']);
    await buildKernel({ source: tree(path.join(place, 'other'), 'true') });
    assert.deepEqual(leftovers(), ['source-other']);
  });

  it('of one kernel wait for each other', async () => {
    const source = tree(path.join(place, 'twice'), `mkdir ${place}/busy\nsleep 0.3\nrmdir ${place}/busy`); // mkdir fails if both are at it
    const waits: string[] = [];
    const both = [0, 1].map(() => buildKernel({ source }, { onProgress: ({ step }) => { if (step.startsWith('wait')) waits.push(step); } }));
    assert.deepEqual((await Promise.all(both)).map(({ built }) => built), [true, true]);
    assert.deepEqual(waits, ['wait for another process that builds twice']);
  });

  it('refuse what is not a kernel tree, a name that is taken, and a path make cannot build in', async () => {
    await assert.rejects(buildKernel({ source: place }), /not a Linux source tree/);
    await assert.rejects(buildKernel({ source: tree(path.join(place, 'ok'), 'true'), name: 'debian' }), /kernel name "debian"/);
    await assert.rejects(buildKernel({ source: tree(path.join(place, 'ok'), 'true'), name: '../x' }), /kernel name/);
    await assert.rejects(buildKernel({ source: tree(path.join(place, 'a b'), 'true'), name: 'ok' }), /spaces/);
    await assert.rejects(buildKernel({ version: '6' }), /expected 6\.12, 7\.3, newest/);
    assert.deepEqual(leftovers(), []);
  });

  it('can be removed by name, and a name that is none lists those that are', async () => {
    await buildKernel({ source: tree(path.join(place, 'mine'), 'true') });
    assert.throws(() => removeKernel('yours'), /"yours"; built: mine/);
    const held = tryLock(lockFile('source-mine'))!;
    assert.throws(() => removeKernel('mine'), /being built by another process/);
    held.release();
    assert.deepEqual(removeKernel('mine').map(({ name }) => name), ['mine']);
    assert.deepEqual(leftovers(), []);
    assert.equal(findKernel('mine'), null);
  });

  it('in a folder whose kernel.json is broken do not count', async () => {
    const { kernel } = await buildKernel({ source: tree(path.join(place, 'mine'), 'true') });
    cpSync(kernel.folder, path.join(kernelsFolder(), 'copy'), { recursive: true });
    writeFileSync(path.join(kernelsFolder(), 'copy', 'kernel.json'), '{');
    assert.equal(builtKernels().length, 1);
    assert.equal(existsSync(buildFolder('source-mine')), false);
    assert.ok(cacheFolder().startsWith(place));
  });
});

/** Until the process is gone or a zombie; a bound on a hang only. */
async function gone(pid: number): Promise<void> {
  for (let i = 0; i < 1200; i++) {
    try {
      if (/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) return;
    } catch {
      return;
    }
    await sleep(50);
  }
  assert.fail(`process ${pid} is still there`);
}

describe('kernel configuration', () => {
  it('has one hash whatever its comments and order', () => {
    assert.equal(configHash('# a\nCONFIG_A=y\nCONFIG_B=n\n'), configHash('CONFIG_B=n\n\nCONFIG_A=y'));
    assert.notEqual(configHash('CONFIG_A=y'), configHash('CONFIG_A=n'));
  });

  it('knows what was asked and did not come out', () => {
    const asked = parseConfig('CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=n\nCONFIG_D=100');
    assert.deepEqual(notAsAsked(asked, parseConfig('CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_D=1000')), ['B', 'D']);
  });
});

describe('kernel versions', () => {
  it('are ordered by number, not by letter', () => {
    assert.deepEqual(['7.3', '6.9', '6.12', '6.12.117'].sort(compareVersions), ['6.9', '6.12', '6.12.117', '7.3']);
  });
  it('have newest for the newest tested', () => {
    assert.equal(kernelVersion('newest').package, 'linux-source-7.3');
    assert.throws(() => kernelVersion('6.12; rm'), UserError);
  });
});
