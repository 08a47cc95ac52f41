/** Faults of the host: a full disk, a kernel that does not boot, too little memory, a poor TMPDIR. Always a clear message and a non-zero exit, never a hang, and nothing left behind. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { selectKernel } from '../../kernel/select.js';
import { eventually, needsUml, Place, runJson, skip } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { compiled, runPlan } from './altered.js';

describe('a fault of the host', function () {
  this.timeout(180_000);
  before(needsUml);
  let place: Place;
  const mounts: string[] = [];
  beforeEach(() => { place = new Place(); });
  afterEach(() => {
    for (const mount of mounts.splice(0)) execFileSync('umount', ['-l', mount]);
    place.remove();
  });
  const small = (context: Mocha.Context, name: string, options: string): string => {
    if (process.getuid?.() !== 0) skip(context, 'mounting a small file system needs root');
    fs.mkdirSync(place.path(name));
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', place.path(name)]);
    mounts.push(place.path(name));
    return place.path(name);
  };

  describe('a full disk', () => {
    it('in traffic ends the run with a message that names it, and run.json says so', async function () {
      const out = small(this, 'small', 'size=3m');
      const { code, stderr } = await place.testbed(['run', place.write('a.yaml', dumbbellText({ measure: '{ warmup: 1s, duration: 600s }' })), '--machine', 'uml', '--no-report', '--out', out]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /disk .*full|full \(ENOSPC\)|no space left/i);
      assert.doesNotMatch(stderr, /This is a bug|\/run\/testbed/, 'the folder as the host calls it');
      assert.notEqual(runJson(place.run(out)).status, 'complete');
      await place.assertNothingLeft();
    });

    it('in analysis ends the run with a message that names it', async function () {
      const out = small(this, 'small', 'size=16m');
      const inside = new Place('run-', out);
      const result = await runPlan(inside, compiled(place, dumbbellText()), { onProgress: (() => {
        let filled = false;
        return () => {
          if (filled || !fs.existsSync(path.join(out, path.basename(inside.folder)))) return;
          const [run] = fs.readdirSync(inside.folder);
          const lines = run === undefined ? '' : path.join(inside.folder, run, 'raw', 'agent.jsonl');
          if (lines === '' || !fs.existsSync(lines) || !fs.readFileSync(lines, 'utf8').includes('"done"')) return;
          filled = true;
          try {
            for (let i = 0; ; i++) fs.writeFileSync(path.join(out, `filler-${i}`), Buffer.alloc(65536));
          } catch {
            // full
          }
        };
      })() });
      assert.equal(result.status, 'failed');
      assert.match(result.error!, /full|ENOSPC|no space left/i);
    });
  });

  /** A cache with a kernel called `fake` beside nothing else. */
  const fakeKernel = (binary: string | Buffer): { readonly TESTBED_CACHE: string } => {
    const folder = path.join('cache', 'kernels', 'source-fake');
    place.write(path.join(folder, 'kernel.json'), JSON.stringify({ schema: 1, name: 'fake', release: '9.9.1', package: null, source: '/s', configHash: '', options: allOptions(), notAsAsked: [], seccomp: false, virtualTime: true, compiler: '', builtAt: '', buildSeconds: 0, makeLines: 1 }));
    fs.writeFileSync(place.path(folder, 'linux'), binary, { mode: 0o755 });
    return { TESTBED_CACHE: place.path('cache') };
  };
  const allOptions = (): readonly string[] => {
    const { binary } = selectKernel('').kernel!;
    return (JSON.parse(fs.readFileSync(path.join(path.dirname(binary), 'kernel.json'), 'utf8')) as { options: string[] }).options;
  };

  describe('a kernel that does not boot', () => {
    const boots: readonly (readonly [string, () => string | Buffer, RegExp])[] = [
      ['that ends at once', () => '#!/bin/sh\necho "VFS: Unable to mount root fs"\nexit 6\n', /the kernel did not boot \(exit code 6\): VFS: Unable to mount root fs; log: .*console\.log/],
      ['that panics', () => '#!/bin/sh\necho "Kernel panic - not syncing: No working init found."\nkill -ABRT $$\n', /the kernel panicked at boot: No working init found/],
      ['that is cut off', () => fs.readFileSync(selectKernel('').kernel!.binary).subarray(0, 100_000), /uml:fake: the kernel|cannot be started/],
      ['that is empty', () => '', /uml:fake: the kernel|cannot be started/],
    ];
    for (const [name, binary, words] of boots) {
      it(`${name} is a message with its log`, async () => {
        const { code, stderr } = await place.testbed(['run', place.write('a.yaml', dumbbellText()), '--machine', 'uml:fake', '--no-report'], { env: fakeKernel(binary()) });
        assert.equal(code, 1, stderr);
        assert.match(stderr, words);
        assert.doesNotMatch(stderr, /^\s+at /m);
        assert.equal(runJson(place.run()).status, 'failed');
        await place.assertNothingLeft();
      });
    }

    it('that hangs is ended by the watchdog, and an interrupt ends it at once', async () => {
      const env = fakeKernel('#!/bin/sh\nexec sleep 1000\n');
      const started = place.start(['run', place.write('a.yaml', dumbbellText()), '--machine', 'uml:fake', '--no-report'], { env });
      await eventually('it hangs', () => place.processes().some(({ command }) => command.includes('sleep 1000')));
      started.child.kill('SIGINT');
      assert.equal((await started.ended).code, 130);
      await place.assertNothingLeft();
      const before = process.env['TESTBED_CACHE'];
      process.env['TESTBED_CACHE'] = env.TESTBED_CACHE;
      try {
        const result = await runPlan(place, compiled(place, dumbbellText()), { machine: 'uml:fake', watchdogMs: 2000 });
        assert.equal(result.status, 'failed');
        assert.match(result.error!, /did not start its agent within 2 s of wall time/);
      } finally {
        if (before === undefined) delete process.env['TESTBED_CACHE'];
        else process.env['TESTBED_CACHE'] = before;
      }
    });
  });

  describe('memory', () => {
    it('too small for the scenario fails the run and says to give more', async () => {
      const result = await runPlan(place, compiled(place, dumbbellText({ pairs: 150 })), { memoryBytes: 128 * 2 ** 20, watchdogMs: 8000 });
      assert.equal(result.status, 'failed');
      assert.match(result.error!, /0\.13 GiB of memory.*give it more/);
    });
  });

  describe('a TMPDIR', () => {
    it('that is mounted noexec and nearly full does not matter: another place is taken', async function () {
      const tmp = small(this, 'tmp', 'size=1m,noexec');
      const { code, stderr } = await place.testbed(['run', place.write('a.yaml', dumbbellText()), '--machine', 'uml', '--no-report'], { env: { TMPDIR: tmp } });
      assert.equal(code, 0, stderr);
      assert.deepEqual(fs.readdirSync(tmp), []);
    });
  });
});
