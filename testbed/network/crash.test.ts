/** Kill −9 at any step of set-up or tear-down, then clean: the machine is what it was. On this host's own kernel; needs root. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { clean } from '../journal/clean.js';
import { allPids, networkNamespaceOf } from '../journal/processes.js';
import { Local } from '../machines/local.js';
import { dumbbell } from '../testing/plans.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

const child = fileURLToPath(new URL('./crash.child.js', import.meta.url));
const own = networkNamespaceOf(process.pid);

/** Everything a crash could leave, of this machine. Other runs on it have other tags. */
function machine(tag: string): Record<string, unknown> {
  const list = (path: string): string[] => (existsSync(path) ? readdirSync(path).filter((name) => name.startsWith(tag)).sort() : []);
  return {
    namespaces: list('/run/netns'),
    mounts: readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((line) => line.includes(tag)).length,
    links: execFileSync('ip', ['-o', 'link'], { encoding: 'utf8' }).split('\n').map((line) => line.split(':')[1]?.trim()).sort(),
    qdiscs: execFileSync('tc', ['qdisc', 'show'], { encoding: 'utf8' }).split('\n').sort(),
    processes: allPids().filter((pid) => networkNamespaceOf(pid) !== own && commandOf(pid).includes('sleep 600')).length,
    addresses: execFileSync('ip', ['-o', 'addr'], { encoding: 'utf8' }).split('\n').map((line) => line.split(' ').slice(0, 8).join(' ')).sort(),
  };
}
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

describe('A run killed in the middle', function () {
  this.timeout(300_000);
  let folder = '';
  before(async function () {
    const missing = process.getuid?.() === 0 ? await new Local().check(dumbbell(), 'real') : [{ what: 'root' }];
    if (missing.length > 0) {
      console.log(`      skipped: this machine lacks ${missing.map(({ what }) => what).join(', ')}`);
      this.skip();
    }
  });
  beforeEach(() => { folder = temporaryFolder('testbed-crash-test-'); });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('is cleaned away exactly, wherever it was killed, and what is not its own stays', () => {
    const tag = `c${process.pid.toString(36).padStart(7, '0').slice(-7)}`;
    const foreign = `${tag}-R1-of-another`;
    execFileSync('ip', ['netns', 'add', foreign]);
    try {
      const whole = spawnSync(process.execPath, [child, tag, folder, '0'], { encoding: 'utf8' });
      assert.equal(whole.status, 0, whole.stderr);
      const steps = Number(/after (\d+) steps/.exec(whole.stdout)?.[1]);
      assert.ok(steps > 30, whole.stdout);
      const before = machine(tag);
      assert.deepEqual(before['namespaces'], [foreign]);
      let leftSomething = 0;
      for (let killAt = 1; killAt <= steps; killAt += Math.max(1, Math.floor(steps / 14))) {
        const run = spawnSync(process.execPath, [child, tag, folder, String(killAt)], { encoding: 'utf8' });
        assert.equal(run.signal, 'SIGKILL', `step ${killAt}: ${run.stderr}`);
        if (JSON.stringify(machine(tag)) !== JSON.stringify(before)) leftSomething++;
        const report = clean({ folder });
        assert.deepEqual(report.failed, [], `step ${killAt}`);
        assert.deepEqual(machine(tag), before, `killed at step ${killAt}`);
        assert.deepEqual(readdirSync(folder), [], `killed at step ${killAt}: its journal is gone`);
      }
      assert.ok(leftSomething > 7, 'most crashes left something to clean');
    } finally {
      execFileSync('ip', ['netns', 'del', foreign]);
    }
  });
});
