/** What is chosen on the host for a guest: memory, cores, boot folders, packages. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { familyOf, howToInstall, isListed, neededPrograms } from '../testbed/doctor/packages.js';
import { deadBootFolders, makeBootFolder } from './boot-folder.js';
import { buildTools } from './build.js';
import { parseCoreList, takeCore } from './cores.js';
import { memoryFolder, mountOf, parseMounts, whyNotHere } from './memory.js';
import { projectFile } from './project.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

const mountinfo = [
  '21 1 254:0 / / rw,relatime - ext4 /dev/vda rw',
  '22 21 0:20 / /dev/shm rw,nosuid,nodev,noexec - tmpfs tmpfs rw,size=65536k',
  '23 21 0:21 / /mnt/a\\040b rw,noexec - tmpfs tmpfs rw',
  '24 21 0:22 / /mnt/a\\040b rw - tmpfs tmpfs rw',
].join('\n');

describe('a guest\'s memory', () => {
  it('is not kept on a file system mounted noexec, and the last mount on a point counts', () => {
    const mounts = parseMounts(mountinfo);
    assert.equal(mountOf('/dev/shm', mounts)!.options.includes('noexec'), true);
    assert.equal(mountOf('/dev/shmem', mounts)!.point, '/');
    assert.equal(mountOf('/mnt/a b/c', mounts)!.options.includes('noexec'), false);
    if (existsSync('/dev/shm')) assert.equal(whyNotHere('/dev/shm', 1, mounts), 'mounted noexec');
  });

  it('goes to the first folder that can hold it, and the refusal says what is wrong with each', () => {
    const folder = temporaryFolder('testbed-memory-');
    try {
      assert.equal(memoryFolder(4096, ['/nowhere', folder]), folder);
      assert.throws(() => memoryFolder(1e18, ['/nowhere', folder]), /\/nowhere: does not exist; .*MiB free\); set TMPDIR/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('cores', () => {
  it('are read from the kernel\'s list', () => {
    assert.deepEqual(parseCoreList('0-2,8\n'), [0, 1, 2, 8]);
  });
  it('are different for guests at once, as far as there are cores', async () => {
    const taken = [];
    for (let i = 0; i < os.availableParallelism(); i++) taken.push(await takeCore());
    assert.equal(new Set(taken.map(({ core }) => core)).size, taken.length);
    for (const { release } of taken) release();
    const wanted = await takeCore(0);
    assert.equal(wanted.core, 0);
    wanted.release();
  });
});

describe('boot folders', () => {
  it('are dead when nobody holds them, and only then; a folder that is merely called so is nobody\'s to remove', () => {
    const place = temporaryFolder('testbed-boots-');
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = place;
    try {
      const old = new Date(Date.now() - 60_000);
      const held = makeBootFolder();
      const abandoned = path.join(place, 'testbed-boot-dead00');
      const foreign = path.join(place, 'testbed-boot-theirs');
      for (const folder of [abandoned, foreign]) mkdirSync(folder);
      writeFileSync(path.join(abandoned, '.testbed-lock'), '');
      for (const folder of [held.folder, abandoned, foreign]) utimesSync(folder, old, old);
      const dead = deadBootFolders().filter(({ folder }) => folder.startsWith(place));
      assert.deepEqual(dead.map(({ folder }) => folder), [abandoned]);
      dead[0]!.remove();
      assert.equal(existsSync(abandoned), false);
      assert.equal(existsSync(foreign), true);
      held.remove();
      assert.equal(existsSync(held.folder), false);
    } finally {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
      rmSync(place, { recursive: true });
    }
  });
});

describe('packages', () => {
  it('are named for the distribution, each once', () => {
    assert.equal(familyOf('ID=ubuntu\nID_LIKE=debian\n'), 'debian');
    assert.equal(familyOf('NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'), 'fedora');
    assert.equal(familyOf('ID=alpine'), 'other');
    assert.equal(howToInstall(['ip', 'tc', 'iperf3'], 'debian'), 'apt-get install --no-install-recommends iproute2 iperf3');
    assert.equal(howToInstall(['ip', 'tc'], 'fedora'), 'dnf install iproute iproute-tc');
    assert.match(howToInstall(['bc'], 'other'), /bc \(Debian, Ubuntu\), bc \(Fedora\) or bc \(Arch\)/);
  });

  it('are known of every program that the code starts or looks for', () => {
    // coreutils and libc, what goes by another name (cc: gcc; umount: mount), and Debian's own.
    const everywhere = ['sh', 'sleep', 'timeout', 'true', 'stty', 'ldd', 'cc', 'umount', 'apt-get', 'apt-cache', 'dpkg-deb'];
    const unknown = new Set<string>();
    let seen = 0;
    for (const part of ['kernel', 'testbed', 'collectors', 'daemon', 'simulator', 'bench']) {
      for (const file of readdirSync(projectFile(part), { recursive: true, encoding: 'utf8' })) {
        if (!file.endsWith('.ts')) continue;
        const text = readFileSync(projectFile(part, file), 'utf8');
        // A start or a look-up by a name that stands there, or a list of names of which those that are missing are filtered.
        const names = [...text.matchAll(/\b(?:findProgram|spawn|spawnSync|execFile|execFileSync|execa)\('([^'/]+)'/g)].map((match) => match[1]!);
        for (const match of text.matchAll(/\[('[^\]]+')[^\]\n]*\]\.filter\(\(\w+\) => findProgram\(/g)) names.push(...[...match[1]!.matchAll(/'([^']+)'/g)].map((each) => each[1]!));
        seen += names.length;
        for (const name of names) if (!everywhere.includes(name) && !isListed(name)) unknown.add(`${name} in ${part}/${file}`);
      }
    }
    assert.ok(seen > 40, `${seen} found`);
    assert.deepEqual([...unknown], []);
    for (const name of buildTools) assert.ok(isListed(name), name);
    assert.deepEqual(buildTools.filter((name) => !neededPrograms('usually').includes(name)), [], 'the set-up installs what it builds the kernel with');
  });
});
