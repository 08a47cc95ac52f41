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

  it('refuses an empty value, as of a variable of the shell that is not set', async () => {
    await refused(/option '--out <folder>' is given nothing: an empty value\n\(see: testbed sim --help\)/, 'sim', scenario, '--dry-run', '--out', '');
    await refused(/option '--set <path=value>' is given nothing/, 'sim', scenario, '--dry-run', '--set=');
    await refused(/option '--where <condition>' is given nothing/, 'list', '--where', '');
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
    for (const help of ['help', '--help', '-h']) assert.match((await run(help, 'run')).stdout, /--machine <name>/);
    await refused(/unknown command 'rnu'\n\(Did you mean run\?\)/, 'help', 'rnu');
  });

  it('names a folder of runs that is not there, or is a file, whatever the option is called', async () => {
    for (const [option, ...words] of [['--out', 'list'], ['--out', 'show', 'last'], ['--out', 'query', 'select 1'], ['--out', 'gc', '--keep', '1d'], ['--runs', 'compare', 'a', 'b'], ['--results', 'export', 'last', '--format', 'csv']] as const) {
      await refused(/argument 'nosuch' is invalid. there is no such folder/, ...words, option, 'nosuch');
      await refused(/argument '.*s\.yaml' is invalid. is a file; expected a folder with runs in it/, ...words, option, scenario);
    }
  });

  it('says what is wrong with a file or a folder given as a run, also where there are no runs', async () => {
    assert.match((await run('show', scenario)).stderr, /s\.yaml is a file, where the folder of a run is expected, and there is no run in results\/runs\n/);
    assert.match((await run('show', place.folder)).stderr, /is a folder, but not a run's .*, and there is no run in results\/runs\n/);
    assert.match((await run('show', 'last')).stderr, /^no run in results\/runs; start one with: testbed run FILE\n/);
    await refused(/--where: is empty/, 'list', '--where', ' ');
  });

  it('validate refuses a place it cannot write to before it runs anything, with the exit code of what could not be judged', async () => {
    await refused(/--table nosuch\/t\.md: cannot be written \(ENOENT\); expected a file in a folder that is there/, 'validate', scenario, '--table', 'nosuch/t.md');
    await refused(/--table \.: cannot be written \(EISDIR\)/, 'validate', scenario, '--table', '.');
    await refused(/results cannot be written there \(ENOTDIR\)/, 'validate', scenario, '--out', `${scenario}/x`);
  });
});
