/** `testbed run --machine all`: two guests, in virtual time, and machines that cannot. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { eventually, needsUml, Place, runJson } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import type { Comparison } from '../compare/comparison.js';

describe('a run on every machine', function () {
  let place: Place;
  before(needsUml);
  beforeEach(() => { place = new Place(); });
  afterEach(() => { place.remove(); });

  const run = (config: string, ...words: readonly string[]) => {
    place.write('testbed.config.yaml', config);
    return place.testbed(['run', place.write('short.yaml', dumbbellText({ queue: '{ kind: codel }' })), '--machine', 'all', '--no-report', '--out', place.path('out'), ...words]);
  };

  it('names what cannot run it before anything starts, runs the others, and compares them', async () => {
    const { code, stdout, stderr } = await run('machines:\n  qdisc: { machine: uml }\n  gone: { machine: "uml:nowhere" }\n  userspace: { machine: uml, queues: daemon }\n');
    assert.equal(code, 3, stderr);
    assert.ok(stderr.indexOf('gone: uml:nowhere cannot run this') >= 0 && stderr.indexOf('gone: uml:nowhere') < stderr.indexOf('== qdisc'), stderr);
    assert.match(stderr, /not run: gone/);
    assert.match(stdout, /userspace against qdisc/);
    const folders = place.runs('out');
    const sets = folders.filter((dir) => fs.existsSync(path.join(dir, 'run.json')));
    assert.deepEqual(sets.map((dir) => runJson(dir).status), ['complete', 'complete']);
    const page = folders.find((dir) => path.basename(dir).startsWith('compare-'))!;
    assert.ok(fs.existsSync(path.join(page, 'comparison.html')));
    const comparison = JSON.parse(fs.readFileSync(path.join(page, 'comparison.json'), 'utf8')) as Comparison;
    assert.deepEqual(comparison.sides.map(({ label }) => label), ['qdisc', 'userspace']);
    assert.ok(comparison.differs[0]!.differences.some(({ category }) => category === 'queue'), 'kernel against daemon');
    await place.assertNothingLeft();
  });

  it('goes on when one cannot be reached, and has then nothing to compare', async () => {
    const { code, stderr } = await run('machines:\n  here: { ssh: "nobody@127.0.0.1:1" }\n  qdisc: { machine: uml }\n');
    assert.equal(code, 3, stderr);
    assert.match(stderr, /here: ssh:\/\/nobody@127\.0\.0\.1:1/);
    assert.match(stderr, /only qdisc has a run that counts/);
  });

  it('goes on when one dies in the middle, compares the others, says which is missing and why, and does not exit with 0', async () => {
    place.write('testbed.config.yaml', 'machines:\n  dies: { machine: uml }\n  qdisc: { machine: uml }\n  userspace: { machine: uml, queues: daemon }\n');
    const text = dumbbellText({ queue: '{ kind: codel }', measure: '{ warmup: 1s, duration: 20s }' });
    const started = place.start(['run', place.write('long.yaml', text), '--machine', 'all', '--out', place.path('out')]);
    const first = (): string => place.runs('out')[0] ?? '';
    const lines = (): string => (fs.existsSync(path.join(first(), 'raw', 'agent.jsonl')) ? fs.readFileSync(path.join(first(), 'raw', 'agent.jsonl'), 'utf8') : '');
    await eventually('traffic', () => lines().includes('"phase":"traffic"') || started.child.exitCode !== null);
    for (const { pid, command } of place.processes()) if (command.includes('umid=guest')) process.kill(pid, 'SIGKILL');
    const { code, stdout, stderr } = await started.ended;
    assert.equal(code, 1, stderr);
    assert.match(stderr, /dies.*killed by SIGKILL|uml:.*killed by SIGKILL/);
    assert.match(stderr, /not as it should be: dies \(exit code 1\)/);
    assert.match(stdout, /userspace against qdisc/);
    assert.match(stdout.replace(/\s+/g, ' '), /missing dies: no run that counts; see \S+/);
    const page = place.runs('out').find((dir) => path.basename(dir).startsWith('compare-'))!;
    const comparison = JSON.parse(fs.readFileSync(path.join(page, 'comparison.json'), 'utf8')) as Comparison;
    assert.deepEqual([comparison.sides.map(({ label }) => label), comparison.missing.map(({ label }) => label)], [['qdisc', 'userspace'], ['dies']]);
    assert.match(fs.readFileSync(path.join(page, 'comparison.html'), 'utf8'), /<h2>Missing<\/h2>[^]*dies/);
    assert.equal(runJson(first()).status, 'failed');
    await place.assertNothingLeft();
  });

  for (const [what, config, message] of [
    ['no machine at all', '{}', /--machine all: .*testbed\.config\.yaml names no machines.*old: \{ machine/s],
    ['a machine that is neither', 'machines:\n  odd: { hosts: docker }\n', /machines\.odd: expected ssh \(user@host\) or machine/],
    ['a machine called all', 'machines:\n  all: { machine: uml }\n', /expected another name: all, auto/],
    ['a kind that is none', 'machines:\n  odd: { machine: vax }\n', /machines\.odd\.machine: expected local, uml/],
  ] as const) {
    it(`says what is wrong with a configuration of ${what}`, async () => {
      const { code, stderr } = await run(config);
      assert.equal(code, 2, stderr);
      assert.match(stderr, message);
      assert.deepEqual(place.runs('out'), []);
    });
  }
});
