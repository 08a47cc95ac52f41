import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clean } from './clean.js';
import { openJournal, readJournal, tagVariable } from './journal.js';
import { isAlive, startTimeOf } from './processes.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('The journal of a run', () => {
  let folder = '';
  beforeEach(() => { folder = temporaryFolder('testbed-journal-test-'); });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** A journal as a run that was killed leaves it. */
  function left(tag: string, call: (journal: ReturnType<typeof openJournal>) => void): string {
    const journal = openJournal(tag, folder);
    call(journal);
    const dead = spawnSync(process.execPath, ['-e', '']).pid;
    const lines = readFileSync(journal.path, 'utf8').split('\n');
    lines[0] = JSON.stringify({ ...(JSON.parse(lines[0]!) as object), owner: { pid: dead, startTime: 1 } });
    writeFileSync(journal.path, lines.join('\n'));
    return journal.path;
  }

  it('lists what was made and not removed, in order', () => {
    const journal = openJournal('tagtag01', folder);
    const [first] = journal.add({ kind: 'folder', path: '/tmp/testbed-tagtag01' }, { kind: 'namespace', path: '/run/netns/tagtag01-R1' });
    journal.removed(first!);
    assert.deepEqual(readJournal(journal.path)?.open, [{ kind: 'namespace', path: '/run/netns/tagtag01-R1' }]);
  });

  it('is deleted when everything was removed, and kept otherwise', () => {
    const all = openJournal('tagtag02', folder);
    all.removed(...all.add({ kind: 'file', path: '/tmp/x' }));
    all.close();
    const some = openJournal('tagtag03', folder);
    some.add({ kind: 'file', path: '/tmp/x' });
    some.close();
    assert.deepEqual(readdirSync(folder), [`tagtag03-${process.pid}.jsonl`]);
  });

  it('can be read when its last line was cut by a crash', () => {
    const journal = openJournal('tagtag04', folder);
    journal.add({ kind: 'file', path: '/tmp/x' });
    appendFileSync(journal.path, '{"id":2,"kind":"fi');
    assert.deepEqual(readJournal(journal.path)?.open, [{ kind: 'file', path: '/tmp/x' }]);
  });

  it('refuses a folder whose name does not carry the tag, and paths that are not plain', () => {
    const journal = openJournal('tagtag05', folder);
    assert.throws(() => journal.add({ kind: 'folder', path: '/home' }), /tag/);
    assert.throws(() => journal.add({ kind: 'file', path: '/tmp/../etc/passwd' }), /plain absolute path/);
    assert.throws(() => journal.add({ kind: 'file', path: 'x' }), /plain absolute path/);
  });

  it('leaves a run alone whose owner is alive', () => {
    const journal = openJournal('tagtag06', folder);
    const file = join(folder, 'kept');
    writeFileSync(file, '');
    journal.add({ kind: 'file', path: file });
    const report = clean({ folder });
    assert.deepEqual([report.removed, report.live, existsSync(file)], [[], ['tagtag06'], true]);
  });

  it('removes what a dead run left, and nothing of a similar name', () => {
    const [ours, similar] = [join(folder, 'work-tagtag07'), join(folder, 'work-tagtag07-of-another')];
    for (const path of [ours, similar]) mkdirSync(join(path, 'deep'), { recursive: true });
    left('tagtag07', (journal) => journal.add({ kind: 'folder', path: ours }));
    assert.deepEqual(clean({ folder, dryRun: true }).removed, [`folder ${ours}`]);
    assert.ok(existsSync(ours), 'a dry run removes nothing');
    assert.deepEqual(clean({ folder }).removed, [`folder ${ours}`]);
    assert.deepEqual([existsSync(ours), existsSync(similar)], [false, true]);
    assert.deepEqual(clean({ folder }), { removed: [], failed: [], live: [] });
  });

  it("ends a dead run's processes by pid and start time, and by the tag in their environment, and no other", async function () {
    this.timeout(20_000);
    const tag = `t${process.pid.toString(36).padStart(7, '0').slice(-7)}`;
    const sleeper = (env: NodeJS.ProcessEnv) => spawn('sleep', ['600'], { stdio: 'ignore', env: { PATH: process.env['PATH'], ...env } });
    const [listed, tagged, stranger, samePid] = [sleeper({}), sleeper({ [tagVariable]: tag }), sleeper({ [tagVariable]: `${tag}x` }), sleeper({})];
    try {
      await new Promise((done) => setTimeout(done, 200));
      left(tag, (journal) => {
        journal.addProcess(listed.pid!);
        // A pid that has come round: its start time is another.
        journal.add({ kind: 'process', pid: samePid.pid!, startTime: 12 });
      });
      const strangerStart = startTimeOf(stranger.pid!);
      const report = clean({ folder });
      assert.deepEqual(report.failed, []);
      assert.equal(report.removed.length, 2, report.removed.join('\n'));
      assert.equal(startTimeOf(listed.pid!), undefined);
      assert.equal(startTimeOf(tagged.pid!), undefined);
      assert.ok(isAlive({ pid: stranger.pid!, startTime: strangerStart! }));
      assert.notEqual(startTimeOf(samePid.pid!), undefined);
    } finally {
      for (const one of [listed, tagged, stranger, samePid]) one.kill('SIGKILL');
    }
  });

  it('passes over a file that is no journal', () => {
    writeFileSync(join(folder, 'notes.jsonl'), 'hello\n');
    assert.deepEqual(clean({ folder }), { removed: [], failed: [], live: [] });
    assert.ok(existsSync(join(folder, 'notes.jsonl')));
  });
});
