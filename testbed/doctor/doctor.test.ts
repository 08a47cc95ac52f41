/** `testbed doctor`, on whatever machine this is. */

import assert from 'node:assert/strict';
import { render } from '../cli/doctor.js';
import { diagnose } from './doctor.js';
import { rmSync } from 'node:fs';
import * as path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('testbed doctor', () => {
  it('says of every machine whether it is usable, and if not why and what to do', async () => {
    const diagnosis = await diagnose();
    const names = diagnosis.machines.map(({ name }) => name);
    for (const name of ['local', 'uml:6.12', 'uml:7.3', 'uml:debian']) assert.ok(names.includes(name), name);
    for (const machine of diagnosis.machines) assert.ok(machine.usable || (machine.notes.length > 0 && machine.fix !== undefined), machine.name);
    for (const program of diagnosis.programs) assert.equal(program.path === null && program.fix === null, false, `${program.name} is missing without a fix`);
    assert.deepEqual(JSON.parse(JSON.stringify(diagnosis)), diagnosis);
    const text = render(diagnosis);
    for (const name of [...names, 'iperf3', 'flent', 'docker socket']) assert.ok(text.includes(name), name);
  });

  it('says of hosts in containers whether an engine answers, and what to do where none does', async () => {
    const before = process.env['DOCKER_HOST'];
    const empty = temporaryFolder('testbed-doctor-');
    try {
      process.env['DOCKER_HOST'] = `unix://${path.join(empty, 'nobody')}`;
      const diagnosis = await diagnose();
      assert.deepEqual([diagnosis.containers.engine, diagnosis.containers.image], [null, null]);
      assert.match(stripVTControlCharacters(render(diagnosis)).replaceAll(/\s+/g, ' '), /Hosts in containers .*does not answer at .*nobody/);
    } finally {
      if (before === undefined) delete process.env['DOCKER_HOST'];
      else process.env['DOCKER_HOST'] = before;
      rmSync(empty, { recursive: true });
    }
  });

  it('fits a terminal of 80 columns, but for what is to be copied', () => {
    const words = 'one two three four five six seven eight nine ten '.repeat(4).trim();
    const note = 'add non-free to the Components of its apt source and run apt-get update first';
    const text = stripVTControlCharacters(render({
      system: { os: 'Some Linux 12 (with a long name)', kernel: '6.12.100-some-flavour-amd64', node: 'v20.0.0', cores: 64, memoryGiB: 256, root: false, cache: '/home/user/.cache/testbed', cacheFreeGiB: 100 },
      machines: [{ name: 'local', usable: false, kernel: null, clocks: [], notes: [words, words], fix: 'testbed fix' }, { name: 'uml:6.12', usable: true, kernel: '6.12', clocks: ['virtual', 'real'], notes: [words], fix: null }],
      programs: [{ name: 'netperf', path: null, for: words, fix: `apt-get install netperf (${note})`, required: true }],
      containers: { socket: null, engine: null, image: null, note: words, fix: 'apt-get install docker.io' },
      problems: [{ what: words, fix: `apt-get install netperf (${note})` }],
    }));
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    const flowing = text.replaceAll(/\s+/g, ' ');
    assert.equal(flowing.split(words).length - 1, 6, 'every word is there');
    assert.equal(flowing.split(`→ apt-get install netperf (${note})`).length - 1, 2);
    const long = `apt-get install ${'package-with-a-name '.repeat(8).trim()}`;
    const { system, machines, programs, containers } = { system: { os: 'Linux', kernel: '6', node: 'v20', cores: 1, memoryGiB: 1, root: true, cache: '/c', cacheFreeGiB: 1 }, machines: [], programs: [], containers: { socket: null, engine: null, image: null, note: 'none', fix: null } };
    assert.ok(stripVTControlCharacters(render({ system, machines, programs, containers, problems: [{ what: 'lacks', fix: long }] })).split('\n').includes(`      → ${long}`), 'a command is one line');
  });

  it('names the kernel to build for a user who has none', async () => {
    const empty = temporaryFolder('testbed-doctor-');
    const before = process.env['TESTBED_CACHE'];
    process.env['TESTBED_CACHE'] = empty;
    try {
      const { machines, problems } = await diagnose();
      assert.equal(machines.find(({ name }) => name === 'uml:6.12')!.usable, false);
      assert.match(problems.find(({ what }) => what === 'no kernel for virtual time')!.fix, /testbed kernel build/);
    } finally {
      if (before === undefined) delete process.env['TESTBED_CACHE'];
      else process.env['TESTBED_CACHE'] = before;
      rmSync(empty, { recursive: true });
    }
  });
});
