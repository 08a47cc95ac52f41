/** `testbed run --machine all`: two guests, in virtual time, and machines that cannot. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { needsUml, Place, runJson } from '../testing/command.js';
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
