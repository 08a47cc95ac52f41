import assert from 'node:assert/strict';
import { Place } from '../testing/command.js';
import type { Ended } from '../testing/command.js';

describe('the command line', () => {
  let place: Place;
  let scenario: string;
  before(() => {
    place = new Place();
    scenario = place.write('s.yaml', 'name: s\ntopology: { routers: [R], hosts: { S: { at: R }, D: { at: R } } }\ntraffic: { t: { kind: bulk, from: S, to: D } }\n');
  });
  after(() => place.remove());

  const refused = async (expected: RegExp, ...args: readonly string[]): Promise<void> => {
    const { code, stdout, stderr } = await place.testbed(args);
    assert.deepEqual([code, stdout], [2, ''], stderr);
    assert.match(stderr, expected);
  };
  const run = (...args: readonly string[]): Promise<Ended> => place.testbed(args);

  it('refuses an option given twice, where the last would silently win, and says how several seeds are given', async () => {
    await refused(/'--seed <number>' is given twice \(1, 2\); expected once; several seeds are --set 'seeds=\[1, 2\]'\n\(see: testbed sim --help\)/, 'sim', scenario, '--dry-run', '--seed', '1', '--seed=2');
    await refused(/'-n, --last <count>' is given twice \(1, 1\); expected once\n\(see: testbed list --help\)/, 'list', '-n', '1', '--last', '1');
    await refused(/'--name <name>' is given twice.*\n\(see: testbed kernel build --help\)/, 'kernel', 'build', '--source', '.', '--name', 'a', '--name', 'b');
    const { stdout, code } = await run('sim', scenario, '--dry-run', '--dry-run', '--set', 'seeds=[4,5]', '--set', 'measure.duration=5s');
    assert.equal(code, 0);
    assert.match(stdout, /2 runs of 15s[^]*seed4[^]*seed5/);
  });

  it('refuses a number that is none instead of leaving the option out', async () => {
    await refused(/'-n, --last <count>' argument 'abc' is invalid/, 'list', '-n', 'abc');
    await refused(/'--run <n>' argument 'abc' is invalid/, 'plan', scenario, '--run', 'abc');
  });

  it('help COMMAND has every option of the command, and names one that is near', async () => {
    for (const words of [['run'], ['kernel', 'build'], ['query']]) {
      const [asked, own] = [await run('help', ...words), await run(...words, '--help')];
      assert.equal(asked.code, 0);
      assert.equal(asked.stdout, own.stdout);
    }
    assert.match((await run('help', 'run')).stdout, /--machine <name>/);
    await refused(/unknown command 'rnu'\n\(Did you mean run\?\)/, 'help', 'rnu');
  });
});
